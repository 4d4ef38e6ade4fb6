#pragma once

#include <optional>
#include <string_view>

namespace harrow::order {

/// The order inside a queue (design: sections 4.2 of the Pwrake paper).
enum class Policy { kFifo, kLifo, kHrf, kLifoHrf, kRankHrf };

std::optional<Policy> ParsePolicy(std::string_view name);  // fifo lifo hrf lifo+hrf rank+hrf
std::string_view PolicyName(Policy policy);

}  // namespace harrow::order
