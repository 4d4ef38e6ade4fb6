#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace harrow::graph {

/// Text that is only ever added; what was handed out never moves.
class TextArena {
 public:
  /// Room for `size` bytes, to be filled by the caller.
  char* Allocate(size_t size);
  std::string_view Copy(std::string_view text);
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kBlock = size_t{1} << 20;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;
  size_t left_ = 0;
  size_t bytes_ = 0;
};

}  // namespace harrow::graph
