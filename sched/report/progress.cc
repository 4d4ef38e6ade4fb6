#include "report/progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "report/json.h"

namespace harrow::report {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);
constexpr Duration kSampleEvery = std::chrono::milliseconds(100);
constexpr uint64_t kEnoughSettled = 5;

std::string RateText(double rate) {
  std::string text;
  if (rate >= 10) {
    AppendFixed(&text, rate, 0);
    return text + "/s";
  }
  if (rate >= 1) {
    AppendFixed(&text, rate, 1);
    return text + "/s";
  }
  const double a_minute = rate * 60;
  if (a_minute >= 1) {
    AppendFixed(&text, a_minute, a_minute >= 10 ? 0 : 1);
    return text + "/min";
  }
  AppendFixed(&text, rate * 3600, 1);
  return text + "/h";
}

/// Coarse, as an estimate deserves: "12 s", "4 min", "2 h 05 min", "3 d 4 h".
std::string RoughDuration(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  if (s < 100) return StrCat(s, " s");
  const int64_t minutes = (s + 59) / 60;
  if (minutes < 100) return StrCat(minutes, " min");
  const int64_t hours = minutes / 60;
  if (hours < 48) return StrCat(hours, " h ", minutes % 60 < 10 ? "0" : "", minutes % 60, " min");
  return StrCat(hours / 24, " d ", hours % 24, " h");
}

/// The pieces in the order of display, each with its importance (0: never left out).
struct Part {
  std::string text;
  int importance;
};

}  // namespace

double CoreUtilisation(const ProgressView& view) {
  const double capacity = Seconds(view.elapsed) * view.slots;
  if (capacity <= 0) return 0;
  return std::clamp(Seconds(view.busy_core_time) / capacity, 0.0, 1.0);
}

std::optional<double> LocalShare(const ProgressView& view) {
  const uint64_t all = view.local_bytes + view.remote_bytes;
  if (all == 0) return std::nullopt;
  return static_cast<double>(view.local_bytes) / static_cast<double>(all);
}

void RateMeter::Add(const ProgressView& view) {
  const uint64_t settled = view.settled();
  if (!samples_.empty()) {
    if (view.elapsed < samples_.back().at || settled < samples_.back().settled) {
      samples_.clear();  // another server counts from anew
    } else if (samples_.size() > 1 && view.elapsed - samples_[samples_.size() - 2].at < kSampleEvery) {
      samples_.pop_back();
    }
  }
  samples_.push_back({view.elapsed, settled});
  while (samples_.size() > 2 && view.elapsed - samples_[1].at >= kWindow) samples_.pop_front();

  const Sample& first = samples_.front();
  const double window = Seconds(view.elapsed - first.at);
  if (window > 0 && settled - first.settled >= kEnoughSettled) {
    rate_ = static_cast<double>(settled - first.settled) / window;
  } else {
    const double all = Seconds(view.elapsed);
    rate_ = all > 0 ? static_cast<double>(settled) / all : 0;
  }
}

std::string ProgressLine(const ProgressView& view, double rate, size_t width) {
  std::vector<Part> parts;
  parts.push_back({StrCat("done ", view.done, "/", view.total), 0});
  if (!view.complete) parts.push_back({StrCat("running ", view.running), 2});
  if (view.failed > 0) parts.push_back({StrCat("failed ", view.failed), 1});
  if (view.skipped > 0) parts.push_back({StrCat("skipped ", view.skipped), 5});
  if (view.cancelled > 0) parts.push_back({StrCat("cancelled ", view.cancelled), 6});
  if (view.losses > 0) parts.push_back({StrCat("lost ", view.losses), 7});
  if (rate > 0) {
    parts.push_back({RateText(rate), 4});
    if (view.open() > 0) {
      parts.push_back({StrCat("~", RoughDuration(static_cast<double>(view.open()) / rate), " to go"), 3});
    }
  }
  const auto join = [&parts] {
    std::string line;
    for (const Part& part : parts) {
      if (!line.empty()) line += "  ";
      line += part.text;
    }
    return line;
  };
  std::string line = join();
  while (line.size() > width && parts.size() > 1) {
    parts.erase(std::max_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.importance < b.importance; }));
    line = join();
  }
  if (line.size() > width) line.resize(width);
  return line;
}

std::string DrawOver(const std::string& line) {
  return StrCat("\r", line, "\x1b[K");
}
std::string EraseLine() {
  return "\r\x1b[K";
}

std::optional<std::string> PlainProgress::Next(const ProgressView& view, double rate) {
  if (view.complete) return std::nullopt;
  const Duration since = view.elapsed - last_at_;
  const Duration interval =
      std::max(interval_, std::min<Duration>(view.elapsed / 20, std::chrono::minutes(1)));
  if (since < interval) return std::nullopt;

  const uint64_t settled = view.settled(), before = last_.settled();
  const bool first_failure = view.failed > 0 && last_.failed == 0;
  const bool moved = settled >= before + std::max<uint64_t>(1, view.total / 100);
  const bool changed = settled != before || view.running != last_.running || view.total != last_.total;
  if (!first_failure && !moved && !(changed && since >= std::chrono::minutes(1))) return std::nullopt;
  last_at_ = view.elapsed;
  last_ = view;
  return ProgressLine(view, rate, 200);
}

}  // namespace harrow::report
