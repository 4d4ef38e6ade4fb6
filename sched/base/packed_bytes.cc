#include "base/packed_bytes.h"

#include <algorithm>

namespace harrow {

void PackedBytes::Grow(size_t by) {
  room_ = std::max(2 * room_, size_ + by);
  auto larger = std::make_unique_for_overwrite<char[]>(room_);
  if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
  bytes_ = std::move(larger);
}

}  // namespace harrow
