#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace harrow {

/// The whole number, in decimal digits, that the text is and nothing else; none: it is not, or does not fit.
template <class Int>
std::optional<Int> ParseInteger(std::string_view text) {
  Int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace harrow
