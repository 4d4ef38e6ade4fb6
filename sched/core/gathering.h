#pragma once

#include <vector>

#include "core/streaming.h"

namespace harrow::core {

/// When tasks of several nodes are sent, and to which nodes; what nodes keep for them, and who may use it
/// meanwhile.
class Gathering : protected Streaming {
 protected:
  using Streaming::Streaming;

  /// Nodes or time may have become too few for those that are next or gathered.
  void CheckGathering();
  /// When nodes are expected to have free what they keep: those to which something happened, and others from
  /// time to time.
  void ExpectParts();
  /// Those that can begin. Returns whether nodes have to be asked again, as they keep less, or other things.
  bool SendGangs();
  /// Before others are given anything: those that come to where gangs have ended in this instant.
  void SendSuccessors();
  /// A task that ends before what the node keeps is needed.
  order::Pick TakeForGap(NodeId id, TakenFrom* from);

 private:
  bool SendGathered();
  bool SendNext();
  bool OthersFirst(TaskId id, const std::vector<NodeId>& members) const;
  bool MayGather() const;
  bool KeepRoom(size_t which);
  void FindFirst();
  TaskId TakeNext();
  void LeaveOut(order::LaneId lane);
  void LetIn();

  order::Room::Free LeftFor(NodeId id, const Gangs::Gathered* own, Time until) const;
  std::vector<NodeId> NodesWithRoom(TaskId id) const;
  /// Empty: too few nodes have room for it now.
  std::vector<NodeId> ChooseMembers(TaskId id);
  /// Empty: too few nodes could keep room for it.
  std::vector<NodeId> ChooseToKeep(TaskId id);
  void ByInput(TaskId id, const std::vector<NodeId>& nodes);
  bool HasInput(NodeId id) const;

  void ExpectAll(size_t which);
  Time ExpectedEnd(TaskId id) const;
  /// Duration::max(): nobody knows.
  Duration Longest(TaskId id) const;
  Time FreeAt(NodeId id, const NodeCapacity& wanted) const;

  std::vector<order::LaneId> left_out_;  // lanes, while the next gang is sought
  std::vector<NodeId> with_input_;       // of the gang that nodes are chosen for, ascending
  uint32_t first_looked_at_ = 0;         // node, when some were last chosen among many
};

}  // namespace harrow::core
