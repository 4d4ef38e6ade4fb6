#include "wire/rendezvous.h"

#include <gtest/gtest.h>

#include "support/memory_file_system.h"

namespace harrow::wire {
namespace {

Rendezvous Example() {
  Rendezvous r;
  r.run_id = "run \"7\"\n";
  r.epoch = 3;
  r.addresses = {"127.0.0.1:4711", "[::1]:4711"};
  r.key = NewKey();
  r.host = "node1";
  r.pid = 4242;
  return r;
}

TEST(Rendezvous, ReadsBackWhatWasWritten) {
  test::MemoryFileSystem fs;
  Rendezvous r = Example();
  ASSERT_TRUE(WriteRendezvous(fs, "run", r).ok());
  EXPECT_EQ(fs.Mode("run/server"), 0600u);
  Result<Rendezvous> got = ReadRendezvous(fs, "run");
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->run_id, r.run_id);
  EXPECT_EQ(got->epoch, r.epoch);
  EXPECT_EQ(got->addresses, r.addresses);
  EXPECT_EQ(got->key, r.key);
  EXPECT_EQ(got->host, r.host);
  EXPECT_EQ(got->pid, r.pid);
}

TEST(Rendezvous, AbsentIsNotFound) {
  test::MemoryFileSystem fs;
  EXPECT_EQ(ReadRendezvous(fs, "run").status().code(), Code::kNotFound);
}

TEST(Rendezvous, OpenToOthersOrForeignIsRefused) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(WriteRendezvous(fs, "run", Example()).ok());
  fs.SetMode("run/server", 0640);
  EXPECT_EQ(ReadRendezvous(fs, "run").status().code(), Code::kPermission);
  fs.SetMode("run/server", 0600);
  EXPECT_TRUE(ReadRendezvous(fs, "run").ok());
  fs.SetForeign("run/server");
  EXPECT_EQ(ReadRendezvous(fs, "run").status().code(), Code::kPermission);
}

TEST(Rendezvous, EveryCutAndEveryMissingMemberIsDamaged) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(WriteRendezvous(fs, "run", Example()).ok());
  std::string text = fs.Content("run/server");
  for (size_t n = 0; n + 2 < text.size(); ++n) {
    EXPECT_EQ(ParseRendezvous(text.substr(0, n)).status().code(), Code::kDamaged) << text.substr(0, n);
  }
  for (const char* member : {"version", "run_id", "epoch", "addresses", "key", "host", "pid"}) {
    std::string without = text;
    size_t at = without.find(std::string("\"") + member + "\"");
    ASSERT_NE(at, std::string::npos);
    without.replace(at + 1, 1, "?");
    Result<Rendezvous> got = ParseRendezvous(without);
    EXPECT_EQ(got.status().code(), Code::kDamaged) << member;
    EXPECT_NE(got.status().message().find(member), std::string::npos) << got.status().message();
  }
}

TEST(Rendezvous, OtherVersionAndBadKeyAreSaid) {
  auto text = [](std::string version, std::string key) {
    return "{\"version\": " + version + ", \"run_id\": \"r\", \"epoch\": 1, \"addresses\": [], \"key\": \"" +
           key + "\", \"host\": \"h\", \"pid\": 1}";
  };
  EXPECT_TRUE(ParseRendezvous(text("1", std::string(64, 'a'))).ok());
  EXPECT_EQ(ParseRendezvous(text("2", std::string(64, 'a'))).status().code(), Code::kRefused);
  EXPECT_EQ(ParseRendezvous(text("1", std::string(63, 'a'))).status().code(), Code::kDamaged);
  EXPECT_EQ(ParseRendezvous(text("1", std::string(62, 'a'))).status().code(), Code::kDamaged);
  EXPECT_EQ(ParseRendezvous(text("1", std::string(63, 'a') + "g")).status().code(), Code::kDamaged);
  EXPECT_EQ(ParseRendezvous("[]").status().code(), Code::kDamaged);
  EXPECT_EQ(ParseRendezvous("{\"version\": 1, \"version\": 1}").status().code(), Code::kDamaged);
}

TEST(Rendezvous, KeysDiffer) {
  EXPECT_EQ(NewKey().size(), 32u);
  EXPECT_NE(NewKey(), NewKey());
}

}  // namespace
}  // namespace harrow::wire
