#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/resources.h"
#include "base/time.h"

namespace harrow::supervisor {

// --- what is seen

/// Ready tasks that ask for the same: nothing but a slot is waited for.
struct WaitingTasks {
  Shape shape = {};
  // That each of them declares to take at most; 0: nothing is said.
  Duration limit{0};
  // How long tasks of the shape have taken; 0: none has ended yet.
  Duration mean{0};
  uint64_t ready = 0;
};

/// What an allocation does for tasks of one shape.
struct ShapeLoad {
  Shape shape = {};
  // So many run at once where nothing else does.
  uint32_t workers = 0;
  // They run, or were sent to where they will.
  uint64_t in_flight = 0;
};

/// A job of the run.
struct AllocationSeen {
  enum class State : uint8_t { kPending, kRunning, kOver };
  std::string job = {};
  std::string partition = {};
  uint32_t nodes = 0;
  State state = State::kPending;
  // It was asked for, and may be given back; else somebody has given it to the run.
  bool ours = true;
  // Pending, and as things are it never begins: why; else empty.
  std::string never = {};
  // Pending: by what is known now; running: until its time is over.
  std::optional<Duration> begins_in = {}, ends_in = {};
  // Its server has told what follows.
  bool served = false;
  uint32_t slots = 0;
  std::vector<ShapeLoad> loads = {};
  // Tasks that have ended there, as far as it was heard.
  uint64_t ended = 0;
};

/// The run and its jobs, all of one moment. Jobs that are not named are over.
struct RunSeen {
  std::vector<WaitingTasks> waiting = {};
  // Tasks that wait for other tasks, or for some time.
  uint64_t blocked = 0;
  std::vector<AllocationSeen> allocations = {};
};

/// What is asked of the batch system: an allocation, each node of which has at least so much.
struct Request {
  std::string partition = {};
  uint32_t nodes = 1;
  Duration time{0};  // 0: the partition's default
  NodeCapacity least = {};
  bool operator==(const Request&) const = default;
};

// Answers to the request that was asked for last, one each.
struct Estimated {
  Duration begins_in{0};
};
struct Submitted {
  std::string job;
};
struct Refused {
  std::string why;
};
/// Nobody answered: what was to be submitted may have been.
struct NoAnswer {
  std::string why;
};

// --- what is to be done

struct AskEstimate {
  Request request;
};
struct Submit {
  Request request;
};
/// A job that waits, or one that runs.
struct Cancel {
  std::string job;
};
/// A line for the user.
struct Tell {
  std::string text;
};

using AskingEvent = std::variant<RunSeen, Estimated, Submitted, Refused, NoAnswer>;
using AskingAction = std::variant<AskEstimate, Submit, Cancel, Tell>;

}  // namespace harrow::supervisor
