#include "report/allocations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/number_list.h"
#include "base/text.h"
#include "report/tables.h"

namespace harrow::report {
namespace {

using journal::Allocation;
using journal::AttemptRecord;
using journal::MoveRecord;

struct Stay {
  uint32_t slots = 0;
  int64_t joined_ns = 0, left_ns = 0;  // 0: not known
};

/// Of the allocations' nodes, in the last session: by number.
std::map<uint32_t, Stay> Stays(const RunView& run, int64_t session_ns) {
  std::map<uint32_t, Stay> stays;
  for (const journal::NodeRecord& node : run.history().nodes) {  // one when it joins, and one when it leaves
    if (std::max(node.joined_ns, node.left_ns) < session_ns) continue;
    const auto [at, first] = stays.try_emplace(node.node.value, Stay{node.slots, node.joined_ns, node.left_ns});
    Stay& stay = at->second;
    if (first) continue;
    stay.slots = std::max(stay.slots, node.slots);
    stay.joined_ns = std::min(stay.joined_ns, node.joined_ns);
    // Its last agent's counts, which may be there still.
    stay.left_ns = node.left_ns;
  }
  return stays;
}

int64_t LastSessionStart(const RunView& run) {
  return run.sessions().empty() ? 0 : run.sessions().back().start_ns;
}

/// Moves by which a task came to another allocation: the taker's word counts.
template <class Use>
void EachMove(const RunView& run, const Use& use) {
  const int64_t session_ns = LastSessionStart(run);
  for (const MoveRecord& move : run.history().moves) {
    if (move.what != MoveRecord::What::kTaken || move.giver == move.taker || move.time_ns < session_ns) continue;
    const auto tasks = ParseNumberList(move.tasks, UINT32_MAX);
    if (tasks) use(move, tasks->size());
  }
}

}  // namespace

double AllocationRow::Idle() const {
  return slot_seconds > 0 ? std::clamp(1 - Seconds(busy) / slot_seconds, 0.0, 1.0) : 0;
}

std::vector<AllocationRow> AllocationRows(const RunView& run) {
  const int64_t session_ns = LastSessionStart(run);
  const std::map<uint32_t, Stay> stays = Stays(run, session_ns);
  int64_t last_ns = session_ns;
  for (const AttemptRecord& attempt : run.history().attempts) last_ns = std::max(last_ns, attempt.end_ns);

  std::vector<AllocationRow> rows;
  std::map<uint32_t, size_t> row_of_node, row_of_part;
  for (const Allocation& allocation : run.history().allocations) {
    AllocationRow row{.part = allocation.part, .job = allocation.job, .partition = allocation.partition};
    int64_t from_ns = allocation.began_ns, until_ns = from_ns;
    for (uint32_t i = 0; i < allocation.nodes; ++i) {
      const auto at = stays.find(allocation.first_node.value + i);
      if (at == stays.end()) continue;
      const Stay& stay = at->second;
      const int64_t end_ns = std::max(stay.joined_ns, stay.left_ns == 0 ? last_ns : std::min(stay.left_ns, last_ns));
      ++row.nodes;
      row.slots += stay.slots;
      row.slot_seconds += Seconds(Duration(end_ns - stay.joined_ns)) * stay.slots;
      until_ns = std::max(until_ns, end_ns);
      row_of_node[at->first] = rows.size();
    }
    row.from = run.TimeInRun(from_ns);
    row.until = run.TimeInRun(until_ns);
    if (allocation.messages > 0 && until_ns > from_ns)
      row.messages = static_cast<double>(allocation.messages) / Seconds(Duration(until_ns - from_ns));
    row_of_part[row.part] = rows.size();
    rows.push_back(std::move(row));
  }
  const auto row_at = [&rows](const std::map<uint32_t, size_t>& of, uint32_t number) -> AllocationRow* {
    const auto at = of.find(number);
    return at == of.end() ? nullptr : &rows[at->second];
  };
  for (const AttemptRecord& attempt : run.history().attempts) {
    if (!attempt.node || attempt.end_ns < session_ns) continue;
    // All nodes of an attempt are of one allocation.
    AllocationRow* row = row_at(row_of_node, attempt.node.value);
    if (row == nullptr) continue;
    ++row->attempts;
    row->busy += RunTime(attempt) * run.cores(attempt.task);
  }
  EachMove(run, [&](const MoveRecord& move, uint64_t tasks) {
    if (AllocationRow* taker = row_at(row_of_part, move.taker)) taker->took += tasks;
    if (AllocationRow* giver = row_at(row_of_part, move.giver)) giver->gave += tasks;
  });
  return rows;
}

std::vector<MoveRow> MoveRows(const RunView& run) {
  std::vector<MoveRow> rows;
  EachMove(run, [&](const MoveRecord& move, uint64_t tasks) {
    rows.push_back({run.TimeInRun(move.time_ns), move.giver, move.taker, tasks});
  });
  std::stable_sort(rows.begin(), rows.end(), [](const MoveRow& a, const MoveRow& b) { return a.at < b.at; });
  return rows;
}

void WriteAllocations(const RunView& run, size_t width, const Sink& sink) {
  const std::vector<AllocationRow> rows = AllocationRows(run);
  WriteTable({{"allocation"},
              {"partition", false, 2},
              {"job", false, 1},
              {"nodes", true},
              {"slots", true},
              {"from s", true, 3},
              {"to s", true, 4},
              {"attempts", true},
              {"idle", true},
              {"took", true},
              {"gave", true},
              {"messages/s", true, 5}},
             rows.size(),
             [&](size_t r, std::vector<std::string>* cells) {
               const AllocationRow& row = rows[r];
               *cells = {StrCat(row.part),
                         row.partition.empty() ? "-" : Printable(row.partition),
                         row.job.empty() ? "-" : Printable(row.job),
                         StrCat(row.nodes),
                         StrCat(row.slots),
                         FixedText(Seconds(row.from), 1),
                         FixedText(Seconds(row.until), 1),
                         StrCat(row.attempts),
                         PercentCell(row.Idle()),
                         StrCat(row.took),
                         StrCat(row.gave),
                         row.messages > 0 ? FixedText(row.messages, 1) : "-"};
             },
             sink, width);
}

void WriteMoves(const RunView& run, size_t width, const Sink& sink) {
  const std::vector<MoveRow> rows = MoveRows(run);
  if (rows.empty()) {
    sink("no tasks went from one allocation to another\n");
    return;
  }
  WriteTable({{"at s", true}, {"from", true}, {"to", true}, {"tasks", true}}, rows.size(),
             [&](size_t r, std::vector<std::string>* cells) {
               *cells = {FixedText(Seconds(rows[r].at), 3), StrCat(rows[r].from), StrCat(rows[r].to), StrCat(rows[r].tasks)};
             },
             sink, width);
}

void AppendAllocations(const RunView& run, JsonWriter* json) {
  const std::vector<AllocationRow> rows = AllocationRows(run);
  if (rows.size() < 2) return;
  json->Key("allocations").BeginArray();
  for (const AllocationRow& row : rows) {
    json->BeginObject().MemberUint("part", row.part).Member("partition", row.partition).Member("job", row.job);
    json->MemberUint("nodes", row.nodes).MemberUint("slots", row.slots);
    json->MemberFixed("from_s", Seconds(row.from), 6).MemberFixed("to_s", Seconds(row.until), 6);
    json->MemberUint("attempts", row.attempts).MemberFixed("busy_s", Seconds(row.busy), 6);
    json->MemberFixed("slot_s", row.slot_seconds, 6).MemberFixed("idle", row.Idle(), 4);
    json->MemberUint("took", row.took).MemberUint("gave", row.gave).MemberFixed("messages_per_s", row.messages, 1);
    json->EndObject();
  }
  json->EndArray();
  json->Key("moves").BeginArray();
  for (const MoveRow& move : MoveRows(run)) {
    json->BeginObject().MemberFixed("at_s", Seconds(move.at), 6).MemberUint("from", move.from);
    json->MemberUint("to", move.to).MemberUint("tasks", move.tasks).EndObject();
  }
  json->EndArray();
}

}  // namespace harrow::report
