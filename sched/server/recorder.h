#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "journal/journal.h"

namespace harrow::server {

/// Sees to it that every attempt and every fate is recorded exactly once, numbers attempts, and knows which
/// results of agents are on disk. Of the server's thread.
class Recorder {
 public:
  Recorder(journal::Journal* journal, size_t tasks);

  /// There are so many tasks now.
  void Grow(size_t tasks);
  /// What an earlier server or run recorded. Returns false when it names tasks that are not there.
  bool Restore(const journal::History& history);

  /// The highest number of an attempt that is recorded; 0: none.
  uint32_t last_attempt(TaskId task) const { return last_attempt_[task.value]; }
  /// Is this attempt not recorded yet?
  bool IsNew(TaskId task, uint32_t attempt) const;
  void Attempt(journal::AttemptRecord record);
  /// Of an attempt that is not recorded yet.
  void Part(journal::PartRecord record);

  journal::TaskFate fate(TaskId task) const { return static_cast<journal::TaskFate>(fates_[task.value]); }
  /// Records the fate once; kOpen is none.
  void Fate(TaskId task, journal::TaskFate fate, TaskId because);

  void Node(journal::NodeRecord record);
  void Copy(journal::CopyRecord record);
  /// The number by which it is known when it is on disk.
  uint64_t Move(journal::MoveRecord record);
  void Fact(std::string_view key, std::string_view value);
  void Tasks(std::vector<journal::TaskRecord> tasks);

  /// An agent's results up to `agent_sequence` have been handed to the journal.
  void AcknowledgeLater(NodeId node, uint64_t incarnation, uint64_t agent_sequence);
  /// All up to `sequence` is on disk: calls `acknowledge` for what agents may drop.
  void Committed(
      uint64_t sequence,
      const std::function<void(NodeId node, uint64_t incarnation, uint64_t agent_sequence)>& acknowledge);
  bool all_committed() const { return committed_ >= added_; }
  uint64_t added() const { return added_; }
  uint64_t committed() const { return committed_; }

 private:
  struct Pending {
    uint64_t journal_sequence;
    NodeId node;
    uint64_t incarnation;
    uint64_t agent_sequence;
  };

  static uint64_t Key(TaskId task, uint32_t attempt) { return uint64_t{task.value} << 32 | attempt; }
  void Note(TaskId task, uint32_t attempt);

  journal::Journal* journal_;
  std::vector<uint16_t> last_attempt_;  // highest recorded
  std::vector<uint8_t> fates_;
  std::unordered_set<uint64_t> missing_;  // attempts below the highest that are not recorded
  std::deque<Pending> pending_;
  uint64_t added_ = 0, committed_ = 0;
};

}  // namespace harrow::server
