#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace harrow {

/// What a run, or a simulated one, has come to at one moment: the one definition behind progress lines, the
/// last line, the exit status, status, report and the simulator.
///
/// A resumed run has several sessions. `makespan` is the sum of their lengths, the last one's so far; between
/// two sessions no time passes. A session has the slots of all nodes that joined in it, each node once.
struct Figures {
  // Tasks. What is neither settled nor running waits.
  uint64_t total = 0, done = 0, failed = 0, skipped = 0, cancelled = 0, pruned = 0, running = 0;
  uint64_t attempts = 0;                       // that began; also those that failed or were lost
  uint64_t losses = 0;                         // attempts lost with their node or agent
  uint64_t local_bytes = 0, remote_bytes = 0;  // input bytes by where they were when the task was assigned
  uint64_t bytes_moved = 0;                    // between nodes
  // With files on the nodes' own disks. Of local_bytes: those of files that were placed or made there;
  // without, all.
  uint64_t home_bytes = 0;
  uint64_t shared_read_bytes = 0, written_back_bytes = 0;  // from and to the submit directory
  Duration makespan{0};
  double core_seconds = 0;  // sum of run time x cores of attempts, also of those that run
  double slot_seconds = 0;  // sum of length x slots of sessions
  uint32_t slots = 0;       // of the last session
  uint32_t sessions = 1;
  bool complete = false;  // nothing more happens in this session

  uint64_t settled() const { return done + failed + skipped + cancelled + pruned; }
  /// Tasks that a run is not to end with: what is pruned was of no use.
  uint64_t missed() const { return failed + skipped + cancelled; }
  uint64_t open() const { return total > settled() ? total - settled() : 0; }
  /// Sum of task times / (makespan x slots), 0 to 1; 0 while nothing is known.
  double CoreUtilisation() const;
  /// Share of input bytes that were on the node when their task was assigned, 0 to 1; none when no input was
  /// declared.
  std::optional<double> LocalShare() const;
  /// The same of those that were placed or made there: copies do not count.
  std::optional<double> HomeShare() const;
};

/// What an attempt from `start_ns` to `end_ns` took of its cores; 0 for one that never started (start 0).
constexpr double CoreSeconds(int64_t start_ns, int64_t end_ns, uint64_t cores) {
  return start_ns > 0 && end_ns > start_ns ? Seconds(Duration(end_ns - start_ns)) * static_cast<double>(cores)
                                           : 0;
}

}  // namespace harrow
