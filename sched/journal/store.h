#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "journal/journal.h"

namespace harrow::journal {

/// Of journal.db (journal_format.md).
inline constexpr uint32_t kJournalFormat = 7;
/// The oldest that is read; opened for writing, it becomes one of the present format.
inline constexpr uint32_t kOldestFormat = 3;

/// What is committed together.
struct Group {
  std::span<const TaskRecord> tasks;  // ids rise, also from group to group
  std::span<const AttemptRecord> attempts;
  std::span<const FateRecord> fates;
  std::span<const NodeRecord> nodes;
  std::span<const CopyRecord> copies;
  std::span<const std::pair<std::string, std::string>> facts;
  std::span<const PartRecord> parts;
  std::span<const MoveRecord> moves;
};

/// The database of a journal. Of one thread at a time; grouping and threads are Journal's. Private to
/// journal.
class Store {
 public:
  /// Makes it, or verifies and opens what is there; `history`, if not null, gets what it holds.
  static Result<std::unique_ptr<Store>> Open(std::shared_ptr<run_dir::RunDir> dir, const Journal::Options& options,
                                             History* history);
  virtual ~Store() = default;
  /// Whole and on disk, or an error after which nothing can be committed any more.
  virtual Status Commit(const Group& group) = 0;
  /// Leaves one plain file.
  virtual Status Close() = 0;
  /// Tasks up to this id are recorded; none: nothing is.
  virtual TaskId last_task() const = 0;
};

}  // namespace harrow::journal
