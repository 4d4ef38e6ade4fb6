#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/steps/gang.h"
#include "base/ids.h"
#include "base/status.h"

namespace harrow::agent {

/// What the parts of an attempt come together for; numbers as pb::RankMeeting.kind.
enum class Meeting : uint8_t {
  kReady = 0,  // all parts: to begin
  kEnded = 1,  // those with processes, when all of these have succeeded
  kRanks = 2,  // those with the ranks that are named, because all of these say so (a fence)
};

/// The parts of attempts of several nodes, as those of this node hear of the others (agent/gang_port.h). From
/// any thread; what concerns an attempt that is not here is ignored. Who waits for parts whose nodes are gone
/// waits until the server ends the attempt.
class Gangs {
 public:
  virtual ~Gangs() = default;
  /// This node's part of it is here, until Leave.
  virtual void Join(AttemptId attempt, std::shared_ptr<const Gang> gang) = 0;
  virtual void Leave(AttemptId attempt) = 0;

  /// What all that met have brought along, one after the other; or why they cannot meet. Not called any more
  /// once the part has left.
  using Met = std::function<void(Result<std::string> data)>;
  /// The part is there, with `data`. `ranks`, ascending: of kRanks; none: all. Who meets again with the same
  /// ones does so after the time before. `met` is called from a thread that may not wait.
  virtual void Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
                    Met met) = 0;
  /// Asks the part on another node of it (or on this one), by what serves the ranks there; as Met.
  virtual void Ask(AttemptId attempt, uint32_t node, std::string question,
                   std::function<void(std::string answer)> answered) = 0;

  using InVain = std::function<bool()>;
  /// Meets, and waits until all are there. kUnavailable: until `in_vain`, which is asked all the time, said
  /// so.
  Status MeetAndWait(AttemptId attempt, Meeting meeting, const InVain& in_vain);
};

}  // namespace harrow::agent
