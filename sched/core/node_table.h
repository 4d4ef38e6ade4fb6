#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/resources.h"
#include "order/lane.h"
#include "place/victims.h"

namespace harrow::core {

/// What the scheduler knows of one node; only NodeTable changes it.
class Node {
 public:
  enum class Access : uint8_t { kGone, kOpen, kClosed, kSilent };
  Access access() const { return access_; }
  bool open() const { return access_ == Access::kOpen; }
  bool joined() const { return access_ != Access::kGone; }
  /// Is open, or may come back.
  bool expected() const { return expected_; }
  const NodeCapacity& total() const { return total_; }
  /// More than the total may be in use: an agent says what it runs.
  const NodeCapacity& used() const { return used_; }
  uint32_t used_slots() const { return used_.slots; }
  uint32_t free_slots() const { return total_.slots > used_.slots ? total_.slots - used_.slots : 0; }
  /// Tasks that use something here, gangs included.
  uint32_t occupants() const { return occupants_; }
  bool unused() const { return occupants_ == 0 && used_ == NodeCapacity(); }
  /// Tasks that are here by themselves or as lead node, whether begun or not.
  std::span<const TaskId> in_flight() const { return in_flight_; }
  /// So many tasks have failed there in a row, each at once.
  uint32_t failures() const { return failures_; }
  /// Of these, tasks for whose failures no other node has been blamed.
  uint32_t fresh_failures() const { return fresh_failures_; }
  /// They are why it was put aside: what fails there is not to blame.
  bool blamed() const { return blamed_; }
  /// What nobody uses.
  order::Room::Free left() const;

 private:
  friend class NodeTable;
  Access access_ = Access::kGone;
  bool expected_ = false;
  bool touched_ = false;
  bool blamed_ = false;
  NodeCapacity total_, used_;
  uint32_t occupants_ = 0;
  std::vector<TaskId> in_flight_;
  // Failures that followed one another at once, and how many tasks were done when that row began.
  uint32_t failures_ = 0, fresh_failures_ = 0;
  uint64_t done_before_ = 0;
};

/// All nodes: who is there, what they have, what is on them, and which of them have free slots.
class NodeTable {
 public:
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  bool Has(NodeId id) const { return id.value < nodes_.size(); }
  bool Joined(NodeId id) const { return Has(id) && nodes_[id.value].joined(); }
  bool Open(NodeId id) const { return Has(id) && nodes_[id.value].open(); }
  const Node& operator[](NodeId id) const { return nodes_[id.value]; }

  void Grow(NodeId last) {
    if (!Has(last)) nodes_.resize(last.value + 1);
  }
  /// Opens a node that is new, comes back, or says anew what it has.
  void Join(NodeId id, const NodeCapacity& total);
  void SetAccess(NodeId id, Node::Access access);
  /// Those that are not here do not come back.
  void ExpectNoMore();
  uint32_t open_nodes() const { return open_nodes_; }
  uint64_t open_slots() const { return open_slots_; }

  void Enter(NodeId id, TaskId task) { nodes_[id.value].in_flight_.push_back(task); }
  void Leave(NodeId id, TaskId task);
  void Occupy(NodeId id, const order::Lane& lane);
  void Release(NodeId id, const order::Lane& lane);
  /// What a task of the lane has of a node with that total.
  static NodeCapacity PartOf(const order::Lane& lane, const NodeCapacity& total);

  /// A task was done there, or worked for some time before it failed: failures there do not go on in a row.
  void EndRow(NodeId id) { nodes_[id.value].failures_ = nodes_[id.value].fresh_failures_ = 0; }
  /// One failed at once, while `done` tasks of all nodes are done. Returns whether one was done elsewhere
  /// since the first failure of the row. `fresh`: no other node has been blamed for the task's.
  bool CountFailure(NodeId id, uint64_t done, bool fresh = true);
  /// Until it joins anew.
  void Blame(NodeId id) { nodes_[id.value].blamed_ = true; }

  /// Something happened there: it is to be looked at once before this instant ends.
  void Touch(NodeId id) {
    if (!std::exchange(nodes_[id.value].touched_, true)) touched_.push_back(id);
  }
  /// May grow while it is gone through.
  const std::vector<NodeId>& touched() const { return touched_; }
  void ForgetTouched();

  /// Nodes by their slots that are free for all, as told last.
  const place::FreeNodes& free() const { return free_; }
  uint64_t free_slots() const { return free_slots_; }
  void UpdateFree(NodeId id, uint32_t free_for_all);
  /// Changes when some node has more room than before.
  uint64_t room_version() const { return room_version_; }
  void NoteRoom() { ++room_version_; }

  /// Brings what the end of a task there will read into the cache: the node, then its tasks.
  void Prefetch(NodeId id, int step) const;
  size_t memory() const;
  /// What is broken, or nothing.
  std::string FindBroken() const;

 private:
  void CountOpen(const Node& node, bool open);

  std::vector<Node> nodes_;
  std::vector<NodeId> touched_;
  place::FreeNodes free_;
  uint64_t free_slots_ = 0;
  uint64_t room_version_ = 1;
  uint32_t open_nodes_ = 0;
  uint64_t open_slots_ = 0;
};

}  // namespace harrow::core
