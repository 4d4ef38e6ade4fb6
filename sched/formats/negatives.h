#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_place.h"
#include "graph/graph.h"

namespace harrow::formats {

/// Negative run times and sizes of a recorded trace (public ones have some): read as unknown, counted, and
/// told once each. Of one reader.
class Negatives {
 public:
  /// `what`: "run time" or "size".
  void Note(SourcePlace place, std::string_view what, double number);
  void Tell(const graph::Graph& graph, std::vector<std::string>* notices) const;

 private:
  struct Seen {
    std::string what;
    SourcePlace place;
    double number = 0;
    size_t count = 0;
  };
  std::vector<Seen> seen_;
};

}  // namespace harrow::formats
