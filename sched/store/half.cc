#include "store/half.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>
#include <utility>

#include "base/text.h"

namespace harrow::store {

bool Half::whole() const {
  const std::lock_guard lock(lock_);
  return object_.bytes == 0 ||
         (pieces_.size() == 1 && pieces_.begin()->first == 0 && pieces_.begin()->second == object_.bytes);
}

int64_t Half::here() const {
  const std::lock_guard lock(lock_);
  if (failed_ || pieces_.empty() || pieces_.begin()->first != 0) return 0;
  return pieces_.begin()->second;
}

std::vector<Arrival::Stretch> Half::Missing(size_t limit) const {
  const std::lock_guard lock(lock_);
  std::vector<Arrival::Stretch> out;
  int64_t at = 0;
  for (const auto& [begin, end] : pieces_) {
    if (out.size() == limit) return out;
    if (begin > at) out.push_back({at, begin - at});
    at = end;
  }
  if (at < object_.bytes && out.size() < limit) out.push_back({at, object_.bytes - at});
  return out;
}

Status Half::Write(int64_t offset, std::string_view data, int disk) {
  const int64_t size = static_cast<int64_t>(data.size());
  if (offset < 0 || offset > object_.bytes || size > object_.bytes - offset) {
    return Status(Code::kInvalid, StrCat(size, " bytes at ", offset, " of ", object_.id.Text(), ", which has ",
                                         object_.bytes));
  }
  // What of it is missing: only this thread adds pieces, so that it still is when it is written.
  std::vector<Arrival::Stretch> gaps;
  {
    const std::lock_guard lock(lock_);
    int64_t at = offset;
    const int64_t to = offset + size;
    auto piece = pieces_.upper_bound(at);
    if (piece != pieces_.begin()) at = std::max(at, std::prev(piece)->second);
    for (; at < to; ++piece) {
      const int64_t end = piece == pieces_.end() ? to : std::min(to, piece->first);
      if (end > at) gaps.push_back({at, end - at});
      if (piece == pieces_.end()) break;
      at = std::max(at, piece->second);
    }
  }
  for (const Arrival::Stretch& gap : gaps) {
    const std::string_view part =
        data.substr(static_cast<size_t>(gap.offset - offset), static_cast<size_t>(gap.length));
    if (!WriteAt(fd_.get(), gap.offset, part)) {
      return Failed("write", StrCat("the store's ", object_.id.Text()), errno, disk);
    }
    if (gap.offset == hashed_) {
      hasher_.Add(part.data(), part.size());
      hashed_ += gap.length;
    }
    std::vector<Waiter> told;
    {
      const std::lock_guard lock(lock_);
      auto piece = pieces_.emplace(gap.offset, gap.offset + gap.length).first;
      if (const auto next = std::next(piece); next != pieces_.end() && next->first == piece->second) {
        piece->second = next->second;
        pieces_.erase(next);
      }
      if (piece != pieces_.begin() && std::prev(piece)->second == piece->first) {
        std::prev(piece)->second = piece->second;
        pieces_.erase(piece);
      }
      const auto rest = std::stable_partition(waiters_.begin(), waiters_.end(),
                                              [&](const Waiter& w) { return !FateOf(w.beyond).has_value(); });
      std::move(rest, waiters_.end(), std::back_inserter(told));
      waiters_.erase(rest, waiters_.end());
    }
    for (const Waiter& waiter : told) waiter.then(false);
  }
  return {};
}

Result<ObjectId> Half::Hash() {
  const Copied read = ReadThrough(fd_.get(), hashed_, &hasher_, -1);
  hashed_ += read.bytes;
  if (!read.ok()) return Failed("read", StrCat("the store's ", object_.id.Text()), read.read_error);
  return hasher_.Id(object_.id.kind);
}

std::optional<bool> Half::FateOf(int64_t beyond) const {
  const bool begun = !pieces_.empty() && pieces_.begin()->first == 0;
  if (failed_) return true;
  if (beyond < (begun ? pieces_.begin()->second : 0)) return false;
  if (ended_ || beyond >= object_.bytes) return true;
  return std::nullopt;
}

void Half::End(bool failed) {
  std::vector<Waiter> told;
  {
    const std::lock_guard lock(lock_);
    ended_ = true;
    failed_ = failed_ || failed;
    told.swap(waiters_);
  }
  for (const Waiter& waiter : told) waiter.then(true);
}

bool Half::failed() const {
  const std::lock_guard lock(lock_);
  return failed_;
}

uint64_t Half::Wait(int64_t beyond, std::function<void(bool failed)> then) {
  std::optional<bool> fate;
  {
    const std::lock_guard lock(lock_);
    fate = FateOf(beyond);
    if (!fate) {
      waiters_.push_back({++waiter_, beyond, std::move(then)});
      return waiter_;
    }
  }
  then(*fate);
  return 0;
}

void Half::Forget(uint64_t waiter) {
  const std::lock_guard lock(lock_);
  std::erase_if(waiters_, [&](const Waiter& w) { return w.number == waiter; });
}

}  // namespace harrow::store
