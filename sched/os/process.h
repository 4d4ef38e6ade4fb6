#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace harrow::os {

/// Makes this process the new parent of its descendants whose parents die.
Status BecomeSubreaper();
/// `signal` when the thread that forked us ends; `parent` is whom the caller expects as parent. kUnavailable
/// when it is gone already.
Status DieWithParent(int signal, pid_t parent);
/// Every signal blocked that can be, in this thread and those it will start; each ignored one reset to its
/// default.
void TakeSignals();
/// What the starter had open besides 0 to 2 is not passed on to programs that we start.
void CloseOthersOnExec();
/// Reads one signal from a descriptor of SignalDescriptor; 0: none waits.
int ReadSignal(int fd);
/// A non-blocking descriptor that tells of the given (blocked) signals, or -1.
int SignalDescriptor(std::span<const int> signals);

/// A descriptor that is readable when process `pid` has ended, or -1.
int OpenPidfd(pid_t pid);

/// A process as /proc showed it. Number and start time together mean no other.
struct Process {
  pid_t pid = 0, parent = 0, group = 0;
  uint64_t started = 0;  // clock ticks after the system's start; 0: not known
  bool stopped = false;  // it stands: by a signal, or because somebody traces it
};

/// False when no process of this number lives.
bool ReadProcess(pid_t pid, Process* out);

/// The processes below `root`, without itself, parents before children. A number as root has to be the
/// caller's own or that of a child that has not been reaped.
std::vector<Process> Descendants(pid_t root);
std::vector<Process> Descendants(const Process& root);
/// The name of the program that it executes, at most 15 bytes of it; empty: it is gone.
std::string ProgramOf(const Process& process);
/// Signals this process, and never another that has got its number since. False when it is gone, or where the
/// kernel has no pidfds.
bool SignalProcess(const Process& process, int signal);

/// Makes processes stand (SIGSTOP), and lets go on (SIGCONT) exactly those that it stopped: one that stood
/// before was stopped by somebody else. Of one thread.
class Stopper {
 public:
  /// All that is below `root` but `except` (whose descendants are stopped too), again and again until all
  /// stand, or two seconds have passed: one that stands cannot fork. A root other than the caller's own
  /// number is a child that has not been reaped, and is stopped with its whole process group. May be called
  /// again, for those that came since and those that somebody has continued. False when all stood already.
  bool Stop(pid_t root, std::span<const pid_t> except = {});
  /// One after the other, until `may` says no; the rest stands until the next call.
  void Continue(const std::function<bool()>& may = [] { return true; });
  /// What was stopped has ended, or is no business of the caller's any more.
  void Forget() { stopped_.clear(); }
  bool empty() const { return stopped_.empty(); }

 private:
  void Send(const Process& process, int signal) const;

  pid_t root_ = 0;
  std::vector<Process> stopped_;
};

/// Memory of a process in bytes: resident, or proportional (shared pages divided among their users). 0 when
/// it is gone.
uint64_t ResidentMemory(pid_t pid);
uint64_t ProportionalMemory(pid_t pid);

/// The process `root`, which has not been reaped, and all below it, with what each holds. Looks at these
/// processes only, however many others the machine has (where the kernel does not list children, at all).
struct ProcessMemory {
  pid_t pid = 0;
  uint64_t resident = 0;  // bytes; pages that several share count for each
};
std::vector<ProcessMemory> MemoryOfTree(pid_t root);
/// The peak of this process's resident memory becomes what it is now.
void ForgetPeakMemory();

/// Ends every descendant of this process, a child subreaper, also those that forked twice or made a session
/// of their own: TERM, and after `grace` KILL, until none is left. `except` and what is below them stay. All
/// that end are reaped. kUnavailable when some could not be ended within `limit` after KILL (in the kernel's
/// hands).
Status EndDescendants(Duration grace, std::span<const pid_t> except = {},
                      Duration limit = std::chrono::seconds(30));

/// Empty: nobody is known by that number.
std::string UserName(uid_t uid);
/// CPU time of this process and of all its descendants that have ended and been waited for.
Duration ProcessorTime();

/// "signal 9 (Killed)"; "exit code 3".
std::string DescribeWaitStatus(int wait_status);

}  // namespace harrow::os
