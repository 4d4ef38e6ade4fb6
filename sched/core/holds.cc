#include "core/holds.h"

#include "base/text.h"

namespace harrow::core {

void Holds::Keep(NodeId id, order::LaneId lane) {
  nodes_[id.value] = {lane, 0};
  if (lane >= holders_.size()) holders_.resize(lane + size_t{1});
  ++holders_[lane];
}

bool Holds::Drop(NodeId id) {
  if (lane(id) == order::kNoLane) return false;
  --holders_[lane(id)];
  nodes_[id.value] = {};
  return true;
}

std::string Holds::FindBroken() const {
  std::vector<uint32_t> holders(holders_.size());
  for (const Node& node : nodes_) {
    if (node.lane != order::kNoLane) ++holders.at(node.lane);
  }
  for (size_t lane = 0; lane < holders.size(); ++lane) {
    if (holders[lane] != holders_[lane]) return StrCat("lane ", lane, ": nodes that keep room");
  }
  return {};
}

}  // namespace harrow::core
