#pragma once

#include <string>

#include "journal/journal.h"

namespace harrow::test {

inline constexpr int64_t kMs = 1'000'000;
/// 2026-03-01T09:30:00Z
inline constexpr int64_t kBegin = 1'772'357'400'000 * kMs;

/// A run that is written down by hand: tasks in a row, attempts with times in ms since its start.
struct RunBuilder {
  journal::History history;

  RunBuilder& Task(const std::string& name, const std::string& kind, journal::TaskFate fate,
                   uint32_t cores = 1) {
    const TaskId id(static_cast<uint32_t>(history.tasks.size()));
    journal::TaskRecord task;
    task.task = id;
    task.name = name;
    task.kind = kind;
    task.cores = cores;
    history.tasks.push_back(task);
    if (fate != journal::TaskFate::kOpen) history.fates.push_back({id, fate, {}});
    return *this;
  }
  /// Of the task added last.
  RunBuilder& Because(uint32_t task) {
    history.fates.back().because = TaskId(task);
    return *this;
  }
  journal::AttemptRecord& Attempt(uint32_t task, uint32_t node, int64_t from_ms, int64_t to_ms,
                                  journal::End end = journal::End::kExited, int32_t code = 0) {
    journal::AttemptRecord attempt;
    attempt.task = TaskId(task);
    attempt.attempt = 1;
    for (const auto& before : history.attempts) attempt.attempt += before.task == attempt.task ? 1 : 0;
    attempt.node = NodeId(node);
    attempt.end = end;
    attempt.code = code;
    attempt.start_ns = from_ms < 0 ? 0 : kBegin + from_ms * kMs;
    attempt.end_ns = to_ms < 0 ? 0 : kBegin + to_ms * kMs;
    history.attempts.push_back(attempt);
    return history.attempts.back();
  }
  /// A part of the attempt added last, on a node.
  journal::PartRecord& Part(uint32_t part, uint32_t node, uint32_t ranks,
                            journal::End end = journal::End::kExited, int32_t code = 0) {
    const journal::AttemptRecord& attempt = history.attempts.back();
    journal::PartRecord record;
    record.task = attempt.task;
    record.attempt = attempt.attempt;
    record.part = part;
    record.node = NodeId(node);
    record.ranks = ranks;
    record.end = end;
    record.code = code;
    record.start_ns = attempt.start_ns;
    record.end_ns = attempt.end_ns;
    history.parts.push_back(record);
    return history.parts.back();
  }
  RunBuilder& Node(uint32_t id, const std::string& name, uint32_t slots, int64_t joined_ms = 0) {
    journal::NodeRecord node;
    node.node = NodeId(id);
    node.name = name;
    node.slots = slots;
    node.joined_ns = kBegin + joined_ms * kMs;
    history.nodes.push_back(node);
    return *this;
  }
  /// A session; to_ms < 0: its end is not recorded.
  RunBuilder& Times(int64_t from_ms, int64_t to_ms) {
    history.sessions.push_back({kBegin + from_ms * kMs, to_ms < 0 ? 0 : kBegin + to_ms * kMs});
    return *this;
  }
};

/// Two nodes of two slots, ten seconds: a task that is done, one done at the second try, one of two cores
/// that failed, one that was skipped for it, one that could not be started, one cancelled before it ran.
inline journal::History SampleRun() {
  using journal::End;
  using journal::TaskFate;
  RunBuilder run;
  run.Node(0, "node1", 2).Node(1, "node2", 2);
  run.Task("make-1", "make", TaskFate::kDone).Task("make-2", "make", TaskFate::kDone);
  run.Task("big", "solve", TaskFate::kFailed, 2)
      .Task("after, \"big\"", "plot", TaskFate::kSkipped)
      .Because(2);
  run.Task("typo", "plto", TaskFate::kFailed).Task("spare", "make", TaskFate::kCancelled);
  auto& a = run.Attempt(0, 0, 0, 2000);
  a.user_us = 1'500'000;
  a.system_us = 250'000;
  a.max_rss_kib = 2048;
  a.stdout_bytes = 10;
  a.local_bytes = a.home_bytes = 300;
  run.Attempt(1, 0, 0, 1000, End::kLost);
  auto& small = run.Attempt(1, 1, 1000, 5000);
  small.remote_bytes = 100;
  small.max_rss_kib = -1536;  // known to be less
  auto& failed = run.Attempt(2, 1, 2000, 8000, End::kSignaled, 11);
  failed.max_rss_kib = 1 << 20;
  failed.stderr_bytes = 24;
  failed.output_file = 3;
  failed.output_offset = 77;
  failed.cores = "0-1";
  run.Attempt(4, 0, -1, -1, End::kNotStarted).message = "plto: command not found";
  run.Times(0, 10000);
  return run.history;
}

}  // namespace harrow::test
