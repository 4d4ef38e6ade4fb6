#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace harrow::formats {

/// Task numbers as sbatch(1) --array writes them: "0-420", "1-10:2", "1,3,5-7%64". For names, zeros before a number
/// are kept, as a shell's {001..420} and Slurm's node[001-420] do.
struct ArraySpec {
  struct Range {
    uint64_t first = 0, last = 0, step = 1;
    uint32_t width = 0;  // digits at least, where an end is written with zeros before it: 001-420, 1-010
    uint64_t count() const { return (last - first) / step + 1; }
  };
  std::vector<Range> ranges;  // as written; no number is in two of them (but as_sbatch)
  uint64_t limit = 0;         // %N: at most so many run at once; 0: no limit
  uint64_t count = 0;         // numbers in all

  std::vector<uint64_t> Numbers() const;  // ascending within a range, ranges as written
};

/// kInvalid says what is wrong; also when there are more than `max_count` numbers (the text names the count), and, but for
/// `as_sbatch`, when a number is in two ranges. sbatch(1) takes their union, brackets around all, and %0 as no limit.
Result<ArraySpec> ParseArraySpec(std::string_view text, uint64_t max_count = 10'000'000, bool as_sbatch = false);

}  // namespace harrow::formats
