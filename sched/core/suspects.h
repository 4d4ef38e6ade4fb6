#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace harrow::core {

/// Nodes where tasks fail one after the other, at once, while nobody else has ended any: whether the node or
/// the tasks are to blame is not known yet. Such a node is given one task at a time, with pauses that grow,
/// until it is.
class Suspects {
 public:
  bool any() const { return !suspects_.empty(); }
  size_t size() const { return suspects_.size(); }
  bool Has(NodeId id) const { return Find(id) != nullptr; }
  /// It is given nothing now.
  bool Waits(NodeId id) const {
    const Suspect* const suspect = Find(id);
    return suspect != nullptr && suspect->waits;
  }
  std::vector<NodeId> All() const {
    std::vector<NodeId> all;
    for (const Suspect& suspect : suspects_) all.push_back(suspect.id);
    return all;
  }

  void Add(NodeId id, Time now) {
    if (!Has(id)) suspects_.insert(Place(id), {id, now + kFirstPause, kFirstPause, true});
  }
  /// It has been given its one task: the next pause begins.
  void Given(NodeId id, Time now) {
    for (Suspect& suspect : suspects_) {
      if (suspect.id != id) continue;
      suspect.pause = std::min(kLongestPause, suspect.pause * 2);
      suspect.until = now + suspect.pause;
      suspect.waits = true;
    }
  }
  void Forget(NodeId id) {
    std::erase_if(suspects_, [&](const Suspect& suspect) { return suspect.id == id; });
  }
  /// Those whose pause is over: each may be given a task.
  std::vector<NodeId> EndPauses(Time now) {
    std::vector<NodeId> ended;
    for (Suspect& suspect : suspects_) {
      if (!suspect.waits || suspect.until > now) continue;
      suspect.waits = false;
      ended.push_back(suspect.id);
    }
    return ended;
  }
  /// When the next pause is over; Time::max(): none goes on.
  Time next() const {
    Time next = Time::max();
    for (const Suspect& suspect : suspects_) {
      if (suspect.waits) next = std::min(next, suspect.until);
    }
    return next;
  }

 private:
  static constexpr Duration kFirstPause = std::chrono::seconds(2);
  static constexpr Duration kLongestPause = std::chrono::seconds(16);
  struct Suspect {
    NodeId id;
    Time until;
    Duration pause;
    bool waits;
  };
  std::vector<Suspect>::const_iterator Place(NodeId id) const {
    return std::lower_bound(suspects_.begin(), suspects_.end(), id, [](const Suspect& s, NodeId n) { return s.id < n; });
  }
  const Suspect* Find(NodeId id) const {
    const auto found = Place(id);
    return found == suspects_.end() || found->id != id ? nullptr : &*found;
  }
  // Ascending. Mostly a few; where all nodes are suspect, none is.
  std::vector<Suspect> suspects_;
};

}  // namespace harrow::core
