#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/load.h"
#include "formats/negatives.h"
#include "formats/problems.h"
#include "graph/graph.h"

namespace harrow::formats {

/// The tasks of a recorded graph as its reader finds them, in any order; Finish() puts them into the flow's graph. Views
/// must live until then. A file that several tasks write belongs to the first of them (generated traces have such
/// files); what a task reads and writes itself is no input.
class Trace {
 public:
  /// `form`: what the format is called in messages.
  Trace(const LoadOptions& options, std::string_view form, graph::Graph* graph, Problems* problems)
      : options_(options), form_(form), graph_(graph), problems_(problems) {}

  /// `seconds` < 0: not known. The number of the task; none (and a problem) when there is one of that name, or too many.
  std::optional<uint32_t> AddTask(SourcePlace place, std::string_view name, std::string_view kind, double seconds,
                                  double cores);
  std::optional<uint32_t> Find(std::string_view name) const;
  void AddInput(uint32_t task, std::string_view file) { inputs_.emplace_back(task, graph_->AddFile(file)); }
  void AddOutput(uint32_t task, std::string_view file) { outputs_.emplace_back(task, graph_->AddFile(file)); }
  /// The largest that is said counts.
  void SetSize(std::string_view file, int64_t bytes);
  void AddEdge(uint32_t parent, uint32_t child) {
    if (parent != child) edges_.emplace_back(parent, child);
  }
  size_t task_count() const { return tasks_.size(); }
  /// A time or a size as it stands there; none, and a problem that names `what`, for no number from 0 to `most`.
  /// A negative one is unknown: -1.
  std::optional<double> Measure(std::string_view text, std::string_view what, double most, SourcePlace place);
  void Finish(std::vector<std::string>* notices);

 private:
  struct Task {
    SourcePlace place;
    std::string_view name, kind;
    double seconds;
    uint32_t cores;
  };
  const LoadOptions& options_;
  std::string_view form_;
  graph::Graph* graph_;
  Problems* problems_;
  Negatives negatives_;
  std::vector<Task> tasks_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
  std::vector<std::pair<uint32_t, FileId>> inputs_, outputs_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
};

/// A number of a trace within [least, most]; none, and a problem that names `what`, for anything else.
std::optional<double> TraceNumber(std::string_view text, std::string_view what, double least, double most,
                                  SourcePlace place, Problems* problems);

}  // namespace harrow::formats
