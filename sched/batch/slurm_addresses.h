#pragma once

#include <string>
#include <vector>

namespace harrow::batch {

/// Numeric addresses of this machine through which some of `peers` (names or addresses) are reached, the most
/// used one first; without any, the machine's addresses other than loopback; never empty.
std::vector<std::string> AddressesTowards(const std::vector<std::string>& peers);

}  // namespace harrow::batch
