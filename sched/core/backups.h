#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace harrow::core {

/// Files that may have fewer replicas than their task wants, in the order in which they are looked at, and
/// the nodes that could not take one of late.
class Backups {
 public:
  void Add(FileId file) {
    if (listed_.insert(file).second) files_.push_back(file);
  }
  /// The first; it is listed no more.
  FileId Take() {
    const FileId file = files_.front();
    files_.pop_front();
    listed_.erase(file);
    return file;
  }
  bool Has(FileId file) const { return listed_.contains(file); }
  size_t size() const { return files_.size(); }

  /// The node is given none until then.
  void Pause(NodeId node, Time until) {
    if (node.value >= paused_.size()) paused_.resize(node.value + 1, Time::min());
    paused_[node.value] = std::max(paused_[node.value], until);
  }
  /// The same for kFullPause, and each time twice as long: backups had filled it, and tasks had no room.
  void PauseFull(NodeId node, Time now) {
    if (node.value >= times_full_.size()) times_full_.resize(node.value + 1);
    Pause(node, now + kFullPause * (int64_t{1} << times_full_[node.value]));
    times_full_[node.value] = static_cast<uint8_t>(std::min(times_full_[node.value] + 1, kMostDoublings));
  }
  bool Pauses(NodeId node, Time now) const {
    return node.value < paused_.size() && now < paused_[node.value];
  }
  /// One more was given to that node.
  void CountGiven(NodeId node) {
    if (node.value >= given_.size()) given_.resize(node.value + 1);
    ++given_[node.value];
  }
  uint32_t given(NodeId node) const { return node.value < given_.size() ? given_[node.value] : 0; }

  size_t memory() const {
    constexpr size_t kNode = 3 * sizeof(void*);  // of a hash table
    return files_.size() * (sizeof(FileId) + kNode) + paused_.capacity() * sizeof(Time) +
           given_.capacity() * sizeof(uint32_t) + times_full_.capacity();
  }
  std::string FindBroken() const {
    const bool all = std::all_of(files_.begin(), files_.end(), [this](FileId file) { return Has(file); });
    return all && files_.size() == listed_.size() ? "" : "files of which replicas are missing";
  }

 private:
  static constexpr Duration kFullPause = std::chrono::minutes(1);
  static constexpr int kMostDoublings = 6;

  std::deque<FileId> files_;
  std::unordered_set<FileId> listed_;
  std::vector<Time> paused_;
  std::vector<uint32_t> given_;
  std::vector<uint8_t> times_full_;
};

}  // namespace harrow::core
