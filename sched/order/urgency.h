#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace harrow::order {

/// What puts a task before others that the order does not tell apart: its priority, then its bound, the least first
/// (to seven digits). One without a bound goes before those that have one. 0: it has neither.
using Urgency = int64_t;
constexpr Urgency kLeastUrgent = std::numeric_limits<Urgency>::min();

/// `bound`: no NaN; -infinity: it has none.
inline Urgency UrgencyOf(int32_t priority, double bound) {
  const auto place = [](float value) {  // rises with it
    const auto bits = std::bit_cast<uint32_t>(value);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  };
  const uint32_t none = place(-std::numeric_limits<float>::infinity());
  return int64_t{priority} * (int64_t{1} << 32) - (place(static_cast<float>(bound)) - none);
}

}  // namespace harrow::order
