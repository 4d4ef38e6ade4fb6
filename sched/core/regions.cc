// Where inputs lie on no node a task may run anywhere, but what it makes stays there: if tasks that read the
// outputs of two are to run at one node, both had better run there, too. So tasks that may run anywhere are put into
// an order in which those stand near each other that are read together (place/nearby.h), and each node goes
// through a stretch of it. A node without one gets the second part of the longest, by the slots of both, so that no
// slot waits and faster nodes take more. Levels, priorities and bounds are kept. Beyond the Pwrake paper, and with auto alone.
#include "core/regions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "place/nearby.h"

namespace harrow::core {
namespace {

constexpr uint32_t kFewest = 4;     // tasks: an order of less says nothing
// Are put into an order at once, of each kind; less than twice as many of all. The next ones when these are taken.
constexpr uint32_t kMost = 16'384;

}  // namespace

bool Regions::Stands(TaskId id, const Kind& kind) const {
  const Task& task = tasks_[id];
  return task.state() == TaskState::kReady && tasks_.candidates(task).empty() && KindOf(id) == kind;
}

Regions::Kind Regions::KindOf(TaskId id) const {
  return {tasks_[id].level(), tasks_.cards().urgency(id), tasks_[id].lane()};
}

void Regions::Arrange(TaskId taken_out) {
  std::vector<TaskId> all = queues_.remote().Tasks(tasks_.cards());
  all.push_back(taken_out);
  std::map<Kind, std::vector<TaskId>> kinds;
  for (const TaskId id : all) kinds[KindOf(id)].push_back(id);
  arranged_.resize(tasks_.size());
  std::erase_if(regions_, [&](const auto& each) { return !kinds.contains(each.first); });
  const auto first = kinds.find(KindOf(taken_out));
  size_t ordered = ArrangeKind(first->first, std::move(first->second));
  kinds.erase(first);
  // Those of high levels, and urgent ones, have their turn next.
  for (auto each = kinds.rbegin(); each != kinds.rend() && ordered < kMost; ++each)
    ordered += ArrangeKind(each->first, std::move(each->second));
  // A task is put into some eight orders, and listed some sixty-four times, were there new ones all the time.
  rest_ = std::max(ordered / 8, all.size() / 64);
}

size_t Regions::ArrangeKind(const Kind& kind, std::vector<TaskId> standing) {
  std::sort(standing.begin(), standing.end());
  if (standing.size() > kMost) standing.resize(kMost);
  for (const TaskId id : standing) arranged_[id.value] = true;
  if (standing.size() < kFewest) return 0;
  const auto unit =
      static_cast<uint32_t>(std::max<uint64_t>(1, nodes_.open_slots() / std::max(1u, nodes_.open_nodes())));
  std::optional<std::vector<TaskId>> order = place::NearbyOrder(graph_, standing, unit);
  if (!order) {
    regions_.erase(kind);
    return standing.size();
  }
  Region& region = regions_[kind];
  const Region before = std::exchange(region, Region());
  region.unit = unit;
  region.order = std::move(*order);
  // Where they are they go on.
  std::vector<std::pair<TaskId, NodeId>> at;
  for (const Stretch& stretch : before.stretches) {
    uint32_t i = stretch.begin;
    while (i < stretch.end && !Stands(before.order[i], kind)) ++i;
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
  return size;
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

void Regions::Trim(const Kind& kind, Region* region, Stretch* stretch) {
  while (stretch->size() > 0 && !Stands(region->order[stretch->begin], kind)) {
    ++stretch->begin;
    --region->left;
  }
}

/// None: nothing is left.
Regions::Stretch* Regions::Longest(const Kind& kind, Region* region) {
  auto& by_size = region->by_size;
  while (!by_size.empty()) {
    const auto [size, number] = by_size.front();
    Stretch& stretch = region->stretches[number];
    Trim(kind, region, &stretch);
    if (size > 0 && size == stretch.size()) return &stretch;
    std::pop_heap(by_size.begin(), by_size.end());
    by_size.pop_back();
    if (stretch.size() > 0) region->NoteSize(number);
  }
  return nullptr;
}

/// With something in it. None: nothing is left.
Regions::Stretch* Regions::StretchOf(const Kind& kind, Region* region, NodeId node) {
  if (node.value < region->of_node.size() && region->of_node[node.value] != UINT32_MAX) {
    Stretch& own = region->stretches[region->of_node[node.value]];
    Trim(kind, region, &own);
    if (own.node == node && own.size() > 0) return &own;
  }
  while (Stretch* const longest = Longest(kind, region)) {
    const uint32_t part = longest->node ? PartFor(*region, node, *longest) : longest->size();
    if (part == longest->size()) {
      region->GiveTo(node, static_cast<uint32_t>(longest - region->stretches.data()));
      return longest;
    }
    const uint32_t end = longest->end;
    uint32_t begin = (end - part + region->unit - 1) / region->unit * region->unit;
    if (begin >= end) begin = end - part;
    longest->end = begin;
    region->left -= end - begin;
    region->Add({.begin = begin, .end = end, .node = node});
    Stretch* const own = &region->stretches.back();
    Trim(kind, region, own);
    if (own->size() > 0) return own;
  }
  return nullptr;
}

/// Of a stretch that another node has.
uint32_t Regions::PartFor(const Region& region, NodeId node, const Stretch& others) const {
  const Node& own = nodes_[node];
  const uint64_t slots = std::max<uint64_t>(1, nodes_.open_slots());
  const uint64_t running = slots - std::min(slots, nodes_.free_slots());
  const uint64_t fair = (region.left + running) * own.total().slots / slots;
  const uint64_t runs = own.total().slots - own.free_slots();
  const uint64_t both = own.total().slots + nodes_[others.node].total().slots;
  const uint64_t by_slots = (uint64_t{others.size()} * own.total().slots + both - 1) / std::max<uint64_t>(1, both);
  // What it can begin now it had better have side by side.
  return static_cast<uint32_t>(std::max<uint64_t>({1, std::min(others.size(), own.free_slots()),
                                                   std::min(by_slots, fair - std::min(fair, runs))}));
}

TaskId Regions::Prefer(TaskId first, NodeId node) {
  const uint64_t live = queues_.remote().live();
  rest_ = std::min(rest_, live);  // others may be gone
  if (!Arranged(first) && rest_ == 0 && live >= kFewest) Arrange(first);
  if (regions_.empty()) return first;
  const Kind kind = KindOf(first);
  const auto region = regions_.find(kind);
  if (region == regions_.end()) return first;
  const Stretch* const stretch = StretchOf(kind, &region->second, node);
  if (stretch != nullptr) return region->second.order[stretch->begin];
  regions_.erase(region);
  return first;
}

size_t Regions::memory() const {
  constexpr size_t kMapNode = sizeof(void*) * 4;
  size_t bytes = arranged_.capacity() / 8;
  for (const auto& [_, region] : regions_)
    bytes += kMapNode + sizeof(Kind) + sizeof(Region) + region.order.capacity() * sizeof(TaskId) +
             region.stretches.capacity() * sizeof(Stretch) + region.of_node.capacity() * sizeof(uint32_t) +
             region.by_size.capacity() * sizeof(region.by_size[0]);
  return bytes;
}

}  // namespace harrow::core
