#pragma once

#include <cstdint>
#include <string_view>

namespace harrow {

/// XXH3, 64 bits: for checksums and names, not against those who mean harm.
uint64_t Hash64(std::string_view bytes);

}  // namespace harrow
