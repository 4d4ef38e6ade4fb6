#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/peers.h"
#include "os/event_loop.h"
#include "wire/decode.h"

namespace harrow::test {

/// A Peers without channels: what is sent is kept, and reaches the FakePeers of the other node where it is
/// linked.
class FakePeers : public agent::Peers {
 public:
  FakePeers(os::EventLoop* loop, NodeId self) : loop_(loop), self_(self) {}

  static void Link(FakePeers* a, FakePeers* b) {
    a->others_[b->self_] = b;
    b->others_[a->self_] = a;
  }
  /// Their channel ends: what it has not delivered is lost, and both are told.
  static void Break(FakePeers* a, FakePeers* b, const std::string& why = "broken") {
    ++a->broken_[b->self_];
    ++b->broken_[a->self_];
    for (FakePeers* const one : {a, b}) {
      const NodeId other = one == a ? b->self_ : a->self_;
      one->held[other].clear();
      one->loop_->Post([one, other, why] {
        if (one->handler_.on_gone) one->handler_.on_gone(other, Status(Code::kUnavailable, why));
      });
    }
  }
  struct Sent {
    NodeId to;
    std::string bytes;
    bool bulk;
  };
  std::vector<Sent> sent;                           // to nodes that are not linked
  std::map<NodeId, std::vector<std::string>> held;  // to nodes that take nothing
  std::map<NodeId, bool> stalled;
  std::vector<std::string> hung_up;
  bool sealed = true;  // contents, too
  int64_t bulk_bytes = 0;

  /// What was sent since the last call, without data.
  static pb::PeerTransfer HeadOf(const std::string& bytes, std::string* data = nullptr) {
    pb::PeerTransfer message;
    size_t n = 0;
    for (size_t i = 0; i < 4; ++i) n |= size_t{static_cast<unsigned char>(bytes.at(i))} << (8 * i);
    if (!message.ParseFromString(bytes.substr(4, n))) abort();
    if (data != nullptr) *data = bytes.substr(4 + n);
    return message;
  }
  std::vector<pb::PeerTransfer> Take(std::vector<std::string>* data = nullptr) {
    std::vector<pb::PeerTransfer> out;
    for (const Sent& s : std::exchange(sent, {})) {
      std::string d;
      out.push_back(HeadOf(s.bytes, &d));
      if (data != nullptr) data->push_back(d);
    }
    return out;
  }
  void Release(NodeId to) {
    stalled[to] = false;
    for (const std::string& bytes : std::exchange(held[to], {})) Deliver(to, bytes, true);
    TellSent(to);
  }

  std::vector<std::string> addresses() const override { return {}; }
  void Serve(agent::Service, Handler handler) override { handler_ = std::move(handler); }
  void Know(NodeId, std::vector<std::string>, uint64_t) override {}
  void Forget(NodeId) override {}
  Status SetCredentials(const wire::Credentials&) override { return {}; }
  void Send(NodeId to, agent::Service, std::string_view message) override {
    Put(to, std::string(message), false);
  }
  void SendBulk(NodeId to, agent::Service, std::string_view head, wire::FilePiece piece) override {
    std::string bytes(head);
    bytes.resize(head.size() + piece.length);
    if (piece.length > 0 && pread(piece.fd, bytes.data() + head.size(), piece.length, piece.offset) < 0)
      abort();
    bulk_bytes += static_cast<int64_t>(bytes.size());
    Put(to, std::move(bytes), true);
  }
  size_t unsent_bytes(NodeId to) const override {
    size_t n = 0;
    const auto found = held.find(to);
    if (found == held.end()) return 0;
    for (const std::string& bytes : found->second) n += bytes.size();
    return n;
  }
  void HangUp(NodeId, const Status& why) override { hung_up.push_back(why.message()); }

 private:
  void Put(NodeId to, std::string bytes, bool bulk) {
    if (stalled[to]) {
      held[to].push_back(std::move(bytes));
      return;
    }
    Deliver(to, std::move(bytes), bulk);
    TellSent(to);
  }
  void TellSent(NodeId to) {
    loop_->Post([this, to] {
      if (handler_.on_sent) handler_.on_sent(to);
    });
  }
  void Deliver(NodeId to, std::string bytes, bool bulk) {
    const auto found = others_.find(to);
    if (found == others_.end()) {
      sent.push_back({to, std::move(bytes), bulk});
      return;
    }
    FakePeers* const other = found->second;
    loop_->Post([other, self = self_, bytes = std::move(bytes), seal = sealed || !bulk,
                 channel = other->broken_[self_]] {
      if (other->broken_[self] == channel && other->handler_.on_message)
        other->handler_.on_message(self, bytes, seal);
    });
  }

  os::EventLoop* const loop_;
  const NodeId self_;
  Handler handler_;
  std::map<NodeId, FakePeers*> others_;
  std::map<NodeId, int> broken_;  // how often
};

}  // namespace harrow::test
