// A reader's standard input is a pipe that is filled here, without waiting: what cannot be written now is
// written when the kernel says that there is room. Of several sources each is looked at when it has
// something, in turn; stream::Merge says how much of it makes whole records. At most kChunk of a local source
// is in memory, for one reader at a time, and a single one is not at all: its bytes go from the file into the
// pipe (splice).
//
// From another node as much may come as there is room for: kBudget for all sources of all readers together,
// and no more than kLargestWindow for one. What was given makes room again. Of a stream that is split, a
// block is asked for when nothing of the one before is left and the pipe has room; the pipe of such a reader
// is so small that it has room when the reader has taken all. So who works gets the next block.
//
// The pipe is closed, which is the end of file, when every source is whole: its attempt has succeeded, by the
// word of the agent it ran on, and all its bytes were given. A source that is not there, or whose node cannot
// be reached, is asked for again every kAskAbsentAgain, from what has come; the server knows more, and says where
// the next attempt is. If it does not for kPatience, the reader gives up.
//
// A stream that is held open is a source, too, of which nothing comes. Others may be told as long as there is one that is not whole;
// a reader that has had its end of file, or something of what was a single source, has to begin anew for another one.
//
// What of a source was given to a reader cannot be taken back: if it becomes void, so does the attempt that
// reads it (Rewind). Its pipe stays open until it has ended, so that it does not take what it has for all.
#include "agent/stream_feeds.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/text.h"
#include "os/log.h"

namespace harrow::agent {
namespace {

constexpr int64_t kChunk = 64 << 10;
constexpr int64_t kAtOnce = 1 << 20;  // bytes for one reader, before others have their turn
constexpr int64_t kBudget = 64 << 20;
constexpr int64_t kLeastWindow = 4 << 10, kLargestWindow = 1 << 20;
constexpr int64_t kSplitWindow = 64 << 10;  // the largest block
constexpr Duration kAskAbsentAgain = std::chrono::seconds(1);
constexpr Duration kPatience = std::chrono::seconds(60);

/// What is kept of each source until a record has ended.
size_t MostOfARecord(size_t sources) {
  return static_cast<size_t>(
      std::clamp(kBudget / std::max<int64_t>(1, static_cast<int64_t>(sources)), kLeastWindow, kChunk));
}

bool SameAttempt(const StreamSource& a, const StreamSource& b) {
  return a.writer == b.writer && a.node == b.node;
}

}  // namespace

StreamFeeds::Feed::Feed(AttemptId r, std::vector<StreamSource> told)
    : reader(r), merge(0, MostOfARecord(told.size())) {
  for (StreamSource& source : told) {
    split = split || source.split;
    if (source.over) continue;
    merge.Add();
    sources.emplace_back();
    sources.back().told = source;
  }
  open = sources.size();
}

StreamFeeds::StreamFeeds(os::EventLoop* loop, stream::Spool* spool, StreamFetch* fetch, Hooks hooks)
    : loop_(loop),
      spool_(spool),
      fetch_(fetch),
      hooks_(std::move(hooks)),
      pipes_(epoll_create1(EPOLL_CLOEXEC)) {
  if (pipes_.ok()) loop_->WatchFd(pipes_.get(), [this] { LookAtPipes(); });
}

StreamFeeds::~StreamFeeds() {
  if (pipes_.ok()) loop_->UnwatchFd(pipes_.get());
  loop_->CancelTimer(absent_timer_);
}

StreamFeeds::FeedPtr StreamFeeds::Find(AttemptId reader) const {
  const auto found = feeds_.find(reader);
  return found == feeds_.end() ? nullptr : found->second;
}

// --- attempts

void StreamFeeds::Join(AttemptId reader, std::vector<StreamSource> sources) {
  Leave(reader);
  feeds_[reader] = std::make_shared<Feed>(reader, std::move(sources));
}

void StreamFeeds::Leave(AttemptId reader) {
  const FeedPtr feed = Find(reader);
  if (feed == nullptr) return;
  ShutAll(feed);
  ClosePipe(*feed);
  feeds_.erase(reader);
}

void StreamFeeds::Begin(AttemptId reader, os::Fd pipe) {
  const FeedPtr feed = Find(reader);
  if (feed == nullptr || feed->rewound) return;
  if (feed->begun) {  // what it was given then, no process has read
    std::vector<StreamSource> told;
    for (const Source& source : feed->sources) told.push_back(source.told);
    return Join(reader, std::move(told)), Begin(reader, std::move(pipe));
  }
  feed->begun = true;
  feed->pipe = std::move(pipe);
  epoll_event event{};
  event.data.u64 = feed->watch = ++last_watch_;  // of what cannot be left out: it has closed its end
  if (epoll_ctl(pipes_.get(), EPOLL_CTL_ADD, feed->pipe.get(), &event) != 0)
    return Rewind(feed, StrCat("its streams cannot be watched: ", strerror(errno)));
  watched_[feed->watch] = reader;
  for (uint32_t i = 0; i < feed->sources.size() && feed->live(); ++i) Open(feed, i);
  PumpSoon(feed);
}

StreamFeeds::Verdict StreamFeeds::Settle(AttemptId reader) {
  const FeedPtr feed = Find(reader);
  if (feed == nullptr) return {};
  ShutAll(feed);
  ClosePipe(*feed);
  feed->settled = true;
  Verdict verdict{.rewound = feed->rewound, .why = feed->why, .to_end = feed->ended};
  for (const Source& source : feed->sources) {
    if (source.told.open) continue;
    if (source.given > 0 || source.state == State::kWhole) verdict.read.push_back(source.told);
  }
  return verdict;
}

void StreamFeeds::Rewind(const FeedPtr& feed, std::string why) {
  if (feed->rewound || feed->settled) return;
  feed->rewound = true;
  feed->why = std::move(why);
  ShutAll(feed);
  if (hooks_.rewind) hooks_.rewind(feed->reader, feed->why);
}

// --- sources

void StreamFeeds::Change(AttemptId reader, const StreamSource& told) {
  const FeedPtr feed = Find(reader);
  if (feed == nullptr || feed->settled || feed->rewound) return;
  if (told.open) return ChangeOpen(feed, told);
  const auto found = std::find_if(feed->sources.begin(), feed->sources.end(), [&](const Source& s) {
    return s.told.stream == told.stream && s.told.writer.task == told.writer.task;
  });
  if (found == feed->sources.end()) return Connect(feed, told);
  Source& source = *found;
  const auto index = static_cast<uint32_t>(found - feed->sources.begin());
  if (source.survived) return;
  if (!told.node && told.gone) {
    if (source.state == State::kWhole) {
      source.survived = true;
      return;
    }
    return Rewind(feed,
                  StrCat("what task ", told.writer.task.value, " wrote to a stream that it reads was lost"));
  }
  if (SameAttempt(source.told, told)) return;
  const bool seen = source.given > 0 || (source.state == State::kWhole && feed->ended);
  if (seen) {
    return Rewind(feed, StrCat("task ", told.writer.task.value,
                               " did not succeed, and had written to a stream that it reads"));
  }
  Shut(feed, index);
  if (source.state == State::kWhole) ++feed->open;
  source = Source();
  source.told = told;
  if (feed->live()) Open(feed, index);
  PumpSoon(feed);
}

/// A stream that it reads is held open, or no more.
void StreamFeeds::ChangeOpen(const FeedPtr& feed, const StreamSource& told) {
  if (told.gone) return Rewind(feed, "other tasks need its slot, and a stream that it reads is open");
  const auto found = std::find_if(feed->sources.begin(), feed->sources.end(), [&](const Source& s) {
    return s.told.open && s.told.stream == told.stream && s.state != State::kWhole;
  });
  if (told.over && found != feed->sources.end()) {
    found->told.over = true;
    Whole(*feed, static_cast<uint32_t>(found - feed->sources.begin()));
    PumpSoon(feed);
  } else if (!told.over && found == feed->sources.end() && !feed->ended) {
    Connect(feed, told);
  }
}

/// One more source.
void StreamFeeds::Connect(const FeedPtr& feed, const StreamSource& told) {
  if (told.gone) return Rewind(feed, StrCat("what task ", told.writer.task.value, " wrote to a stream that it reads was lost"));
  const bool in_a_record = feed->sources.size() == 1 && feed->sources[0].given > 0;
  if (feed->ended || in_a_record)
    return Rewind(feed, StrCat("task ", told.writer.task.value, " was connected to a stream that it had been reading"));
  feed->merge.Add();
  feed->sources.emplace_back();
  feed->sources.back().told = told;
  ++feed->open;
  if (feed->live()) Open(feed, static_cast<uint32_t>(feed->sources.size() - 1));
  PumpSoon(feed);
}

void StreamFeeds::Open(const FeedPtr& feed, uint32_t index) {
  Source& source = feed->sources[index];
  if (!source.told.node) return;
  if (source.told.node == self_) {
    if (source.state == State::kWaits) readers_.emplace(source.told.writer, Place(feed->reader, index));
    const std::shared_ptr<stream::Log> log = spool_->Find(source.told.writer);
    if (log == nullptr) return Absent(feed, index);
    source.cursor =
        std::make_unique<stream::Cursor>(spool_, stream::Cursor::Of{.log = log,
                                                                    .stream = source.told.stream,
                                                                    .split = source.told.split,
                                                                    .records = source.told.records,
                                                                    .reader = feed->reader.task,
                                                                    .offset = source.given});
    source.absent_since.reset();
  } else {
    source.room = source.here + (source.told.split ? kSplitWindow : Window());
    source.ticket = source.told.split;
    source.request = fetch_->Want(
        {.source = source.told, .reader = feed->reader, .offset = source.here, .room = source.room});
    requests_[source.request] = {feed->reader, index};
  }
  source.state = State::kComes;
  MakeReady(feed, index);
}

void StreamFeeds::Shut(const FeedPtr& feed, uint32_t index) {
  Source& source = feed->sources[index];
  const auto [begin, end] = readers_.equal_range(source.told.writer);
  for (auto it = begin; it != end;) {
    it = it->second == Place(feed->reader, index) ? readers_.erase(it) : std::next(it);
  }
  source.cursor.reset();
  if (source.request != 0) {
    requests_.erase(source.request);
    fetch_->Unwant(std::exchange(source.request, 0));
  }
  buffered_ -= source.buffered;
  source.buffered = 0;
  source.chunks.clear();
}

void StreamFeeds::ShutAll(const FeedPtr& feed) {
  for (uint32_t i = 0; i < feed->sources.size(); ++i) Shut(feed, i);
}

void StreamFeeds::Absent(const FeedPtr& feed, uint32_t index) {
  Source& source = feed->sources[index];
  source.cursor.reset();
  source.state = State::kAbsent;
  if (!source.absent_since) source.absent_since = loop_->Now();
  AwaitAbsent();
}

void StreamFeeds::AwaitAbsent() {
  if (absent_timer_ == 0) absent_timer_ = loop_->After(kAskAbsentAgain, [this] { LookAtAbsent(); });
}

void StreamFeeds::LookAtAbsent() {
  absent_timer_ = 0;
  std::vector<FeedPtr> feeds;
  for (const auto& [reader, feed] : feeds_) {
    if (feed->live()) feeds.push_back(feed);
  }
  for (const FeedPtr& feed : feeds) {
    for (uint32_t i = 0; i < feed->sources.size() && feed->live(); ++i) {
      Source& source = feed->sources[i];
      if (!source.absent_since) continue;
      if (loop_->Now() - *source.absent_since >= kPatience) {
        Rewind(feed,
               StrCat("what task ", source.told.writer.task.value,
                      " writes to a stream that it reads cannot be had from node ", source.told.node.value));
        continue;
      }
      if (source.state == State::kAbsent) Open(feed, i);
      AwaitAbsent();
    }
    PumpSoon(feed);
  }
}

void StreamFeeds::Grown(AttemptId writer) {
  std::vector<Place> places;
  const auto [begin, end] = readers_.equal_range(writer);
  for (auto it = begin; it != end; ++it) places.push_back(it->second);
  for (const auto& [reader, index] : places) {
    const FeedPtr feed = Find(reader);
    if (feed == nullptr || !feed->live()) continue;
    if (feed->sources[index].state == State::kAbsent) Open(feed, index);
    MakeReady(feed, index);
    Pump(feed);
  }
}

void StreamFeeds::Came(uint64_t request, std::string bytes) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const auto [reader, index] = found->second;
  const FeedPtr feed = Find(reader);
  Source& source = feed->sources[index];
  source.absent_since.reset();
  if (bytes.empty()) return;
  const auto size = static_cast<int64_t>(bytes.size());
  source.here += size;
  source.buffered += size;
  buffered_ += size;
  source.ticket = false;
  source.chunks.push_back(std::move(bytes));
  MakeReady(feed, index);
  Pump(feed);
}

void StreamFeeds::Over(uint64_t request, bool whole) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const auto [reader, index] = found->second;
  requests_.erase(found);
  const FeedPtr feed = Find(reader);
  Source& source = feed->sources[index];
  source.request = 0;
  if (!whole) return Absent(feed, index);
  source.over = true;
  source.absent_since.reset();
  MakeReady(feed, index);
  Pump(feed);
}

void StreamFeeds::Lost(uint64_t request) {
  Over(request, false);
}

int64_t StreamFeeds::Window() const {
  const auto sources = static_cast<int64_t>(requests_.size() + 1);
  return std::clamp(kBudget / sources, kLeastWindow, kLargestWindow);
}

void StreamFeeds::GiveRoom(Source& source) {
  if (source.request == 0) return;
  if (source.told.split) {
    if (source.ticket) return;
    source.ticket = true;
    source.room = source.here + kSplitWindow;
    return fetch_->GiveRoom(source.request, source.room);
  }
  const int64_t taken = source.here - source.buffered, window = Window();
  if (source.room - taken > window / 2) return;
  source.room = taken + window;
  fetch_->GiveRoom(source.request, source.room);
}

// --- pipes

void StreamFeeds::MakeReady(const FeedPtr& feed, uint32_t index) {
  Source& source = feed->sources[index];
  if (source.ready) return;
  source.ready = true;
  feed->ready.push_back(index);
}

void StreamFeeds::PumpSoon(const FeedPtr& feed) {
  if (std::exchange(feed->posted, true)) return;
  loop_->Post([this, feed, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    feed->posted = false;
    Pump(feed);
  });
}

void StreamFeeds::ClosePipe(Feed& feed) {
  if (feed.watch != 0) {
    watched_.erase(feed.watch);
    (void)epoll_ctl(pipes_.get(), EPOLL_CTL_DEL, feed.pipe.get(), nullptr);
  }
  feed.watch = 0;
  feed.pipe = os::Fd();
  feed.out.clear();
}

void StreamFeeds::AwaitRoom(Feed& feed) {
  if (std::exchange(feed.awaits_room, true)) return;
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.u64 = feed.watch;
  (void)epoll_ctl(pipes_.get(), EPOLL_CTL_MOD, feed.pipe.get(), &event);
}

void StreamFeeds::LookAtPipes() {
  epoll_event events[64];
  const int count = epoll_wait(pipes_.get(), events, 64, 0);
  for (int i = 0; i < count; ++i) {
    const auto found = watched_.find(events[i].data.u64);
    const FeedPtr feed = found == watched_.end() ? nullptr : Find(found->second);
    if (feed == nullptr) continue;
    if ((events[i].events & EPOLLERR) != 0) {  // it reads no more, which is its own affair
      feed->closed = true;
      ShutAll(feed);
      ClosePipe(*feed);
      continue;
    }
    epoll_event quiet{};
    quiet.data.u64 = feed->watch;
    (void)epoll_ctl(pipes_.get(), EPOLL_CTL_MOD, feed->pipe.get(), &quiet);
    feed->awaits_room = false;
    Pump(feed);
  }
}

StreamFeeds::Flow StreamFeeds::Flush(Feed& feed) {
  while (feed.filling.count > 0 || feed.out_head < feed.out.size()) {
    ssize_t n = 0;
    if (feed.filling.count > 0) {
      const std::string fill(static_cast<size_t>(std::min<uint64_t>(feed.filling.count, 4096)),
                             feed.filling.byte);
      n = TEMP_FAILURE_RETRY(write(feed.pipe.get(), fill.data(), fill.size()));
      if (n > 0) feed.filling.count -= static_cast<uint64_t>(n);
    } else {
      n = TEMP_FAILURE_RETRY(write(feed.pipe.get(), feed.out.data() + feed.out_head, feed.out.size() - feed.out_head));
      if (n > 0) feed.out_head += static_cast<size_t>(n);
    }
    if (n < 0) return errno == EAGAIN ? Flow::kFull : Flow::kClosed;
  }
  feed.out.clear();
  if (!feed.split) return Flow::kFree;
  pollfd room = {feed.pipe.get(), POLLOUT, 0};
  if (poll(&room, 1, 0) <= 0 || (room.revents & POLLOUT) == 0) return Flow::kFull;
  return Flow::kFree;
}

void StreamFeeds::Pump(const FeedPtr& feed) {
  if (!feed->live() || feed->ended || feed->awaits_room) return;
  Flow flow = Flow::kFree;
  int64_t budget = kAtOnce;
  while ((flow = Flush(*feed)) == Flow::kFree) {
    const std::optional<size_t> held = feed->merge.held_by();
    if (!held && feed->ready.empty()) break;
    if (budget <= 0) return PumpSoon(feed);
    const auto index = held ? static_cast<uint32_t>(*held) : feed->ready.front();
    const int64_t before = feed->sources[index].given;
    const bool any = Step(feed, index, &flow);
    if (!feed->live() || flow != Flow::kFree) break;
    budget -= feed->sources[index].given - before;
    if (!held || !any) {  // it has had its turn
      Source& source = feed->sources[index];
      if (!held) {
        feed->ready.pop_front();
        source.ready = false;
      }
      if (any) MakeReady(feed, index);
      if (held && !any) break;  // nothing of another one may be given
    }
  }
  if (!feed->live()) return;
  if (flow == Flow::kFull) return AwaitRoom(*feed);
  if (flow == Flow::kClosed) {
    feed->closed = true;
    ShutAll(feed);
    return ClosePipe(*feed);
  }
  if (feed->open == 0) {
    feed->ended = true;
    ClosePipe(*feed);
  }
}

bool StreamFeeds::Step(const FeedPtr& feed, uint32_t index, Flow* flow) {
  Source& source = feed->sources[index];
  if (source.state == State::kWhole) return false;
  return source.cursor ? StepLocal(feed, index, flow) : StepRemote(feed, index);
}

void StreamFeeds::Whole(Feed& feed, uint32_t index) {
  Source& source = feed.sources[index];
  source.state = State::kWhole;
  source.cursor.reset();
  (void)feed.merge.Next(index, source.told.records, {}, true);
  --feed.open;
}

bool StreamFeeds::Splice(Feed& feed, Source& source, const stream::Range& range, Flow* flow, Status* failed) {
  Result<std::shared_ptr<stream::LogReader>> reader = source.cursor->Read();
  if (!reader.ok()) {
    *failed = reader.status();
    return false;
  }
  off64_t at = range.offset;
  const ssize_t n = TEMP_FAILURE_RETRY(splice((*reader)->fd(), &at, feed.pipe.get(), nullptr, static_cast<size_t>(range.bytes),
                                            SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
  if (n > 0) {
    source.cursor->Advance(n);
    source.given += n;
    return true;
  }
  if (n < 0 && errno == EAGAIN) {
    *flow = Flow::kFull;
  } else if (n < 0 && errno == EPIPE) {
    *flow = Flow::kClosed;
  } else {
    *failed = Status(Code::kDamaged, StrCat("what was written to streams cannot be read again: ",
                                            n == 0 ? "the file has become shorter" : strerror(errno)));
  }
  return false;
}

bool StreamFeeds::StepLocal(const FeedPtr& feed, uint32_t index, Flow* flow) {
  Source& source = feed->sources[index];
  stream::Cursor& cursor = *source.cursor;
  const bool alone = feed->sources.size() == 1 && !cursor.split();
  Status failed;
  const auto give_up = [&] {
    if (failed.code() == Code::kUnavailable) {  // of descriptors there may be more soon
      Absent(feed, index);
    } else {
      Rewind(feed, failed.message());
    }
    return false;
  };
  for (bool watched = false;; watched = true) {
    const stream::Log& log = *cursor.log();
    const Result<stream::Range> range = cursor.Next(alone ? kAtOnce : kChunk);
    if (!range.ok()) {
      failed = range.status();
      return give_up();
    }
    if (cursor.over()) {
      Whole(*feed, index);
      return true;
    }
    if (cursor.failed()) {
      Absent(feed, index);
      return false;
    }
    size_t given = 0;
    if (range->bytes > 0 && alone) {
      const bool any = Splice(*feed, source, *range, flow, &failed);
      return failed.ok() ? any : give_up();
    }
    if (range->bytes > 0) {
      Result<std::shared_ptr<stream::LogReader>> reader = cursor.Read();
      if (!reader.ok()) {
        failed = reader.status();
        return give_up();
      }
      scratch_.resize(static_cast<size_t>(range->bytes));
      failed = stream::ReadAll((*reader)->fd(), range->offset, scratch_.data(), scratch_.size());
      if (!failed.ok()) return give_up();
      const bool last =
          log.state() == stream::Log::State::kWhole && range->offset + range->bytes == log.length();
      const stream::Merge::Part part = feed->merge.Next(index, source.told.records, scratch_, last);
      feed->filling = part.before;
      given = part.bytes;
    }
    if (given > 0) {
      feed->out.assign(scratch_, 0, given);
      feed->out_head = 0;
      cursor.Advance(static_cast<int64_t>(given));
      source.given += static_cast<int64_t>(given);
      return true;
    }
    if (watched) return false;
    cursor.log()->Watch();
  }
}

bool StreamFeeds::StepRemote(const FeedPtr& feed, uint32_t index) {
  Source& source = feed->sources[index];
  while (!source.chunks.empty()) {
    std::string& first = source.chunks.front();
    const bool last = source.over && source.chunks.size() == 1;
    const std::string_view bytes = std::string_view(first).substr(source.head);
    const stream::Merge::Part part = feed->merge.Next(index, source.told.records, bytes, last);
    if (part.bytes == 0) {
      if (source.chunks.size() == 1) break;
      first.erase(0, source.head);
      source.head = 0;
      std::string next = std::move(source.chunks[1]);
      source.chunks.erase(source.chunks.begin() + 1);
      source.chunks.front() += next;
      continue;
    }
    feed->filling = part.before;
    const auto given = static_cast<int64_t>(part.bytes);
    if (source.head == 0 && part.bytes == first.size()) {
      feed->out = std::move(first);
    } else {
      feed->out.assign(bytes.substr(0, part.bytes));
    }
    feed->out_head = 0;
    source.head += part.bytes;
    if (part.bytes == bytes.size()) {
      source.chunks.pop_front();
      source.head = 0;
    }
    source.given += given;
    source.buffered -= given;
    buffered_ -= given;
    if (!source.told.split) GiveRoom(source);
    return true;
  }
  if (source.over && source.chunks.empty()) {
    Whole(*feed, index);
    return true;
  }
  // It may be in mid-record, and has to have the rest of it.
  if (!source.told.split && source.here == source.room && source.request != 0) {
    source.room += Window();
    fetch_->GiveRoom(source.request, source.room);
  } else {
    GiveRoom(source);
  }
  return false;
}

}  // namespace harrow::agent
