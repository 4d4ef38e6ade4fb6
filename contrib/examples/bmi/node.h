// One node of the search tree: a box is bounded, and halved where something better may be in it.
#ifndef BMI_NODE_H
#define BMI_NODE_H

#include <optional>
#include <string>
#include <vector>

#include "bound.h"

namespace bmi {

struct Looked {
  double bound;
  std::optional<Candidate> better;  // than the best that was known
  std::vector<Box> children;        // none: nothing in it is better, or it is too small
};

/// `bound`: what is known of the box, as that of the one that it is a half of. `best`: the least value known.
std::optional<Looked> Look(const Instance& instance, const Box& box, double bound, double best, double gap);

/// What a box with this bound cannot be much better than: within the gap, a fraction of the best value.
inline bool Pointless(double bound, double best, double gap) {
  return bound >= best - gap * (best < 0 ? -best : best);
}

/// "low:high,..." and "value,...", exact.
std::string ToText(const Box& box);
std::string ToText(const Point& point);
std::optional<Box> BoxOf(const std::string& text, const Instance& instance);

}  // namespace bmi

#endif
