// node_setup and node_teardown: once a node before the first task of this run there, and after the last. The
// warden runs them, which is there before the agent and after it, and starts the agent anew without another
// setup. A node whose setup has failed gets an agent all the same: it tells the server, which gives the node
// nothing and names it.
#include "agent/node_commands.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

constexpr Duration kCommandGrace = std::chrono::seconds(2);
constexpr Duration kReadEvery = std::chrono::milliseconds(50);
constexpr size_t kShown = 4000;      // bytes of what it wrote, at its end
constexpr int kWaiting = 1 << 20;    // bytes that it may be ahead
constexpr size_t kReadSize = 65536;  // bytes that are read at once
constexpr int kReads = 32;           // that are read before anything else is looked at

}  // namespace

int NodeOutput::Open() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return -1;
  fd_ = os::Fd(ends[0]);
  fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
  (void)fcntl(fd_.get(), F_SETPIPE_SZ, kWaiting);  // where that is allowed
  return ends[1];
}

void NodeOutput::Read() {
  char buffer[kReadSize];
  for (int piece = 0; fd_.ok() && piece < kReads; ++piece) {
    const ssize_t got = read(fd_.get(), buffer, sizeof buffer);  // signals are blocked: nothing interrupts it
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      fd_ = os::Fd();
      return;
    }
    end_.append(buffer, static_cast<size_t>(got));
    if (end_.size() > kShown) end_.erase(0, end_.size() - kShown);
  }
}

Status RunNodeCommand(const NodeCommand& command, const NodeCommands& run, const std::string& node,
                      const std::function<bool(Duration at_most)>& wait, NodeOutput* output) {
  const char* what = command.key;
  os::Fd written(output->Open());
  const pid_t self = getpid();
  const pid_t pid = fork();
  if (pid != 0) written = os::Fd();
  if (pid < 0) return Status(Code::kUnavailable, StrCat(what, " could not be started: ", strerror(errno)));
  if (pid == 0) {
    setsid();
    if (!os::DieWithParent(SIGKILL, self).ok()) _exit(127);
    for (const auto& [name, value] : run.env) setenv(name.c_str(), value.c_str(), 1);
    setenv("HARROW_NODE", node.c_str(), 1);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(written.get(), STDOUT_FILENO);
    dup2(written.get(), STDERR_FILENO);
    if (chdir(run.directory.c_str()) != 0)
      dprintf(STDERR_FILENO, "cannot go to %s: %s\n", run.directory.c_str(), strerror(errno));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    // Slurm tells every process of a step to end, and once more when the job's script is gone.
    if (command.at_end) (void)signal(SIGTERM, SIG_IGN);
    const char* shell = run.shell.empty() ? "/bin/sh" : run.shell.c_str();
    execlp(shell, shell, "-c", command.text.c_str(), nullptr);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", shell, strerror(errno));
    _exit(127);
  }
  const Duration begin = os::RealClock().Steady();
  std::string problem;
  int status = 0;
  while (true) {
    if (waitpid(pid, &status, WNOHANG) != 0) break;
    const Duration left = begin + run.limit - os::RealClock().Steady();
    output->Read();
    if (left > Duration(0) && !wait(output->open() ? std::min(left, kReadEvery) : left)) continue;
    problem = left > Duration(0) ? StrCat(what, " was ended with the run")
                                 : StrCat(what, " took longer than node_limit, ", FormatDuration(run.limit));
    break;
  }
  // What a setup leaves running on purpose ends after the node's last task.
  if (!problem.empty()) {
    if (const Status ended = os::EndDescendants(kCommandGrace); !ended.ok()) os::LogError(ended.message());
  }
  if (problem.empty() && status != 0) problem = StrCat(what, " ended with ", os::DescribeWaitStatus(status));
  output->Read();
  std::string said = output->end();
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  os::LogInfo(StrCat(what, " took ", FormatDuration(os::RealClock().Steady() - begin),
                     said.empty() ? "" : "; it wrote:\n", said));
  if (problem.empty()) return Status();
  if (!said.empty()) problem += StrCat(": ", Printable(said.substr(said.rfind('\n') + 1), 200));
  os::LogError(problem);
  return Status(Code::kUnavailable, problem);
}

}  // namespace harrow::agent
