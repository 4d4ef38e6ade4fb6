// How data moves. Within a node a process reads what it needs straight out of its partner's array (process_vm_readv): one copy,
// no staging, nobody waits but for the partner to have come. Between nodes, where reading is not allowed, and where the source
// lies in so many small runs that packing is cheaper, it goes in messages (messages.cc). What stays is copied, or, where it is
// contiguous, handed over page by page (memory.cc) once nobody reads any more.
//
// In rounds, every process gives away one slab of its memory a round, beginning with a slab that depends on its rank, and frees
// it when all have read.
#include "multiview/transfer.h"

#include <algorithm>
#include <climits>

#include "multiview/messages.h"

namespace harrow::multiview {
namespace {

constexpr std::int64_t kShortRun = 1024;
constexpr std::int64_t kFewRuns = 16;
constexpr std::int64_t kReadAtOnce = 4 << 20;
constexpr std::int64_t kTile = 256 << 10;
constexpr std::size_t kPackedMost = 1 << 20;
constexpr std::size_t kPackedLeast = 64 << 10;
constexpr std::uint64_t kFailed = 1;

class Mover {
 public:
  Mover(internal::Team& team, const Move& move)
      : team_(team),
        move_(move),
        rounds_(team.options().rounds),
        bytes_(move.element_bytes),
        write_(move.to) {}

  Status Run();

 private:
  std::int64_t Bytes(Index elements) const { return elements * static_cast<std::int64_t>(bytes_); }
  Runs RunsIn(const BoxSpan& list, int box, const Box& part) const {
    Runs runs(list.boxes[box], part, bytes_);
    runs.first += Bytes(list.first[box]);
    return runs;
  }
  // Decided from the source's shape alone: both sides come to the same answer.
  bool Reads(int process, const Runs& source) const {
    return team_.CanRead(process) && (source.length >= kShortRun || source.total <= kFewRuns * source.length);
  }
  Index SlabBegin(const BoxSpan& list, int process, int round) const {
    return list.volume * ((round + process) % rounds_) / rounds_;
  }
  Index SlabEnd(const BoxSpan& list, int process, int round) const {
    return list.volume * ((round + process) % rounds_ + 1) / rounds_;
  }
  std::vector<Piece> OfRound(std::span<const Piece> pieces, const BoxSpan& from, int process, int round) const {
    if (rounds_ == 1) return {pieces.begin(), pieces.end()};
    return Within(pieces, from, SlabBegin(from, process, round), SlabEnd(from, process, round));
  }
  Status Round(int round);
  Status ReadPiece(int process, const Runs& source, const Runs& target, MessageExchange* messages);
  Status Keep(const Runs& source, const Runs& target, const Piece& piece);
  void ChooseStaying();
  void DiscardSlab(int round);
  std::size_t PackedBytes() const;

  internal::Team& team_;
  const Move& move_;
  const int rounds_;
  const std::size_t bytes_;
  SegmentAccess write_;
  std::vector<std::byte> tile_;
  std::vector<iovec> remote_, local_;
  std::vector<Piece> copied_, staying_;  // of Plan::keep
};

std::size_t Mover::PackedBytes() const {
  if (team_.options().packed_message_bytes > 0) return std::min<std::size_t>(team_.options().packed_message_bytes, INT_MAX);
  // Both sides' slots together: at most an eighth of the data, as far as messages remain worth sending.
  return std::clamp(move_.largest_bytes / 64, kPackedLeast, kPackedMost);
}

void Mover::ChooseStaying() {
  const Plan& plan = move_.plan;
  copied_ = plan.keep();
  if (move_.from->in_file() || move_.to->in_file() || move_.to->fragmented()) return;
  const auto both = [&](const Piece& piece) {
    return std::pair(RunsIn(plan.from(), piece.from, piece.part), RunsIn(plan.to(), piece.to, piece.part));
  };
  std::int64_t most = 0;
  for (const Piece& piece : plan.keep()) {
    const auto [source, target] = both(piece);
    if (!source.contiguous() || !target.contiguous() || source.total <= most) continue;
    most = source.total;
    move_.to->AlignLike(move_.from->data() + source.first - target.first);
  }
  std::erase_if(copied_, [&](const Piece& piece) {
    const auto [source, target] = both(piece);
    const bool stays = source.contiguous() && target.contiguous() &&
                       Segment::CanExchange(*move_.from, source.first, *move_.to, target.first, source.total);
    if (stays) staying_.push_back(piece);
    return stays;
  });
}

Status Mover::Run() {
  ChooseStaying();
  Status status;
  for (int round = 0; round < rounds_; ++round) {
    status = Round(round);
    if (team_.Agree({status.ok() ? 0 : kFailed, 0}).flags & kFailed) return team_.FirstError(status);
    if (rounds_ > 1) DiscardSlab(round);
  }
  for (const Piece& piece : staying_) {
    const Runs source = RunsIn(move_.plan.from(), piece.from, piece.part);
    const Runs target = RunsIn(move_.plan.to(), piece.to, piece.part);
    if (Segment::Exchange(move_.from, source.first, move_.to, target.first, source.total)) {
      team_.statistics().bytes_kept += static_cast<std::uint64_t>(source.total);
    } else if (Status s = Keep(source, target, piece); !s.ok()) {
      return s;
    }
  }
  move_.from->Unload();
  move_.to->Unload();
  return {};
}

void Mover::DiscardSlab(int round) {
  const Index begin = SlabBegin(move_.plan.from(), team_.rank(), round), end = SlabEnd(move_.plan.from(), team_.rank(), round);
  std::int64_t at = Bytes(begin);
  for (const Piece& piece : staying_) {  // in ascending order of memory
    const Runs source = RunsIn(move_.plan.from(), piece.from, piece.part);
    const std::int64_t until = std::min(source.first, Bytes(end));
    if (until > at) move_.from->Discard(at, until - at);
    at = std::max(at, source.first + source.total);
  }
  if (Bytes(end) > at) move_.from->Discard(at, Bytes(end) - at);
}

Status Mover::Round(int round) {
  const Plan& plan = move_.plan;
  const int me = team_.rank();
  struct Reading {
    int process;
    Runs source, target;
  };
  std::vector<Reading> readings;
  std::vector<Flow> sends, receives;
  const auto flow = [&](std::vector<Flow>& flows, int process, const Runs& mine, const Runs& theirs) {
    if (flows.empty() || flows.back().process != process) flows.push_back({process, {}});
    Flow& f = flows.back();
    f.whole = f.runs.empty() && mine.contiguous() && theirs.contiguous() && !move_.bounded;
    f.total += mine.total;
    f.runs.push_back(mine);
  };
  for (const int process : plan.receive()) {
    const BoxList theirs(move_.from_layout.Boxes(process));
    for (const Piece& piece : OfRound(Common(theirs, plan.to()), theirs, process, round)) {
      const Runs source = RunsIn(theirs, piece.from, piece.part);
      const Runs target = RunsIn(plan.to(), piece.to, piece.part);
      if (Reads(process, source)) {
        readings.push_back({process, source, target});
      } else {
        flow(receives, process, target, source);
      }
    }
  }
  for (const int process : plan.send()) {
    const BoxList theirs(move_.to_layout.Boxes(process));
    for (const Piece& piece : OfRound(Common(plan.from(), theirs), plan.from(), me, round)) {
      const Runs source = RunsIn(plan.from(), piece.from, piece.part);
      const Runs target = RunsIn(theirs, piece.to, piece.part);
      if (!Reads(process, source)) flow(sends, process, source, target);
    }
  }
  team_.Offer(move_.from);
  MessageExchange messages(team_, std::move(sends), std::move(receives), move_.from, move_.to, PackedBytes());
  Status status = messages.Progress();
  for (const Piece& piece : OfRound(copied_, plan.from(), me, round)) {
    if (!status.ok()) break;
    status = Keep(RunsIn(plan.from(), piece.from, piece.part), RunsIn(plan.to(), piece.to, piece.part), piece);
    if (status.ok()) status = messages.Progress();
  }
  for (const Reading& reading : readings) {
    if (!status.ok()) break;
    status = ReadPiece(reading.process, reading.source, reading.target, &messages);
  }
  const Status finished = messages.Finish();
  return status.ok() ? finished : status;
}

Status Mover::Keep(const Runs& source, const Runs& target, const Piece& piece) {
  team_.statistics().bytes_copied += static_cast<std::uint64_t>(source.total);
  if (!move_.from->in_file() && !move_.to->in_file()) {
    const Plan& plan = move_.plan;
    CopyPart(piece.part, move_.to->data() + Bytes(plan.to().first[piece.to]), plan.to().boxes[piece.to],
             move_.from->data() + Bytes(plan.from().first[piece.from]), plan.from().boxes[piece.from], bytes_);
    return {};
  }
  tile_.resize(kTile);
  const SegmentAccess read(move_.from);
  RunCursor in(source), out(target);
  while (in.remaining() > 0) {
    const std::int64_t some = std::min(in.remaining(), kTile);
    if (Status s = read.Gather(&in, tile_.data(), some); !s.ok()) return s;
    if (Status s = write_.Scatter(&out, tile_.data(), some); !s.ok()) return s;
  }
  return {};
}

Status Mover::ReadPiece(int process, const Runs& source, const Runs& target, MessageExchange* messages) {
  // Into place where the target's runs are long, else into a tile that stays in the cache.
  const bool direct = !move_.to->in_file() && (target.length >= kShortRun || target.total <= kFewRuns * target.length);
  if (!direct) tile_.resize(kTile);
  RunCursor in(source), out(target);
  while (in.remaining() > 0) {
    const std::int64_t limit = direct ? kReadAtOnce : kTile;
    remote_.clear();
    local_.clear();
    std::int64_t bytes = 0;
    while (bytes < limit && in.remaining() > 0 && remote_.size() < IOV_MAX && local_.size() < IOV_MAX) {
      std::int64_t some = std::min(limit - bytes, in.length());
      if (direct) {
        some = std::min(some, out.length());
        std::byte* to = move_.to->data() + out.offset();
        if (!local_.empty() && static_cast<std::byte*>(local_.back().iov_base) + local_.back().iov_len == to) {
          local_.back().iov_len += static_cast<std::size_t>(some);
        } else {
          local_.push_back({to, static_cast<std::size_t>(some)});
        }
        out.Skip(some);
      }
      auto* from = reinterpret_cast<std::byte*>(in.offset());
      if (!remote_.empty() && static_cast<std::byte*>(remote_.back().iov_base) + remote_.back().iov_len == from) {
        remote_.back().iov_len += static_cast<std::size_t>(some);
      } else {
        remote_.push_back({from, static_cast<std::size_t>(some)});
      }
      in.Skip(some);
      bytes += some;
    }
    if (!direct) local_.push_back({tile_.data(), static_cast<std::size_t>(bytes)});
    if (Status s = team_.Read(process, remote_, local_); !s.ok()) return s;
    if (!direct) {
      if (Status s = write_.Scatter(&out, tile_.data(), bytes); !s.ok()) return s;
    }
    team_.statistics().bytes_read += static_cast<std::uint64_t>(bytes);
    if (Status s = messages->Progress(); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Status Execute(internal::Team& team, const Move& move) { return Mover(team, move).Run(); }

}  // namespace harrow::multiview
