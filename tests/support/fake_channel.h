#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "os/event_loop.h"
#include "wire/channel.h"

namespace harrow::test {

/// One end of a channel without sockets or encryption. Messages reach the other end's handler by a Post on
/// the loop; without a peer, or without a handler on the other side, they are only recorded.
///
///   auto [server_end, agent_end] = FakeChannel::Pair(&loop, wire::Role::kAgent);
///   server_end->SetHandler(...);  agent_end->Send(...);  loop.RunPosted();
class FakeChannel : public wire::Channel, public std::enable_shared_from_this<FakeChannel> {
 public:
  static std::pair<std::shared_ptr<FakeChannel>, std::shared_ptr<FakeChannel>> Pair(os::EventLoop* loop,
                                                                                    wire::Role role) {
    auto a = std::make_shared<FakeChannel>(loop, role, "fake:1");
    auto b = std::make_shared<FakeChannel>(loop, role, "fake:2");
    a->peer_ = b;
    b->peer_ = a;
    return {a, b};
  }

  FakeChannel(os::EventLoop* loop, wire::Role role, std::string peer_name)
      : loop_(loop), role_(role), peer_name_(std::move(peer_name)) {}
  ~FakeChannel() override { TellPeer(Status(Code::kUnavailable, "the peer closed the connection")); }

  void SetHandler(wire::ChannelHandler handler) {
    handler_ = std::make_shared<wire::ChannelHandler>(std::move(handler));
  }

  void Send(std::string_view message) override {
    if (closed_) return;
    sent.emplace_back(message);
    stalled_.emplace_back(message);
    if (!stalled) Release();
  }
  void SendFile(std::string_view head, wire::FilePiece piece) override {
    std::string message(head);
    message.resize(head.size() + piece.length);
    if (pread(piece.fd, message.data() + head.size(), piece.length, piece.offset) < 0) abort();
    Send(message);
  }
  size_t unsent_bytes() const override {
    size_t bytes = 0;
    for (const std::string& m : stalled_) bytes += m.size() + 4;
    return bytes;
  }
  Duration unheard() const override { return silence; }
  wire::Role role() const override { return role_; }
  std::string peer() const override { return peer_name_; }
  void Close() override {
    Release();
    closed_ = true;
    TellPeer(Status(Code::kUnavailable, "the peer closed the connection"));
  }

  /// The connection breaks: both ends hear of it; what was stalled is lost.
  void Break(const Status& why) {
    stalled_.clear();
    TellPeer(why);
    HearClosed(why);
  }
  /// Delivers what was sent while `stalled`.
  void Release() {
    for (std::string& message : stalled_) {
      if (auto peer = peer_.lock()) {
        loop_->Post([peer, message = std::move(message)] { peer->Deliver(message); });
      }
    }
    if (!stalled_.empty()) {
      loop_->Post([self = weak_from_this()] {
        auto here = self.lock();
        if (here && !here->closed_ && here->handler_ && here->handler_->on_sent) here->handler_->on_sent();
      });
    }
    stalled_.clear();
  }
  /// As if the other end had sent it; at once.
  void Deliver(std::string_view message) {
    auto handler = handler_;
    if (!closed_ && handler && handler->on_message) handler->on_message(message);
  }
  bool closed() const { return closed_; }
  /// What was sent since the last call.
  std::vector<std::string> TakeSent() { return std::exchange(sent, {}); }

  std::vector<std::string> sent;
  bool stalled = false;  // the kernel takes nothing: unsent_bytes grows
  Duration silence{0};   // of the peer's machine

 private:
  void TellPeer(const Status& why) {
    if (auto peer = peer_.lock()) {
      loop_->Post([peer, why] { peer->HearClosed(why); });
    }
    peer_.reset();
  }
  void HearClosed(const Status& why) {
    if (closed_) return;
    closed_ = true;
    auto handler = handler_;
    if (handler && handler->on_closed) handler->on_closed(why);
  }

  os::EventLoop* loop_;
  wire::Role role_;
  std::string peer_name_;
  std::weak_ptr<FakeChannel> peer_;
  std::shared_ptr<wire::ChannelHandler> handler_;
  std::deque<std::string> stalled_;
  bool closed_ = false;
};

}  // namespace harrow::test
