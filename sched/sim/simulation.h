#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/scheduler.h"
#include "formats/cluster_model.h"
#include "graph/graph.h"
#include "supervisor/core/supervisor.h"

namespace harrow::sim {

struct Options {
  core::Options core;  // shared_files is set from the cluster's storage; with local_files there are none
  formats::ClusterModel cluster;
  bool io = false;    // reading and writing take time
  uint64_t seed = 1;  // of jitter, failures and where inputs lie
  // With local files: where the flow's own inputs are at the start; kOutside: in the submit directory.
  formats::ClusterModel::Inputs place = formats::ClusterModel::Inputs::kOutside;
  // With local files: bytes that a node's store may hold; 0: any.
  uint64_t local_limit = 0;
  // Of a cluster with several allocations: when how many tasks move between them, how often each reports, and
  // whether tasks are submitted by the one that they wait for, to the server where that ran.
  supervisor::Options moves;
  double report_period = 0.1;
  bool submit_children = false;
  // For tests: after each instant that each task has one owner.
  bool check_owners = false;
};

/// What one task's run takes.
struct Work {
  double seconds = 0;     // on a node of speed 1, reading and writing apart
  bool left_out = false;  // takes no time at all: neither run nor files
  double stream_bytes = 0;  // that it writes to each of its streams
};

/// Half a cache line, as a large cluster has very many under way.
struct Attempt {
  enum class Stage : uint8_t { kOnItsWay, kWaiting, kReading, kRunning, kWriting, kDone, kGone };
  TaskId task;
  NodeId node;
  double begin = 0, end = -1;  // seconds
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  uint32_t slot = kNoSlot;  // of its node, its first; kNoSlot: it did not begin
  uint16_t number = 0;      // the scheduler's, from 1
  Stage stage = Stage::kOnItsWay;
  bool lost = false;  // with its node
};
static_assert(sizeof(Attempt) == 32);

struct KindTotals {
  uint64_t tasks = 0;
  double task_seconds = 0;
  uint64_t local_bytes = 0, remote_bytes = 0;  // of inputs, by where they were when tasks were assigned
  uint64_t home_bytes = 0;                     // core::Counts::home_bytes
};

/// What became of one of several allocations.
struct AllocationOutcome {
  std::string name;
  uint32_t nodes = 0;
  uint64_t slots = 0;
  double begin = 0, end = 0;  // while the run had it; as far as that went on
  bool began = true;          // else the run was over before
  uint64_t done = 0;          // tasks
  uint64_t moved_in = 0, moved_out = 0;
  uint64_t messages = 0;     // between it, the supervisor and others, each way
  double busy_seconds = 0;   // of slots
  double slot_seconds() const { return static_cast<double>(slots) * (end - begin); }
  double idle_seconds() const { return slot_seconds() - busy_seconds; }
};

struct Outcome {
  double makespan = 0;
  std::vector<Attempt> attempts;  // in the order in which they began
  core::Counts counts;
  double core_seconds = 0;                     // of attempts
  double lost_seconds = 0;                     // of them, those that were lost
  // Between nodes, or from elsewhere (with local files that is shared_read); without io: what would be.
  double bytes_moved = 0;
  double stream_bytes = 0;  // of them, what streams carried between nodes
  double shared_read = 0, written_back = 0;  // with local files: bytes from and to the submit directory
  double read_seconds = 0, write_seconds = 0;  // of attempts
  uint64_t node_losses = 0;
  // With local files: attempts that failed as there was no room on their node, and a file for which that was.
  uint64_t no_room = 0;
  FileId no_room_for;
  std::vector<KindTotals> kinds;  // by KindId
  std::vector<AllocationOutcome> allocations;  // none: there is one
  uint64_t moves = 0, moved_tasks = 0, messages = 0;
  // The most tasks that were in the cost model of one server's scheduler while another one had them.
  uint64_t modelled_of_others = 0;
  bool complete = false;          // every task has its fate; else no node is left

  bool all_done() const { return counts.done == counts.total; }
};

/// Runs a sealed graph on a modelled cluster in virtual time, with a core::Scheduler of its own. `work`: one
/// a task. The same graph, work and options give the same outcome on every machine.
Outcome Simulate(const graph::Graph& graph, const std::vector<Work>& work, const Options& options);

}  // namespace harrow::sim
