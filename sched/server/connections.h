#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/records.h"
#include "base/status.h"
#include "graph/graph.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// What a request to submit says of streams, held against the graph of the run (how: connections.cc). Pure.
class Connections {
 public:
  /// `own`: the request as a graph of its own. `ids`: what its tasks are called in the run; those from `first` on are new.
  /// All outlive it.
  Connections(const graph::Graph& run, const pb::SubmitRequest& request, const graph::Graph& own, const std::vector<uint32_t>& ids,
              uint32_t first)
      : run_(run), request_(request), own_(own), ids_(ids), first_(first) {}

  static bool Any(const pb::SubmitRequest& request);
  /// What is wrong by itself.
  static Status Check(const pb::SubmitRequest& request);
  /// Has the task of the run the streams that the one of the request says?
  static bool Same(const graph::Graph& run, TaskId there, const pb::SubmittedTask& task);

  /// kInvalid: why it cannot be. `after`: the tasks of the run, or new ones, that each task of the request waits for.
  Status Plan(const std::vector<std::vector<uint32_t>>& after);
  /// Streams of the run to which something is connected, or that are held from now on: they may not have ended.
  std::vector<StreamId> NeedOpen() const;
  /// Those that are but held, by tasks that have held them before, as an attempt after another one does: where one of them has ended,
  /// that is not needed any more, and is left out (LeaveEnded).
  std::vector<StreamId> HeldAgain() const;
  void LeaveEnded(StreamId stream);
  void Write(pb::FlowChunk* chunk) const;

 private:
  struct Joined {
    bool known = false;
    StreamId stream;
    std::vector<uint32_t> writers{}, readers{};  // new ones
    bool split = false;
    Records records = kLines;
    bool close = false;
    std::vector<std::string> release{};
    std::vector<graph::StreamHold> hold{};
  };
  bool IsHeldAgain(const Joined& joined) const;
  Joined& Of(const std::string& name);
  bool IsNew(uint32_t task) const { return task >= first_; }
  Status Ask(const pb::StreamRequest& asked);
  Status AddReader(const std::string& name, uint32_t task, bool split);
  Status AddWriter(const std::string& name, uint32_t task, Records records);
  Status CheckWritten() const;
  Status CheckCycles(const std::vector<std::vector<uint32_t>>& after) const;
  std::string NameOf(uint32_t task) const;

  const graph::Graph& run_;
  const pb::SubmitRequest& request_;
  const graph::Graph& own_;
  const std::vector<uint32_t>& ids_;
  const uint32_t first_;
  std::map<std::string, Joined> joined_;
};

/// The task that makes a file of that name, or what it lies in; none.
TaskId ProducerOf(const graph::Graph& graph, const std::string& name);

}  // namespace harrow::server
