// The keeper with processes of its own (keeper_fixture.h): how a run ends, servers and agents that die or hang, signals, a shell.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "live/keeper_fixture.h"
#include "made/copies.h"
#include "run_dir/names.h"

namespace harrow::keeper {
namespace {

using run::ServerEnd;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST_F(KeeperTest, HowTheServerEndsIsHowTheRunEnds) {
  for (const ServerEnd how :
       {ServerEnd::kAllDone, ServerEnd::kSomeFailed, ServerEnd::kCannotGoOn, ServerEnd::kStopped}) {
    const KeeperEnd end = Keep(StrCat("exit ", static_cast<int>(how)), 10);
    EXPECT_EQ(end.end, how);
    EXPECT_EQ(end.problem, "");
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(Servers(), 1);
    EXPECT_EQ(Read("arguments"), "server --run-dir " + batch_.run + "\n");
  }
  for (const int code : {2, 5, 127}) {
    const KeeperEnd end = Keep(StrCat("exit ", code), 10);
    EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
    EXPECT_EQ(end.problem,
              StrCat("the server ended with exit code ", code, "; see ", Part("log/server.log")));
    EXPECT_EQ(Servers(), 1);
  }
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, AServerThatIsKilledIsStartedAgain) {
  const KeeperEnd end = Keep("[ $n -lt 4 ] && kill -9 $$; exit 1");
  EXPECT_EQ(end.end, ServerEnd::kSomeFailed);
  EXPECT_EQ(end.problem, "");
  EXPECT_EQ(Servers(), 4);
}

TEST_F(KeeperTest, AServerThatDiesAgainAndAgainIsGivenUp) {
  const KeeperEnd end = Keep("kill -9 $$");
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(end.problem, "the server died 5 times in a row, the last time by signal 9 (Killed); see " +
                             Part("log/server.log"));
  EXPECT_EQ(Servers(), 5);
}

TEST_F(KeeperTest, TheRowBeginsWithTheFirstThatDies) {
  EXPECT_THAT(Keep("[ $n = 1 ] && sleep 2.2; kill -9 $$").problem,
              HasSubstr("the server died 5 times in a row"));
  EXPECT_EQ(Servers(), 5);
}

TEST_F(KeeperTest, AServerThatLivedForAWhileDoesNotDieInARow) {
  EXPECT_EQ(Keep("[ $n -gt 7 ] && exit 0; sleep 0.3; kill -9 $$", 20).end, ServerEnd::kAllDone);
  EXPECT_EQ(Servers(), 8);
}

TEST_F(KeeperTest, FiguresAndLinesForTheUserArePassedOn) {
  pb::Progress more = Done(2);
  more.add_notice("one");
  more.add_notice("two\n\x1b[1m");
  more.set_problem("the disk is full");
  Figures("1", Done(1));
  Figures("1", more);
  Figures("1", Done(0, 0));  // of a server that has only begun
  Figures("2", Done(3));
  // What the first leaves half said is nothing to do with the second.
  const KeeperEnd end = Keep("[ $n = 2 ] && say 2 && exit 3; say 1; printf '\\100\\0\\0\\0abc'; kill -9 $$");
  EXPECT_THAT(figures_, ElementsAre(1, 2, 3));
  EXPECT_THAT(said_, ElementsAre("one", Printable("two\n\x1b[1m")));
  EXPECT_EQ(end.problem, "the disk is full");
  EXPECT_EQ(end.last.done(), 3u);
  EXPECT_EQ(end.last.total(), 9u);
}

TEST_F(KeeperTest, WhatIsNoProgressIsLeftOut) {
  Figures("1", Done(1));
  const KeeperEnd end = Keep("printf '\\377\\377\\377\\377'; sleep 0.5; say 1; exit 0");
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_THAT(figures_, ElementsAre(1));
}

TEST_F(KeeperTest, FiguresBeforeTheFirstTaskAreFiguresToo) {
  Figures("1", Done(0, 0));
  Keep("say 1; exit 0");
  EXPECT_THAT(figures_, ElementsAre(0));
}

TEST_F(KeeperTest, TheFiguresOfOneTaskOutliveItsServerToo) {
  Figures("1", Done(1, 1));
  Figures("1", Done(0, 0));
  EXPECT_EQ(Keep("say 1; exit 0").last.total(), 1u);
  EXPECT_THAT(figures_, ElementsAre(1));
}

TEST_F(KeeperTest, WhoIsStartedReadsNothingAndIsEndedWithTheRun) {
  int ours[2];  // which both would read
  ASSERT_TRUE(pipe(ours) == 0 && write(ours[1], "a\nb\n", 4) == 4 && dup2(ours[0], 0) == 0);
  batch_.wardens = {"cd " + top_ +
                    "; read line || : >agent.no-input; echo noise; trap 'echo term >agent.end; exit 0' TERM; "
                    ": >agent.up; while :; do sleep 0.02; done"};
  const KeeperEnd end =
      Keep("read line || : >server.no-input; while ! [ -e agent.up ]; do sleep 0.01; done; exit 0");
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_TRUE(There("server.no-input"));
  EXPECT_TRUE(There("agent.no-input"));
  EXPECT_EQ(Read("agent.end"), "term\n");
}

TEST_F(KeeperTest, AgentsThatLeaveByThemselvesAreNotWaitedForAnyLonger) {
  batch_.wardens = {
      "cd " + top_ +
      "; trap 'echo term >agent.end' TERM; : >agent.up; while ! [ -e over ]; do sleep 0.01; done"};
  EXPECT_EQ(Keep("while ! [ -e agent.up ]; do sleep 0.01; done; : >over; exit 0").end, ServerEnd::kAllDone);
  EXPECT_FALSE(There("agent.end"));
  EXPECT_LT(loop_->Now() - Time(), milliseconds(5900));  // kAgentsLeave
}

TEST_F(KeeperTest, AgentsThatDoNotLeaveAreEnded) {
  batch_.wardens = {"cd " + top_ + "; trap '' TERM; : >agent.up; while :; do sleep 0.02; done"};
  EXPECT_EQ(Keep("while ! [ -e agent.up ]; do sleep 0.01; done; exit 1", 4).end, ServerEnd::kSomeFailed);
  EXPECT_GE(loop_->Now() - Time(), seconds(6));
}

TEST_F(KeeperTest, WhereAgentsCannotBeNamedNothingRuns) {
  batch_.broken = "there is no srun";
  const KeeperEnd end = Keep("sleep 1000");
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(end.problem, "there is no srun");
}

TEST_F(KeeperTest, WhatCannotBeStartedIsNamed) {
  batch_.shell = "/nowhere/sh";
  EXPECT_EQ(Keep("sleep 1000").problem, "/nowhere/sh -c cannot be started: No such file or directory");
}

TEST_F(KeeperTest, WhatCannotBeStartedAgainIsNamed) {
  EXPECT_EQ(Keep("rm program; kill -9 $$").problem,
            top_ + "/program server cannot be started: No such file or directory");
}

TEST_F(KeeperTest, AnAgentThatDiesIsStartedAgainWithoutWhatItLeft) {
  batch_.wardens = {"cd " + top_ + "; sh -c 'echo $$ >kept; exec sleep 1000'",
                    "cd " + top_ +
                        "; echo >>starts; [ $(wc -l <starts) -ge 3 ] && : >enough && exec sleep 1000; setsid "
                        "sh -c 'echo $$ >>left; exec sleep 1000' & "
                        "while ! [ $(wc -l <left) -ge $(wc -l <starts) ]; do sleep 0.01; done; exit 1"};
  Write("left", "");
  // The leavings of each are gone when the next begins; those of others are not.
  const KeeperEnd end = Keep(
      "while ! { [ -e enough ] && [ -e kept ]; }; do sleep 0.01; done; ok=0; for p in $(cat left); do kill "
      "-0 $p && ok=1; done; kill -0 $(cat kept) || ok=1; exit $ok");
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_EQ(Read("starts"), "\n\n\n");
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, WhatKilledAgentsWereCopyingIsRemovedWithTheRun) {
  std::filesystem::create_directories(run_dir::OutputDirectory(Part("")));
  made::Copies copies;
  copies.Set(run_dir::CopiesPath(Part(""), 1));
  Write(".harrow-1.tmp", "half");
  copies.Add(top_ + "/.harrow-1.tmp");
  EXPECT_EQ(Keep("exit 0").end, ServerEnd::kAllDone);
  EXPECT_FALSE(std::filesystem::exists(top_ + "/.harrow-1.tmp"));
}

TEST_F(KeeperTest, TheLastAgentThatDiesAgainAndAgainIsTheEnd) {
  batch_.wardens = {"cd " + top_ + "; while ! [ -e up ]; do sleep 0.01; done; echo >>starts; exit 7"};
  const KeeperEnd end = Keep("trap 'echo term >end' TERM; : >up; sleep 1000 & wait");
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(Read("end"), "term\n");
  EXPECT_LT(loop_->Now() - Time(), seconds(5)) << "the server is told at once";
  EXPECT_EQ(end.problem, "an agent died 5 times in a row (exit code 7); see " + Part("log"));
  EXPECT_EQ(Read("starts"), "\n\n\n\n\n");
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, WithAnotherAgentTheRunGoesOn) {
  batch_.wardens = {"exit 7", "exec sleep 1000"};
  When([this] { return !said_.empty(); }, [this] { Write("over", ""); });
  const KeeperEnd end = Keep("while ! [ -e over ]; do sleep 0.01; done; exit 0");
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_EQ(end.problem, "");
  EXPECT_THAT(said_, ElementsAre("an agent died 5 times in a row (exit code 7); see " + Part("log")));
}

TEST_F(KeeperTest, AnAgentThatHasLeftIsNotAnotherWithWhichTheRunGoesOn) {
  batch_.wardens = {": >" + top_ + "/left; exit 0",
                    "while ! [ -e " + top_ + "/left ]; do sleep 0.01; done; exit 7"};
  const KeeperEnd end = Keep("sleep 1000");
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(end.problem, "an agent died 5 times in a row (exit code 7); see " + Part("log"));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, AnAgentThatSomebodyEndedIsStartedAgainOnceItIsMissed) {
  batch_.wardens = {"cd " + top_ + "; echo >>starts; [ $(wc -l <starts) = 1 ] && exit 0; exec sleep 1000"};
  Figures("all", Absent({}));
  Figures("missing", Absent({"node1"}));
  When([this] { return Read("starts") == "\n"; },
       [this] {
         loop_->After(seconds(4), [this] {
           EXPECT_EQ(Read("starts"), "\n");
           Write("missed", "");
         });
       });
  const KeeperEnd end = Keep(
      "while ! [ -e missed ] || [ $(wc -l <starts) -lt 2 ]; do if [ -e missed ]; then say missing; else say "
      "all; fi; sleep "
      "0.01; done; exit 0",
      4);
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_EQ(Read("starts"), "\n\n");
  EXPECT_THAT(batch_.rescues, Each(testing::Field(&Rescue::node, "node1")));
}

TEST_F(KeeperTest, AnAgentThatLeavesAnInterruptedRunIsNotStartedAgain) {
  batch_.wardens = {"cd " + top_ + "; echo >>starts; while ! [ -e told ]; do sleep 0.01; done; exit 0"};
  Figures("missing", Absent({"node1"}));
  When([this] { return Read("starts") == "\n" && !figures_.empty(); }, [this] { SignalUs(SIGTERM); });
  When([this] { return There("told"); }, [this] { loop_->After(seconds(6), [this] { Write("over", ""); }); });
  EXPECT_EQ(Keep("trap ': >told' TERM; while ! [ -e over ]; do say missing; sleep 0.01; done; exit 4", 4).end,
            ServerEnd::kStopped);
  EXPECT_EQ(Read("starts"), "\n");
}

TEST_F(KeeperTest, AServerThatHangsIsReplaced) {
  Figures("1", Done(1));
  const KeeperEnd end = Keep("[ $n = 2 ] && exit 0; say 1; exec sleep 1000", 50);
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_THAT(said_, ElementsAre("the server does not answer; another takes over"));
  EXPECT_GE(loop_->Now() - Time(), seconds(50));
}

TEST_F(KeeperTest, TheNextServerMayTakeItsTimeToRestore) {
  Figures("1", Done(1));
  EXPECT_EQ(Keep("[ $n = 1 ] && say 1 && sleep 0.1 && kill -9 $$; sleep 2; exit 0", 50).end,
            ServerEnd::kAllDone);
  EXPECT_THAT(figures_, ElementsAre(1));
  EXPECT_EQ(Servers(), 2);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, AServerThatHangsAgainAndAgainIsGivenUp) {
  Figures("1", Done(1));
  const KeeperEnd end = Keep("say 1; exec sleep 1000", 100);
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(end.problem,
            "the server hung 5 times: it is stopped, or waits for a disk; see " + Part("log/server.log"));
  EXPECT_EQ(Servers(), 5);
  EXPECT_EQ(said_.size(), 4u);
}

TEST_F(KeeperTest, AnInterruptIsPassedOnToTheServer) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    fs::remove(top_ + "/up");
    said_.clear();
    at_once_.clear();
    When([this] { return There("up"); }, [this, signal] { SignalUs(signal); });
    const KeeperEnd end = Keep("trap 'exit 4' TERM; : >up; while :; do sleep 0.01; done", 5);
    EXPECT_EQ(end.end, ServerEnd::kStopped);
    EXPECT_EQ(end.signal, signal);
    EXPECT_EQ(end.problem, "");
    EXPECT_THAT(said_, ElementsAre(StrCat("SIG", sigabbrev_np(signal),
                                          ": what runs is being ended; once more to end at once")));
  }
}

TEST_F(KeeperTest, ASecondInterruptEndsAtOnce) {
  When([this] { return There("up"); }, [this] { SignalUs(SIGINT), SignalUs(SIGTERM); });  // as timeout does
  When([this] { return There("told"); },
       [this] {
         EXPECT_EQ(said_.size(), 1u) << "of one moment: it is meant once";
         loop_->After(seconds(1), [this] { SignalUs(SIGTERM); });
       });
  const KeeperEnd end = Keep("trap ': >told' TERM; : >up; while :; do sleep 0.01; done");
  EXPECT_EQ(end.end, ServerEnd::kStopped);
  EXPECT_EQ(end.signal, SIGINT);
  EXPECT_THAT(said_, ElementsAre(StartsWith("SIGINT: "), "ended at once"));
  EXPECT_LT(loop_->Now() - Time(), seconds(14));
}

TEST_F(KeeperTest, AnInterruptWhileAgentsLeaveChangesNothingAndASecondEndsThem) {
  batch_.wardens = {"cd " + top_ + "; trap ': >told' TERM; : >agent.up; while :; do sleep 0.02; done"};
  When([this] { return There("told"); },
       [this] {
         SignalUs(SIGTERM);
         loop_->After(seconds(1), [this] { SignalUs(SIGINT); });
       });
  const KeeperEnd end = Keep("while ! [ -e agent.up ]; do sleep 0.01; done; exit 1");
  EXPECT_EQ(end.end, ServerEnd::kSomeFailed);
  EXPECT_EQ(end.signal, 0);
  EXPECT_THAT(said_, ElementsAre("SIGTERM: the run has ended and its agents leave; once more to end at once",
                                 "ended at once"));
  EXPECT_LT(loop_->Now() - Time(), milliseconds(5900));
}

TEST_F(KeeperTest, AnInterruptedRunEndsInTimeWhateverItsServerDoes) {
  ItTalks();
  Figures("1", Done(1));
  When([this] { return There("up"); }, [this] { SignalUs(SIGTERM); });
  const KeeperEnd end = Keep("trap '' TERM; : >up; while :; do say 1; sleep 0.02; done", 20);
  EXPECT_EQ(end.end, ServerEnd::kStopped);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.problem, "");
  EXPECT_EQ(said_.size(), 1u);
  EXPECT_EQ(Servers(), 1);
  EXPECT_GE(loop_->Now() - Time(), seconds(21));
}

TEST_F(KeeperTest, AnInterruptedServerThatHangsIsEndedByForce) {
  Figures("1", Done(1));
  When([this] { return !figures_.empty(); }, [this] { SignalUs(SIGTERM); });
  const KeeperEnd end = Keep("trap '' TERM; say 1; while :; do sleep 1000; done", 2);
  EXPECT_EQ(end.end, ServerEnd::kStopped);
  EXPECT_THAT(said_,
              ElementsAre(StartsWith("SIGTERM: "), "the server does not answer; it is ended by force"));
  EXPECT_EQ(Servers(), 1);
  EXPECT_LT(loop_->Now() - Time(), seconds(14));
}

TEST_F(KeeperTest, AnInterruptBetweenTwoServersStartsNone) {
  batch_.wardens = {"cd " + top_ +
                    "; while ! [ -s server.pid ]; do sleep 0.01; done; kill -9 $(cat server.pid); kill -TERM "
                    "$PPID; exec sleep 1000"};
  const KeeperEnd end = Keep("sleep 1000");
  EXPECT_EQ(end.end, ServerEnd::kStopped);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(Servers(), 1);
}

/// Keeps a run in a process of its own, as a shell would start it; what `shell` does meanwhile is given its
/// number.
class KeeperOfAShell : public KeeperTest {
 protected:
  bool Keeps(const std::string& script, ServerEnd how, const std::function<void(pid_t)>& shell) {
    const pid_t keeper = fork();
    if (keeper == 0) {
      setpgid(0, 0);
      const KeeperEnd end = Keep(script, 4);
      EXPECT_EQ(end.end, how) << end.problem;
      Write("said", said_.empty() ? "" : said_[0]);
      _exit(HasFailure() ? 1 : 0);
    }
    shell(keeper);
    int status = 0;
    return waitpid(keeper, &status, 0) == keeper && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  static bool Stopped(pid_t child) {
    int status = 0;
    return waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTSTP;
  }
  char StateOf(const std::string& pid_file) const {
    std::ifstream file("/proc/" + std::to_string(atoi(Read(pid_file).c_str())) + "/stat");
    const std::string stat(std::istreambuf_iterator<char>(file), {});
    const size_t name = stat.rfind(") ");
    return name == std::string::npos ? '?' : stat[name + 2];
  }
  void WaitFor(const std::string& name) const {
    for (int i = 0; i < 6000 && !There(name); ++i) usleep(10'000);
    EXPECT_TRUE(There(name)) << name;
  }
};

TEST_F(KeeperOfAShell, CtrlZStopsAllUntilTheShellLetsItGoOn) {
  batch_.wardens = {"cd " + top_ + "; echo $$ >agent.pid; exec sleep 1000"};
  const std::string script =
      "while ! [ -s agent.pid ]; do sleep 0.01; done; mkfifo gate; : >up; read line <gate; exit 0";
  EXPECT_TRUE(Keeps(script, ServerEnd::kAllDone, [this](pid_t keeper) {
    WaitFor("up");
    for (int time = 1; time <= 2; ++time) {
      kill(keeper, SIGTSTP);
      ASSERT_TRUE(Stopped(keeper)) << time;
      EXPECT_EQ(StateOf("server.pid"), 'T') << time;
      EXPECT_EQ(StateOf("agent.pid"), 'T') << time;
      kill(keeper, SIGCONT);
    }
    Write("gate", "open\n");
  }));
  EXPECT_EQ(Read("said"), "");
}

TEST_F(KeeperOfAShell, CtrlZDoesNothingOnTheNodesOfAJob) {
  batch_.rescue = "exec sleep 1000";
  When([this] { return !said_.empty(); }, [this] { Write("over", ""); });
  EXPECT_TRUE(Keeps(": >up; while ! [ -e over ]; do sleep 0.01; done; exit 0", ServerEnd::kAllDone,
                    [this](pid_t keeper) {
                      WaitFor("up");
                      kill(keeper, SIGTSTP);
                    }));
  EXPECT_EQ(Read("said"), "a run on the nodes of a job is not suspended by Ctrl-Z: it goes on");
}

TEST_F(KeeperOfAShell, WhatItWasStartedToIgnoreItIgnores) {
  signal(SIGHUP, SIG_IGN);  // nohup
  EXPECT_TRUE(Keeps(": >up; while ! [ -e over ]; do sleep 0.01; done; sleep 0.3; exit 0", ServerEnd::kAllDone,
                    [this](pid_t keeper) {
                      WaitFor("up");
                      kill(keeper, SIGHUP);
                      Write("over", "");
                    }));
  signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(Read("said"), "");
}

}  // namespace
}  // namespace harrow::keeper
