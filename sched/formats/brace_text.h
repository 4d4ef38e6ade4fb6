#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/brace_formula.h"

namespace harrow::formats {

/// A text of a flow file with {key} for the keys of `each`, or arithmetic over them ({i/2}), taken apart once and
/// filled in for every task.
class BraceText {
 public:
  enum class Use : uint8_t {
    kName,      // names, paths: values as they are; {word} of no key is an error
    kShell,     // a command for a shell: a value is one word of it, or is refused (brace_text.cc)
    kArgument,  // one argument of a command: values as they are
    kTask,      // names of other tasks: {word} of no key stays
  };
  /// kInvalid: a {word} that is no key, where one must be meant.
  /// `shell`: the program that is going to read a command (kShell); empty: /bin/sh.
  static Result<BraceText> Parse(std::string_view text, Use use, const std::vector<std::string_view>& keys,
                                 std::string_view shell = {});

  /// Appends the text with `values` (one a key, in the order of `keys`) filled in as they are; not of a kShell text.
  /// kInvalid: there is no number that arithmetic could come to.
  Status Expand(std::span<const std::string> values, std::string* out) const;
  /// The same of any text. kInvalid: a shell might not take a value as what it is; what is wrong and the way out.
  Status ExpandCommand(std::span<const std::string> values, std::string* out) const;
  bool Uses(size_t key) const;
  bool constant() const { return pieces_.size() <= 1 && (pieces_.empty() || !pieces_[0].filled()); }

 private:
  /// Where a value stands: in a text that no shell reads; as a word of a shell's command, which can be quoted; or
  /// anywhere else in one.
  enum class Place : uint8_t { kText, kWord, kPart };
  struct Piece {
    std::string literal;
    int32_t key = -1;  // filled in after the literal
    std::optional<BraceFormula> formula = {};  // the same
    Place place = Place::kText;
    std::string name;         // of the key, for messages; only where a value can be refused
    bool first_word = false;  // a "=" would make the first word an assignment
    bool redirects = false;   // a number would name the descriptor of the < or > that follows
    bool names_more = false;  // letters would go on with the $NAME before it
    bool filled() const { return key >= 0 || formula; }
    Status Append(std::span<const std::string> values, std::string* out) const;
  };
  static Status CheckValue(const Piece& piece, std::string_view value);
  std::vector<Piece> pieces_;
};

}  // namespace harrow::formats
