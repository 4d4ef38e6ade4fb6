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
constexpr uint64_t kEnoughEnded = 5;
constexpr uint64_t kEnoughForAGuess = 10;

/// Tasks that ran and are over. Skipped and cancelled ones take no time, and would make the rest look fast.
uint64_t Ended(const Figures& figures) {
  return figures.done + figures.failed;
}

/// In tasks a second always, so that two lines can be compared; empty for what is too slow to be told so.
std::string RateText(double rate) {
  if (rate < 0.01) return "";
  return FixedText(rate, rate >= 10 ? 0 : rate >= 1 ? 1 : 2) + "/s";
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

void RateMeter::Add(const Figures& view) {
  const uint64_t ended = Ended(view);
  if (!samples_.empty()) {
    if (view.makespan < samples_.back().at || ended < samples_.back().ended) {
      samples_.clear();  // another server counts from anew
    } else if (samples_.size() > 1 && view.makespan - samples_[samples_.size() - 2].at < kSampleEvery) {
      samples_.pop_back();
    }
  }
  samples_.push_back({view.makespan, ended});
  while (samples_.size() > 2 && view.makespan - samples_[1].at >= kWindow) samples_.pop_front();

  const Sample& first = samples_.front();
  const double window = Seconds(view.makespan - first.at);
  if (window > 0 && ended - first.ended >= kEnoughEnded) {
    rate_ = static_cast<double>(ended - first.ended) / window;
  } else {
    const double all = Seconds(view.makespan);
    rate_ = all > 0 ? static_cast<double>(ended) / all : 0;
  }
}

std::string ProgressLine(const Figures& view, double rate, size_t width) {
  std::vector<Part> parts;
  parts.push_back({StrCat("done ", view.done, "/", view.total), 0});
  if (!view.complete) parts.push_back({StrCat("running ", view.running), 2});
  if (view.failed > 0) parts.push_back({StrCat("failed ", view.failed), 1});
  if (view.skipped > 0) parts.push_back({StrCat("skipped ", view.skipped), 5});
  if (view.cancelled > 0) parts.push_back({StrCat("cancelled ", view.cancelled), 6});
  if (view.pruned > 0) parts.push_back({StrCat("pruned ", view.pruned), 6});
  if (view.losses > 0) parts.push_back({StrCat("lost ", view.losses), 7});
  if (const std::string text = RateText(rate); !text.empty()) parts.push_back({text, 4});
  // Before every slot has ended a task, and a few have, nothing is known about the others.
  if (rate > 0 && view.open() > 0 && Ended(view) >= std::max<uint64_t>(kEnoughForAGuess, view.slots)) {
    parts.push_back({StrCat("~", RoughDuration(static_cast<double>(view.open()) / rate), " to go"), 3});
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

std::optional<std::string> PlainProgress::Next(const Figures& view, double rate) {
  if (view.complete) return std::nullopt;
  const Duration since = view.makespan - last_at_;
  const Duration interval =
      std::max(interval_, std::min<Duration>(last_at_, std::chrono::minutes(1)));
  const bool first_failure = view.failed > 0 && last_.failed == 0;
  if (since < (first_failure ? interval_ : interval)) return std::nullopt;

  const uint64_t settled = view.settled(), before = last_.settled();
  const bool moved = settled >= before + std::max<uint64_t>(1, view.total / 100);
  const bool changed = settled != before || view.running != last_.running || view.total != last_.total;
  if (!first_failure && !moved && !(changed && since >= std::chrono::minutes(1))) return std::nullopt;
  last_at_ = view.makespan;
  last_ = view;
  return ProgressLine(view, rate, 200);
}

}  // namespace harrow::report
