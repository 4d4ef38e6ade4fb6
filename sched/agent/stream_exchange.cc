// A request names a writer's attempt, where to go on, and how much may come; it stands until it is over.
// Whoever reads gives more room as what came is taken, so that what is on its way is bounded, and nobody
// waits for a reader: what nobody takes stays in its log. Pieces above kSmall are read from the log when the
// kernel can take them (wire::FilePiece). All answers go the same way, as contents of files do, so that they
// stay in their order; what asks for something is believed over TLS alone.
//
// Of a stream that is split, one block is given for each time that room is given, however much room that is
// (stream_feeds.cc says when it is).
//
// A request may come before its writer's agent has been told to start the attempt. So what is not here is
// hoped for, for kHope, before it is said to be absent.
#include "agent/stream_exchange.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "os/log.h"
#include "wire/attempt_id.h"
#include "wire/decode.h"
#include "wire/frame.h"

namespace harrow::agent {
namespace {

constexpr int64_t kMostOfAMessage = 256 << 10;
constexpr int64_t kSmall = 32 << 10;
constexpr size_t kMostServed = 64u << 10;  // requests
constexpr Duration kHope = std::chrono::seconds(2);

}  // namespace

StreamExchange::StreamExchange(os::EventLoop* loop, stream::Spool* spool) : loop_(loop), spool_(spool) {}

StreamExchange::~StreamExchange() {
  loop_->CancelTimer(hope_timer_);
  if (peers_ != nullptr) peers_->Serve(Service::kStreams, {});
}

void StreamExchange::Connect(Peers* peers) {
  peers_ = peers;
  peers_->Serve(Service::kStreams, {.on_message = [this](NodeId from, std::string_view message,
                                                         bool sealed) { Take(from, message, sealed); },
                                    .on_gone = [this](NodeId node, const Status&) { Gone(node); },
                                    .on_sent = {}});
}

// --- asking

void StreamExchange::Ask(NodeId to, const pb::PeerStreams& message) {
  std::string bytes;
  wire::AppendFrame(message.SerializeAsString(), &bytes);
  peers_->Send(to, Service::kStreams, bytes);
}

uint64_t StreamExchange::Want(const Wanted& wanted) {
  const uint64_t request = ++last_request_;
  asked_[request] = wanted.source.node;
  if (peers_ == nullptr) {  // there is no way to other nodes
    loop_->Post([this, request, alive = std::weak_ptr(alive_)] {
      if (!alive.expired() && asked_.erase(request) > 0) feeds_->Lost(request);
    });
    return request;
  }
  pb::PeerStreams message;
  pb::WrittenWanted* const out = message.add_wanted();
  out->set_request(request);
  wire::SetId(wanted.source.writer, out->mutable_writer());
  wire::SetId(wanted.reader, out->mutable_reader());
  out->set_stream(wanted.source.stream.value);
  out->set_split(wanted.source.split);
  out->set_records(wanted.source.records);
  out->set_offset(wanted.offset);
  out->set_room(wanted.room);
  Ask(wanted.source.node, message);
  return request;
}

void StreamExchange::GiveRoom(uint64_t request, int64_t room) {
  const auto found = asked_.find(request);
  if (found == asked_.end() || peers_ == nullptr) return;
  pb::PeerStreams message;
  message.add_room()->set_request(request);
  message.mutable_room(0)->set_room(room);
  Ask(found->second, message);
}

void StreamExchange::Unwant(uint64_t request) {
  const auto found = asked_.find(request);
  if (found == asked_.end()) return;
  pb::PeerStreams message;
  message.add_unwanted(request);
  const NodeId node = found->second;
  asked_.erase(found);
  if (peers_ != nullptr) Ask(node, message);
}

// --- answering

bool StreamExchange::Open(const Key& key, Served* served) {
  if (served->cursor) return true;
  const pb::WrittenWanted& wanted = served->wanted;
  const std::shared_ptr<stream::Log> log = spool_->Find(wire::IdOf(wanted.writer()));
  if (log == nullptr) {
    if (loop_->Now() >= served->hoped_until) {
      End(key, false);
    } else if (hope_timer_ == 0) {
      hope_timer_ = loop_->After(kHope, [this] { Hope(); });
    }
    return false;
  }
  served->cursor =
      std::make_unique<stream::Cursor>(spool_, stream::Cursor::Of{.log = log,
                                                                  .stream = StreamId(wanted.stream()),
                                                                  .split = wanted.split(),
                                                                  .records = wanted.records(),
                                                                  .reader = TaskId(wanted.reader().task()),
                                                                  .offset = wanted.offset()});
  return true;
}

void StreamExchange::Hope() {
  hope_timer_ = 0;
  std::vector<Key> waiting;
  for (const auto& [key, served] : served_) {
    if (!served.cursor) waiting.push_back(key);
  }
  for (const Key& key : waiting) Serve(key);
}

void StreamExchange::TakeWanted(NodeId from, const pb::WrittenWanted& wanted) {
  const Key key(from, wanted.request());
  if (served_.contains(key)) return;
  const AttemptId writer = wire::IdOf(wanted.writer());
  Served& served = served_[key];
  served.wanted = wanted;
  served.hoped_until = loop_->Now() + kHope;
  served.room = wanted.room();
  of_writer_.emplace(writer, key);
  if (served_.size() > kMostServed) {
    os::LogWarning(StrCat("the agent of node ", from.value, " asks for a stream, and ", kMostServed,
                          " are given already"));
    return End(key, false);
  }
  Serve(key);
}

void StreamExchange::Forget(const Key& key) {
  const auto found = served_.find(key);
  const auto [begin, end] = of_writer_.equal_range(wire::IdOf(found->second.wanted.writer()));
  const auto of = std::find_if(begin, end, [&](const auto& entry) { return entry.second == key; });
  if (of != end) of_writer_.erase(of);
  served_.erase(found);
}

void StreamExchange::End(Key key, bool whole) {
  Forget(key);
  pb::PeerStreams message;
  pb::Written* const written = message.add_written();
  written->set_request(key.second);
  written->set_over(true);
  written->set_whole(whole);
  written->set_absent(!whole);
  Send(key.first, message, {}, {});
}

void StreamExchange::Serve(const Key& key) {
  const auto found = served_.find(key);
  if (found == served_.end()) return;
  Served& served = found->second;
  if (!Open(key, &served)) return;
  stream::Cursor& cursor = *served.cursor;
  for (bool watched = false;;) {
    const bool may = cursor.split() ? served.ticket : served.room > cursor.offset();
    // Whether it is over is to be told without any room.
    const int64_t most = !may             ? 0
                         : cursor.split() ? kMostOfAMessage
                                          : std::min(served.room - cursor.offset(), kMostOfAMessage);
    if (most == 0 && (cursor.split() || cursor.offset() < cursor.log()->length())) return;
    const Result<stream::Range> range = cursor.Next(most);
    if (!range.ok()) {
      os::LogWarning(StrCat("to node ", key.first.value, ": ", range.status().message()));
      return End(key, false);
    }
    if (cursor.over() || cursor.failed()) return End(key, cursor.over());
    pb::PeerStreams message;
    pb::Written* const written = message.add_written();
    written->set_request(key.second);
    if (range->bytes == 0) {
      if (!std::exchange(served.told, true)) Send(key.first, message, {}, {});
      if (watched) return;
      watched = true;
      cursor.log()->Watch();
      continue;
    }
    Result<std::shared_ptr<stream::LogReader>> reader = cursor.Read();
    if (!reader.ok()) {
      os::LogWarning(StrCat("to node ", key.first.value, ": ", reader.status().message()));
      return End(key, false);
    }
    written->set_length(static_cast<uint32_t>(range->bytes));
    served.told = true;
    if (range->bytes > kSmall) {
      Send(key.first, message, {},
           {.owner = *reader,
            .fd = (*reader)->fd(),
            .offset = range->offset,
            .length = static_cast<uint32_t>(range->bytes)});
    } else {
      buffer_.resize(static_cast<size_t>(range->bytes));
      const Status read = stream::ReadAll((*reader)->fd(), range->offset, buffer_.data(), buffer_.size());
      if (!read.ok()) {
        os::LogWarning(StrCat("to node ", key.first.value, ": ", read.message()));
        return End(key, false);
      }
      Send(key.first, message, buffer_, {});
    }
    cursor.Advance(range->bytes);
    served.ticket = false;
    watched = false;
  }
}

void StreamExchange::Send(NodeId to, const pb::PeerStreams& message, std::string_view data,
                          wire::FilePiece piece) {
  std::string bytes;
  wire::AppendFrame(message.SerializeAsString(), &bytes);
  bytes += data;
  peers_->SendBulk(to, Service::kStreams, bytes, std::move(piece));
}

void StreamExchange::Grown(AttemptId writer) {
  std::vector<Key> keys;
  const auto [begin, end] = of_writer_.equal_range(writer);
  for (auto it = begin; it != end; ++it) keys.push_back(it->second);
  for (const Key& key : keys) Serve(key);
}

// --- what comes

void StreamExchange::Take(NodeId from, std::string_view bytes, bool sealed) {
  std::string_view data;
  const auto message = wire::TakeFrame(bytes, &data);
  if (!message) return peers_->HangUp(from, Status(Code::kDamaged, "a message of streams is shorter than it says"));
  if (const Status read = wire::Decode(*message, data.size(), &received_); !read.ok())
    return peers_->HangUp(from, read);
  TakeWritten(from, data);
  if (!sealed) return;
  for (const uint64_t request : received_.unwanted()) {
    const auto found = served_.find({from, request});
    if (found != served_.end()) Forget(Key(found->first));
  }
  for (const pb::WrittenRoom& room : received_.room()) {
    const auto found = served_.find({from, room.request()});
    if (found == served_.end()) continue;
    found->second.room = std::max(found->second.room, room.room());
    found->second.ticket = true;
    Serve(Key(found->first));
  }
  for (const pb::WrittenWanted& wanted : received_.wanted()) TakeWanted(from, wanted);
}

void StreamExchange::TakeWritten(NodeId from, std::string_view data) {
  for (const pb::Written& written : received_.written()) {
    const std::string_view bytes = data.substr(0, written.length());
    data.remove_prefix(bytes.size());
    const auto found = asked_.find(written.request());
    if (found == asked_.end() || found->second != from) continue;
    if (!written.over() || !bytes.empty()) feeds_->Came(written.request(), std::string(bytes));
    if (!written.over() || asked_.erase(written.request()) == 0) continue;
    feeds_->Over(written.request(), written.whole());
  }
}

void StreamExchange::Gone(NodeId node) {
  for (auto it = served_.lower_bound({node, 0}); it != served_.end() && it->first.first == node;) {
    const Key key = (it++)->first;
    Forget(key);
  }
  std::vector<uint64_t> lost;
  for (const auto& [request, asked] : asked_) {
    if (asked == node) lost.push_back(request);
  }
  // What was said after the channel had ended, and before it was told here, may have arrived.
  for (const uint64_t request : lost) {
    if (!asked_.contains(request)) continue;
    Unwant(request);
    feeds_->Lost(request);
  }
}

}  // namespace harrow::agent
