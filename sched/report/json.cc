#include "report/json.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace harrow::report {
namespace {

void AppendEscaped(std::string* out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  size_t plain = 0;  // start of what needs no escape
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    out->append(text, plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\r':
        *out += "\\r";
        break;
      default:
        *out += "\\u00";
        out->push_back(kHex[c >> 4]);
        out->push_back(kHex[c & 15]);
    }
  }
  out->append(text, plain);
}

}  // namespace

void AppendFixed(std::string* out, double value, int decimals) {
  char buffer[400];  // the largest double has 309 digits before the point
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  out->append(buffer, end.ptr);
}

std::string FixedText(double value, int decimals) {
  std::string text;
  AppendFixed(&text, value, decimals);
  return text;
}

void JsonWriter::Separate() {
  if (need_comma_) out_->push_back(',');
  need_comma_ = true;
}

JsonWriter& JsonWriter::Open(char c) {
  Separate();
  out_->push_back(c);
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Shut(char c) {
  out_->push_back(c);
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  out_->push_back(':');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  out_->push_back('"');
  for (;;) {
    const size_t bad = FindInvalidUtf8(value);
    AppendEscaped(out_, value.substr(0, bad));
    if (bad == std::string_view::npos) break;
    *out_ += "\xEF\xBF\xBD";
    value.remove_prefix(bad + 1);
  }
  out_->push_back('"');
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  char buffer[24];
  out_->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  Separate();
  char buffer[24];
  out_->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  *out_ += ExactText(value);
  return *this;
}

JsonWriter& JsonWriter::Fixed(double value, int decimals) {
  if (!std::isfinite(value)) return Null();
  Separate();
  AppendFixed(out_, value, decimals);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  *out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  *out_ += "null";
  return *this;
}

}  // namespace harrow::report
