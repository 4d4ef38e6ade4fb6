#include "graph/text_arena.h"

#include <algorithm>
#include <cstring>

namespace harrow::graph {

char* TextArena::Allocate(size_t size) {
  bytes_ += size;
  if (size > left_) {
    // A long text gets a block of its own, so that what is left of the current one is not lost.
    if (size > kBlock / 8) {
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
      return blocks_.back().get();
    }
    size_t block = blocks_.empty() ? kBlock / 64 : kBlock;
    block = std::max(block, size);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    free_ = blocks_.back().get();
    left_ = block;
  }
  char* place = free_;
  free_ += size;
  left_ -= size;
  return place;
}

std::string_view TextArena::Copy(std::string_view text) {
  if (text.empty()) return {};
  char* place = Allocate(text.size());
  std::memcpy(place, text.data(), text.size());
  return {place, text.size()};
}

}  // namespace harrow::graph
