// The warden has one thread, no connection and next to no state, so that it outlives what goes wrong in an
// agent. As a child subreaper it becomes the parent of everything a task leaves behind. Its own parent's
// death reaches it as SIGTERM, so that it can still end all that; its own death kills the agent (and that,
// the tasks), and what those leave falls to the next subreaper, the keeper.
//
// On a node without a keeper (`alone`) there are two, one the parent of the other: the outer one ends what a
// killed inner one leaves, and starts it again; the inner one hears of the outer one's death, and ends all
// and itself.
//
// Where a node may be given a second warden (a network that was away, a keeper that has been started again
// before all of the last one's agents had left), a name in the abstract socket space, which the kernel frees
// when its owner dies, says whether the first lives. The second waits for it to leave, and gives up when it
// stays: then it serves the run.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
constexpr Duration kOtherLeaves = std::chrono::seconds(15);
constexpr Duration kGrace = std::chrono::seconds(1);

/// A directory of our own on the node's disk; empty when none can be made.
std::string MakeTmpRoot(const std::string& local) {
  const char* inherited = getenv("TMPDIR");
  for (const std::string& base :
       {local, std::string(inherited != nullptr ? inherited : ""), std::string("/tmp")}) {
    std::string path = StrCat(base, "/harrow-XXXXXX");
    if (base.starts_with('/') && mkdtemp(path.data()) != nullptr) return path;
  }
  return "";
}

std::string LogName(const std::string& node) {
  std::string name = node;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

/// Is the listener at `address` another user's? Then it says nothing about us.
bool IsForeign(const sockaddr_un& address, socklen_t length) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool foreign = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid != getuid();
  if (fd >= 0) close(fd);
  return foreign;
}

/// Binds the name of this run and node; -1 when another process of this user holds it for longer than
/// kOtherLeaves, or a signal says to leave. A name that cannot be had for another reason is done without.
int OnlyWarden(const AgentOptions& options, const sigset_t& signals, bool* other_stays) {
  const std::string name = StrCat("harrow-warden-", getuid(), "-",
                                  std::hash<std::string>()(options.run_dir + "\n" + options.node_name));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Duration until = os::RealClock().Steady() + kOtherLeaves;
  while (fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno != EADDRINUSE || IsForeign(address, length)) return fd;
    constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 100'000'000};
    const bool told = sigtimedwait(&signals, nullptr, &kPause) > 0;
    if (told || os::RealClock().Steady() > until) {
      *other_stays = true;
      return fd;
    }
  }
  if (fd >= 0) listen(fd, 8);
  return fd;
}

class Warden {
 public:
  explicit Warden(AgentOptions options) : options_(std::move(options)) {}

  int Run() {
    sigemptyset(&signals_);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&signals_, signal);
    if (options_.alone) {
      bool other_stays = false;
      alone_fd_ = OnlyWarden(options_, signals_, &other_stays);
      if (other_stays) {
        os::LogInfo("another agent serves this node; this one leaves");
        return kAgentDone;
      }
    }
    const bool makes_tmp = options_.tmp_root.empty();
    if (makes_tmp) options_.tmp_root = MakeTmpRoot(options_.local);
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
    if (makes_tmp) os::LogInfo(StrCat("agent and tasks used ", Seconds(os::ProcessorTime()), " s of CPU"));
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
    if (options_.alone) {
      if (!os::DieWithParent(SIGTERM, self).ok() || !os::BecomeSubreaper().ok()) _exit(kAgentCannotGoOn);
      if (alone_fd_ >= 0) close(alone_fd_);
      AgentOptions inner = options_;
      inner.alone = false;
      exit(Warden(std::move(inner)).Run());
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
  int alone_fd_ = -1;
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
