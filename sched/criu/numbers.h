#pragma once

#include <sys/types.h>
#include <vector>

namespace harrow::criu {

/// What CRIU will give to the process again: the numbers of its threads (its own among them), its group's and its session's;
/// some of them more than once.
std::vector<int> NumbersOf(pid_t pid);

/// The first of `room` numbers in a row that are not among `taken`; not below `from`.
int FirstFree(std::vector<int> taken, int from, int room);

}  // namespace harrow::criu
