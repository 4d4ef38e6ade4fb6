#pragma once

#include <vector>

#include "core/gathering.h"

namespace harrow::core {

/// Who gets what, once for all events of an instant.
class Dispatch : protected Gathering {
 protected:
  using Gathering::Gathering;
  void GiveWork();
  void SendMoved();

 private:
  bool GiveOne(NodeId id);
  /// `*first`: it was taken out of its place; else it stands there still, as it is not the first.
  order::Pick TakeFromRemote(NodeId id, const order::Room& room, bool* first);
  void GiveAll(NodeId id);
  /// One task a node, again and again, until none can take more.
  void TakeTurns(const std::vector<NodeId>& ids);
  void NoteOvertaken(NodeId id, order::LaneId overtaken, TaskId given);
  void ServeIdle();
  void TrimHolds();

  void SendAhead(NodeId id);
  bool MaySendAhead(TaskId id, NodeId node, TakenFrom from) const;
  void FeedHungry();
  void RecallForIdle();

  void LetGangsGo();

  // Some node could take a task, had as many as may not been at nodes.
  bool refused_ = false;
  uint32_t last_given_ = 0;  // the node that took the last turn
};

}  // namespace harrow::core
