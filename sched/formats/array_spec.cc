#include "formats/array_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace harrow::formats {
namespace {

// Far above what anybody means, and low enough that no sum of counts overflows.
constexpr uint64_t kLargest = 1'000'000'000'000'000;
constexpr size_t kMostDigits = 16;

Status Bad(std::string_view text, std::string_view why) {
  return Status(Code::kInvalid, StrCat("\"", Printable(text), "\" ", why));
}

constexpr std::string_view kHint = "; write numbers and ranges as 0-420, 1-10:2 or 1,3,5-7";

/// `*digits`: at least as many as were written.
Result<uint64_t> TakeNumber(std::string_view text, std::string_view* rest, size_t* digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest->data(), rest->data() + rest->size(), value);
  if (end == rest->data()) {
    const std::string found = rest->empty() ? "its end" : StrCat("\"", Printable(rest->substr(0, 10)), "\"");
    return Bad(text, StrCat("has ", found, " where a number is expected", kHint));
  }
  if (error != std::errc() || value > kLargest) {
    return Bad(text, StrCat("has a number above ", kLargest,
                            "; array numbers are task numbers, mostly below 10000000"));
  }
  *digits = static_cast<size_t>(end - rest->data());
  if (*digits > kMostDigits)
    return Bad(text, StrCat("has a number of ", *digits, " digits; at most ", kMostDigits, " are taken"));
  rest->remove_prefix(*digits);
  return value;
}

bool TakeChar(std::string_view* rest, char c) {
  if (rest->empty() || rest->front() != c) return false;
  rest->remove_prefix(1);
  return true;
}

/// A number that is in two ranges, if any.
std::optional<uint64_t> NamedTwice(const ArraySpec& spec) {
  std::vector<ArraySpec::Range> sorted = spec.ranges;
  std::ranges::sort(sorted, {}, &ArraySpec::Range::first);
  const bool apart = std::adjacent_find(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
                       return b.first <= a.last;
                     }) == sorted.end();
  if (apart) return std::nullopt;
  std::vector<uint64_t> numbers = spec.Numbers();  // interleaved ranges are rare: 1-9:2,2-10:2
  std::sort(numbers.begin(), numbers.end());
  const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
  return twice == numbers.end() ? std::nullopt : std::optional(*twice);
}

}  // namespace

std::vector<uint64_t> ArraySpec::Numbers() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(count);
  for (const Range& range : ranges) {
    for (uint64_t i = 0, n = range.count(); i < n; ++i) numbers.push_back(range.first + i * range.step);
  }
  return numbers;
}

Result<ArraySpec> ParseArraySpec(std::string_view text, uint64_t max_count, bool as_sbatch) {
  ArraySpec spec;
  std::string_view rest = text;
  const bool brackets = as_sbatch && TakeChar(&rest, '[');
  const auto take_limit = [&]() -> Status {
    size_t ignored = 0;
    Result<uint64_t> limit = TakeNumber(text, &rest, &ignored);
    if (!limit) return limit.status();
    if (*limit == 0 && !as_sbatch) return Bad(text, "lets 0 tasks run at once; write %1 or more");
    spec.limit = *limit;
    return Status();
  };
  do {
    if (as_sbatch) {  // which leaves out what is empty
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(',')));
      if (!spec.ranges.empty() && (rest.empty() || rest.front() == ']')) break;
    }
    ArraySpec::Range range;
    size_t first_digits = 0, last_digits = 0, ignored = 0;
    bool zeros = rest.starts_with('0');
    Result<uint64_t> first = TakeNumber(text, &rest, &first_digits);
    if (!first) return first.status();
    zeros = zeros && first_digits > 1;
    range.first = range.last = *first;
    if (TakeChar(&rest, '-')) {
      const bool zero = rest.starts_with('0');
      Result<uint64_t> last = TakeNumber(text, &rest, &last_digits);
      if (!last) return last.status();
      zeros = zeros || (zero && last_digits > 1);
      range.last = *last;
      if (range.last < range.first) {
        return Bad(text, StrCat("counts down from ", range.first, " to ", range.last, "; write ", range.last,
                                "-", range.first));
      }
      if (TakeChar(&rest, ':')) {
        Result<uint64_t> step = TakeNumber(text, &rest, &ignored);
        if (!step) return step.status();
        if (*step == 0) return Bad(text, "has a step of 0; a step is at least 1");
        range.step = *step;
      }
    }
    if (zeros) range.width = static_cast<uint32_t>(std::max(first_digits, last_digits));
    range.last -= (range.last - range.first) % range.step;
    spec.count += range.count();
    spec.ranges.push_back(range);
    if (spec.count > max_count) {
      return Bad(text, StrCat("means ", spec.count, " tasks or more; at most ", max_count, " are taken"));
    }
    // As squeue shows it: [1-10%2].
    if (as_sbatch && TakeChar(&rest, '%')) HARROW_RETURN_IF_ERROR(take_limit());
  } while (TakeChar(&rest, ','));
  if (brackets && !TakeChar(&rest, ']')) return Bad(text, "has [ without ]; write [1-10], or no brackets");
  if (TakeChar(&rest, '%')) HARROW_RETURN_IF_ERROR(take_limit());
  if (!rest.empty()) {
    return Bad(text,
               StrCat("has \"", Printable(rest.substr(0, 10)), "\" where , - : or % is expected", kHint));
  }
  if (as_sbatch) return spec;
  if (const std::optional<uint64_t> twice = NamedTwice(spec)) {
    return Bad(text, StrCat("names ", *twice, " twice; leave one out"));
  }
  return spec;
}

}  // namespace harrow::formats
