#include "node.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace bmi {
namespace {

constexpr double kNarrow = 1e-6;

std::string Exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// That of which the products miss most; a side that is narrow already is not halved further.
int WhichToHalve(const Box& box, const std::vector<double>& off) {
  int which = -1;
  double most = -1;
  for (int v = 0; v < static_cast<int>(off.size()); ++v) {
    const double width = box.high[v] - box.low[v];
    if (width < kNarrow) continue;
    if (off[v] * width > most) {
      most = off[v] * width;
      which = v;
    }
  }
  return which;
}

}  // namespace

std::optional<Looked> Look(const Instance& instance, const Box& box, double bound, double best, double gap) {
  const auto relaxed = Relax(instance, box);
  if (!relaxed) return std::nullopt;
  Looked looked{std::max(bound, relaxed->bound), {}, {}};
  const double value = instance.Value(relaxed->point);
  if (value < best) {
    looked.better = Improve(instance, {value, relaxed->point});
    best = looked.better->value;
  }
  if (Pointless(looked.bound, best, gap)) return looked;
  const int which = WhichToHalve(box, relaxed->off);
  if (which < 0) return looked;
  looked.children = {box, box};
  looked.children[0].high[which] = looked.children[1].low[which] = (box.low[which] + box.high[which]) / 2;
  return looked;
}

std::string ToText(const Point& point) {
  std::string text;
  for (const double value : point) text += (text.empty() ? "" : ",") + Exact(value);
  return text;
}

std::string ToText(const Box& box) {
  std::string text;
  for (std::size_t v = 0; v < box.low.size(); ++v) text += (v == 0 ? "" : ",") + Exact(box.low[v]) + ":" + Exact(box.high[v]);
  return text;
}

std::optional<Box> BoxOf(const std::string& text, const Instance& instance) {
  Box box;
  const char* at = text.c_str();
  for (int v = 0; v < instance.variables(); ++v) {
    char* end = nullptr;
    if (v > 0 && *at++ != ',') return std::nullopt;
    box.low.push_back(std::strtod(at, &end));
    if (end == at || *end != ':') return std::nullopt;
    at = end + 1;
    box.high.push_back(std::strtod(at, &end));
    if (end == at || !(box.low.back() < box.high.back())) return std::nullopt;
    at = end;
  }
  if (*at != '\0') return std::nullopt;
  return box;
}

}  // namespace bmi
