// Files on the nodes' own disks: who gets what from whom, what is dropped, and what is made again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using ::testing::HasSubstr;
using testing::ToldScheduler;

class Local : public ToldScheduler {
 public:
  explicit Local(Options options = {}) : ToldScheduler(With(options)) {}
  std::string Stored(const std::string& file, uint32_t node, int64_t bytes = 100) {
    return Tell(FileStored{File(file), NodeId(node), bytes});
  }
  /// The task is done, and its node holds what it made.
  std::string Made(const std::string& task, uint32_t node, const Words& files) {
    std::vector<Event> events;
    for (const std::string& file : files) events.push_back(FileStored{File(file), NodeId(node), 100});
    events.push_back(TaskEnded{Latest(task), NodeId(node), Done{}, std::chrono::seconds(1)});
    return TellAll(events);
  }
  std::string Failed(const std::string& file, uint32_t to, uint32_t from, CopyFailed::Why why) {
    return Tell(CopyFailed{File(file), NodeId(to), from == kNobody ? NodeId() : NodeId(from), why});
  }
  static constexpr uint32_t kNobody = UINT32_MAX;

 private:
  static Options With(Options options) {
    options.policy = order::Policy::kFifo;
    options.shared_files = false;
    options.local_files = true;
    return options;
  }
};

TEST(Supply, AnInputIsReadFromTheSubmitDirectoryOnceAndThenHandedOn) {
  Local s;
  for (const char* name : {"A", "B", "C"}) s.Add(name, {}, {"in"});
  EXPECT_EQ(s.Begin({{2, 0, 0}, {1, 0, 0}}), "copy in@0, start A@0, start B@0, copy in@1 from 0, start C@1");
  EXPECT_EQ(s.Stored("in", 0), "");
  EXPECT_EQ(s.Stored("in", 1), "");
  EXPECT_EQ(s.Ended("A", 0), "done A");
  EXPECT_EQ(s.Ended("B", 0), "done B");
  EXPECT_EQ(s.Ended("C", 1), "drop in@0, drop in@1, done C, complete") << "nobody reads it any more";
}

TEST(Supply, AFileThatManyWantSpreadsAsATree) {
  Local s({.locality = false});
  for (int i = 0; i < 8; ++i) s.Add("T" + std::to_string(i), {}, {"in"});
  const std::string answer = s.Begin(std::vector<NodeCapacity>(8, {1, 0, 0}));
  std::map<uint32_t, int> served;
  int from_the_directory = 0;
  for (const Action& action : s.last()) {
    if (const auto* copy = std::get_if<CopyFile>(&action)) {
      if (copy->from) {
        ++served[copy->from.value];
      } else {
        ++from_the_directory;
      }
    }
  }
  EXPECT_EQ(from_the_directory, 1) << answer;
  for (const auto& [node, times] : served) EXPECT_LE(times, 2) << "node " << node;
}

TEST(Supply, WhatATaskMadeIsCopiedFromItsNodeAndATaskGoesThere) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Add("Q");
  s.Add("C", {}, {"f"});
  s.Add("D", {}, {"f"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start P@0, start Q@1");
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start C@0");
  EXPECT_EQ(s.Ended("Q", 1), "done Q, copy f@1 from 0, start D@1") << "stolen, so its input comes along";
  EXPECT_EQ(s.scheduler().counts().local_bytes, 100u);
  EXPECT_EQ(s.scheduler().counts().remote_bytes, 100u);
}

using Why = CopyFailed::Why;

TEST(SupplyRoom, ANodeDropsWhatOthersHaveAndNoTaskThereReads) {
  Local s;
  for (const char* name : {"A", "B"}) s.Add(name, {}, {"in"});
  s.Add("Last", {"A", "B"}, {"in"});
  s.Add("C", {"A"}, {"large"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "copy in@0, start A@0, copy in@1 from 0, start B@1");
  s.Stored("in", 0);
  s.Stored("in", 1);
  EXPECT_EQ(s.Ended("A", 0), "done A, copy large@0, start C@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "drop in@0, copy large@0")
      << "it lies in the submit directory, and is at node 1";
  EXPECT_EQ(s.Stored("large", 0), "");
}

TEST(SupplyRoom, ACopyWaitsAsLongAsSomethingRuns) {
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {"large"});
  s.Begin({{2, 0, 0}});
  s.Stored("in", 0);
  s.Started("A", 0);
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "A reads the other one";
  s.now += std::chrono::milliseconds(249);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "");
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "") << "later each time";
  EXPECT_EQ(s.Ended("A", 0), "drop in@0, done A, copy large@0") << "there is more room now";
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "said before it was there, perhaps";
  s.now += std::chrono::milliseconds(2999);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "refuse large@0") << "nothing is left to wait for";
  EXPECT_EQ(s.Ended("B", 0, Failed{}), "failed B, complete");
}

TEST(SupplyRoom, WhatWasRefusedIsRefusedAgain) {
  Local s;
  for (const char* name : {"A", "B", "C"}) s.Add(name, {}, {"large"});
  std::string answer = s.Begin({{1, 0, 0}});
  for (const char* name : {"A", "B", "C"}) {
    EXPECT_THAT(answer, HasSubstr(StrCat("copy large@0, start ", name, "@0")));
    if (name[0] == 'C') s.now += std::chrono::minutes(1);
    if (name[0] != 'B') {
      EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << name;
      s.now += std::chrono::seconds(3);
      EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0") << name;
    }
    EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "refuse large@0") << name;
    answer = s.Ended(name, 0, Failed{});
  }
}

TEST(SupplyRoom, ATaskThatHasAllMayBeginAndIsWaitedFor) {
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {"large"});
  s.Begin({{2, 0, 0}});
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "a copy is on its way";
  EXPECT_EQ(s.Stored("in", 0), "");
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "A begins";
}

TEST(SupplyRoom, OfTwoThatWaitForEachOtherOneGoesFirst) {
  Local s;
  s.Add("A", {}, {"a", "b"});
  s.Add("B", {}, {"c", "d"});
  s.Begin({{2, 0, 0}});
  s.Stored("a", 0);
  s.Stored("c", 0);
  EXPECT_EQ(s.Failed("b", 0, Local::kNobody, Why::kNoRoom), "") << "d is on its way";
  EXPECT_EQ(s.Failed("d", 0, Local::kNobody, Why::kNoRoom), "") << "A goes first";
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy b@0, copy d@0");
  EXPECT_EQ(s.Failed("d", 0, Local::kNobody, Why::kNoRoom), "") << "still";
  EXPECT_EQ(s.Failed("b", 0, Local::kNobody, Why::kNoRoom), "drop c@0, copy b@0")
      << "c comes later, or it takes the room again";
  EXPECT_EQ(s.Stored("b", 0), "");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy d@0");
  EXPECT_EQ(s.Failed("d", 0, Local::kNobody, Why::kNoRoom), "") << "A can begin";
  s.Started("A", 0);
  EXPECT_EQ(s.Ended("A", 0), "drop a@0, drop b@0, done A, copy c@0, copy d@0");
}

TEST(SupplyRoom, WhatNobodyThereWaitsForAnyMoreIsNotTriedAgain) {
  Local s;
  s.Add("A", {}, {"a"});
  s.Add("B", {}, {"large"});
  s.Begin({{2, 0, 0}});
  s.Stored("a", 0);
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "");
  s.Tell(CancelRequested{s["B"]});
  EXPECT_EQ(s.Ended("B", 0, Cancelled{}), "cancelled B");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
}

TEST(SupplyRoom, WhoWasToGetItFromThereAsksForItself) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name, {}, {"f"});
  s.Begin(std::vector<NodeCapacity>(4, {1, 0, 0}));
  EXPECT_EQ(s.Made("P", 0, {"f"}),
            "done P, start A@0, copy f@1 from 0, start B@1, copy f@3 from 0, start C@3, copy f@2 from 1, start D@2");
  EXPECT_EQ(s.Failed("f", 1, 0, Why::kNoRoom), "copy f@2 from 0");
}

TEST(Supply, AtHomeIsWhatWasMadeThereNotWhatWasFetched) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Add("Q");
  for (const char* name : {"C", "D", "E"}) s.Add(name, {}, {"f"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start C@0");
  EXPECT_EQ(s.scheduler().counts().home_bytes, 100u);
  EXPECT_EQ(s.Ended("Q", 1), "done Q, copy f@1 from 0, start D@1");
  EXPECT_EQ(std::get<CopyFile>(s.last()[1]).reader, s["D"]);
  EXPECT_EQ(s.Stored("f", 1), "");
  EXPECT_EQ(s.scheduler().Explain(s["E"]).input_at,
            (std::vector<std::pair<NodeId, int64_t>>{{NodeId(0), 100}, {NodeId(1), 100}}));
  EXPECT_EQ(s.Ended("D", 1), "done D, start E@1");
  EXPECT_EQ(s.scheduler().counts().local_bytes, 200u);
  EXPECT_EQ(s.scheduler().counts().home_bytes, 100u) << "a copy counts where it is, and is not at home";
}

TEST(Supply, AResultIsDroppedWhereItWasMade) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "drop f@0, done P, complete");
}

TEST(Supply, WhatIsLostWithItsNodeIsMadeAgainAndItsReadersWait) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start C@0");
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start P@1");
  EXPECT_EQ(s.scheduler().counts().done, 0u);
  EXPECT_EQ(s.scheduler().counts().remaking, 1u);
  EXPECT_EQ(s.Made("P", 1, {"f"}), "done P, start C@1");
  EXPECT_EQ(s.scheduler().counts().remaking, 0u);
  EXPECT_EQ(s.Ended("C", 1), "drop f@1, done C, complete");
}

TEST(Supply, AsFewAsPossibleAreMadeAgain) {
  Local s;
  s.Add("A", {}, {}, {"a"});
  s.Add("B", {}, {"a"}, {"b"});
  s.Add("C", {}, {"b"}, {"c"});
  s.Add("D", {}, {"a", "c"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Made("A", 0, {"a"});
  EXPECT_EQ(s.Made("B", 0, {"b"}), "done B, start C@0");
  EXPECT_EQ(s.Stored("a", 1), "") << "somebody else has it, too";
  EXPECT_EQ(s.Made("C", 0, {"c"}), "drop b@0, done C, start D@0");
  // c is lost; b, which it needs, was dropped; a is still there.
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start B@1");
  EXPECT_EQ(s.State("A"), TaskState::kDone);
  EXPECT_EQ(s.Made("B", 1, {"b"}), "done B, start C@1");
  EXPECT_EQ(s.Made("C", 1, {"c"}), "drop b@1, done C, start D@1");
  EXPECT_EQ(s.Ended("D", 1), "drop a@1, drop c@1, done D, complete");
}

TEST(Supply, WhatWaitsForALostFileIsTakenBackAndWhatRunsGoesOn) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Add("D", {}, {"f"});
  s.Begin({{1, 0, 0}});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  s.Tell(NodeJoined{NodeId(2), {1, 0, 0}});
  s.Made("P", 0, {"f"});
  ASSERT_EQ(s.scheduler().node(s["C"]), NodeId(0));
  const NodeId at = s.scheduler().node(s["D"]);
  ASSERT_EQ(at, NodeId(1));
  const std::string lost = s.Tell(NodeLost{NodeId(0)});
  EXPECT_THAT(lost, HasSubstr("back D@1"));
  EXPECT_THAT(lost, HasSubstr("start P@2"));
  EXPECT_EQ(s.Returned("D", 1), "");
  EXPECT_EQ(s.Made("P", 2, {"f"}), "done P, start C@2, copy f@1 from 2, start D@1");

  s.Stored("f", 1);
  s.Started("D", 1);
  EXPECT_EQ(s.Tell(NodeLost{NodeId(2)}), "") << "it has what it reads; C finds it there";
  EXPECT_EQ(s.Ended("D", 1), "done D");
  s.now += std::chrono::seconds(2);
  EXPECT_EQ(s.Tell(TimeCame{}), "start C@1") << "its second loss";
}

TEST(Supply, WhatOnlyThoseHaveReadThatAreDoneOrRunIsNotMadeAgain) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Add("D", {}, {"f"});
  s.Begin({{1, 0, 0}});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  s.Made("P", 0, {"f"});
  s.Stored("f", 1);
  s.Started("C", 0);
  s.Started("D", 1);
  EXPECT_EQ(s.Ended("C", 0), "done C");
  EXPECT_EQ(s.Tell(FileLost{s.File("f"), NodeId(0)}), "");
  EXPECT_EQ(s.Tell(FileLost{s.File("f"), NodeId(1)}), "");
  EXPECT_EQ(s.State("P"), TaskState::kDone);
  EXPECT_EQ(s.Ended("D", 1), "done D, complete");
}

TEST(Supply, ACopyComesFromSomebodyElseWhenItsSourceIsGone) {
  Local s({.locality = false, .steal = true});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"C", "D", "E"}) s.Add(name, {}, {"f"});
  s.Begin({{1, 0, 0}});
  for (uint32_t n = 1; n < 3; ++n) s.Tell(NodeJoined{NodeId(n), {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}),
            "done P, start C@0, copy f@1 from 0, start D@1, copy f@2 from 0, start E@2");
  s.Stored("f", 1);
  const std::string lost = s.Tell(NodeLost{NodeId(0)});
  EXPECT_THAT(lost, HasSubstr("copy f@2 from 1"));
  EXPECT_EQ(s.State("P"), TaskState::kDone);
}

TEST(Supply, WhoeverCannotBeReachedIsAskedAgainAndThenBelievedToHaveLostIt) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Add("D", {}, {"f"});
  s.Begin({{1, 0, 0}});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  s.Made("P", 0, {"f"});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(s.Failed("f", 1, 0, CopyFailed::Why::kUnreachable), "");
    s.now += std::chrono::milliseconds(250 << i) - Duration(1);
    EXPECT_EQ(s.Tell(TimeCame{}), "") << i;
    s.now += Duration(1);
    EXPECT_EQ(s.Tell(TimeCame{}), "copy f@1 from 0") << i;
  }
  const std::string answer = s.Failed("f", 1, 0, CopyFailed::Why::kUnreachable);
  EXPECT_THAT(answer, HasSubstr("drop f@0"));
  EXPECT_THAT(answer, HasSubstr("back D@1"));
  EXPECT_EQ(s.State("P"), TaskState::kReady) << "it will be made again";
}

TEST(Supply, AWrongReplicaIsDroppedAndAnotherTaken) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"C", "D", "E"}) s.Add(name, {}, {"f"});
  s.Begin({{1, 0, 0}});
  for (uint32_t n = 1; n < 3; ++n) s.Tell(NodeJoined{NodeId(n), {1, 0, 0}});
  s.Made("P", 0, {"f"});
  s.Stored("f", 1);
  EXPECT_EQ(s.Failed("f", 2, 0, CopyFailed::Why::kDamaged), "drop f@0, copy f@2 from 1, copy f@0 from 1");
  EXPECT_EQ(s.Failed("f", 2, 0, CopyFailed::Why::kDamaged), "")
      << "late: it comes from another one";  // C waits at node 0 for it
}

TEST(Supply, AFileThatIsAlsoInTheSubmitDirectoryIsNotMadeAgain) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Begin({{1, 0, 0}});
  s.Made("P", 0, {"f"});
  s.Tell(FileShared{s.File("f")});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "copy f@1, start C@1");
}

TEST(Supply, WhatATaskDidNotMakeIsNotCopied) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.TellAll({FileAbsent{s.File("f")}, TaskEnded{s.Latest("P"), NodeId(0), Done{}, Duration(1)}}),
            "done P, start C@0");
  EXPECT_EQ(s.Ended("C", 0), "done C, complete");
}

TEST(Supply, ATaskThatWasDoneInAnEarlierJobIsDoneAgainOnlyWhereItsFilesAreRead) {
  Local s;
  s.Add("A", {}, {}, {"a"});
  s.Add("B", {}, {"a"}, {"b"});
  s.Add("X", {}, {}, {"x"});
  s.Add("Y", {}, {"x"});
  s.Add("C", {}, {"b"});
  const auto done = [&](const char* task) { return TaskRestored{.task = s[task], .attempts = 1}; };
  EXPECT_EQ(
      s.TellAll({s.Added(), done("A"), done("B"), done("X"), done("Y"), NodeJoined{NodeId(0), {1, 0, 0}}}),
      "start A@0");
  EXPECT_EQ(s.Made("A", 0, {"a"}), "done A, start B@0");
  EXPECT_EQ(s.Made("B", 0, {"b"}), "drop a@0, done B, start C@0");
  EXPECT_EQ(s.Ended("C", 0), "drop b@0, done C, complete");
}

TEST(Supply, AFileBelowAnOutputDirectoryComesWithIt) {
  Local s;
  s.Add("P", {}, {}, {"d"});
  s.Add("C", {}, {"d/1"});
  s.Add("D", {}, {"d/2"});
  s.Begin({{1, 0, 0}});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"d"}), "done P, start C@0, copy d@1 from 0, start D@1");
}

TEST(Supply, TasksGoWhereTheirFilesWereMadeAndNotWhereCopiesAre) {
  Local s({.steal = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("Q", {"P"});
  s.Add("C", {"Q"}, {"f"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start Q@0");
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Stored("f", 1), "") << "a copy";
  s.Add("X", {});
  EXPECT_EQ(s.Tell(s.Added()), "start X@1");
  EXPECT_EQ(s.Ended("X", 1), "done X");
  s.Add("D", {}, {"f"});
  EXPECT_EQ(s.Tell(s.Added()), "") << "node 1 is free, and has only a copy";
  EXPECT_EQ(s.Ended("Q", 0), "done Q, start D@0");
  EXPECT_EQ(s.scheduler().counts().home_bytes, 100u);
  // Without its home the copies count as ever.
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start C@1");
  EXPECT_EQ(s.Ended("C", 1), "done C, start D@1");
  EXPECT_EQ(s.scheduler().counts().local_bytes, 300u);
  EXPECT_EQ(s.scheduler().counts().home_bytes, 100u);
}

TEST(Supply, TheFirstThatReadsAnInputFromTheSubmitDirectoryIsItsHome) {
  Local s;
  for (const char* name : {"A", "B", "C"}) s.Add(name, {}, {"in"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "copy in@0, start A@0, copy in@1 from 0, start B@1");
  s.Stored("in", 0);
  s.Stored("in", 1);
  EXPECT_EQ(s.Ended("A", 0), "done A, start C@0");
  EXPECT_EQ(s.scheduler().counts().home_bytes, 100u) << "of C";
  EXPECT_EQ(s.scheduler().counts().local_bytes, 100u);
}

TEST(Supply, WhatIsLostAgainAndAgainFails) {
  Local s({.max_losses = 2});
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Begin({{1, 0, 0}});
  std::string answer;
  uint32_t losses = 0;
  for (uint32_t n = 1; n < 5 && answer.find("failed") == std::string::npos; ++n) {
    s.Made("P", n - 1, {"f"});
    s.Tell(NodeJoined{NodeId(n), {1, 0, 0}});
    answer = s.Tell(FileLost{s.File("f"), NodeId(n - 1)});
    answer += s.Returned("C", n - 1);
    s.Tell(NodeClosed{NodeId(n - 1)});
    ++losses;
  }
  EXPECT_EQ(losses, 3u) << "made again twice";
  EXPECT_THAT(answer, HasSubstr("failed P (lost)"));
  EXPECT_EQ(s.State("C"), TaskState::kSkipped);
}

}  // namespace
}  // namespace harrow::core
