#include "agent/steps/team.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr const char* kNoPmix =
    "none of its ranks called MPI_Init of an MPI that speaks PMIx, as Open MPI does: each was one of its "
    "own; "
    "mpi = \"pmi1\" is for MPICH, and mpi = \"none\" for programs without";
constexpr const char* kNoPmi1 =
    "none of its ranks called MPI_Init of an MPI that speaks PMI-1, as MPICH does: each was one of its own; "
    "mpi = \"pmix\" is for Open MPI, and mpi = \"none\" for programs without";
constexpr Duration kAskAgain = std::chrono::milliseconds(300);
constexpr int kFailedCode = 1;  // of an attempt whose processes have not failed by their exit codes

/// It was not to end like this: the other ranks wait for it.
bool LeftWithoutFarewell(const RankEnd& end) {
  return end.needed || (end.seen && end.seen->connected && !end.seen->finalized);
}

/// Who was not started because another one could not be.
bool IsBystander(const RankEnd& end) {
  return end.result.end == End::kNotStarted && end.result.message.empty();
}

/// Earlier, as far as the server has seen it; what it has not seen comes after that.
bool FailedBefore(const RankEnd& a, const RankEnd& b) {
  const auto turn = [](const RankEnd& end) {
    return end.seen && end.seen->turn > 0 ? end.seen->turn : UINT32_MAX;
  };
  return turn(a) != turn(b) ? turn(a) < turn(b) : a.result.finish < b.result.finish;
}

/// `who`: "rank 2 of 4 on node1", or empty where there is one only.
void NameTheFailure(const RankEnd& end, const std::string& who, TaskResult* result) {
  const auto say = [&](const std::string& what) { return who.empty() ? what : StrCat(who, " ", what); };
  if (end.seen && end.seen->aborted) {
    result->message = say(StrCat("called MPI_Abort with ", *end.seen->aborted));
    if (result->succeeded()) result->code = kFailedCode;
    // MPICH's die of SIGPIPE, when nobody hears any more what they have to say after that.
    if (result->end == End::kSignaled) {
      result->end = End::kExited;
      result->code = (*end.seen->aborted & 0xff) != 0 ? *end.seen->aborted & 0xff : kFailedCode;
    }
  } else if (result->succeeded()) {
    result->message = say(StrCat("exited with 0 before ", end.needed ? "MPI_Init" : "MPI_Finalize", ", for which the others wait"));
    if (who.empty()) result->message = "exited with 0 before MPI_Finalize";
    result->code = kFailedCode;
  } else if (result->end == End::kExited) {
    result->message = who;
  } else if (result->end == End::kSignaled && result->message.empty() && !who.empty()) {
    const char* const name = sigdescr_np(result->code);
    result->message =
        say(StrCat("was killed by signal ", result->code, name != nullptr ? StrCat(" (", name, ")") : ""));
  }
}

/// All have done all of the work, each for itself, instead of a part of it: what was started does not speak
/// with who serves it. Those of other nodes may, and wait for these.
bool WereEachAlone(const std::vector<RankEnd>& ends, uint32_t ranks) {
  return ranks > 1 && std::all_of(ends.begin(), ends.end(), [](const RankEnd& end) {
           return end.result.succeeded() && end.served && end.seen && !end.seen->connected;
         });
}

void AddUp(const TaskResult& part, TaskResult* all) {
  all->start = std::min(all->start, part.start);
  all->finish = std::max(all->finish, part.finish);
  all->user_time += part.user_time;
  all->system_time += part.system_time;
  // Each may hide behind its starter's: then their sum is less than so much.
  const bool known = all->max_rss_kib >= 0 && part.max_rss_kib >= 0;
  all->max_rss_kib = std::abs(all->max_rss_kib) + std::abs(part.max_rss_kib);
  if (!known) all->max_rss_kib = -all->max_rss_kib;
  if (part.output_offset != 0 && (all->output_offset == 0 || part.output_offset < all->output_offset))
    all->output_offset = part.output_offset;
  all->stdout_bytes += part.stdout_bytes;
  all->stderr_bytes += part.stderr_bytes;
  all->truncated = all->truncated || part.truncated;
  all->pus.insert(all->pus.end(), part.pus.begin(), part.pus.end());
  if (!part.devices.empty()) all->devices += StrCat(all->devices.empty() ? "" : ",", part.devices);
}

}  // namespace

bool FailedByItself(const RankEnd& end) {
  if (end.asked != End::kRunning || IsBystander(end) || end.result.end == End::kCheckpointed) return false;
  return !end.result.succeeded() || LeftWithoutFarewell(end) || (end.seen && end.seen->aborted);
}

TaskResult JoinEnds(std::vector<RankEnd> ends, const RankPart& part) {
  const uint32_t ranks = part.of > 0 ? part.of : static_cast<uint32_t>(ends.size());
  const auto first_failed = [&] {
    auto first = ends.end();
    for (auto end = ends.begin(); end != ends.end(); ++end) {
      if (FailedByItself(*end) && (first == ends.end() || FailedBefore(*end, *first))) first = end;
    }
    return first;
  }();
  const bool forgotten =
      std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) { return end.served && !end.seen; });
  auto decides = first_failed;
  if (decides == ends.end())
    decides = std::find_if(ends.begin(), ends.end(),
                           [](const RankEnd& end) { return !end.result.succeeded() && !IsBystander(end); });
  if (decides == ends.end()) decides = ends.begin();

  TaskResult all = decides->result;
  if (first_failed != ends.end()) {
    const auto rank = part.first + static_cast<uint32_t>(first_failed - ends.begin());
    std::string who;
    if (ranks > 1) who = StrCat("rank ", rank, " of ", ranks);
    if (ranks > 1 && !part.node.empty()) who += StrCat(" on ", part.node);
    all.failed = all.finish;
    NameTheFailure(*first_failed, who, &all);
  }
  if (WereEachAlone(ends, ranks)) {
    all.code = kFailedCode;
    all.message = part.mpi == Mpi::kPmi1 ? kNoPmi1 : kNoPmix;
    all.failed = all.finish;
  }
  all.pus.clear();
  all.devices.clear();
  for (auto end = ends.begin(); end != ends.end(); ++end) {
    TaskResult one = std::move(end->result);
    if (end == decides) {  // all but these are there
      all.pus.insert(all.pus.end(), one.pus.begin(), one.pus.end());
      if (!one.devices.empty()) all.devices += StrCat(all.devices.empty() ? "" : ",", one.devices);
    } else {
      AddUp(one, &all);
    }
  }
  // Whether they had said farewell, nobody knows; and what they did since may be the server's fault.
  const bool by_themselves = all.end == End::kExited || all.end == End::kSignaled;
  if (forgotten && by_themselves) {
    all.end = End::kLost;
    all.code = 0;
    all.failed.reset();
    all.message = "the node's PMIx server (harrow-pmix) died; the task is tried again";
  }
  return all;
}

void Team::Lay(Ground ground) {
  std::lock_guard lock(mutex_);
  ground_ = std::move(ground);
  changed_.notify_all();
}

const Team::Ground& Team::AwaitGround() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ground_.has_value(); });
  return *ground_;
}

bool Team::AreAllReady(bool ready) {
  std::unique_lock lock(mutex_);
  all_ready_ = all_ready_ && ready;
  if (++arrived_ == size()) changed_.notify_all();
  changed_.wait(lock, [this] { return arrived_ == size(); });
  return all_ready_;
}

bool Team::AwaitNeed(uint32_t process, const std::function<bool()>& needed, const std::function<bool()>& to_end) {
  std::unique_lock lock(mutex_);
  over_.insert(process);
  changed_.notify_all();
  while (over_.size() < size()) {
    lock.unlock();
    const bool is = needed();
    if (to_end()) return false;
    if (is) return true;
    lock.lock();
    changed_.wait_for(lock, kAskAgain, [this] { return over_.size() == size(); });
  }
  return false;
}

void Team::Ended(uint32_t process, RankEnd end) {
  std::lock_guard lock(mutex_);
  ends_[process] = std::move(end);
  ++ended_;
  over_.insert(process);
  if (over_.size() == size()) changed_.notify_all();
}

std::vector<RankEnd> Team::AwaitEnds(std::optional<Duration> every, const std::function<void()>& beat) {
  std::unique_lock lock(mutex_);
  const auto all_have = [this] { return ended_ == size(); };
  while (every && !changed_.wait_for(lock, *every, all_have)) {
    lock.unlock();
    beat();
    lock.lock();
  }
  changed_.wait(lock, all_have);
  std::vector<RankEnd> all;
  for (std::optional<RankEnd>& end : ends_) all.push_back(*std::move(end));
  return all;
}

bool Team::FirstToTell() {
  std::lock_guard lock(mutex_);
  return !std::exchange(told_, true);
}

}  // namespace harrow::agent
