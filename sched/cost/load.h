#pragma once

#include <vector>

#include "cost/net.h"
#include "cost/predict.h"

namespace harrow::cost {

/// What a unit of a program is: of compute in seconds, of input and output in bytes.
struct Unit {
  double seconds = 1e-6;
  double bytes = 1;
};

/// The net with its costs as a load; `units`: by program, and one more for tasks without one. Cores are 1. No
/// tasks: there are more than `most_sources` pairs of writer and reader, which nobody should look through.
Load MakeLoad(const Net& net, const Costs& costs, const std::vector<Unit>& units,
              size_t most_sources = 1'000'000);

}  // namespace harrow::cost
