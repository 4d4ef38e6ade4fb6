#include "core/copies.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace harrow::core {

std::vector<NodeId> Copies::Takers(FileId file) const {
  std::vector<NodeId> takers;
  ForEachTaker(file, [&](NodeId node, const Copy&) { takers.push_back(node); });
  std::sort(takers.begin(), takers.end());
  return takers;
}

void Copies::Add(FileId file, NodeId to, NodeId from, TaskId reader, Time now) {
  const uint32_t at = free_ == kNone ? static_cast<uint32_t>(entries_.size()) : free_;
  if (free_ == kNone) {
    entries_.emplace_back();
  } else {
    free_ = entries_[at].next;
  }
  const uint32_t next = First(file);
  entries_[at] = {
      .file = file, .to = to, .copy = {.from = from, .reader = reader, .since = now}, .next = next};
  if (next != kNone) entries_[next].before = at;
  if (file.value >= first_.size()) first_.resize(file.value + 1, kNone);
  first_[file.value] = at;
  at_.Set(Key(file, to), at);
  if (from) Serve(file, from);
  if (reader) return;
  if (to.value >= backups_.size()) backups_.resize(to.value + 1);
  ++backups_[to.value];
  ++all_backups_;
}

void Copies::Serve(FileId file, NodeId by) {
  served_.Set(Key(file, by), served(file, by) + 1);
}

void Copies::Unserve(FileId file, const Copy& copy) {
  if (copy.again != Time::max()) {
    --parked_;
    return;
  }
  if (!copy.from) return;
  const uint32_t others = served(file, copy.from) - 1;
  if (others == 0) {
    served_.Erase(Key(file, copy.from));
  } else {
    served_.Set(Key(file, copy.from), others);
  }
}

void Copies::SetSource(FileId file, NodeId to, NodeId from) {
  Copy* const copy = Mutable(file, to);
  if (copy == nullptr) return;
  Unserve(file, *copy);
  copy->from = from;
  copy->again = Time::max();
  copy->for_room = false;
  if (from) Serve(file, from);
}

void Copies::Stop(FileId file, Copy* copy, Time again) {
  Unserve(file, *copy);
  copy->from = NodeId();
  copy->again = again;
  ++parked_;
}

void Copies::Park(FileId file, NodeId to, Time again) {
  Copy* const copy = Mutable(file, to);
  if (copy == nullptr) return;
  if (copy->from) copy->failed = copy->from;
  Stop(file, copy, again);
  if (copy->failures < UINT8_MAX) ++copy->failures;
}

void Copies::ParkForRoom(FileId file, NodeId to, Time again) {
  Copy* const copy = Mutable(file, to);
  if (copy == nullptr) return;
  Stop(file, copy, again);
  copy->for_room = true;
  if (copy->no_room < UINT8_MAX) ++copy->no_room;
  copy->last_try = false;
}

void Copies::ForgetFailures(FileId file, NodeId to) {
  if (Copy* const copy = Mutable(file, to); copy != nullptr) copy->failures = 0;
}

void Copies::SetLastTry(FileId file, NodeId to, Time again) {
  Copy* const copy = Mutable(file, to);
  if (copy == nullptr) return;
  copy->last_try = true;
  copy->again = again;
}

bool Copies::AnyGoes() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& each) {
    return each.to && each.copy.again == Time::max() && each.copy.no_room == 0;
  });
}

void Copies::NoteRoom(NodeId at, Time now) {
  if (parked_ == 0) return;
  Entry* first = nullptr;
  for (Entry& each : entries_) {
    if (each.to != at || !each.copy.for_room || each.copy.again <= now) continue;
    if (first == nullptr || each.file < first->file) first = &each;
  }
  if (first != nullptr) first->copy.again = now;
}

void Copies::Remove(FileId file, NodeId to) {
  const uint32_t at = Where(file, to);
  if (at == kNone) return;
  Entry& entry = entries_[at];
  Unserve(file, entry.copy);
  if (!entry.copy.reader) {
    --backups_[to.value];
    --all_backups_;
  }
  at_.Erase(Key(file, to));
  (entry.before == kNone ? first_[file.value] : entries_[entry.before].next) = entry.next;
  if (entry.next != kNone) entries_[entry.next].before = entry.before;
  entry = {.next = free_};
  free_ = at;
}

uint32_t Copies::served(FileId file, NodeId by) const {
  const uint32_t found = served_.Find(Key(file, by));
  return found == kNone ? 0 : found;
}

bool Copies::ComesFrom(FileId file, NodeId node, NodeId from) const {
  // Sources form a forest: each copy has one, and none is its own.
  while (node && node != from) {
    const Copy* const copy = Find(file, node);
    node = copy == nullptr ? NodeId() : copy->from;
  }
  return node == from;
}

template <class Which>
std::vector<Copies::Place> Copies::Places(const Which& which) const {
  std::vector<Place> places;
  for (const Entry& each : entries_) {
    if (each.to && which(each)) places.emplace_back(each.file, each.to);
  }
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<Copies::Place> Copies::To(NodeId node) const {
  return Places([node](const Entry& each) { return each.to == node; });
}

std::vector<Copies::Place> Copies::From(NodeId node) const {
  return Places([node](const Entry& each) { return each.copy.from == node; });
}

std::vector<Copies::Place> Copies::Parked(Time until) const {
  if (parked_ == 0) return {};
  return Places(
      [until](const Entry& each) { return each.copy.again != Time::max() && each.copy.again <= until; });
}

Time Copies::next() const {
  Time next = Time::max();
  if (parked_ == 0) return next;
  ForEach([&](FileId, NodeId, const Copy& copy) { next = std::min(next, copy.again); });
  return next;
}

size_t Copies::memory() const {
  return entries_.capacity() * sizeof(Entry) + at_.memory() + served_.memory() +
         (first_.capacity() + backups_.capacity()) * sizeof(uint32_t);
}

std::string Copies::FindBroken() const {
  std::map<uint64_t, uint32_t> served;
  uint32_t parked = 0, all_backups = 0;
  size_t live = 0;
  std::vector<uint32_t> backups(backups_.size());
  for (uint32_t n = 0; n < entries_.size(); ++n) {
    const auto& [file, to, copy, before, behind] = entries_[n];
    if (!to) continue;
    ++live;
    if (at_.Find(Key(file, to)) != n) return StrCat("file ", file.value, ": a copy that is not found");
    if ((before == kNone ? First(file) : entries_[before].next) != n ||
        (before != kNone && entries_[before].file != file))
      return StrCat("file ", file.value, ": not all of its copies are found");
    if (!copy.reader) {
      ++backups.at(to.value);
      ++all_backups;
    }
    if (copy.again != Time::max()) {
      ++parked;
      if (copy.from) return StrCat("file ", file.value, ": is sent by somebody, and nobody");
      continue;
    }
    if (!copy.from) continue;
    ++served[Key(file, copy.from)];
    NodeId node = copy.from;
    for (size_t steps = 0; node && steps <= entries_.size(); ++steps) {
      if (node == to) return StrCat("file ", file.value, ": node ", to.value, " gets it from itself");
      const Copy* const next = Find(file, node);
      node = next == nullptr ? NodeId() : next->from;
    }
  }
  std::map<uint64_t, uint32_t> known;
  served_.ForEach([&](uint64_t key, uint32_t count) { known[key] = count; });
  if (live != at_.size()) return "copies on their way";
  if (served != known) return "who sends how many files";
  if (parked != parked_) return "files that nobody sends";
  if (backups != backups_ || all_backups != all_backups_) return "backups on their way";
  return {};
}

}  // namespace harrow::core
