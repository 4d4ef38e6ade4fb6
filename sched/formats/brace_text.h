#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace harrow::formats {

/// A text of a flow file with {key} for the keys of `each`, taken apart once and filled in for every task.
class BraceText {
 public:
  enum class Use : uint8_t {
    kName,      // names, paths: values as they are; {word} of no key is an error
    kShell,     // a command: values quoted as their place between quotes wants it
    kArgument,  // one argument of a command: values as they are
    kTask,      // names of other tasks: {word} of no key stays
  };
  /// kInvalid: a {word} that is no key, where one must be meant.
  static Result<BraceText> Parse(std::string_view text, Use use, const std::vector<std::string_view>& keys);

  /// Appends the text with `values` (one a key, in the order of `keys`) filled in.
  void Expand(std::span<const std::string> values, std::string* out) const;
  bool Uses(size_t key) const;
  bool constant() const { return pieces_.size() <= 1 && (pieces_.empty() || pieces_[0].key < 0); }

 private:
  enum class Quoting : uint8_t { kNone, kWord, kSingle, kDouble };
  struct Piece {
    std::string literal;
    int32_t key = -1;  // filled in after the literal
    Quoting quoting = Quoting::kNone;
  };
  std::vector<Piece> pieces_;
};

}  // namespace harrow::formats
