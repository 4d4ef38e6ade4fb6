#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace harrow::run {

/// Whose the tasks of a run are at first, by their ids: those of the flow are part 0's, those that were submitted the
/// part's whose server took them.
class FirstOwners {
 public:
  /// So many tasks of part 0.
  FirstOwners(size_t tasks = 0) {  // NOLINT: a number of tasks of a flow says it all
    Add(0, tasks);
  }
  /// The next tasks are that part's.
  void Add(uint32_t part, size_t tasks) {
    if (tasks == 0) return;
    tasks_ += tasks;
    if (!runs_.empty() && runs_.back().second == part) {
      runs_.back().first = tasks_;
    } else {
      runs_.emplace_back(tasks_, part);
    }
  }
  size_t tasks() const { return tasks_; }
  /// Those from `first` on that are that part's.
  template <class Id>
  std::vector<Id> From(size_t first, uint32_t part) const {
    std::vector<Id> ids;
    size_t at = 0;
    for (const auto& [end, owner] : runs_) {
      for (size_t id = std::max(at, first); id < end && owner == part; ++id) ids.emplace_back(static_cast<uint32_t>(id));
      at = end;
    }
    return ids;
  }
  /// A flag a task: it is that part's.
  std::vector<bool> Of(uint32_t part) const {
    std::vector<bool> own(tasks_);
    size_t at = 0;
    for (const auto& [end, owner] : runs_) {
      if (owner == part) std::fill(own.begin() + static_cast<ptrdiff_t>(at), own.begin() + static_cast<ptrdiff_t>(end), true);
      at = end;
    }
    return own;
  }

 private:
  size_t tasks_ = 0;
  std::vector<std::pair<size_t, uint32_t>> runs_;  // their ends, and parts
};

}  // namespace harrow::run
