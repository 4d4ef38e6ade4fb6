#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace harrow {

/// Is all of `text` one number that fits? Else `out` is undefined.
template <class T>
bool ReadNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace harrow
