#include "run_dir/rendezvous.h"

#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "support/memory_file_system.h"

namespace harrow::run_dir {
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

TEST(Rendezvous, IsReadAsItIsWritten) {
  std::string key;
  for (int i = 0; i < 32; ++i) key.push_back(static_cast<char>(i * 8 + 1));
  const std::string hex = "0109111921293139414951596169717981899199a1a9b1b9c1c9d1d9e1e9f1f9";
  const auto text = [&](const std::string& epoch, const std::string& hexadecimal) {
    return "{\"version\": 1, \"run_id\": \"r\", \"epoch\": " + epoch +
           ", \"addresses\": [\"127.0.0.1:1\"], \"key\": \"" + hexadecimal +
           "\", \"host\": \"h\", \"pid\": 7}";
  };
  Result<Rendezvous> got = ParseRendezvous(text("5", hex));
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->key, key);
  EXPECT_EQ(got->version, 1u);
  EXPECT_EQ(got->epoch, 5u);
  EXPECT_TRUE(ParseRendezvous(text("0", hex)).ok());
  EXPECT_EQ(ParseRendezvous(text("-1", hex)).status().code(), Code::kDamaged);
  for (const std::string odd : {"0g", "g0", "0A", "A0", "0`", "`0", "0/", "/0", "0:", ":0"}) {
    EXPECT_EQ(ParseRendezvous(text("1", odd + hex.substr(2))).status().code(), Code::kDamaged) << odd;
  }
  EXPECT_EQ(ParseRendezvous(text("1", hex + "00")).status().code(), Code::kDamaged) << "33 bytes";
  EXPECT_EQ(ParseRendezvous(text("1", hex + "0")).status().code(), Code::kDamaged);
  test::MemoryFileSystem fs;
  Rendezvous r = Example();
  r.key = key;
  ASSERT_TRUE(WriteRendezvous(fs, "run", r).ok());
  EXPECT_NE(fs.Content("run/server").find(hex), std::string::npos);
  ASSERT_TRUE(fs.WriteWhole("run/server", "{}", 0600).ok());
  EXPECT_NE(ReadRendezvous(fs, "run").status().message().find("run/server: "), std::string::npos);
  ASSERT_TRUE(fs.WriteWhole("run/server", std::string(65'537, ' '), 0600).ok());
  EXPECT_FALSE(ReadRendezvous(fs, "run").ok());
}

TEST(Rendezvous, KeysDiffer) {
  EXPECT_EQ(NewKey().size(), 32u);
  EXPECT_NE(NewKey(), NewKey());
}

TEST(Rendezvous, EveryByteOfAKeyIsDrawn) {
  std::vector<std::set<char>> values(32);
  for (int i = 0; i < 64; ++i) {
    const std::string key = NewKey();
    ASSERT_EQ(key.size(), values.size());
    for (size_t byte = 0; byte < key.size(); ++byte) values[byte].insert(key[byte]);
  }
  // 64 draws of 256 values take 56 of them on average.
  for (size_t byte = 0; byte < values.size(); ++byte) EXPECT_GE(values[byte].size(), 30u) << byte;
}

}  // namespace
}  // namespace harrow::run_dir
