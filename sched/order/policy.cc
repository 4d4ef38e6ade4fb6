#include "order/policy.h"

#include <array>
#include <utility>

namespace harrow::order {
namespace {

constexpr std::array<std::pair<Policy, std::string_view>, 7> kNames = {{{Policy::kFifo, "fifo"},
                                                                        {Policy::kLifo, "lifo"},
                                                                        {Policy::kHrf, "hrf"},
                                                                        {Policy::kLifoHrf, "lifo+hrf"},
                                                                        {Policy::kRankHrf, "rank+hrf"},
                                                                        {Policy::kAuto, "auto"},
                                                                        {Policy::kCost, "cost"}}};

}  // namespace

std::optional<Policy> ParsePolicy(std::string_view name) {
  for (const auto& [policy, known] : kNames) {
    if (known == name) return policy;
  }
  return std::nullopt;
}

std::string_view PolicyName(Policy policy) {
  for (const auto& [known, name] : kNames) {
    if (known == policy) return name;
  }
  return {};
}

}  // namespace harrow::order
