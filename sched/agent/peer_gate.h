#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/peers.h"
#include "agent/post_back.h"
#include "os/event_loop.h"

namespace harrow::agent {

/// Peers for who has a loop, and a thread, of their own: what is sent and what comes is handed on between the
/// two loops, in its order. Where this node is found, and who is known, is the business of the Peers behind
/// it. Of the near loop's thread, but for Open and Close.
class PeerGate : public Peers {
 public:
  explicit PeerGate(os::EventLoop* near);
  /// When the near loop runs no more.
  ~PeerGate() override;
  PeerGate(const PeerGate&) = delete;
  PeerGate& operator=(const PeerGate&) = delete;

  /// On the thread of the loop that `peers` belongs to. What was sent before waits for it.
  void Open(os::EventLoop* far, Peers* peers);
  /// On that thread, before `peers` ends: nothing is sent any more.
  void Close();

  std::vector<std::string> addresses() const override { return {}; }
  void Serve(Service service, Handler handler) override;
  void Know(NodeId, std::vector<std::string>, uint64_t) override {}
  void Forget(NodeId) override {}
  Status SetCredentials(const wire::Credentials&) override { return {}; }
  void Send(NodeId to, Service service, std::string_view message) override;
  void SendBulk(NodeId to, Service service, std::string_view head, wire::FilePiece piece) override;
  /// Not known here, and 0: who sends has to bound it by what was acknowledged.
  size_t unsent_bytes(NodeId) const override { return 0; }
  void HangUp(NodeId node, const Status& why) override;

 private:
  struct Far {
    Peers* peers = nullptr;  // of the far loop's thread
    std::mutex mutex;
    std::unique_ptr<PostBack> post;                  // of mutex
    std::vector<std::function<void(Peers&)>> early;  // of mutex: until there is one
    std::shared_ptr<PostBack> near;
  };
  void OnFar(std::function<void(Peers&)> work);

  const std::shared_ptr<Far> far_ = std::make_shared<Far>();
  std::array<Handler, kServices> handlers_;  // of the near loop's thread
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace harrow::agent
