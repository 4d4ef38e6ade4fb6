#include "agent/task_needs.h"

#include <gtest/gtest.h>

#include "agent/steps/environment.h"
#include "agent/steps/gang.h"

namespace harrow::agent {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

LocalTask WithSpec(ProfileSpec spec) {
  LocalTask task;
  const auto base = std::make_shared<BaseEnvironment>(EnvList{}, BaseEnvironment::Common{.submit_dir = "/flow"});
  task.profile = std::make_shared<TaskProfile>(std::move(spec), base);
  return task;
}

/// The part of the node that is number `here` of those.
Needs OfPart(std::vector<uint32_t> ranks, uint32_t here, ProfileSpec spec) {
  LocalTask task = WithSpec(std::move(spec));
  auto gang = std::make_shared<Gang>();
  for (const uint32_t count : ranks) gang->nodes.push_back({.ranks = count});
  gang->here = here;
  task.gang = gang;
  return NeedsOf(task);
}

TEST(TaskNeedsTest, ATaskNeedsWhatItsProfileSays) {
  const Needs needs = NeedsOf(WithSpec({.cores = 3, .devices = 2, .memory = 7, .time_limit = seconds(9)}));
  EXPECT_EQ(needs.processes, 1u);
  EXPECT_EQ(needs.cores, 3u);
  EXPECT_EQ(needs.devices, 2u);
  EXPECT_EQ(needs.memory, 7u);
  EXPECT_FALSE(needs.whole_node);
  EXPECT_EQ(needs.inputs, 0u);
  EXPECT_EQ(needs.time_limit, seconds(9));
  EXPECT_EQ(needs.checkpoint, Needs::Asked::kNot);
  EXPECT_TRUE(NeedsOf(WithSpec({.whole_node = true})).whole_node);
}

TEST(TaskNeedsTest, RanksDivideCoresAndDevices) {
  const Needs needs = NeedsOf(WithSpec({.cores = 8, .devices = 4, .whole_node = true, .ranks = 2}));
  EXPECT_EQ(needs.processes, 2u);
  EXPECT_EQ(needs.cores, 4u);
  EXPECT_EQ(needs.devices, 2u);
  EXPECT_FALSE(needs.whole_node) << "which one process can have";
  EXPECT_TRUE(NeedsOf(WithSpec({.cores = 8, .whole_node = true, .ranks = 1})).whole_node);
  EXPECT_FALSE(NeedsOf(WithSpec({.cores = 8, .ranks = 1})).whole_node);
}

TEST(TaskNeedsTest, OfAPartItsOwnRanksCount) {
  // Three ranks on two nodes: room for two on each.
  const ProfileSpec spec{.cores = 4, .devices = 2, .nodes = 2, .ranks = 3};
  const Needs lead = OfPart({2, 1}, 0, spec), other = OfPart({2, 1}, 1, spec);
  EXPECT_EQ(lead.processes, 2u);
  EXPECT_EQ(other.processes, 1u);
  for (const Needs& needs : {lead, other}) {
    EXPECT_EQ(needs.cores, 2u);
    EXPECT_EQ(needs.devices, 1u);
    EXPECT_FALSE(needs.whole_node);
  }
  EXPECT_TRUE(OfPart({1, 1}, 1, {.nodes = 2, .whole_node = true, .ranks = 2}).whole_node);
}

TEST(TaskNeedsTest, WithoutRanksTheLeadHasItsNodeAndTheOthersAreHeld) {
  const ProfileSpec spec{.cores = 2, .devices = 1, .nodes = 2, .time_limit = seconds(9)};
  const Needs lead = OfPart({0, 0}, 0, spec);
  EXPECT_EQ(lead.processes, 1u);
  EXPECT_TRUE(lead.whole_node);
  EXPECT_EQ(lead.time_limit, seconds(9));
  const Needs held = OfPart({0, 0}, 1, spec);
  EXPECT_EQ(held.processes, 1u);
  EXPECT_TRUE(held.whole_node);
  EXPECT_EQ(held.time_limit, seconds(0)) << "the lead node ends all of it";
  EXPECT_EQ(held.devices, 0u);
}

TEST(TaskNeedsTest, OneIsWarnedByASignalOnly) {
  EXPECT_EQ(NeedsOf(WithSpec({.warn_signal = 1, .warn_before = minutes(1)})).warn_before, minutes(1));
  EXPECT_EQ(NeedsOf(WithSpec({.warn_before = minutes(1)})).warn_before, minutes(0));
}

TEST(TaskNeedsTest, HowACheckpointIsAskedFor) {
  CheckpointSpec checkpoint{.on = true, .ask = CheckpointSpec::Ask::kNone, .every = minutes(3), .time = seconds(4)};
  const Needs by_end = NeedsOf(WithSpec({.checkpoint = checkpoint}));
  EXPECT_EQ(by_end.checkpoint, Needs::Asked::kByEnd);
  EXPECT_EQ(by_end.checkpoint_every, minutes(3));
  EXPECT_EQ(by_end.checkpoint_time, seconds(4));
  EXPECT_FALSE(by_end.ask_all);
  EXPECT_FALSE(by_end.ask_none);
  checkpoint.ask = CheckpointSpec::Ask::kSignal;
  EXPECT_EQ(NeedsOf(WithSpec({.checkpoint = checkpoint})).checkpoint, Needs::Asked::kByQuestion);

  // The lead node asks for those of all nodes, unless each process is to be asked.
  for (const bool all : {false, true}) {
    checkpoint.ask_all = all;
    const ProfileSpec spec{.nodes = 2, .ranks = 2, .checkpoint = checkpoint};
    for (const uint32_t here : {0u, 1u}) {
      const Needs part = OfPart({1, 1}, here, spec);
      EXPECT_EQ(part.ask_all, all);
      EXPECT_EQ(part.ask_none, here == 1 && !all);
    }
    EXPECT_FALSE(NeedsOf(WithSpec({.checkpoint = checkpoint})).ask_none);
  }
}

}  // namespace
}  // namespace harrow::agent
