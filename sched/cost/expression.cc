// Terms stand in the order of their factors, the one without any last; so like terms meet, and a sum prints
// as people write it. What is no sum of products (a choice, a quotient) is one factor that nobody looks into.

#include "cost/expression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace harrow::cost {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Of two known numbers a result that is none is bad, not unknown.
double Checked(double a, double b, double result) {
  if (IsBad(a) || IsBad(b)) return kInfinite;
  return std::isnan(result) && IsKnown(a) && IsKnown(b) ? kInfinite : result;
}

double Compared(char compare, double a, double b) {
  if (IsBad(a) || IsBad(b)) return kInfinite;
  if (!IsKnown(a) || !IsKnown(b)) return kUnknown;
  switch (compare) {
    case 'l':
      return a < b;
    case 'L':
      return a <= b;
    case 'g':
      return a > b;
    case 'G':
      return a >= b;
    case '=':
      return a == b;
    default:
      return a != b;
  }
}

double Quotient(double a, double b) {
  return b == 0 ? kInfinite : Checked(a, b, a / b);
}

double Rest(double a, double b) {
  return b == 0 ? kInfinite : Checked(a, b, std::fmod(a, b));
}

std::string_view Sign(char compare) {
  switch (compare) {
    case 'l':
      return "<";
    case 'L':
      return "<=";
    case 'g':
      return ">";
    case 'G':
      return ">=";
    case '=':
      return "==";
    default:
      return "!=";
  }
}

std::string InParentheses(const Expression& e) {
  const bool single =
      e.constant() || (e.terms().size() == 1 && e.terms()[0].number == 1 && e.terms()[0].factors.size() == 1);
  return single && e.Text()[0] != '-' ? e.Text() : StrCat("(", e.Text(), ")");
}

}  // namespace

const double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool IsKnown(double amount) {
  return std::isfinite(amount);
}

bool IsBad(double amount) {
  return std::isinf(amount);
}

Expression::Expression(double number) {
  if (number != 0) terms_.push_back({number, {}});
}

Expression Expression::Of(Factor factor) {
  Expression e;
  e.terms_.push_back({1, {std::move(factor)}});
  return e;
}

Expression Expression::Of(Factor::Kind kind, std::vector<Expression> of, char compare) {
  return Of({kind, 0, compare, std::make_shared<const std::vector<Expression>>(std::move(of))});
}

Expression Expression::Argument(uint32_t index) {
  return Of({Factor::Kind::kArgument, index, 0, nullptr});
}

Expression Expression::Input() {
  return Of({Factor::Kind::kInput, 0, 0, nullptr});
}

Expression Expression::Turns(const Expression& count) {
  if (count.constant()) return IsBad(count.number()) ? count : Expression(std::max(0.0, count.number()));
  return Of(Factor::Kind::kTurns, {count});
}

Expression Expression::Remainder(const Expression& a, const Expression& b) {
  if (a.constant() && b.constant()) return Rest(a.number(), b.number());
  return Of(Factor::Kind::kRemainder, {a, b});
}

Expression Expression::Comparison(char compare, const Expression& a, const Expression& b) {
  if (a.constant() && b.constant()) return Compared(compare, a.number(), b.number());
  return Of(Factor::Kind::kCompare, {a, b}, compare);
}

Expression Expression::Choice(const Expression& condition, const Expression& then,
                              const Expression& otherwise) {
  if (condition.constant())
    return IsBad(condition.number()) ? condition : condition.number() != 0 ? then : otherwise;
  if (then == otherwise) return then;
  return Of(Factor::Kind::kChoice, {condition, then, otherwise});
}

int Expression::Compare(const Factor& a, const Factor& b) {
  if (a.kind != b.kind) {
    // Arguments before what is read, and all else after these.
    return a.kind < b.kind ? -1 : 1;
  }
  if (a.index != b.index) return a.index < b.index ? -1 : 1;
  if (a.compare != b.compare) return a.compare < b.compare ? -1 : 1;
  if (a.of == b.of) return 0;
  for (size_t i = 0; i < a.of->size(); ++i) {
    if (const int c = Compare((*a.of)[i], (*b.of)[i]); c != 0) return c;
  }
  return 0;
}

int Expression::Compare(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size() ? -1 : 1;
  for (size_t i = 0; i < a.factors.size(); ++i) {
    if (const int c = Compare(a.factors[i], b.factors[i]); c != 0) return c;
  }
  return 0;
}

int Expression::Compare(const Expression& a, const Expression& b) {
  if (a.terms_.size() != b.terms_.size()) return a.terms_.size() < b.terms_.size() ? -1 : 1;
  for (size_t i = 0; i < a.terms_.size(); ++i) {
    if (const int c = Compare(a.terms_[i], b.terms_[i]); c != 0) return c;
    if (a.terms_[i].number != b.terms_[i].number) return a.terms_[i].number < b.terms_[i].number ? -1 : 1;
  }
  return 0;
}

bool Expression::operator==(const Expression& other) const {
  return Compare(*this, other) == 0;
}

void Expression::Add(Term term) {
  if (term.number == 0) return;
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), term,
                                   [](const Term& a, const Term& b) { return Compare(a, b) < 0; });
  if (at == terms_.end() || Compare(*at, term) != 0) {
    terms_.insert(at, std::move(term));
    return;
  }
  at->number = Checked(at->number, term.number, at->number + term.number);
  if (at->number == 0) terms_.erase(at);
}

Expression operator+(const Expression& a, const Expression& b) {
  Expression sum = a;
  for (const Term& term : b.terms_) sum.Add(term);
  return sum;
}

Expression operator-(const Expression& a, const Expression& b) {
  return a + Expression(-1) * b;
}

Expression operator*(const Expression& a, const Expression& b) {
  if (a.terms_.empty() || b.terms_.empty()) return {};
  const auto product = [](const Term& s, const Term& t) {
    Term p{Checked(s.number, t.number, s.number * t.number), s.factors};
    for (const Factor& factor : t.factors) {
      p.factors.insert(
          std::upper_bound(p.factors.begin(), p.factors.end(), factor,
                           [](const Factor& x, const Factor& y) { return Expression::Compare(x, y) < 0; }),
          factor);
    }
    return p;
  };
  Expression result;
  if (a.constant() || b.constant()) {
    for (const Term& s : a.terms_) {
      for (const Term& t : b.terms_) result.Add(product(s, t));
    }
    return result;
  }
  const auto as_one = [](const Expression& e) {
    return e.terms_.size() == 1 ? e : Expression::Of(Factor::Kind::kSum, {e});
  };
  result.Add(product(as_one(a).terms_[0], as_one(b).terms_[0]));
  return result;
}

Expression operator/(const Expression& a, const Expression& b) {
  if (b.constant()) {
    if (a.constant()) return Quotient(a.number(), b.number());
    return b.number() == 0 ? Expression(kInfinite) : a * Expression(1 / b.number());
  }
  if (a.terms_.empty()) return {};
  return Expression::Of(Factor::Kind::kQuotient, {a, b});
}

bool Expression::UsesInput() const {
  for (const Term& term : terms_) {
    for (const Factor& factor : term.factors) {
      if (factor.kind == Factor::Kind::kInput) return true;
      if (factor.of == nullptr) continue;
      for (const Expression& e : *factor.of) {
        if (e.UsesInput()) return true;
      }
    }
  }
  return false;
}

void Expression::NoteArguments(std::vector<bool>* used) const {
  for (const Term& term : terms_) {
    for (const Factor& factor : term.factors) {
      if (factor.kind == Factor::Kind::kArgument) {
        if (used->size() <= factor.index) used->resize(factor.index + 1);
        (*used)[factor.index] = true;
      }
      if (factor.of == nullptr) continue;
      for (const Expression& e : *factor.of) e.NoteArguments(used);
    }
  }
}

uint32_t Expression::ArgumentCount() const {
  std::vector<bool> used;
  NoteArguments(&used);
  return static_cast<uint32_t>(used.size());
}

double Expression::Evaluate(std::span<const double> arguments, double input) const {
  const auto value = [&](const Factor& factor) {
    const auto part = [&](size_t i) { return (*factor.of)[i].Evaluate(arguments, input); };
    switch (factor.kind) {
      case Factor::Kind::kArgument:
        return factor.index < arguments.size() ? arguments[factor.index] : kUnknown;
      case Factor::Kind::kInput:
        return input;
      case Factor::Kind::kSum:
        return part(0);
      case Factor::Kind::kTurns: {
        const double count = part(0);
        return IsKnown(count) ? std::max(0.0, count) : count;
      }
      case Factor::Kind::kQuotient:
        return Quotient(part(0), part(1));
      case Factor::Kind::kRemainder:
        return Rest(part(0), part(1));
      case Factor::Kind::kCompare:
        return Compared(factor.compare, part(0), part(1));
      case Factor::Kind::kChoice: {
        const double condition = part(0);
        return IsKnown(condition) ? part(condition != 0 ? 1 : 2) : condition;
      }
    }
    return kUnknown;
  };
  double sum = 0;
  for (const Term& term : terms_) {
    double product = term.number;
    for (const Factor& factor : term.factors) {
      const double v = value(factor);
      if (v == 0) {
        product = IsBad(product) ? product : 0;
        if (product == 0) break;
        continue;
      }
      product = Checked(product, v, product * v);
    }
    sum = Checked(sum, product, sum + product);
  }
  return sum;
}

Expression Expression::Substitute(std::span<const double> arguments, double input) const {
  const auto replaced = [&](const Factor& factor) -> Expression {
    const auto part = [&](size_t i) { return (*factor.of)[i].Substitute(arguments, input); };
    switch (factor.kind) {
      case Factor::Kind::kArgument:
        if (factor.index < arguments.size() && !std::isnan(arguments[factor.index]))
          return arguments[factor.index];
        return Of(factor);
      case Factor::Kind::kInput:
        return std::isnan(input) ? Of(factor) : Expression(input);
      case Factor::Kind::kSum:
        return part(0);
      case Factor::Kind::kTurns:
        return Turns(part(0));
      case Factor::Kind::kQuotient:
        return part(0) / part(1);
      case Factor::Kind::kRemainder:
        return Remainder(part(0), part(1));
      case Factor::Kind::kCompare:
        return Comparison(factor.compare, part(0), part(1));
      case Factor::Kind::kChoice: {
        const Expression condition = part(0);
        if (condition.constant() && IsKnown(condition.number())) return part(condition.number() != 0 ? 1 : 2);
        return Choice(condition, part(1), part(2));
      }
    }
    return {};
  };
  Expression sum;
  for (const Term& term : terms_) {
    Expression product = term.number;
    for (const Factor& factor : term.factors) product = product * replaced(factor);
    sum = sum + product;
  }
  return sum;
}

std::string Expression::Text() const {
  if (terms_.empty()) return "0";
  const auto text = [](const Factor& factor) -> std::string {
    const auto part = [&](size_t i) -> const Expression& { return (*factor.of)[i]; };
    switch (factor.kind) {
      case Factor::Kind::kArgument:
        return StrCat("a", factor.index);
      case Factor::Kind::kInput:
        return "C_i";
      case Factor::Kind::kSum:
      case Factor::Kind::kTurns:
        return InParentheses(part(0));
      case Factor::Kind::kQuotient:
        return StrCat("(", InParentheses(part(0)), " / ", InParentheses(part(1)), ")");
      case Factor::Kind::kRemainder:
        return StrCat("(", InParentheses(part(0)), " % ", InParentheses(part(1)), ")");
      case Factor::Kind::kCompare:
        return StrCat("(", InParentheses(part(0)), " ", Sign(factor.compare), " ", InParentheses(part(1)),
                      ")");
      case Factor::Kind::kChoice:
        return StrCat("(if ", part(0).Text(), " then ", part(1).Text(), " else ", part(2).Text(), ")");
    }
    return {};
  };
  std::string out;
  for (const Term& term : terms_) {
    const bool minus = term.number < 0;
    out += out.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
    const double size = std::abs(term.number);
    const bool number_shown = size != 1 || term.factors.empty();
    if (number_shown) out += IsBad(size) ? std::string("infinite") : StrCat(size);
    for (size_t i = 0; i < term.factors.size(); ++i)
      out += StrCat(i > 0 || number_shown ? " * " : "", text(term.factors[i]));
  }
  return out;
}

}  // namespace harrow::cost
