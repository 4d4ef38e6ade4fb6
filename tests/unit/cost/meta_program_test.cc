#include "cost/meta_program.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace harrow::cost {
namespace {

constexpr const char* kFigure3 =
    "WHILE\n    input(1)\n    FOR @arg[0]\n        compute(100)\n    END\n    output(10)\nEND\n";

CostFunctions Parsed(std::string_view text) {
  const auto parsed = ParseMetaProgram(text);
  if (const auto* problem = std::get_if<MetaProblem>(&parsed)) {
    ADD_FAILURE() << problem->line << ":" << problem->column << ": " << problem->text;
    return {};
  }
  return std::get<CostFunctions>(parsed);
}

/// "LINE:COLUMN: text"
std::string Problem(std::string_view text) {
  const auto parsed = ParseMetaProgram(text);
  const auto* problem = std::get_if<MetaProblem>(&parsed);
  return problem == nullptr
             ? "none"
             : std::to_string(problem->line) + ":" + std::to_string(problem->column) + ": " + problem->text;
}

double At(const Expression& e, std::vector<double> arguments, double input = kUnknown) {
  return e.Evaluate(arguments, input);
}

TEST(MetaProgram, Figure3OfThePaper) {
  const CostFunctions t2 = Parsed(kFigure3);
  EXPECT_EQ(t2.in.Text(), "C_i");
  EXPECT_EQ(t2.compute.Text(), "100 * a0 * C_i");
  EXPECT_EQ(t2.out.Text(), "10 * C_i");
  EXPECT_EQ(At(t2.compute, {3}, 5), 1500);
  EXPECT_EQ(At(t2.out, {3}, 5), 50);
}

TEST(MetaProgram, WhatIsNotKnownStaysSymbolic) {
  const CostFunctions t2 = Parsed(kFigure3);
  EXPECT_FALSE(IsKnown(At(t2.compute, {3})));
  EXPECT_FALSE(IsKnown(At(t2.compute, {}, 5)));
  EXPECT_EQ(t2.compute.Substitute(std::vector<double>{3}, kUnknown).Text(), "300 * C_i");
  EXPECT_EQ(t2.compute.Substitute({}, 5).Text(), "500 * a0");
  EXPECT_EQ(t2.compute.Substitute(std::vector<double>{3}, 5).Text(), "1500");
}

TEST(MetaProgram, StatementsAddUp) {
  const CostFunctions costs = Parsed("input(2) compute(@arg[1] * 20) compute(3) output(@arg[2]) output(1)");
  EXPECT_EQ(costs.in.Text(), "2");
  EXPECT_EQ(costs.compute.Text(), "20 * a1 + 3");
  EXPECT_EQ(costs.out.Text(), "a2 + 1");
}

TEST(MetaProgram, TurnsOfAWhileAreWhatIsLeftOverWhatATurnReads) {
  const CostFunctions costs = Parsed("input(4)\nWHILE input(1) input(1) compute(10) END");
  EXPECT_EQ(costs.in.Text(), "C_i");
  EXPECT_EQ(At(costs.compute, {}, 10), 30);
  EXPECT_EQ(At(costs.compute, {}, 3), 0);  // not below 0
  const CostFunctions by_argument = Parsed("WHILE input(@arg[0]) output(6) END");
  EXPECT_EQ(At(by_argument.out, {3}, 12), 24);
  EXPECT_TRUE(IsBad(At(by_argument.out, {0}, 12)));
}

TEST(MetaProgram, LoopsMultiply) {
  const CostFunctions costs = Parsed("FOR 3 FOR @arg[0] - 1 input(2) compute(5) compute(@arg[1]) END END");
  EXPECT_EQ(At(costs.in, {5, 7}), 24);
  EXPECT_EQ(At(costs.compute, {5, 7}), 144);
  EXPECT_EQ(At(costs.compute, {0, 7}), 0);  // turns are not below 0
}

TEST(MetaProgram, Branches) {
  const CostFunctions costs = Parsed(
      "IF @arg[0] > 2 compute(10) ELSE compute(1) output(@arg[1]) END IF @arg[0] % 2 == 0 compute(100) END");
  EXPECT_EQ(At(costs.compute, {4}), 110);
  EXPECT_EQ(At(costs.compute, {1}), 1);
  EXPECT_EQ(At(costs.out, {4}), 0);  // the branch that needs @arg[1] is not taken
  EXPECT_FALSE(IsKnown(At(costs.out, {1})));
  EXPECT_EQ(Parsed("IF 1 compute(5) ELSE compute(6) END").compute.Text(), "5");
  for (const auto& [text, value] :
       {std::pair{"IF 1 < 1", 0.0}, {"IF 1 <= 1", 1.0}, {"IF 1 >= 2", 0.0}, {"IF 1 != 2", 1.0}})
    EXPECT_EQ(At(Parsed(std::string(text) + " compute(1) END").compute, {}), value) << text;
}

TEST(MetaProgram, WhichBranchIsTakenIsNotKnownBeforeTheArgumentIs) {
  const CostFunctions costs = Parsed("IF @arg[0] < 2 compute(10) ELSE compute(20) END");
  EXPECT_FALSE(IsKnown(At(costs.compute, {})));
  EXPECT_EQ(At(costs.compute, {1}), 10);
  EXPECT_EQ(At(costs.compute, {2}), 20);
}

TEST(MetaProgram, ABranchThatReadsToTheEnd) {
  const CostFunctions costs = Parsed("input(3) IF @arg[0] WHILE input(1) compute(2) END ELSE input(1) END");
  EXPECT_EQ(At(costs.in, {0}), 4);
  EXPECT_EQ(At(costs.in, {1}, 10), 10);
  EXPECT_EQ(At(costs.compute, {1}, 10), 14);
}

TEST(MetaProgram, SignsBindAsUsual) {
  const auto value = [](const std::string& text) { return At(Parsed("compute(" + text + ")").compute, {7}); };
  EXPECT_EQ(value("2 + 3 * 4"), 14);
  EXPECT_EQ(value("(2 + 3) * 4"), 20);
  EXPECT_EQ(value("20 / 4 / 5"), 1);
  EXPECT_EQ(value("10 - 3 - 2"), 5);
  EXPECT_EQ(value("-2 + 5"), 3);
  EXPECT_EQ(value("1e3 + .5"), 1000.5);
  EXPECT_EQ(value("@arg[0] * (@arg[0] + 1) / 2"), 28);
  EXPECT_EQ(value("17 % 5"), 2);
  EXPECT_EQ(value("@arg[0] % 4"), 3);
}

TEST(MetaProgram, ACommentEndsItsLine) {
  EXPECT_EQ(Parsed("# all of it\ncompute(1) # one END\ncompute(2)").compute.Text(), "3");
}

TEST(MetaProgram, ProblemsHaveLineAndColumn) {
  EXPECT_EQ(Problem("WHILE\n  input(1)\n"), "1:1: WHILE has no END; add END where its block ends");
  EXPECT_EQ(Problem("compute(1)\nEND"), "2:1: END ends nothing here; remove it");
  EXPECT_EQ(Problem("ELSE"), "1:1: ELSE stands in no IF; remove it");
  EXPECT_EQ(Problem("  compute 5"), "1:11: here stands 5; compute needs \"(\"");
  EXPECT_EQ(Problem("compute(5"), "1:10: here the program ends; compute( needs \")\"");
  EXPECT_EQ(Problem("compute()"),
            "1:9: here stands ); an expression is wanted: a number, @arg[i], or one in parentheses");
  EXPECT_EQ(Problem("comput(1)"), "1:1: unknown statement comput; did you mean compute?");
  EXPECT_EQ(Problem("while input(1) END"), "1:1: unknown statement while; write WHILE");
  EXPECT_EQ(Problem("WHILE\ncompute(1)\nEND"),
            "1:1: a turn of this WHILE reads nothing, so it would never end; add input(1), or write FOR");
  EXPECT_EQ(Problem("compute(1 / 0)"), "1:11: this divides by 0; write another divisor");
  EXPECT_EQ(Problem("compute(-1)"), "1:1: compute has an amount below 0; write 0 or more");
  EXPECT_EQ(Problem("compute(@arg[x])"), "1:14: an argument is named by its number, from 0 to 999: @arg[0]");
  EXPECT_EQ(Problem("compute(@arg[1000])"),
            "1:14: an argument is named by its number, from 0 to 999: @arg[0]");
  EXPECT_EQ(
      Problem("compute(1)\n  $"),
      "2:3: \"$\" means nothing here; write numbers, @arg[i], + - * / %, < <= > >= == != and parentheses");
}

TEST(MetaProgram, WhatReadsAfterTheEndIsRefused) {
  EXPECT_NE(Problem("WHILE input(1) END\ninput(1)").find("2:1: nothing is left to read here"),
            std::string::npos);
  EXPECT_NE(Problem("WHILE input(1) WHILE input(2) END END").find("1:16: a WHILE within a WHILE"),
            std::string::npos);
  EXPECT_NE(Problem("FOR 2 WHILE input(2) END END").find("1:7: a WHILE within a FOR"), std::string::npos);
}

TEST(MetaProgram, WhatIsTooLargeIsRefused) {
  std::string deep, many;
  for (int i = 0; i < 100; ++i) deep += "FOR 2 ";
  EXPECT_NE(Problem(deep).find("deep"), std::string::npos);
  for (int i = 0; i < 1001; ++i) many += "compute(1) ";
  EXPECT_NE(Problem(many).find("more than 1000 statements"), std::string::npos);
  EXPECT_NE(Problem(std::string(70'000, ' ')).find("65536"), std::string::npos);
  EXPECT_NE(Problem("compute(1e300 * 1e300)").find("more than a number holds"), std::string::npos);
  std::string nested(100, '(');
  EXPECT_NE(Problem("compute(" + nested).find("too deep"), std::string::npos);
}

TEST(Expression, WrittenDifferentlyAndTheSame) {
  const Expression a = Expression::Argument(0), c = Expression::Input();
  EXPECT_EQ(a * c + c * a, Expression(2) * a * c);
  EXPECT_EQ((a * c - c * a).Text(), "0");
  EXPECT_EQ((Expression(3) + a).Text(), "a0 + 3");
  EXPECT_EQ((Expression(0) - a).Text(), "-a0");
  EXPECT_EQ(((a + Expression(1)) * c).Text(), "C_i * (a0 + 1)");
  EXPECT_FALSE(a == c);
  EXPECT_TRUE((a * c).UsesInput());
  EXPECT_FALSE(a.UsesInput());
  EXPECT_EQ((a / (c + a)).Text(), "(a0 / (a0 + C_i))");
}

}  // namespace
}  // namespace harrow::cost
