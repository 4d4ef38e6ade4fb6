#include "agent/batch_policy.h"

#include <gtest/gtest.h>

namespace harrow::agent {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr BatchPolicy kPolicy{};

TEST(BatchPolicyTest, NothingWaitingIsNeverDue) {
  const BatchPolicy::State state{.hurry = true};
  EXPECT_FALSE(kPolicy.Due(state, milliseconds(1000)));
  EXPECT_FALSE(kPolicy.NextLook(state).has_value());
}

TEST(BatchPolicyTest, AResultWaitsForOthersUnlessASlotIsIdle) {
  BatchPolicy::State state{.oldest_result = milliseconds(10)};
  EXPECT_FALSE(kPolicy.Due(state, milliseconds(10) + microseconds(900)));
  EXPECT_EQ(kPolicy.NextLook(state), milliseconds(12));
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(12)));
  state.hurry = true;
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(10)));
}

TEST(BatchPolicyTest, WithAnIdleSlotResultsOfLongTasksWaitForOthersThatEndWithThem) {
  BatchPolicy::State state{
      .oldest_result = milliseconds(10), .hurry = true, .shortest_run = 256 * microseconds(300)};
  EXPECT_FALSE(kPolicy.Due(state, milliseconds(10) + microseconds(299)));
  EXPECT_EQ(kPolicy.NextLook(state), milliseconds(10) + microseconds(300));
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(10) + microseconds(300)));
  state.shortest_run = std::chrono::hours(1);
  EXPECT_FALSE(kPolicy.Due(state, milliseconds(10) + microseconds(1999)));
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(12)));
  state.shortest_run = -milliseconds(5);
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(10))) << "a clock was set back";
}

TEST(BatchPolicyTest, ThatTasksHaveBegunIsInNoHurry) {
  BatchPolicy::State state{.oldest_start = milliseconds(10), .hurry = true};
  EXPECT_FALSE(kPolicy.Due(state, milliseconds(59)));
  EXPECT_EQ(kPolicy.NextLook(state), milliseconds(60));
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(60)));
}

TEST(BatchPolicyTest, OutputAloneLeavesLaterOrWhenItIsMuch) {
  BatchPolicy::State state{.oldest_output = milliseconds(10), .output_bytes = 100};
  EXPECT_FALSE(kPolicy.Due(state, milliseconds(50)));
  EXPECT_EQ(kPolicy.NextLook(state), milliseconds(110));
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(110)));
  state.output_bytes = kPolicy.output_bytes;
  EXPECT_TRUE(kPolicy.Due(state, milliseconds(10)));
}

TEST(BatchPolicyTest, TheNearestReasonWakes) {
  const BatchPolicy::State state{
      .oldest_result = milliseconds(10), .oldest_output = milliseconds(5), .last_pulse = milliseconds(9)};
  EXPECT_EQ(kPolicy.NextLook(state), milliseconds(11));
}

}  // namespace
}  // namespace harrow::agent
