#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/peer_gate.h"
#include "agent/steps/stream_host.h"
#include "agent/stream_exchange.h"
#include "agent/stream_feeds.h"
#include "os/event_loop.h"
#include "os/posix_files.h"
#include "stream/spool.h"

namespace harrow::pb {
class ToAgent;
class AgentHello;
}  // namespace harrow::pb

namespace harrow::agent {

/// Streams between tasks, as this node takes part in them (how: stream_port.cc). From any thread, but for
/// what is said otherwise.
class StreamPort : public StreamHost {
 public:
  struct Hooks {
    /// The attempt is to end: End::kRewound.
    std::function<void(AttemptId, const std::string& why)> rewind{};
    /// What runs of it has something to look at.
    std::function<void(AttemptId)> wake{};
    /// The first attempt with streams is here: others may want to reach this node. In a call of Join.
    std::function<void()> first = [] {};
  };
  /// `tmp`: the directory of the agents' temporary files; empty: there is none, and tasks with streams fail.
  StreamPort(const std::string& tmp, Hooks hooks);
  /// When no slot uses it any more. What was written goes with it.
  ~StreamPort() override;

  // As the server says:
  void SetSelf(NodeId node);
  /// Of sources that have changed, what nobody reads, and what is to be dropped.
  void Take(const pb::ToAgent& message);
  void NameWritten(pb::AgentHello* hello);

  /// The way to other nodes; open it before streams come from there.
  PeerGate* gate() { return &gate_; }

  void Join(const LocalTask& task) override;
  void Leave(AttemptId attempt) override;
  Result<std::shared_ptr<stream::Log>> Write(AttemptId attempt) override;
  Status Feed(AttemptId attempt, int pipe) override;
  void Grown(AttemptId attempt) override;
  void Settle(const LocalTask& task, TaskResult* result) override;
  int wake_fd() const override { return wake_.get(); }

 private:
  void OnLoop(std::function<void()> work);
  /// Waits for it. False: it cannot be done any more.
  bool OnLoopNow(const std::function<void()>& work);
  void DoPosted();
  void Changed(AttemptId writer);
  void SettleWriter(const LocalTask& task, TaskResult* result);

  const Hooks hooks_;
  const os::Fd wake_;  // an eventfd
  const std::unique_ptr<os::EventLoop> loop_;
  PeerGate gate_;
  std::unique_ptr<stream::Spool> spool_;
  Status no_spool_{};  // why there is none
  std::unique_ptr<StreamExchange> exchange_;
  std::unique_ptr<StreamFeeds> feeds_;
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;  // of mutex_
  bool began_ = false;                        // of mutex_: the thread was started
  bool ended_ = false;                        // of mutex_
  std::thread thread_;
};

}  // namespace harrow::agent
