// Bounds of the smallest largest eigenvalue in a box: from below by a relaxation, from above by points.
#ifndef BMI_BOUND_H
#define BMI_BOUND_H

#include <optional>

#include "instance.h"

namespace bmi {

struct Relaxed {
  double bound;
  Point point;              // where the relaxation is least
  std::vector<double> off;  // of each variable, how much its products miss: what halving it may gain
};

/// Products x_i y_j are variables of their own between the planes of McCormick. Nothing: the solver failed.
std::optional<Relaxed> Relax(const Instance& instance, const Box& box);

struct Candidate {
  double value;
  Point point;
};

/// Goes from a point to a better one as far as it gets: the best y for its x, the best x for that y, and so on, in the whole box.
Candidate Improve(const Instance& instance, const Candidate& from);

}  // namespace bmi

#endif
