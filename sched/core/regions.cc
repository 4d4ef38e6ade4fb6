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
    const Region before = std::exchange(region, Region());
    region.order = std::move(order);
    region.unit = unit;
    // Where they are they go on.
    std::vector<std::pair<TaskId, NodeId>> at;
    for (const Stretch& stretch : before.stretches) {
      uint32_t i = stretch.begin;
      while (i < stretch.end && !Stands(before.order[i])) ++i;
      if (stretch.node && i < stretch.end) at.emplace_back(before.order[i], stretch.node);
    }
    std::sort(at.begin(), at.end());
    const auto size = static_cast<uint32_t>(region.order.size());
    Stretch next;
    for (uint32_t i = 0; i < size; ++i) {
      const auto found = std::lower_bound(at.begin(), at.end(), std::pair(region.order[i], NodeId(0)));
      if (found == at.end() || found->first != region.order[i]) continue;
      next.end = i;
      if (next.size() > 0) region.Add(next);
      next = {.begin = i, .end = size, .node = found->second};
    }
    next.end = size;
    region.Add(next);
  }
  std::erase_if(regions_, [&](const auto& each) { return !kinds.contains(each.first); });
  taken_ = 0;
}

void Regions::Region::Add(const Stretch& stretch) {
  stretches.push_back(stretch);
  left += stretch.size();
  const auto number = static_cast<uint32_t>(stretches.size() - 1);
  NoteSize(number);
  if (stretch.node) GiveTo(stretch.node, number);
}

void Regions::Region::NoteSize(uint32_t stretch) {
  by_size.emplace_back(stretches[stretch].size(), stretch);
  std::push_heap(by_size.begin(), by_size.end());
}

void Regions::Region::GiveTo(NodeId node, uint32_t stretch) {
  stretches[stretch].node = node;
  if (node.value >= of_node.size()) of_node.resize(node.value + 1, UINT32_MAX);
  of_node[node.value] = stretch;
}

std::optional<uint32_t> Regions::Region::Longest() {
  while (!by_size.empty()) {
    const auto [size, stretch] = by_size.front();
    if (size > 0 && size == stretches[stretch].size()) return stretch;
    std::pop_heap(by_size.begin(), by_size.end());
    by_size.pop_back();
    if (stretches[stretch].size() > 0) NoteSize(stretch);
  }
  return std::nullopt;
}

Regions::Stretch* Regions::StretchOf(Region* region, NodeId node) {
  if (node.value < region->of_node.size() && region->of_node[node.value] != UINT32_MAX) {
    Stretch& own = region->stretches[region->of_node[node.value]];
    if (own.node == node && own.size() > 0) return &own;
  }
  const std::optional<uint32_t> found = region->Longest();
  if (!found) return nullptr;
  Stretch& longest = region->stretches[*found];
  const uint32_t part = longest.node ? PartFor(*region, node, longest.size()) : longest.size();
  if (part == longest.size()) {
    region->GiveTo(node, *found);
    return &longest;
  }
  const uint32_t end = longest.end;
  uint32_t begin = (end - part + region->unit - 1) / region->unit * region->unit;
  if (begin >= end) begin = end - part;
  longest.end = begin;
  region->left -= end - begin;
  region->Add({.begin = begin, .end = end, .node = node});
  return &region->stretches.back();
}

/// Of a stretch of so many tasks, which another node has.
uint32_t Regions::PartFor(const Region& region, NodeId node, uint32_t size) const {
  const Node& own = nodes_[node];
  const uint64_t slots = std::max<uint64_t>(1, nodes_.open_slots());
  const uint64_t running = slots - std::min(slots, nodes_.free_slots());
  const uint64_t fair = (region.left + running) * own.total().slots / slots;
  const uint64_t runs = own.total().slots - own.free_slots();
  // What it can begin now it had better have side by side.
  return std::max<uint32_t>({1, std::min(size, own.free_slots()),
                             static_cast<uint32_t>(std::min<uint64_t>((size + 1) / 2, fair - std::min(fair, runs)))});
}

TaskId Regions::Take(Region* region, NodeId node) {
  while (Stretch* const stretch = StretchOf(region, node)) {
    while (stretch->size() > 0) {
      --region->left;
      const TaskId next = region->order[stretch->begin++];
      if (Stands(next)) return next;
    }
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
  if (region->left == 0) regions_.erase(kind);
  return preferred && KindOf(preferred) == kind ? preferred : first;
}

size_t Regions::memory() const {
  size_t bytes = arranged_.capacity() / 8;
  for (const auto& [_, region] : regions_)
    bytes += region.order.capacity() * sizeof(TaskId) + region.stretches.capacity() * sizeof(Stretch) +
             region.of_node.capacity() * sizeof(uint32_t) + region.by_size.capacity() * sizeof(region.by_size[0]);
  return bytes;
}

}  // namespace harrow::core
