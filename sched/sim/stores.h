#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"
#include "sim/storage.h"
#include "sim/transfers.h"

namespace harrow::sim {

/// The files on the nodes' own disks (--files local): which each node holds, which are on their way to it,
/// and which attempts wait for them. The scheduler says who is to have what from whom. What a store holds and
/// what comes to it is never more than its limit, but for what was placed there at the start.
class Stores {
 public:
  using Place = std::pair<FileId, NodeId>;
  struct Arrival {
    FileId file;
    NodeId to;
    NodeId from;           // none: it was read from the submit directory
    bool moved;            // else it was here before
    bool came;             // else nobody has it there whom it was to come from
    bool no_room = false;  // else: for that reason
  };

  /// `storage`: null where copies take no time. `limit`: bytes that a node may hold; 0: any.
  Stores(const graph::Graph& graph, Storage* storage, Transfers* transfers, uint64_t limit);

  /// Whether nodes hold it: what lies outside of the submit directory is used where it is.
  bool IsKept(FileId file) const;
  /// No task reads it, or its task says that it is kept: it is copied back.
  bool IsResult(FileId file) const { return result_[file.value]; }
  bool Holds(FileId file, NodeId node) const { return held_.contains({file, node}); }
  /// It was made or placed there.
  void Add(FileId file, NodeId node) {
    if (held_.insert({file, node}).second) UsedAt(node) += SizeOf(file);
  }
  /// There is room for these there, which may be held already. Copies that nobody sends give way.
  bool HasRoom(std::span<const FileId> files, NodeId node);
  /// The node is to have it, from that one (none: from the submit directory) from now on.
  void Bring(FileId file, NodeId to, NodeId from, double now);
  void Drop(FileId file, NodeId node, double now);
  void NodeLost(NodeId node, double now);
  /// The attempt waits for the file there.
  void Await(FileId file, NodeId node, uint32_t attempt) { waiting_[{file, node}].push_back(attempt); }
  /// Those that waited for it; they do not any more.
  std::vector<uint32_t> TakeWaiting(const Place& place);

  /// A transfer of this number (`who`) is of a copy.
  static bool IsCopy(uint32_t who) { return (who & kCopy) != 0; }
  void TransferEnded(uint32_t who);
  /// What has arrived, or cannot, since this was asked last.
  std::vector<Arrival> TakeArrivals() { return std::exchange(arrivals_, {}); }

 private:
  static constexpr uint32_t kCopy = 0x40000000;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Copy {
    NodeId from{};
    double left = 0;  // bytes, when it last began
    uint32_t transfer = kNone;
    uint32_t number = 0;  // in places_
    bool ready = false;   // all has come that its source had, and that has not all
  };
  void Start(const Place& place, Copy* copy, double now);
  void Stop(Copy* copy, double now);
  void Arrive(Place place);
  void Forget(const Place& place);
  uint64_t SizeOf(FileId file) const {
    return static_cast<uint64_t>(std::max<int64_t>(0, graph_.file_size(file)));
  }
  uint64_t& UsedAt(NodeId node) {
    if (node.value >= used_.size()) used_.resize(node.value + 1);
    return used_[node.value];
  }

  const graph::Graph& graph_;
  Storage* const storage_;
  Transfers* const transfers_;
  const uint64_t limit_;
  std::vector<uint64_t> used_;  // by node: of what it holds, and of what comes to it
  std::vector<bool> result_;
  std::set<Place> held_;
  std::map<Place, Copy> copies_;
  std::vector<Place> places_;  // of copies, by their number
  std::vector<uint32_t> free_;
  std::map<Place, std::vector<uint32_t>> waiting_;
  std::vector<Arrival> arrivals_;
};

}  // namespace harrow::sim
