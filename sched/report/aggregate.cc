#include "report/aggregate.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "journal/parts.h"

namespace harrow::report {
namespace {

using journal::AttemptRecord;
using journal::End;
using journal::TaskFate;

/// Are all of `wanted` in `known`? `what` is "kind" or "node".
Status CheckKnown(std::string_view what, const std::vector<std::string>& wanted,
                  const std::unordered_set<std::string_view>& known) {
  for (const std::string& name : wanted) {
    if (known.contains(name)) continue;
    const auto near = Suggest(name, {known.begin(), known.end()});
    return {Code::kInvalid, StrCat("no ", what, " '", Printable(name), "' in this run",
                                   near ? StrCat("; did you mean '", Printable(*near), "'?") : "")};
  }
  return {};
}

/// Whether one of these nodes had it, or a part of it.
bool WasOn(const RunView& run, const AttemptRecord& attempt, const std::unordered_set<uint32_t>& nodes) {
  if (nodes.contains(attempt.node.value)) return true;
  const auto parts = run.Parts(attempt);
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto* part) { return nodes.contains(part->node.value); });
}

bool WasAskedToEnd(const AttemptRecord&) {
  return false;
}
bool WasAskedToEnd(const journal::PartRecord& part) {
  return journal::WasAsked(part);
}

/// How an attempt, or its part there, counts for a node.
template <class Record>
void CountEnd(const Record& record, NodeRow* row) {
  ++row->attempts;
  if (record.end == End::kLost) {
    row->lost += WasAskedToEnd(record) ? 0 : 1;
  } else if (record.end != End::kInterrupted && record.end != End::kCancelled &&
             !journal::IsContinued(record) && !journal::Succeeded(record)) {
    ++row->failed;
  }
  row->output_bytes += record.stdout_bytes + record.stderr_bytes;
}

}  // namespace

Result<std::vector<size_t>> Select(const RunView& run, const Filter& filter) {
  std::unordered_set<std::string_view> known_kinds, known_nodes;
  if (!filter.kinds.empty()) {
    for (size_t i = 0; i < run.task_count(); ++i) known_kinds.insert(run.task(i).kind);
    HARROW_RETURN_IF_ERROR(CheckKnown("kind", filter.kinds, known_kinds));
  }
  std::unordered_set<uint32_t> nodes;
  if (!filter.nodes.empty()) {
    const std::unordered_set<std::string_view> wanted(filter.nodes.begin(), filter.nodes.end());
    for (const journal::NodeRecord& node : run.history().nodes) {
      known_nodes.insert(node.name);
      if (wanted.contains(node.name)) nodes.insert(node.node.value);
    }
    HARROW_RETURN_IF_ERROR(CheckKnown("node", filter.nodes, known_nodes));
  }
  const std::unordered_set<std::string_view> kinds(filter.kinds.begin(), filter.kinds.end());
  std::vector<size_t> selected;
  for (size_t i = 0; i < run.task_count(); ++i) {
    if (filter.failed && run.fate(i) != TaskFate::kFailed) continue;
    if (!kinds.empty() && !kinds.contains(run.task(i).kind)) continue;
    if (!filter.nodes.empty()) {
      const auto last = run.LastAttempt(i);
      if (!last || !WasOn(run, run.history().attempts[*last], nodes)) continue;
    }
    selected.push_back(i);
  }
  return selected;
}

std::vector<KindRow> KindRows(const RunView& run, const std::vector<size_t>& tasks) {
  std::vector<KindRow> rows;
  std::vector<std::vector<int64_t>> times;
  std::unordered_map<std::string_view, size_t> row_of;
  for (const size_t i : tasks) {
    const auto [at, is_new] = row_of.try_emplace(run.task(i).kind, rows.size());
    if (is_new) {
      rows.push_back({.kind = run.task(i).kind});
      times.emplace_back();
    }
    KindRow& row = rows[at->second];
    ++row.tasks;
    row.attempts += run.attempt_count(i);
    switch (run.fate(i)) {
      case TaskFate::kDone:
        ++row.done;
        break;
      case TaskFate::kFailed:
        ++row.failed;
        break;
      case TaskFate::kSkipped:
        ++row.skipped;
        break;
      default:
        ++row.other;
    }
    for (const size_t a : run.Attempts(i)) {
      const AttemptRecord& attempt = run.history().attempts[a];
      row.core_time += RunTime(attempt) * run.cores(attempt.task);
      row.cpu_time += std::chrono::microseconds(attempt.user_us + attempt.system_us);
      // A bound above what is known of the others may hide the largest.
      if (std::abs(attempt.max_rss_kib) > std::abs(row.max_rss_kib)) row.max_rss_kib = attempt.max_rss_kib;
    }
    const auto last = run.LastAttempt(i);
    if (last && run.fate(i) == TaskFate::kDone)
      times[at->second].push_back(RunTime(run.history().attempts[*last]).count());
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<int64_t>& t = times[r];
    if (t.empty()) continue;
    long double sum = 0;
    for (const int64_t ns : t) sum += static_cast<long double>(ns);
    rows[r].mean = Duration(static_cast<int64_t>(sum / static_cast<long double>(t.size())));
    const auto middle = t.begin() + static_cast<ptrdiff_t>(t.size() / 2);
    std::nth_element(t.begin(), middle, t.end());
    rows[r].median = Duration(*middle);
    if (t.size() % 2 == 0) rows[r].median = Duration(*middle / 2 + *std::max_element(t.begin(), middle) / 2);
    rows[r].max = Duration(*std::max_element(t.begin(), t.end()));
  }
  return rows;
}

/// Of each node the length x slots of the sessions in which it joined.
std::map<uint32_t, double> SlotSeconds(const RunView& run) {
  std::map<uint32_t, double> room;
  for (const journal::Session& session : run.sessions()) {
    for (const auto& [node, slots] : session.slots_of) room[node] += Seconds(session.length()) * slots;
  }
  return room;
}

namespace {

/// Was it gone before its session ended? One that goes on, or was killed, has no end.
bool LeftEarly(const std::vector<journal::SessionRecord>& sessions, const journal::NodeRecord& node) {
  if (node.left_ns == 0) return false;
  for (size_t i = sessions.size(); i-- > 0;) {
    if (sessions[i].started_ns > node.joined_ns && i > 0) continue;
    return sessions[i].ended_ns == 0 || node.left_ns < sessions[i].ended_ns;
  }
  return false;
}

}  // namespace

std::vector<NodeRow> NodeRows(const RunView& run, const std::vector<size_t>& tasks) {
  std::map<uint32_t, NodeRow> rows;
  std::set<std::pair<uint32_t, uint64_t>>
      incarnations;  // a node has a record when it joins and when it leaves
  for (const journal::NodeRecord& node : run.history().nodes) {
    NodeRow& row = rows[node.node.value];
    row.node = node.name;
    row.slots = node.slots;
    if (incarnations.emplace(node.node.value, node.incarnation).second) ++row.incarnations;
    row.gone = LeftEarly(run.history().sessions, node);  // its last record counts
  }
  for (const size_t i : tasks) {
    for (const size_t a : run.Attempts(i)) {
      const AttemptRecord& attempt = run.history().attempts[a];
      const auto parts = run.Parts(attempt);
      // Each node keeps its cores until all have ended.
      const Duration busy = RunTime(attempt) * run.cores(attempt.task) /
                            static_cast<int64_t>(std::max<size_t>(1, parts.size()));
      const auto count = [&](NodeId node, const auto& record) {
        if (!node) return;
        NodeRow& row = rows[node.value];
        if (row.node.empty()) row.node = run.NodeName(node);
        CountEnd(record, &row);
        row.busy += busy;
      };
      for (const journal::PartRecord* part : parts) count(part->node, *part);
      if (parts.empty()) count(attempt.node, attempt);
      if (!attempt.node) continue;
      NodeRow& row = rows[attempt.node.value];
      row.local_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.local_bytes, 0));
      row.remote_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.remote_bytes, 0));
    }
  }
  const std::map<uint32_t, double> room = SlotSeconds(run);
  std::vector<NodeRow> out;
  for (auto& [id, row] : rows) {
    const auto at = room.find(id);
    if (at != room.end() && at->second > 0)
      row.utilisation = std::clamp(Seconds(row.busy) / at->second, 0.0, 1.0);
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<size_t> Slowest(const RunView& run, const std::vector<size_t>& tasks, size_t count) {
  std::vector<std::pair<int64_t, size_t>>
      times;  // negated, so that the longest is first and ties keep the flow's order
  for (const size_t i : tasks) {
    const auto last = run.LastAttempt(i);
    if (last) times.emplace_back(-RunTime(run.history().attempts[*last]).count(), i);
  }
  const auto shown = static_cast<ptrdiff_t>(std::min(count, times.size()));
  std::partial_sort(times.begin(), times.begin() + shown, times.end());
  std::vector<size_t> slowest;
  for (ptrdiff_t i = 0; i < shown; ++i) slowest.push_back(times[static_cast<size_t>(i)].second);
  return slowest;
}

}  // namespace harrow::report
