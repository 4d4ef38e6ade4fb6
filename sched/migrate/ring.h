#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/object.h"

namespace harrow::migrate {

/// One node of a ring along which an image is spread: what comes from the one before goes on to the next while the rest still comes, so that
/// the time does not grow with the number of nodes. Pieces come in their order.
class RingNode {
 public:
  /// `next`: hands a piece on; empty: this node is the last.
  RingNode(uint64_t bytes, store::ObjectId digest, std::function<void(std::string_view)> next)
      : bytes_(bytes), digest_(digest), next_(std::move(next)) {
    image_.reserve(bytes);
  }
  /// kDamaged: more came than was announced, or something else: the image is not to be used.
  Status Take(std::string_view piece);
  /// All of it is here, and is what was announced.
  bool whole() const { return whole_; }
  const std::string& image() const { return image_; }

 private:
  const uint64_t bytes_;
  const store::ObjectId digest_;
  const std::function<void(std::string_view)> next_;
  std::string image_;
  bool whole_ = false, damaged_ = false;
};

}  // namespace harrow::migrate
