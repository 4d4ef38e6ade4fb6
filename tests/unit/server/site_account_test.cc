#include "server/site_account.h"

#include <gtest/gtest.h>

#include "support/memory_file_system.h"
#include "unit/run/test_flow.h"

namespace harrow::server {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

graph::Profile FourCores() {
  graph::Profile profile;
  profile.shape.cores = 4;
  return profile;
}

journal::AttemptRecord Attempt(uint32_t task, int64_t from_second, int64_t to_second) {
  journal::AttemptRecord record;
  record.task = TaskId(task);
  record.attempt = 1;
  record.start_ns = from_second * kSecond;
  record.end_ns = to_second * kSecond;
  return record;
}

Figures Used(uint64_t attempts, double core_seconds) {
  Figures figures;
  figures.attempts = attempts;
  figures.core_seconds = core_seconds;
  return figures;
}

std::string OnlyAccount(os::FileSystem& fs) {
  const Result<std::vector<std::string>> names = fs.List("/local");
  if (!names.ok() || names->size() != 1 || !names->front().starts_with(".harrow-run-"))
    return "not one account";
  return *fs.Read("/local/" + names->front());
}

TEST(SiteAccount, CountsWhatThisRunUsedAndNotWhatWasDoneBefore) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/local").ok());
  run::StoredFlow flow = test::TinyFlow({{"a", "a", {}, {}, FourCores()}, {"b", "b", {}, {}, {}}});
  flow.settings.name = "mosaic";
  flow.settings.started = WallTime(std::chrono::seconds(1000));
  journal::History history;
  // In an earlier job: 10 s on 4 cores. By an earlier server of this one: 5 s on one.
  history.attempts = {Attempt(0, 900, 910), Attempt(1, 1001, 1006)};
  SiteAccount account(fs, "/local", flow.settings, flow.graph, history);
  account.Leave(Used(2, 45));
  EXPECT_EQ(OnlyAccount(fs), "harrow-run 1\nrun mosaic\ntasks 1\ncore_seconds 5\n");
  account.Leave(Used(7, 3655.5));
  EXPECT_EQ(OnlyAccount(fs), "harrow-run 1\nrun mosaic\ntasks 6\ncore_seconds 3616\n");
}

TEST(SiteAccount, ARunBegunAndGoneOnWithInOneJobHasTwo) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/local").ok());
  run::StoredFlow flow = test::TinyFlow({{"a", "a", {}, {}, {}}});
  for (int session : {1000, 2000}) {
    flow.settings.started = WallTime(std::chrono::seconds(session));
    SiteAccount(fs, "/local", flow.settings, flow.graph, {}).Leave(Used(1, 1));
  }
  EXPECT_EQ(fs.List("/local")->size(), 2u);
}

TEST(SiteAccount, WithoutADirectoryNothingIsWritten) {
  test::MemoryFileSystem fs;
  const run::StoredFlow flow = test::TinyFlow({{"a", "a", {}, {}, {}}});
  SiteAccount nobody(fs, "", flow.settings, flow.graph, {});
  EXPECT_FALSE(nobody.wanted());
  nobody.Leave(Used(1, 1));
  fs.Fail("/none/.harrow-new-run.0", Status(Code::kNotFound, "no such directory"));
  SiteAccount gone(fs, "/none", flow.settings, flow.graph, {});
  EXPECT_TRUE(gone.wanted());
  gone.Leave(Used(1, 1));
  EXPECT_FALSE(gone.wanted()) << "one failure is enough";
}

}  // namespace
}  // namespace harrow::server
