// By recursive descent; a block of statements is turned into its three amounts as it is read. A WHILE takes
// all that is left of the input, so what would read after it, or around it in a loop, reads nothing and is
// refused.

#include "cost/meta_program.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/text.h"

namespace harrow::cost {
namespace {

constexpr size_t kMostBytes = 64 * 1024;
constexpr int kMostDepth = 64;
constexpr uint32_t kMostStatements = 1000;
constexpr uint32_t kMostArguments = 1000;
constexpr std::string_view kStatements = "WHILE, FOR, IF, input(n), compute(n) or output(n)";

struct Token {
  enum class Kind : uint8_t { kWord, kNumber, kSign, kEnd } kind = Kind::kEnd;
  std::string_view text;
  double number = 0;
  uint32_t line = 1, column = 1;
};

/// Thrown within this file only: unwinds to ParseMetaProgram.
struct Refused {
  MetaProblem problem;
};

[[noreturn]] void Refuse(const Token& at, std::string text) {
  throw Refused{{at.line, at.column, std::move(text)}};
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::vector<Token> Tokens(std::string_view text) {
  std::vector<Token> tokens;
  uint32_t line = 1;
  size_t line_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    Token token{Token::Kind::kSign, text.substr(at, 1), 0, line, static_cast<uint32_t>(at - line_begin + 1)};
    if (c == '\n') {
      ++line;
      line_begin = ++at;
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    size_t end = at + 1;
    if (IsLetter(c)) {
      while (end < text.size() && (IsLetter(text[end]) || IsDigit(text[end]))) ++end;
      token.kind = Token::Kind::kWord;
    } else if (IsDigit(c) || c == '.') {
      const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), token.number);
      if (error != std::errc() || !IsKnown(token.number))
        Refuse(token, "this is no number; write one such as 100, 2.5 or 1e6");
      end = static_cast<size_t>(stop - text.data());
      token.kind = Token::Kind::kNumber;
    } else if ((c == '<' || c == '>' || c == '=' || c == '!') && end < text.size() && text[end] == '=') {
      ++end;
    } else if (c == '=' || c == '!' || std::string_view("<>+-*/%()[]@").find(c) == std::string_view::npos) {
      Refuse(token, StrCat("\"", Printable(text.substr(at, 1)),
                           "\" means nothing here; write numbers, @arg[i], + - * / %, < <= > >= == != and "
                           "parentheses"));
    }
    token.text = text.substr(at, end - at);
    tokens.push_back(token);
    at = end;
  }
  tokens.push_back({Token::Kind::kEnd, "", 0, line, static_cast<uint32_t>(text.size() - line_begin + 1)});
  return tokens;
}

/// The amounts of a block of statements.
struct Part {
  CostFunctions costs;
  bool reads_to_end = false;
  bool reads = false;
  Token first_read{};  // where it does
  Token to_end{};      // the WHILE, where it reads to the end
};

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(Tokens(text)) {}

  CostFunctions Program() {
    Part block = Statements(nullptr, Expression());
    if (next().kind != Token::Kind::kEnd) {
      if (next().text == "END") Refuse(next(), "END ends nothing here; remove it");
      Refuse(next(), "ELSE stands in no IF; remove it");
    }
    return block.costs;
  }

 private:
  const Token& next() const { return tokens_[at_]; }
  bool Is(std::string_view text) const { return next().text == text; }
  bool Accept(std::string_view text) {
    if (!Is(text) || next().kind == Token::Kind::kEnd) return false;
    ++at_;
    return true;
  }
  void Expect(std::string_view text, std::string_view after) {
    if (!Accept(text))
      Refuse(next(), StrCat("here ", next().kind == Token::Kind::kEnd ? "the program ends" : "stands ",
                            next().kind == Token::Kind::kEnd ? "" : Printable(next().text, 40), "; ", after,
                            " needs \"", text, "\""));
  }

  /// Up to END, ELSE or the end of the text. `before`: what has been read before it.
  Part Statements(const Token* opener, const Expression& before) {
    if (++depth_ > kMostDepth)
      Refuse(next(), StrCat("blocks stand in each other more than ", kMostDepth, " deep; write it flatter"));
    Part all;
    while (next().kind != Token::Kind::kEnd && !Is("END") && !Is("ELSE")) {
      const Part one = Statement(before + all.costs.in);
      if (one.reads && all.reads_to_end)
        Refuse(
            one.first_read,
            "nothing is left to read here: the WHILE before it reads to the end; leave this out, or put it "
            "before the WHILE");
      // What a WHILE reads is all there is, what was read before it included.
      all.costs.in = one.reads_to_end && !all.reads_to_end ? one.costs.in : all.costs.in + one.costs.in;
      all.costs.compute = all.costs.compute + one.costs.compute;
      all.costs.out = all.costs.out + one.costs.out;
      if (one.reads && !all.reads) all.first_read = one.first_read;
      all.reads |= one.reads;
      if (one.reads_to_end) all.to_end = one.to_end;
      all.reads_to_end |= one.reads_to_end;
    }
    if (opener != nullptr && next().kind == Token::Kind::kEnd)
      Refuse(*opener, StrCat(opener->text, " has no END; add END where its block ends"));
    --depth_;
    return all;
  }

  Part Statement(const Expression& before) {
    if (++statements_ > kMostStatements)
      Refuse(next(), StrCat("there are more than ", kMostStatements,
                            " statements; a model leaves out what costs little"));
    const Token at = next();
    if (at.kind != Token::Kind::kWord)
      Refuse(at, StrCat("here stands ", Printable(at.text, 40), "; a statement is ", kStatements));
    ++at_;
    if (at.text == "WHILE") return While(at, before);
    if (at.text == "FOR") return For(at, before);
    if (at.text == "IF") return If(at, before);
    if (at.text != "input" && at.text != "compute" && at.text != "output") {
      const auto near = Suggest(at.text, {"WHILE", "FOR", "IF", "ELSE", "END", "input", "compute", "output"});
      const std::string upper = UpperCase(at.text);
      const bool case_only =
          upper == "WHILE" || upper == "FOR" || upper == "IF" || upper == "END" || upper == "ELSE";
      Refuse(at, StrCat("unknown statement ", Printable(at.text, 40),
                        case_only ? StrCat("; write ", upper)
                        : near    ? StrCat("; did you mean ", *near, "?")
                                  : StrCat("; a statement is ", kStatements)));
    }
    Expect("(", at.text);
    const Expression amount = Comparison();
    Expect(")", StrCat(at.text, "("));
    if (amount.constant() && amount.number() < 0)
      Refuse(at, StrCat(at.text, " has an amount below 0; write 0 or more"));
    Part block;
    if (at.text == "compute") block.costs.compute = amount;
    if (at.text == "output") block.costs.out = amount;
    if (at.text != "input") return block;
    block.costs.in = amount;
    block.reads = true;
    block.first_read = at;
    return block;
  }

  Part While(const Token& at, const Expression& before) {
    const Part body = Statements(&at, Expression());
    Expect("END", "WHILE");
    if (body.reads_to_end)
      Refuse(body.to_end, "a WHILE within a WHILE would read all in the first turn; leave one of them out");
    const Expression& turn = body.costs.in;
    if (turn.constant() && turn.number() == 0)
      Refuse(at, "a turn of this WHILE reads nothing, so it would never end; add input(1), or write FOR");
    const Expression left = before.constant() && before.number() == 0
                                ? Expression::Input()
                                : Expression::Turns(Expression::Input() - before);
    Part block;
    block.costs = {Expression::Input(), left / turn * body.costs.compute, left / turn * body.costs.out};
    block.reads = block.reads_to_end = true;
    block.first_read = block.to_end = at;
    return block;
  }

  Part For(const Token& at, const Expression& before) {
    const Expression turns = Expression::Turns(Comparison());
    Part body = Statements(&at, before);
    Expect("END", "FOR");
    if (body.reads_to_end)
      Refuse(body.to_end,
             "a WHILE within a FOR would read all in the first turn; put the WHILE around the FOR, or leave "
             "the FOR out");
    body.costs = {turns * body.costs.in, turns * body.costs.compute, turns * body.costs.out};
    return body;
  }

  Part If(const Token& at, const Expression& before) {
    const Expression condition = Comparison();
    Part then = Statements(&at, before);
    Part otherwise;
    if (Accept("ELSE")) otherwise = Statements(&at, before);
    Expect("END", "IF");
    // A branch that does not read to the end, beside one that does, reads what it says in all.
    const auto in = [&](const Part& branch) {
      const bool other_reads_all = then.reads_to_end || otherwise.reads_to_end;
      return other_reads_all && !branch.reads_to_end ? before + branch.costs.in : branch.costs.in;
    };
    Part block;
    block.costs = {Expression::Choice(condition, in(then), in(otherwise)),
                   Expression::Choice(condition, then.costs.compute, otherwise.costs.compute),
                   Expression::Choice(condition, then.costs.out, otherwise.costs.out)};
    block.reads = then.reads || otherwise.reads;
    block.first_read = then.reads ? then.first_read : otherwise.first_read;
    block.to_end = then.reads_to_end ? then.to_end : otherwise.to_end;
    block.reads_to_end = then.reads_to_end || otherwise.reads_to_end;
    return block;
  }

  Expression Comparison() {
    const Expression left = Sum();
    static constexpr std::pair<std::string_view, char> kSigns[] = {{"<", 'l'},  {"<=", 'L'}, {">", 'g'},
                                                                   {">=", 'G'}, {"==", '='}, {"!=", '!'}};
    for (const auto& [text, sign] : kSigns) {
      if (next().kind == Token::Kind::kSign && Accept(text)) return Expression::Comparison(sign, left, Sum());
    }
    return left;
  }

  Expression Sum() {
    Expression sum = Product();
    while (next().kind == Token::Kind::kSign && (Is("+") || Is("-"))) {
      Count();
      const bool plus = Is("+");
      ++at_;
      const Expression more = Product();
      sum = plus ? sum + more : sum - more;
    }
    return sum;
  }

  Expression Product() {
    Expression product = Value();
    while (next().kind == Token::Kind::kSign && (Is("*") || Is("/") || Is("%"))) {
      Count();
      const Token sign = next();
      ++at_;
      const Expression by = Value();
      if (sign.text != "*" && by.constant() && by.number() == 0)
        Refuse(sign, "this divides by 0; write another divisor");
      product = sign.text == "*"   ? product * by
                : sign.text == "/" ? product / by
                                   : Expression::Remainder(product, by);
    }
    return product;
  }

  Expression Value() {
    Count();
    if (++depth_ > kMostDepth) Refuse(next(), "parentheses stand in each other too deep; write it flatter");
    const Token at = next();
    Expression value;
    if (at.kind == Token::Kind::kNumber) {
      ++at_;
      value = at.number;
    } else if (Accept("-")) {
      value = Expression(-1) * Value();
    } else if (Accept("(")) {
      value = Comparison();
      Expect(")", "(");
    } else if (Accept("@")) {
      value = Argument();
    } else {
      Refuse(at, StrCat("here ",
                        at.kind == Token::Kind::kEnd ? "the program ends"
                                                     : StrCat("stands ", Printable(at.text, 40)),
                        "; an expression is wanted: a number, @arg[i], or one in parentheses"));
    }
    --depth_;
    return value;
  }

  Expression Argument() {
    Expect("arg", "@");
    Expect("[", "@arg");
    const Token index = next();
    if (index.kind != Token::Kind::kNumber ||
        index.text.find_first_not_of("0123456789") != std::string_view::npos ||
        index.number >= kMostArguments)
      Refuse(index,
             StrCat("an argument is named by its number, from 0 to ", kMostArguments - 1, ": @arg[0]"));
    ++at_;
    Expect("]", "@arg[");
    return Expression::Argument(static_cast<uint32_t>(index.number));
  }

  void Count() {
    if (++operations_ > 4 * kMostStatements)
      Refuse(next(), "the expressions are too many; a model leaves out what costs little");
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  uint32_t statements_ = 0, operations_ = 0;
};

}  // namespace

std::variant<CostFunctions, MetaProblem> ParseMetaProgram(std::string_view text) {
  if (text.size() > kMostBytes)
    return MetaProblem{1, 1,
                       StrCat("the model has ", text.size(), " bytes; at most ", kMostBytes, " are taken")};
  try {
    const CostFunctions costs = Parser(text).Program();
    for (const Expression* e : {&costs.in, &costs.compute, &costs.out}) {
      if (e->constant() && !IsKnown(e->number()))
        return MetaProblem{1, 1, "its amounts are more than a number holds; write smaller ones"};
    }
    return costs;
  } catch (Refused& refused) {
    return std::move(refused.problem);
  }
}

}  // namespace harrow::cost
