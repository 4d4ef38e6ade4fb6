#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/time.h"

namespace harrow::report {

/// The figures of a run at one moment: what progress lines, the summary line and `status --json` are made of.
/// `elapsed` is the makespan so far (of an ended run: the makespan).
struct ProgressView {
  uint64_t total = 0, done = 0, failed = 0, skipped = 0, cancelled = 0, running = 0;
  uint64_t attempts = 0;                       // also those that failed or were lost
  uint64_t losses = 0;                         // attempts lost with their node or agent
  uint64_t local_bytes = 0, remote_bytes = 0;  // input bytes by where they were when the task was assigned
  uint64_t bytes_moved = 0;                    // between nodes
  Duration elapsed{0};
  Duration busy_core_time{0};  // sum of run time x cores of ended attempts and of what runs
  uint32_t slots = 0;          // of all nodes
  bool complete = false;

  uint64_t settled() const { return done + failed + skipped + cancelled; }
  uint64_t open() const { return total > settled() ? total - settled() : 0; }
};

/// Sum of task times / (makespan x slots), 0 to 1; 0 while nothing is known.
double CoreUtilisation(const ProgressView& view);
/// Share of input bytes that were on the node when their task was assigned, 0 to 1; none when no input was
/// declared.
std::optional<double> LocalShare(const ProgressView& view);

/// Tasks settled a second over the last ten seconds; over the whole run where fewer than five were settled in
/// them.
class RateMeter {
 public:
  void Add(const ProgressView& view);
  double rate() const { return rate_; }

 private:
  struct Sample {
    Duration at;
    uint64_t settled;
  };
  std::deque<Sample> samples_;
  double rate_ = 0;
};

/// "done 1234/5000  running 8  failed 2  312/s  ~12 s to go", cut to `width` columns by leaving out whole
/// pieces, the least important first. `rate`: tasks settled a second; 0: unknown.
std::string ProgressLine(const ProgressView& view, double rate, size_t width);

/// What draws `line` over the line drawn before: carriage return, the line, clear to its end. Write it in one
/// piece.
std::string DrawOver(const std::string& line);
/// What takes the drawn line away, before something else is printed.
std::string EraseLine();

/// Decides when a log that is no terminal gets a line: at the first failure, when a hundredth of the tasks
/// has been settled since the last line, or after a minute in which anything changed; never two within
/// `interval`, which grows with the run to at most a minute. Completion is the summary's business.
class PlainProgress {
 public:
  explicit PlainProgress(Duration interval = std::chrono::seconds(5)) : interval_(interval) {}
  /// Without line end; none: nothing to say now.
  std::optional<std::string> Next(const ProgressView& view, double rate);

 private:
  Duration interval_;
  Duration last_at_{0};
  ProgressView last_;
};

}  // namespace harrow::report
