// In DSDP's words: maximise b'v so that C - sum v_k A_k is positive semidefinite and A'v <= c. Our last variable is the eigenvalue t:
// maximise -t, where t I - constant - sum v_k of_k is positive semidefinite. The objective of DSDP's primal is a bound that holds
// whether or not v is the optimum.
#include "semidefinite.h"

#include <algorithm>
#include <cmath>

#include <dsdp/dsdp5.h>

namespace bmi {
namespace {

constexpr double kGap = 1e-4;      // relative, between bound and value; what is asked for of the tree is 5e-2
constexpr double kLargest = 1e3;   // no variable is larger
constexpr int kIterations = 200;

/// Inequalities by column, as LPConeSetData takes them: first the limits, then a column a variable.
struct Columns {
  std::vector<int> begins, rows;
  std::vector<double> values;

  Columns(const std::vector<Inequality>& inequalities, int variables) {
    begins.push_back(0);
    for (std::size_t row = 0; row < inequalities.size(); ++row) Put(static_cast<int>(row), inequalities[row].limit);
    begins.push_back(static_cast<int>(rows.size()));
    for (int variable = 0; variable < variables; ++variable) {
      for (std::size_t row = 0; row < inequalities.size(); ++row) {
        for (const auto& [which, factor] : inequalities[row].terms) {
          if (which == variable) Put(static_cast<int>(row), factor);
        }
      }
      begins.push_back(static_cast<int>(rows.size()));
    }
  }

 private:
  void Put(int row, double value) {
    rows.push_back(row);
    values.push_back(value);
  }
};

}  // namespace

std::optional<Minimum> MinimiseLargestEigenvalue(const Matrix& constant, const std::vector<const Matrix*>& of,
                                                 const std::vector<Inequality>& inequalities, const std::vector<double>& start) {
  const int size = constant.size(), variables = static_cast<int>(of.size()), t = variables + 1;
  Matrix at_start = constant, negative(size);
  for (int k = 0; k < variables; ++k) at_start.Add(start[k], *of[k]);
  negative.Add(-1, constant);
  const Columns columns(inequalities, t);

  DSDP solver = nullptr;
  if (DSDPCreate(t, &solver) != 0) return std::nullopt;
  SDPCone matrices;
  LPCone limits;
  int wrong = DSDPCreateSDPCone(solver, 1, &matrices);
  wrong |= DSDPCreateLPCone(solver, &limits);
  wrong |= DSDPSetDualObjective(solver, t, -1);
  wrong |= SDPConeSetBlockSize(matrices, 0, size);
  // DSDP reads these while it solves; it has no const.
  const auto dense = [&](int variable, const std::vector<double>& packed) {
    return SDPConeSetADenseVecMat(matrices, 0, variable, size, 1, const_cast<double*>(packed.data()), static_cast<int>(packed.size()));
  };
  wrong |= dense(0, negative.packed());
  for (int k = 0; k < variables; ++k) wrong |= dense(k + 1, of[k]->packed());
  wrong |= SDPConeAddIdentity(matrices, 0, t, size, -1);
  wrong |= LPConeSetData(limits, static_cast<int>(inequalities.size()), columns.begins.data(), columns.rows.data(), columns.values.data());
  wrong |= DSDPSetYBounds(solver, -kLargest, kLargest);
  for (int k = 0; k < variables; ++k) wrong |= DSDPSetY0(solver, k + 1, start[k]);
  wrong |= DSDPSetY0(solver, t, at_start.LargestEigenvalue() + 1);
  wrong |= DSDPSetR0(solver, 0);  // the start is feasible
  wrong |= DSDPSetGapTolerance(solver, kGap);
  wrong |= DSDPSetMaxIts(solver, kIterations);
  wrong |= DSDPSetup(solver);
  wrong |= DSDPSolve(solver);
  Minimum found{0, std::vector<double>(t)};
  DSDPTerminationReason reason{};
  wrong |= DSDPStopReason(solver, &reason);
  wrong |= DSDPGetPPObjective(solver, &found.bound);
  wrong |= DSDPGetY(solver, found.variables.data(), t);
  DSDPDestroy(solver);
  found.bound = -found.bound;
  found.variables.resize(variables);
  if (wrong != 0 || reason != DSDP_CONVERGED || !std::isfinite(found.bound)) return std::nullopt;
  return found;
}

}  // namespace bmi
