#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/node_table.h"

namespace harrow::core {

/// Tasks of several whole nodes: the one that is gathered next, the nodes that are kept for it, and the nodes
/// of those that are in flight.
class Gangs {
 public:
  void Grow(size_t nodes) { keeps_.resize(nodes); }
  /// Something came about that may let one begin: a node is idle, or a gang ready.
  void Look() { look_ = true; }
  void Looked() { look_ = false; }
  bool to_look() const { return look_; }

  /// Still stands in its queue; none: no gang is gathered.
  TaskId gathering() const { return gathering_; }
  void Gather(TaskId id) {
    gathering_ = id;
    overtaken_ = 0;
  }
  /// So many cores were given to another task meanwhile, of `patience` that may be before nodes are kept for
  /// it.
  void CountOvertaken(uint32_t cores, uint64_t patience);
  bool impatient(uint64_t patience) const { return overtaken_ >= patience; }

  /// Nodes kept for the one that is gathered.
  const std::vector<NodeId>& kept() const { return kept_; }
  bool Keeps(NodeId id) const { return keeps_[id.value]; }
  void Keep(std::vector<NodeId> nodes);
  /// None is gathered any more. Returns the nodes that were kept.
  std::vector<NodeId> Forget();

  // --- in flight
  /// `members`: the lead node first.
  void Add(TaskId id, std::vector<NodeId> members) { sent_.try_emplace(id, Sent{std::move(members)}); }
  std::vector<NodeId> Remove(TaskId id);
  /// Those with that node among their members, but led from another, do without it from now on: they are
  /// broken. Returns them.
  std::vector<TaskId> LoseFollower(NodeId id);
  /// Whether the gang has lost a node and goes on at the others until it ends.
  bool broken(TaskId id) const;
  template <class Each>
  void ForEachMember(const Each& each) const {
    for (const auto& [task, sent] : sent_) {
      for (NodeId member : sent.members) each(task, member);
    }
  }

  /// What is broken, or nothing.
  std::string FindBroken() const;

 private:
  TaskId gathering_;
  bool look_ = false;
  uint64_t overtaken_ = 0;
  std::vector<NodeId> kept_;
  // By node, whether it is in kept_.
  std::vector<bool> keeps_;
  struct Sent {
    std::vector<NodeId> members;
    bool broken = false;
  };
  std::unordered_map<TaskId, Sent> sent_;
};

}  // namespace harrow::core
