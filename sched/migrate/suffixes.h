#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace harrow::migrate {

/// Where the suffixes of the text begin, in the order of their bytes. Time goes with the text's length, and so do some 13 bytes of memory
/// each. The text has less than 2^31 bytes.
std::vector<int32_t> SuffixesOf(std::string_view text);

}  // namespace harrow::migrate
