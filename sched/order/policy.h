#pragma once

#include <optional>
#include <string_view>

namespace harrow::order {

/// The name of an order inside a queue; class Order is what it does. All but kAuto are those of the Pwrake
/// paper (section 4.2).
enum class Policy { kFifo, kLifo, kHrf, kLifoHrf, kRankHrf, kAuto };

/// The policy called auto, fifo, lifo, hrf, lifo+hrf or rank+hrf; none: it is none of them.
std::optional<Policy> ParsePolicy(std::string_view name);
std::string_view PolicyName(Policy policy);

}  // namespace harrow::order
