#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "agent/peers.h"
#include "agent/stream_feeds.h"
#include "base/ids.h"
#include "base/status.h"
#include "os/event_loop.h"
#include "stream/spool.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

/// Streams between nodes: gives other agents what attempts of this node have written, and asks them for what
/// attempts of this node read (how: stream_exchange.cc). Of its loop's thread.
class StreamExchange : public StreamFetch {
 public:
  /// `spool` outlives it.
  StreamExchange(os::EventLoop* loop, stream::Spool* spool);
  ~StreamExchange() override;
  StreamExchange(const StreamExchange&) = delete;
  StreamExchange& operator=(const StreamExchange&) = delete;

  /// Before the first request. `peers` outlives it.
  void Connect(Peers* peers);
  /// Who is told what comes.
  void SetFeeds(StreamFeeds* feeds) { feeds_ = feeds; }

  uint64_t Want(const Wanted& wanted) override;
  void GiveRoom(uint64_t request, int64_t room) override;
  void Unwant(uint64_t request) override;

  /// A log of this node was made, has grown, or has ended.
  void Grown(AttemptId writer);

  // Of Peers:
  void Take(NodeId from, std::string_view message, bool sealed);
  void Gone(NodeId node);

  /// Requests of others that are not over.
  size_t serving() const { return served_.size(); }

 private:
  using Key = std::pair<NodeId, uint64_t>;  // who asks, and the request's number
  /// What another agent has asked for.
  struct Served {
    pb::WrittenWanted wanted{};
    std::unique_ptr<stream::Cursor> cursor{};  // none: the log is not here yet
    Time hoped_until{};
    int64_t room = 0;
    bool ticket = true;  // of a stream that is split: a block is asked for
    bool told = false;   // that it is here
  };

  void TakeWanted(NodeId from, const pb::WrittenWanted& wanted);
  void TakeWritten(NodeId from, std::string_view data);
  void Serve(const Key& key);
  bool Open(const Key& key, Served* served);
  void Send(NodeId to, const pb::PeerStreams& message, std::string_view data, wire::FilePiece piece);
  void Forget(const Key& key);
  void End(Key key, bool whole);
  void Hope();
  void Ask(NodeId to, const pb::PeerStreams& message);

  os::EventLoop* const loop_;
  stream::Spool* const spool_;
  Peers* peers_ = nullptr;
  StreamFeeds* feeds_ = nullptr;
  std::map<Key, Served> served_;
  std::unordered_multimap<AttemptId, Key> of_writer_;  // served_
  os::EventLoop::TimerId hope_timer_ = 0;
  uint64_t last_request_ = 0;
  std::unordered_map<uint64_t, NodeId> asked_;  // and of whom
  std::string buffer_;
  pb::PeerStreams received_;  // reused
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace harrow::agent
