#pragma once

#include <optional>

#include "base/time.h"

namespace harrow::agent {

/// When results leave. Each batch costs a write, a message and some wakings-up on both sides, a late one an
/// idle slot: at once when a slot has nothing to do, else together a little later. Pure; times are steady.
struct BatchPolicy {
  Duration gather = std::chrono::milliseconds(2);          // results wait for others
  Duration output_delay = std::chrono::milliseconds(100);  // output without a result, for those who follow it
  size_t output_bytes = 256 * 1024;                        // or so much of it
  Duration pulse = std::chrono::milliseconds(2);  // between looks at slots that wait blindly (slot_pool.cc)

  struct State {
    std::optional<Duration> oldest_result{};  // when the first waiting one came
    std::optional<Duration> oldest_output{};
    size_t output_bytes = 0;
    bool hurry = false;
    std::optional<Duration> last_pulse{};  // none: no slot waits blindly
  };
  /// Whether what waits should leave now. Who is awake takes along what has waited half its time.
  bool Due(const State& state, Duration now) const {
    return (state.hurry && (state.oldest_result || state.oldest_output)) ||
           (state.oldest_result && now >= *state.oldest_result + gather / 2) ||
           (state.oldest_output &&
            (now >= *state.oldest_output + output_delay || state.output_bytes >= output_bytes));
  }
  /// When to look again unless something comes; none: never.
  std::optional<Duration> NextLook(const State& state) const {
    std::optional<Duration> next;
    const auto at = [&next](std::optional<Duration> from, Duration after) {
      if (from && (!next || *from + after < *next)) next = *from + after;
    };
    at(state.oldest_result, gather);
    at(state.oldest_output, output_delay);
    at(state.last_pulse, pulse);
    return next;
  }
};

}  // namespace harrow::agent
