#include "order/lane.h"

#include <algorithm>

namespace harrow::order {

LaneId LaneTable::Add(const Lane& lane) {
  const auto id = static_cast<LaneId>(lanes_.size());
  lanes_.push_back(lane);
  barred_.push_back(0);
  Enter(id);
  return id;
}

void LaneTable::Enter(LaneId id) {
  if (id >= kInSets) return;
  const Lane& lane = lanes_[id];
  const uint64_t bit = uint64_t{1} << id;
  const bool cores_only = lane.devices == 0 && lane.memory == 0 && !lane.whole_node && lane.cores < kCores;
  if (!cores_only) {
    special_ |= bit;
    return;
  }
  for (uint32_t cores = lane.cores; cores <= kCores; ++cores) up_to_[cores] |= bit;
}

void LaneTable::SetBarred(LaneId id, bool barred) {
  barred_[id] = barred;
  if (id >= kInSets) return;
  const uint64_t bit = uint64_t{1} << id;
  barred_set_ = barred ? barred_set_ | bit : barred_set_ & ~bit;
}

LaneId LaneTable::Find(const Lane& lane) const {
  const auto known = std::find(lanes_.begin(), lanes_.end(), lane);
  return known == lanes_.end() ? kNoLane : static_cast<LaneId>(known - lanes_.begin());
}

void LaneTable::WidenLast(const Lane& lane) {
  Lane& last = lanes_.back();
  last.cores = std::max(last.cores, lane.cores);
  last.devices = std::max(last.devices, lane.devices);
  last.memory = std::max(last.memory, lane.memory);
  last.time_limit = std::max(last.time_limit, lane.time_limit);
  last.least_time = std::max(last.least_time, lane.least_time);
}

}  // namespace harrow::order
