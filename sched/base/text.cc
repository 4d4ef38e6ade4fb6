#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace harrow {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr double kLongest = 100.0 * 365 * 24 * 3600;  // seconds; keeps sums of times far from overflow

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

/// Digits with at most one point, at the start of *s and taken from it. No sign, no exponent.
std::optional<double> TakeDecimal(std::string_view* s) {
  size_t n = 0, digits = 0, points = 0;
  while (n < s->size() && (IsDigit((*s)[n]) || ((*s)[n] == '.' && points == 0))) {
    if ((*s)[n] == '.') {
      ++points;
    } else {
      ++digits;
    }
    ++n;
  }
  if (digits == 0) return std::nullopt;
  double value = 0;
  auto [end, error] = std::from_chars(s->data(), s->data() + n, value, std::chars_format::fixed);
  if (error != std::errc() || end != s->data() + n) return std::nullopt;
  s->remove_prefix(n);
  return value;
}

std::optional<uint64_t> TakeInteger(std::string_view* s) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), value);
  if (error != std::errc() || end == s->data()) return std::nullopt;
  s->remove_prefix(static_cast<size_t>(end - s->data()));
  return value;
}

Status BadDuration(std::string_view text, std::string_view why) {
  return Status(Code::kInvalid,
                StrCat("\"", Printable(text, 40), "\" is no length of time", why,
                       "; write 90s, 5m, 2h, 1d, or as Slurm does: minutes, M:S, H:M:S, D-H:M:S"));
}

std::optional<double> UnitSeconds(std::string_view unit) {
  static constexpr std::array<std::pair<std::string_view, double>, 19> kUnits = {{{"ns", 1e-9},
                                                                                  {"us", 1e-6},
                                                                                  {"ms", 1e-3},
                                                                                  {"s", 1},
                                                                                  {"sec", 1},
                                                                                  {"secs", 1},
                                                                                  {"second", 1},
                                                                                  {"seconds", 1},
                                                                                  {"m", 60},
                                                                                  {"min", 60},
                                                                                  {"mins", 60},
                                                                                  {"minute", 60},
                                                                                  {"minutes", 60},
                                                                                  {"h", 3600},
                                                                                  {"hour", 3600},
                                                                                  {"hours", 3600},
                                                                                  {"d", 86400},
                                                                                  {"day", 86400},
                                                                                  {"days", 86400}}};
  for (const auto& [name, seconds] : kUnits) {
    if (name == unit) return seconds;
  }
  return std::nullopt;
}

/// D-H, D-H:M, D-H:M:S, M:S, H:M:S or M: the fields, as sbatch(1) --time reads them.
Result<Duration> ParseSlurmTime(std::string_view text) {
  std::string_view rest = text;
  double seconds = 0;
  bool days = false;
  std::array<uint64_t, 3> fields{};
  size_t count = 0;
  for (;;) {
    std::optional<uint64_t> number = TakeInteger(&rest);
    if (!number) return BadDuration(text, "");
    if (!rest.empty() && rest.front() == '-' && !days && count == 0) {
      days = true;
      seconds += static_cast<double>(*number) * 86400;
      rest.remove_prefix(1);
      continue;
    }
    if (count == fields.size()) return BadDuration(text, " (too many fields)");
    fields[count++] = *number;
    if (rest.empty()) break;
    if (rest.front() != ':') return BadDuration(text, "");
    rest.remove_prefix(1);
  }
  static constexpr double kAfterDays[] = {3600, 60, 1};
  static constexpr double kMinutes[] = {60, 1};
  const double* weight = days || count == 3 ? kAfterDays : kMinutes;
  for (size_t i = 0; i < count; ++i) seconds += static_cast<double>(fields[i]) * weight[i];
  if (seconds > kLongest) return BadDuration(text, " below 100 years");
  return Duration(static_cast<int64_t>(seconds) * kSecond);
}

/// Bytes of the UTF-8 sequence that begins at `at`; 0: none does.
size_t SequenceLength(std::string_view s, size_t at) {
  auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && second < 0xA0;
    const bool surrogate = first == 0xED && second > 0x9F;
    return !overlong && !surrogate && tail(at + 1) && tail(at + 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && second < 0x90;
    const bool beyond = first == 0xF4 && second > 0x8F;
    return !overlong && !beyond && tail(at + 1) && tail(at + 2) && tail(at + 3) ? 4 : 0;
  }
  return 0;
}

/// C1 controls, and the characters that turn the direction of a terminal's text.
bool IsDeceptive(std::string_view s, size_t at, size_t length) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(s[at + i]); };
  if (length == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (length != 3 || byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

void AppendEscaped(std::string* out, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (c == '\n') {
    out->append("\\n");
  } else if (c == '\t') {
    out->append("\\t");
  } else if (c == '\r') {
    out->append("\\r");
  } else {
    out->append("\\x");
    out->push_back(kHex[c >> 4]);
    out->push_back(kHex[c & 15]);
  }
}

/// Edits (insert, delete, replace, swap of neighbours; case does not count) from a to b; more than `limit` is
/// limit + 1.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  const size_t width = b.size() + 1;
  std::vector<size_t> before(width), previous(width), current(width);
  for (size_t j = 0; j < width; ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j < width; ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0u : 1u)});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) && Lower(a[i - 2]) == Lower(b[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && Lower(a[n]) == Lower(b[n])) ++n;
  return n;
}

std::string Print(const char* format, auto... values) {
  char buffer[64];
  const int n = std::snprintf(buffer, sizeof buffer, format, values...);
  return std::string(buffer, static_cast<size_t>(std::clamp(n, 0, static_cast<int>(sizeof buffer) - 1)));
}

}  // namespace

namespace text_internal {
void Append(std::string* out, std::string_view s) {
  out->append(s);
}
void Append(std::string* out, int64_t n) {
  char buffer[24];
  out->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, n).ptr);
}
void AppendUnsigned(std::string* out, uint64_t n) {
  char buffer[24];
  out->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, n).ptr);
}
void AppendDouble(std::string* out, double d) {
  out->append(Print(std::fabs(d) < 1e15 && d == std::floor(d) ? "%.0f" : "%.6g", d));
}
}  // namespace text_internal

std::optional<double> ParseNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string ExactText(double number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

Result<Duration> ParseDuration(std::string_view text) {
  const std::string_view whole = Trim(text);
  std::string_view rest = whole;
  if (rest.empty()) return BadDuration(text, " (it is empty)");
  if (rest.front() == '-') return BadDuration(text, " (it is negative)");
  const bool plain = rest.find_first_not_of("0123456789:-") == std::string_view::npos;
  if (plain) return ParseSlurmTime(whole);
  // Numbers with units, largest first by custom: 1h30m, 1.5 h, 250ms.
  double seconds = 0;
  while (!rest.empty()) {
    std::optional<double> number = TakeDecimal(&rest);
    if (!number) return BadDuration(text, "");
    rest = Trim(rest);
    std::string unit;
    while (!rest.empty() && Lower(rest.front()) >= 'a' && Lower(rest.front()) <= 'z') {
      unit.push_back(Lower(rest.front()));
      rest.remove_prefix(1);
    }
    std::optional<double> weight = UnitSeconds(unit);
    if (!weight)
      return BadDuration(text, unit.empty() ? "" : StrCat(" (unknown unit ", Printable(unit, 20), ")"));
    seconds += *number * *weight;
    rest = Trim(rest);
  }
  if (!(seconds <= kLongest)) return BadDuration(text, " below 100 years");
  return Duration(std::llround(seconds * 1e9));
}

Result<uint64_t> ParseBytes(std::string_view text) {
  auto bad = [&](std::string_view why) {
    return Status(Code::kInvalid, StrCat("\"", Printable(text, 40), "\" is no number of bytes", why,
                                         "; write 512M, 4G, 1.5T (powers of 1024), or plain bytes"));
  };
  std::string_view rest = Trim(text);
  if (rest.empty()) return bad(" (it is empty)");
  if (rest.front() == '-') return bad(" (it is negative)");
  std::string_view digits = rest;
  std::optional<uint64_t> whole = TakeInteger(&digits);
  std::optional<double> number = TakeDecimal(&rest);
  if (!number) return bad("");
  const bool exact = whole && digits.size() == rest.size();
  rest = Trim(rest);
  std::string unit;
  for (char c : rest.substr(0, 8)) unit.push_back(Lower(c));
  static constexpr std::string_view kPrefixes = "kmgtpe";
  unsigned shift = 0;
  std::string_view tail = unit;
  if (!tail.empty() && kPrefixes.find(tail.front()) != std::string_view::npos) {
    shift = 10 * static_cast<unsigned>(kPrefixes.find(tail.front()) + 1);
    tail.remove_prefix(1);
    if (!tail.empty() && tail.front() == 'i') tail.remove_prefix(1);
  }
  if (tail != "" && tail != "b" && unit != "bytes" && unit != "byte") return bad(" (unknown unit)");
  constexpr uint64_t kMost = uint64_t{1} << 62;
  if (exact) {
    if (*whole > (kMost >> shift)) return bad(" below 4 EiB");
    return *whole << shift;
  }
  const double bytes = std::ldexp(*number, static_cast<int>(shift));
  if (!(bytes <= static_cast<double>(kMost))) return bad(" below 4 EiB");
  return static_cast<uint64_t>(bytes);
}

std::string FormatDuration(Duration d) {
  const int64_t ns = d.count();
  if (ns < 0) return "-" + FormatDuration(ns == INT64_MIN ? Duration::max() : -d);
  if (ns == 0) return "0 s";
  if (ns < 1'000) return StrCat(ns, " ns");
  if (ns < 999'500) return Print("%.3g us", static_cast<double>(ns) * 1e-3);
  if (ns < 999'500'000) return Print("%.3g ms", static_cast<double>(ns) * 1e-6);
  if (ns < 59'950'000'000)
    return Print(ns < 9'995'000'000 ? "%.2f s" : "%.1f s", static_cast<double>(ns) * 1e-9);
  const long long s = ns / kSecond + (ns % kSecond >= kSecond / 2 ? 1 : 0);
  if (s < 3600) return Print("%lld min %02lld s", s / 60, s % 60);
  if (s < 86400) return Print("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return Print("%lld-%02lld:%02lld:%02lld", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
}

std::string HexDigits(uint64_t number) {
  std::string digits(16, '0');
  for (size_t i = digits.size(); i-- > 0; number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
  return digits;
}

std::string HexDigits(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) {
    digits += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    digits += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  return digits;
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return Print("%.1f %s", value, kUnits[unit]);
}

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  return lower;
}

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return upper;
}

bool EndsWithNumber(std::string_view name, std::string_view number) {
  if (name.size() <= number.size() + 1 || !name.ends_with(number)) return false;
  const char before = name[name.size() - number.size() - 1];
  return before == '_' || before == '-';
}

std::optional<std::string_view> Suggest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  if (word.empty() || word.size() > 64) return std::nullopt;
  if (IsDigits(word)) {
    for (std::string_view candidate : candidates) {
      if (EndsWithNumber(candidate, word)) return candidate;
    }
  }
  const size_t limit = word.size() <= 2 ? 1 : std::min<size_t>(3, (word.size() + 1) / 3);
  size_t best = limit + 1;
  std::optional<std::string_view> found;
  for (std::string_view candidate : candidates) {
    size_t distance = EditDistance(word, candidate, limit);
    // A long common beginning counts as near: "mem" and "memory", "retry" and "retries".
    const size_t common = CommonPrefix(word, candidate);
    if (distance > limit && common >= 3 && common * 4 >= word.size() * 3) distance = limit;
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

bool IsAssignment(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool IsOrHolds(std::string_view path, std::string_view other) {
  return path == "/" ||
         (other.starts_with(path) && (other.size() == path.size() || other[path.size()] == '/'));
}

std::string ShellQuote(std::string_view text) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (at + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080ull) == 0) {
        at += 8;
        continue;
      }
    }
    const size_t length = SequenceLength(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = SequenceLength(text, at);
    const unsigned char c = static_cast<unsigned char>(text[at]);
    std::string piece;
    if (length == 0 || (length == 1 && (c < 0x20 || c == 0x7F)) || IsDeceptive(text, at, length)) {
      for (size_t i = 0; i < std::max<size_t>(length, 1); ++i)
        AppendEscaped(&piece, static_cast<unsigned char>(text[at + i]));
    } else {
      piece = text.substr(at, length);
    }
    if (out.size() + piece.size() > limit) return out + "...";
    out += piece;
    at += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace harrow
