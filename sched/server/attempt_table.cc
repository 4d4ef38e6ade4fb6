#include "server/attempt_table.h"

#include <algorithm>
#include <utility>

namespace harrow::server {

Part* Gang::At(NodeId node) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [node](const Part& part) { return part.node == node; });
  return found == parts.end() ? nullptr : &*found;
}

bool Gang::over() const {
  return heard.size() == parts.size();
}

bool Gang::processes_over() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.ranks == 0 || part.state == Part::State::kOver; });
}

AttemptTable::AtNode& AttemptTable::Of(NodeId node) {
  if (node.value >= nodes_.size()) nodes_.resize(node.value + 1);
  return nodes_[node.value];
}

void AttemptTable::Enter(TaskId task, NodeId node, size_t* place) {
  std::vector<TaskId>& tasks = Of(node).tasks;
  *place = tasks.size();
  tasks.push_back(task);
}

void AttemptTable::Leave(NodeId node, size_t place) {
  std::vector<TaskId>& tasks = nodes_[node.value].tasks;
  tasks[place] = tasks.back();
  Row& moved = rows_.at(tasks[place].value);
  (moved.gang ? moved.gang->At(node)->place : moved.place) = place;
  tasks.pop_back();
}

AttemptTable::Row& AttemptTable::Add(AttemptId id, NodeId node, State state) {
  Erase(id.task);
  Row& row = rows_[id.task.value];
  row.id = id;
  row.node = node;
  row.state = state;
  row.cores = graph_.profile(id.task).shape.cores;
  Enter(id.task, node, &row.place);
  if (state == State::kReturning) ++returning_;
  return row;
}

AttemptTable::Row& AttemptTable::Add(AttemptId id, std::vector<Part> parts) {
  Erase(id.task);
  Row& row = rows_[id.task.value];
  row.id = id;
  row.node = parts.front().node;
  row.cores = static_cast<uint32_t>(graph_.profile(id.task).all_cores());
  row.gang = std::make_unique<Gang>();
  row.gang->parts = std::move(parts);
  for (Part& part : row.gang->parts) {
    if (part.out()) Enter(id.task, part.node, &part.place);
  }
  gangs_.insert(id.task);
  return row;
}

AttemptTable::Row* AttemptTable::Find(TaskId task) {
  const auto found = rows_.find(task.value);
  return found == rows_.end() ? nullptr : &found->second;
}

const AttemptTable::Row* AttemptTable::Find(TaskId task) const {
  const auto found = rows_.find(task.value);
  return found == rows_.end() ? nullptr : &found->second;
}

AttemptTable::Row* AttemptTable::Find(AttemptId id, NodeId node) {
  Row* row = Find(id.task);
  if (row == nullptr || row->id != id) return nullptr;
  return (row->gang ? row->gang->At(node) != nullptr : row->node == node) ? row : nullptr;
}

void AttemptTable::CountCores(const Row& row, int by) {
  const uint64_t cores = row.cores;
  running_cores_ += static_cast<uint64_t>(by) * cores;
  running_start_us_ += static_cast<uint64_t>(by) * cores * static_cast<uint64_t>(row.start_ns / 1000);
}

void AttemptTable::Leave(Part* part) {
  if (!part->out()) return;
  if (part->state == Part::State::kRunning) --nodes_[part->node.value].running;
  Leave(part->node, part->place);
  part->state = Part::State::kOver;
}

/// It is on its node, or nodes, no longer.
void AttemptTable::Leave(Row* row) {
  if (row->state == State::kLost) return;
  if (row->state == State::kReturning) --returning_;
  if (row->state == State::kRunning) CountCores(*row, -1);
  if (row->gang) {
    for (Part& part : row->gang->parts) Leave(&part);
  } else {
    if (row->state == State::kRunning) --nodes_[row->node.value].running;
    Leave(row->node, row->place);
  }
}

void AttemptTable::Begin(Row* row, int64_t start_ns) {
  if (row->state == State::kRunning) return;
  if (row->state == State::kReturning) --returning_;
  if (row->state == State::kLost) {
    Enter(row->id.task, row->node, &row->place);
    row->why.clear();
  }
  row->state = State::kRunning;
  if (row->start_ns == 0) row->start_ns = start_ns;
  if (!row->gang) ++nodes_[row->node.value].running;
  CountCores(*row, 1);
}

void AttemptTable::Begin(Row* row, Part* part, int64_t start_ns) {
  Expect(*row, part);
  if (part->state != Part::State::kSent) return;
  part->state = Part::State::kRunning;
  part->start_ns = start_ns;
  ++nodes_[part->node.value].running;
  if (part == &row->gang->parts.front()) Begin(row, start_ns);
}

void AttemptTable::Expect(const Row& row, Part* part) {
  if (part->state != Part::State::kUnheard) return;
  part->state = Part::State::kSent;
  Enter(row.id.task, part->node, &part->place);
}

void AttemptTable::End(Row* row, Part* part, journal::PartRecord record) {
  Leave(part);
  part->state = Part::State::kOver;
  part->end = std::move(record);
  row->gang->heard.push_back(static_cast<size_t>(part - row->gang->parts.data()));
}

void AttemptTable::Lose(Row* row, int64_t now_ns, const std::string& why) {
  Leave(row);
  row->state = State::kLost;
  row->lost_ns = now_ns;
  row->why = why;
}

void AttemptTable::Erase(TaskId task) {
  const auto found = rows_.find(task.value);
  if (found == rows_.end()) return;
  Leave(&found->second);
  gangs_.erase(task);
  rows_.erase(found);
}

const std::vector<TaskId>& AttemptTable::At(NodeId node) const {
  static const std::vector<TaskId> kNone;
  return node.value < nodes_.size() ? nodes_[node.value].tasks : kNone;
}

uint32_t AttemptTable::running(NodeId node) const {
  return node.value < nodes_.size() ? nodes_[node.value].running : 0;
}

}  // namespace harrow::server
