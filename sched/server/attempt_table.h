#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"

namespace harrow::server {

/// The attempts that are out, a row each: sent to a node and neither ended, returned nor given up. A task has
/// one at most: that of an attempt that was lost stays, as it may be heard of again, until the next is sent
/// or the task is settled. Looked up by task, and by node.
class AttemptTable {
 public:
  enum class State : uint8_t {
    kSent,       // not known to have begun
    kRunning,    // it has begun
    kReturning,  // an earlier server had sent it; asked back, and it may begin before that arrives
    kLost,       // with its node
  };
  struct Row {
    AttemptId id;
    NodeId node;
    State state = State::kSent;
    bool ahead = false;  // sent before there was a slot
    uint32_t cores = 1;
    int64_t start_ns = 0;                                       // calendar time; 0: not known to have begun
    int64_t local_bytes = 0, remote_bytes = 0, home_bytes = 0;  // of its inputs, when it was sent
    int64_t known_bytes = 0;  // of what is read from the submit directory, then
    int64_t lost_ns = 0;
    std::string why{};  // it was lost
    size_t place = 0;   // in its node's list
  };

  explicit AttemptTable(const graph::Graph& graph) : graph_(graph) {}

  /// A new row; one that the task has is replaced.
  Row& Add(AttemptId id, NodeId node, State state);
  /// Null: none.
  Row* Find(TaskId task);
  Row* Find(AttemptId id, NodeId node);
  /// It is known to run since `start_ns` (0: not known when), also when it was lost.
  void Begin(Row* row, int64_t start_ns);
  void Lose(Row* row, int64_t now_ns, const std::string& why);
  void Erase(TaskId task);

  /// The attempts at a node, lost ones apart.
  const std::vector<TaskId>& At(NodeId node) const;
  uint32_t running(NodeId node) const;
  uint64_t returning() const { return returning_; }
  /// The seconds that what runs has taken, times cores, at `now_ns`.
  double CoreSeconds(int64_t now_ns) const {
    // Each of the two may go round; their difference does not.
    return 1e-6 * static_cast<double>(static_cast<int64_t>(
                      running_cores_ * static_cast<uint64_t>(now_ns / 1000) - running_start_us_));
  }
  /// In no order. `visit` may change nothing.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    for (const auto& [task, row] : rows_) visit(row);
  }

 private:
  struct AtNode {
    std::vector<TaskId> tasks;
    uint32_t running = 0;
  };

  AtNode& Of(NodeId node);
  void Leave(Row* row);
  void Count(const Row& row, int by);

  const graph::Graph& graph_;
  std::unordered_map<uint32_t, Row> rows_;  // by task
  std::vector<AtNode> nodes_;
  uint64_t returning_ = 0, running_cores_ = 0, running_start_us_ = 0;
};

}  // namespace harrow::server
