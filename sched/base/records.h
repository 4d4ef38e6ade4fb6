#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace harrow {

/// What a stream consists of: 0: lines, each with its newline; 1: records that a NUL byte ends; n + 1: n bytes
/// each. What comes after the last end is a record, too.
using Records = uint32_t;
inline constexpr Records kLines = 0;
inline constexpr Records kZeroEnded = 1;
/// `bytes`: at least 1.
constexpr Records OfBytes(uint32_t bytes) {
  return bytes + 1;
}
constexpr uint32_t BytesOf(Records records) {
  return records > kZeroEnded ? records - 1 : 0;
}

/// "split" and "all": each record goes to one of the readers. kInvalid: what is wrong, and what would be right.
Result<bool> ParseShare(std::string_view text);
/// "lines", "zero" and "bytes:4096".
Result<Records> ParseRecords(std::string_view text);

}  // namespace harrow
