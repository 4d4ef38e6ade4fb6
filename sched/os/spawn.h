#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace harrow::os {

/// A set of PUs (hardware threads) by their OS numbers, in the kernel's form.
class CpuMask {
 public:
  CpuMask() = default;
  explicit CpuMask(const std::vector<uint32_t>& pus);
  bool empty() const { return words_.empty(); }
  const unsigned long* words() const { return words_.data(); }
  size_t bytes() const { return words_.size() * sizeof(unsigned long); }
  bool operator==(const CpuMask&) const = default;

 private:
  std::vector<unsigned long> words_;
};

/// Pins the calling thread; false when the kernel refuses.
bool PinThisThread(const CpuMask& mask);

/// One program to start. Pointers need to live during the call only.
struct SpawnRequest {
  const char* program = nullptr;  // a path; PATH is not searched
  char* const* argv = nullptr;    // ends with nullptr
  char* const* envp = nullptr;    // ends with nullptr
  int stdin_fd = -1;              // becomes 0, 1, 2; -1: the caller's own stays
  int stdout_fd = -1;
  int stderr_fd = -1;
  int kept_fd = -1;                 // stays open, under its number; -1: none
  const char* directory = nullptr;  // nullptr: the caller's
  const CpuMask* cpus = nullptr;    // nullptr: as the calling thread
  int oom_score_adj = 0;            // 0: as the caller
  uint64_t descriptor_limit = 0;    // soft RLIMIT_NOFILE; 0: as the caller
  int death_signal = 9;             // what it gets when the spawning thread ends
  /// The program is not begun (SpawnStep::kTooLate) once this steady time in ns has come; 0 there: whenever.
  /// It is looked at last of all, in the child, which goes on while the caller is stopped.
  const std::atomic<int64_t>* until_ns = nullptr;
  /// Likewise once this is not 0 any more.
  const std::atomic<uint8_t>* unless = nullptr;
};

enum class SpawnStep : uint8_t { kNone, kClone, kDirectory, kDescriptors, kExec, kTooLate };

struct SpawnOutcome {
  bool started() const { return pid > 0; }
  int pid = -1;   // where it has started: the caller waits for it
  int error = 0;  // errno of `step`
  SpawnStep step = SpawnStep::kNone;
  int64_t peak_kib = 0;  // what the kernel counts into the process's max RSS from before its exec (spawn.cc)
};

/// Why no process could be made (an errno of fork or clone), and what helps where that is a limit.
std::string NoProcessText(int error);

/// Starts programs for one thread at little cost (how: spawn.cc). Each becomes the leader of a process group
/// of its own, with default signal handling and an empty signal mask, and is killed (or told) when the
/// spawning thread ends. Belongs to the thread that calls Spawn; the descriptors of the process should be
/// close-on-exec.
class Spawner {
 public:
  Spawner();
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  /// A program without a known format (ENOEXEC) is given to /bin/sh, as execvp does.
  SpawnOutcome Spawn(const SpawnRequest& request);

 private:
  SpawnOutcome SpawnOnce(const SpawnRequest& request);

  void* stack_ = nullptr;
  std::vector<int> ignored_signals_;  // of this process; a child gets the default
};

}  // namespace harrow::os
