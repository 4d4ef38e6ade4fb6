#include "formats/negatives.h"

#include <algorithm>

#include "base/text.h"

namespace harrow::formats {

void Negatives::Note(SourcePlace place, std::string_view what, double number) {
  auto at = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& seen) { return seen.what == what; });
  if (at == seen_.end()) at = seen_.insert(at, {.what = std::string(what), .place = place, .number = number});
  ++at->count;
}

void Negatives::Tell(const graph::Graph& graph, std::vector<std::string>* notices) const {
  for (const Seen& seen : seen_) {
    const std::string more =
        seen.count == 1 ? " is" : StrCat(", and ", seen.count - 1, " more that are negative, are");
    notices->push_back(
        StrCat(graph.PlaceText(seen.place), ": ", seen.what, " ", seen.number, more, " read as unknown"));
  }
}

}  // namespace harrow::formats
