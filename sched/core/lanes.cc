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

order::Lane Lanes::LaneOf(const graph::Profile& profile, uint32_t nodes) {
  const Shape part = profile.Part(std::max(1u, nodes), 0);
  return {std::max(1u, part.cores), part.devices,      part.memory, part.nodes,
          part.whole_node,          profile.time_limit,     profile.least_time()};
}

order::LaneId Lanes::Of(const graph::Graph& graph, TaskId task) {
  const ProfileId profile = graph.profile_id(task);
  if (profile.value >= of_profile_.size()) of_profile_.resize(graph.profile_count(), order::kNoLane);
  order::LaneId& lane = of_profile_[profile.value];
  if (lane == order::kNoLane) {
    const graph::Profile& p = graph.profile(profile);
    if (p.checkpoint.on()) most_checkpoint_time_ = std::max(most_checkpoint_time_, p.checkpoint.time);
    lane = FindOrAdd(LaneOf(p, p.shape.nodes));
  }
  return lane;
}

order::LaneId Lanes::OfSpread(const graph::Graph& graph, TaskId task, uint32_t nodes) {
  return FindOrAdd(LaneOf(graph.profile(task), nodes));
}

order::LaneId Lanes::FindOrAdd(order::Lane lane) {
  // A flow may give each task its own time and memory; queues with thousands of lanes would be slow to
  // search.
  if (size() >= kManyLanes) {
    lane.time_limit = Duration(static_cast<int64_t>(RoundUp(static_cast<uint64_t>(lane.time_limit.count()))));
    lane.least_time = Duration(static_cast<int64_t>(RoundUp(static_cast<uint64_t>(lane.least_time.count()))));
    lane.memory = RoundUp(lane.memory);
  }
  if (const order::LaneId known = table_.Find(lane); known != order::kNoLane) return known;
  timed_ |= lane.least_time.count() > 0;
  gangs_ |= lane.nodes > 1;
  if (size() == order::kNoLane) {
    table_.WidenLast(lane);
    return static_cast<order::LaneId>(size() - 1);
  }
  kinds_.emplace_back();
  return table_.Add(lane);
}

std::string Lanes::FindBroken() const {
  if (kinds_.size() != table_.size()) return StrCat(table_.size(), " lanes, said ", kinds_.size());
  bool timed = false, gangs = false;
  for (size_t lane = 0; lane < size(); ++lane) {
    timed |= table_[lane].least_time.count() > 0;
    gangs |= table_[lane].nodes > 1;
  }
  if (timed != timed_) return "whether a lane has a time limit";
  if (gangs != gangs_) return "whether a lane has several nodes";
  for (const order::LaneId lane : of_profile_) {
    if (lane != order::kNoLane && lane >= size()) return StrCat("a profile's lane ", uint32_t{lane});
  }
  return {};
}

Lanes::Able Lanes::CountAble(const order::Lane& lane, const NodeTable& nodes) const {
  Able able;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[NodeId(n)];
    if (!order::Room::FitsCapacity(lane, node.total())) continue;
    able.expected += node.expected() ? 1 : 0;
    able.gone += !node.expected() && !node.joined() ? 1 : 0;
  }
  return able;
}

void Lanes::Look(order::LaneId lane, const NodeTable& nodes) {
  const Able able = CountAble(table_[lane], nodes);
  kinds_[lane].impossible = able.expected < table_[lane].nodes;
  kinds_[lane].gone = able.expected + able.gone >= table_[lane].nodes;
}

bool Lanes::FindImpossible(const NodeTable& nodes) {
  bool some = false;
  for (size_t lane = 0; lane < size(); ++lane) {
    Look(static_cast<order::LaneId>(lane), nodes);
    some |= kinds_[lane].impossible;
  }
  return some;
}

void Lanes::Spread(const graph::Graph& graph, const NodeTable& nodes) {
  for (size_t n = 0; n < of_profile_.size(); ++n) {
    const graph::Profile& profile = graph.profile(ProfileId(static_cast<uint32_t>(n)));
    if (of_profile_[n] == order::kNoLane || !impossible(of_profile_[n]) || !MaySpread(profile)) continue;
    const uint32_t most = std::min(profile.ranks, nodes.size());
    bool found = false;
    // Nodes that were lost may be there for another run; for this one no others are expected.
    for (const bool with_gone : {false, true}) {
      for (uint32_t count = 1; count <= most && !found; ++count) {
        const order::Lane lane = LaneOf(profile, count);
        const Able able = CountAble(lane, nodes);
        found = able.expected + (with_gone ? able.gone : 0) >= count;
        if (!found) continue;
        const bool barred_before = barred(of_profile_[n]);
        of_profile_[n] = FindOrAdd(lane);
        Look(of_profile_[n], nodes);
        if (barred_before) SetBarred(of_profile_[n], true);
      }
    }
  }
}

}  // namespace harrow::core
