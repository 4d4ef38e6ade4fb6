// Before tasks make lost files again, others are asked for them: other schedulers of the run, or what they have left.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/local_scheduler.h"

namespace harrow::core {
namespace {

using Local = test::LocalScheduler;

core::Options Asking() {
  core::Options options;
  options.ask_others = true;
  return options;
}

FilesFound Found(const Local& s, std::string_view task, const std::vector<std::string>& shared, const std::vector<std::string>& absent = {},
                 const std::vector<std::string>& same = {}) {
  FilesFound found{.task = s[task], .shared = {}, .absent = {}, .same = {}};
  for (const std::string& each : shared) found.shared.push_back(s.File(each));
  for (const std::string& each : absent) found.absent.push_back(s.File(each));
  for (const std::string& each : same) found.same.push_back(s.File(each));
  return found;
}

/// P is done at node 0, C has read nothing yet, and node 0 is lost.
void Lose(Local& s) {
  s.Add("O", {}, {}, {"e"});
  s.Add("P", {}, {"e"}, {"f", "g"});
  s.Add("C", {}, {"f"}, {"h"});
  s.Add("D", {}, {"g"});
  s.Begin({{1, 0, 0}});
  s.Made("O", 0, {"e"});
  s.Made("P", 0, {"f", "g"});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "others for P");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {2, 0, 0}}), "");
}

/// Others have P, which is done, and C.
void BeginWithOthers(Local& s) {
  s.Add("P", {}, {}, {"f"});
  s.Add("C", {}, {"f"});
  TasksAdded added = s.Added();
  added.elsewhere = true;
  s.TellAll({added, NodeJoined{NodeId(0), {1, 0, 0}}});
  EXPECT_EQ(s.Tell(TaskRestored{.task = s["P"], .as = TaskRestored::As::kDone}), "");
}

TEST(Asking, BeforeItIsMadeAgainOthersAreAsked) {
  Local s(Asking());
  Lose(s);
  EXPECT_EQ(s.Tell(FilesNotFound{s["O"]}), "") << "nobody has asked";
  EXPECT_EQ(s.State("P"), TaskState::kWaiting);
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "others for O") << "only now";
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "");
  EXPECT_EQ(s.Tell(Found(s, "O", {"e"})), "copy e@1, start P@1");
  EXPECT_EQ(s.Made("P", 1, {"f", "g"}), "done P, start C@1, start D@1");
}

TEST(Asking, WhatOthersHaveIsNotMadeAgain) {
  Local s(Asking());
  Lose(s);
  EXPECT_EQ(s.Tell(Found(s, "P", {"f"}, {"g"})), "copy f@1, start C@1, start D@1");
  EXPECT_EQ(s.State("P"), TaskState::kDone);
  EXPECT_EQ(s.scheduler().counts().remaking, 0u);
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "") << "late";
}

TEST(Asking, WhoHasSomeOfItOnlyDoesNotHaveIt) {
  Local s(Asking());
  Lose(s);
  EXPECT_EQ(s.Tell(Found(s, "P", {"f"})), "others for O") << "D reads g";
  EXPECT_EQ(s.State("P"), TaskState::kWaiting);
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"})), "copy f@1, start C@1, copy g@1, start D@1") << "later it may be found";
}

TEST(Asking, FilesThatAreFoundAreOfOneExecution) {
  Local s(Asking());
  Lose(s);
  s.Tell(NodeJoined{NodeId(2), {0, 0, 0}});
  s.Tell(FileStored{s.File("f"), NodeId(2), 10});
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"})), "drop f@2, copy f@1, start C@1, copy g@1, start D@1");
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"}, {}, {"f", "g"})), "") << "the same";
  EXPECT_EQ(s.Tell(FileStored{s.File("f"), NodeId(1), 10}), "");
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"}, {}, {"g"})), "drop f@1, copy f@1") << "another one; it has not begun";
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"})), "copy f@1, copy g@1") << "what comes is of the one before";
}

TEST(Asking, WhatMakesItAgainGoesOnWhateverIsFound) {
  Local s(Asking());
  Lose(s);
  s.Tell(FilesNotFound{s["P"]});
  EXPECT_EQ(s.Tell(FilesNotFound{s["O"]}), "start O@1");
  EXPECT_EQ(s.Tell(Found(s, "O", {"e"})), "");
  EXPECT_EQ(s.Made("O", 1, {"e"}), "done O, start P@1");
}

TEST(Asking, WhatCannotBeReadWhereItWasFoundIsAskedForOnceMore) {
  Local s(Asking());
  Lose(s);
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"})), "copy f@1, start C@1, copy g@1, start D@1");
  EXPECT_EQ(s.Tell(FileStored{s.File("g"), NodeId(1), 10}), "");
  EXPECT_EQ(s.Tell(FilesForgotten{{s.File("f"), s.File("g")}}), "back C@1, others for P") << "D has what it reads";
  EXPECT_EQ(s.Returned("C", 1), "");
  EXPECT_EQ(s.Tell(FilesForgotten{{s.File("f"), s.File("g")}}), "") << "it is known";
  EXPECT_EQ(s.Tell(Found(s, "P", {"f"}, {}, {"g"})), "copy f@1, start C@1");
}

TEST(Asking, WhatTasksOfOthersReadIsMadeForThoseWhoAskOnly) {
  Local s(Asking());
  BeginWithOthers(s);
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "") << "it looks at all files";
  EXPECT_EQ(s.Tell(FilesWanted{s["P"], {s.File("f")}}), "others for P");
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "start P@0");
}

/// It cannot go to another one, as tasks do that fit no node here.
TEST(Asking, WhatCanBeMadeNowhereHereHasFailed) {
  Local s(Asking());
  s.profile.shape.cores = 2;
  s.Add("P", {}, {}, {"f"});
  s.profile.shape.cores = 1;
  s.Add("C", {}, {"f"});
  s.profile.shape.cores = 2;
  s.Add("X");
  s.Begin({{2, 0, 0}});
  s.Tell(OtherServersThere{true});
  s.Tell(AllNodesJoined{});
  s.Made("P", 0, {"f"});
  EXPECT_TRUE(s.scheduler().CanRun(s["P"]));
  s.Tell(NodeLost{NodeId(0)});
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  EXPECT_FALSE(s.scheduler().CanRun(s["P"]));
  EXPECT_EQ(s.State("P"), TaskState::kWaiting);
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "failed P (fits nowhere), skipped C because P");
  EXPECT_FALSE(IsSettled(s.State("X")));
}

/// Whoever makes P elsewhere has asked for what it reads.
TEST(Asking, WhatOnlyOneThatAsksReadsIsMadeForOthers) {
  Local s(Asking());
  Lose(s);
  EXPECT_EQ(s.Tell(FilesWanted{s["O"], {s.File("e")}}), "others for O");
  EXPECT_EQ(s.Tell(FilesNotFound{s["O"]}), "start O@1");
  EXPECT_EQ(s.Made("O", 1, {"e"}), "done O");
  EXPECT_EQ(s.Tell(Found(s, "P", {"f", "g"})), "copy f@1, start C@1, copy g@1, start D@1") << "and it is kept";
  EXPECT_EQ(s.Tell(FilesWanted{s["O"], {}}), "drop e@1");
}

/// The other one has lost g, makes C again, and cannot make P.
TEST(Asking, WhatIsReadByOneThatIsDoneIsMadeForOthers) {
  Local s(Asking());
  s.Add("P", {}, {}, {"f", "unread"});
  s.Add("C", {}, {"f"}, {"g"});
  s.Add("D", {}, {"g"});
  s.Begin({{1, 0, 0}});
  s.Tell(TasksTaken{{s["C"], s["D"]}});
  s.Made("P", 0, {"f", "unread"});
  s.Tell(TaskRestored{.task = s["C"], .as = TaskRestored::As::kDone});
  EXPECT_EQ(s.Tell(FilesWanted{s["P"], {s.File("f"), s.File("g")}}), "others for P");
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "start P@0");
  EXPECT_EQ(s.Made("P", 0, {"f", "unread"}), "drop unread@0, done P, complete");
  EXPECT_EQ(s.Tell(FilesWanted{s["P"], {s.File("f")}}), "");
  EXPECT_EQ(s.Tell(FilesWanted{s["P"], {}}), "drop f@0");
  EXPECT_EQ(s.Tell(FilesWanted{s["P"], {}}), "");
}

TEST(Asking, ItIsCompleteOnceMoreWhenThatIsMade) {
  Local s(Asking());
  BeginWithOthers(s);
  EXPECT_EQ(s.TellAll({FilesWanted{s["P"], {s.File("f")}}, FileStored{s.File("f"), NodeId(0), 10}}), "");
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "others for P");
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "start P@1");
  EXPECT_EQ(s.Made("P", 1, {"f"}), "done P, complete");
}

TEST(Asking, WhoWaitsForWhatIsAbsentWhereItIsFoundIsAskedBack) {
  Local s(Asking());
  s.Add("P", {}, {}, {"f", "g"});
  s.Add("Q");
  s.Add("C", {}, {"f"});
  s.Add("D", {}, {"g"});
  s.Add("E", {}, {"f"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Made("P", 0, {"f", "g"}), "done P, start C@0");
  EXPECT_EQ(s.Ended("Q", 1), "done Q, copy g@1 from 0, start D@1");
  s.Started("C", 0);
  EXPECT_EQ(s.Tell(FileLost{s.File("f"), NodeId(0)}), "others for P");
  EXPECT_EQ(s.Tell(Found(s, "P", {"f"}, {"g"})), "drop g@0, back D@1");
  EXPECT_EQ(s.Returned("D", 1), "copy f@1, start E@1");
  EXPECT_EQ(s.Ended("E", 1), "done E, start D@1");
}

TEST(Asking, WhatIsToBeMadeAgainAndFitsNoNodeHasFailed) {
  for (const bool asks : {false, true}) {
    SCOPED_TRACE(asks);
    core::Options options;
    options.ask_others = asks;
    Local s(options);
    s.profile.shape.cores = 2;
    s.Add("P", {}, {}, {"f"});
    s.profile.shape.cores = 1;
    s.Add("C", {}, {"f"});
    s.Begin({{2, 0, 0}, {1, 0, 0}});
    s.Tell(AllNodesJoined{});
    s.Made("P", 0, {"f"});
    s.TellAll({NodeLost{NodeId(0)}, AllNodesJoined{}});
    if (asks) s.Tell(FilesNotFound{s["P"]});
    EXPECT_TRUE(IsSettled(s.State("P")));
    EXPECT_TRUE(IsSettled(s.State("C")));
  }
}

/// O could not be made again. P is done, and its files, which are lost here, may lie elsewhere.
TEST(Asking, WhoAsksIsNotSkippedBecauseWhatItReadCannotBeMade) {
  core::Options options = Asking();
  options.max_losses = 0;
  Local s(options);
  s.Add("O", {}, {}, {"e"});
  s.Add("P", {}, {"e"}, {"f"});
  s.Add("Q");
  s.Add("X", {"Q"}, {"e"});
  s.Add("C", {"Q"}, {"f"});
  s.Begin({{2, 0, 0}});
  s.Made("O", 0, {"e"});
  s.Made("P", 0, {"f"});
  EXPECT_EQ(s.Tell(FileLost{s.File("e"), NodeId(0)}), "others for O");
  EXPECT_EQ(s.Tell(FilesNotFound{s["O"]}), "failed O (lost), skipped X because O");
  EXPECT_EQ(s.Tell(FileLost{s.File("f"), NodeId(0)}), "others for P");
  s.Tell(Found(s, "P", {"f"}));
  EXPECT_EQ(s.State("P"), TaskState::kDone);
  EXPECT_FALSE(IsSettled(s.State("C")));
}

TEST(Asking, WhoHasGoneNeedsNothing) {
  Local s(Asking());
  Lose(s);
  s.Tell(TasksTaken{{s["C"], s["D"]}});
  EXPECT_EQ(s.Tell(FilesNotFound{s["P"]}), "complete");
  EXPECT_EQ(s.State("P"), TaskState::kDone);
}

}  // namespace
}  // namespace harrow::core
