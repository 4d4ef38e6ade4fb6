#include "server/attempt_table.h"

namespace harrow::server {

AttemptTable::AtNode& AttemptTable::Of(NodeId node) {
  if (node.value >= nodes_.size()) nodes_.resize(node.value + 1);
  return nodes_[node.value];
}

AttemptTable::Row& AttemptTable::Add(AttemptId id, NodeId node, State state) {
  Erase(id.task);
  Row& row = rows_[id.task.value];
  row.id = id;
  row.node = node;
  row.state = state;
  row.cores = graph_.profile(id.task).shape.cores;
  AtNode& at = Of(node);
  row.place = at.tasks.size();
  at.tasks.push_back(id.task);
  if (state == State::kReturning) ++returning_;
  return row;
}

AttemptTable::Row* AttemptTable::Find(TaskId task) {
  const auto found = rows_.find(task.value);
  return found == rows_.end() ? nullptr : &found->second;
}

AttemptTable::Row* AttemptTable::Find(AttemptId id, NodeId node) {
  Row* row = Find(id.task);
  return row != nullptr && row->id == id && row->node == node ? row : nullptr;
}

void AttemptTable::Count(const Row& row, int by) {
  const uint64_t cores = row.cores;
  nodes_[row.node.value].running += static_cast<uint32_t>(by);
  running_cores_ += static_cast<uint64_t>(by) * cores;
  running_start_us_ += static_cast<uint64_t>(by) * cores * static_cast<uint64_t>(row.start_ns / 1000);
}

/// It is on its node no longer.
void AttemptTable::Leave(Row* row) {
  if (row->state == State::kLost) return;
  if (row->state == State::kReturning) --returning_;
  if (row->state == State::kRunning) Count(*row, -1);
  std::vector<TaskId>& tasks = nodes_[row->node.value].tasks;
  tasks[row->place] = tasks.back();
  rows_.at(tasks[row->place].value).place = row->place;
  tasks.pop_back();
}

void AttemptTable::Begin(Row* row, int64_t start_ns) {
  if (row->state == State::kRunning) return;
  if (row->state == State::kReturning) --returning_;
  if (row->state == State::kLost) {
    std::vector<TaskId>& tasks = Of(row->node).tasks;
    row->place = tasks.size();
    tasks.push_back(row->id.task);
    row->why.clear();
  }
  row->state = State::kRunning;
  if (row->start_ns == 0) row->start_ns = start_ns;
  Count(*row, 1);
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
