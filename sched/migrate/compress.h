#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace harrow::migrate {

/// By zstd, fast: links are no faster than that.
std::string Compress(std::string_view bytes);
/// kDamaged: that is not what it was made of. `size`: how much it is; with `at_most`, at most.
Result<std::string> Decompress(std::string_view bytes, size_t size, bool at_most = false);

}  // namespace harrow::migrate
