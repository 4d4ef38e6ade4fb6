#include "base/number_list.h"

#include <charconv>

#include "base/text.h"

namespace harrow {

std::string NumberList(std::span<const uint32_t> numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!out.empty()) out += ',';
    out += StrCat(numbers[i]);
    if (last > i) out += StrCat("-", numbers[last]);
    i = last + 1;
  }
  return out;
}

std::optional<std::vector<uint32_t>> ParseNumberList(std::string_view list, uint32_t end) {
  std::vector<uint32_t> numbers;
  const char* at = list.data();
  const char* const stop = at + list.size();
  const auto number = [&](uint32_t* value) {
    const auto [rest, error] = std::from_chars(at, stop, *value);
    at = rest;
    return error == std::errc() && *value < end;
  };
  while (at != stop) {
    if (!numbers.empty() && *at++ != ',') return {};
    uint32_t first = 0;
    if (!number(&first)) return {};
    uint32_t last = first;
    if (at != stop && *at == '-') {
      ++at;
      if (!number(&last) || last <= first) return {};
    }
    if (!numbers.empty() && first <= numbers.back()) return {};
    for (uint32_t each = first; each <= last; ++each) numbers.push_back(each);
  }
  return numbers;
}

}  // namespace harrow
