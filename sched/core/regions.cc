// Where inputs lie on no node a task may run anywhere, but what it makes stays there: if tasks that read the
// outputs of two are to run at one node, both had better run there, too. So tasks that may run anywhere are put into
// an order in which those stand near each other that are read together (place/nearby.h), and each node goes
// through a stretch of it. A node without one gets the second half of the longest, so that no slot waits and faster
// nodes take more. Levels, priorities and bounds are kept. Beyond the Pwrake paper, and with auto alone.
#include "core/regions.h"

#include <algorithm>
#include <utility>

#include "place/nearby.h"

namespace harrow::core {
namespace {

constexpr uint32_t kFewest = 4;      // tasks: an order of less says nothing
constexpr uint32_t kMost = 50'000;   // an order of them is found in half a second; more stay in the flow's order

}  // namespace

bool Regions::Stands(TaskId id) const {
  const Task& task = tasks_[id];
  return task.state() == TaskState::kReady && tasks_.candidates(task).empty();
}

Regions::Kind Regions::KindOf(TaskId id) const {
  return {tasks_[id].level(), tasks_.cards().urgency(id), tasks_[id].lane()};
}

Regions::Region* Regions::RegionOf(TaskId id) {
  if (id.value >= arranged_.size() || !arranged_[id.value]) return nullptr;
  const auto found = regions_.find(KindOf(id));
  return found == regions_.end() ? nullptr : &found->second;
}

void Regions::Arrange() {
  std::map<Kind, std::vector<TaskId>> kinds;
  for (const TaskId id : queues_.remote().Tasks(tasks_.cards())) kinds[KindOf(id)].push_back(id);
  arranged_.resize(tasks_.size());
  const auto unit = static_cast<uint32_t>(std::max<uint64_t>(1, nodes_.open_slots() / std::max(1u, nodes_.open_nodes())));
  for (auto& [kind, standing] : kinds) {
    if (standing.size() < kFewest) continue;
    for (const TaskId id : standing) arranged_[id.value] = true;
    std::sort(standing.begin(), standing.end());
    Region& region = regions_[kind];
    std::vector<TaskId> order = standing.size() > kMost ? std::move(standing) : place::NearbyOrder(graph_, standing, unit);
    Region before = std::exchange(region, {std::move(order), unit, {}});
    // Where they are they go on.
    std::vector<std::pair<TaskId, NodeId>> at;
    for (const Stretch& stretch : before.stretches) {
      uint32_t i = stretch.begin;
      while (i < stretch.end && !Stands(before.order[i])) ++i;
      if (stretch.node && i < stretch.end) at.emplace_back(before.order[i], stretch.node);
    }
    std::sort(at.begin(), at.end());
    const auto size = static_cast<uint32_t>(region.order.size());
    for (uint32_t i = 0; i < size; ++i) {
      const auto found = std::lower_bound(at.begin(), at.end(), std::pair(region.order[i], NodeId(0)));
      const bool goes_on = found != at.end() && found->first == region.order[i];
      if (!goes_on && i > 0) continue;
      if (!region.stretches.empty()) region.stretches.back().end = i;
      region.stretches.push_back({.begin = i, .end = size, .node = goes_on ? found->second : NodeId()});
    }
  }
  std::erase_if(regions_, [&](const auto& each) { return !kinds.contains(each.first); });
  taken_ = 0;
}

Regions::Stretch* Regions::StretchOf(Region* region, NodeId node) {
  std::vector<Stretch>& all = region->stretches;
  const auto own = std::find_if(all.begin(), all.end(), [&](const Stretch& s) { return s.node == node; });
  if (own != all.end()) return &*own;
  const auto longest =
      std::max_element(all.begin(), all.end(), [](const Stretch& a, const Stretch& b) { return a.size() < b.size(); });
  if (longest == all.end()) return nullptr;
  const uint32_t part = longest->node ? PartFor(*region, node, longest->size()) : longest->size();
  if (part == longest->size()) {
    longest->node = node;
    return &*longest;
  }
  const uint32_t end = longest->end;
  uint32_t begin = (end - part + region->unit - 1) / region->unit * region->unit;
  if (begin >= end) begin = end - part;
  longest->end = begin;
  return &*all.insert(longest + 1, {.begin = begin, .end = end, .node = node});
}

/// Of a stretch of so many tasks, which another node has.
uint32_t Regions::PartFor(const Region& region, NodeId node, uint32_t size) const {
  uint64_t left = 0;
  for (const Stretch& stretch : region.stretches) left += stretch.size();
  const Node& own = nodes_[node];
  const uint64_t slots = std::max<uint64_t>(1, nodes_.open_slots());
  const uint64_t running = slots - std::min(slots, nodes_.free_slots());
  const uint64_t fair = (left + running) * own.total().slots / slots;
  const uint64_t runs = own.total().slots - own.free_slots();
  // What it can begin now it had better have side by side.
  return std::max<uint32_t>({1, std::min(size, own.free_slots()),
                             static_cast<uint32_t>(std::min<uint64_t>((size + 1) / 2, fair - std::min(fair, runs)))});
}

TaskId Regions::Take(Region* region, NodeId node) {
  while (Stretch* const stretch = StretchOf(region, node)) {
    TaskId found;
    while (!found && stretch->begin < stretch->end) {
      const TaskId next = region->order[stretch->begin++];
      if (Stands(next)) found = next;
    }
    if (stretch->begin == stretch->end)
      region->stretches.erase(region->stretches.begin() + (stretch - region->stretches.data()));
    if (found) return found;
  }
  return {};
}

TaskId Regions::Prefer(TaskId first, NodeId node) {
  ++taken_;
  Region* region = RegionOf(first);
  // Each task is looked at some eight times, were there new ones all the time.
  if (region == nullptr && (arranged_.size() <= first.value || !arranged_[first.value]) &&
      queues_.remote().live() >= kFewest &&
      (regions_.empty() || taken_ >= queues_.remote().live() / 8)) {
    Arrange();
    region = RegionOf(first);
  }
  if (region == nullptr) return first;
  const Kind kind = KindOf(first);
  const TaskId preferred = Take(region, node);
  if (region->stretches.empty()) regions_.erase(kind);
  return preferred && KindOf(preferred) == kind ? preferred : first;
}

size_t Regions::memory() const {
  size_t bytes = arranged_.capacity() / 8;
  for (const auto& [_, region] : regions_)
    bytes += region.order.capacity() * sizeof(TaskId) + region.stretches.capacity() * sizeof(Stretch);
  return bytes;
}

}  // namespace harrow::core
