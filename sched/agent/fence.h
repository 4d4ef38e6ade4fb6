#pragma once

#include <algorithm>
#include <optional>

#include "base/time.h"

namespace harrow::agent {

/// Whether the tasks of an agent may run, by what its server has answered. A server lets an attempt begin
/// elsewhere when it has not heard of the agent for `fence` (Welcome.fence_ns); before that the agent's tasks
/// have to stand. What counts is when the agent *said* what was answered: the server cannot have heard of it
/// earlier, so the agent's time is over before the server's. Pure: has no clock; all times are the agent's
/// own. fence_page.h tells who acts on it.
class Fence {
 public:
  enum class State { kRunning, kStopped };

  /// For how long after the last answered word tasks may run; 0: always.
  static Duration LimitOf(Duration fence) {
    constexpr Duration kMargin = std::chrono::seconds(5);
    return fence < 2 * kMargin ? fence / 2 : fence - kMargin;
  }

  /// A server's word; 0: it never lets an attempt begin elsewhere.
  void Set(Duration fence) { limit_ = LimitOf(fence); }
  /// What was said at `sent`, a heartbeat or a hello, has been answered by `now`. A time that cannot be is
  /// ignored.
  void Answered(Time sent, Time now) {
    if (sent <= now) answered_ = std::max(answered_, sent);
  }

  Duration limit() const { return limit_; }
  /// From when on tasks have to stand; none: never.
  std::optional<Time> until() const {
    return limit_ > Duration(0) ? std::optional(answered_ + limit_) : std::nullopt;
  }
  State At(Time now) const { return until() && now >= *until() ? State::kStopped : State::kRunning; }

 private:
  Duration limit_{0};
  Time answered_{};
};

}  // namespace harrow::agent
