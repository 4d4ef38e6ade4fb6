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
/// Nothing new is started there; what runs may end.
struct NodeClosed {
  NodeId node;
};
/// The graph has these tasks now: [first, first + count).
struct TasksAdded {
  TaskId first;
  uint32_t count = 0;
};
/// Known from an earlier run (resume) or server (restart), or not wanted (target): never started here.
struct TaskRestored {
  TaskId task;
  enum class As : uint8_t { kDone, kFailed, kSkipped } as = As::kDone;
};
/// An agent began it. Also for a task that this scheduler did not send: an agent that outlived a server tells what it runs.
struct TaskStarted {
  TaskId task;
  NodeId node;
};
struct TaskEnded {
  TaskId task;
  NodeId node;
  Outcome outcome;
  Duration run_time{0};
};
/// Answer to TakeBack: it was not started there and will not be.
struct TaskReturned {
  TaskId task;
  NodeId node;
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

using Event = std::variant<NodeJoined, NodeLost, NodeClosed, TasksAdded, TaskRestored, TaskStarted, TaskEnded, TaskReturned,
                           FileStored, FileLost, CancelRequested, DrainRequested, RoundTripMeasured, EndTimeKnown>;

// --- actions: what is to be done
/// Send the task to the node. `ahead`: no slot is free there yet; the agent queues it behind what it has.
struct StartTask {
  TaskId task;
  NodeId node;
  uint32_t attempt = 0;  // from 1
  bool ahead = false;
};
/// Ask for a task back that was sent and may not have begun: TaskReturned, or TaskStarted / TaskEnded, answers.
struct TakeBack {
  TaskId task;
  NodeId node;
};
/// End a running task: TaskEnded answers.
struct CancelTask {
  TaskId task;
  NodeId node;
};
enum class FinalState : uint8_t { kDone, kFailed, kSkipped, kCancelled };
/// The task's fate is decided. Skipped: something it needs failed (`because`), or the run stopped starting tasks.
struct TaskSettled {
  TaskId task;
  FinalState state = FinalState::kDone;
  TaskId because;
};
/// Every task is settled, or nothing can be started any more and nothing runs.
struct RunComplete {};

using Action = std::variant<StartTask, TakeBack, CancelTask, TaskSettled, RunComplete>;

}  // namespace harrow::core
