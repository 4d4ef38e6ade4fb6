#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/source_place.h"
#include "formats/problems.h"
#include "graph/graph.h"

namespace harrow::formats {

/// Why a task of that profile can have no streams; empty: it can.
std::string_view WhyNoStreams(bool several_processes, bool by_criu);
inline std::string_view WhyNoStreams(const graph::Profile& profile) {
  return WhyNoStreams(profile.ranks > 0 || profile.shape.nodes > 1, profile.checkpoint.by_criu());
}

/// The streams of flow files: which tasks write and read them. Names are collected while tasks are added; a
/// pattern means the streams that are named somewhere without one, so all are linked at the end.
class StreamEnds {
 public:
  StreamEnds(graph::Graph* graph, Problems* problems) : graph_(graph), problems_(problems) {}
  void AddWriter(TaskId task, std::string name, SourcePlace place, Records records) {
    Add(task, std::move(name), place, true, false, records);
  }
  /// `split`: it says that each line goes to one reader.
  void AddReader(TaskId task, std::string name, SourcePlace place, bool split) {
    Add(task, std::move(name), place, false, split);
  }
  /// It does not end before the task does.
  void AddHolder(TaskId task, std::string name, SourcePlace place);
  /// Nor before somebody closes it.
  void AddOpen(std::string name, SourcePlace place);
  /// Streams that nobody writes here may be somebody else's (a run's): no slip.
  void AllowUnwritten() { unwritten_ = true; }
  /// Connects all, and makes readers wait for the beginning of their writers.
  void Link();

 private:
  struct End {
    TaskId task;
    std::string name;
    SourcePlace place;
    bool writer, split;
    Records records;
  };
  /// What the first reader and the first writer say of a stream.
  struct Shared {
    bool known = false, split = false;
    SourcePlace place;
    bool written = false;
    Records records = kLines;
    SourcePlace written_place;
  };
  void Add(TaskId task, std::string name, SourcePlace place, bool writer, bool split = false, Records records = kLines);
  void Connect(const End& end, StreamId stream);
  bool IsSlip(StreamId stream) const {
    const graph::Stream& of = graph_->streams()[stream.value];
    return of.writers.empty() && of.holds.empty() && !unwritten_;
  }

  graph::Graph* graph_;
  Problems* problems_;
  std::vector<End> ends_;
  bool unwritten_ = false;
  std::unordered_map<std::string, StreamId> named_;
  std::vector<Shared> shared_;  // by stream
};

/// Of a sealed graph: those that share a split stream are done together, so none may wait for another one to be done.
void CheckSharers(const graph::Graph& graph, Problems* problems);

}  // namespace harrow::formats
