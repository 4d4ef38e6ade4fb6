#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace harrow::migrate {

/// What makes `target` of `base`: stretches of the base with small differences, and what is in none. After Percival's "Naive Differences
/// of Executable Code" (2003), as the paper on which this folder rests uses it; compressed by zstd.
std::string DeltaOf(std::string_view base, std::string_view target);
/// kDamaged: it is no delta of this base.
Result<std::string> Apply(std::string_view base, std::string_view delta);

}  // namespace harrow::migrate
