#include "core/copies.h"

#include <algorithm>

#include "base/text.h"

namespace harrow::core {

const Copies::Copy* Copies::Find(FileId file, NodeId to) const {
  const auto found = copies_.find({file, to});
  return found == copies_.end() ? nullptr : &found->second;
}

std::vector<NodeId> Copies::Takers(FileId file) const {
  std::vector<NodeId> takers;
  for (auto it = copies_.lower_bound({file, NodeId(0)}); it != copies_.end() && it->first.first == file; ++it)
    takers.push_back(it->first.second);
  return takers;
}

void Copies::Add(FileId file, NodeId to, NodeId from, TaskId reader) {
  copies_[{file, to}] = Copy{.from = from, .reader = reader};
  if (from) ++served_[{file, from}];
}

void Copies::Unserve(FileId file, const Copy& copy) {
  if (copy.again != Time::max()) {
    --parked_;
    return;
  }
  if (!copy.from) return;
  const auto by = served_.find({file, copy.from});
  if (--by->second == 0) served_.erase(by);
}

void Copies::SetSource(FileId file, NodeId to, NodeId from) {
  Copy& copy = copies_.at({file, to});
  Unserve(file, copy);
  if (from != copy.failed) copy.failures = 0;
  copy.from = from;
  copy.again = Time::max();
  copy.for_room = false;
  if (from) ++served_[{file, from}];
}

void Copies::Stop(FileId file, Copy* copy, Time again) {
  Unserve(file, *copy);
  copy->from = NodeId();
  copy->again = again;
  ++parked_;
}

void Copies::Park(FileId file, NodeId to, Time again) {
  Copy& copy = copies_.at({file, to});
  if (copy.from) copy.failed = copy.from;
  Stop(file, &copy, again);
  if (copy.failures < UINT8_MAX) ++copy.failures;
}

void Copies::ParkForRoom(FileId file, NodeId to, Time again) {
  Copy& copy = copies_.at({file, to});
  Stop(file, &copy, again);
  copy.for_room = true;
  if (copy.no_room < UINT8_MAX) ++copy.no_room;
  copy.last_try = false;
}

void Copies::SetLastTry(FileId file, NodeId to, Time again) {
  Copy& copy = copies_.at({file, to});
  copy.last_try = true;
  copy.again = again;
}

bool Copies::AnyGoes() const {
  return std::any_of(copies_.begin(), copies_.end(), [](const auto& each) {
    return each.second.again == Time::max() && each.second.no_room == 0;
  });
}

void Copies::NoteRoom(NodeId at, Time now) {
  if (parked_ == 0) return;
  for (auto& [place, copy] : copies_) {
    if (place.second != at || !copy.for_room || copy.again <= now) continue;
    copy.again = now;
    return;
  }
}

void Copies::Remove(FileId file, NodeId to) {
  const auto found = copies_.find({file, to});
  if (found == copies_.end()) return;
  Unserve(file, found->second);
  copies_.erase(found);
}

uint32_t Copies::served(FileId file, NodeId by) const {
  const auto found = served_.find({file, by});
  return found == served_.end() ? 0 : found->second;
}

bool Copies::ComesFrom(FileId file, NodeId node, NodeId from) const {
  // Sources form a forest: each copy has one, and none is its own.
  while (node && node != from) {
    const Copy* const copy = Find(file, node);
    node = copy == nullptr ? NodeId() : copy->from;
  }
  return node == from;
}

std::vector<Copies::Place> Copies::To(NodeId node) const {
  std::vector<Place> places;
  for (const auto& [place, copy] : copies_) {
    if (place.second == node) places.push_back(place);
  }
  return places;
}

std::vector<Copies::Place> Copies::From(NodeId node) const {
  std::vector<Place> places;
  for (const auto& [place, copy] : copies_) {
    if (copy.from == node) places.push_back(place);
  }
  return places;
}

std::vector<Copies::Place> Copies::Parked(Time until) const {
  std::vector<Place> places;
  if (parked_ == 0) return places;
  for (const auto& [place, copy] : copies_) {
    if (copy.again != Time::max() && copy.again <= until) places.push_back(place);
  }
  return places;
}

Time Copies::next() const {
  Time next = Time::max();
  if (parked_ == 0) return next;
  for (const auto& [place, copy] : copies_) next = std::min(next, copy.again);
  return next;
}

size_t Copies::memory() const {
  constexpr size_t kNode = 4 * sizeof(void*);  // of a tree
  return copies_.size() * (sizeof(Place) + sizeof(Copy) + kNode) +
         served_.size() * (sizeof(Place) + sizeof(uint32_t) + kNode);
}

std::string Copies::FindBroken() const {
  std::map<Place, uint32_t> served;
  uint32_t parked = 0;
  for (const auto& [place, copy] : copies_) {
    const auto& [file, to] = place;
    if (copy.again != Time::max()) {
      ++parked;
      if (copy.from) return StrCat("file ", file.value, ": is sent by somebody, and nobody");
      continue;
    }
    if (!copy.from) continue;
    ++served[{file, copy.from}];
    NodeId node = copy.from;
    for (size_t steps = 0; node && steps <= copies_.size(); ++steps) {
      if (node == to) return StrCat("file ", file.value, ": node ", to.value, " gets it from itself");
      const Copy* const next = Find(file, node);
      node = next == nullptr ? NodeId() : next->from;
    }
  }
  if (served != served_) return "who sends how many files";
  if (parked != parked_) return "files that nobody sends";
  return {};
}

}  // namespace harrow::core
