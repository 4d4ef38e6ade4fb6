#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace harrow {

/// The arguments' text, joined: strings as they are, numbers in decimal.
template <class... Args>
std::string StrCat(const Args&... args);

/// Decimal digits, at least one, and nothing else.
bool IsDigits(std::string_view text);
/// With the letters of ASCII as small or capital ones.
std::string LowerCase(std::string_view text);
std::string UpperCase(std::string_view text);
/// Is it NAME=value, with a NAME that a shell takes?
bool IsAssignment(std::string_view text);

/// A length of time as Slurm writes it (minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S) or as 90s, 5m, 2h, 1d, 250ms.
Result<Duration> ParseDuration(std::string_view text);
/// Bytes: 4G, 512M, 1.5T, 100 (bytes); powers of 1024; also GiB, GB.
Result<uint64_t> ParseBytes(std::string_view text);
/// For people: "1.24 s", "3 min 05 s", "1:04:09".
std::string FormatDuration(Duration d);
/// A finite number, and nothing else: "3.25", "-1e-3".
std::optional<double> ParseNumber(std::string_view text);
/// The shortest text that reads back as that number.
std::string ExactText(double number);
/// 16 hexadecimal digits; two for each byte.
std::string HexDigits(uint64_t number);
std::string HexDigits(std::string_view bytes);
/// For people: "3.2 GiB".
std::string FormatBytes(uint64_t bytes);

/// "9_17" and "gen-17" end with the number 17.
bool EndsWithNumber(std::string_view name, std::string_view number);
/// The candidate nearest to `word` by edit distance, if any is near enough to be meant; of a number the first
/// that ends with it ("17" of "9_17").
std::optional<std::string_view> Suggest(std::string_view word, const std::vector<std::string_view>& candidates);
/// Of normal paths (graph/file_table.h): is `other` that path, or does it lie below it?
bool IsOrHolds(std::string_view path, std::string_view other);
/// `text` as one word of a POSIX shell.
std::string ShellQuote(std::string_view text);
/// Position of the first byte that is not valid UTF-8, or npos.
size_t FindInvalidUtf8(std::string_view text);
/// `text` with control characters and invalid UTF-8 escaped, cut to `limit` bytes, fit for one line of an error.
std::string Printable(std::string_view text, size_t limit = 120);

namespace text_internal {
void Append(std::string* out, std::string_view s);
void Append(std::string* out, int64_t n);
void AppendUnsigned(std::string* out, uint64_t n);
void AppendDouble(std::string* out, double d);
template <class T>
void AppendAny(std::string* out, const T& v) {
  if constexpr (std::is_same_v<T, char>) {
    out->push_back(v);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendDouble(out, v);
  } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) {
    AppendUnsigned(out, v);
  } else if constexpr (std::is_integral_v<T>) {
    Append(out, static_cast<int64_t>(v));
  } else {
    Append(out, std::string_view(v));
  }
}
}  // namespace text_internal

template <class... Args>
std::string StrCat(const Args&... args) {
  std::string out;
  (text_internal::AppendAny(&out, args), ...);
  return out;
}

}  // namespace harrow
