#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/peers.h"
#include "agent/rank_exchange.h"
#include "agent/steps/gangs.h"
#include "agent/workers.h"
#include "os/event_loop.h"

namespace harrow::agent {

/// The way from the slots, and from those who serve ranks, to the agents of other nodes: hands on to the
/// loop, where the talk goes on (rank_exchange.h). Listens for other agents from the first part on that comes
/// here: an agent whose flow has no tasks of several nodes never does.
class GangPort : public Gangs {
 public:
  struct Hooks {
    /// Opens this node's end; of the loop's thread.
    std::function<Result<std::unique_ptr<Peers>>()> open;
    /// Where others find it, for the server.
    std::function<void(const std::vector<std::string>&)> addresses;
    /// The part on another node asks who serves the ranks of this one; `answer` may be called by any thread.
    std::function<void(AttemptId attempt, std::string question, std::function<void(std::string)> answer)>
        asked;
    std::function<void(const std::string&)> problem;
  };
  GangPort(os::EventLoop* loop, Hooks hooks);
  /// On the loop's thread, when that runs no more, and nobody answers any more.
  ~GangPort() override = default;

  void Join(AttemptId attempt, std::shared_ptr<const Gang> gang) override;
  void Leave(AttemptId attempt) override;
  void Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
            Met met) override;
  void Ask(AttemptId attempt, uint32_t node, std::string question,
           std::function<void(std::string answer)> answered) override;

  // Of the loop's thread:
  /// Others may want to reach this node, also for what is not of ranks. Null: they cannot.
  Peers* OpenForAll();
  /// A server is there, which has not been told where this node is found.
  void TellAddresses();
  void Know(NodeId node, std::vector<std::string> addresses, uint64_t incarnation);
  void Forget(NodeId node);
  void SetCredentials(const wire::Credentials& credentials);

 private:
  void OnLoop(std::function<void()> work);
  void Open();

  os::EventLoop* const loop_;
  const Hooks hooks_;
  // Of the loop's thread:
  std::unique_ptr<Peers> peers_;
  std::optional<RankExchange> exchange_;
  struct Known {
    std::vector<std::string> addresses{};
    uint64_t incarnation = 0;
  };
  std::map<NodeId, Known> known_;  // told before there was a way to them
  Status closed_{};                                             // why there is no way to other nodes
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for work that comes later than this ends
  // One thread: slots have descriptors of their own, and cannot wake the loop. Last of all: it ends first.
  Workers messenger_{1};
};

}  // namespace harrow::agent
