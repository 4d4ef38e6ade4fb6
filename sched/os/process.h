#pragma once

#include <cstdint>
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
/// Reads one signal from a descriptor of SignalDescriptor; 0: none waits.
int ReadSignal(int fd);
/// A non-blocking descriptor that tells of the given (blocked) signals, or -1.
int SignalDescriptor(std::span<const int> signals);

/// A descriptor that is readable when process `pid` has ended, or -1.
int OpenPidfd(pid_t pid);

/// The processes below `root`, without itself, parents before children.
std::vector<pid_t> Descendants(pid_t root);
/// Memory of a process in bytes: resident, or proportional (shared pages divided among their users). 0 when
/// it is gone.
uint64_t ResidentMemory(pid_t pid);
uint64_t ProportionalMemory(pid_t pid);
/// The peak of this process's resident memory becomes what it is now.
void ForgetPeakMemory();

/// Ends every descendant of this process, a child subreaper, also those that forked twice or made a session
/// of their own: TERM, and after `grace` KILL, until none is left. `except` and what is below them stay. All
/// that end are reaped. kUnavailable when some could not be ended within `limit` after KILL (in the kernel's
/// hands).
Status EndDescendants(Duration grace, std::span<const pid_t> except = {},
                      Duration limit = std::chrono::seconds(30));

/// CPU time of this process and of all its descendants that have ended and been waited for.
Duration ProcessorTime();

/// "signal 9 (Killed)"; "exit code 3".
std::string DescribeWaitStatus(int wait_status);

}  // namespace harrow::os
