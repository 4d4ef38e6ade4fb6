#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/figures.h"
#include "base/time.h"

namespace harrow::report {

/// Tasks that ended a second (done or failed) over the last ten seconds; over the whole run where fewer than five ended
/// in them.
class RateMeter {
 public:
  void Add(const Figures& view);
  double rate() const { return rate_; }

 private:
  struct Sample {
    Duration at;
    uint64_t ended;
  };
  std::deque<Sample> samples_;
  double rate_ = 0;
};

/// "done 1234/5000  running 8  failed 2  312/s  ~12 s to go", cut to `width` columns by leaving out whole
/// pieces, the least important first. `rate`: RateMeter's; 0: unknown. The time to go is
/// left out while too few tasks have ended to guess it.
std::string ProgressLine(const Figures& view, double rate, size_t width);

/// What draws `line` over the line drawn before: carriage return, the line, clear to its end. Write it in one
/// piece.
std::string DrawOver(const std::string& line);
/// What takes the drawn line away, before something else is printed.
std::string EraseLine();

/// Decides when a log that is no terminal gets a line: at the first failure, when a hundredth of the tasks
/// has been settled since the last line, or after a minute in which anything changed; never two within
/// `interval`, which doubles from line to line up to a minute. Completion is the summary's business.
class PlainProgress {
 public:
  explicit PlainProgress(Duration interval = std::chrono::seconds(5)) : interval_(interval) {}
  /// Without line end; none: nothing to say now.
  std::optional<std::string> Next(const Figures& view, double rate);

 private:
  Duration interval_;
  Duration last_at_{0};
  Figures last_;
};

}  // namespace harrow::report
