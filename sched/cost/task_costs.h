#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cost/factors.h"
#include "graph/graph.h"

namespace harrow::cost {

/// What the tasks of one program turned out to cost in a run: means of those that succeeded.
struct Known {
  // Its meta-program; empty: it has none, and is known by its kind.
  std::string model;
  std::string kind;
  uint64_t tasks = 0;
  double seconds = 0;
  // Bytes to each of its streams; below 0: that is not known.
  double bytes = -1;
  // Of compute and output by its model, on average.
  double units = 0, out_units = 0;
  bool operator==(const Known&) const = default;
};

/// What each task of a graph is expected to compute: by its model, or its recorded run time, in units; what a
/// unit takes is one factor a program (of tasks without a model, a kind), guessed, known from another run, and
/// learnt from those that have ended.
class TaskCosts {
 public:
  TaskCosts(const graph::Graph& graph, double seconds_a_unit, double bytes_a_unit, std::vector<Known> known);

  /// The graph has grown, or is used for the first time. False: its models have no value.
  bool Model();
  /// As of Placer::Learn. Returns whether it changes much of what is expected.
  bool Learn(TaskId task, NodeId node, double seconds, double bytes);
  double seconds(TaskId task) const { return units_[task.value] * factors_.seconds_a_unit(factor_[task.value]); }
  size_t size() const { return units_.size(); }
  /// By the numbers of programs, and behind these of kinds, as of the net.
  const Factors& factors() const { return factors_; }
  /// What is expected now is what Learn compares with from now on.
  void NoteExpected();
  /// Of those tasks that Learn was called for, program by program.
  std::vector<Known> Found() const;
  size_t memory() const;

 private:
  /// Of the tasks of one factor.
  struct Program {
    std::string model, kind;
    uint64_t tasks = 0;
    double units = 0, out_units = 0;  // of all of them
    // Of those that have ended:
    uint64_t ended = 0, wrote = 0;
    double ended_units = 0, ended_seconds = 0, ended_out = 0, bytes = 0;
    bool seeded = false;
  };
  void Seed(uint32_t factor);

  const graph::Graph& graph_;
  const double seconds_a_unit_;
  const std::vector<Known> known_;
  Factors factors_;
  std::vector<double> units_, out_units_;  // by task
  std::vector<uint32_t> factor_;           // by task: its program, or behind these its kind
  std::vector<Program> programs_;          // by factor
  std::vector<double> then_;               // by factor: what was expected when much changed last
};

/// Of each task the longest way, in seconds, from its beginning to the end of a final task: those that wait
/// for it follow it, those that read its streams run beside it and end after it. `seconds`: of each.
std::vector<double> RemainingPaths(const graph::Graph& graph, const std::vector<double>& seconds);

}  // namespace harrow::cost
