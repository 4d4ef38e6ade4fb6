#include "formats/identity.h"

#include <gtest/gtest.h>
#include <set>

#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;

std::vector<Identity> Of(std::string_view name, std::string_view text) {
  LoadedFlow f(name, text);
  EXPECT_TRUE(f.status.ok()) << f.status.message();
  return Identities(f.graph);
}

TEST(IdentityTest, ALineIsItsTextAndItsOccurrence) {
  const std::vector<Identity> before = Of("a.txt", "x 1\nx 2\nx 1\n");
  EXPECT_EQ(std::set<Identity>(before.begin(), before.end()).size(), 3u);
  // A line put in front changes no other; the first "x 1" stays the first.
  const std::vector<Identity> after = Of("b.txt", "new\nx 1\n\n# c\nx 1\nx 2\n");
  EXPECT_EQ(after[1], before[0]);
  EXPECT_EQ(after[2], before[2]);
  EXPECT_EQ(after[3], before[1]);
}

constexpr const char* kTask =
    "[[task]]\nname=\"a\"\ncommand=\"x y\"\nin=[\"i\"]\nout=[\"o\"]\ncwd=\"d\"\nenv={A=\"1\"}\n";

TEST(IdentityTest, WhatMakesATaskAnotherOne) {
  const Identity task = Of("f.toml", kTask)[0];
  const auto changed = [&](std::string_view what, std::string_view into) {
    std::string text = kTask;
    text.replace(text.find(what), what.size(), into);
    return Of("f.toml", text)[0] != task;
  };
  EXPECT_TRUE(changed("\"a\"", "\"b\""));
  EXPECT_TRUE(changed("x y", "x  y"));
  EXPECT_TRUE(changed("\"x y\"", "[\"x\", \"y\"]"));
  EXPECT_TRUE(changed("in=[\"i\"]", "in=[\"i\", \"j\"]"));
  EXPECT_TRUE(changed("in=[\"i\"]\nout=[\"o\"]", "in=[\"i\", \"o\"]"));
  EXPECT_TRUE(changed("[\"o\"]", "[\"p\"]"));
  EXPECT_TRUE(changed("cwd=\"d\"", "cwd=\"e\""));
  EXPECT_TRUE(changed("A=\"1\"", "A=\"2\""));
  EXPECT_TRUE(changed("cwd", "shell=\"bash\"\ncwd"));
  // Resources, retries and the like change how it runs, not what it is.
  EXPECT_FALSE(changed("cwd", "cores=4\nretries=2\ntime=\"5m\"\nkind=\"k\"\npriority=2\ncwd"));
  EXPECT_FALSE(changed("[\"i\"]", "[\"./i\"]"));
}

TEST(IdentityTest, DoesNotChangeFromVersionToVersion) {
  // Fixed: a run that was begun by an older program has to be resumed by a newer one.
  const Identity line = Of("a.txt", "mAdd a b\n")[0], task = Of("f.toml", kTask)[0];
  EXPECT_EQ(line, (Identity{0x6284bb3e86e8f752, 0x520711d66c2427fd})) << std::hex << line.high << " " << line.low;
  EXPECT_EQ(task, (Identity{0x6dbded7302c11caa, 0xd96ec4779c25d78d})) << std::hex << task.high << " " << task.low;
}

}  // namespace
}  // namespace harrow::formats
