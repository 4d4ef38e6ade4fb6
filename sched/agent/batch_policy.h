#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace harrow::agent {

/// When results leave. Each batch costs a write, a message and some wakings-up on both sides, a late one an
/// idle slot. So they leave together a little later; when a slot has nothing to do, sooner, after a wait that
/// is nothing to tasks of that length: long ones that were started together end together. Pure; times are
/// steady.
struct BatchPolicy {
  Duration gather = std::chrono::milliseconds(2);          // results wait for others
  int64_t idle_part = 256;                                 // an idle slot for its task's run time over this
  Duration start_delay = std::chrono::milliseconds(50);    // that tasks have begun, without a result
  Duration output_delay = std::chrono::milliseconds(100);  // output without a result, for those who follow it
  size_t output_bytes = 256 * 1024;                        // or so much of it
  Duration pulse = std::chrono::milliseconds(2);  // between looks at slots that wait blindly (slot_pool.cc)

  struct State {
    std::optional<Duration> oldest_result{};  // when the first waiting one came
    std::optional<Duration> oldest_start{};
    std::optional<Duration> oldest_output{};
    size_t output_bytes = 0;
    bool hurry = false;                    // a slot is idle
    Duration shortest_run{0};              // of the tasks whose results wait
    std::optional<Duration> last_pulse{};  // none: no slot waits blindly
  };
  /// Whether what waits should leave now. Who is awake takes along what has waited half its time.
  bool Due(const State& state, Duration now) const {
    return (state.hurry && !state.oldest_result && state.oldest_output) ||
           (state.oldest_result && now >= *state.oldest_result + (state.hurry ? Wait(state) : gather / 2)) ||
           (state.oldest_start && now >= *state.oldest_start + start_delay) ||
           (state.oldest_output &&
            (now >= *state.oldest_output + output_delay || state.output_bytes >= output_bytes));
  }
  /// When to look again unless something comes; none: never.
  std::optional<Duration> NextLook(const State& state) const {
    std::optional<Duration> next;
    const auto at = [&next](std::optional<Duration> from, Duration after) {
      if (from && (!next || *from + after < *next)) next = *from + after;
    };
    at(state.oldest_result, state.hurry ? Wait(state) : gather);
    at(state.oldest_start, start_delay);
    at(state.oldest_output, output_delay);
    at(state.last_pulse, pulse);
    return next;
  }

 private:
  /// Of results while a slot is idle.
  Duration Wait(const State& state) const {
    return std::clamp(state.shortest_run / idle_part, Duration(0), gather);
  }
};

}  // namespace harrow::agent
