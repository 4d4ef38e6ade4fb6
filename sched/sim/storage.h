#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "formats/cluster_model.h"
#include "graph/graph.h"
#include "sim/transfers.h"

namespace harrow::sim {

/// The files that a node has in memory: the last used, by whole files, as many bytes as there is room for.
class PageCache {
 public:
  explicit PageCache(uint64_t bytes) : room_(bytes) {}
  bool Holds(FileId file) const { return entries_.contains(file.value); }
  /// Used, or come in: the newest now. A file that is larger than the cache pushes all others out and does not stay.
  void Use(FileId file, uint64_t bytes);
  void Drop(FileId file);
  void Clear();
  uint64_t used() const { return used_; }

 private:
  struct Entry {
    std::list<FileId>::iterator place;
    uint64_t bytes;
  };
  uint64_t room_, used_ = 0;
  std::list<FileId> order_;  // newest first
  std::unordered_map<uint32_t, Entry> entries_;
};

/// Where the flow's own input files lie on so many nodes: pairs of file and node.
std::vector<std::pair<FileId, NodeId>> PlaceInputs(const graph::Graph& graph, formats::ClusterModel::Inputs how,
                                                   uint32_t nodes, uint64_t seed);

/// Where files are, and what reading and writing them takes.
class Storage {
 public:
  /// What a node does with one file: bytes at `most` a second at most, over links.
  struct Access {
    double bytes = 0, most = 0;
    bool at_once = false;  // takes no time
    bool remote = false;   // bytes come from elsewhere
    bool behind = false;   // goes to disk later
    uint32_t use_count = 0;
    Transfers::Use uses[Transfers::kMostUses];
  };

  /// `local`: each node holds files of its own (sim/stores.h), and others lie on shared storage.
  Storage(const graph::Graph& graph, const formats::ClusterModel& cluster, Transfers* transfers, uint64_t seed,
          bool local = false);

  /// Where the flow's own input files are at the start: pairs of file and node; empty when they are on no node.
  const std::vector<std::pair<FileId, NodeId>>& inputs() const { return inputs_; }
  Access Read(FileId file, NodeId node) const;
  Access Write(FileId file, NodeId node) const;
  /// Read by a node that has it on its disk, or from that of `holder`; none: from shared storage.
  Access Fetch(FileId file, NodeId holder, NodeId node) const;
  /// So many bytes from one node's memory to another node.
  Access Send(double bytes, NodeId from, NodeId to) const;
  /// From a node to shared storage, right after it was written.
  Access WriteBack(FileId file, NodeId node) const;
  /// It has come to the node, and is in memory there.
  void HasCome(FileId file, NodeId node) { nodes_[node.value].cache.Use(file, static_cast<uint64_t>(BytesOf(file))); }
  double BytesOf(FileId file) const { return static_cast<double>(std::max<int64_t>(0, graph_.file_size(file))); }
  void HasRead(FileId file, NodeId node);
  /// `behind`: what Write() said.
  void HasWritten(FileId file, NodeId node, bool behind, double now);
  /// A transfer of this number (`who`) is of the storage's own: dirty pages going to disk.
  static bool IsOwn(uint32_t who) { return (who & kOwn) != 0; }
  void OwnEnded(uint32_t who, double now);
  /// Its page cache is gone; what lies on its disk can still be read from other nodes.
  void NodeLost(NodeId node) { nodes_[node.value].cache.Clear(); }

 private:
  struct Node {
    PageCache cache;
    uint32_t disk, in, out;  // links, or kNone
    double dirty = 0;        // bytes written that are not on disk
    double flushing = 0;     // of them, those on their way
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kOwn = 0x80000000;
  void Flush(uint32_t node, double now);
  void Over(Access* access, uint32_t link, double per_byte = 1) const;
  void Finish(Access* access, double rate) const;

  const graph::Graph& graph_;
  const formats::ClusterModel& cluster_;
  Transfers* transfers_;
  const bool on_nodes_;  // what a node writes lies on its disk
  std::vector<Node> nodes_;
  uint32_t hub_ = kNone, server_ = kNone;
  std::vector<NodeId> where_;  // by file; storage on nodes
  std::vector<std::pair<FileId, NodeId>> inputs_;
};

}  // namespace harrow::sim
