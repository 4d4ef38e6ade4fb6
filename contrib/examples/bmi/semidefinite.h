// Minimises the largest eigenvalue of a matrix that is affine in some variables, which linear inequalities bound: a semidefinite program,
// by DSDP.
#ifndef BMI_SEMIDEFINITE_H
#define BMI_SEMIDEFINITE_H

#include <optional>
#include <utility>
#include <vector>

#include "matrix.h"

namespace bmi {

/// sum of factor x variable <= limit
struct Inequality {
  std::vector<std::pair<int, double>> terms;  // variable (from 0), factor
  double limit;
};

struct Minimum {
  double bound;                   // no point has a smaller largest eigenvalue
  std::vector<double> variables;  // of a point that is next to the least
};

/// constant + sum variable_k x of_k. `start` fulfils every inequality strictly. Nothing: the solver did not get there.
std::optional<Minimum> MinimiseLargestEigenvalue(const Matrix& constant, const std::vector<const Matrix*>& of,
                                                 const std::vector<Inequality>& inequalities, const std::vector<double>& start);

}  // namespace bmi

#endif
