#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "agent/peers.h"
#include "agent/steps/gangs.h"
#include "base/ids.h"
#include "base/status.h"
#include "os/event_loop.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

/// What the parts of attempts of several nodes say to each other, from agent to agent: where they meet, and
/// what they ask (how: rank_exchange.cc). What is said arrives, once and in order, as long as both parts are
/// there. Of its loop's thread.
class RankExchange {
 public:
  struct Hooks {
    /// The part on that node of it asks: Answer.
    std::function<void(AttemptId attempt, uint32_t node, uint64_t number, std::string question)> asked;
    /// A line for the log of the server: a node that is needed cannot be reached.
    std::function<void(const std::string&)> problem;
  };
  /// `peers` outlives it.
  RankExchange(os::EventLoop* loop, Peers* peers, Hooks hooks);
  ~RankExchange();
  RankExchange(const RankExchange&) = delete;
  RankExchange& operator=(const RankExchange&) = delete;

  // As in Gangs.
  void Join(AttemptId attempt, std::shared_ptr<const Gang> gang);
  void Leave(AttemptId attempt);
  void Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
            Gangs::Met met);
  using Answered = std::function<void(std::string)>;
  void Ask(AttemptId attempt, uint32_t node, std::string question, Answered answered);
  void Answer(AttemptId attempt, uint32_t node, uint64_t number, std::string answer);

  /// Of Peers.
  void Take(NodeId from, std::string_view message, bool sealed);
  void Gone(NodeId node, const Status& why);

  /// Also those that have left, as long as they are kept.
  size_t part_count() const { return by_space_.size(); }

 private:
  struct Said {
    uint64_t sequence = 0;
    std::string bytes{};  // of a RankWord, or a piece of one
    bool more = false;
  };
  /// To a part on another node.
  struct Link {
    uint64_t said = 0, heard = 0;  // sequences, the last of each
    std::deque<Said> unacknowledged{};
    bool owes = false;      // an acknowledgement
    std::string pieces{};   // of a word that has not ended
    bool too_long = false;  // it is longer than may be, and is dropped
  };
  using Key = std::pair<Meeting, std::vector<uint32_t>>;  // what the parts meet for
  struct Gathering {
    bool here = false;                          // this part is there
    std::map<uint32_t, std::string> brought{};  // by this part and those below it
    std::string why{};                          // it has failed
    Gangs::Met met{};
  };
  struct Part {
    AttemptId attempt;
    std::shared_ptr<const Gang> gang;
    bool left = false;                 // and is here until what it has said is acknowledged
    os::EventLoop::TimerId patience = 0;  // it waits for all to be ready
    std::map<uint32_t, Link> links{};  // by the number of the node in the gang
    std::map<Key, Gathering> gatherings{};
    uint64_t asked = 0;
    std::map<uint64_t, std::pair<uint32_t, Answered>> questions{};  // and to whom
  };
  using PartPtr = std::shared_ptr<Part>;
  /// Where a part stands among those that meet.
  struct Place {
    std::optional<uint32_t> above{};  // none: it is the highest
    std::vector<uint32_t> below{};
  };

  PartPtr Find(AttemptId attempt) const;
  /// One that has left, if there is nothing more to be said for it.
  bool ForgetIfSilent(const PartPtr& part);
  /// None: this part is not among them.
  static std::optional<Place> PlaceOf(const Part& part, const Key& key);
  void Say(Part& part, uint32_t node, const pb::RankWord& word);
  void Put(Part& part, uint32_t node, const Said* said, bool again = false);
  void SayAgain(Part& part, uint32_t node);
  void Owe(Part& part, uint32_t node);
  void PayWhatIsOwed();
  void Hear(const PartPtr& part, uint32_t node, const pb::PeerRanks& message);
  void Act(const PartPtr& part, uint32_t node, pb::RankWord word);
  void Gather(const PartPtr& part, const Key& key);
  /// It has waited long enough for all to be ready.
  void GiveUp(const PartPtr& part);
  /// All are there.
  void Over(const PartPtr& part, const Key& key, std::string data, std::string why);

  os::EventLoop* const loop_;
  Peers& peers_;
  const Hooks hooks_;
  std::unordered_map<AttemptId, PartPtr> parts_;
  std::unordered_map<std::string, PartPtr> by_space_;
  std::set<std::pair<AttemptId, uint32_t>> owed_;  // acknowledgements
  std::set<NodeId> gone_;                          // to be spoken to again soon
  std::unordered_set<NodeId> told_;                // that they cannot be reached
  os::EventLoop::TimerId pay_timer_ = 0, again_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for timers that come later than this ends
};

}  // namespace harrow::agent
