#pragma once

#include <optional>
#include <string_view>

namespace harrow::order {

/// The name of an order inside a queue; class Order is what it does. All but kAuto and kCost are those of the Pwrake
/// paper (section 4.2). kCost: the longest remaining path first, in seconds (core/path_order.h).
enum class Policy { kFifo, kLifo, kHrf, kLifoHrf, kRankHrf, kAuto, kCost };

/// The policy called auto, fifo, lifo, hrf, lifo+hrf, rank+hrf or cost; none: it is none of them.
std::optional<Policy> ParsePolicy(std::string_view name);
std::string_view PolicyName(Policy policy);

}  // namespace harrow::order
