#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/prefetch.h"
#include "base/time.h"
#include "core/node_table.h"
#include "core/task_table.h"

namespace harrow::core {

/// What was sent ahead to each node, what was asked back, and how much more may be sent.
class Ahead {
 public:
  Ahead(const Options& options, const TaskTable* tasks) : options_(options), tasks_(*tasks) {}
  void Grow(size_t nodes) { at_.resize(nodes); }

  // --- how fast a node is
  void SetRoundTrip(NodeId id, Duration round_trip) { at_[id.value].round_trip = round_trip; }
  /// Its round trip is known, without which nothing is sent ahead; where files are brought, for these.
  bool possible(NodeId id) const { return at_[id.value].round_trip.count() > 0 || options_.local_files; }
  void NoteRun(NodeId id, Duration run_time);
  void ForgetRuns(NodeId id) { at_[id.value].mean_run = 0; }
  /// Something has ended, left or begun there, so that what is ahead moves up, or waits only from now on.
  void NoteMoved(NodeId id, Time now) { at_[id.value].moved = now; }
  /// Its tasks are too long to be sent ahead for the sake of the round trip.
  bool IsSlow(NodeId id) const { return at_[id.value].mean_run > Seconds(options_.ahead_limit); }
  /// To wait there for so long costs more than to be asked back, and to fetch elsewhere what was fetched.
  bool RecallPays(NodeId id, double wait) const { return wait > CostOfRecall(id); }
  /// The same of the tasks there that wait for one that runs, where these are long.
  bool RecallPays(NodeId id) const { return IsSlow(id) && RecallPays(id, at_[id.value].mean_run); }
  /// A file has come, so long after it was asked for.
  void NoteCopy(NodeId id, Duration time);
  /// There was no room for one.
  void NoteFull(NodeId id, Time now) { at_[id.value].full_since = now; }
  /// Tasks that may be ahead there at once.
  uint32_t Depth(NodeId id, uint32_t slots) const;
  /// As many of those whose inputs are not there.
  uint32_t DepthOfFetching(NodeId id, uint32_t slots, Time now) const;

  // --- tasks ahead, the oldest first
  const std::vector<TaskId>& at(NodeId id) const { return at_[id.value].tasks; }
  void Add(NodeId id, TaskId task);
  void Remove(NodeId id, TaskId task);
  bool some() const { return total_ > 0; }
  /// At all nodes.
  uint64_t total() const { return total_; }
  /// A node where the last one would wait longest for a slot, and longer than to be asked back. None: none
  /// would; again() is when the first may.
  NodeId LongestRow(const NodeTable& nodes, Time now);
  Time again() const { return again_; }
  void ForgetAgain() { again_ = Time::max(); }

  // --- tasks that were asked back, whether ahead still or not, and have not answered
  void CountRecall(NodeId id) { ++at_[id.value].recalls, ++recalled_; }
  void CountAnswer(NodeId id) { --at_[id.value].recalls, --recalled_; }
  uint64_t recalled() const { return recalled_; }

  // --- releasers: tasks in flight whose end makes others ready that go first
  void CountReleaser(NodeId id) { ++at_[id.value].releasers; }
  void DropReleaser(NodeId id) { --at_[id.value].releasers; }
  /// Nothing forbids to send more there: no releaser, nothing asked back.
  bool undisturbed(NodeId id) const { return at_[id.value].releasers == 0 && at_[id.value].recalls == 0; }

  // --- hungry nodes could be sent more than there was
  void NoteHungry(NodeId id) {
    if (!std::exchange(at_[id.value].hungry, true)) hungry_.push_back(id);
  }
  /// None: there is none.
  NodeId TakeHungry();

  void Prefetch(NodeId id) const {
    if (id.value < at_.size()) harrow::Prefetch(&at_[id.value]);
  }
  size_t memory() const;
  /// What is broken, or nothing.
  std::string FindBroken(const NodeTable& nodes) const;

 private:
  // What was fetched for those asked back is fetched again, by nodes that may be short of links.
  static constexpr double kCopiesOfARecall = 6;
  double CostOfRecall(NodeId id) const {
    return Seconds(at_[id.value].round_trip) + kCopiesOfARecall * at_[id.value].mean_copy;
  }
  struct Node {
    std::vector<TaskId> tasks;
    uint32_t releasers = 0;
    uint32_t recalls = 0;
    bool hungry = false;
    Duration round_trip{0};
    // Seconds, of late; 0: nothing ended here yet.
    double mean_run = 0;
    // Seconds, of late, until a file is here; 0: none has come yet.
    double mean_copy = 0;
    Time full_since = Time::min();
    Time moved = Time::max();  // of late; max: not yet
  };

  const Options& options_;
  const TaskTable& tasks_;
  std::vector<Node> at_;
  uint64_t total_ = 0, recalled_ = 0;
  Time again_ = Time::max();
  // All nodes with tasks ahead, and some that had.
  std::vector<NodeId> listed_;
  std::vector<NodeId> hungry_;
};

}  // namespace harrow::core
