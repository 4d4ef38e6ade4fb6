#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/resources.h"
#include "base/time.h"

namespace harrow::core {

// --- how an attempt ended
struct Done {};
/// The command failed: exit code, or 128 + signal; `retryable` as the task's retry_on says.
struct Failed {
  int32_t exit_code = 1;
  bool retryable = true;
};
/// Ended by the allocation's limit: costs no retry, is not started again in this run.
struct Interrupted {};
/// Its node or agent went away: counted apart from retries.
struct Lost {};
/// A user asked for it.
struct Cancelled {};
using Outcome = std::variant<Done, Failed, Interrupted, Lost, Cancelled>;

// --- events: what has happened
struct NodeJoined {
  NodeId node;
  NodeCapacity capacity;
};
/// Gone, with everything sent to it and its replicas.
struct NodeLost {
  NodeId node;
};
/// Nothing new is started there; what runs may end. After AllNodesJoined, tasks that fit no other node fail.
struct NodeClosed {
  NodeId node;
};
/// The graph has these tasks now: [first, first + count).
struct TasksAdded {
  TaskId first;
  uint32_t count = 0;
};
/// Known from an earlier run (resume) or server (restart), or not wanted (target): never started here. kOpen:
/// it is to run, and only what was tried before is told. No TaskSettled answers; what needs a task that is
/// not done is skipped.
struct TaskRestored {
  TaskId task;
  enum class As : uint8_t { kDone, kFailed, kSkipped, kOpen, kCancelled } as = As::kDone;
  uint32_t attempts =
      0;  // made so far, as far as they count against its retries, those that were lost included
  uint32_t losses = 0;        // of them
  uint32_t last_attempt = 0;  // highest number an attempt ever had, when that is more than `attempts`
};
// Attempts of a task are numbered from 1, by StartTask; what tells of an attempt names it, so that the late
// word of an old one is not taken for that of a newer one on the same node. 0: not known, taken for the
// present one. A task that was sent and never began (TaskReturned, or its node was lost before it had a slot)
// keeps its number for the next time.

/// An agent began it. Also for a task that this scheduler did not send: an agent that outlived a server tells
/// what it runs.
struct TaskStarted {
  TaskId task;
  NodeId node;
  uint32_t attempt = 0;
};
struct TaskEnded {
  TaskId task;
  NodeId node;
  Outcome outcome;
  Duration run_time{0};
  uint32_t attempt = 0;
};
/// Answer to TakeBack: it was not started there and will not be.
struct TaskReturned {
  TaskId task;
  NodeId node;
  uint32_t attempt = 0;
};
struct FileStored {
  FileId file;
  NodeId node;
  int64_t bytes = 0;
};
struct FileLost {
  FileId file;
  NodeId node;
};
/// No node is expected beside those joined: a task that fits none of them fails. One that is lost later is
/// expected back until this is told again.
struct AllNodesJoined {};
struct CancelRequested {
  TaskId task;
};
/// Start nothing more (the time limit is near); what runs may end.
struct DrainRequested {};
struct RoundTripMeasured {
  NodeId node;
  Duration round_trip{0};
};
/// The allocation ends then: a task whose declared time does not fit is not started.
struct EndTimeKnown {
  Time end;
};

using Event = std::variant<NodeJoined, NodeLost, NodeClosed, TasksAdded, TaskRestored, TaskStarted, TaskEnded,
                           TaskReturned, FileStored, FileLost, CancelRequested, DrainRequested,
                           RoundTripMeasured, EndTimeKnown, AllNodesJoined>;

// --- actions: what is to be done
/// Send the task to the node. `ahead`: no slot is free there yet; the agent queues it behind what it has.
struct StartTask {
  TaskId task;
  NodeId node;
  uint32_t attempt = 0;  // its number: one more than the last that began, those told by TaskRestored included
  bool ahead = false;
  int64_t local_bytes = 0, remote_bytes = 0;  // input bytes by where they are now
};
/// A further node of a task of several nodes. Comes right before its StartTask, which names the lead node;
/// all of them are the task's until it ends.
struct JoinGang {
  TaskId task;
  NodeId node;
};
/// Ask for a task back that was sent and may not have begun: TaskReturned, or TaskStarted / TaskEnded,
/// answers.
struct TakeBack {
  TaskId task;
  NodeId node;
  uint32_t attempt = 0;
};
/// End a running task: TaskEnded answers. A newer attempt may be started there at the same instant.
struct CancelTask {
  TaskId task;
  NodeId node;
  uint32_t attempt = 0;  // that one only; 0: whatever runs of it there
};
enum class FinalState : uint8_t { kDone, kFailed, kSkipped, kCancelled };
enum class Reason : uint8_t {
  kNone,         // done, failed by itself, cancelled by a user
  kDependency,   // something it needs is not done: `because`, the first cause
  kStopped,      // the run starts nothing more: drained, or too many failures (`because`: the last of them)
  kInterrupted,  // the allocation's limit ended it
  kNoTimeLeft,   // its time limit does not fit before the allocation ends
  kNoNodeFits,   // no node can ever give what it asks for
  kLostTooOften,
};
/// The task's fate is decided.
struct TaskSettled {
  TaskId task;
  FinalState state = FinalState::kDone;
  TaskId because;
  Reason reason = Reason::kNone;
};
/// Tasks failed there one after the other, at once, while others did not: nothing is started there any more.
struct NodePutAside {
  NodeId node;
  uint32_t failures = 0;
};
/// Every task is settled, or nothing can be started any more and nothing runs.
struct RunComplete {};

using Action =
    std::variant<StartTask, TakeBack, CancelTask, TaskSettled, RunComplete, JoinGang, NodePutAside>;

}  // namespace harrow::core
