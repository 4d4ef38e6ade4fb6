#include "server/recorder.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace harrow::server {
namespace {

constexpr uint32_t kMaxAttempt = std::numeric_limits<uint16_t>::max();

}  // namespace

Recorder::Recorder(journal::Journal* journal, size_t tasks)
    : journal_(journal), last_attempt_(tasks, 0), fates_(tasks, 0) {}

void Recorder::Grow(size_t tasks) {
  last_attempt_.resize(tasks, 0);
  fates_.resize(tasks, 0);
}

bool Recorder::Restore(const journal::History& history) {
  for (const journal::AttemptRecord& attempt : history.attempts) {
    if (attempt.task.value >= last_attempt_.size()) return false;
    if (IsNew(attempt.task, attempt.attempt)) Note(attempt.task, attempt.attempt);
  }
  for (const journal::FateRecord& fate : history.fates) {
    if (fate.task.value >= fates_.size()) return false;
    fates_[fate.task.value] = static_cast<uint8_t>(fate.fate);
  }
  return true;
}

bool Recorder::IsNew(TaskId task, uint32_t attempt) const {
  if (attempt == 0 || attempt > kMaxAttempt) return false;
  if (attempt > last_attempt_[task.value]) return true;
  return !missing_.empty() && missing_.contains(Key(task, attempt));
}

void Recorder::Note(TaskId task, uint32_t attempt) {
  uint16_t& last = last_attempt_[task.value];
  if (attempt <= last) {
    missing_.erase(Key(task, attempt));
    return;
  }
  for (uint32_t between = last + 1u; between < attempt; ++between) missing_.insert(Key(task, between));
  last = static_cast<uint16_t>(attempt);
}

void Recorder::Attempt(journal::AttemptRecord record) {
  Note(record.task, record.attempt);
  added_ = journal_->Add(std::move(record));
}

void Recorder::Part(journal::PartRecord record) {
  added_ = journal_->Add(std::move(record));
}

void Recorder::Fate(TaskId task, journal::TaskFate fate, TaskId because) {
  uint8_t& known = fates_[task.value];
  if (known != static_cast<uint8_t>(journal::TaskFate::kOpen)) return;
  known = static_cast<uint8_t>(fate);
  added_ = journal_->Add(journal::FateRecord{.task = task, .fate = fate, .because = because});
}

void Recorder::Node(journal::NodeRecord record) {
  added_ = journal_->Add(std::move(record));
}

void Recorder::Copy(journal::CopyRecord record) {
  added_ = journal_->Add(std::move(record));
}

uint64_t Recorder::Move(journal::MoveRecord record) {
  return added_ = journal_->Add(std::move(record));
}

void Recorder::Fact(std::string_view key, std::string_view value) {
  added_ = journal_->SetFact(key, value);
}

void Recorder::Tasks(std::vector<journal::TaskRecord> tasks) {
  added_ = journal_->Add(std::move(tasks));
}

void Recorder::AcknowledgeLater(NodeId node, uint64_t incarnation, uint64_t agent_sequence) {
  pending_.push_back({added_, node, incarnation, agent_sequence});
}

void Recorder::Committed(uint64_t sequence,
                         const std::function<void(NodeId, uint64_t, uint64_t)>& acknowledge) {
  committed_ = std::max(committed_, sequence);
  while (!pending_.empty() && pending_.front().journal_sequence <= committed_) {
    const Pending p = pending_.front();
    pending_.pop_front();
    acknowledge(p.node, p.incarnation, p.agent_sequence);
  }
}

}  // namespace harrow::server
