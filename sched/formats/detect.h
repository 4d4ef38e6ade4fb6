#pragma once

#include <string_view>

#include "base/status.h"
#include "formats/load.h"

namespace harrow::formats {

/// What kind of input `text` is: --lines, standard input and *.txt are line files (unless they begin as a
/// script or a program does); all else is judged by its content. kInvalid: it is no flow; the text says what
/// it is and what would be right.
Result<Format> Detect(std::string_view path, bool lines, std::string_view text);

}  // namespace harrow::formats
