#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "cost/expression.h"

namespace harrow::cost {

/// What a program costs, in units of its own, as formulas in its arguments and in what it reads (paper 001,
/// 5.1). `in` is C_i itself where the program reads to the end, whatever comes.
struct CostFunctions {
  Expression in, compute, out;
  bool operator==(const CostFunctions&) const = default;
};

/// What is wrong with a meta-program, and what would be right. Line and column count from 1, in bytes.
struct MetaProblem {
  uint32_t line = 1, column = 1;
  std::string text;
};

/// The cost functions of a meta-program:
///
///     WHILE ... END                  turns until its input ends: C_i over what a turn reads
///     FOR expression ... END         so many turns, none where it is below 0
///     IF expression ... ELSE ... END where it is not 0, else ELSE, which may be missing
///     input(n) compute(n) output(n)
///
/// An expression has numbers, @arg[i] (the command's ith argument, from 0), + - * / %, comparisons and
/// parentheses; # begins a comment.
std::variant<CostFunctions, MetaProblem> ParseMetaProgram(std::string_view text);

}  // namespace harrow::cost
