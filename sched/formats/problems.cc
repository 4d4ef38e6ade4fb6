#include "formats/problems.h"

#include <algorithm>

#include "base/text.h"

namespace harrow::formats {

void Problems::Add(SourcePlace place, std::string_view text) {
  ++count_;
  if (count_ > limit_) return;
  if (!lines_.empty()) lines_ += '\n';
  lines_ += StrCat(graph_->PlaceText(place), ": ", text);
}

void Problems::AddLast(SourcePlace place, std::string_view text) {
  Add(place, text);
  stopped_ = true;
}

Status Problems::status() const {
  if (empty()) return Status();
  if (count_ < limit_ || limit_ < 2) return Status(Code::kInvalid, lines_);
  return Status(Code::kInvalid, StrCat(lines_, "\n(reading stopped after ", limit_, " problems)"));
}

SourcePlace PlaceAt(uint32_t source, std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t newline = before.rfind('\n');
  SourcePlace place;
  place.source = source;
  place.line = static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n') + 1);
  place.column =
      static_cast<uint32_t>(newline == std::string_view::npos ? before.size() + 1 : before.size() - newline);
  return place;
}

std::string SuggestOneOf(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (const auto near = Suggest(word, candidates)) return StrCat("; did you mean ", Printable(*near), "?");
  std::string known;
  for (std::string_view candidate : candidates) {
    if (known.size() > 300) return StrCat("; known are ", known, ", ...");
    known += known.empty() ? "" : ", ";
    known += Printable(candidate);
  }
  return known.empty() ? "; there are none here" : StrCat("; known are ", known);
}

}  // namespace harrow::formats
