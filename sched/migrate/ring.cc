#include "migrate/ring.h"

#include "store/hasher.h"

namespace harrow::migrate {

Status RingNode::Take(std::string_view piece) {
  const Status damaged(Code::kDamaged, "what came along the ring is not the image that was announced");
  if (damaged_ || whole_ || piece.size() > bytes_ - image_.size()) {
    damaged_ = true;
    return damaged;
  }
  // The next one looks for itself.
  if (next_) next_(piece);
  image_ += piece;
  if (image_.size() < bytes_) return {};
  whole_ = store::IdOf(image_, store::Kind::kFile) == digest_;
  damaged_ = !whole_;
  return whole_ ? Status() : damaged;
}

}  // namespace harrow::migrate
