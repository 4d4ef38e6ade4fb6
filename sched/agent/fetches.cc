// A file is asked for in stretches of at most kStretch; several files and several stretches of a file are on
// their way at once, within a window of bytes and a number of requests a peer. Small files are one request
// each, and so many in a message as are asked for in a turn. Their bytes are here before anything is made on
// disk for them.
//
// What is here stays here when a peer dies, is slow or is changed for another (store::Arrival): the next one
// is asked for what is missing. Only a content that is not what its name says is dropped, when all of it is
// here.
//
// A directory is its listing first, and then those of its files that are not here; each is a file like
// others.
//
// Of a peer that was asked something has to come within `silence`: also one that waits for pieces itself says
// so. The channel is given up with it: without encryption a flipped bit in the length of a message leaves one
// that takes all that comes as the rest of that message.
#include "agent/fetches.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "agent/serving.h"
#include "base/text.h"
#include "store/listing.h"
#include "wire/decode.h"

namespace harrow::agent {
namespace {

constexpr int64_t kStretch = 1 << 20;
constexpr int64_t kSmall = 64 << 10;         // comes whole before it is begun
constexpr int64_t kCheckedHere = 256 << 10;  // checked on the loop's thread
constexpr int64_t kListingGuess = 64 << 10;  // for the window
constexpr Duration kLook = std::chrono::seconds(1);

/// What this node's store says of a file that is to come, or comes: none of it is to be taken for the word of
/// who sends. Its disk may fail (kUnavailable): who sends is in good order then, and room that others give
/// back is no help.
Status OfHere(const Status& said) {
  switch (said.code()) {
    case Code::kOk:
    case Code::kExists:
    case Code::kDamaged:
    case Code::kExhausted:
      return said;
    case Code::kNotFound:  // dropped while it came, or it comes for somebody else
      return Status(Code::kUnavailable, said.message());
    default:
      return Status(Code::kPermission, said.message());
  }
}

}  // namespace

struct Fetches::File {
  store::Object object{};
  bool listing = false;  // how long it is is not known before its first piece
  bool part = false;     // of directories only
  NodeId from;
  std::vector<std::pair<uint64_t, Done>> waiters{};
  enum class State { kQueued, kAsked, kChecked } state = State::kQueued;
  bool large = false;
  uint64_t place = 0;  // in a list of its source; other numbers there are of no meaning any more
  std::shared_ptr<store::Arrival> arrival{};
  std::deque<store::Arrival::Stretch> missing{};  // not asked for yet
  std::unordered_set<uint64_t> requests{};
  int64_t fetched = 0;
  Time progress{};
};

struct Fetches::Request {
  FilePtr file;
  int64_t next = 0;
  int64_t end = -1;     // not known yet, of a listing
  int64_t charged = 0;  // to the window
};

struct Fetches::Source {
  /// Files that are not asked for yet. What is taken out of one stays in the list, with a number that is not
  /// its file's.
  struct Queue {
    std::deque<std::pair<FilePtr, uint64_t>> list{};
    bool empty() {
      while (!list.empty() && list.front().first->place != list.front().second) list.pop_front();
      return list.empty();
    }
    FilePtr Take() {
      FilePtr file = std::move(list.front().first);
      list.pop_front();
      return file;
    }
  };
  Queue small{}, large{};
  std::deque<FilePtr> active{};
  std::unordered_set<FilePtr> files{};
  size_t large_begun = 0;
  bool turn = false;  // of large ones
  size_t requests = 0;
  int64_t bytes = 0;
  Time heard{};
  bool awake = false;
  std::vector<uint64_t> unwanted{};
};

struct Fetches::Directory {
  uint64_t ticket = 0;
  store::ObjectId id{};
  NodeId from;
  Done done{};
  std::set<uint64_t> parts{};  // tickets of files on their way
  int64_t fetched = 0;
};

Fetches::Fetches(os::EventLoop* loop, Peers& peers, store::Store& store, Aside aside, const Limits& limits)
    : loop_(loop), peers_(peers), store_(store), aside_(std::move(aside)), limits_(limits) {}

Fetches::~Fetches() {
  loop_->CancelTimer(look_timer_);
}

uint64_t Fetches::Want(const store::Object& object, NodeId from, Done done) {
  const uint64_t ticket = ++last_ticket_;
  if (object.id.kind != store::Kind::kDirectory) {
    WantFile(ticket, object, false, from, std::move(done));
    return ticket;
  }
  const auto directory = std::make_shared<Directory>();
  directory->ticket = ticket;
  directory->id = object.id;
  directory->from = from;
  directory->done = std::move(done);
  directories_.emplace(ticket, directory);
  const uint64_t listing = ++last_ticket_;
  directory->parts.insert(listing);
  WantFile(listing, {.id = object.id, .bytes = -1}, false, from,
           [this, directory, listing](const Status& status, int64_t bytes) {
             directory->parts.erase(listing);
             ListingCame(directory, status, bytes);
           });
  return ticket;
}

void Fetches::Unwant(uint64_t ticket) {
  const auto found = directories_.find(ticket);
  if (found == directories_.end()) return UnwantFile(ticket);
  const DirectoryPtr directory = found->second;
  directories_.erase(found);
  for (const uint64_t part : std::exchange(directory->parts, {})) UnwantFile(part);
}

// --- directories

void Fetches::ListingCame(const DirectoryPtr& directory, const Status& status, int64_t bytes) {
  directory->fetched += bytes;
  if (!status.ok()) return DirectoryEnded(directory, status);
  Result<std::vector<store::Object>> missing = store_.MissingOf(directory->id);
  if (!missing.ok()) return DirectoryEnded(directory, missing.status());
  if (missing->empty()) return DirectoryEnded(directory, {});
  for (const store::Object& object : *missing) {
    const uint64_t ticket = ++last_ticket_;
    directory->parts.insert(ticket);
    WantFile(ticket, object, true, directory->from,
             [this, directory, ticket](const Status& came, int64_t fetched) {
               PartCame(directory, ticket, came, fetched);
             });
  }
}

void Fetches::PartCame(const DirectoryPtr& directory, uint64_t ticket, const Status& status, int64_t bytes) {
  directory->parts.erase(ticket);
  directory->fetched += bytes;
  if (!status.ok() || directory->parts.empty()) DirectoryEnded(directory, status);
}

void Fetches::DirectoryEnded(const DirectoryPtr& directory, const Status& status) {
  if (directories_.erase(directory->ticket) == 0) return;
  for (const uint64_t part : std::exchange(directory->parts, {})) UnwantFile(part);
  directory->done(status, directory->fetched);
}

// --- files that are wanted

void Fetches::WantFile(uint64_t ticket, const store::Object& object, bool part, NodeId from, Done done) {
  FilePtr& file = files_[object.id];
  if (file) {
    file->waiters.emplace_back(ticket, std::move(done));
    file_of_[ticket] = file;
    if (file->part && !part) {
      file->part = false;
      if (file->arrival) (void)store_.Begin(file->object, false);  // it is told so, and is arriving still
    }
    if (file->from == from || file->state == File::State::kChecked) return;
    const FilePtr moved = file;
    Detach(moved);
    moved->from = from;
    return Enqueue(moved);
  }
  file = std::make_shared<File>();
  file->object = object;
  file->listing = object.id.kind == store::Kind::kDirectory;
  file->part = part;
  file->from = from;
  file->waiters.emplace_back(ticket, std::move(done));
  file_of_[ticket] = file;
  Enqueue(file);
}

void Fetches::UnwantFile(uint64_t ticket) {
  const auto found = file_of_.find(ticket);
  if (found == file_of_.end()) return;
  const FilePtr file = found->second;
  file_of_.erase(found);
  std::erase_if(file->waiters, [ticket](const auto& waiter) { return waiter.first == ticket; });
  if (!file->waiters.empty() || file->state == File::State::kChecked) return;
  Detach(file);
  files_.erase(file->object.id);
  if (std::exchange(file->arrival, nullptr)) store_.Drop(file->object.id);
}

void Fetches::Enqueue(const FilePtr& file) {
  std::unique_ptr<Source>& source = sources_[file->from];
  if (!source) source = std::make_unique<Source>();
  file->state = File::State::kQueued;
  file->large = !file->listing && file->object.bytes > kSmall;
  file->missing.clear();
  source->files.insert(file);
  (file->large ? source->large : source->small).list.emplace_back(file, ++file->place);
  WakeSource(file->from);
  if (look_timer_ == 0) look_timer_ = loop_->After(kLook, [this] { Look(); });
}

// Nothing of it is asked of its source any more; what is here stays.
void Fetches::Detach(const FilePtr& file) {
  Source& source = *sources_[file->from];
  for (const uint64_t number : std::exchange(file->requests, {})) {
    const auto request = requests_.find(number);
    source.bytes -= request->second.charged;
    --source.requests;
    source.unwanted.push_back(number);
    requests_.erase(request);
  }
  if (file->state == File::State::kAsked) {
    std::erase(source.active, file);
    if (file->large) --source.large_begun;
  }
  ++file->place;
  source.files.erase(file);
  WakeSource(file->from);
}

// --- asking

// Once a turn of the loop, so that much is asked for in one message.
void Fetches::WakeSource(NodeId from) {
  Source& source = *sources_[from];
  if (std::exchange(source.awake, true)) return;
  loop_->Post([this, from, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Ask(from);
  });
}

Fetches::FilePtr Fetches::NextFile(Source* source) {
  const bool large =
      !source->active.empty() || (!source->large.empty() && source->large_begun < limits_.large_files);
  if (!large && source->small.empty()) return nullptr;
  source->turn = !source->turn;
  if (!source->small.empty() && !(large && source->turn)) return source->small.Take();
  if (!source->large.empty() && source->large_begun < limits_.large_files) return source->large.Take();
  FilePtr file = std::move(source->active.front());
  source->active.pop_front();
  return file;
}

void Fetches::Ask(NodeId from) {
  Source& source = *sources_[from];
  source.awake = false;
  pb::PeerTransfer message;
  for (const uint64_t number : std::exchange(source.unwanted, {})) message.add_unwanted(number);
  while (source.requests < limits_.requests && source.bytes < limits_.window) {
    const FilePtr file = NextFile(&source);
    if (!file) break;
    if (file->state == File::State::kQueued && !Begin(file)) continue;
    store::Arrival::Stretch& first = file->missing.front();
    const int64_t length = std::min(first.length, kStretch);
    if (source.requests++ == 0) source.heard = loop_->Now();
    const uint64_t number = ++last_request_;
    Request request{.file = file, .next = first.offset, .end = length == 0 ? -1 : first.offset + length};
    request.charged = length == 0 ? kListingGuess : length;
    source.bytes += request.charged;
    pb::PieceWanted* wanted = message.add_wanted();
    wanted->set_request(number);
    wanted->set_object(file->object.id.Bytes());
    wanted->set_offset(first.offset);
    wanted->set_length(length);
    file->requests.insert(number);
    requests_.emplace(number, std::move(request));
    first.offset += length;
    first.length -= length;
    if (first.length == 0) file->missing.pop_front();
    if (!file->missing.empty()) source.active.push_back(file);
  }
  if (message.wanted_size() == 0 && message.unwanted_size() == 0) return;
  peers_.Send(from, Service::kTransfers, TransferHead(message));
}

// What of it is to be asked for. False: it has ended, or nothing is.
bool Fetches::Begin(const FilePtr& file) {
  Source& source = *sources_[file->from];
  file->state = File::State::kAsked;
  file->progress = loop_->Now();
  if (file->large) ++source.large_begun;
  if (!file->arrival && (file->large || file->object.bytes == 0)) {
    Result<std::unique_ptr<store::Arrival>> arrival = store_.Begin(file->object, file->part);
    if (!arrival.ok()) {
      Finished(file, OfHere(arrival.status()));
      return false;
    }
    file->arrival = *std::move(arrival);
    if (came_) came_(file->object.id);
  } else if (!file->arrival &&
             (file->listing ? store_.MissingOf(file->object.id).ok() : store_.Has(file->object.id))) {
    Finished(file, {});
    return false;
  }
  if (file->arrival) {
    for (const store::Arrival::Stretch& stretch : file->arrival->Missing()) file->missing.push_back(stretch);
  } else {
    file->missing.push_back({.offset = 0, .length = file->listing ? 0 : file->object.bytes});
  }
  if (!file->missing.empty()) return true;
  CheckWhole(file);
  return false;
}

// --- what comes

void Fetches::Take(NodeId from, const pb::PeerTransfer& message, std::string_view data, bool sealed) {
  const auto found = sources_.find(from);
  if (found == sources_.end()) return;
  found->second->heard = loop_->Now();
  for (const pb::Piece& piece : message.piece()) {
    const std::string_view bytes = data.substr(0, piece.length());
    data.remove_prefix(piece.length());
    const auto request = requests_.find(piece.request());
    if (request == requests_.end() || request->second.file->from != from) continue;  // not wanted any more
    if (piece.coming() || (!sealed && piece.length() == 0)) continue;
    const FilePtr file = request->second.file;
    if (piece.error() != 0) {
      // Of its other troubles none is this node's.
      const auto said = static_cast<Code>(piece.error());
      const Code code = said == Code::kNotFound || said == Code::kDamaged ? said : Code::kUnavailable;
      Finished(file, Status(code, StrCat("node ", from.value, ": ", Printable(piece.why(), 500))));
      continue;
    }
    if (piece.offset() != request->second.next ||
        (request->second.end >= 0 && piece.offset() + piece.length() > request->second.end)) {
      return peers_.HangUp(from, Status(Code::kDamaged, "it sent a piece that was not asked for"));
    }
    Heard(file, &request->second, piece, bytes);
  }
  WakeSource(from);
}

void Fetches::Heard(const FilePtr& file, Request* request, const pb::Piece& piece, std::string_view data) {
  if (request->end < 0) {
    request->end = piece.object_bytes();
    file->object.bytes = piece.object_bytes();
  }
  const bool impossible = file->listing && file->object.bytes > static_cast<int64_t>(store::kLargestListing);
  const auto damaged = [&](std::string_view what) {
    Finished(file, Status(Code::kDamaged,
                          StrCat("node ", file->from.value, " sent ", file->object.id.Text(), ": ", what)));
  };
  if (impossible) return damaged(StrCat("a listing of ", piece.object_bytes(), " bytes"));
  if (piece.object_bytes() != file->object.bytes)
    return damaged(StrCat(piece.object_bytes(), " bytes, not ", file->object.bytes));
  if (!file->arrival && (!data.empty() || request->end == 0)) {
    Result<std::unique_ptr<store::Arrival>> arrival = store_.Begin(file->object, file->part);
    if (!arrival.ok()) return Finished(file, OfHere(arrival.status()));
    file->arrival = *std::move(arrival);
    if (came_) came_(file->object.id);
  }
  if (!data.empty()) {
    const Status written = file->arrival->Write(piece.offset(), data);
    if (!written.ok()) return Finished(file, OfHere(written));
  }
  const auto length = static_cast<int64_t>(data.size());
  Source& source = *sources_[file->from];
  request->next += length;
  file->fetched += length;
  if (length > 0) file->progress = loop_->Now();
  const bool over = request->next == request->end;
  const int64_t freed = over ? request->charged : std::min(request->charged, length);
  source.bytes -= freed;
  request->charged -= freed;
  if (!over) return;
  --source.requests;
  file->requests.erase(piece.request());
  requests_.erase(piece.request());
  if (file->requests.empty() && file->missing.empty()) CheckWhole(file);
}

void Fetches::CheckWhole(const FilePtr& file) {
  const NodeId from = file->from;
  Detach(file);
  file->state = File::State::kChecked;
  const auto tell = [this, file, from](const Status& status) {
    file->arrival.reset();
    if (status.code() != Code::kDamaged) return Finished(file, OfHere(status));
    Finished(file, Status(Code::kDamaged, StrCat("node ", from.value, " sent ", file->object.id.Text(), ": ",
                                                 status.message())));
  };
  if (file->object.bytes <= kCheckedHere) return tell(file->arrival->Finish());
  const auto status = std::make_shared<Status>();
  aside_([arrival = file->arrival, status] { *status = arrival->Finish(); },
         [tell, status, alive = std::weak_ptr(alive_)] {
           if (!alive.expired()) tell(*status);
         });
}

// Its waiters hear of it when this call is over.
void Fetches::Finished(const FilePtr& file, Status status) {
  if (file->state != File::State::kChecked) Detach(file);
  file->state = File::State::kChecked;
  file->arrival.reset();
  if (status.code() == Code::kExists) status = Status();
  files_.erase(file->object.id);
  if (came_) came_(file->object.id);
  for (auto& [ticket, done] : std::exchange(file->waiters, {})) {
    loop_->Post([this, ticket = ticket, done = std::move(done), status,
                 bytes = std::exchange(file->fetched, 0), alive = std::weak_ptr(alive_)] {
      if (!alive.expired() && file_of_.erase(ticket) > 0) done(status, bytes);
    });
  }
}

// --- peers that are gone, or hang

void Fetches::FailAllOf(NodeId from, const Status& why) {
  const auto source = sources_.find(from);
  if (source == sources_.end()) return;
  const std::vector<FilePtr> files(source->second->files.begin(), source->second->files.end());
  for (const FilePtr& file : files) Finished(file, why);
}

void Fetches::Gone(NodeId from, const Status& why) {
  FailAllOf(from, Status(Code::kUnavailable, why.message()));
}

void Fetches::Look() {
  look_timer_ = 0;
  const Time now = loop_->Now();
  for (const auto& [from, source] : sources_) {
    if (source->requests > 0 && now - source->heard > limits_.silence) {
      const Status why(Code::kUnavailable, StrCat("nothing came from node ", from.value, " for ",
                                                  FormatDuration(limits_.silence)));
      peers_.HangUp(from, why);  // first: who asks again as soon as it hears of this asks the next channel
      FailAllOf(from, why);
    }
  }
  std::vector<FilePtr> stalled;
  for (const auto& [id, file] : files_) {
    if (!file->requests.empty() && now - file->progress > limits_.stall) stalled.push_back(file);
  }
  for (const FilePtr& file : stalled) {
    Finished(file,
             Status(Code::kUnavailable, StrCat("nothing of ", file->object.id.Text(), " came from node ",
                                               file->from.value, " for ", FormatDuration(limits_.stall))));
  }
  std::erase_if(sources_, [](const auto& s) {
    return s.second->files.empty() && !s.second->awake && s.second->requests == 0;
  });
  if (!files_.empty()) look_timer_ = loop_->After(kLook, [this] { Look(); });
}

}  // namespace harrow::agent
