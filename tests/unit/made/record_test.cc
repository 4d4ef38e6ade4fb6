#include "made/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/memory_file_system.h"

namespace harrow::made {
namespace {

class RecordTest : public testing::Test {
 protected:
  Attempts Of(const std::string& run_dir, const std::string& flow_id = "flow") {
    return ReadAll(fs_, run_dir, flow_id);
  }
  test::MemoryFileSystem fs_;
};

TEST_F(RecordTest, ReadsBackWhatWasWritten) {
  const Attempts attempts = {{3, {.task = 3, .attempt = 2, .begin_ns = 100, .end_ns = 200, .found = {0, 4}}},
                             {9, {.task = 9, .attempt = 1, .begin_ns = 50, .end_ns = 60}}};
  ASSERT_TRUE(WriteAll(fs_, "r", "flow", attempts).ok());
  EXPECT_EQ(Of("r"), attempts);
  EXPECT_TRUE(Of("r", "flow-2").empty()) << "these numbers are other tasks";
  EXPECT_EQ(fs_.Mode("r/made"), 0600u);
}

TEST_F(RecordTest, OfSeveralRecordsTheNewestAttemptCounts) {
  fs_.SetNow(WallTime(std::chrono::seconds(1000)));
  ASSERT_TRUE(WriteAll(fs_, "r", "flow",
                       {{1, {.task = 1, .attempt = 2, .begin_ns = 7, .end_ns = 8}},
                        {2, {.task = 2, .attempt = 1, .begin_ns = 7, .end_ns = 8}},
                        {3, {.task = 3, .attempt = 1, .begin_ns = 7, .end_ns = 8}}})
                  .ok());
  ASSERT_TRUE(WriteAll(fs_, "other", "flow",
                       {{1, {.task = 1, .attempt = 1, .begin_ns = 17, .end_ns = 18}},
                        {2, {.task = 2, .attempt = 1, .begin_ns = 17, .end_ns = 18}},
                        {3, {.task = 3, .attempt = 2, .begin_ns = 5, .end_ns = 6}}})
                  .ok());
  ASSERT_TRUE(fs_.Rename("other/made", "r/output/5.made").ok());
  const Attempts all = Of("r");
  EXPECT_EQ(all.at(1).begin_ns, 17)
      << "a lower number, given again after the higher one got lost with its server";
  EXPECT_EQ(all.at(2).begin_ns, 17) << "a number that was given again";
  EXPECT_EQ(all.at(3).begin_ns, 7) << "whichever is read last";
}

TEST_F(RecordTest, ADamagedEndTellsNothing) {
  Attempts attempts;
  for (uint32_t i = 0; i < 20; ++i) attempts[i] = {.task = i, .attempt = 1, .begin_ns = 1, .end_ns = 2, .found = {i}};
  ASSERT_TRUE(WriteAll(fs_, "r", "flow", attempts).ok());
  const size_t size = fs_.Content("r/made").size();
  size_t known = attempts.size();
  for (size_t cut = size; cut-- > 0;) {
    fs_.Truncate("r/made", cut);
    const Attempts left = Of("r");
    ASSERT_LE(left.size(), known) << cut;
    for (const auto& [task, attempt] : left) ASSERT_EQ(attempt.found, attempts[task].found) << cut;
    known = left.size();
  }
  EXPECT_EQ(known, 0u);
  ASSERT_TRUE(WriteAll(fs_, "r", "flow", attempts).ok());
  for (size_t bit = 0; bit < size * 8; bit += 5) {
    fs_.FlipBit("r/made", bit);
    for (const auto& [task, attempt] : Of("r")) {
      ASSERT_TRUE(attempts.contains(task)) << bit;
      ASSERT_EQ(attempt.found, attempts[task].found) << bit;
      ASSERT_EQ(attempt.begin_ns, 1) << bit;
    }
    fs_.FlipBit("r/made", bit);
  }
}

TEST_F(RecordTest, AnAttemptWithoutAnEndEndedSoonAfterItsAgentsLastSignOfLife) {
  ASSERT_TRUE(WriteAll(fs_, "r", "flow", {{1, {.task = 1, .attempt = 1, .begin_ns = 7, .end_ns = 8}}}).ok());
  const std::string whole = fs_.Content("r/made");
  fs_.SetNow(WallTime(std::chrono::seconds(1000)));
  ASSERT_TRUE(fs_.WriteWhole("r/output/1.made", whole.substr(0, whole.size() - 32)).ok());
  ASSERT_TRUE(fs_.Remove("r/made").ok());
  const Attempts all = Of("r");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(Duration(all.at(1).end_ns), std::chrono::seconds(1000) + Record::kSilence);
}

}  // namespace
}  // namespace harrow::made
