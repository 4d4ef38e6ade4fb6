// Askers take turns: one message each, as long as what is queued for it is below kMostQueued. So an asker
// that takes nothing costs kMostQueued of queue, and nothing of the others' turns. Pieces of large objects
// are read from their file when the kernel can take them (wire::FilePiece); small objects are read here and
// leave many in a message.
//
// A piece that is not here yet, because the object still arrives, waits for it (store::Reader::WhenBeyond)
// while others go on; the asker is told from time to time that it has not been forgotten. So objects go
// through a chain or tree of nodes as fast as through one.
//
// What is not here at all waits as well while it is on its way here, and for kNotFoundAfter otherwise: the
// server may have told the asker before it tells this node.
#include "agent/serving.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "wire/decode.h"
#include "wire/frame.h"

namespace harrow::agent {
namespace {

constexpr size_t kMostQueued = 1u << 20;  // bytes for one asker
constexpr int64_t kPiece = 256 << 10;     // of a large object, at once
constexpr int64_t kSmall = 32 << 10;      // is read here
constexpr size_t kGathered = 256u << 10;  // small pieces of one message
constexpr size_t kMostRequests = 4096;    // of one asker
constexpr Duration kNotFoundAfter = std::chrono::milliseconds(500);
constexpr Duration kLookForHoped = std::chrono::milliseconds(100);
constexpr Duration kSayWaiting = std::chrono::seconds(2);

void AddError(pb::PeerTransfer* message, uint64_t request, const Status& why) {
  pb::Piece* piece = message->add_piece();
  piece->set_request(request);
  piece->set_error(static_cast<uint32_t>(why.code()));
  piece->set_why(why.message());
}

}  // namespace

std::string TransferHead(const pb::PeerTransfer& message) {
  std::string head;
  const size_t size = message.ByteSizeLong();
  head.reserve(size + 4);
  wire::AppendFrameHead(static_cast<uint32_t>(size), &head);
  message.AppendToString(&head);
  return head;
}

Serving::Serving(os::EventLoop* loop, Peers& peers, store::Store& store)
    : loop_(loop), peers_(peers), store_(store), post_(std::make_shared<PostBack>(loop)) {}

Serving::~Serving() {
  post_->Stop();
  loop_->CancelTimer(waiting_timer_);
  loop_->CancelTimer(hoped_timer_);
}

void Serving::Wanted(NodeId from, const pb::PieceWanted& wanted) {
  Asker& asker = askers_[from];
  const auto id = store::ObjectId::FromBytes(wanted.object());
  Status refused;
  if (!id) refused = Status(Code::kInvalid, "an object without a name was asked for");
  if (asker.queue.size() + asker.waiting.size() >= kMostRequests)
    refused = Status(Code::kExhausted, StrCat("more than ", kMostRequests, " pieces were asked for at once"));
  if (!refused.ok()) {
    pb::PeerTransfer message;
    AddError(&message, wanted.request(), refused);
    return Send(from, message, {}, {}, false);
  }
  asker.queue.push_back(
      {.request = wanted.request(), .id = *id, .offset = wanted.offset(), .length = wanted.length()});
  Wake();
}

void Serving::Unwanted(NodeId from, uint64_t request) {
  const auto found = askers_.find(from);
  if (found == askers_.end()) return;
  found->second.waiting.erase(request);
  std::erase_if(found->second.queue, [request](const Item& item) { return item.request == request; });
}

void Serving::Gone(NodeId from) {
  askers_.erase(from);
}

void Serving::Sent(NodeId) {
  Pump();
}

// Once a turn of the loop, so that what is asked for together is answered together.
void Serving::Wake() {
  if (std::exchange(awake_, true)) return;
  post_->Post([this] {
    awake_ = false;
    Pump();
  });
}

void Serving::Pump() {
  for (bool any = true; any;) {
    any = false;
    std::vector<NodeId> turn;
    for (const auto& [id, asker] : askers_) {
      if (!asker.queue.empty()) turn.push_back(id);
    }
    const auto next = std::upper_bound(turn.begin(), turn.end(), last_ ? last_ : NodeId(0));
    if (last_) std::rotate(turn.begin(), next, turn.end());
    for (const NodeId id : turn) {
      if (peers_.unsent_bytes(id) >= kMostQueued) continue;
      SendNext(id, &askers_[id]);
      last_ = id;
      any = true;
    }
  }
  std::erase_if(readers_, [](const auto& reader) { return reader.second.expired(); });
}

Status Serving::Open(Item* item) {
  item->reader = readers_[item->id].lock();
  if (!item->reader) {
    Result<std::unique_ptr<store::Reader>> reader = store_.Read(item->id);
    if (!reader.ok()) return reader.status();
    item->reader = *std::move(reader);
    readers_[item->id] = item->reader;
  }
  const int64_t bytes = item->reader->bytes();
  item->end = item->length == 0 ? bytes : item->offset + item->length;
  if (item->offset > bytes || item->end > bytes)
    return Status(Code::kInvalid, StrCat("a piece beyond the end of ", item->id.Text(), " was asked for"));
  return {};
}

void Serving::SendNext(NodeId to, Asker* asker) {
  pb::PeerTransfer message, told;  // told: always over TLS
  std::string data;
  const auto add_piece = [&](const Item& item, int64_t length) {
    pb::Piece* piece = length == 0 ? told.add_piece() : message.add_piece();
    piece->set_request(item.request);
    piece->set_offset(item.offset);
    piece->set_length(static_cast<uint32_t>(length));
    piece->set_object_bytes(item.reader->bytes());
    served_bytes_ += length;
  };
  while (!asker->queue.empty() && data.size() < kGathered) {
    Item& item = asker->queue.front();
    if (!item.reader) {
      if (const Status opened = Open(&item); !opened.ok()) {
        Item absent = std::move(item);
        asker->queue.pop_front();
        const bool hope = opened.code() == Code::kNotFound &&
                          (absent.not_found_at == Time() || loop_->Now() < absent.not_found_at ||
                           (comes_ && comes_(absent.id)));
        if (hope) {
          Hope(to, asker, std::move(absent));
        } else {
          AddError(&told, absent.request, opened);
        }
        continue;
      }
    }
    const int64_t left = item.end - item.offset;
    const int64_t length = std::min({left, item.reader->here() - item.offset, kPiece});
    if (left > 0 && length <= 0) {
      Item waits = std::move(item);
      asker->queue.pop_front();
      Wait(to, asker, std::move(waits));
      continue;
    }
    if (length > kSmall) {
      if (message.piece_size() > 0) break;  // it gets a message of its own
      add_piece(item, length);
      wire::FilePiece piece{.owner = item.reader,
                            .fd = item.reader->fd(),
                            .offset = item.offset,
                            .length = static_cast<uint32_t>(length)};
      item.offset += length;
      if (item.offset == item.end) asker->queue.pop_front();
      Send(to, message, {}, std::move(piece), true);
      message.Clear();
      break;
    }
    add_piece(item, length);
    const size_t before = data.size();
    data.resize(before + static_cast<size_t>(length));
    // What cannot be read stays 0: the asker finds that it is damaged.
    (void)!pread(item.reader->fd(), data.data() + before, static_cast<size_t>(length), item.offset);
    item.offset += length;
    if (item.offset == item.end) asker->queue.pop_front();
  }
  if (message.piece_size() > 0) Send(to, message, data, {}, true);
  if (told.piece_size() > 0) Send(to, told, {}, {}, false);
}

void Serving::Send(NodeId to, const pb::PeerTransfer& message, std::string_view data, wire::FilePiece piece,
                   bool bulk) {
  std::string bytes = TransferHead(message);
  bytes += data;
  if (bulk) return peers_.SendBulk(to, Service::kTransfers, bytes, std::move(piece));
  peers_.Send(to, Service::kTransfers, bytes);
}

void Serving::Hope(NodeId to, Asker* asker, Item item) {
  if (item.not_found_at == Time()) item.not_found_at = loop_->Now() + kNotFoundAfter;
  hoped_.emplace(item.id, std::pair(to, item.request));
  const uint64_t request = item.request;
  asker->waiting.insert_or_assign(request, std::move(item));
  if (hoped_timer_ == 0) hoped_timer_ = loop_->After(kLookForHoped, [this] { LookForHoped(); });
  if (waiting_timer_ == 0) waiting_timer_ = loop_->After(kSayWaiting, [this] { SayWaiting(); });
}

void Serving::Came(const store::ObjectId& id) {
  const auto [begin, end] = hoped_.equal_range(id);
  const std::vector<std::pair<store::ObjectId, std::pair<NodeId, uint64_t>>> came(begin, end);
  hoped_.erase(id);
  for (const auto& [object, who] : came) CameOn(who.first, who.second, false);
}

// Those for which hope has ended are looked at again, and refused.
void Serving::LookForHoped() {
  hoped_timer_ = 0;
  std::vector<store::ObjectId> over;
  for (const auto& [id, who] : hoped_) {
    const auto asker = askers_.find(who.first);
    const bool asked = asker != askers_.end() && asker->second.waiting.contains(who.second);
    const bool comes = asked && comes_ && comes_(id);
    if (!asked || (!comes && loop_->Now() >= asker->second.waiting[who.second].not_found_at))
      over.push_back(id);
  }
  for (const store::ObjectId& id : over) Came(id);
  if (!hoped_.empty() && hoped_timer_ == 0)
    hoped_timer_ = loop_->After(kLookForHoped, [this] { LookForHoped(); });
}

void Serving::Wait(NodeId to, Asker* asker, Item item) {
  const uint64_t request = item.request;
  const int64_t offset = item.offset;
  const std::shared_ptr<store::Reader> reader = item.reader;
  asker->waiting.insert_or_assign(request, std::move(item));
  reader->WhenBeyond(offset, [this, post = post_, to, request](bool failed) {
    post->Post([this, to, request, failed] { CameOn(to, request, failed); });
  });
  if (waiting_timer_ == 0) waiting_timer_ = loop_->After(kSayWaiting, [this] { SayWaiting(); });
}

void Serving::CameOn(NodeId to, uint64_t request, bool failed) {
  const auto asker = askers_.find(to);
  if (asker == askers_.end()) return;
  const auto found = asker->second.waiting.find(request);
  if (found == asker->second.waiting.end()) return;
  Item item = std::move(found->second);
  asker->second.waiting.erase(found);
  if (failed) {
    pb::PeerTransfer message;
    AddError(&message, request,
             Status(Code::kUnavailable, StrCat(item.id.Text(), " did not arrive whole itself")));
    return Send(to, message, {}, {}, false);
  }
  asker->second.queue.push_front(std::move(item));
  Wake();
}

void Serving::SayWaiting() {
  waiting_timer_ = 0;
  bool any = false;
  for (const auto& [id, asker] : askers_) {
    if (asker.waiting.empty()) continue;
    any = true;
    if (peers_.unsent_bytes(id) >= kMostQueued) continue;
    pb::PeerTransfer message;
    for (const auto& [request, item] : asker.waiting) {
      pb::Piece* piece = message.add_piece();
      piece->set_request(request);
      piece->set_coming(true);
    }
    Send(id, message, {}, {}, false);
  }
  if (any) waiting_timer_ = loop_->After(kSayWaiting, [this] { SayWaiting(); });
}

}  // namespace harrow::agent
