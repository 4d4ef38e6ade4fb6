#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/ids.h"
#include "base/time.h"
#include "order/lane.h"
#include "order/level_times.h"

namespace harrow::core {

/// How long tasks have run, and since when those run that have a slot now. Kept where there are tasks of
/// several nodes: what is kept free for these is lent to tasks that end in time.
class RunTimes {
 public:
  /// Of levels, where nothing is known of a lane there.
  explicit RunTimes(const order::LevelTimes* levels) : levels_(*levels) {}

  void Begin(TaskId id, Time now) {
    if (since_.empty() && sums_.empty()) kept_since_ = now;
    since_.insert_or_assign(id, now);
  }
  void End(TaskId id) { since_.erase(id); }
  /// Or since this is kept, where it had its slot before.
  Time since(TaskId id) const {
    const auto found = since_.find(id);
    return found == since_.end() ? kept_since_ : found->second;
  }

  /// A task of that level and lane is done.
  void Learn(Level level, order::LaneId lane, Duration run_time) {
    Sum& sum = sums_[Key(level, lane)];
    sum.total += Seconds(run_time);
    sum.count += 1;
  }
  /// None: nothing is known.
  std::optional<Duration> Mean(Level level, order::LaneId lane) const {
    if (const auto found = sums_.find(Key(level, lane)); found != sums_.end())
      return FromSeconds(found->second.total / found->second.count);
    if (levels_.measured(level)) return FromSeconds(levels_.mean(level));
    return std::nullopt;
  }
  size_t memory() const {
    return since_.size() * (sizeof(std::pair<TaskId, Time>) + 2 * sizeof(void*)) +
           sums_.size() * (sizeof(std::pair<uint64_t, Sum>) + 2 * sizeof(void*));
  }

 private:
  struct Sum {
    double total = 0;
    double count = 0;
  };
  static uint64_t Key(Level level, order::LaneId lane) {
    return uint64_t{static_cast<uint32_t>(level)} << 16 | lane;
  }

  const order::LevelTimes& levels_;
  std::unordered_map<TaskId, Time> since_;
  std::unordered_map<uint64_t, Sum> sums_;
  Time kept_since_{};
};

}  // namespace harrow::core
