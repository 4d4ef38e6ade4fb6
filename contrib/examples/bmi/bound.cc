#include "bound.h"

#include <algorithm>
#include <cmath>

#include "semidefinite.h"

namespace bmi {
namespace {

constexpr int kRounds = 20;
constexpr double kWorthwhile = 1e-3;  // relative, of a round

/// The least of constant + sum v_k of_k in [-1, 1]; of is [constant, of_1, ...].
std::optional<Minimum> InWholeBox(const std::vector<Matrix>& of) {
  std::vector<const Matrix*> factors;
  std::vector<Inequality> limits;
  for (int k = 0; k + 1 < static_cast<int>(of.size()); ++k) {
    factors.push_back(&of[k + 1]);
    limits.push_back({{{k, 1.0}}, 1});
    limits.push_back({{{k, -1.0}}, 1});
  }
  return MinimiseLargestEigenvalue(of[0], factors, limits, std::vector<double>(factors.size(), 0));
}

}  // namespace

std::optional<Relaxed> Relax(const Instance& instance, const Box& box) {
  const int nx = instance.x_count(), ny = instance.y_count();
  std::vector<const Matrix*> factors;
  std::vector<double> start;
  for (int i = 1; i <= nx; ++i) factors.push_back(&instance.Of(i, 0));
  for (int j = 1; j <= ny; ++j) factors.push_back(&instance.Of(0, j));
  for (int v = 0; v < nx + ny; ++v) start.push_back((box.low[v] + box.high[v]) / 2);
  std::vector<Inequality> planes;
  for (int i = 0; i < nx; ++i) {
    for (int j = 0; j < ny; ++j) {
      const int x = i, y = nx + j, w = static_cast<int>(factors.size());
      const double xl = box.low[x], xh = box.high[x], yl = box.low[y], yh = box.high[y];
      factors.push_back(&instance.Of(i + 1, j + 1));
      start.push_back(start[x] * start[y]);
      // (x - xl)(y - yl) >= 0 and the like.
      planes.push_back({{{x, yl}, {y, xl}, {w, -1}}, xl * yl});
      planes.push_back({{{x, yh}, {y, xh}, {w, -1}}, xh * yh});
      planes.push_back({{{x, -yl}, {y, -xh}, {w, 1}}, -xh * yl});
      planes.push_back({{{x, -yh}, {y, -xl}, {w, 1}}, -xl * yh});
    }
  }
  const auto found = MinimiseLargestEigenvalue(instance.Of(0, 0), factors, planes, start);
  if (!found) return std::nullopt;
  Relaxed relaxed{found->bound, Point(found->variables.begin(), found->variables.begin() + nx + ny), std::vector<double>(nx + ny)};
  for (int v = 0; v < nx + ny; ++v) relaxed.point[v] = std::clamp(relaxed.point[v], box.low[v], box.high[v]);
  for (int i = 0; i < nx; ++i) {
    for (int j = 0; j < ny; ++j) {
      const double off = std::abs(found->variables[nx + ny + i * ny + j] - relaxed.point[i] * relaxed.point[nx + j]);
      relaxed.off[i] += off;
      relaxed.off[nx + j] += off;
    }
  }
  return relaxed;
}

Candidate Improve(const Instance& instance, const Candidate& from) {
  Candidate best = from;
  const int nx = instance.x_count();
  for (int round = 0; round < kRounds; ++round) {
    const double before = best.value;
    for (const bool y_next : {true, false}) {
      const auto found = InWholeBox(y_next ? instance.WithX(best.point) : instance.WithY(best.point));
      if (!found) return best;
      Candidate next = best;
      for (std::size_t k = 0; k < found->variables.size(); ++k) {
        next.point[(y_next ? nx : 0) + k] = std::clamp(found->variables[k], -1.0, 1.0);
      }
      next.value = instance.Value(next.point);
      if (next.value < best.value) best = next;
    }
    if (before - best.value < kWorthwhile * std::abs(best.value)) break;
  }
  return best;
}

}  // namespace bmi
