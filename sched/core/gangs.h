#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/resources.h"
#include "base/time.h"
#include "core/node_table.h"

namespace harrow::core {

/// Tasks of several nodes: the one that is next, those that nodes keep room for, and the nodes of those that
/// are in flight.
class Gangs {
 public:
  void Grow(size_t nodes) {
    kept_.resize(nodes);
    followers_.resize(nodes);
  }
  /// Something came about that may let one begin: a node has more room, or a gang is ready.
  void Look() { look_ = true; }
  void Looked() { look_ = false; }
  bool to_look() const { return look_; }
  /// One is next, or nodes keep room for one.
  bool waiting() const { return first_ || !gathered_.empty(); }

  // --- the one that is next, and has no room kept
  TaskId first() const { return first_; }
  void SetFirst(TaskId id) {
    first_ = id;
    overtaken_ = std::min<int64_t>(overtaken_, 0);
  }
  /// So many cores were given to another task meanwhile, of `patience` that may be before room is kept for
  /// it.
  void CountOvertaken(uint64_t cores, uint64_t patience);
  bool impatient(uint64_t patience) const { return overtaken_ >= static_cast<int64_t>(patience); }

  // --- those that come to where others have ended, before tasks of one node
  /// In this instant gangs have let go of so many cores.
  void LetGo(uint64_t cores) { let_go_ += cores; }
  uint64_t TakeLetGo() { return std::exchange(let_go_, 0); }
  /// Cores that gangs were given so, and others have not been given since.
  uint64_t advance() const { return static_cast<uint64_t>(std::max<int64_t>(0, -overtaken_)); }
  /// The next is given so many, and those behind it wait for so much longer.
  void Advance(uint64_t cores) { overtaken_ -= static_cast<int64_t>(cores); }
  void ForgetAdvance() { overtaken_ = std::max<int64_t>(overtaken_, 0); }

  // --- those that room is kept for, in the order in which they came
  struct Gathered {
    TaskId task;
    // That keep room for it, ascending; empty: they are to be chosen, as one of those before went.
    std::vector<NodeId> nodes{};
    // What each of them keeps.
    std::vector<NodeCapacity> parts{};
    // When each is expected to have it free.
    std::vector<Time> free_at{};
    // The last of these: before, the gang does not begin.
    Time begins{};
    // When all that is to be expected anew.
    Time again = Time::max();

    /// Where in `nodes` that one is; nodes.size(): it is not.
    size_t Find(NodeId id) const {
      const auto at = std::lower_bound(nodes.begin(), nodes.end(), id);
      return at != nodes.end() && *at == id ? static_cast<size_t>(at - nodes.begin()) : nodes.size();
    }
    bool Has(NodeId id) const { return Find(id) < nodes.size(); }
  };
  const std::vector<Gathered>& gathered() const { return gathered_; }
  /// Null: it is not gathered.
  const Gathered* Find(TaskId id) const;
  /// The first one is gathered from now on, after all others.
  void GatherFirst() {
    gathered_.push_back({.task = std::exchange(first_, TaskId())});
    overtaken_ = 0;
  }
  void Keep(size_t which, std::vector<NodeId> nodes, std::vector<NodeCapacity> parts);
  /// When a node of it is expected to have the room free.
  void Expect(size_t which, size_t node, Time free_at) { gathered_[which].free_at[node] = free_at; }
  /// All that is expected of it has been said.
  void SumUp(size_t which);
  void SetAgain(size_t which, Time time) { gathered_[which].again = time; }
  /// The first of these times; Time::max(): nothing is expected.
  Time again() const;
  /// Nothing is kept for it any more. Returns the nodes that did.
  std::vector<NodeId> Unkeep(size_t which);
  /// It is neither next nor gathered any more. Returns the nodes that kept room for it.
  std::vector<NodeId> Forget(TaskId id);

  /// Some node keeps room.
  bool keeps() const { return keeping_ > 0; }
  bool Keeps(NodeId id) const { return kept_[id.value].gangs > 0; }
  /// What the node keeps for all of them together.
  const NodeCapacity& kept(NodeId id) const { return kept_[id.value].sum; }
  /// What all nodes keep.
  uint64_t kept_slots() const { return kept_slots_; }
  /// `left` without what the node keeps.
  order::Room::Free Beyond(NodeId id, order::Room::Free left) const;
  static void Deduct(const NodeCapacity& part, order::Room::Free* left);

  // --- in flight
  /// `members`: the lead node first. `broken`: it has lost others.
  void Add(TaskId id, std::vector<NodeId> members, bool broken = false);
  std::vector<NodeId> Remove(TaskId id);
  /// Those with that node among their members, but led from another, do without it from now on: they are
  /// broken. Returns them.
  std::vector<TaskId> LoseFollower(NodeId id);
  /// Whether the gang has lost a node and goes on at the others until it ends.
  bool broken(TaskId id) const;
  /// Gangs with a member there that is not their lead node.
  const std::vector<TaskId>& followers(NodeId id) const { return followers_[id.value]; }
  template <class Each>
  void ForEachMember(const Each& each) const {
    for (const auto& [task, sent] : sent_) {
      for (NodeId member : sent.members) each(task, member);
    }
  }

  /// What is broken, or nothing.
  std::string FindBroken() const;
  size_t memory() const {
    return kept_.capacity() * sizeof(Kept) + followers_.capacity() * sizeof(followers_[0]);
  }

 private:
  struct Kept {
    NodeCapacity sum;
    uint32_t gangs = 0;
  };
  struct Sent {
    std::vector<NodeId> members;
    bool broken = false;
  };

  bool look_ = false;
  TaskId first_;
  // Cores given to others since the first was set apart; below 0: gangs were given more in advance.
  int64_t overtaken_ = 0;
  uint64_t let_go_ = 0;
  std::vector<Gathered> gathered_;
  // By node; in how many of them gangs > 0, and their slots.
  std::vector<Kept> kept_;
  uint32_t keeping_ = 0;
  uint64_t kept_slots_ = 0;
  std::unordered_map<TaskId, Sent> sent_;
  // By node.
  std::vector<std::vector<TaskId>> followers_;
};

}  // namespace harrow::core
