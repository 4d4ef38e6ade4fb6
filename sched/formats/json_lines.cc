// An object of JSON becomes an inline table of TOML where = stands for the colons between keys and values. Texts are escaped alike, but
// for \/, and for characters beyond the first 65 536, which JSON writes as two numbers; TOML takes both as they are.
#include "formats/json_lines.h"

#include <optional>
#include <simdjson.h>

#include "base/text.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

constexpr std::string_view kRight = "; write an object a line: {\"name\": \"a\", \"command\": \"./a\"}";

std::optional<uint32_t> HexAt(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  uint32_t value = 0;
  for (size_t i = at + 2; i < at + 6; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  return value;
}

void AppendUtf8(uint32_t point, std::string* out) {
  for (int shift = 18, lead = 0xF0; shift >= 0; shift -= 6, lead = 0x80)
    *out += static_cast<char>(lead | static_cast<int>(point >> shift & (lead == 0xF0 ? 0x07u : 0x3Fu)));
}

/// `json`: a valid object.
void AppendAsToml(std::string_view json, std::string* out) {
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!quoted) {
      quoted = c == '"';
      *out += c == ':' ? '=' : c;
      continue;
    }
    quoted = c != '"';
    if (c != '\\') {
      *out += c;
      continue;
    }
    const std::optional<uint32_t> high = HexAt(json, i), low = HexAt(json, i + 6);
    if (high && low && *high >= 0xD800 && *high < 0xDC00 && *low >= 0xDC00 && *low < 0xE000) {
      AppendUtf8(0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00), out);
      i += 11;
    } else if (json[i + 1] == '/') {
      *out += '/';
      ++i;
    } else {
      *out += c;
      *out += json[++i];
    }
  }
}

bool HasNull(const simdjson::dom::element& element) {
  if (element.is_null()) return true;
  simdjson::dom::object object;
  if (element.get(object) == simdjson::SUCCESS) {
    for (const auto& field : object) {
      if (HasNull(field.value)) return true;
    }
  }
  simdjson::dom::array array;
  if (element.get(array) == simdjson::SUCCESS) {
    for (const auto each : array) {
      if (HasNull(each)) return true;
    }
  }
  return false;
}

}  // namespace

std::string JsonLinesAsToml(uint32_t source, std::string_view text, Problems* problems) {
  std::string toml = "task=[";
  simdjson::dom::parser parser;
  uint32_t number = 0;
  const bool any = text.find_first_not_of(" \t\r\n") != std::string_view::npos;
  if (!any) problems->Add({source, 1, 1}, StrCat("there is no task in it", kRight));
  while (!text.empty() && !problems->full()) {
    ++number;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    while (!line.empty() && IsBlankOrReturn(line.back())) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      simdjson::dom::element element;
      const auto error = parser.parse(line.data(), line.size()).get(element);
      const SourcePlace place{source, number, 1};
      if (error != simdjson::SUCCESS || !element.is_object()) {
        problems->Add(place, StrCat("this is no object of JSON", error == simdjson::SUCCESS ? "" : StrCat(" (", simdjson::error_message(error), ")"), kRight));
      } else if (HasNull(element)) {
        problems->Add(place, "null says nothing of a task; leave the key out");
      } else {
        AppendAsToml(line, &toml);
        toml += ',';
      }
    }
    toml += '\n';
  }
  return toml + "]\n";
}

}  // namespace harrow::formats
