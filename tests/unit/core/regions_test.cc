// Tasks without a place of their own run beside those with which they will be read (Options::local_files).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using ::testing::Each;
using ::testing::SizeIs;
using test::ToldScheduler;

constexpr uint32_t kPairs = 4;

/// P0, P1 and so on; of those with the same remainder by kPairs, tasks read the outputs.
class Region : public ToldScheduler {
 public:
  explicit Region(Options options = {.policy = order::Policy::kAuto, .local_files = true})
      : ToldScheduler(With(options)) {}
  void AddMaker(uint32_t n) { Add(Maker(n), {}, {}, {File("f", n)}); }
  void AddPairs() {
    for (uint32_t n = 0; n < 2 * kPairs; ++n) AddMaker(n);
    AddReaders();
  }
  void AddReaders() {
    for (uint32_t n = 0; n < kPairs; ++n) Add(File("R", n), {}, {File("f", n), File("f", n + kPairs)});
  }
  static std::string Maker(uint32_t n) { return File("P", n); }
  static std::string File(const std::string& word, uint32_t n) { return word + std::to_string(n); }

  void See() {
    for (const Action& action : last()) {
      if (const auto* start = std::get_if<StartTask>(&action)) running_[start->node.value].push_back(start->attempt);
    }
  }
  void BeginAndSee(const std::vector<NodeCapacity>& nodes) {
    Begin(nodes);
    See();
  }
  /// The tasks that the node has, first of all: they come first in the order in which they were started.
  void EndOne(uint32_t node, uint32_t makers, Duration run_time = std::chrono::seconds(1)) {
    const AttemptId attempt = running_[node].front();
    running_[node].erase(running_[node].begin());
    std::vector<Event> events;
    if (attempt.task.value < makers) {
      events.push_back(FileStored{ToldScheduler::File(File("f", attempt.task.value)), NodeId(node), 100});
      at_[attempt.task.value] = node;
      made_[node].push_back(attempt.task.value);
    }
    events.push_back(TaskEnded{attempt, NodeId(node), Done{}, run_time});
    TellAll(events);
    See();
  }
  void Lose(uint32_t node) {
    running_.erase(node);
    Tell(NodeLost{NodeId(node)});
    See();
  }
  /// Nodes end what they have in turns, from begin to end.
  void RunAll(uint32_t makers) {
    for (bool some = true; some;) {
      some = false;
      for (uint32_t node = 0; node < 8; ++node) {
        if (running_[node].empty()) continue;
        EndOne(node, makers);
        some = true;
      }
    }
  }
  /// Of so many makers in a line, those whose next one was made at another node.
  uint32_t Over(uint32_t count) {
    uint32_t over = 0;
    for (uint32_t n = 0; n + 1 < count; ++n) over += at_[n] != at_[n + 1];
    return over;
  }
  const std::map<uint32_t, std::vector<AttemptId>>& running() const { return running_; }
  std::map<uint32_t, uint32_t> at_;                 // maker: node
  std::map<uint32_t, std::vector<uint32_t>> made_;  // node: makers

 private:
  static Options With(Options options) {
    options.shared_files = false;
    return options;
  }
  std::map<uint32_t, std::vector<AttemptId>> running_;
};

const std::vector<NodeCapacity> kTwo = {{1, 0, 0}, {1, 0, 0}};

TEST(Regions, WhatIsReadTogetherIsMadeAtOneNode) {
  Region s;
  s.AddPairs();
  s.BeginAndSee(kTwo);
  s.RunAll(2 * kPairs);
  ASSERT_THAT(s.at_, SizeIs(2 * kPairs));
  for (uint32_t n = 0; n < kPairs; ++n) EXPECT_EQ(s.at_[n], s.at_[n + kPairs]) << n;
  EXPECT_THAT(s.made_[0], SizeIs(kPairs)) << "each node makes half of them";
}

TEST(Regions, WhatReadsTheSameFileReadsItAtOneNode) {
  Region s;
  for (uint32_t n = 0; n < 2 * kPairs; ++n)
    s.Add(Region::Maker(n), {}, {Region::File("x", n % kPairs)}, {Region::File("f", n)});
  s.BeginAndSee(kTwo);
  s.RunAll(2 * kPairs);
  ASSERT_THAT(s.at_, SizeIs(2 * kPairs));
  for (uint32_t n = 0; n < kPairs; ++n) EXPECT_EQ(s.at_[n], s.at_[n + kPairs]) << n;
}

TEST(Regions, ThreeNodesGetAThirdEach) {
  Region s;
  for (uint32_t n = 0; n < 12; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n < 4; ++n)
    s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 4), Region::File("f", n + 8)});
  s.BeginAndSee({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
  s.RunAll(12);
  for (uint32_t node = 0; node < 3; ++node) EXPECT_THAT(s.made_[node], SizeIs(4)) << node;
}

TEST(Regions, EightNodesGetAnEighthEachAndNoneInPieces) {
  constexpr uint32_t kCount = 128;
  Region s;
  for (uint32_t n = 0; n < kCount; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n + 1 < kCount; ++n) s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)});
  s.BeginAndSee(std::vector<NodeCapacity>(8, {1, 0, 0}));
  s.RunAll(kCount);
  for (uint32_t node = 0; node < 8; ++node) EXPECT_THAT(s.made_[node], SizeIs(kCount / 8)) << node;
  EXPECT_LE(s.Over(kCount), 10u);
}

TEST(Regions, ANodeOfMoreSlotsGetsMoreOfThem) {
  Region s;
  for (uint32_t n = 0; n < 16; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n + 1 < 16; ++n) s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)});
  s.BeginAndSee({{1, 0, 0}, {3, 0, 0}});
  // Node 0 ends one of one, meanwhile node 1 three of three.
  while (!s.running().at(0).empty() || !s.running().at(1).empty()) {
    if (!s.running().at(0).empty()) s.EndOne(0, 16);
    for (int i = 0; i < 3 && !s.running().at(1).empty(); ++i) s.EndOne(1, 16);
  }
  EXPECT_THAT(s.made_[0], SizeIs(::testing::AllOf(::testing::Ge(3u), ::testing::Le(5u))));
  EXPECT_LE(s.Over(16), 2u) << "stretches of the line";
}

TEST(Regions, NoSlotWaitsAndAFasterNodeTakesMore) {
  Region s;
  for (uint32_t n = 0; n < 16; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n + 1 < 16; ++n) s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)});
  s.BeginAndSee(kTwo);
  while (!s.running().at(1).empty()) s.EndOne(1, 16);  // node 0 works at its first all the time
  EXPECT_THAT(s.made_[1], SizeIs(15));
}

TEST(Regions, ANodeThatJoinsGetsAShareOfIts) {
  Region s;
  for (uint32_t n = 0; n < 16; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n + 1 < 16; ++n) s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)});
  s.BeginAndSee({{1, 0, 0}});
  s.EndOne(0, 16);
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  s.See();
  s.RunAll(16);
  ASSERT_THAT(s.made_[1], SizeIs(::testing::AllOf(::testing::Ge(6u), ::testing::Le(9u))));
  EXPECT_LE(s.Over(16), 2u);
}

TEST(Regions, WhoComesLaterIsPutInOrderWithThoseThatWait) {
  Region s;
  for (uint32_t n = 0; n < kPairs; ++n) s.AddMaker(n);
  s.BeginAndSee(kTwo);
  for (uint32_t n = kPairs; n < 8 * kPairs; ++n) s.AddMaker(n);
  for (uint32_t n = 2; n < 4 * kPairs; ++n)
    s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 4 * kPairs)});
  s.Tell(s.Added());
  s.See();
  s.RunAll(8 * kPairs);
  uint32_t apart = 0;
  for (uint32_t n = kPairs; n < 4 * kPairs; ++n) apart += s.at_[n] != s.at_[n + 4 * kPairs];
  EXPECT_LE(apart, 1u);
}

TEST(Regions, WhatComesToReadThoseThatWaitCounts) {
  for (const bool others_read_already : {false, true}) {
    SCOPED_TRACE(others_read_already);
    constexpr uint32_t kCount = 8 * kPairs;
    Region s;
    for (uint32_t n = 0; n < kCount; ++n) s.AddMaker(n);
    for (uint32_t n = 0; others_read_already && n < kCount; ++n) s.Add(Region::File("S", n), {}, {Region::File("f", n)});
    s.BeginAndSee(kTwo);
    for (uint32_t n = 0; n < kCount / 2; ++n)
      s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + kCount / 2)});
    s.Tell(s.Added());
    s.See();
    s.RunAll(kCount);
    uint32_t apart = 0;
    for (uint32_t n = 0; n < kCount / 2; ++n) apart += s.at_[n] != s.at_[n + kCount / 2];
    EXPECT_LE(apart, 4u);
  }
}

TEST(Regions, WhatIsMadeOnceMoreIsPutInOrderOnceMore) {
  constexpr uint32_t kCount = 8 * kPairs;
  const auto other = [](uint32_t n) { return kCount / 2 + n * 5 % (kCount / 2); };
  Region s;
  for (uint32_t n = 0; n < kCount; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n < kCount / 2; ++n)
    s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", other(n)), "late"});
  s.profile.priority = -1;
  s.Add("late", {}, {}, {"late"});
  s.BeginAndSee({{1, 0, 0}});
  for (uint32_t n = 0; n < kCount; ++n) s.EndOne(0, kCount);
  ASSERT_EQ(s.State("late"), TaskState::kSent);
  s.Lose(0);
  s.at_.clear();
  std::vector<Event> joined;
  for (uint32_t node = 1; node < 4; ++node) joined.push_back(NodeJoined{NodeId(node), {1, 0, 0}});
  s.TellAll(joined);
  s.See();
  s.RunAll(kCount);
  ASSERT_THAT(s.at_, SizeIs(kCount));
  uint32_t apart = 0;
  for (uint32_t n = 0; n < kCount / 2; ++n) apart += s.at_[n] != s.at_[other(n)];
  EXPECT_LE(apart, 4u);
}

TEST(Regions, OfAStretchOfWhichMostAreCancelledSomeoneTakesWhatIsLeft) {
  constexpr uint32_t kCount = 64;
  Region s;
  for (uint32_t n = 0; n < kCount; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n + 1 < kCount; ++n) s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)});
  s.BeginAndSee({{1, 0, 0}});
  std::vector<Event> events;
  for (uint32_t n = 0; n < kCount; ++n) {
    if (n % 16 != 3 && s.State(Region::Maker(n)) == TaskState::kReady) events.push_back(CancelRequested{s[Region::Maker(n)]});
  }
  s.TellAll(events);
  for (uint32_t node = 1; node < 3; ++node) {
    s.Tell(NodeJoined{NodeId(node), {1, 0, 0}});
    s.See();
    ASSERT_THAT(s.running().at(node), SizeIs(1));
    EXPECT_EQ(s.running().at(node).front().task.value % 16, 3u);
  }
  s.RunAll(kCount);
  EXPECT_THAT(s.at_, SizeIs(::testing::AnyOf(4u, 5u))) << "the first may be one of them";
}

/// A line of makers that run for longer than what is sent ahead may, behind a short task.
TEST(Regions, NobodyLosesItsPlaceWhereATaskIsOnlyLookedAt) {
  Region s({.policy = order::Policy::kAuto, .local_files = true, .ahead_limit = std::chrono::milliseconds(300)});
  constexpr uint32_t kCount = 32;
  for (uint32_t n = 0; n < kCount; ++n) s.AddMaker(n);
  for (uint32_t n = 0; n + 1 < kCount; ++n) s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)});
  s.profile.priority = 1;
  s.Add("short", {}, {}, {"short"});
  s.BeginAndSee({{1, 0, 0}});
  s.Tell(RoundTripMeasured{NodeId(0), std::chrono::milliseconds(100)});
  ASSERT_EQ(s.running().at(0).front().task, s["short"]);
  std::vector<uint32_t> made;
  s.EndOne(0, 0, std::chrono::milliseconds(1));
  while (!s.running().at(0).empty()) {
    const TaskId task = s.running().at(0).front().task;
    if (task.value < kCount) made.push_back(task.value);
    s.Tell(TaskStarted{s.running().at(0).front(), NodeId(0)});
    s.See();
    for (int looks = 0; looks < 3; ++looks) {
      s.Tell(RoundTripMeasured{NodeId(0), std::chrono::milliseconds(100 + looks)});
      s.See();
    }
    s.EndOne(0, kCount);
  }
  ASSERT_THAT(made, SizeIs(kCount));
  for (uint32_t i = 0; i + 1 < kCount; ++i)
    EXPECT_LE(std::max(made[i], made[i + 1]) - std::min(made[i], made[i + 1]), 3u) << i;
}

TEST(Regions, ATaskThatComesBackIsTakenInItsPlaceIfNobodyPassedThat) {
  Region s;
  s.AddPairs();
  s.BeginAndSee({{1, 0, 0}});
  const AttemptId first = s.running().at(0).front();
  s.Tell(TaskReturned{first, NodeId(0)});
  s.See();
  EXPECT_EQ(s.running().at(0).back().task, first.task);
}

TEST(Regions, WhatComesBackToAnotherQueueStandsInTheOneItWasInNoMore) {
  Region s;
  for (uint32_t n = 0; n < 4 * kPairs; ++n) s.Add(Region::Maker(n), {}, {Region::File("x", n)}, {Region::File("f", n)});
  s.profile.priority = -1;
  s.Add("late");
  for (uint32_t n = 0; n < 2 * kPairs; ++n)
    s.Add(Region::File("R", n), {"late"}, {Region::File("f", n), Region::File("f", n + 2 * kPairs)});
  s.BeginAndSee(kTwo);
  const TaskId first = s.running().at(1).front().task;
  s.now += std::chrono::milliseconds(500);
  s.Tell(FileStored{s.ToldScheduler::File(Region::File("x", first.value)), NodeId(1), 100});
  s.Tell(TaskStarted{s.running().at(1).front(), NodeId(1)});
  s.EndOne(1, 4 * kPairs);
  ASSERT_THAT(s.running().at(1), SizeIs(2)) << "one of them ahead";
  const TaskId ahead = s.running().at(1).back().task;
  ASSERT_NE(ahead, s["P1"]) << "it stood between others";
  s.Tell(FileStored{s.ToldScheduler::File(Region::File("x", ahead.value)), NodeId(0), 100});
  s.Tell(TaskReturned{s.running().at(1).back(), NodeId(1)});
  EXPECT_EQ(s.State(Region::Maker(ahead.value)), TaskState::kReady) << "for node 0";
}

TEST(Regions, NodesGoOnWhereTheyAreWhenOthersCome) {
  Region s;
  for (uint32_t n = 0; n < 8; ++n) s.AddMaker(n);
  const auto read = [&](uint32_t n) { s.Add(Region::File("R", n), {}, {Region::File("f", n), Region::File("f", n + 1)}); };
  for (uint32_t n = 0; n < 7; ++n) read(n);
  s.BeginAndSee(kTwo);
  const uint32_t begun[] = {s.running().at(0).back().task.value, s.running().at(1).back().task.value};
  const uint32_t others = 15;  // tasks before them
  for (uint32_t n = 8; n < 32; ++n) s.AddMaker(n);
  for (uint32_t n = 7; n < 31; ++n) read(n);
  s.Tell(s.Added());
  for (const uint32_t node : {1u, 0u}) {
    s.EndOne(node, 8);
    uint32_t next = s.running().at(node).back().task.value;
    if (next >= others) next -= others - 8;
    EXPECT_LE(std::max(next, begun[node]) - std::min(next, begun[node]), 2u) << node << ": after " << begun[node];
  }
}

TEST(Regions, ALostNodesPartGoesToTheOthers) {
  Region s;
  s.AddPairs();
  s.BeginAndSee(kTwo);
  s.Tell(NodeLost{NodeId(1)});
  s.See();
  for (int i = 0; i < 100 && !s.running().at(0).empty(); ++i) s.EndOne(0, 2 * kPairs);
  EXPECT_THAT(s.made_[0], SizeIs(2 * kPairs));
}

TEST(Regions, TheOrdersOfThePaperAreKeptAndSoIsSharedStorage) {
  for (const Options& options : {Options{.policy = order::Policy::kFifo, .local_files = true},
                                 Options{.policy = order::Policy::kAuto, .locality = false, .local_files = true},
                                 Options{.policy = order::Policy::kAuto}}) {
    Region s(options);
    s.AddPairs();
    s.BeginAndSee(kTwo);
    EXPECT_EQ(s.running().at(1).front().task, s["P1"]);
  }
}

TEST(Regions, APriorityGoesBeforeThem) {
  Region s;
  for (uint32_t n = 0; n < 2 * kPairs; ++n) {
    s.profile.priority = n < kPairs ? 0 : -1;
    s.AddMaker(n);
  }
  s.profile.priority = 0;
  s.AddReaders();
  s.BeginAndSee({{1, 0, 0}});
  for (uint32_t n = 0; n < kPairs; ++n) s.EndOne(0, 2 * kPairs);
  EXPECT_THAT(s.made_[0], Each(::testing::Lt(kPairs)));
}

TEST(Regions, ThoseOfTheLevelThatIsFirst) {
  Region s;
  s.AddPairs();
  s.Add("Then", {"R1", "R2", "R3"});  // all but P0 and P4 are at a higher level
  s.BeginAndSee({{1, 0, 0}});
  s.RunAll(2 * kPairs);
  ASSERT_THAT(s.made_[0], SizeIs(2 * kPairs));
  EXPECT_EQ(s.made_[0][0], 0u) << "is first in the flow, and P4 is not enough for an order";
  EXPECT_EQ(s.made_[0][1] % kPairs, s.made_[0][2] % kPairs);
}

TEST(Regions, WhatDoesNotFitIsLeft) {
  Region s;
  for (uint32_t n = 0; n < 2 * kPairs; ++n) {
    s.profile.shape.cores = n >= kPairs ? 2 : 1;
    s.AddMaker(n);
  }
  s.profile.shape.cores = 1;
  s.AddReaders();
  s.BeginAndSee({{1, 0, 0}, {2, 0, 0}});
  s.RunAll(2 * kPairs);
  EXPECT_THAT(s.at_, SizeIs(2 * kPairs));
  EXPECT_THAT(s.made_[0], Each(::testing::Lt(kPairs)));
}

}  // namespace
}  // namespace harrow::core
