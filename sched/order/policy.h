#pragma once

#include <optional>
#include <string_view>

namespace harrow::order {

/// The name of an order inside a queue (section 4.2 of the Pwrake paper); class Order is what it does.
enum class Policy { kFifo, kLifo, kHrf, kLifoHrf, kRankHrf };

/// The policy called fifo, lifo, hrf, lifo+hrf or rank+hrf; none: it is none of them.
std::optional<Policy> ParsePolicy(std::string_view name);
std::string_view PolicyName(Policy policy);

}  // namespace harrow::order
