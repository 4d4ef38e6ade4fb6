#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace harrow::formats {

/// Whether a text is a list of commands that was made for disBatch or GREASY, whatever its file is called.
bool IsForeignList(std::string_view text);
/// Whether disBatch made it: its commands are bash's.
bool IsDisBatchList(std::string_view text);

/// A line "#DISBATCH ..." of disBatch.
struct DisBatchLine {
  enum class What : uint8_t { kPrefix, kSuffix, kBarrier, kCheckedBarrier };
  What what = What::kBarrier;
  std::string_view text;  // of prefix and suffix, to the end of the line
};
/// kInvalid: what of disBatch has no counterpart here, and what to write instead. `line` begins with
/// #DISBATCH.
Result<DisBatchLine> ReadDisBatchLine(std::string_view line);

/// What stands before a command in a GREASY list: "[@ directory @]" and "[# 1, 3-5, -1 #]".
struct GreasyMarks {
  std::string_view directory;                        // empty: none
  std::vector<std::pair<uint32_t, uint32_t>> after;  // lines of the file that it waits for, first and last
  size_t size = 0;                                   // of the marks and the blanks behind them; 0: none
};
/// The marks of line `number`. kInvalid: what is wrong, what would be right.
Result<GreasyMarks> ReadGreasyMarks(std::string_view line, uint32_t number);

/// Where a shell's here-document begins (<<), which the lines below it would belong to; npos: there is none.
size_t FindHereDocument(std::string_view command);

}  // namespace harrow::formats
