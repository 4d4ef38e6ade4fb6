#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "agent/core/attempt.h"
#include "base/ids.h"

namespace harrow::sim {

/// The attempts of several nodes that are out. Each node has a part of one, which goes there and is given
/// slots as an attempt would be. An attempt begins when all its parts have slots, and is over when all parts
/// are. What a server does with them is done here: the other parts are told to end when one ends by itself
/// before the attempt does, or is lost with the lead node; and one end is told when all are over.
class Gangs {
 public:
  /// The simulation, as far as an attempt is concerned.
  class Host {
   public:
    virtual ~Host() = default;
    /// It begins now; `slot`: of its lead node.
    virtual void Begin(uint32_t attempt, uint32_t slot) = 0;
    /// It ends now, whether it has begun or not, and is not done.
    virtual void Stop(uint32_t attempt, bool lost) = 0;
    /// Its end is told to the scheduler.
    virtual void Report(uint32_t attempt, agent::End end) = 0;
    virtual void SendCancel(AttemptId attempt, NodeId node, agent::End reason) = 0;
    virtual void TellCore(NodeId node, const agent::Event& event) = 0;
  };
  explicit Gangs(Host* host) : host_(*host) {}

  struct Part {
    uint32_t attempt;
    uint32_t index;  // among the parts; 0: that of the lead node
    uint32_t count;  // of parts
    NodeId node;
    uint32_t slot = UINT32_MAX;  // of its node, its first; UINT32_MAX: it has none yet
    bool over = false;
  };
  /// The tags by which cores know parts are apart from all numbers of attempts.
  static bool IsTag(uint32_t tag) { return tag >= kFirstTag; }
  static uint32_t TagOf(uint32_t part) { return kFirstTag + part; }
  static uint32_t OfTag(uint32_t tag) { return tag - kFirstTag; }

  /// Returns the numbers of its parts. `members`: the lead node first.
  std::vector<uint32_t> Add(uint32_t attempt, AttemptId id, const std::vector<NodeId>& members);
  const Part& part(uint32_t number) const { return parts_[number]; }
  bool Has(uint32_t attempt) const { return gangs_.contains(attempt); }
  /// Of one that is out, or none.
  std::vector<NodeId> MembersOf(uint32_t attempt) const;

  /// A part was given slots, `slots` of them.
  void Began(uint32_t number, uint32_t slot, uint32_t slots);
  /// A part did not get to begin.
  void Ended(uint32_t number, agent::End end);
  /// A part was asked to end, and does.
  void Signalled(uint32_t number, agent::End reason);
  /// The attempt has ended by itself, on all of its nodes.
  void Settle(uint32_t attempt);
  /// The scheduler wants it to end. False: it is none of these.
  bool Cancel(AttemptId id, agent::End reason);
  /// The node has failed: what was there is over.
  void NodeFails(NodeId node);

  /// Slots that its parts were given together; 0: it is of one node.
  uint64_t slots(uint32_t attempt) const {
    const auto found = slots_.find(attempt);
    return found == slots_.end() ? 0 : found->second;
  }

 private:
  static constexpr uint32_t kFirstTag = 1u << 31;
  struct Gang {
    AttemptId id;
    std::vector<uint32_t> parts;
    uint32_t begun = 0, over = 0;
    // Its parts were told to end, for that reason.
    agent::End ending = agent::End::kRunning;
    // The scheduler has lost it with its lead node: nothing more is told to it.
    bool given_up = false;
    bool stopped = false;
  };

  void EndParts(Gang* gang, agent::End reason);
  void Stop(uint32_t attempt, Gang* gang);
  void Over(uint32_t number);

  Host& host_;
  std::map<uint32_t, Gang> gangs_;  // by attempt
  std::vector<Part> parts_;
  std::unordered_map<uint32_t, uint64_t> slots_;
};

}  // namespace harrow::sim
