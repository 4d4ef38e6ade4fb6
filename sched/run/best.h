#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "run_dir/part.h"

namespace harrow::run {

inline constexpr size_t kMostSolution = 16u << 20;  // bytes

/// The best value that a run has found (branch and bound): the least, and what belongs to it, of any bytes.
struct BestValue {
  double value = 0;  // no NaN
  std::string solution;
};

/// What a part of the run knows of it; on disk when it returns, in place of what was there.
Status WriteBest(run_dir::RunDir& part, const BestValue& best);
/// The best of all parts; none: none is known. kDamaged: a part's does not read, and which; others are passed over.
Result<std::optional<BestValue>> ReadBest(const std::shared_ptr<run_dir::RunDir>& run);

}  // namespace harrow::run
