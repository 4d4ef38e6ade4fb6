#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "core/event.h"
#include "graph/graph.h"
#include "sim/simulation.h"

namespace harrow::sim {

/// What attempts read of streams: from which attempts, and what of that is still to come. It does not know
/// the time: who drives it begins the transfers that it names.
class Streams {
 public:
  struct Source {
    AttemptId writer;
    NodeId from;
    double bytes = 0;  // in all streams between the two
    bool gone = false;  // and has not come to the reader
  };
  struct Transfer {
    NodeId from;  // none: nothing is to come
    double bytes = 0;
  };

  Streams(const graph::Graph& graph, const std::vector<Work>& work) : graph_(graph), work_(work) {}

  bool Reads(TaskId task) const { return !graph_.streams_read(task).empty(); }
  bool Writes(TaskId task) const { return !graph_.streams_written(task).empty(); }

  /// An attempt of a task that reads is on its way to a node.
  void Sent(uint32_t attempt, AttemptId id);
  /// What it reads is told. Returns whether what it has read before is void.
  bool Told(const core::ReadFrom& read);
  /// It runs at that node from now on. False: something that it reads is gone, and it has to begin anew.
  bool Begins(uint32_t attempt, NodeId at);
  /// It runs, and nothing is on its way to it.
  bool Idle(uint32_t attempt) const {
    const auto found = readings_.find(attempt);
    return found != readings_.end() && found->second.begun && !found->second.arriving;
  }
  /// The next that has to come to it from another node; called when that has come as well.
  Transfer Next(uint32_t attempt);
  /// It has computed, so many seconds after it began.
  void Computed(uint32_t attempt, double seconds);
  /// It has computed, all that it reads has come, and who wrote that has ended.
  bool MayEnd(uint32_t attempt) const;
  double computed(uint32_t attempt) const { return readings_.at(attempt).computed; }
  std::vector<AttemptId> ReadBy(uint32_t attempt) const;
  /// It has ended, whichever way.
  void Over(uint32_t attempt);

  /// A writer's attempt has succeeded; returns the attempts that read what it wrote.
  std::vector<uint32_t> Written(AttemptId writer);
  /// The attempt of that name that was sent; kNone: it is over.
  uint32_t Find(AttemptId reader) const;

  static constexpr uint32_t kNone = UINT32_MAX;
  // Of a transfer to an attempt (Transfers::Begin).
  static constexpr uint32_t kTag = 0x20000000;

 private:
  struct Reading {
    AttemptId id;
    NodeId at;
    std::vector<Source> sources;  // by writer
    std::vector<Transfer> to_come;
    size_t next = 0;
    bool begun = false, arriving = false;
    double computed = -1;
  };
  static void MayCome(Reading* reading, const Source& source);
  Source& SourceOf(Reading* reading, TaskId writer) const;

  const graph::Graph& graph_;
  const std::vector<Work>& work_;
  std::unordered_map<uint32_t, Reading> readings_;  // by attempt
  std::map<AttemptId, uint32_t> by_id_;
  std::set<AttemptId> written_;                     // those that have succeeded
};

}  // namespace harrow::sim
