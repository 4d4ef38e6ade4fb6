#pragma once

#include <string>
#include <string_view>

#include "base/source_place.h"
#include "base/status.h"
#include "graph/graph.h"

namespace harrow::formats {

/// What is wrong with the user's input, one line each, in the order found. The graph knows the sources'
/// names.
class Problems {
 public:
  Problems(const graph::Graph* graph, size_t limit) : graph_(graph), limit_(limit) {}
  /// `text`: what is wrong; what would be right.
  void Add(SourcePlace place, std::string_view text);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  /// A problem that makes reading further pointless.
  void AddLast(SourcePlace place, std::string_view text);
  bool full() const { return stopped_ || count_ >= limit_; }  // do not read further
  Status status() const;

 private:
  const graph::Graph* graph_;
  size_t limit_;
  size_t count_ = 0;
  bool stopped_ = false;
  std::string lines_;
};

/// Line and column (in bytes) of an offset in a text.
SourcePlace PlaceAt(uint32_t source, std::string_view text, size_t offset);

/// "; did you mean X?", or "; CANDIDATES are known" when none is near.
std::string SuggestOneOf(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace harrow::formats
