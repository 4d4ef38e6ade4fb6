#include "formats/brace_formula.h"

#include <algorithm>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "formats/problems.h"

namespace harrow::formats {
namespace {

constexpr size_t kMostFormula = 200;
constexpr size_t kMostFormulaDigits = 19;

bool BeginsKey(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsFormulaDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsOfKey(char c) {
  return BeginsKey(c) || IsFormulaDigit(c);
}
constexpr std::string_view kFormulaOperators = "+-*/%";
bool IsFormulaOperator(char c) {
  return kFormulaOperators.find(c) != std::string_view::npos;
}

Status BadFormula(const auto&... what) {
  return Status(Code::kInvalid, StrCat(what...));
}

/// None: the result is no number of 64 bits, or there is none.
std::optional<int64_t> CalculateOne(char what, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (what) {
    case '+':
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '-':
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '*':
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    default:
      break;
  }
  if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  return what == '/' ? a / b - (down ? 1 : 0) : a % b + (down ? b : 0);
}

}  // namespace

/// Reads by descent; `*` and what binds as it does before `+`.
class BraceFormula::Reader {
 public:
  Reader(std::string_view text, const std::vector<std::string_view>& keys, BraceFormula* formula)
      : text_(text), keys_(keys), formula_(formula) {}

  Status Read() {
    HARROW_RETURN_IF_ERROR(Sum());
    if (at_ < text_.size() && text_[at_] == ':') {
      const std::string_view digits = text_.substr(at_ + 1);
      const std::optional<int64_t> count = digits.empty() || !IsFormulaDigit(digits[0]) ? std::nullopt : ParseInteger<int64_t>(digits);
      if (!count || *count < 1 || *count > static_cast<int64_t>(kMostFormulaDigits))
        return Problem(StrCat("a number of digits from 1 to ", kMostFormulaDigits, " stands behind a colon"));
      formula_->digits_ = static_cast<size_t>(*count);
      return Status();
    }
    return at_ == text_.size() ? Status() : Problem("an operator is missing");
  }

 private:
  Status Problem(std::string_view why) const {
    return BadFormula("{", Printable(text_), "}: ", why, " at character ", at_ + 2, " (braces hold + - * / % and parentheses over keys of each and whole numbers, without blanks; {{",
               Printable(text_), "} stands for the text itself)");
  }
  char Next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Add(char what, int64_t number = 0) { formula_->steps_.push_back({what, number}); }

  Status Sum() {
    HARROW_RETURN_IF_ERROR(Product());
    while (Next() == '+' || Next() == '-') {
      const char what = text_[at_++];
      HARROW_RETURN_IF_ERROR(Product());
      Add(what);
    }
    return Status();
  }
  Status Product() {
    HARROW_RETURN_IF_ERROR(Value());
    while (Next() == '*' || Next() == '/' || Next() == '%') {
      const char what = text_[at_++];
      HARROW_RETURN_IF_ERROR(Value());
      Add(what);
    }
    return Status();
  }
  Status Value() {
    if (Next() == '-') {
      ++at_;
      HARROW_RETURN_IF_ERROR(Value());
      Add('~');
      return Status();
    }
    if (Next() == '(') {
      ++at_;
      HARROW_RETURN_IF_ERROR(Sum());
      if (Next() != ')') return Problem("a ) is missing");
      ++at_;
      return Status();
    }
    size_t end = at_;
    while (end < text_.size() && IsOfKey(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) return Problem("a key or a number is missing");
    if (IsFormulaDigit(word[0])) {
      const std::optional<int64_t> number = ParseInteger<int64_t>(word);
      if (!number) return Problem(StrCat("\"", Printable(word), "\" is no number"));
      Add('n', *number);
    } else {
      const auto key = std::find(keys_.begin(), keys_.end(), word);
      if (key == keys_.end())
        return Problem(StrCat(Printable(word), " is no key of each", SuggestOneOf(word, keys_)));
      Add('k', key - keys_.begin());
    }
    at_ = end;
    return Status();
  }

  const std::string_view text_;
  const std::vector<std::string_view>& keys_;
  BraceFormula* const formula_;
  size_t at_ = 0;
};

std::string_view BraceFormula::Find(std::string_view text) {
  bool some = false;
  for (size_t n = 1; n < std::min(text.size(), kMostFormula + 2); ++n) {
    const char c = text[n];
    if (c == '}') return some ? text.substr(1, n - 1) : std::string_view();
    some |= IsFormulaOperator(c) || c == '(' || c == ':';
    if (!IsOfKey(c) && !IsFormulaOperator(c) && c != '(' && c != ')' && c != ':') return {};
  }
  return {};
}

std::optional<Result<BraceFormula>> BraceFormula::Parse(std::string_view text,
                                                        const std::vector<std::string_view>& keys) {
  bool has_key = false;
  for (size_t n = 0; n < text.size();) {
    size_t end = n;
    while (end < text.size() && IsOfKey(text[end])) ++end;
    has_key |= std::find(keys.begin(), keys.end(), text.substr(n, end - n)) != keys.end();
    n = end + 1;
  }
  if (!has_key) return std::nullopt;
  BraceFormula formula;
  formula.text_ = text;
  formula.names_.assign(keys.begin(), keys.end());
  if (Status status = Reader(text, keys, &formula).Read(); !status.ok()) return Result<BraceFormula>(std::move(status));
  return Result<BraceFormula>(std::move(formula));
}

Status BraceFormula::Append(std::span<const std::string> values, std::string* out) const {
  std::vector<int64_t> stack;
  for (const Step& step : steps_) {
    if (step.what == 'n') {
      stack.push_back(step.number);
      continue;
    }
    if (step.what == 'k') {
      const auto key = static_cast<size_t>(step.number);
      const std::optional<int64_t> number = ParseInteger<int64_t>(values[key]);
      if (!number)
        return BadFormula("{", Printable(text_), "} cannot be calculated: ", names_[key], " is \"", Printable(values[key]),
                   "\", and no whole number; let each have numbers only");
      stack.push_back(*number);
      continue;
    }
    const int64_t b = stack.back();
    stack.pop_back();
    if (step.what != '~' && (step.what == '/' || step.what == '%') && b == 0)
      return BadFormula("{", Printable(text_), "} divides by 0; leave that value out");
    const int64_t a = step.what == '~' ? 0 : stack.back();
    if (step.what != '~') stack.pop_back();
    const std::optional<int64_t> result = CalculateOne(step.what == '~' ? '-' : step.what, a, b);
    if (!result) return BadFormula("{", Printable(text_), "} becomes too large; use smaller numbers");
    stack.push_back(*result);
  }
  std::string number = StrCat(stack.back());
  const size_t sign = number.starts_with('-') ? 1 : 0;
  if (number.size() - sign < digits_) number.insert(sign, digits_ - (number.size() - sign), '0');
  out->append(number);
  return Status();
}

bool BraceFormula::Uses(size_t key) const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [&](const Step& step) { return step.what == 'k' && step.number == static_cast<int64_t>(key); });
}

}  // namespace harrow::formats
