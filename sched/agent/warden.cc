// The warden has one thread, no connection and next to no state, so that it outlives what goes wrong in an
// agent. As a child subreaper it becomes the parent of everything a task leaves behind. Its own parent's
// death reaches it as SIGTERM, so that it can still end all that; its own death kills the agent (and that,
// the tasks), and what those leave falls to the next subreaper, the keeper.
//
// It also stops what runs below it when the time for that is over, whether its agent hangs or not
// (fence_page.cc). Should it have been stopped itself, then for that it goes on by itself: the kernel wakes
// it a moment after the time (os/alarm.cc).
//
// On a node without a keeper (`alone`) there are two, one the parent of the other: the outer one ends what a
// killed inner one leaves, and starts it again; the inner one hears of the outer one's death, and ends all
// and itself. Of the two the inner one, the agent's parent, keeps the fence. The outer one wakes for it as
// well: the inner one may have been killed, and what it has left runs on.
//
// Where a node may be given a second warden (a network that was away, a keeper that has been started again
// before all of the last one's agents had left), they find each other (node_claim.cc). The second waits for
// the first to leave, and gives up when it stays: then it serves the run.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/node_claim.h"
#include "agent/node_commands.h"
#include "agent/steps/tmp_tree.h"
#include "base/text.h"
#include "made/record.h"
#include "os/alarm.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/log.h"
#include "os/process.h"
#include "os/spawn.h"
#include "run_dir/names.h"

namespace harrow::agent {
namespace {

constexpr int kMostDeaths = 5;  // within kSoon of its start, one after the other
constexpr Duration kSoon = std::chrono::seconds(10);
constexpr Duration kOtherLeaves = std::chrono::seconds(15);
constexpr Duration kClaimAgain = std::chrono::milliseconds(100);
constexpr Duration kWardenGrace = std::chrono::seconds(1);
constexpr Duration kAgentFirst = std::chrono::milliseconds(100);  // who tells tasks apart
constexpr Duration kLookAgain = std::chrono::seconds(1);          // while the fence stands, or none is known
constexpr Duration kSeldom = std::chrono::seconds(16);            // ... and the agent stands as well
constexpr Duration kAlarmAfter = std::chrono::milliseconds(100);  // the end of a wait, which wakes who runs
constexpr Duration kReadAgain = std::chrono::milliseconds(200);   // what a setup has left running writes

class Warden {
 public:
  explicit Warden(AgentOptions options) : options_(std::move(options)) {}

  int Run() {
    sigemptyset(&signals_);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, FencePage::kLookAgain})
      sigaddset(&signals_, signal);
    if (options_.fence == nullptr) options_.fence = FencePage::MakeShared();
    if (options_.fence == nullptr) {
      os::LogError("no memory for a page");
      return kAgentCannotGoOn;
    }
    if (options_.alone) {
      claim_ = std::make_unique<NodeClaim>(options_.dir->path(), options_.node_name);
      const auto pause = [this] { return !MeansToLeave(WaitForSignal(kClaimAgain)); };
      // The other may have a node_teardown to wait for.
      const Duration teardown = options_.commands.teardown.empty() ? Duration(0) : options_.commands.limit;
      if (!claim_->Take(kOtherLeaves + teardown, pause)) {
        os::LogInfo("another agent serves this node; this one leaves");
        return kAgentDone;
      }
    }
    const bool makes_tmp = options_.tmp_root.empty();
    if (makes_tmp) {
      options_.tmp_root = MakeTmpRoot(*options_.dir, options_.node_name,
                                      {.asked = options_.local_dir, .job = options_.local});
      if (options_.tmp_root.empty() && !options_.local_dir.empty()) {
        options_.unfit = StrCat("no directory can be made in ", Printable(options_.local_dir),
                                " (local_dir) that nobody else could replace");
      }
    }
    // Of two wardens the outer one, which outlives the other.
    if (!options_.commands.setup.empty()) {
      const Status set_up = RunHere("node_setup", options_.commands.setup, false);
      if (!set_up.ok()) options_.unfit = set_up.message();
      left_by_setup_ = os::Descendants(getpid());
    }
    if (!alarm_.works())
      os::LogWarning("no timers (ulimit -i): if this process and its agent are stopped, tasks run on");
    int deaths = 0;
    int code = leaving_ ? kAgentDone : kAgentCannotGoOn;
    while (!leaving_) {
      const Duration started = os::RealClock().Steady();
      const pid_t agent = StartAgent();
      if (agent < 0) break;
      const int status = WaitFor(agent);
      EndWhatIsLeft();
      if (WIFEXITED(status) &&
          (WEXITSTATUS(status) == kAgentDone || WEXITSTATUS(status) == kAgentCannotGoOn)) {
        code = WEXITSTATUS(status);
        break;
      }
      os::LogWarning(StrCat("the agent died: ", os::DescribeWaitStatus(status)));
      if (!options_.tmp_root.empty()) (void)EmptyTmpRoot(options_.tmp_root, "files");
      if (leaving_) {
        code = kAgentDone;
        break;
      }
      deaths = os::RealClock().Steady() - started < kSoon ? deaths + 1 : 1;
      if (deaths >= kMostDeaths) {
        os::LogError(
            StrCat("the agent died ", deaths, " times one after the other and is not started again"));
        break;
      }
    }
    if (!std::exchange(left_by_setup_, {}).empty()) {
      if (const Status ended = os::EndDescendants(kWardenGrace); !ended.ok()) os::LogError(ended.message());
    }
    if (!options_.commands.teardown.empty()) {
      const Status torn_down = RunHere("node_teardown", options_.commands.teardown, true);
      if (!torn_down.ok())
        std::cerr << "harrow: node " << options_.node_name << ": " << torn_down.message() << std::endl;
    }
    if (makes_tmp) os::LogInfo(StrCat("agent and tasks used ", Seconds(os::ProcessorTime()), " s of CPU"));
    // Also the one whose parent made it, and may have been killed.
    if (!options_.tmp_root.empty() && (makes_tmp || getppid() != parent_))
      RemoveTmpRoot(*options_.dir, options_.node_name, options_.tmp_root);
    return code;
  }

 private:
  pid_t StartAgent() {
    const pid_t self = getpid();
    options_.fence->Reset(self);
    stopped_.Continue();  // what a setup has left running; the rest is gone
    stands_ = false;
    const pid_t pid = fork();
    if (pid != 0) {
      if (pid < 0) {
        const std::string text = os::NoProcessText(errno);
        os::LogError(text);
        std::cerr << "harrow: " << text << std::endl;
      }
      return pid;
    }
    if (options_.alone) {
      if (!os::DieWithParent(SIGTERM, self).ok() || !os::BecomeSubreaper().ok()) _exit(kAgentCannotGoOn);
      claim_.reset();
      AgentOptions inner = options_;
      inner.alone = false;
      inner.commands = {};
      exit(Warden(std::move(inner)).Run());
    }
    if (!os::DieWithParent(SIGKILL, self).ok()) _exit(kAgentCannotGoOn);
    setsid();  // tasks must not find the terminal that the run was started from
    // exit(), not _exit: the log is flushed.
    exit(RunAgent(options_));
  }

  /// `at_end`: whoever tells this process to end has what it wants, and waits.
  Status RunHere(const char* what, const std::string& command, bool at_end) {
    const auto told_to_end = [&](Duration at_most) {
      if (MeansToLeave(WaitForSignal(at_most))) leaving_ = true;
      return leaving_ && !at_end;
    };
    NodeOutput of_teardown;
    return RunNodeCommand({.key = what, .text = command, .at_end = at_end}, options_.commands,
                          options_.node_name, told_to_end, at_end ? &of_teardown : &output_of_setup_);
  }

  /// Until the agent has ended; passes on that it should, reaps what ends meanwhile, keeps the fence.
  int WaitFor(pid_t agent) {
    while (true) {
      SetAlarm(kLookAgain);  // it may be stopped as it looks, or ends what a dead agent has left
      int status = 0;
      for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended == agent) return status;
        if (ended == life_) life_ = 0;
      }
      output_of_setup_.Read();
      const Duration at_most = output_of_setup_.open() ? kReadAgain : FencePage::kNoFence;
      const Duration wait = std::min(KeepFence(agent), at_most);
      SetAlarm(wait);
      if (MeansToLeave(WaitForSignal(wait))) {
        leaving_ = true;
        kill(agent, SIGTERM);
        kill(agent, SIGCONT);  // it may stand, as after Ctrl-Z, and who stopped it may be gone
      }
    }
  }

  void SetAlarm(Duration wait) { alarm_.Set(os::RealClock().Steady() + wait + kAlarmAfter); }

  static bool MeansToLeave(int signal) {
    return signal > 0 && signal != SIGCHLD && signal != FencePage::kLookAgain;
  }

  /// Negative: none has come.
  int WaitForSignal(Duration at_most) {
    const timespec wait = os::TimespecOf(at_most);
    return sigtimedwait(&signals_, nullptr, &wait);
  }

  /// Stops and continues as the page says; returns how long it may wait for the next look. Touches no
  /// file itself: storage that holds up the agent would hold it up as well.
  Duration KeepFence(pid_t agent) {
    const Duration until = options_.fence->until();
    const Duration now = os::RealClock().Steady();
    // What stands goes on after its agent, where that stands too: somebody may have suspended the whole run.
    const auto agent_runs = [agent] {
      os::Process process;
      return os::ReadProcess(agent, &process) && !process.stopped;
    };
    if (now < until) {
      stopped_.Continue(agent_runs);
      stands_ = false;
      if (!stopped_.empty()) return kLookAgain;
    }
    if (until == FencePage::kNoFence) return kLookAgain;
    if (now < until + kAgentFirst) return until + kAgentFirst - now;
    if (options_.alone) return kLookAgain;
    const std::array except = {agent, life_};
    const bool all_stood = !stopped_.Stop(getpid(), except);
    if (!std::exchange(stands_, true)) ShowLife();
    look_again_ = all_stood && !agent_runs() ? std::min(2 * look_again_, kSeldom) : kLookAgain;
    return look_again_;
  }

  void ShowLife() {
    const uint32_t file = options_.fence->output_file();
    if (file == 0 || life_ != 0) return;
    const pid_t child = fork();
    if (child != 0) {
      life_ = std::max(child, 0);
      return;
    }
    made::ShowLife(run_dir::MadePath(options_.dir->LastingPath("."), file));
    _exit(0);
  }

  /// But what node_setup has left running: it is there for the tasks of the next agent, too.
  void EndWhatIsLeft() {
    std::vector<pid_t> stay;
    for (const os::Process& process : left_by_setup_) {
      os::Process now;
      if (os::ReadProcess(process.pid, &now) && now.started == process.started) stay.push_back(process.pid);
    }
    const bool may_run = options_.fence->MayRun(os::RealClock().Steady());
    const Status ended = os::EndDescendants(leaving_ && may_run ? kWardenGrace : Duration(0), stay);
    if (!ended.ok()) os::LogError(ended.message());
  }

  AgentOptions options_;
  const pid_t parent_ = getppid();
  sigset_t signals_{};
  std::unique_ptr<NodeClaim> claim_;
  bool leaving_ = false;
  os::Alarm alarm_;      // for who has been stopped
  os::Stopper stopped_;  // by the fence
  bool stands_ = false;  // the fence, when it was looked at last
  Duration look_again_ = kLookAgain;  // while it stands
  pid_t life_ = 0;  // a child that shows life; the next look does not stop it
  std::vector<os::Process> left_by_setup_;
  NodeOutput output_of_setup_;
};

}  // namespace

int RunWarden(AgentOptions options) {
  prctl(PR_SET_NAME, "harrow-warden");
  const pid_t parent = getppid();
  os::TakeSignals();
  const Status logs = run_dir::LogTo(*options.dir, run_dir::AgentLog(options.node_name));
  if (!logs.ok()) os::LogWarning(logs.message());
  Status ready = os::BecomeSubreaper();
  if (ready.ok()) ready = os::DieWithParent(SIGTERM, parent);
  if (!ready.ok()) {
    os::LogError(ready.message());
    return kAgentCannotGoOn;
  }
  return Warden(std::move(options)).Run();
}

}  // namespace harrow::agent
