#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace harrow::made {

/// Calendar time in nanoseconds, both ends included.
struct Window {
  int64_t begin_ns = 0, end_ns = 0;
};

/// Whether there is something of that name, a dangling link included. What cannot be looked at counts as there.
/// `name` is absolute or below `base`.
bool IsThere(const std::string& base, std::string_view name);

/// Removes what came to be at `name` (absolute, or below `base`) within the window and was not changed since:
/// a file, a link itself, of a directory all that this is true of, and itself if nothing is left. Whatever
/// else is there stays, without an error. An error names what could not be removed although it should be.
Status RemoveMade(const std::string& base, std::string_view name, Window window);

}  // namespace harrow::made
