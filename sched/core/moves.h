#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/supply.h"

namespace harrow::core {

/// How tasks come into queues, to nodes and back, in all parts that this concerns.
class Moves : protected Supply {
 protected:
  using Supply::Supply;

  // --- into queues
  /// The task waits for nothing more; `released_at`: where the last that it waited for ended, if anywhere.
  void NoteReady(TaskId id, NodeId released_at) {
    newly_ready_.push_back(uint64_t{id.value} << 32 | released_at.value);
  }
  /// The task comes back: it is to be put to its old place.
  void NoteReturned(TaskId id) { returned_.push_back(id); }
  /// Puts all tasks so noted into their queues; not those that read a file which is lost.
  void EnqueueReady();
  /// All that waits is placed by what it costs, and what stands elsewhere in a queue moves.
  void PlaceAgain();
  /// All that waits is ordered by what is left to do after it, as far as it is known now.
  void OrderAgain();
  /// Takes a task out of all queues, or ends its delay, if it has one: it waits then.
  void Unqueue(TaskId id);
  /// Takes over the levels that the graph has raised; queued tasks move to their new level, at their place.
  void TakeOverLevels();

  // --- to nodes and back
  /// Sends a ready task.
  void Send(TaskId id, NodeId node, TakenFrom from, bool ahead);
  /// Enters a task that is at a node now.
  void Place(TaskId id, NodeId node, TakenFrom from, bool ahead);
  /// A task sent ahead has a slot now.
  void GiveSlot(TaskId id);
  /// An in-flight task is on its node no longer.
  void Vacate(TaskId id);
  /// Asks for a task back that is not known to have begun.
  void Recall(TaskId id);
  void RecallAhead(NodeId id);
  /// The same of one that has a slot: what it reads will not come to it.
  void RecallSent(TaskId id);
  void RecallOvertaken(NodeId id);
  CancelTask CancelOf(TaskId id) const {
    return {tasks.latest(id), tasks[id].node(), !tasks[id].cancelled()};
  }
  /// Gangs that are led from another node lose this one. They are ended, and stay where they are till then:
  /// no attempt begins beside one that goes on.
  void BreakGangsFollowingAt(NodeId id);

  /// A gang that was out already is taken in where it runs: those of its members that are here, the lead node
  /// first. `broken`: it has lost others.
  void PlaceGang(TaskId id, std::vector<NodeId> members, bool broken);

  // --- nodes that are kept
  void Keep(NodeId id, order::LaneId lane);
  void DropHold(NodeId id);
  /// Each node keeps room for its part of a gang that is gathered; ascending.
  void KeepForGang(size_t which, std::vector<NodeId> chosen);
  /// `members`: the lead node first.
  void SendGang(TaskId id, std::vector<NodeId> members);
  /// The gang is next no more, nor gathered; it goes back to its place in its queue.
  void GiveUpGang(TaskId id);
  /// What nodes keep for gangs of which one is this node they keep no more: others are to be chosen.
  void UnkeepAt(NodeId id);
  /// Cores that may be given to others before room is kept for the gang that is next.
  uint64_t GangPatience() const;

  // --- nodes
  void UpdateFree(NodeId id) { nodes.UpdateFree(id, FreeForAll(id)); }
  void SetAccess(NodeId id, Node::Access access);
  /// A node is open no longer: its queued tasks go to their other candidates or the remote queue, and nothing
  /// is kept for anybody there.
  void Shut(NodeId id, Node::Access access);

  /// Counts the input bytes of all that was sent in this instant.
  void CountBytes();
  /// What it makes finds no room there: it is placed on nodes where that was not so. False: there is none.
  bool PlaceElsewhere(TaskId id, NodeId full);
  /// Nodes that ask before others, one slot each.
  std::vector<NodeId> first_to_ask;

 private:
  void FindCandidates(TaskId id);
  /// Of one that has its node by what it costs.
  order::Urgency UrgencyWherePlaced(TaskId id) { return paths.on() ? paths.UrgencyOf(id) : placing.UrgencyOf(id); }
  bool FindPlaced(TaskId id);
  std::vector<NodeId> NodesWithRoom(TaskId id) const;
  void Enqueue(TaskId id, NodeId released_at, bool keep_place);
  /// Its entries in queues where it stood before may lie there still, and count again when it has its old
  /// ticket: only where it stands again may there be one.
  bool MayKeepPlace(TaskId id) const;
  /// What its writers have written can be had; what cannot is noted as lost.
  bool MayReadStreams(TaskId id);
  void NoteWhereItStands(TaskId id);
  void LeaveQueues(TaskId id, bool ahead);
  void LeaveAhead(TaskId id);
  void Occupy(NodeId id, order::LaneId lane);
  void Release(NodeId id, order::LaneId lane);
  bool WouldRelease(TaskId id, NodeId node) const;
  void RecallForOrder(TaskId newcomer, NodeId at);
  void OccupyMembers(TaskId id, const std::vector<NodeId>& members);
  void ForgetGathering(TaskId id);
  void Freed(const std::vector<NodeId>& kept);

  // Each is a task << 32 | the node where its last predecessor ended.
  std::vector<uint64_t> newly_ready_;
  std::vector<TaskId> returned_;
  // Where tasks stood of which it is known: the candidates they had.
  std::unordered_map<TaskId, std::vector<NodeId>> stood_at_;
  // Where the outputs of tasks found no room.
  std::unordered_map<TaskId, std::vector<NodeId>> full_for_;
  // Places of the StartTask actions whose bytes are to be counted.
  std::vector<size_t> sent_;
  // The graph's seal count when its levels were last taken over.
  uint64_t seal_seen_ = 0;
};

}  // namespace harrow::core
