#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/net.h"

namespace harrow::cost {

/// Which tasks go to which of several sites: allocations, each with a scheduler of its own that places what it
/// has on its nodes (paper 001, 7.3: sub-masters). Site 0 has all of them now. `seconds`, `movable`, and the
/// answer: by task, as the net numbers them. `weights`: of each site, what it does at once: slots times their
/// speed.
///
/// What streams join stays together, and stays at site 0 where a part of it is not movable. What files join, the
/// largest first, is one group until that costs a sixteenth of the least site's share. Groups go to sites by
/// cost, largest first: each to the one that it delays least beyond its share, rank by rank, so that every site
/// has something to do from the beginning to the end; of equal ones to the one that has most of what it reads
/// and is read of. `seconds_a_byte`: between sites.
/// `costs` has no unknown amounts.
std::vector<uint32_t> PlaceOnSites(const Net& net, const Costs& costs, std::span<const double> seconds,
                                   const std::vector<bool>& movable, std::span<const double> weights,
                                   double seconds_a_byte);

}  // namespace harrow::cost
