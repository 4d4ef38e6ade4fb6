#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/problems.h"

namespace harrow::formats {

/// Before the first line's text of what JsonLinesAsToml makes: so many characters.
inline constexpr uint32_t kBeforeJsonLines = 6;

/// Tasks as JSON objects, one a line, with the keys of a flow file's [[task]]: the same as one TOML array, line by line and, but for
/// kBeforeJsonLines and what JSON escapes in another way, column by column. Lines that are no such object are told.
std::string JsonLinesAsToml(uint32_t source, std::string_view text, Problems* problems);

}  // namespace harrow::formats
