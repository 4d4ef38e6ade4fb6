#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/prefetch.h"
#include "graph/graph.h"

namespace harrow::place {

/// Input bytes of a task by where they are; files of unknown size count nothing.
struct InputBytes {
  int64_t local = 0;
  int64_t remote = 0;
};

/// Which nodes hold which files. Owned by the scheduler.
class Replicas {
 public:
  /// Sizes come from the graph until a stored replica says better.
  /// `below_directories`: a file below a declared output directory is held with that directory (Held).
  explicit Replicas(const graph::Graph& graph, bool below_directories = false)
      : graph_(graph), below_directories_(below_directories) {}

  /// Takes in the files and tasks that the graph has got since.
  void Grow();
  void NodeJoined(NodeId node);
  /// The node is gone, with every replica it held.
  void NodeLost(NodeId node);
  void Add(FileId file, NodeId node);
  /// Makes this the one replica that counts from now on.
  void SetOnly(FileId file, NodeId node);
  void Remove(FileId file, NodeId node);
  void RemoveAll(FileId file) { SetOnly(file, NodeId()); }
  void SetSize(FileId file, int64_t bytes) { files_[file.value].size = bytes; }
  int64_t size(FileId file) const { return files_[file.value].size; }
  bool Holds(FileId file, NodeId node) const;
  /// The file was placed or made there; elsewhere are copies.
  void SetHome(FileId file, NodeId node);
  /// None: nobody there holds it by more than a copy.
  NodeId Home(FileId file) const {
    if (file.value >= home_of_.size() || home_of_[file.value] == kNobody) return {};
    const NodeId home = node_of_[home_of_[file.value]];
    return home && Holds(file, home) ? home : NodeId();
  }
  /// Somebody does.
  bool Any(FileId file) const;
  /// The file by which its replicas are known: itself, or the output directory that it lies below.
  FileId Held(FileId file) const {
    if (inside_.empty()) return file;
    const auto found = inside_.find(file);
    return found == inside_.end() ? file : found->second;
  }
  std::vector<NodeId> Holders(FileId file) const;
  /// each(node), in the same order.
  template <class Each>
  void ForEachHolder(FileId file, const Each& each) const {
    ForEachHolder(files_[file.value], each);
  }

  /// The nodes with at least half of the largest sum of input bytes a node has (Pwrake paper, 4.1); empty
  /// when that is 0. A file of unknown size counts as the mean of those known, or as 1 when none is. Only
  /// nodes with allowed(node) count. Where files have homes, of these nodes: those with at least half of the
  /// largest sum of bytes that are at home there, if any are. The span lives until the next call.
  template <class Allowed>
  std::span<const NodeId> Candidates(TaskId task, const Allowed& allowed) {
    SumInputs(task);
    int64_t largest = 0;
    for (NodeId node : touched_) {
      if (allowed(node)) {
        largest = std::max(largest, sums_[node.value]);
      } else {
        sums_[node.value] = 0;
      }
    }
    candidates_.clear();
    for (NodeId node : touched_) {
      const int64_t sum = std::exchange(sums_[node.value], 0);
      if (sum > 0 && sum >= largest - largest / 2) candidates_.push_back(node);
    }
    if (!home_of_.empty() && candidates_.size() > 1) KeepHomes(task);
    return candidates_;
  }
  InputBytes BytesAt(TaskId task, NodeId node) const;
  /// Of the local ones, those of files whose home it is.
  int64_t HomeBytes(TaskId task, NodeId node) const;

  /// Bring what the above read into the cache; for loops over many tasks.
  void Prefetch(FileId file) const { harrow::Prefetch(&files_[file.value]); }
  void PrefetchInputs(TaskId task) const {
    const std::span<const FileId> inputs = graph_.inputs(task);
    for (FileId file : inputs.first(std::min<size_t>(4, inputs.size()))) Prefetch(file);
  }
  size_t memory() const;

 private:
  // A node's replicas are entered under its holder number, which it gets when it joins and loses when it is
  // lost: so all of them go at once, and do not come back with the node.
  static constexpr uint32_t kNobody = UINT32_MAX;
  struct File {
    int64_t size = -1;
    uint32_t holder = kNobody;
    // Where its other holders stand in more_; kNobody: it has one at most.
    uint32_t more = kNobody;
  };
  template <class Each>
  void ForEachHolder(const File& file, const Each& each) const {
    if (file.holder == kNobody) return;
    if (const NodeId node = node_of_[file.holder]; node) each(node);
    if (file.more == kNobody) return;
    for (uint32_t holder : more_[file.more]) {
      if (const NodeId node = node_of_[holder]; node) each(node);
    }
  }
  /// each(file, bytes): unknown sizes count as Candidates() says.
  template <class Each>
  void ForEachInput(TaskId task, const Each& each) const;
  void SumInputs(TaskId task);
  void KeepHomes(TaskId task);

  const graph::Graph& graph_;
  const bool below_directories_;
  std::vector<File> files_;
  // The directories of files that lie below one.
  std::unordered_map<FileId, FileId> inside_;
  // The holder number of each file's home; of files after its end: none.
  std::vector<uint32_t> home_of_;
  // The holders of a file after its first.
  std::vector<std::vector<uint32_t>> more_;
  std::vector<uint32_t> free_more_;
  // The node of each holder number; none: it was lost.
  std::vector<NodeId> node_of_;
  // The holder number of each node.
  std::vector<uint32_t> holder_of_;

  // The input bytes at each node; zero between calls.
  std::vector<int64_t> sums_;
  std::vector<NodeId> touched_;
  std::vector<NodeId> candidates_;
};

}  // namespace harrow::place
