#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/steps/task.h"
#include "base/ids.h"
#include "base/status.h"
#include "os/event_loop.h"
#include "os/posix_files.h"
#include "stream/merge.h"
#include "stream/spool.h"

namespace harrow::agent {

/// What other nodes' agents hold of streams, as those who read here ask for it. Of the loop's thread.
class StreamFetch {
 public:
  struct Wanted {
    StreamSource source{};
    AttemptId reader{};
    int64_t offset = 0;  // so much is here
    int64_t room = 0;    // so much may come, in all
  };
  virtual ~StreamFetch() = default;
  /// The request's number. Answers come later: StreamFeeds::Came, Over, Lost.
  virtual uint64_t Want(const Wanted& wanted) = 0;
  virtual void GiveRoom(uint64_t request, int64_t room) = 0;
  virtual void Unwant(uint64_t request) = 0;
};

/// Feeds the attempts of this node that read streams (how: stream_feeds.cc). Of the loop's thread.
class StreamFeeds {
 public:
  struct Hooks {
    /// What it has read is void, or cannot be had: it is to end. Once; what follows is Settle.
    std::function<void(AttemptId reader, const std::string& why)> rewind{};
  };
  /// `spool` and `fetch` outlive it.
  StreamFeeds(os::EventLoop* loop, stream::Spool* spool, StreamFetch* fetch, Hooks hooks);
  ~StreamFeeds();
  StreamFeeds(const StreamFeeds&) = delete;
  StreamFeeds& operator=(const StreamFeeds&) = delete;

  void SetSelf(NodeId node) { self_ = node; }
  /// The attempt is here, and has not begun.
  void Join(AttemptId reader, std::vector<StreamSource> sources);
  void Leave(AttemptId reader);
  /// It begins, or begins anew: `pipe` is a non-blocking end that leads to its standard input.
  void Begin(AttemptId reader, os::Fd pipe);
  /// The server says so; what it says of who is not here is ignored.
  void Change(AttemptId reader, const StreamSource& source);
  /// A log of this node was made, has grown, or has ended.
  void Grown(AttemptId writer);

  // Answers of StreamFetch:
  /// With no bytes: it is there, and nothing more is yet.
  void Came(uint64_t request, std::string bytes);
  /// All has come of an attempt that has succeeded; or what was asked for is not there.
  void Over(uint64_t request, bool whole);
  /// Its node cannot be reached.
  void Lost(uint64_t request);

  struct Verdict {
    bool rewound = false;
    std::string why{};
    std::vector<StreamSource> read{};
    bool to_end = false;  // it was told that nothing more comes
  };
  /// The attempt has ended: what it had read by then counts, and it is fed no more.
  Verdict Settle(AttemptId reader);

  /// Of who reads from other nodes, all together; for tests.
  int64_t buffered_bytes() const { return buffered_; }

 private:
  enum class State : uint8_t {
    kWaits,   // nothing runs, or the attempt has not begun
    kComes,   // it is read from
    kAbsent,  // it should be there, and is not, or cannot be reached
    kWhole,   // all of it was given
  };
  struct Source {
    StreamSource told{};
    State state = State::kWaits;
    bool survived = false;  // it was whole here when it was lost there
    bool ready = false;     // it is in Feed::ready
    int64_t given = 0;
    // On this node:
    std::unique_ptr<stream::Cursor> cursor{};
    // On another one:
    uint64_t request = 0;
    std::deque<std::string> chunks{};
    size_t head = 0;  // bytes of the first that were given
    int64_t here = 0, buffered = 0, room = 0;
    bool ticket = false;  // a block of a stream that is split was asked for
    bool over = false;    // what is buffered is the rest
    std::optional<Time> absent_since{};
  };
  struct Feed {
    Feed(AttemptId r, std::vector<StreamSource> told);
    AttemptId reader;
    std::vector<Source> sources{};
    stream::Merge merge;
    bool split = false;  // one of them is
    os::Fd pipe{};
    uint64_t watch = 0;  // in the epoll set; 0: not in it
    bool awaits_room = false;
    bool begun = false, closed = false, ended = false, rewound = false, settled = false, posted = false;
    size_t open = 0;  // sources that are not whole
    std::deque<uint32_t> ready{};
    stream::Filling filling{};
    std::string out{};
    size_t out_head = 0;
    std::string why{};
    bool live() const { return begun && !closed && !rewound && !settled; }
  };
  using FeedPtr = std::shared_ptr<Feed>;
  enum class Flow : uint8_t { kFull, kFree, kClosed };

  FeedPtr Find(AttemptId reader) const;
  void ChangeOpen(const FeedPtr& feed, const StreamSource& told);
  void Connect(const FeedPtr& feed, const StreamSource& told);
  void Open(const FeedPtr& feed, uint32_t index);
  void Shut(const FeedPtr& feed, uint32_t index);
  void ShutAll(const FeedPtr& feed);
  void Absent(const FeedPtr& feed, uint32_t index);
  void Rewind(const FeedPtr& feed, std::string why);
  void MakeReady(const FeedPtr& feed, uint32_t index);
  void PumpSoon(const FeedPtr& feed);
  void Pump(const FeedPtr& feed);
  Flow Flush(Feed& feed);
  void AwaitRoom(Feed& feed);
  /// Takes something of a source; false: nothing of it can be given now.
  bool Step(const FeedPtr& feed, uint32_t index, Flow* flow);
  bool StepLocal(const FeedPtr& feed, uint32_t index, Flow* flow);
  bool StepRemote(const FeedPtr& feed, uint32_t index);
  bool Splice(Feed& feed, Source& source, const stream::Range& range, Flow* flow, Status* failed);
  void Whole(Feed& feed, uint32_t index);
  void GiveRoom(Source& source);
  int64_t Window() const;
  void ClosePipe(Feed& feed);
  void LookAtPipes();
  void LookAtAbsent();
  void AwaitAbsent();

  os::EventLoop* const loop_;
  stream::Spool* const spool_;
  StreamFetch* const fetch_;
  const Hooks hooks_;
  NodeId self_{};
  std::unordered_map<AttemptId, FeedPtr> feeds_;
  using Place = std::pair<AttemptId, uint32_t>;        // a source of a reader
  std::unordered_multimap<AttemptId, Place> readers_;  // by writer, on this node
  std::unordered_map<uint64_t, Place> requests_;
  std::unordered_map<uint64_t, AttemptId> watched_;
  uint64_t last_watch_ = 0;
  os::Fd pipes_;  // an epoll set
  int64_t buffered_ = 0;
  std::string scratch_;
  os::EventLoop::TimerId absent_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace harrow::agent
