#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace harrow::report {

/// Writes JSON (RFC 8259) into a string, compact; bytes that are not UTF-8 become U+FFFD. Commas are its
/// business, matching Begin and End the caller's.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Shut('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Shut(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  /// With at most `decimals` digits after the point; what is not finite becomes null.
  JsonWriter& Fixed(double value, int decimals);
  /// Exactly; what is not finite becomes null.
  JsonWriter& Number(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  JsonWriter& Member(std::string_view key, std::string_view value) { return Key(key).String(value); }
  JsonWriter& MemberUint(std::string_view key, uint64_t value) { return Key(key).Uint(value); }
  JsonWriter& MemberFixed(std::string_view key, double value, int decimals) {
    return Key(key).Fixed(value, decimals);
  }

 private:
  JsonWriter& Open(char c);
  JsonWriter& Shut(char c);
  void Separate();

  std::string* out_;
  bool need_comma_ = false;
};

/// `value` with `decimals` digits after the point.
void AppendFixed(std::string* out, double value, int decimals);
std::string FixedText(double value, int decimals);

}  // namespace harrow::report
