#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace harrow::formats {

/// Arithmetic of whole numbers in braces: + - * / % and parentheses over keys of `each` and numbers, no blanks.
/// / rounds down, % has the sign of what it divides by. Behind a colon: so many digits at least.
class BraceFormula {
 public:
  /// The text between the braces at the start of `text`, where it may be a formula; empty: it is none.
  static std::string_view Find(std::string_view text);
  /// None: it has no key. kInvalid: it has one, and something that is none or cannot be read.
  static std::optional<Result<BraceFormula>> Parse(std::string_view text, const std::vector<std::string_view>& keys);

  /// `values`: one a key. kInvalid: one that counts is no whole number, or there is no result.
  Status Append(std::span<const std::string> values, std::string* out) const;
  bool Uses(size_t key) const;
  const std::string& text() const { return text_; }

 private:
  struct Step {
    char what = 0;  // an operator, '~' for a minus before a value, 'n' for a number, 'k' for a key
    int64_t number = 0;
  };
  class Reader;

  std::string text_;
  std::vector<std::string> names_;  // of keys
  std::vector<Step> steps_;         // values before what is done with them
  size_t digits_ = 0;
};

}  // namespace harrow::formats
