#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

// What an agent's core is told and what it says: the words of core.h.

namespace harrow::agent {

/// How an attempt ended; numbers as pb::Attempt.End.
enum class End : uint8_t {
  kRunning = 0,
  kExited = 1,
  kSignaled = 2,
  kTimedOut = 3,
  kOutOfMemory = 4,
  kCancelled = 5,
  kInterrupted = 6,
  kNotStarted = 7,
  kLost = 8,           // its task goes on elsewhere
  kMissingOutput = 9,  // it exited with 0, and an output that it declares is not there
  kRewound = 10,       // what it had read of a stream is void, and its task starts again
  kCheckpointed = 11,  // it was asked for a checkpoint, has left one, and goes on from there
};

/// What an attempt asks of its node. Of a task of several nodes: the part of this node.
struct Needs {
  uint32_t processes = 1;   // at least 1; each is started by the thread of its first slot
  uint32_t cores = 1;       // a process; at least 1
  uint32_t devices = 0;     // a process
  uint64_t memory = 0;      // bytes of the whole attempt, which ends when it holds more; 0: not limited
  bool whole_node = false;  // all slots, for one process
  uint32_t inputs = 0;      // that are on their way to this node
  Duration time_limit{0};   // from its start; 0: none
  Duration warn_before{0};  // so long before that limit it is warned; 0: it is not
  // Whether it can be asked for a checkpoint, and how: by a question, after which it leaves one and ends, or by being ended.
  enum class Asked : uint8_t { kNot, kByQuestion, kByEnd } checkpoint = Asked::kNot;
  bool ask_all = false;          // each of its processes; else the first
  bool ask_none = false;         // none of its processes here: those of another node are
  Duration checkpoint_every{0};  // from its start; 0: only when CheckpointAsked comes
  Duration checkpoint_time{0};   // so long it may take
};

// --- events

/// The server sent it. `tag`: the driver's own word for it.
struct Sent {
  AttemptId attempt;
  Needs needs;
  uint32_t tag = 0;
};
/// One of Needs::inputs is here.
struct InputArrived {
  AttemptId attempt;
};
/// The server wants it back, unless it has been given to slots: Returned answers, or nothing.
struct TakenBack {
  AttemptId attempt;
  bool more = false;  // another one follows: nothing is given to slots before it
};
/// It is to end for that reason (kCancelled, kInterrupted, kLost), wherever it is. Of several reasons the
/// first counts.
struct Cancelled {
  AttemptId attempt;
  End reason = End::kCancelled;
  bool more = false;  // as TakenBack::more
};
/// It is to leave a checkpoint and to end. One that has no slots, or is asked already, is not asked.
struct CheckpointAsked {
  AttemptId attempt;
};
/// It was asked, and says that it will not leave one. The slot's thread knows why.
struct CheckpointRefused {
  uint32_t slot;
};
/// All attempts are to end for that reason, and those that are sent from now on.
struct Closed {
  End reason = End::kInterrupted;
};
/// The process of this slot has run since `since`. Told of one that runs for some time, and of each of
/// several; only such can reach a limit.
struct ProcessStarted {
  uint32_t slot = 0;
  Time since{};
  Duration stood{0};  // RunUntil::stood at that time
};
/// The process of this slot has ended, and what it leaves is being looked after. May be left out for the only
/// process of an attempt. Of several, one that failed ends the others.
struct ProcessEnded {
  uint32_t slot = 0;
  bool failed = false;
};
/// Nothing of the process that this slot was given is left to do. The attempt ends with the last of them.
struct Settled {
  uint32_t slot = 0;
};
/// What the attempt that this slot was given holds now.
struct MemorySeen {
  uint32_t slot = 0;
  uint64_t bytes = 0;
  Duration rest{0};  // it is not to be looked at again before: looking at it costs much
};
/// What the attempt holds on the node's disk, with others, is too much.
struct DiskLimitReached {
  AttemptId attempt;
};
/// Tasks may run until then, and have had to stand for `stood` so far, all times together (fence.h).
struct RunUntil {
  Time until = Time::max();
  Duration stood{0};
};
/// Answer to WakeAt; may come unasked.
struct TimeCame {};

using Event = std::variant<Sent, InputArrived, TakenBack, Cancelled, CheckpointAsked, CheckpointRefused, Closed, ProcessStarted, ProcessEnded,
                           Settled, MemorySeen, DiskLimitReached, RunUntil, TimeCame>;

// --- actions

/// The slot's thread has a process to start: Core::given(slot) tells which.
struct Spawn {
  uint32_t slot = 0;
};
/// To the process of this slot, all that is below it, and whoever has left its group; one that has not been
/// started yet will not be.
struct Signal {
  uint32_t slot = 0;
  bool kill = false;  // else: ask it to end
  End reason = End::kCancelled;
  bool from_within = false;  // because another process of the attempt has failed
};
/// The attempt of this slot's process will reach its time limit in Needs::warn_before.
struct Warn {
  uint32_t slot = 0;
};
/// The attempt of this slot's process is asked for a checkpoint; this process is told so, or only has to know that its end may be the
/// answer.
struct AskCheckpoint {
  uint32_t slot = 0;
  bool tell = true;
};
/// It was asked Needs::checkpoint_time ago, and goes on.
struct CheckpointLate {
  AttemptId attempt;
  uint32_t tag = 0;
  std::optional<uint32_t> refused{};  // by the process of that slot, before the time was over
};
/// It was not given to slots, and never will be.
struct Returned {
  AttemptId attempt;
  uint32_t tag = 0;
};
/// It has ended without having been given to slots.
struct Report {
  AttemptId attempt;
  uint32_t tag = 0;
  End end = End::kNotStarted;
  enum class Why : uint8_t { kAsked, kTooManyCores, kTooManyDevices } why = Why::kAsked;
};
/// Tell TimeCame then; each replaces the one before.
struct WakeAt {
  Time time;
};

using Action = std::variant<Spawn, Signal, Warn, AskCheckpoint, CheckpointLate, Returned, Report, WakeAt>;

}  // namespace harrow::agent
