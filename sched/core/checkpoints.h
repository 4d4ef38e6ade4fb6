#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/text.h"
#include "base/time.h"

namespace harrow::core {

/// Tasks that can be asked for checkpoints: how long these take, which are asked, and which are to go on elsewhere.
class Checkpoints {
 public:
  // --- how long
  /// One of that profile was asked `took` before it had ended with a checkpoint.
  void Learn(ProfileId profile, Duration took) {
    Duration& known = took_[profile];
    known = std::max(took, known * 3 / 4);
  }
  /// So long before the allocation ends it is asked: twice what such have taken, and some time for their ends to be told; as long as
  /// nothing is known, all that it may take.
  Duration Lead(ProfileId profile, Duration most) const {
    const auto known = took_.find(profile);
    return known == took_.end() ? most : std::min(most, 2 * known->second + kMargin);
  }

  /// What one takes, as far as is known.
  Duration Takes(ProfileId profile, Duration most) const {
    const auto known = took_.find(profile);
    return known == took_.end() ? most : known->second;
  }

  // --- those that are at nodes
  void Enter(TaskId id) { out_.insert(id); }
  void Leave(TaskId id) {
    out_.erase(id);
    wanted_.erase(id);
    asked_.erase(id);
  }
  const std::unordered_set<TaskId>& out() const { return out_; }
  /// It is to leave its node. False: that is known.
  bool Want(TaskId id) { return wanted_.insert(id).second; }
  bool wanted(TaskId id) const { return wanted_.contains(id); }
  /// False: it has been asked, and may answer still.
  bool Ask(TaskId id) { return asked_.insert(id).second; }
  bool asked(TaskId id) const { return asked_.contains(id); }
  /// The question was in vain: it stays.
  void Miss(TaskId id) {
    asked_.erase(id);
    wanted_.erase(id);
    moves_.erase(id);
  }

  // --- where to
  /// To that node; none: to another server.
  void Move(TaskId id, NodeId node) { moves_[id] = node; }
  std::optional<NodeId> move(TaskId id) const {
    const auto found = moves_.find(id);
    return found == moves_.end() ? std::nullopt : std::optional(found->second);
  }
  void Forget(TaskId id) { moves_.erase(id); }
  bool any_move() const { return !moves_.empty(); }
  /// Ascending, those that wait for room on a node.
  std::vector<TaskId> ToNodes() const {
    std::vector<TaskId> tasks;
    for (const auto& [id, node] : moves_) {
      if (node) tasks.push_back(id);
    }
    std::sort(tasks.begin(), tasks.end());
    return tasks;
  }

  std::string FindBroken() const {
    for (const TaskId id : wanted_) {
      if (!out_.contains(id)) return StrCat("task ", id.value, " is to leave a node, and is at none");
    }
    for (const TaskId id : asked_) {
      if (!out_.contains(id)) return StrCat("task ", id.value, " is asked for a checkpoint, and does not run");
    }
    return {};
  }

 private:
  static constexpr Duration kMargin = std::chrono::seconds(2);
  std::unordered_map<ProfileId, Duration> took_;
  std::unordered_set<TaskId> out_, wanted_, asked_;
  std::unordered_map<TaskId, NodeId> moves_;
};

}  // namespace harrow::core
