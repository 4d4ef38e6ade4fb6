#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "journal/journal.h"
#include "journal/sessions.h"

namespace harrow::report {

/// How long an attempt ran; 0 when it never started.
Duration RunTime(const journal::AttemptRecord& attempt);

/// "done", "failed", ... as shown in tables; an open task is "open".
std::string_view FateName(journal::TaskFate fate);
/// "exited", "signaled", ...: the words of the journal's view.
std::string_view EndName(journal::End end);

/// An index over what a journal holds. Keeps a reference: the history must outlive it. Tasks are addressed by
/// their position in history.tasks, attempts by theirs in history.attempts.
class RunView {
 public:
  explicit RunView(const journal::History& history);

  const journal::History& history() const { return history_; }
  size_t task_count() const { return history_.tasks.size(); }
  const journal::TaskRecord& task(size_t i) const { return history_.tasks[i]; }
  journal::TaskFate fate(size_t i) const { return fates_[i]; }
  /// The task that made this one skipped; empty: none is recorded.
  std::string Because(size_t i) const;
  /// The attempt recorded last; none: it was never tried.
  std::optional<size_t> LastAttempt(size_t i) const;
  /// All of a task's attempts, first one first.
  std::vector<size_t> Attempts(size_t i) const;
  uint32_t attempt_count(size_t i) const { return attempt_counts_[i]; }
  /// What each node had of an attempt of several, the lead node first; empty: it had one.
  std::vector<const journal::PartRecord*> Parts(const journal::AttemptRecord& attempt) const;

  std::optional<size_t> Position(TaskId task) const;
  /// A name, "#12" or "12" (numbers count from 1).
  std::optional<size_t> FindTask(std::string_view name) const;
  std::string TaskName(TaskId task) const;  // "#12" for one without a record
  std::string NodeName(NodeId node) const;  // empty for none
  /// Of all nodes of an attempt, the lead node first; empty where none is known.
  std::vector<std::string> NodeNames(const journal::AttemptRecord& attempt) const;
  uint32_t cores(TaskId task) const;

  std::optional<std::string_view> Fact(std::string_view key) const;
  std::optional<int64_t> NumberFact(std::string_view key) const;

  const std::vector<journal::Session>& sessions() const { return sessions_; }
  /// The sum of the sessions' lengths.
  Duration makespan() const { return makespan_; }
  /// Time since the run began at a moment of the calendar, without the gaps between sessions.
  Duration TimeInRun(int64_t calendar_ns) const;

 private:
  const journal::History& history_;
  bool dense_ = true;  // history.tasks[i] is task i
  std::unordered_map<uint32_t, size_t> positions_;
  std::vector<journal::TaskFate> fates_;
  std::unordered_map<size_t, TaskId> because_;
  static constexpr uint32_t kNoAttempt = UINT32_MAX;
  std::vector<uint32_t> last_attempt_;    // a task's, by position
  std::vector<uint32_t> attempt_before_;  // an attempt's, of the same task
  std::vector<uint32_t> attempt_counts_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> parts_;  // their positions, by AttemptId::key()
  std::vector<journal::Session> sessions_;
  Duration makespan_{0};
};

}  // namespace harrow::report
