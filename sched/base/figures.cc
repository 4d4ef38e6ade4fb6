#include "base/figures.h"

#include <algorithm>

namespace harrow {

double Figures::CoreUtilisation() const {
  return slot_seconds > 0 ? std::clamp(core_seconds / slot_seconds, 0.0, 1.0) : 0;
}

std::optional<double> Figures::LocalShare() const {
  const uint64_t all = local_bytes + remote_bytes;
  if (all == 0) return std::nullopt;
  return static_cast<double>(local_bytes) / static_cast<double>(all);
}

std::optional<double> Figures::HomeShare() const {
  const uint64_t all = local_bytes + remote_bytes;
  if (all == 0) return std::nullopt;
  return static_cast<double>(home_bytes) / static_cast<double>(all);
}

}  // namespace harrow
