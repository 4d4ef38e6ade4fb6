// Files on the nodes' own disks: who gets what from whom, what is dropped, and what is made again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/local_scheduler.h"

namespace harrow::core {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Local = test::LocalScheduler;

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

TEST(Supply, WhatComesFromACopyThatHasNoSourceAnyMoreDoesNotComeEither) {
  Local s({.locality = false, .steal = true});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"C", "D", "E", "F"}) s.Add(name, {}, {"f"});
  s.Begin({{1, 0, 0}});
  for (uint32_t n = 1; n < 4; ++n) s.Tell(NodeJoined{NodeId(n), {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}),
            "done P, start C@0, copy f@1 from 0, start D@1, copy f@3 from 0, start E@3, copy f@2 from 1, start F@2");
  EXPECT_THAT(s.Tell(NodeLost{NodeId(0)}), HasSubstr("back D@1, back E@3, back F@2"));
  for (const char* name : {"D", "E", "F"}) s.Tell(TaskReturned{s.Latest(name), s.scheduler().node(s[name])});
  EXPECT_EQ(s.Made("P", 1, {"f"}), "done P, start C@1, copy f@3 from 1, start D@3, copy f@2 from 1, start E@2") << "anew";
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

TEST(Supply, WhoWaitsForACopyGetsItWhereANewAgentOfItsSourceHasTheFile) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Add("D", {}, {"f"});
  s.Begin({{1, 0, 0}});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start C@0, copy f@1 from 0, start D@1");
  const std::string answer = s.TellAll(
      {NodeLost{NodeId(0)}, NodeJoined{NodeId(0), {1, 0, 0}}, FileStored{s.File("f"), NodeId(0), 100}});
  EXPECT_THAT(answer, HasSubstr("copy f@1 from 0"));
  EXPECT_EQ(s.State("P"), TaskState::kDone);
}

/// f was made at node 0, node 1 has a copy, and node 2 is to have one.
void Spread(Local* s) {
  s->Add("P", {}, {}, {"f"});
  for (const char* name : {"C", "D", "E"}) s->Add(name, {}, {"f"});
  s->Begin({{1, 0, 0}, {1, 0, 0}});
  s->Made("P", 0, {"f"});
  s->Stored("f", 1);
  s->Started("C", 0);
  s->Started("D", 1);
  EXPECT_EQ(s->Tell(NodeJoined{NodeId(2), {1, 0, 0}}), "copy f@2 from 0, start E@2");
}

TEST(Supply, ATransferThatFailsFromOneHolderIsTakenFromAnother) {
  Local s({.locality = false});
  Spread(&s);
  EXPECT_EQ(s.Failed("f", 2, 0, CopyFailed::Why::kUnreachable), "");
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy f@2 from 1");
  EXPECT_EQ(s.Failed("f", 2, 1, CopyFailed::Why::kUnreachable), "");
  s.now += std::chrono::milliseconds(499);
  EXPECT_EQ(s.Tell(TimeCame{}), "") << "the pauses grow all the same";
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy f@2 from 0");
}

TEST(Supply, HoldersThatFailInTurnAreNotAskedForEver) {
  Local s({.locality = false});
  Spread(&s);
  std::string drops, answer;
  int failures = 0;
  for (uint32_t from = 0; answer.find("aside") == std::string::npos && failures < 20; ++failures) {
    answer = s.Failed("f", 2, from, CopyFailed::Why::kUnreachable);
    s.now += std::chrono::seconds(10);
    const std::string later = s.Tell(TimeCame{});
    for (const uint32_t holder : {0u, 1u}) {
      if (answer.find(StrCat("drop f@", holder)) != std::string::npos) drops += StrCat(holder);
      if ((answer + later).find(StrCat("copy f@2 from ", holder)) != std::string::npos) from = holder;
    }
  }
  EXPECT_EQ(failures, 10) << "five times, and once more five times the one that was left";
  EXPECT_EQ(drops, "0");
  EXPECT_EQ(answer, "aside @2, back E@2") << "it gets nothing from either";
  EXPECT_EQ(s.State("P"), TaskState::kDone);
}

TEST(Supply, AHolderThatIsAliveAndThatOthersCannotReachIsPutAside) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("Q", {}, {}, {"g"});
  s.Add("L");
  s.Add("D", {}, {"f"});
  s.Add("E", {}, {"g"});
  s.Begin({{1, 0, 0}});
  s.Made("P", 0, {"f"});
  EXPECT_EQ(s.Made("Q", 0, {"g"}), "done Q, start L@0");
  s.Started("L", 0);
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {1, 0, 0}}), "copy f@1 from 0, start D@1");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 0, 0}}), "copy g@2 from 0, start E@2");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(s.Failed("f", 1, 0, CopyFailed::Why::kUnreachable), "") << i;
    EXPECT_EQ(s.Failed("g", 2, 0, CopyFailed::Why::kUnreachable), "") << i;
    s.now += std::chrono::seconds(10);
    EXPECT_EQ(s.Tell(TimeCame{}), "copy f@1 from 0, copy g@2 from 0");
  }
  EXPECT_EQ(s.Failed("f", 1, 0, CopyFailed::Why::kUnreachable), "drop f@0, back D@1");
  EXPECT_EQ(s.Failed("g", 2, 0, CopyFailed::Why::kUnreachable), "drop g@0, aside @0, back E@2");
  EXPECT_EQ(s.Ended("L", 0), "done L") << "what is made again there can be had by nobody";
  EXPECT_EQ(s.Returned("D", 1), "start P@1");
  EXPECT_EQ(s.Returned("E", 2), "start Q@2");
}

TEST(Supply, OfTwoNodesThatCannotReachEachOtherOneGoesOn) {
  Local s({.locality = false});
  Local::Words made = {"f", "g", "h"};
  for (const std::string& file : made) s.Add("make " + file, {}, {}, {file});
  s.Add("L");
  s.Add("D", {}, made);
  s.Begin({{1, 0, 0}});
  for (const std::string& file : made) s.Made("make " + file, 0, {file});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  std::string answer;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(answer.find("aside"), std::string::npos);
    for (const std::string& file : made) answer += s.Failed(file, 1, 0, CopyFailed::Why::kUnreachable);
    s.now += std::chrono::seconds(10);
    s.Tell(TimeCame{});
  }
  EXPECT_THAT(answer, HasSubstr("aside @0"));
  EXPECT_EQ(s.Returned("D", 1), "start make f@1");
  // It was node 1 that reaches nobody: the next that it fails with shows it.
  s.Add("K", {}, {}, {"k"});
  s.Add("M", {"K"});
  s.Add("E", {"K"}, {"k"});
  s.Tell(s.Added());
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 0, 0}}), "start make g@2");
  s.Made("make g", 2, {"g"});
  s.Made("make h", 2, {"h"});
  EXPECT_EQ(s.Made("K", 2, {"k"}), "done K, start M@2");
  answer = s.Made("make f", 1, {"f"});
  EXPECT_THAT(answer, HasSubstr("copy k@1 from 2, start E@1"));
  for (int i = 0; i < 5; ++i) {
    answer += s.Failed("k", 1, 2, CopyFailed::Why::kUnreachable);
    s.now += std::chrono::seconds(10);
    s.Tell(TimeCame{});
  }
  EXPECT_THAT(answer, HasSubstr("aside @1"));
  EXPECT_THAT(answer, Not(HasSubstr("aside @2")));
}

TEST(Supply, WhoReachesNoOtherIsPutAsideAndTheirFilesStay) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  s.Add("Q", {}, {}, {"g"});
  s.Add("X", {"P", "Q"});
  s.Add("Y", {"P", "Q"});
  s.Add("C", {}, {"f", "g"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Made("P", 0, {"f"});
  s.Made("Q", 1, {"g"});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 0, 0}}), "copy f@2 from 0, copy g@2 from 1, start C@2");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(s.Failed("f", 2, 0, CopyFailed::Why::kUnreachable), "");
    EXPECT_EQ(s.Failed("g", 2, 1, CopyFailed::Why::kUnreachable), "");
    s.now += std::chrono::seconds(10);
    s.Tell(TimeCame{});
  }
  EXPECT_EQ(s.Failed("f", 2, 0, CopyFailed::Why::kUnreachable), "aside @2, back C@2");
  s.Returned("C", 2);
  EXPECT_EQ(s.State("P"), TaskState::kDone);
  EXPECT_EQ(s.Ended("X", 1), "done X, copy f@1 from 0, start C@1");
}

TEST(Supply, WhereTheHolderOfAnInputCannotBeReachedItIsReadFromTheSubmitDirectory) {
  Local s({.locality = false});
  s.Add("C", {}, {"in"});
  s.Add("D", {}, {"in"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "copy in@0, start C@0, copy in@1 from 0, start D@1");
  s.Stored("in", 0);
  EXPECT_EQ(s.Failed("in", 1, 0, CopyFailed::Why::kUnreachable), "");
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy in@1");
}

TEST(Supply, TheLastTaskThatReadsFromAllNodesIsServedThoughEachTransferFailsAtFirst) {
  constexpr uint32_t kNodes = 40;
  Local s({.steal = true});
  Local::Words made;
  for (uint32_t n = 0; n < kNodes; ++n) {
    made.push_back(StrCat("f", n));
    s.Add(StrCat("P", n), {}, {}, {made.back()});
  }
  s.Add("Reduce", {}, made, {"all"});
  s.Begin(std::vector<NodeCapacity>(kNodes, {1, 0, 0}));
  std::string last;
  for (uint32_t n = 0; n < kNodes; ++n) last = s.Made(StrCat("P", n), n, {made[n]});
  uint32_t at = kNodes;
  for (const Action& action : s.last()) {
    if (const auto* start = std::get_if<StartTask>(&action)) at = start->node.value;
  }
  ASSERT_LT(at, kNodes) << last;
  uint32_t asked = 0;
  for (uint32_t n = 0; n < kNodes; ++n) {
    if (n == at) continue;
    EXPECT_THAT(last, HasSubstr(StrCat("copy ", made[n], "@", at, " from ", n))) << "all at once";
    EXPECT_EQ(s.Failed(made[n], at, n, CopyFailed::Why::kUnreachable), "");
  }
  s.now += std::chrono::seconds(1);
  s.Tell(TimeCame{});
  for (const Action& action : s.last()) asked += std::holds_alternative<CopyFile>(action) ? 1 : 0;
  EXPECT_EQ(asked, kNodes - 1);
  for (uint32_t n = 0; n < kNodes; ++n) s.Stored(made[n], at);
  s.Started("Reduce", at);
  EXPECT_THAT(s.Made("Reduce", at, {"all"}), HasSubstr("complete"));
}

TEST(Supply, WhoIsSilentIsNotAskedWhereAnotherHasIt) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"C", "D", "E"}) s.Add(name, {}, {"f"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start C@0, copy f@1 from 0, start D@1");
  s.Stored("f", 1);
  s.Tell(NodeSilent{NodeId(0)});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 0, 0}}), "copy f@2 from 1, start E@2");
}

TEST(Supply, WhatIsLostIsMadeAgainBeforeItsReaderIsReady) {
  Local s;
  s.Add("P", {}, {}, {"f"});
  s.Add("X", {}, {}, {"g"});
  s.Add("C", {}, {"f", "g"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {2, 0, 0}}), "start P@0, start X@1");
  s.Made("P", 0, {"f"});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start P@1");
  EXPECT_EQ(s.Made("P", 1, {"f"}), "done P");
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

/// Whichever of them is found to be lost first.
TEST(Supply, WhoWaitsAtItsNodeForOneOfTwoLostFilesIsAskedBack) {
  Local s;
  s.Add("P", {}, {}, {"f", "g"});
  s.Add("Q");
  s.Add("C", {}, {"f"});
  s.Add("D", {"Q"}, {"g"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Tell(NodeJoined{NodeId(2), {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f", "g"}), "done P, start C@0");
  s.Tell(NodeSilent{NodeId(0)});
  EXPECT_EQ(s.Returned("C", 0), "copy f@2 from 0, start C@2");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "back C@2");
  EXPECT_EQ(s.Returned("C", 2), "start P@2");
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

TEST(Supply, OfThoseThatReadWhatIsLostForGoodOnlyTheOpenOnesAreSkipped) {
  Local s({.max_losses = 0});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"C", "D"}) s.Add(name, {}, {"f"});
  s.Begin({{1, 0, 0}});
  s.Made("P", 0, {"f"});
  s.Ended("C", 0);
  s.Add("E", {}, {"f"});
  const TasksAdded later = s.Added();
  EXPECT_EQ(s.Tell(FileLost{s.File("f"), NodeId(0)}), "back D@0, failed P (lost)");
  EXPECT_EQ(s.Returned("D", 0), "skipped D because P, complete");
  EXPECT_EQ(s.State("C"), TaskState::kDone);
  EXPECT_EQ(s.Tell(later), "skipped E because P, complete");
}

}  // namespace
}  // namespace harrow::core
