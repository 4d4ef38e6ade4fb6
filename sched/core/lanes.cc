#include "core/lanes.h"

#include <algorithm>
#include <bit>

#include "base/text.h"

namespace harrow::core {
namespace {

constexpr size_t kManyLanes = 128;

/// `value` with all but its upper five bits rounded up.
uint64_t RoundUp(uint64_t value) {
  const int drop = std::max(0, static_cast<int>(std::bit_width(value)) - 5);
  const uint64_t step = uint64_t{1} << drop;
  return (value + step - 1) / step * step;
}

}  // namespace

order::LaneId Lanes::Of(const graph::Graph& graph, TaskId task) {
  const ProfileId profile = graph.profile_id(task);
  if (profile.value >= of_profile_.size()) of_profile_.resize(graph.profile_count(), order::kNoLane);
  order::LaneId& lane = of_profile_[profile.value];
  if (lane == order::kNoLane) {
    const graph::Profile& p = graph.profile(profile);
    lane = FindOrAdd({std::max(1u, p.shape.cores), p.shape.devices, p.shape.memory,
                      std::max(1u, p.shape.nodes), p.shape.whole_nodes(), p.time_limit});
  }
  return lane;
}

order::LaneId Lanes::FindOrAdd(order::Lane lane) {
  // A flow may give each task its own time and memory; queues with thousands of lanes would be slow to
  // search.
  if (size() >= kManyLanes) {
    lane.time_limit = Duration(static_cast<int64_t>(RoundUp(static_cast<uint64_t>(lane.time_limit.count()))));
    lane.memory = RoundUp(lane.memory);
  }
  if (const order::LaneId known = table_.Find(lane); known != order::kNoLane) return known;
  timed_ |= lane.time_limit.count() > 0;
  if (size() == order::kNoLane) {
    table_.WidenLast(lane);
    return static_cast<order::LaneId>(size() - 1);
  }
  kinds_.emplace_back();
  return table_.Add(lane);
}

std::string Lanes::FindBroken() const {
  if (kinds_.size() != table_.size()) return StrCat(table_.size(), " lanes, said ", kinds_.size());
  bool timed = false;
  for (size_t lane = 0; lane < size(); ++lane) timed |= table_[lane].time_limit.count() > 0;
  if (timed != timed_) return "whether a lane has a time limit";
  for (const order::LaneId lane : of_profile_) {
    if (lane != order::kNoLane && lane >= size()) return StrCat("a profile's lane ", uint32_t{lane});
  }
  return {};
}

bool Lanes::FindImpossible(const NodeTable& nodes) {
  bool some = false;
  for (size_t lane = 0; lane < size(); ++lane) {
    uint32_t fitting = 0, gone = 0;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[NodeId(n)];
      if (!order::Room::FitsCapacity(table_[lane], node.total())) continue;
      fitting += node.expected() ? 1 : 0;
      gone += !node.expected() && !node.joined() ? 1 : 0;
    }
    kinds_[lane].impossible = fitting < table_[lane].nodes;
    kinds_[lane].gone = fitting + gone >= table_[lane].nodes;
    some |= kinds_[lane].impossible;
  }
  return some;
}

}  // namespace harrow::core
