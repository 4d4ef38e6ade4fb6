// The keeper with processes of its own: shell scripts play the server and who starts agents. Time goes faster
// for it than for them, so that what it waits for minutes takes seconds.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "keeper/keeper.h"
#include "made/copies.h"
#include "os/process.h"
#include "run_dir/names.h"

namespace harrow::keeper {
namespace {

namespace fs = std::filesystem;
using run::ServerEnd;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// The loop that it wraps, in a time that goes so many times as fast while `flies` holds. It stands still
/// while this process does: a machine that stalls lets nothing pass at once.
class FastLoop final : public os::EventLoop {
 public:
  FastLoop(int times, std::function<bool()> flies) : times_(times), flies_(std::move(flies)) { Tick(); }
  Time Now() const override { return now_; }
  void Post(Callback work) override { inner_->Post(std::move(work)); }
  TimerId After(Duration delay, Callback work) override {
    timers_[{now_ + delay, ++last_}] = std::move(work);
    return last_;
  }
  void CancelTimer(TimerId timer) override {
    std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
  }
  void WatchFd(int fd, Callback ready) override { inner_->WatchFd(fd, std::move(ready)); }
  void UnwatchFd(int fd) override { inner_->UnwatchFd(fd); }
  void Run() override { inner_->Run(); }
  void Stop() override { inner_->Stop(); }
  /// In real time.
  void Limit(Duration limit, Callback over) { inner_->After(limit, std::move(over)); }

 private:
  static constexpr Duration kTick = milliseconds(2);

  void Tick() {
    const Time to = now_ + kTick * (flies_() ? times_ : 1);
    while (!timers_.empty() && timers_.begin()->first.first <= to) {
      auto timer = timers_.extract(timers_.begin());
      now_ = std::max(now_, timer.key().first);
      timer.mapped()();
    }
    now_ = to;
    inner_->After(kTick, [this] { Tick(); });
  }

  const int times_;
  const std::function<bool()> flies_;
  Time now_{};
  TimerId last_ = 0;
  std::map<std::pair<Time, TimerId>, Callback> timers_;
  std::unique_ptr<os::EventLoop> inner_ = os::MakeEventLoop();
};

struct Rescue {
  std::string node;
  Time at;
};

/// Scripts in place of agents.
class Scripts final : public batch::Batch {
 public:
  std::string name() const override { return "scripts"; }
  std::string job_id() const override { return ""; }
  Result<std::vector<batch::GrantedNode>> Nodes() override { return std::vector<batch::GrantedNode>(); }
  std::optional<WallTime> EndTime() override { return std::nullopt; }
  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) override {
    EXPECT_EQ(run_dir, run);
    if (!broken.empty()) return Status(Code::kUnavailable, broken);
    std::vector<std::vector<std::string>> commands;
    for (const std::string& script : wardens) commands.push_back({shell, "-c", script});
    return commands;
  }
  std::optional<std::vector<std::string>> AgentCommandOn(const std::string& run_dir,
                                                         const std::string& node) override {
    EXPECT_EQ(run_dir, run);
    if (node.empty()) return rescue.empty() ? std::nullopt : std::optional(std::vector<std::string>());
    rescues.push_back({node, loop->Now()});
    if (rescue.empty() || rescue == "none") return std::nullopt;
    return std::vector<std::string>{shell, "-c", rescue, node};
  }
  std::optional<std::vector<std::string>> AgentCommandWithout(const std::string& run_dir,
                                                              const std::vector<std::string>& nodes) override {
    EXPECT_EQ(run_dir, run);
    without.push_back(nodes);
    if (others.empty()) return std::nullopt;
    return std::vector<std::string>{"/bin/sh", "-c", others};
  }
  std::vector<std::string> UnreachableIn(std::string_view written) const override {
    std::istringstream words{std::string(written)};
    std::vector<std::string> nodes;
    for (std::string word; words >> word;) {
      if (word.starts_with("node")) nodes.push_back(word);
    }
    return nodes;
  }
  std::vector<std::string> ListenHosts() override { return {}; }

  os::EventLoop* loop = nullptr;
  std::string run, broken, shell = "/bin/sh";
  std::vector<std::string> wardens = {"exec sleep 1000"};
  std::string rescue;  // of a node; empty: there are no rescues, "none": not of this one
  std::string others;  // without nodes that cannot be reached; empty: none would be left
  std::vector<Rescue> rescues;
  std::vector<std::vector<std::string>> without;
};

class KeeperTest : public testing::Test {
 protected:
  KeeperTest() {
    std::string path = (fs::temp_directory_path() / "harrow-keeper-XXXXXX").string();
    top_ = mkdtemp(path.data());
    batch_.run = top_ + "/run";
  }
  ~KeeperTest() override { fs::remove_all(top_); }

  /// `script`: the server, where $n is how many there have been; `say NAME` tells the figures NAME.
  KeeperEnd Keep(const std::string& script, int times_as_fast = 1) {
    if (HasFailure()) return {};  // of an earlier one: each would take its time
    Write("program",
          "#!/bin/sh\ncd " + top_ +
              "\nn=$(($(cat servers) + 1)); echo $n >servers; echo $$ >server.pid; echo \"$*\" >arguments\n"
              "say() { cat said.$1; }\n" +
              script + "\n");
    Write("servers", "0");
    chmod((top_ + "/program").c_str(), 0700);
    heard_at_ = Time();
    loop_ = std::make_unique<FastLoop>(times_as_fast, flies_);
    batch_.loop = loop_.get();
    KeeperOptions options;
    options.program = top_ + "/program";
    const run_dir::Part part = run_dir::MakePart(run_dir::RunDir::Make(batch_.run).value()).value();
    options.part = part;
    options.progress = [this](const pb::Progress& progress) {
      figures_.push_back(progress.done());
      heard_at_ = loop_->Now();
    };
    options.say = [this](const std::string& line) { said_.push_back(line); };
    fs::create_directory(Part("log"));
    for (const auto& work : at_once_) loop_->Post(work);
    loop_->Limit(seconds(100), [this] {
      ADD_FAILURE() << "the run does not end";
      loop_->Stop();
    });
    const long open_before = OpenFiles();
    KeeperEnd end = Keeper(loop_.get(), &batch_, std::move(options)).Run();
    EXPECT_EQ(OpenFiles(), open_before) << "descriptors are left";
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
    return end;
  }
  /// Of a server that says something all the time: nothing passes that it could not say on a slow machine.
  void ItTalks() {
    flies_ = [this] { return loop_ != nullptr && loop_->Now() < heard_at_ + seconds(1); };
  }
  /// Does `work` once `is` holds, while the keeper runs.
  void When(std::function<bool()> is, std::function<void()> work) {
    auto look = std::make_shared<std::function<void()>>();
    *look = [this, is = std::move(is), work = std::move(work), look] {
      is() ? work() : (void)loop_->After(milliseconds(5), *look);
    };
    at_once_.push_back(*look);
  }
  void SignalUs(int signal) { kill(getpid(), signal); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(top_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(top_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static long OpenFiles() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  }
  bool There(const std::string& name) const { return fs::exists(top_ + "/" + name); }
  int Servers() const { return atoi(Read("servers").c_str()); }
  /// What `say NAME` of a server tells; several times: one after the other.
  void Figures(const std::string& name, const pb::Progress& progress) const {
    const std::string text = progress.SerializeAsString();
    const auto size = static_cast<uint32_t>(text.size());
    std::ofstream(top_ + "/said." + name, std::ios::app)
        << std::string_view(reinterpret_cast<const char*>(&size), sizeof size) << text;
  }
  static pb::Progress Done(uint64_t done, uint64_t total = 9) {
    pb::Progress progress;
    progress.set_total(total);
    progress.set_done(done);
    return progress;
  }
  static pb::Progress Absent(const std::vector<std::string>& nodes, uint32_t slots = 1) {
    pb::Progress progress = Done(1);
    progress.set_slots(slots);
    for (const std::string& node : nodes) progress.add_absent(node);
    return progress;
  }
  std::string Part(const std::string& below) const { return batch_.run + "/0/" + below; }

  std::string top_;
  Scripts batch_;
  std::unique_ptr<FastLoop> loop_;
  std::function<bool()> flies_ = [] { return true; };
  Time heard_at_{};
  std::vector<std::function<void()>> at_once_;
  std::vector<uint64_t> figures_;
  std::vector<std::string> said_;
};

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

// As under Slurm, where one srun starts all agents.
TEST_F(KeeperTest, AnSrunThatFailsIsToldWithItsLastWords) {
  batch_.rescue = "exec sleep 1000";
  batch_.wardens = {"echo noise >&2; echo 'srun: error: no such node' >&2; echo >&2; echo >>" + top_ +
                    "/starts; exit 1"};
  const KeeperEnd end = Keep("sleep 1000");
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(end.problem,
            "srun failed 5 times in a row (exit code 1): srun: error: no such node; see " + Part("log"));
  EXPECT_EQ(Read("starts"), "\n\n\n\n\n");
  EXPECT_THAT(batch_.rescues, IsEmpty());
}

TEST_F(KeeperTest, AnSrunThatCannotReachNodesIsRepeatedWithoutThem) {
  batch_.rescue = "exec sleep 1000";
  batch_.others = "cd " + top_ +
                  "; echo >>starts; case $(wc -l <starts) in 1) set 1 10;; 2) set 11 22;; *) set 23 23;; esac; "
                  "echo no $(seq -f node%g $1 $2) >&2; exit 1";
  batch_.wardens = {batch_.others};
  const KeeperEnd end = Keep("sleep 1000");
  const auto nodes = [](int first, int last, const std::string& between) {
    std::string names = StrCat("node", first);
    for (int n = first + 1; n <= last; ++n) names += StrCat(between, "node", n);
    return names;
  };
  EXPECT_THAT(said_, ElementsAre("nodes " + nodes(1, 10, ", ") + " cannot be reached by srun: no " +
                                     nodes(1, 10, " ") + "; agents are started on the others",
                                 "nodes " + nodes(11, 20, ", ") + " and 2 more cannot be reached by srun: no " +
                                     nodes(11, 22, " ") + "; agents are started on the others",
                                 "node node23 cannot be reached by srun: no node23; agents are started on the "
                                 "others"));
  ASSERT_EQ(batch_.without.size(), 3u);
  EXPECT_EQ(batch_.without[0].size(), 10u);
  EXPECT_EQ(batch_.without[1].size(), 22u);
  EXPECT_EQ(batch_.without[2].size(), 23u);
  EXPECT_EQ(end.problem, "srun failed 5 times in a row (exit code 1): no node23; see " + Part("log"));
  EXPECT_EQ(Read("starts"), std::string(8, '\n')) << "that it named other nodes each time is no failure";
}

TEST_F(KeeperTest, AnSrunThatReachesNoNodeFails) {
  batch_.rescue = "exec sleep 1000";
  batch_.wardens = {"echo no node1 >&2; echo >>" + top_ + "/starts; exit 1"};
  EXPECT_EQ(Keep("sleep 1000").problem,
            "srun failed 5 times in a row (exit code 1): no node1; see " + Part("log"));
  EXPECT_EQ(Read("starts"), "\n\n\n\n\n");
  EXPECT_EQ(batch_.without.size(), 1u);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, AnSrunThatLosesNodesWhileTheRunIsBeingEndedIsNotRepeated) {
  batch_.rescue = "exec sleep 1000";
  batch_.wardens = {"cd " + top_ + "; while ! [ -e told ]; do sleep 0.01; done; echo no node1 >&2; exit 1"};
  batch_.others = "exec sleep 1000";
  Figures("1", Absent({}));
  When([this] { return !figures_.empty(); }, [this] { SignalUs(SIGTERM); });
  When([this] { return There("told"); }, [this] { loop_->After(seconds(1), [this] { Write("over", ""); }); });
  EXPECT_EQ(Keep("trap ': >told' TERM; while ! [ -e over ]; do say 1; sleep 0.01; done; exit 4").end,
            ServerEnd::kStopped);
  EXPECT_THAT(batch_.without, IsEmpty());
  EXPECT_THAT(said_, ElementsAre(StartsWith("SIGTERM: ")));
}

TEST_F(KeeperTest, WhenAgentsHaveComeNoSrunIsRepeated) {
  ItTalks();
  Write("rescued", "");
  batch_.rescue = "echo $0 >>" + top_ + "/rescued; exec sleep 1000";
  batch_.wardens = {"cd " + top_ + "; echo >>starts; while ! [ -e come ]; do sleep 0.01; done; exit 1"};
  Figures("come", Absent({}));
  Figures("absent", Absent({"node1", "node2"}));
  When([this] { return !figures_.empty(); }, [this] { Write("come", ""); });
  const KeeperEnd end = Keep(
      "while ! [ -e come ]; do say come; sleep 0.02; done; until [ $(wc -l <rescued) = 2 ]; do say absent; "
      "sleep 0.02; done; exit 0",
      10);
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_EQ(Read("starts"), "\n");
  EXPECT_THAT(Read("rescued"), testing::AnyOf("node1\nnode2\n", "node2\nnode1\n"));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, ANodeIsRescuedLessAndLessOften) {
  ItTalks();
  batch_.rescue = "exit 1";
  Figures("1", Absent({"node1"}));
  When([this] { return batch_.rescues.size() >= 8; }, [this] { Write("over", ""); });
  EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 20).end, ServerEnd::kAllDone);
  ASSERT_GE(batch_.rescues.size(), 8u);
  Time before{};
  int64_t least[] = {3, 3, 6, 12, 24, 48, 60, 60};
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(batch_.rescues[i].node, "node1");
    EXPECT_GE(batch_.rescues[i].at - before, seconds(least[i])) << i;
    before = batch_.rescues[i].at;
  }
  // Twice 60 would be three seconds of ours more.
  EXPECT_LT(batch_.rescues[7].at - batch_.rescues[6].at, seconds(119)) << "the pause grows no longer";
}

TEST_F(KeeperTest, ARescueThatEndsIsNotTheEndOfAnother) {
  ItTalks();
  batch_.rescue = "[ $0 = node1 ] && exit 1; exec sleep 1000";
  Figures("1", Absent({"node1", "node2"}));
  const auto rescues = [this](const std::string& node) {
    return std::count_if(batch_.rescues.begin(), batch_.rescues.end(),
                         [&](const Rescue& rescue) { return rescue.node == node; });
  };
  When([=] { return rescues("node1") >= 4; }, [this] { Write("over", ""); });
  EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 20).end, ServerEnd::kAllDone);
  EXPECT_EQ(rescues("node2"), 1);
}

TEST_F(KeeperTest, WhenSrunDiesRescuesLiveOn) {
  ItTalks();
  batch_.rescue = "cd " + top_ + "; echo $$ >rescuer; exec sleep 1000";
  batch_.wardens = {"cd " + top_ + "; while ! [ -s rescuer ]; do sleep 0.01; done; echo $$ >srun; exit 1"};
  Figures("1", Absent({"node1"}));
  const KeeperEnd end = Keep(
      "until [ -s srun ] && ! kill -0 $(cat srun); do say 1; sleep 0.01; done; sleep 0.3; kill -0 $(cat rescuer)",
      10);
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
}

TEST_F(KeeperTest, SoManyNodesAreRescuedAtOnce) {
  ItTalks();
  batch_.rescue = "echo $$ >>" + top_ + "/rescued; exec sleep 1000";
  std::vector<std::string> nodes;
  for (int i = 0; i < 20; ++i) nodes.push_back(StrCat("node", i));
  Figures("1", Absent(nodes));
  When([this] { return batch_.rescues.size() >= 16; },
       [this] {
         loop_->After(seconds(10), [this] {
           EXPECT_EQ(batch_.rescues.size(), 16u);
           Write("over", "");
         });
       });
  EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 10).end, ServerEnd::kAllDone);
}

TEST_F(KeeperTest, ANodeThatCannotBeRescuedIsAskedForRarely) {
  ItTalks();
  Figures("1", Absent({"node1"}));
  batch_.wardens.clear();
  batch_.shell = "/nowhere/sh";
  for (const char* rescue : {"none", "cannot be started"}) {
    batch_.rescue = rescue;
    batch_.rescues.clear();
    at_once_.clear();
    fs::remove(top_ + "/over");
    When([this] { return batch_.rescues.size() >= 3; }, [this] { Write("over", ""); });
    EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 50).end, ServerEnd::kAllDone);
    ASSERT_GE(batch_.rescues.size(), 3u);
    EXPECT_GE(batch_.rescues[1].at - batch_.rescues[0].at, seconds(60));
    EXPECT_GE(batch_.rescues[2].at - batch_.rescues[1].at, seconds(60));
  }
}

TEST_F(KeeperTest, ANodeThatCameBackBeginsAnew) {
  ItTalks();
  batch_.rescue = "exit 1";
  Figures("absent", Absent({"node1"}));
  Figures("there", Absent({}));
  When([this] { return batch_.rescues.size() >= 6; }, [this] { Write("back", ""); });
  When([this] { return batch_.rescues.size() >= 9; }, [this] { Write("over", ""); });
  EXPECT_EQ(Keep("until [ -e back ]; do say absent; sleep 0.01; done; sleep 0.1; say there; "
                 "until [ -e over ]; do say absent; sleep 0.01; done; exit 0",
                 20)
                .end,
            ServerEnd::kAllDone);
  ASSERT_GE(batch_.rescues.size(), 9u);
  EXPECT_LT(batch_.rescues[8].at - batch_.rescues[7].at, seconds(45)) << "the pause is short again, not 60";
}

}  // namespace
}  // namespace harrow::keeper
