// A copy takes the links between its source and its node for as long as its bytes need. Its source may get
// the file itself still, and hands on what has come: then the copy is whole when both have all of it. One
// whose source goes keeps what it has, and waits to be told another one, as long as nothing else wants the
// room.

#include "sim/stores.h"

#include <algorithm>
#include <string_view>

namespace harrow::sim {

Stores::Stores(const graph::Graph& graph, Storage* storage, Transfers* transfers, uint64_t limit)
    : graph_(graph),
      storage_(storage),
      transfers_(transfers),
      limit_(limit),
      result_(graph.file_count(), false) {
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    for (const FileId file : graph.outputs(TaskId(n))) result_[file.value] = IsKept(file);
  }
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    for (const FileId file : graph.inputs(TaskId(n))) {
      result_[file.value] = false;
      // A file below an output directory is read with it.
      if (!graph.below_output(file)) continue;
      for (const FileId output : graph.outputs(graph.producer(file))) {
        const std::string_view name = graph.file_name(file), directory = graph.file_name(output);
        if (name.starts_with(directory) && name.substr(directory.size()).starts_with('/'))
          result_[output.value] = false;
      }
    }
  }
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    if (!graph.profile(TaskId(n)).keep) continue;
    for (const FileId file : graph.outputs(TaskId(n))) result_[file.value] = IsKept(file);
  }
}

bool Stores::IsKept(FileId file) const {
  const std::string_view name = graph_.file_name(file);
  return !name.starts_with('/') && name != ".." && !name.starts_with("../") && name != ".";
}

bool Stores::HasRoom(std::span<const FileId> files, NodeId node) {
  if (limit_ == 0) return true;
  uint64_t bytes = 0;
  for (const FileId file : files) bytes += Holds(file, node) ? 0 : SizeOf(file);
  const auto enough = [&] { return UsedAt(node) + bytes <= limit_; };
  std::vector<Place> idle;
  for (const auto& [place, copy] : copies_) {
    if (place.second == node && copy.transfer == kNone && !copy.ready) idle.push_back(place);
  }
  while (!enough() && !idle.empty()) {
    Forget(idle.back());
    idle.pop_back();
  }
  return enough();
}

void Stores::Bring(FileId file, NodeId to, NodeId from, double now) {
  const Place place(file, to);
  if (Holds(file, to)) {
    arrivals_.push_back({file, to, from, false, true});
    return;
  }
  if (!copies_.contains(place) && !HasRoom({&file, 1}, to)) {
    arrivals_.push_back({file, to, from, false, false, true});
    return;
  }
  auto [at, is_new] = copies_.try_emplace(place);
  Copy& copy = at->second;
  if (is_new) {
    UsedAt(to) += SizeOf(file);
    copy.left = storage_ == nullptr ? 0 : storage_->BytesOf(file);
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(places_.size()));
      places_.emplace_back();
    }
    copy.number = free_.back();
    free_.pop_back();
    places_[copy.number] = place;
  }
  Stop(&copy, now);
  copy.from = from;
  if (from && !Holds(file, from) && !copies_.contains({file, from})) {
    arrivals_.push_back({file, to, from, false, false});
    return;
  }
  Start(place, &copy, now);
}

void Stores::Start(const Place& place, Copy* copy, double now) {
  if (storage_ != nullptr) {
    Storage::Access access = storage_->Fetch(place.first, copy->from, place.second);
    access.bytes = copy->left;
    if (!access.at_once && copy->left > 0) {
      copy->transfer = transfers_->Begin(now, kCopy | copy->number, access.bytes, access.most,
                                         {access.uses, access.use_count});
      return;
    }
  }
  copy->left = 0;
  copy->ready = true;
  if (!copy->from || Holds(place.first, copy->from)) Arrive(place);
}

/// Its bytes come no more, and what has come stays.
void Stores::Stop(Copy* copy, double now) {
  copy->ready = false;
  if (copy->transfer == kNone) return;
  copy->left = transfers_->Left(copy->transfer, now);
  transfers_->Cancel(copy->transfer);
  copy->transfer = kNone;
}

void Stores::TransferEnded(uint32_t who) {
  const Place place = places_[who & ~kCopy];
  Copy& copy = copies_.at(place);
  copy.transfer = kNone;
  copy.left = 0;
  copy.ready = true;
  if (!copy.from || Holds(place.first, copy.from)) Arrive(place);
}

void Stores::Arrive(Place place) {
  arrivals_.push_back({place.first, place.second, copies_.at(place).from, true, true});
  Forget(place);
  Add(place.first, place.second);
  if (storage_ != nullptr) storage_->HasCome(place.first, place.second);
  // Those that had all of what it had.
  std::vector<Place> next;
  for (auto it = copies_.lower_bound({place.first, NodeId(0)}); it != copies_.end(); ++it) {
    if (it->first.first != place.first) break;
    if (it->second.ready && it->second.from == place.second) next.push_back(it->first);
  }
  for (const Place& each : next) Arrive(each);
}

void Stores::Forget(const Place& place) {
  const auto found = copies_.find(place);
  free_.push_back(found->second.number);
  copies_.erase(found);
  UsedAt(place.second) -= SizeOf(place.first);
}

void Stores::Drop(FileId file, NodeId node, double now) {
  if (held_.erase({file, node}) > 0) UsedAt(node) -= SizeOf(file);
  const auto found = copies_.find({file, node});
  if (found == copies_.end()) return;
  Stop(&found->second, now);
  Forget({file, node});
}

void Stores::NodeLost(NodeId node, double now) {
  std::erase_if(held_, [&](const Place& each) { return each.second == node; });
  std::erase_if(waiting_, [&](const auto& each) { return each.first.second == node; });
  std::vector<Place> gone;
  for (auto& [place, copy] : copies_) {
    if (place.second == node || copy.from == node) Stop(&copy, now);
    if (place.second == node) gone.push_back(place);
  }
  for (const Place& place : gone) Forget(place);
  UsedAt(node) = 0;
}

std::vector<uint32_t> Stores::TakeWaiting(const Place& place) {
  const auto found = waiting_.find(place);
  if (found == waiting_.end()) return {};
  std::vector<uint32_t> attempts = std::move(found->second);
  waiting_.erase(found);
  return attempts;
}

}  // namespace harrow::sim
