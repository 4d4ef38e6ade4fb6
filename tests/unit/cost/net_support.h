#pragma once

#include <gtest/gtest.h>
#include <string_view>
#include <utility>
#include <variant>

#include "cost/net.h"

namespace harrow::cost {

inline CostFunctions Program(std::string_view text) {
  return std::get<CostFunctions>(ParseMetaProgram(text));
}

inline Costs CostsOf(const Net& net) {
  Result<Costs> costs = FindCosts(net);
  EXPECT_TRUE(costs.ok()) << costs.status().message();
  return std::move(*costs);
}

}  // namespace harrow::cost
