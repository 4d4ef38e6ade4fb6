#include "core/node_table.h"

#include <algorithm>

#include "base/prefetch.h"
#include "base/text.h"

namespace harrow::core {
namespace {

uint32_t SlotsOf(const order::Lane& lane, const NodeCapacity& total) {
  return lane.whole_node ? std::max(lane.cores, total.slots) : lane.cores;
}

}  // namespace

order::Room::Free Node::left() const {
  order::Room::Free left;
  left.slots = free_slots();
  left.devices = total_.devices > used_.devices ? total_.devices - used_.devices : 0;
  left.memory = total_.memory > used_.memory ? total_.memory - used_.memory : 0;
  left.idle = occupants_ == 0;
  return left;
}

NodeCapacity NodeTable::PartOf(const order::Lane& lane, const NodeCapacity& total) {
  return {SlotsOf(lane, total), lane.devices, lane.memory};
}

void NodeTable::CountOpen(const Node& node, bool open) {
  if (!node.open()) return;
  open_nodes_ = open ? open_nodes_ + 1 : open_nodes_ - 1;
  open_slots_ = open ? open_slots_ + node.total_.slots : open_slots_ - node.total_.slots;
}

void NodeTable::Join(NodeId id, const NodeCapacity& total) {
  Node& node = nodes_[id.value];
  CountOpen(node, false);
  node.access_ = Node::Access::kOpen;
  node.expected_ = true;
  node.total_ = total;
  node.failures_ = node.fresh_failures_ = 0;
  node.blamed_ = false;
  CountOpen(node, true);
}

void NodeTable::SetAccess(NodeId id, Node::Access access) {
  Node& node = nodes_[id.value];
  CountOpen(node, false);
  node.access_ = access;
  if (access == Node::Access::kClosed) node.expected_ = false;
  CountOpen(node, true);
}

void NodeTable::ExpectNoMore() {
  for (Node& node : nodes_) node.expected_ = node.expected_ && node.joined();
}

void NodeTable::Leave(NodeId id, TaskId task) {
  std::vector<TaskId>& in_flight = nodes_[id.value].in_flight_;
  *std::find(in_flight.begin(), in_flight.end(), task) = in_flight.back();
  in_flight.pop_back();
}

void NodeTable::Occupy(NodeId id, const order::Lane& lane) {
  Node& node = nodes_[id.value];
  node.used_ += PartOf(lane, node.total_);
  ++node.occupants_;
}

void NodeTable::Release(NodeId id, const order::Lane& lane) {
  Node& node = nodes_[id.value];
  node.used_ -= PartOf(lane, node.total_);
  --node.occupants_;
}

bool NodeTable::CountFailure(NodeId id, uint64_t done, bool fresh) {
  Node& node = nodes_[id.value];
  node.fresh_failures_ += fresh ? 1 : 0;
  if (node.failures_++ == 0) node.done_before_ = done;
  return done != node.done_before_;
}

void NodeTable::ForgetTouched() {
  for (NodeId id : touched_) nodes_[id.value].touched_ = false;
  touched_.clear();
}

void NodeTable::UpdateFree(NodeId id, uint32_t free_for_all) {
  const uint32_t before = free_.free_slots(id);
  if (free_for_all == before) return;
  if (free_for_all > before) ++room_version_;
  free_slots_ += free_for_all;
  free_slots_ -= before;
  free_.Set(id, free_for_all);
}

void NodeTable::Prefetch(NodeId id, int step) const {
  constexpr size_t kTasks = 64;
  if (!Has(id)) return;
  const Node& node = nodes_[id.value];
  if (step == 0) {
    PrefetchAll(&node, sizeof(Node));
  } else {
    PrefetchAll(node.in_flight_.data(), std::min(kTasks, node.in_flight_.size()) * sizeof(TaskId));
  }
}

size_t NodeTable::memory() const {
  size_t bytes = nodes_.capacity() * sizeof(Node) + free_.memory();
  for (const Node& node : nodes_) bytes += node.in_flight_.capacity() * sizeof(TaskId);
  return bytes;
}

std::string NodeTable::FindBroken() const {
  uint64_t free_slots = 0, open_slots = 0;
  uint32_t open_nodes = 0;
  for (uint32_t n = 0; n < size(); ++n) {
    const Node& node = nodes_[n];
    const uint32_t free_here = free_.free_slots(NodeId(n));
    free_slots += free_here;
    open_nodes += node.open() ? 1 : 0;
    open_slots += node.open() ? node.total_.slots : 0;
    if (free_here != 0 && (!node.open() || free_here > node.free_slots()))
      return StrCat("node ", n, ": free slots in the index");
    if (node.touched_) return StrCat("node ", n, ": touched between events");
  }
  if (free_slots != free_slots_ || open_nodes != open_nodes_ || open_slots != open_slots_)
    return "sums of slots";
  return {};
}

}  // namespace harrow::core
