#include "journal/whole_run.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>

#include "base/text.h"

namespace harrow::journal {
namespace {

std::string FactOf(const History& history, std::string_view key) {
  for (const auto& [name, value] : history.facts) {
    if (name == key) return value;
  }
  return {};
}

uint32_t NodesOf(const History& history) {
  uint32_t nodes = 0;
  const auto see = [&](NodeId node) {
    if (node) nodes = std::max(nodes, node.value + 1);
  };
  for (const NodeRecord& node : history.nodes) see(node.node);
  for (const AttemptRecord& attempt : history.attempts) see(attempt.node);
  for (const PartRecord& part : history.parts) see(part.node);
  return nodes;
}

/// Histories of the other parts that go by the same numbering of tasks.
std::vector<std::pair<uint32_t, History>> ReadOthers(const run_dir::Part& first, const History& of_first, const ReadJournal& read,
                                std::vector<Status>* trouble) {
  std::vector<std::pair<uint32_t, History>> others;
  const auto tell = [&](const Status& why) {
    if (trouble != nullptr) trouble->push_back(why);
  };
  // What is no run with parts has no others.
  if (first.run == first.dir) return others;
  const Result<std::vector<uint32_t>> numbers = run_dir::PartNumbers(*first.run);
  if (!numbers.ok()) tell(numbers.status());
  for (const uint32_t number : numbers.ok() ? *numbers : std::vector<uint32_t>()) {
    if (number == first.number) continue;
    const Result<run_dir::Part> part = run_dir::OpenPart(first.run, StrCat(number));
    Result<History> history = part.ok() ? read(part->dir) : part.status();
    if (!history.ok()) {
      if (history.status().code() != Code::kNotFound) tell(history.status());
      continue;
    }
    if (FactOf(*history, "flow_id") != FactOf(of_first, "flow_id")) continue;
    others.emplace_back(number, *std::move(history));
  }
  return others;
}

Allocation AllocationOf(uint32_t part, const History& history, uint32_t nodes_before) {
  Allocation of;
  of.part = part;
  of.job = FactOf(history, "job_id");
  of.partition = FactOf(history, "partition");
  of.first_node = NodeId(nodes_before);
  of.nodes = NodesOf(history);
  if (!history.sessions.empty()) {
    of.began_ns = history.sessions.back().started_ns;
    of.ended_ns = history.sessions.back().ended_ns;
  }
  const std::string messages = FactOf(history, "server_messages");
  std::from_chars(messages.data(), messages.data() + messages.size(), of.messages);
  return of;
}

/// Those that are not there; both rise by ids. Who goes on in the first part's place knows tasks that were submitted since.
void AddTasks(std::vector<TaskRecord>* to, std::vector<TaskRecord>& from) {
  if (from.empty()) return;
  std::vector<TaskRecord> both;
  const auto earlier = [](const TaskRecord& a, const TaskRecord& b) { return a.task.value < b.task.value; };
  std::set_union(std::make_move_iterator(to->begin()), std::make_move_iterator(to->end()), std::make_move_iterator(from.begin()),
                 std::make_move_iterator(from.end()), std::back_inserter(both), earlier);
  *to = std::move(both);
}

int64_t EndOf(const History& history) {
  int64_t end = history.sessions.back().ended_ns;
  if (end != 0) return end;
  for (const AttemptRecord& attempt : history.attempts) end = std::max(end, attempt.end_ns);
  return end;
}

/// A session goes on until the last of its allocations has ended, which need not be the first.
void Lengthen(std::vector<SessionRecord>* sessions, const History& by) {
  if (by.sessions.empty()) return;
  const int64_t began = by.sessions.back().started_ns;
  const auto after = std::find_if(sessions->begin(), sessions->end(), [&](const SessionRecord& each) { return each.started_ns > began; });
  if (after == sessions->begin()) return;
  SessionRecord& session = *std::prev(after);
  // Of one without an end the last record counts, whoever has it.
  if (session.ended_ns != 0) session.ended_ns = std::max(session.ended_ns, EndOf(by));
}

bool OfLastSession(const History& other, const History& of_first) {
  return FactOf(other, "session_ns") == FactOf(of_first, "session_ns");
}

}  // namespace

std::vector<History> ReadOthersOfSession(const run_dir::Part& first, const History& of_first, const ReadJournal& read,
                                         std::vector<Status>* trouble) {
  std::vector<History> others;
  for (auto& [part, history] : ReadOthers(first, of_first, read, trouble)) {
    if (OfLastSession(history, of_first)) others.push_back(std::move(history));
  }
  return others;
}

Result<History> ReadRun(const run_dir::Part& first, const ReadJournal& read, std::vector<Status>* trouble) {
  Result<History> all = read(first.dir);
  if (!all.ok()) return all;
  uint32_t nodes = NodesOf(*all);
  all->allocations.push_back(AllocationOf(first.number, *all, 0));
  bool goes_on = false;
  int64_t ended = all->sessions.empty() ? 0 : all->sessions.back().ended_ns;
  for (auto& [part, other] : ReadOthers(first, *all, read, trouble)) {
    const uint64_t of_part = uint64_t{part} << 32;
    const auto number = [&](NodeId* node) {
      if (*node) node->value += nodes;
    };
    const Allocation allocation = AllocationOf(part, other, nodes);
    AddTasks(&all->tasks, other.tasks);
    const auto place = [&](auto& record) {
      number(&record.node);
      record.output_file |= of_part;
    };
    std::for_each(other.nodes.begin(), other.nodes.end(), place);
    std::for_each(other.attempts.begin(), other.attempts.end(), place);
    std::for_each(other.parts.begin(), other.parts.end(), place);
    for (CopyRecord& copy : other.copies) number(&copy.from), number(&copy.to);
    nodes += allocation.nodes;
    const auto add = [](auto* to, auto& from) {
      to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    add(&all->nodes, other.nodes);
    add(&all->attempts, other.attempts);
    add(&all->parts, other.parts);
    add(&all->copies, other.copies);
    add(&all->moves, other.moves);
    if (!OfLastSession(other, *all)) {
      Lengthen(&all->sessions, other);
      continue;
    }
    all->allocations.push_back(allocation);
    add(&all->fates, other.fates);
    goes_on |= !other.sessions.empty() && other.sessions.back().ended_ns == 0;
    if (!other.sessions.empty()) ended = std::max(ended, other.sessions.back().ended_ns);
  }
  if (!all->sessions.empty() && all->sessions.back().ended_ns != 0)
    all->sessions.back().ended_ns = goes_on ? 0 : ended;
  return all;
}

}  // namespace harrow::journal
