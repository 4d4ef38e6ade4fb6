#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/event.h"
#include "core/scheduler.h"
#include "graph/graph.h"
#include "order/draws.h"
#include "order/lane.h"
#include "order/level_times.h"
#include "order/policy.h"
#include "order/ready_queue.h"
#include "place/replicas.h"
#include "place/victims.h"

namespace harrow::core {

/// What the scheduler keeps of a task: half a cache line.
struct alignas(32) Task {
  static constexpr uint8_t kCancel = 1;    // a user wants it ended
  static constexpr uint8_t kAhead = 2;     // sent, but behind what the node has
  static constexpr uint8_t kMany = 4;      // more than two candidates
  static constexpr uint8_t kReleases = 8;  // counted in Node::releasers
  static constexpr int kTakenShift = 4;    // three bits of TakenFrom
  static constexpr uint8_t kTakenBits = 7 << kTakenShift;
  static constexpr uint8_t kLost =
      128;  // its latest attempt was lost with its node, and may be heard of again

  order::Card card;
  uint32_t waits = 0;  // predecessors that are not done
  NodeId node;         // where it is or was
  // The nodes in whose queue it stands or from whose queue it was sent ahead; none: the remote queue.
  // With kMany: a place in the pool of lists, and their number.
  uint32_t candidate[2] = {NodeId::kNone, NodeId::kNone};
  uint16_t attempts = 0;  // number of the latest
  uint8_t losses = 0;
  uint8_t flags = 0;

  TaskState state() const { return static_cast<TaskState>(card.of_owner); }
  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  TakenFrom taken_from() const { return static_cast<TakenFrom>((flags & kTakenBits) >> kTakenShift); }
  void set_taken_from(TakenFrom from) {
    flags = static_cast<uint8_t>((flags & ~kTakenBits) | (static_cast<int>(from) << kTakenShift));
  }
  bool settled() const { return state() >= TaskState::kDone; }
  bool in_flight() const { return state() >= TaskState::kSent && state() <= TaskState::kRunning; }
};
static_assert(sizeof(Task) == 32);

struct Node {
  enum class Access : uint8_t { kGone, kOpen, kClosed, kSilent };
  Access access = Access::kGone;
  bool touched = false;  // listed in Impl::touched
  bool hungry = false;   // listed in Impl::hungry
  bool put_aside = false;
  bool expected = false;                // is open, or may come back
  order::LaneId hold = order::kNoLane;  // what gets free is kept for a task of this lane
  TaskId gang;                          // ... or for this task, with other nodes
  NodeCapacity total;
  uint32_t used_slots = 0;  // may be more than total: an agent says what it runs
  uint32_t used_gpus = 0;
  uint64_t used_memory = 0;
  uint32_t occupants = 0;        // tasks that use the above
  uint32_t overtaken_cores = 0;  // started while a task was first that did not fit
  uint32_t releasers = 0;        // in flight, and their end makes a task ready
  uint32_t recalls = 0;          // TakeBack without an answer
  order::ReadyQueue queue;
  std::vector<TaskId> in_flight;  // here, whether begun or not
  std::vector<TaskId> ahead;      // of them, those sent ahead; oldest first
  Duration round_trip{0};
  double mean_run = 0;           // seconds, of late; 0: nothing ended here yet
  uint32_t failures_in_row = 0;  // each within bad_node_time
  uint64_t done_before_row = 0;  // Counts::done when the row began

  bool joined() const { return access != Access::kGone; }
  uint32_t free_slots() const { return total.slots > used_slots ? total.slots - used_slots : 0; }
};

struct LaneState {
  uint64_t ready = 0;       // queued tasks
  uint32_t holders = 0;     // nodes that keep room for it
  bool pushed = false;      // listed in Impl::pushed
  bool impossible = false;  // no node there is can ever take one,
  bool gone = false;        // though some that were lost could
  uint64_t stuck_at = 0;    // Impl::room_version when no idle node could take one
  place::Victims victims;
};

/// State and steps of a Scheduler. Public functions of one .cc are used by the others; the comments there say
/// what each mechanism is about.
struct Scheduler::Impl {
  Impl(const graph::Graph& the_graph, const Options& the_options, order::Draws* the_draws);

  // --- scheduler.cc: taking events in
  void Begin(Time the_time, std::vector<Action>* the_actions);
  void Take(const Event& event);
  void TakeAll(const std::vector<Event>& events);
  void PrefetchEnd(TaskId id, int step) const;
  void Finish();
  void On(const NodeJoined& e);
  void On(const NodeSilent& e);
  void On(const NodeLost& e);
  void On(const NodeClosed& e);
  void On(const TasksAdded& e);
  void On(const TaskRestored& e);
  void On(const TaskStarted& e);
  void On(const TaskEnded& e);
  void On(const TaskReturned& e);
  void On(const FileStored& e);
  void On(const FileLost& e);
  void On(const CancelRequested& e);
  void On(const DrainRequested& e);
  void On(const RoundTripMeasured& e);
  void On(const EndTimeKnown& e);
  void On(const AllNodesJoined& e);
  void On(const TimeCame&) {}
  void FindClosedLanes();
  void CheckComplete();
  void SkipWithoutTime();
  void CountWaits(TaskId id);
  void PrefetchPredecessors(TaskId id) const;
  void NewPredecessor(TaskId id);
  size_t Memory() const;

  // --- ending.cc: what becomes of tasks
  void SetState(Task& task, TaskState state);
  void MarkDone(TaskId id, NodeId released_at);
  void Settle(TaskId id, TaskState state, Reason reason, TaskId because);
  void SkipDependents(TaskId root);
  void SettleImpossible(TaskId id);
  void Retry(TaskId id, Duration delay = Duration(0));
  void NeverBegan(TaskId id);
  void LostAhead(TaskId id);
  void ToOldPlace(TaskId id);
  void EndDelays();
  void AfterLoss(TaskId id);
  void AfterFailure(TaskId id, const Failed& failed);
  void CountFailure(TaskId id);
  void Stop(TaskId because);
  void Cancel(TaskId id);
  bool Adopt(AttemptId attempt, NodeId node);
  void NoteAttempt(Task& task, uint32_t attempt);
  void ForgetLoss(TaskId id, bool undo);
  AttemptId Latest(TaskId id) const { return {id, tasks[id.value].attempts}; }
  CancelTask CancelAt(TaskId id) const { return {Latest(id), tasks[id.value].node}; }
  bool IsAt(AttemptId attempt, NodeId node) const {
    const Task& task = tasks[attempt.task.value];
    return task.in_flight() && task.node == node && task.attempts == attempt.number;
  }
  const graph::Profile& ProfileOf(TaskId id) const { return graph.profile(id); }

  // --- nodes.cc: what nodes have and what is on them
  Node* Find(NodeId id) { return id.value < nodes.size() ? &nodes[id.value] : nullptr; }
  void Touch(NodeId id) {
    if (std::exchange(nodes[id.value].touched, true)) return;
    touched.push_back(id);
  }
  void Occupy(Node& node, order::LaneId lane);
  void Release(Node& node, order::LaneId lane);
  void Vacate(TaskId id);
  void Begins(TaskId id);
  void UpdateFree(NodeId id);
  void CloseNode(NodeId id);
  void AskAgain(const Node& node);
  void MoveQueueAway(NodeId id);
  void RowOfFailures(NodeId id, bool failed, Duration run_time);
  void CountOpen(const Node& node, bool open);
  void FindImpossibleLanes();
  order::Room RoomOf(const Node& node) const;

  // --- queueing.cc: ready queues
  order::LaneId LaneOf(TaskId id);
  void NotePriority(TaskId id);
  order::LaneId FindOrAddLane(order::Lane lane);
  order::Cards cards() const { return order::Cards(tasks.data(), priorities.empty() ? nullptr : priorities.data()); }
  void EnqueueReady();
  void FindCandidates(TaskId id);
  void PrefetchQueues(TaskId id, bool rings) const;
  void Enqueue(TaskId id, NodeId released_at, bool keep_place);
  bool MayQueueAt(NodeId id, order::LaneId lane) const;
  std::pair<const uint32_t*, uint32_t> CandidatesOf(const Task& task) const;
  void SetCandidates(Task& task, std::span<const NodeId> list);
  void ClearCandidates(Task& task);
  void PutIntoQueues(TaskId id, bool keep_place);
  void LeaveQueues(TaskId id, bool ahead);
  void Unqueue(TaskId id);
  void LeaveAhead(Task& task);
  bool IsGang(order::LaneId lane) const { return lanes[lane].nodes > 1; }
  void Relevel();

  // --- dispatch.cc: who gets what
  void Dispatch();
  void PrefetchOtherQueues(const order::ReadyQueue& queue) const;
  bool StartOne(NodeId id);
  order::Pick Steal(NodeId thief, const order::Room& room, NodeId* victim);
  void Start(TaskId id, NodeId node_id, TakenFrom from, bool ahead);
  void Started(TaskId id, NodeId node_id, TakenFrom from, bool ahead);
  void CountBytes();
  void ServeIdle();
  bool AnyFor(order::LaneId lane) const;
  bool Reachable(const Node& node, order::LaneId lane) const;
  void Hold(NodeId id, order::LaneId lane);
  void DropHold(NodeId id);
  void TrimHolds();

  // --- ahead.cc: sending before a slot is free
  uint32_t Depth(const Node& node) const;
  bool WouldRelease(TaskId id, const Node& node) const;
  bool MaySendAhead(const Task& task) const;
  void SendAhead(NodeId id);
  void FeedHungry();
  void Recall(TaskId id);
  void RecallAll(NodeId id);
  void RecallForOrder(TaskId newcomer, NodeId at);
  void RecallForIdle();
  void ListAhead(NodeId id);

  // --- gang.cc: tasks of several nodes
  void CheckGathering();
  void StartGangs();
  void StartGang(TaskId id, std::vector<NodeId> members);
  void EndGang(TaskId id);
  void GiveUpGang(bool requeue);
  TaskId NextGang();
  bool EnoughNodes(order::LaneId gang) const;
  void CountForGang(uint32_t cores);
  uint64_t GangPatience() const;

  // --- explain.cc, sanity.cc
  Explanation Explain(TaskId id) const;
  uint32_t CountBefore(TaskId id) const;
  void ExplainReady(TaskId id, Explanation* out) const;
  void ExplainPlace(TaskId id, Explanation* out) const;
  std::string FindBroken() const;

  const graph::Graph& graph;
  const Options options;
  order::SeededDraws draws;       // of rank+hrf
  order::SeededDraws side_draws;  // of victims
  order::LevelTimes level_times;
  std::unique_ptr<order::Order> order;
  const order::Ends ends;  // where `order` looks
  place::Replicas replicas;
  place::FreeNodes free;
  Counts counts;

  std::vector<Task> tasks;
  std::vector<int32_t> priorities;  // by task; empty as long as all are 0
  std::vector<Node> nodes;
  order::LaneTable lanes;
  std::vector<LaneState> lane_states;
  std::vector<order::LaneId> lane_of_profile;
  // Attempts that cost no retry, by task: those of earlier runs, and those sent ahead whose node was lost.
  std::unordered_map<uint32_t, uint32_t> uncounted;
  std::unordered_set<uint32_t> lost_ahead;     // tasks with kLost whose attempt is among the uncounted
  std::unordered_map<uint32_t, Time> delayed;  // tasks that wait for nothing else, after a further loss
  Time told_wake = Time::max();
  std::vector<std::vector<uint32_t>> lists;  // of candidates, where there are more than two
  std::vector<uint32_t> free_lists;
  order::ReadyQueue remote;
  uint32_t next_ticket = 1;
  uint32_t open_nodes = 0;
  uint64_t open_slots = 0;
  uint64_t free_slots = 0;  // as `free` has it
  uint64_t room_version = 1;
  bool timed_lanes = false;  // some have a time limit
  uint64_t seal_seen = 0;    // the graph's, when levels were last taken over
  bool nodes_known = false;
  bool capacity_changed = false;  // what can be given, or is asked for
  Time end = Time::max();

  bool stopped = false;
  TaskId stopped_by;
  bool told_tasks = false;  // TasksAdded came
  bool complete = false;

  // The gang that is being gathered, if any; it stands in `gangs` still.
  order::ReadyQueue gangs;
  TaskId gathering;
  bool gang_look = false;  // a node became idle, or a gang ready
  uint64_t gang_overtaken = 0;
  std::vector<NodeId> gang_held;
  std::unordered_map<uint32_t, std::vector<NodeId>> gang_members;  // of running gangs, the lead first

  // sending ahead
  uint64_t ahead_total = 0;
  uint64_t recalled_total = 0;
  std::vector<NodeId> ahead_nodes;  // may have tasks sent ahead; lazily kept
  std::vector<NodeId> hungry;       // could be sent more than there was

  // of the events being handled
  Time now{};
  std::vector<Action>* actions = nullptr;
  std::vector<uint64_t> newly_ready;  // task << 32 | node where its last predecessor ended
  std::vector<TaskId> put_back;       // ready again, to their old places
  std::vector<TaskId> skip_roots;
  std::vector<TaskId> restored_failures;
  std::vector<TaskId> skip_stack;
  std::vector<NodeId> asks;  // nodes that ask before others, one slot each
  std::vector<NodeId> touched;
  std::vector<order::LaneId> pushed;
  std::vector<size_t> started;  // StartTask actions whose bytes are to be counted
  bool trim_holds = false;
};

}  // namespace harrow::core
