// The warden has one thread, no connection and next to no state, so that it outlives what goes wrong in an
// agent. As a child subreaper it becomes the parent of everything a task leaves behind. Its own parent's
// death reaches it as SIGTERM, so that it can still end all that; its own death kills the agent (and that,
// the tasks), and what those leave falls to the next subreaper, the keeper.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/log.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

constexpr int kMostDeaths = 5;  // within kSoon of its start, one after the other
constexpr Duration kSoon = std::chrono::seconds(10);
constexpr Duration kGrace = std::chrono::seconds(1);

/// A directory of our own on the node's disk; empty when none can be made.
std::string MakeTmpRoot() {
  const char* base = getenv("TMPDIR");
  std::string path = StrCat(base != nullptr && *base == '/' ? base : "/tmp", "/harrow-XXXXXX");
  return mkdtemp(path.data()) != nullptr ? path : std::string();
}

std::string LogName(const std::string& node) {
  std::string name = node;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

class Warden {
 public:
  explicit Warden(AgentOptions options) : options_(std::move(options)) {}

  int Run() {
    sigemptyset(&signals_);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&signals_, signal);
    options_.tmp_root = MakeTmpRoot();
    int deaths = 0;
    int code = kAgentCannotGoOn;
    while (true) {
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
    if (!options_.tmp_root.empty()) (void)os::RealFileSystem().RemoveTree(options_.tmp_root);
    return code;
  }

 private:
  pid_t StartAgent() const {
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid != 0) {
      if (pid < 0) os::LogError("cannot fork an agent");
      return pid;
    }
    if (!os::DieWithParent(SIGKILL, self).ok()) _exit(kAgentCannotGoOn);
    setsid();  // tasks must not find the terminal that the run was started from
    // exit(), not _exit: the log is flushed.
    exit(RunAgent(options_));
  }

  /// Until the agent has ended; passes on that it should, reaps what ends meanwhile.
  int WaitFor(pid_t agent) {
    while (true) {
      int status = 0;
      for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended == agent) return status;
      }
      const int signal = sigwaitinfo(&signals_, nullptr);
      if (signal > 0 && signal != SIGCHLD) {
        leaving_ = true;
        kill(agent, SIGTERM);
      }
    }
  }

  void EndWhatIsLeft() {
    const Status ended = os::EndDescendants(leaving_ ? kGrace : Duration(0));
    if (!ended.ok()) os::LogError(ended.message());
  }

  AgentOptions options_;
  sigset_t signals_{};
  bool leaving_ = false;
};

}  // namespace

int RunWarden(AgentOptions options) {
  prctl(PR_SET_NAME, "harrow-warden");
  const pid_t parent = getppid();
  os::TakeSignals();
  const std::string log = StrCat(options.run_dir, "/log/agent-", LogName(options.node_name), ".log");
  (void)os::RealFileSystem().MakeDirectories(options.run_dir + "/log");
  if (const Status opened = os::OpenLog(log); !opened.ok()) os::LogWarning(opened.message());
  Status ready = os::BecomeSubreaper();
  if (ready.ok()) ready = os::DieWithParent(SIGTERM, parent);
  if (!ready.ok()) {
    os::LogError(ready.message());
    return kAgentCannotGoOn;
  }
  return Warden(std::move(options)).Run();
}

}  // namespace harrow::agent
