#pragma once

#include <cstdint>

namespace harrow {

/// Where in the user's input something was said. `source` counts the input files of a flow from 0;
/// line and column count from 1, the column in bytes; 0 means unknown.
struct SourcePlace {
  uint32_t source = 0;
  uint32_t line = 0;
  uint32_t column = 0;
};

}  // namespace harrow
