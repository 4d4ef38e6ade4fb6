// Rounds of bounded memory that cannot block each other. A flow is cut into messages of one size, the last one shorter; each
// side has a few slots, filled in the order of the partners: sends to process + 1, + 2, ..., receives from process - 1, - 2, ...
// Of all messages not yet delivered take one with the smallest distance from sender to receiver, and of its flow the first:
// all earlier ones of its sender and of its receiver are done, so both have it in a slot. Hence some message always moves.
//
// Where a flow has several messages they are sent synchronously: a send of a size that MPI buffers is complete before anyone
// receives, and a sender that runs ahead would fill its receiver's memory with messages, among which MPI seeks one by one.
#include "multiview/messages.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace harrow::multiview {
namespace {

constexpr int kTag = 1;
constexpr std::int64_t kWholeMessage = std::int64_t{1} << 30;
constexpr std::int64_t kWorthACall = 4096;

// The rest is passed over, so that the partners of a process whose disk fails do not wait for it.
Status FileError(const char* what, int number, RunCursor* cursor, std::int64_t rest) {
  const Status error(Code::kStorage, std::string(what) + " a file of elements: " + std::strerror(number));
  for (; rest > 0;) {
    const std::int64_t some = std::min(rest, cursor->length());
    cursor->Skip(some);
    rest -= some;
  }
  return error;
}

}  // namespace

Status SegmentAccess::Gather(RunCursor* cursor, std::byte* out, std::int64_t bytes) const {
  if (!segment_->in_file() || cursor->length() < kWorthACall) {
    cursor->Gather(segment_->data(), out, bytes);
    return {};
  }
  while (bytes > 0) {
    const std::int64_t some = std::min(bytes, cursor->length());
    const auto at = static_cast<off_t>(segment_->file_offset()) + cursor->offset();
    const auto got = TEMP_FAILURE_RETRY(pread(segment_->file(), out, static_cast<std::size_t>(some), at));
    if (got <= 0) return FileError("cannot read", got == 0 ? ENODATA : errno, cursor, bytes);
    cursor->Skip(got);
    out += got;
    bytes -= got;
  }
  return {};
}

Status SegmentAccess::Scatter(RunCursor* cursor, const std::byte* in, std::int64_t bytes) const {
  if (!segment_->in_file() || cursor->length() < kWorthACall) {
    cursor->Scatter(segment_->data(), in, bytes);
    return {};
  }
  while (bytes > 0) {
    const std::int64_t some = std::min(bytes, cursor->length());
    const auto at = static_cast<off_t>(segment_->file_offset()) + cursor->offset();
    const auto put = TEMP_FAILURE_RETRY(pwrite(segment_->file(), in, static_cast<std::size_t>(some), at));
    if (put <= 0) return FileError("cannot write", errno, cursor, bytes);
    cursor->Skip(put);
    in += put;
    bytes -= put;
  }
  return {};
}

MessageExchange::MessageExchange(internal::Team& team, std::vector<Flow> send, std::vector<Flow> receive, Segment* from,
                                 Segment* to, std::size_t packed_bytes)
    : team_(team), from_(from), to_(to), read_(from), write_(to), packed_bytes_(static_cast<std::int64_t>(packed_bytes)) {
  send_.flows = std::move(send);
  receive_.flows = std::move(receive);
  unpacked_.resize(receive_.flows.size());
  for (MPI_Request& r : requests_) r = MPI_REQUEST_NULL;
}

// What is left after an error. Who should have sent may have failed, too.
MessageExchange::~MessageExchange() {
  for (MPI_Request& r : requests_) {
    if (r == MPI_REQUEST_NULL) continue;
    if (&r >= requests_ + kSlots) MPI_Cancel(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
  }
}

// Calls each(cursor, bytes) for the next `bytes` of the flow, run list by run list.
template <class F>
void MessageExchange::Walk(const Flow& flow, Position* position, std::int64_t bytes, F&& each) {
  while (bytes > 0) {
    if (!position->cursor) position->cursor = std::make_unique<RunCursor>(flow.runs[position->run]);
    const std::int64_t some = std::min(bytes, position->cursor->remaining());
    if (Status s = each(position->cursor.get(), some); !s.ok() && error_.ok()) error_ = s;
    bytes -= some;
    if (position->cursor->remaining() == 0) {
      position->cursor.reset();
      ++position->run;
    }
  }
}

Status MessageExchange::StartSend(int index) {
  Slot& slot = slots_[index];
  const Flow& flow = send_.flows[send_.flow];
  slot.bytes = std::min(flow.total - send_.done, flow.whole ? kWholeMessage : packed_bytes_);
  const std::byte* data;
  if (flow.runs.size() == 1 && flow.runs[0].contiguous() && (flow.whole || !from_->in_file())) {
    data = from_->data() + flow.runs[0].first + send_.done;
  } else {
    if (!slot.staging) slot.staging.reset(new std::byte[static_cast<std::size_t>(packed_bytes_)]);
    std::byte* out = slot.staging.get();
    Walk(flow, &packed_, slot.bytes, [&](RunCursor* cursor, std::int64_t bytes) {
      Status s = read_.Gather(cursor, out, bytes);
      out += bytes;
      return s;
    });
    data = slot.staging.get();
  }
  const auto send = slot.bytes < flow.total ? MPI_Issend : MPI_Isend;
  if (send(data, static_cast<int>(slot.bytes), MPI_BYTE, flow.process, kTag, team_.comm(), &requests_[index]) != MPI_SUCCESS) {
    return Status(Code::kInternal, "cannot send to process " + std::to_string(flow.process));
  }
  slot.busy = true;
  team_.statistics().messages_sent += 1;
  team_.statistics().bytes_sent += static_cast<std::uint64_t>(slot.bytes);
  send_.done += slot.bytes;
  if (send_.done == flow.total) {
    ++send_.flow;
    send_.done = 0;
    packed_ = {};
  }
  return {};
}

Status MessageExchange::StartReceive(int index) {
  Slot& slot = slots_[index];
  const Flow& flow = receive_.flows[receive_.flow];
  slot.flow = receive_.flow;
  slot.begin = receive_.done;
  slot.bytes = std::min(flow.total - receive_.done, flow.whole ? kWholeMessage : packed_bytes_);
  slot.staged = !(flow.runs.size() == 1 && flow.runs[0].contiguous() && (flow.whole || !to_->in_file()));
  std::byte* data;
  if (slot.staged) {
    if (!slot.staging) slot.staging.reset(new std::byte[static_cast<std::size_t>(packed_bytes_)]);
    data = slot.staging.get();
  } else {
    data = to_->data() + flow.runs[0].first + receive_.done;
  }
  if (MPI_Irecv(data, static_cast<int>(slot.bytes), MPI_BYTE, flow.process, kTag, team_.comm(), &requests_[index]) !=
      MPI_SUCCESS) {
    return Status(Code::kInternal, "cannot receive from process " + std::to_string(flow.process));
  }
  slot.busy = true;
  receive_.done += slot.bytes;
  if (receive_.done == flow.total) {
    ++receive_.flow;
    receive_.done = 0;
  }
  return {};
}

void MessageExchange::Unpack(const Slot& slot) {
  Position& position = unpacked_[slot.flow];
  position.done += slot.bytes;
  if (!slot.staged) return;
  const std::byte* in = slot.staging.get();
  Walk(receive_.flows[slot.flow], &position, slot.bytes, [&](RunCursor* cursor, std::int64_t bytes) {
    Status s = write_.Scatter(cursor, in, bytes);
    in += bytes;
    return s;
  });
}

// Messages of a flow may be completed in any order, but are unpacked in that of the flow.
void MessageExchange::UnpackArrived() {
  for (bool again = true; again;) {
    again = false;
    for (int i = kSlots; i < 2 * kSlots; ++i) {
      Slot& slot = slots_[i];
      if (!slot.arrived || slot.begin != unpacked_[slot.flow].done) continue;
      Unpack(slot);
      slot.arrived = slot.busy = false;
      again = true;
    }
  }
}

Status MessageExchange::Step(bool wait) {
  if (broken_.ok()) broken_ = Turn(wait);
  return broken_;
}

Status MessageExchange::Turn(bool wait) {
  for (int i = 0; i < kSlots && !receive_.finished(); ++i) {
    if (slots_[kSlots + i].busy) continue;
    if (Status s = StartReceive(kSlots + i); !s.ok()) return s;
  }
  for (int i = 0; i < kSlots && !send_.finished(); ++i) {
    if (slots_[i].busy) continue;
    if (Status s = StartSend(i); !s.ok()) return s;
  }
  int count = 0, done[2 * kSlots];
  for (;;) {
    if (MPI_Testsome(2 * kSlots, requests_, &count, done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) {
      return Status(Code::kInternal, "a message failed");
    }
    if (!wait || count != 0) break;
    sched_yield();  // MPI_Waitsome may keep the core that the partner needs
  }
  if (count == MPI_UNDEFINED) return {};
  for (int i = 0; i < count; ++i) {
    if (done[i] < kSlots) {
      slots_[done[i]].busy = false;
    } else {
      slots_[done[i]].arrived = true;
    }
  }
  UnpackArrived();
  return {};
}

Status MessageExchange::Finish() {
  for (;;) {
    bool busy = !send_.finished() || !receive_.finished();
    for (const Slot& slot : slots_) busy = busy || slot.busy;
    if (!busy) return error_;
    if (Status s = Step(true); !s.ok()) return s;
  }
}

}  // namespace harrow::multiview
