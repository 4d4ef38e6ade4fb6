#pragma once

namespace harrow::run {

/// How a server process ends. Each is definite: the keeper starts no other server then.
enum class ServerEnd : int {
  kAllDone = 0,
  kSomeFailed = 1,
  kCannotGoOn = 3,
  kStopped = 4,  // told to, or before the time limit: tasks are open, and the run can be resumed
};

}  // namespace harrow::run
