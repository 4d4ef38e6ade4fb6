#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "multiview/team.h"

namespace harrow::multiview {

/// Everyone's bytes, one after the other in order of rank, on every process. MPI counts with ints: what is longer than
/// `at_once` goes in several steps. Collective.
std::vector<std::byte> GatherBytes(const internal::Team& team, std::span<const std::byte> mine,
                                   std::int64_t at_once = std::numeric_limits<int>::max());

}  // namespace harrow::multiview
