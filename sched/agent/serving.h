#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "agent/peers.h"
#include "agent/post_back.h"
#include "base/ids.h"
#include "os/event_loop.h"
#include "store/store.h"

namespace harrow::pb {
class PieceWanted;
class PeerTransfer;
}  // namespace harrow::pb

namespace harrow::agent {

/// Gives other agents the pieces of objects that they ask for, also of objects that still arrive here. Of the
/// loop's thread.
class Serving {
 public:
  Serving(os::EventLoop* loop, Peers& peers, store::Store& store);
  ~Serving();

  /// Whether an object that is not here is on its way here.
  void SetComes(std::function<bool(const store::ObjectId&)> comes) { comes_ = std::move(comes); }
  /// The first of it is here, or it is not on its way any more.
  void Came(const store::ObjectId& id);

  void Wanted(NodeId asker, const pb::PieceWanted& wanted);
  void Unwanted(NodeId asker, uint64_t request);
  void Gone(NodeId asker);
  /// It can be sent more.
  void Sent(NodeId asker);
  /// Of contents, handed to the network.
  int64_t served_bytes() const { return served_bytes_; }

 private:
  struct Item {
    uint64_t request = 0;
    store::ObjectId id{};
    int64_t offset = 0;
    int64_t length = 0;  // 0: to the end
    int64_t end = 0;     // once there is a reader
    std::shared_ptr<store::Reader> reader{};
    Time not_found_at{};  // of what is not here
  };
  struct Asker {
    std::deque<Item> queue{};
    std::map<uint64_t, Item> waiting{};  // for pieces that are not here yet
  };

  void Pump();
  void Wake();
  void SendNext(NodeId to, Asker* asker);
  void Send(NodeId to, const pb::PeerTransfer& message, std::string_view data, wire::FilePiece piece,
            bool bulk);
  Status Open(Item* item);
  void Hope(NodeId to, Asker* asker, Item item);
  void LookForHoped();
  void Wait(NodeId to, Asker* asker, Item item);
  void CameOn(NodeId to, uint64_t request, bool failed);
  void SayWaiting();

  os::EventLoop* const loop_;
  Peers& peers_;
  store::Store& store_;
  std::map<NodeId, Asker> askers_;
  NodeId last_;  // who got something last
  std::unordered_map<store::ObjectId, std::weak_ptr<store::Reader>> readers_;
  std::shared_ptr<PostBack> post_;
  std::function<bool(const store::ObjectId&)> comes_;
  std::unordered_multimap<store::ObjectId, std::pair<NodeId, uint64_t>> hoped_;  // requests
  os::EventLoop::TimerId hoped_timer_ = 0;
  bool awake_ = false;
  os::EventLoop::TimerId waiting_timer_ = 0;
  int64_t served_bytes_ = 0;
};

/// A message of Service::kTransfers, without its data.
std::string TransferHead(const pb::PeerTransfer& message);

}  // namespace harrow::agent
