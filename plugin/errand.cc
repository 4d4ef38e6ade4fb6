#include "errand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"
#include "log.h"

// A disk, a network file system or a syslog that does not answer holds up any call, for ever and past any
// signal. slurmd, slurmstepd and a job's epilog must not be held up: what they hang in keeps a node from all
// jobs. So all that touches the site's disk is done by a child, and the caller waits for a pipe, for a
// limited time.
//
// The child is a grandchild: whoever inherits it is not the caller, which would have to reap it, nor is it
// among the processes of a step, whose end Slurm waits for. It is never signalled, as its number could be
// somebody else's by then; its own alarm ends it. It holds nothing of the caller's open: Slurm reads an
// epilog's output until the last holder has closed it.

namespace harrow::plugin {
namespace {

constexpr int kPipe = 3;              // of the child
constexpr long kForkPatience = 2000;  // milliseconds; who has used up all processes may end some again

void CloseFrom(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  // This directory is read by number: one that is closed meanwhile moves no other.
  DIR* listing = opendir("/proc/self/fd");
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing)) {
    const int fd = atoi(entry->d_name);
    if (fd >= first && fd != dirfd(listing)) close(fd);
  }
  closedir(listing);
}

void TakeDescriptorsOfOnesOwn(int pipe) {
  dup2(pipe, kPipe);
  CloseFrom(kPipe + 1);
  for (int fd = 0; fd < kPipe; ++fd) {
    close(fd);
    (void)!open("/dev/null", O_RDWR);  // gets the lowest number there is, this one
  }
}

[[noreturn]] void BeChild(int pipe, unsigned seconds, int (*work)(void*), void* context) {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  alarm(seconds);
  TakeDescriptorsOfOnesOwn(pipe);
  SendLogTo(kPipe);
  (void)!chdir("/");
  char text[32];
  const int size = snprintf(text, sizeof text, "r%d\n", work(context));
  _exit(write(kPipe, text, static_cast<size_t>(size)) == size ? 0 : 1);
}

// errno, or 0: the child runs.
int Start(int pipe, unsigned seconds, int (*work)(void*), void* context) {
  const long began = Milliseconds();
  const pid_t between = fork();
  if (between < 0) return errno;
  if (between == 0) {
    const pid_t child = fork();
    if (child < 0) _exit(errno);
    if (child == 0) BeChild(pipe, seconds, work, context);
    _exit(0);
  }
  // It ends at once; but even to close its copies of our descriptors may take a disk's answer.
  int status;
  pid_t ended;
  while ((ended = waitpid(between, &status, WNOHANG)) == 0) {
    if (Milliseconds() - began > kForkPatience) return 0;
    const timespec pause = {0, 200'000};
    nanosleep(&pause, nullptr);
  }
  return ended == between && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

// What the child says, line by line; the longest is far shorter than the buffer (log.cc).
class Listener {
 public:
  /// False at the end.
  bool Read(int pipe) {
    const ssize_t n = read(pipe, text_ + size_, sizeof text_ - size_);
    if (n < 0) return errno == EINTR;
    size_ += static_cast<size_t>(n);
    while (char* end = static_cast<char*>(memchr(text_, '\n', size_))) {
      *end = '\0';
      Line();
      size_ -= static_cast<size_t>(end + 1 - text_);
      memmove(text_, end + 1, size_);
    }
    return n > 0;
  }
  bool has_result() const { return has_result_; }
  int result() const { return result_; }

 private:
  void Line() {
    if (text_[0] == 'r') {
      has_result_ = true;
      result_ = atoi(text_ + 1);
    } else {
      WriteLog(text_[0] == 'e', text_ + 1);
    }
  }

  char text_[4096];
  size_t size_ = 0;
  bool has_result_ = false;
  int result_ = 0;
};

}  // namespace

Errand RunErrand(unsigned seconds, int (*work)(void*), void* context) {
  const long began = Milliseconds();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {Errand::kFailed, errno};
  Fd reading(ends[0]);
  int error;
  {
    Fd writing(ends[1]);
    while ((error = Start(writing, seconds, work, context)) == EAGAIN &&
           Milliseconds() - began < kForkPatience)
      Pause(20);
  }
  if (error != 0) return {Errand::kFailed, error};
  Listener listener;
  const long limit = static_cast<long>(seconds) * 1000;
  while (true) {
    const long left = began + limit + 1000 - Milliseconds();
    if (left <= 0) return {Errand::kLate, 0};
    pollfd wait = {reading, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const bool more = listener.Read(reading);
    if (listener.has_result()) return {Errand::kDone, listener.result()};
    if (!more) return {Milliseconds() - began >= limit ? Errand::kLate : Errand::kFailed, 0};
  }
}

const char* WhyNot(const Errand& errand) {
  if (errand.end == Errand::kLate) return "it takes longer; does the disk answer?";
  return errand.value != 0 ? strerror(errand.value) : "the process that does it was ended";
}

}  // namespace harrow::plugin
