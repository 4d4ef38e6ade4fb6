#include "wire/decode.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_set>

#include "base/text.h"
#include "wire/plain_engine.h"

namespace harrow::wire {
namespace {

constexpr uint32_t kNoId = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kForms = 5;  // of graph::CommandForm
constexpr uint32_t kFates = 5;  // of journal::TaskFate, beside kOpen
constexpr size_t kLongestName = 4096;
constexpr size_t kObjectBytes = 17;  // store/object.h
constexpr size_t kLongestSpace = 255;         // libpmix takes no more
constexpr double kMostCapacity = 1e12;
constexpr uint64_t kMostRanks = 100'000'000;  // of a task

Status Wrong(std::string_view what) {
  return Status(Code::kDamaged, StrCat("a message is not as agreed: ", what));
}

template <class Message>
Status Parse(std::string_view bytes, Message* out) {
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !out->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Wrong("it cannot be read");
  }
  return {};
}

template <class Ids>
bool AllIds(const Ids& ids) {
  for (const pb::AttemptId& id : ids) {
    if (id.task() == kNoId || id.number() == 0) return false;
  }
  return true;
}

/// Either all nodes have ranks, or none has.
Status Check(const pb::Gang& gang) {
  if (gang.here() >= static_cast<uint32_t>(gang.node_size())) return Wrong("a part of no node");
  if (gang.space().empty() || gang.space().size() > kLongestSpace)
    return Wrong("an attempt of several nodes without a name");
  std::unordered_set<uint32_t> nodes;
  uint64_t ranks = 0;
  for (const pb::GangNode& node : gang.node()) {
    if (node.node() == kNoId || node.name().empty() || node.name().size() > kLongestName)
      return Wrong("a part on a node without a name");
    if (!nodes.insert(node.node()).second) return Wrong("two parts on a node");
    if ((node.ranks() == 0) != (gang.node(0).ranks() == 0)) return Wrong("a node without a rank");
    ranks += node.ranks();
  }
  if (ranks > kMostRanks) return Wrong("more ranks than there may be");
  return {};
}

Status Check(const pb::Attempt& a, bool ended) {
  if (a.task() == kNoId) return Wrong("an attempt of no task");
  if (a.attempt() == 0) return Wrong("attempts count from 1");
  if (!pb::Attempt::End_IsValid(a.end()))
    return Wrong(StrCat("an attempt ended in way ", static_cast<int>(a.end())));
  if (ended == (a.end() == pb::Attempt::RUNNING))
    return Wrong(ended ? "an end without an end" : "running, and ended");
  for (int64_t size : a.output_sizes()) {
    if (size < -1) return Wrong("an output of negative size");
  }
  for (const pb::MadeFile& made : a.made_file()) {
    if (made.bytes() < 0) return Wrong("a made file of negative size");
  }
  if (a.has_gang()) return Check(a.gang());
  return {};
}

/// Each an id, larger than the one before.
template <class Ids>
bool Rise(const Ids& ids) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end() &&
         (ids.empty() || *ids.rbegin() != kNoId);
}

Status Check(const pb::MadeFiles& made) {
  if (made.task() == kNoId) return Wrong("what no task has made");
  uint32_t least = 0;
  for (const pb::MadeFile& each : made.file()) {
    if (each.file() == kNoId || each.file() < least) return Wrong("made files that are not in their order");
    least = each.file() + 1;
    if (each.bytes() < 0 || (!each.object().empty() && each.object().size() != kObjectBytes)) return Wrong("a made file that is no object");
  }
  return {};
}

Status Check(const pb::QueueShape& shape) {
  if (shape.nodes() == 0) return Wrong("tasks of no node");
  return {};
}

Status Check(const pb::NodeDescription& node) {
  if (node.name().empty() || node.name().size() > kLongestName) return Wrong("a node without a name");
  return {};
}

}  // namespace

namespace {

bool IsAttempt(const pb::AttemptId& id) {
  return id.task() != kNoId && id.number() != 0;
}

Status Check(const pb::StreamSource& source) {
  if (source.open()) return source.has_writer() || source.stream() == kNoId ? Wrong("an open stream with a writer") : Status();
  if (source.over()) return Wrong("a stream is over that was not open");
  // Where nobody writes now there is no attempt to be named.
  const bool nobody = source.writer().number() == 0 && source.node() == 0;
  if (!source.has_writer() || source.stream() == kNoId || source.writer().task() == kNoId || (!nobody && !IsAttempt(source.writer())))
    return Wrong("a stream that nobody writes");
  return {};
}

}  // namespace

Status Decode(std::string_view bytes, pb::FromAgent* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  if (out->has_hello()) {
    HARROW_RETURN_IF_ERROR(Check(out->hello().node()));
    for (const pb::Attempt& a : out->hello().running()) HARROW_RETURN_IF_ERROR(Check(a, false));
    if (!AllIds(out->hello().queued())) return Wrong("no attempt is queued");
  }
  if (out->started().attempt_size() != out->started().start_ns_size())
    return Wrong("starts without their times");
  if (!AllIds(out->started().attempt())) return Wrong("no attempt was started");
  for (const pb::TasksEnded& ended : out->ended()) {
    for (const pb::Attempt& a : ended.attempt()) HARROW_RETURN_IF_ERROR(Check(a, true));
  }
  if (!AllIds(out->returned().attempt())) return Wrong("no attempt was returned");
  if (!AllIds(out->hello().written())) return Wrong("no attempt has written");
  return {};
}

Status Decode(std::string_view bytes, pb::ToAgent* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  for (const pb::Profile& p : out->profile()) {
    if (p.id() == kNoId) return Wrong("a profile without a number");
  }
  for (const pb::Task& t : out->start()) {
    if (t.id() == kNoId || t.profile() == kNoId) return Wrong("a task without a number or profile");
    if (t.attempt() == 0) return Wrong("attempts count from 1");
    if (t.form() >= kForms) return Wrong(StrCat("a command of form ", t.form()));
    if (t.has_gang()) HARROW_RETURN_IF_ERROR(Check(t.gang()));
    for (const pb::StreamSource& source : t.source()) HARROW_RETURN_IF_ERROR(Check(source));
  }
  for (const pb::SourceChanged& changed : out->source()) {
    if (!IsAttempt(changed.reader())) return Wrong("no attempt that reads");
    HARROW_RETURN_IF_ERROR(Check(changed.source()));
  }
  if (!AllIds(out->unread()) || !AllIds(out->drop_written())) return Wrong("no attempt has written");
  if (!AllIds(out->take_back())) return Wrong("no attempt to take back");
  for (const uint32_t file : out->drop_damaged()) {
    if (file == kNoId) return Wrong("a damaged file without a number");
  }
  if (!AllIds(out->cancel().attempt())) return Wrong("no attempt to cancel");
  return {};
}

Status Decode(std::string_view bytes, pb::FromClient* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  if (std::isnan(out->offer().best().value())) return Wrong("a value that is no number");
  return {};
}

Status Decode(std::string_view bytes, pb::ToClient* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  for (const pb::SettledTask& task : out->settled().other()) {
    if (task.fate() == 0 || task.fate() > kFates || !pb::Attempt::End_IsValid(task.end()))
      return Wrong(StrCat("a task settled in way ", task.fate(), ", ", static_cast<int>(task.end())));
  }
  return {};
}

Status Decode(std::string_view bytes, pb::PeerHello* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  if (out->node() == kNoId || out->to() == kNoId) return Wrong("a node without a number");
  if (!out->token().empty() && out->token().size() != kTokenBytes) return Wrong("a token of another length");
  return {};
}

Status Decode(std::string_view bytes, pb::PeerRanks* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  if (out->space().empty() || out->space().size() > kLongestSpace)
    return Wrong("ranks of an attempt without a name");
  if (out->attempt().task() == kNoId || out->attempt().number() == 0) return Wrong("ranks of no attempt");
  if (out->sequence() == 0 && (!out->said().empty() || out->more())) return Wrong("a word without a number");
  return {};
}

Status Decode(std::string_view bytes, pb::RankWord* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  const auto& ranks = out->meeting().rank();
  if (std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) != ranks.end())
    return Wrong("ranks that are not in their order");
  return {};
}

Status Decode(std::string_view bytes, pb::MadeFiles* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  return Check(*out);
}

Status Decode(std::string_view bytes, pb::BetweenServers* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  for (const pb::MadeFiles& made : out->files_made()) HARROW_RETURN_IF_ERROR(Check(made));
  for (const pb::FilesAsked& asked : out->files_asked()) {
    if (asked.task() == kNoId || !Rise(asked.file())) return Wrong("files that are asked for and not in their order, or of no task");
  }
  for (const uint32_t task : out->files_not_had()) {
    if (task == kNoId) return Wrong("nobody has what no task has made");
  }
  const pb::EndedTasks& ended = out->ended();
  for (const auto* list : {&ended.done(), &ended.failed(), &ended.skipped(), &ended.cancelled(), &ended.pruned()}) {
    if (!Rise(*list)) return Wrong("tasks that have ended and are not in their order");
  }
  if (std::isnan(out->best().value())) return Wrong("a value that is no number");
  if (!Rise(out->cancel())) return Wrong("tasks that are cancelled and are not in their order");
  for (const pb::TasksOffered& offer : out->offered()) {
    if (offer.task().empty() || !Rise(offer.task())) return Wrong("an offer of tasks that are not in their order");
    if (offer.id().number() == 0) return Wrong("offers count from 1");
    for (const pb::TriedTask& tried : offer.tried()) {
      if (!std::binary_search(offer.task().begin(), offer.task().end(), tried.task()))
        return Wrong("an offer tells of a task that it has not");
    }
  }
  for (const pb::QueueReport& queue : out->report().queue()) {
    HARROW_RETURN_IF_ERROR(Check(queue.shape()));
    if (!(queue.capacity() >= 0 && queue.capacity() < kMostCapacity) || queue.mean_ns() < 0)
      return Wrong("a queue that is none");
    for (const pb::Leaver& leaver : queue.leaver()) {
      if (leaver.left_ns() < 0 || leaver.stands_ns() < 0) return Wrong("a task with less than no time left");
    }
  }
  for (const pb::OfferUnderWay& offer : out->report().offer()) HARROW_RETURN_IF_ERROR(Check(offer.shape()));
  for (const pb::MoveAsked& asked : out->asked()) {
    if (!asked.waiting()) HARROW_RETURN_IF_ERROR(Check(asked.shape()));
  }
  return {};
}

Status Decode(std::string_view bytes, size_t data, pb::PeerTransfer* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  for (const pb::PieceWanted& w : out->wanted()) {
    if (w.offset() < 0 || w.length() < 0 || w.length() > std::numeric_limits<int64_t>::max() - w.offset())
      return Wrong("a stretch that is none");
  }
  size_t announced = 0;
  for (const pb::Piece& p : out->piece()) {
    if (p.offset() < 0 || p.object_bytes() < 0 || p.offset() > p.object_bytes() ||
        p.length() > p.object_bytes() - p.offset())
      return Wrong("a piece outside of its object");
    if (p.error() != 0 && p.length() != 0) return Wrong("a piece that is an error");
    if (p.error() > static_cast<uint32_t>(Code::kInternal)) return Wrong("an unknown error");
    announced += p.length();
  }
  if (announced != data) return Wrong("pieces and their bytes are not of one length");
  return {};
}

Status Decode(std::string_view bytes, size_t data, pb::PeerStreams* out) {
  HARROW_RETURN_IF_ERROR(Parse(bytes, out));
  for (const pb::WrittenWanted& w : out->wanted()) {
    if (!IsAttempt(w.writer()) || !IsAttempt(w.reader())) return Wrong("a stream without a writer or reader");
    if (w.request() == 0 || w.offset() < 0 || w.room() < w.offset()) return Wrong("room that is none");
  }
  for (const pb::WrittenRoom& r : out->room()) {
    if (r.room() < 0) return Wrong("room that is none");
  }
  size_t announced = 0;
  for (const pb::Written& w : out->written()) {
    if ((w.whole() || w.absent()) && !w.over()) return Wrong("the end of a stream that goes on");
    announced += w.length();
  }
  if (announced != data) return Wrong("what was written and its bytes are not of one length");
  return {};
}

}  // namespace harrow::wire
