#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"
#include "journal/journal.h"
#include "made/record.h"

namespace harrow::server {

/// What one node has of an attempt of several.
struct Part {
  enum class State : uint8_t {
    kUnheard,  // an earlier server had sent it, and its agent has not told of it yet
    kSent,     // not known to have begun
    kRunning,  // it has begun
    kOver,     // it has ended, or was lost with its node: `end` tells how
  };
  NodeId node;
  uint32_t ranks = 0;  // of the attempt; or processes, where its task has no ranks
  State state = State::kSent;
  int64_t start_ns = 0;
  std::optional<journal::PartRecord> end{};
  size_t place = 0;  // in its node's list

  bool out() const { return state == State::kSent || state == State::kRunning; }
};

/// Of an attempt of several nodes: its parts, and what is to become of those that are out.
struct Gang {
  enum class Ending : uint8_t { kNo, kLost, kCancelled, kInterrupted };

  std::string space;            // pb::Gang.space
  std::vector<Part> parts;      // the lead node's first
  std::vector<size_t> heard{};  // those that are over, in the order in which that was heard of
  Ending ending = Ending::kNo;  // why they were told to end
  std::string lost_why{};       // a node went away whose part had ended before
  Duration checkpoint_took{0};  // of the part that was told of it
  bool given_up = false;        // the scheduler has, with the lead node; it waits for nothing more of it
  std::optional<made::Attempt> made{};  // what the lead node's part made of the task's outputs

  Part* At(NodeId node);
  bool over() const;
  /// Those that have processes.
  bool processes_over() const;
};

/// The attempts that are out, a row each: sent to a node and neither ended, returned nor given up. A task has
/// one at most: that of an attempt that was lost stays, as it may be heard of again, until the next is sent
/// or the task is settled. Looked up by task, and by node.
///
/// An attempt of several nodes is at each of them until its part there is over, and its row stays until all
/// are: it is never kLost.
class AttemptTable {
 public:
  enum class State : uint8_t {
    kSent,       // not known to have begun
    kRunning,    // it has begun; of several nodes, on the lead node
    kReturning,  // an earlier server had sent it; asked back, and it may begin before that arrives
    kLost,       // with its node
  };
  struct Row {
    AttemptId id;
    NodeId node;  // the lead node
    State state = State::kSent;
    bool ahead = false;                                         // sent before there was a slot
    uint32_t cores = 1;                                         // of all its nodes
    int64_t start_ns = 0;                                       // calendar time; 0: not known to have begun
    int64_t local_bytes = 0, remote_bytes = 0, home_bytes = 0;  // of its inputs, when it was sent
    int64_t known_bytes = 0;  // of what is read from the submit directory, then
    int64_t lost_ns = 0;
    std::string why{};             // it was lost
    size_t missed = 0;             // why it left no checkpoint, as the user was told last: a hash
    size_t place = 0;              // in its node's list
    std::unique_ptr<Gang> gang{};  // of several nodes
  };

  explicit AttemptTable(const graph::Graph& graph) : graph_(graph) {}

  /// A new row; one that the task has is replaced.
  Row& Add(AttemptId id, NodeId node, State state);
  /// The same of an attempt of several nodes: the lead node's part comes first, none is over.
  Row& Add(AttemptId id, std::vector<Part> parts);
  /// Null: none.
  Row* Find(TaskId task);
  const Row* Find(TaskId task) const;
  /// Of several nodes, at any of them.
  Row* Find(AttemptId id, NodeId node);
  /// It is known to run since `start_ns` (0: not known when), also when it was lost.
  void Begin(Row* row, int64_t start_ns);
  /// The same of a part that is not over; that of the lead node begins its row.
  void Begin(Row* row, Part* part, int64_t start_ns);
  /// A part of which nothing was heard is where it was sent.
  void Expect(const Row& row, Part* part);
  /// The part is over.
  void End(Row* row, Part* part, journal::PartRecord record);
  void Lose(Row* row, int64_t now_ns, const std::string& why);
  void Erase(TaskId task);

  /// The attempts at a node, lost ones apart; and the parts that are out there.
  const std::vector<TaskId>& At(NodeId node) const;
  uint32_t running(NodeId node) const;
  uint64_t returning() const { return returning_; }
  /// The tasks with an attempt of several nodes in the table, by number.
  std::vector<TaskId> Gangs() const { return {gangs_.begin(), gangs_.end()}; }
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
  void Enter(TaskId task, NodeId node, size_t* place);
  void Leave(NodeId node, size_t place);
  void Leave(Part* part);
  void Leave(Row* row);
  void CountCores(const Row& row, int by);

  const graph::Graph& graph_;
  std::unordered_map<uint32_t, Row> rows_;  // by task
  std::set<TaskId> gangs_;                  // those of several nodes
  std::vector<AtNode> nodes_;
  uint64_t returning_ = 0, running_cores_ = 0, running_start_us_ = 0;
};

}  // namespace harrow::server
