#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace harrow::cost {

/// An amount that is not known is NaN; one that cannot be (a division by zero, more than a number holds) is
/// infinite.
extern const double kUnknown;
bool IsKnown(double amount);
/// Neither known nor unknown: what was to be computed has no value.
bool IsBad(double amount);

class Expression;

/// What a product is made of, beside numbers.
struct Factor {
  enum class Kind : uint8_t {
    kArgument,   // @arg[index]
    kTurns,      // so many turns: a sum, but never below 0
    kInput,      // C_i: what the task reads in all
    kSum,        // a sum in parentheses
    kQuotient,   // the first of two over the second
    kRemainder,  // of the first over the second
    kCompare,    // 1 where the first and the second compare so, else 0
    kChoice,     // the second where the first is not 0, else the third
  } kind = Kind::kInput;
  // Of an argument.
  uint32_t index = 0;
  // Of a comparison: < <= > >= == !=, as 'l' 'L' 'g' 'G' '=' '!'.
  char compare = 0;
  std::shared_ptr<const std::vector<Expression>> of;
};

struct Term {
  double number = 0;
  std::vector<Factor> factors;  // in the order of Compare
};

/// A formula in the arguments of a task and in what it reads: a sum of products, each a number and factors in
/// one order, so that what is written differently and means the same prints the same. A product of sums is
/// not multiplied out. Values; parts are shared.
class Expression {
 public:
  Expression() = default;  // 0
  Expression(double number);
  static Expression Argument(uint32_t index);
  static Expression Input();
  /// At least 0 turns.
  static Expression Turns(const Expression& count);
  static Expression Remainder(const Expression& a, const Expression& b);
  static Expression Comparison(char compare, const Expression& a, const Expression& b);
  static Expression Choice(const Expression& condition, const Expression& then, const Expression& otherwise);

  friend Expression operator+(const Expression& a, const Expression& b);
  friend Expression operator-(const Expression& a, const Expression& b);
  friend Expression operator*(const Expression& a, const Expression& b);
  friend Expression operator/(const Expression& a, const Expression& b);
  bool operator==(const Expression& other) const;

  bool constant() const { return terms_.empty() || (terms_.size() == 1 && terms_[0].factors.empty()); }
  /// Of a constant one.
  double number() const { return terms_.empty() ? 0 : terms_[0].number; }
  const std::vector<Term>& terms() const { return terms_; }
  bool UsesInput() const;
  /// One more than the highest argument that it needs.
  uint32_t ArgumentCount() const;
  /// Notes in `used` which arguments it needs.
  void NoteArguments(std::vector<bool>* used) const;

  /// Its value. What is not needed (the other branch, a factor beside a 0) may be unknown.
  double Evaluate(std::span<const double> arguments, double input) const;
  /// With all that is known put in, and what is not left as it is.
  Expression Substitute(std::span<const double> arguments, double input) const;
  /// "100 * a0 * C_i + 5".
  std::string Text() const;

 private:
  static Expression Of(Factor factor);
  static Expression Of(Factor::Kind kind, std::vector<Expression> of, char compare = 0);
  void Add(Term term);
  static int Compare(const Factor& a, const Factor& b);
  static int Compare(const Term& a, const Term& b);
  static int Compare(const Expression& a, const Expression& b);

  std::vector<Term> terms_;  // in the order of Compare
};

}  // namespace harrow::cost
