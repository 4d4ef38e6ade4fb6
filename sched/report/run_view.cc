#include "report/run_view.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace harrow::report {

using journal::AttemptRecord;
using journal::End;
using journal::TaskFate;

Duration RunTime(const AttemptRecord& attempt) {
  if (attempt.start_ns <= 0 || attempt.end_ns <= attempt.start_ns) return Duration(0);
  return Duration(attempt.end_ns - attempt.start_ns);
}

std::string_view FateName(TaskFate fate) {
  switch (fate) {
    case TaskFate::kOpen:
      return "open";
    case TaskFate::kDone:
      return "done";
    case TaskFate::kFailed:
      return "failed";
    case TaskFate::kSkipped:
      return "skipped";
    case TaskFate::kCancelled:
      return "cancelled";
    case TaskFate::kPruned:
      return "pruned";
  }
  return "unknown";
}

std::string_view EndName(End end) {
  switch (end) {
    case End::kExited:
      return "exited";
    case End::kSignaled:
      return "signaled";
    case End::kTimedOut:
      return "timed_out";
    case End::kOutOfMemory:
      return "out_of_memory";
    case End::kCancelled:
      return "cancelled";
    case End::kInterrupted:
      return "interrupted";
    case End::kNotStarted:
      return "not_started";
    case End::kLost:
      return "lost";
    case End::kMissingOutput:
      return "missing_output";
    case End::kRewound:
      return "rewound";
    case End::kCheckpointed:
      return "checkpointed";
  }
  return "unknown";
}

RunView::RunView(const journal::History& history) : history_(history) {
  const size_t n = history.tasks.size();
  for (size_t i = 0; i < n && dense_; ++i) dense_ = history.tasks[i].task.value == i;
  if (!dense_) {
    for (size_t i = 0; i < n; ++i) positions_[history.tasks[i].task.value] = i;
  }
  fates_.assign(n, TaskFate::kOpen);
  for (const journal::FateRecord& fate : history.fates) {
    const auto at = Position(fate.task);
    if (!at) continue;
    fates_[*at] = fate.fate;
    if (fate.because) because_[*at] = fate.because;
  }
  last_attempt_.assign(n, kNoAttempt);
  attempt_counts_.assign(n, 0);
  attempt_before_.assign(history.attempts.size(), kNoAttempt);
  for (size_t a = 0; a < history.attempts.size(); ++a) {
    const auto at = Position(history.attempts[a].task);
    if (!at) continue;
    attempt_before_[a] = last_attempt_[*at];
    last_attempt_[*at] = static_cast<uint32_t>(a);
    ++attempt_counts_[*at];
  }
  for (size_t p = 0; p < history.parts.size(); ++p) {
    const journal::PartRecord& part = history.parts[p];
    parts_[AttemptId{part.task, part.attempt}.key()].push_back(static_cast<uint32_t>(p));
  }
  sessions_ = journal::SessionsOf(history);
  for (const journal::Session& session : sessions_) makespan_ += session.length();
}

std::optional<size_t> RunView::Position(TaskId task) const {
  if (dense_) return task.value < task_count() ? std::optional<size_t>(task.value) : std::nullopt;
  const auto at = positions_.find(task.value);
  return at == positions_.end() ? std::nullopt : std::optional(at->second);
}

std::string RunView::Because(size_t i) const {
  const auto at = because_.find(i);
  return at == because_.end() ? "" : TaskName(at->second);
}

std::optional<size_t> RunView::LastAttempt(size_t i) const {
  return last_attempt_[i] == kNoAttempt ? std::nullopt : std::optional<size_t>(last_attempt_[i]);
}

std::vector<size_t> RunView::Attempts(size_t i) const {
  std::vector<size_t> attempts;
  for (uint32_t a = last_attempt_[i]; a != kNoAttempt; a = attempt_before_[a]) attempts.push_back(a);
  std::reverse(attempts.begin(), attempts.end());
  return attempts;
}

std::vector<const journal::PartRecord*> RunView::Parts(const AttemptRecord& attempt) const {
  std::vector<const journal::PartRecord*> parts;
  const auto found = parts_.find(AttemptId{attempt.task, attempt.attempt}.key());
  if (found == parts_.end()) return parts;
  for (const uint32_t p : found->second) parts.push_back(&history_.parts[p]);
  std::sort(parts.begin(), parts.end(), [](const auto* a, const auto* b) { return a->part < b->part; });
  return parts;
}

std::optional<size_t> RunView::FindTask(std::string_view name) const {
  for (size_t i = 0; i < task_count(); ++i) {
    if (task(i).name == name) return i;
  }
  const bool sure = name.starts_with('#');
  if (sure) name.remove_prefix(1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number == 0) return std::nullopt;
  const std::optional<size_t> at = Position(TaskId(number - 1));
  // As Graph::FindTask.
  if (at && !sure && !task(*at).name.starts_with('#') && !EndsWithNumber(task(*at).name, name))
    return std::nullopt;
  return at;
}

std::string RunView::TaskName(TaskId task) const {
  const auto at = Position(task);
  return at ? history_.tasks[*at].name : StrCat("#", uint64_t{task.value} + 1);
}

std::string RunView::NodeName(NodeId node) const {
  if (!node) return "";
  for (auto record = history_.nodes.rbegin(); record != history_.nodes.rend(); ++record) {
    if (record->node == node) return record->name;
  }
  return StrCat("node ", node.value);
}

std::vector<std::string> RunView::NodeNames(const AttemptRecord& attempt) const {
  std::vector<std::string> names;
  for (const journal::PartRecord* part : Parts(attempt)) {
    if (part->node) names.push_back(NodeName(part->node));
  }
  if (names.empty() && attempt.node) names.push_back(NodeName(attempt.node));
  return names;
}

uint32_t RunView::cores(TaskId task) const {
  const auto at = Position(task);
  return at ? static_cast<uint32_t>(std::max<uint64_t>(history_.tasks[*at].cores, 1)) : 1;
}

std::optional<std::string_view> RunView::Fact(std::string_view key) const {
  for (const auto& [name, value] : history_.facts) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> RunView::NumberFact(std::string_view key) const {
  const auto text = Fact(key);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

Duration RunView::TimeInRun(int64_t calendar_ns) const {
  Duration before{0};
  for (const journal::Session& session : sessions_) {
    if (calendar_ns < session.end_ns || &session == &sessions_.back())
      return before + Duration(std::clamp(calendar_ns, session.start_ns, session.end_ns) - session.start_ns);
    before += session.length();
  }
  return before;
}

}  // namespace harrow::report
