// Spawning. clone(CLONE_VM | CLONE_VFORK): the child runs in our memory on a stack of its own while the
// calling thread waits for its exec, so nothing of our address space is copied and an error comes back in a
// variable. It is what posix_spawn does; but the stack is mapped once a spawner instead of once a call, and
// the child can change directory, affinity and parent-death signal, which posix_spawn cannot.
//
// The child may only make system calls on memory that was prepared before: it shares locks and heap with
// threads that run on. Handlers of ours could run in it until the exec; the callers' threads therefore block
// every signal whose handler does more than nothing, and the child's mask is cleared last.
//
// At an exec the kernel carries the peak of the memory that is left, ours, over into what it will call the
// process's max RSS: a smaller figure cannot be had of it afterwards. So the child asks for that peak and
// leaves it to the caller, who can tell a task's own figure from it.
#include "os/spawn.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer's clone() takes the child's way out of it for the parent's, as the two share their memory,
// and is blind afterwards. This is the C library's own.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);
#define clone __clone
#endif

namespace harrow::os {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kGuardBytes = 4096;

struct ChildContext {
  const SpawnRequest* request;
  const std::vector<int>* ignored_signals;
  // volatile: written by the child in our memory while we wait.
  volatile int error = 0;
  volatile SpawnStep step = SpawnStep::kNone;
  volatile int64_t peak_kib = 0;
};

int Abandon(ChildContext* context, SpawnStep step) {
  context->error = errno;
  context->step = step;
  _exit(127);
}

/// `fd` as `wanted`, not closed on exec.
bool Place(int fd, int wanted) {
  if (fd < 0) return true;
  if (fd == wanted) return fcntl(fd, F_SETFD, 0) == 0;
  return dup2(fd, wanted) >= 0;
}

void RaiseOomScore(int value) {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  char text[8];
  size_t length = 0;
  char digits[8];
  size_t count = 0;
  for (unsigned left = static_cast<unsigned>(value); count == 0 || left > 0; left /= 10)
    digits[count++] = static_cast<char>('0' + left % 10);
  while (count > 0) text[length++] = digits[--count];
  [[maybe_unused]] ssize_t written = write(fd, text, length);
  close(fd);
}

/// Whether that time has come.
__attribute__((no_sanitize("address", "thread", "undefined"))) bool TooLate(
    const std::atomic<int64_t>* until_ns) {
  const int64_t until = until_ns != nullptr ? until_ns->load() : 0;
  if (until == 0) return false;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec >= until;
}

// Sanitizers keep state per thread, and this is a second process on the memory of one.
__attribute__((no_sanitize("address", "thread", "undefined"))) int Child(void* argument) {
  auto* context = static_cast<ChildContext*>(argument);
  const SpawnRequest& request = *context->request;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, request.death_signal);
  if (request.directory != nullptr && chdir(request.directory) != 0)
    return Abandon(context, SpawnStep::kDirectory);
  if (!Place(request.stdin_fd, 0) || !Place(request.stdout_fd, 1) || !Place(request.stderr_fd, 2) ||
      !Place(request.kept_fd, request.kept_fd))
    return Abandon(context, SpawnStep::kDescriptors);
  // An affinity that the kernel refuses (a PU gone offline) is no reason not to run.
  if (request.cpus != nullptr) {
    sched_setaffinity(0, request.cpus->bytes(), reinterpret_cast<const cpu_set_t*>(request.cpus->words()));
  }
  if (request.oom_score_adj > 0) RaiseOomScore(request.oom_score_adj);
  if (request.descriptor_limit > 0) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = request.descriptor_limit;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  context->peak_kib = usage.ru_maxrss;
  for (int signal : *context->ignored_signals) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (TooLate(request.until_ns) || (request.unless != nullptr && request.unless->load() != 0))
    return Abandon(context, SpawnStep::kTooLate);
  execve(request.program, request.argv, request.envp);
  return Abandon(context, SpawnStep::kExec);
}

}  // namespace

CpuMask::CpuMask(const std::vector<uint32_t>& pus) {
  constexpr uint32_t kBits = 8 * sizeof(unsigned long);
  for (uint32_t pu : pus) {
    if (words_.size() <= pu / kBits) words_.resize(pu / kBits + 1);
    words_[pu / kBits] |= 1ul << (pu % kBits);
  }
}

bool PinThisThread(const CpuMask& mask) {
  return !mask.empty() &&
         sched_setaffinity(0, mask.bytes(), reinterpret_cast<const cpu_set_t*>(mask.words())) == 0;
}

Spawner::Spawner() {
  void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) abort();
  mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = memory;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      ignored_signals_.push_back(signal);
  }
}

Spawner::~Spawner() {
  munmap(stack_, kStackBytes + kGuardBytes);
}

std::string NoProcessText(int error) {
  const char* what = strerrordesc_np(error);
  return StrCat("no more processes can be started (", what == nullptr ? "?" : what, ")",
                error == EAGAIN ? "; raise the limit of processes (ulimit -u)" : "");
}

SpawnOutcome Spawner::SpawnOnce(const SpawnRequest& request) {
  ChildContext context{.request = &request, .ignored_signals = &ignored_signals_};
  void* top = static_cast<char*>(stack_) + kStackBytes + kGuardBytes;
  int pid = clone(Child, top, CLONE_VM | CLONE_VFORK | SIGCHLD, &context);
  if (pid < 0) return {.pid = -1, .error = errno, .step = SpawnStep::kClone};
  if (context.step == SpawnStep::kNone) return {.pid = pid, .peak_kib = context.peak_kib};
  (void)TEMP_FAILURE_RETRY(waitpid(pid, nullptr, 0));
  return {.pid = -1, .error = context.error, .step = context.step};
}

SpawnOutcome Spawner::Spawn(const SpawnRequest& request) {
  SpawnOutcome outcome = SpawnOnce(request);
  if (outcome.step != SpawnStep::kExec || outcome.error != ENOEXEC) return outcome;
  std::vector<char*> argv = {const_cast<char*>("/bin/sh"), const_cast<char*>(request.program)};
  for (char* const* argument = request.argv + 1; request.argv[0] != nullptr && *argument != nullptr;
       ++argument)
    argv.push_back(*argument);
  argv.push_back(nullptr);
  SpawnRequest by_shell = request;
  by_shell.program = "/bin/sh";
  by_shell.argv = argv.data();
  return SpawnOnce(by_shell);
}

}  // namespace harrow::os
