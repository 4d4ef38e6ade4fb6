// Tasks that are to leave their nodes: because the allocation ends, a node is drained, or somebody moves them. What has not begun is asked
// back. What runs and writes checkpoints is asked for one, which ends its attempt; if that was in vain it stays. What has been sent and
// may be beginning is asked back, and asked for a checkpoint when it turns out to have begun.
//
// Before the end of the allocation each is asked so early that it can take twice as long as such tasks have taken. It is not started
// again here, as its lane is barred by then (Lane::least_time).
//
// A task that somebody moves is held when it has come back: delayed, so that no node of this server takes it before it has gone where it
// is to. To another server it is given from outside (TasksTaken). On a node it is started as soon as there is room. When neither comes
// about in time it goes on like any other.
#include <algorithm>

#include "core/dispatch.h"
#include "core/fates.h"

namespace harrow::core {
namespace {

constexpr Duration kHeldForServer = std::chrono::seconds(10);
constexpr Duration kHeldForNode = std::chrono::seconds(60);

}  // namespace

void Fates::AskForCheckpoint(TaskId id) {
  if (!graph.profile(id).checkpoint.on() || tasks[id].cancelled() || !checkpoints.Ask(id)) return;
  actions->push_back(AskCheckpoint{tasks.latest(id), tasks[id].node()});
}

void Fates::SendAway(TaskId id) {
  const TaskState state = tasks[id].state();
  if (graph.profile(id).checkpoint.on()) checkpoints.Want(id);
  if (state == TaskState::kAhead) {
    Recall(id);
  } else if (state == TaskState::kSent && !IsGang(id)) {
    RecallSent(id);
  } else if (state == TaskState::kRunning) {
    AskForCheckpoint(id);
  }
}

void Fates::SendAwayFrom(NodeId node) {
  if (!lanes.checkpointed()) return;
  std::vector<TaskId> here(nodes[node].in_flight().begin(), nodes[node].in_flight().end());
  here.insert(here.end(), gangs.followers(node).begin(), gangs.followers(node).end());
  std::sort(here.begin(), here.end());
  for (const TaskId id : here) {
    if (graph.profile(id).checkpoint.on()) SendAway(id);
  }
}

void Fates::SendAwayBefore(Time end) {
  ask_at_ = Time::max();
  if (end == Time::max() || checkpoints.out().empty()) return;
  if (now < end - lanes.most_checkpoint_time()) {
    ask_at_ = end - lanes.most_checkpoint_time();
    return;
  }
  std::vector<TaskId> due;
  for (const TaskId id : checkpoints.out()) {
    if (checkpoints.wanted(id)) continue;
    const Time when = end - checkpoints.Lead(graph.profile_id(id), graph.profile(id).checkpoint.time);
    if (now >= when) {
      due.push_back(id);
    } else {
      ask_at_ = std::min(ask_at_, when);
    }
  }
  std::sort(due.begin(), due.end());
  for (const TaskId id : due) SendAway(id);
}

void Fates::MoveTask(TaskId id, NodeId to, bool held) {
  const Task& task = tasks[id];
  if (task.settled() || task.state() == TaskState::kElsewhere || task.cancelled()) return;
  if (task.in_flight()) {
    const bool stays = task.state() == TaskState::kRunning && !graph.profile(id).checkpoint.on();
    if (stays || (to && task.node() == to)) return;
    checkpoints.Move(id, to);
    SendAway(id);
  } else if ((to || held) && task.waits() == 0) {
    checkpoints.Move(id, to);
    Unqueue(id);
    tasks.Delay(id, now + Held(id));
  }
}

void Fates::AfterCheckpoint(TaskId id, Duration took) {
  if (took > Duration(0)) checkpoints.Learn(graph.profile_id(id), took);
  tasks.ForgiveFailure(id);
  if (stopped() && !tasks[id].cancelled()) {
    GiveUp(id, TaskState::kSkipped, Reason::kInterrupted);
  } else {
    TryAgain(id, Held(id));
  }
}

Duration Fates::Held(TaskId id) const {
  if (!checkpoints.any_move()) return Duration(0);
  const auto to = checkpoints.move(id);
  return !to ? Duration(0) : *to ? kHeldForNode : kHeldForServer;
}

/// Those that wait for room on a node that they are moved to.
void Dispatch::SendMoved() {
  if (stopped() || !checkpoints.any_move()) return;
  for (const TaskId id : checkpoints.ToNodes()) {
    const NodeId node = *checkpoints.move(id);
    if (tasks.state(id) != TaskState::kDelayed) continue;
    const order::LaneId lane = tasks[id].lane();
    if (!nodes.Open(node) || !lanes.FitsOpen(lane, nodes[node]) || IsGang(id)) {
      checkpoints.Forget(id);
      tasks.MakeWaiting(id);
      NoteReady(id, NodeId());
      continue;
    }
    if (full() || lanes.barred(lane) || suspects.Waits(node) || !RoomIn(node).Fits(lane) || !MayHaveInputs(id)) continue;
    checkpoints.Forget(id);
    tasks.MakeWaiting(id);
    tasks.SetCandidates(id, {&node, 1});
    queues.Enter(id, false);
    Send(id, node, TakenFrom::kMoved, false);
  }
}

}  // namespace harrow::core
