// Sending ahead: a task is sent before a slot is free, so that the agent has it when one gets free, and no
// slot waits for a round trip. As deep as twice what a node ends in a round trip (half of it is usually on
// its way), not for tasks of levels whose mean run time is long or unknown.
//
// Where files are brought to the nodes' own disks (Options::local_files) a task whose inputs are not there is
// sent ahead also when it is long, so that they come while others run: as deep as what a node ends meanwhile.
// Not where they come in next to no time of a run, nor for some seconds to a node that had no room for one.
// To ask such a task back costs a further copy, so that it has to pay.
//
// What is sent ahead must not change the order. Where newly ready tasks go first (all policies but fifo, and
// hrf only across levels), nothing is sent behind a task whose end may make another ready, a releaser: its
// successor is to be asked for when the slot gets free. Should one become ready all the same that goes first,
// what is ahead there is asked back. An idle node that finds nothing else has the last task of a long row
// asked back: long by what tasks take there, or as nothing has ended or begun there for so long. Where no row
// is so long yet, it is looked at again when the first may be. A silent node is not asked: it does not answer.
// A task that comes back takes its old place.

#include "core/ahead.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace harrow::core {
namespace {

constexpr Duration kFull = std::chrono::seconds(5);
constexpr double kWorthHiding = 0.05;  // of a run
constexpr Duration kABitLater = std::chrono::milliseconds(1);

}  // namespace

void Ahead::NoteRun(NodeId id, Duration run_time) {
  double& mean = at_[id.value].mean_run;
  const double seconds = std::max(Seconds(run_time), 1e-9);
  mean = mean > 0 ? mean + (seconds - mean) / 8 : seconds;
}

void Ahead::NoteCopy(NodeId id, Duration time) {
  double& mean = at_[id.value].mean_copy;
  const double seconds = std::max(Seconds(time), 1e-9);
  // A task waits for the last of its inputs.
  const double weight = seconds > mean ? 1.0 / 2 : 1.0 / 8;
  mean = mean > 0 ? mean + (seconds - mean) * weight : seconds;
}

uint32_t Ahead::Depth(NodeId id, uint32_t slots) const {
  const Node& node = at_[id.value];
  if (node.mean_run <= 0 || IsSlow(id)) return 0;
  const double deep = std::ceil(2 * slots * Seconds(node.round_trip) / node.mean_run);
  return static_cast<uint32_t>(std::min(deep, static_cast<double>(options_.max_ahead) * slots));
}

uint32_t Ahead::DepthOfFetching(NodeId id, uint32_t slots, Time now) const {
  const Node& node = at_[id.value];
  if (node.mean_run <= 0 || node.mean_copy <= 0) return 0;
  if (node.full_since != Time::min() && now - node.full_since < kFull) return 0;
  const double wait = 2 * Seconds(node.round_trip) + node.mean_copy;
  if (wait < kWorthHiding * node.mean_run) return 0;
  const double deep = std::ceil(slots * wait / node.mean_run);
  return static_cast<uint32_t>(std::min(deep, static_cast<double>(options_.max_fetching_ahead) * slots));
}

void Ahead::Add(NodeId id, TaskId task) {
  at_[id.value].tasks.push_back(task);
  if (total_++ != 0 && at_[id.value].tasks.size() != 1) return;
  if (std::find(listed_.begin(), listed_.end(), id) == listed_.end()) listed_.push_back(id);
}

void Ahead::Remove(NodeId id, TaskId task) {
  std::vector<TaskId>& tasks = at_[id.value].tasks;
  tasks.erase(std::find(tasks.begin(), tasks.end(), task));
  --total_;
}

NodeId Ahead::LongestRow(const NodeTable& nodes, Time now) {
  NodeId longest;
  again_ = Time::max();
  double longest_wait = 0;
  for (size_t i = 0; i < listed_.size();) {
    const NodeId id = listed_[i];
    const Node& node = at_[id.value];
    if (node.tasks.empty()) {
      listed_[i] = listed_.back();
      listed_.pop_back();
      continue;
    }
    ++i;
    if (node.tasks.size() <= node.recalls || !nodes[id].open()) continue;
    const auto waiting = static_cast<double>(node.tasks.size() - node.recalls);
    const double usual = node.mean_run / std::max(1u, nodes[id].total().slots);
    const double of_late = node.moved <= now ? Seconds(now - node.moved) : 0;
    const double wait = waiting * std::max(usual, of_late);
    if (!RecallPays(id, wait)) {
      if (node.moved == Time::max()) continue;
      const Time pays = node.moved + FromSeconds(CostOfRecall(id) / waiting);
      again_ = std::min(again_, pays + kABitLater);
    } else if (wait > longest_wait) {
      longest = id;
      longest_wait = wait;
    }
  }
  if (longest) again_ = Time::max();
  return longest;
}

NodeId Ahead::TakeHungry() {
  if (hungry_.empty()) return {};
  const NodeId id = hungry_.back();
  hungry_.pop_back();
  at_[id.value].hungry = false;
  return id;
}

size_t Ahead::memory() const {
  size_t bytes = at_.capacity() * sizeof(Node);
  for (const Node& node : at_) bytes += node.tasks.capacity() * sizeof(TaskId);
  return bytes;
}

std::string Ahead::FindBroken(const NodeTable& nodes) const {
  uint64_t total = 0, recalled = 0;
  for (uint32_t n = 0; n < at_.size(); ++n) {
    const Node& node = at_[n];
    uint32_t ahead = 0, recalls = 0, releasers = 0;
    for (TaskId id : nodes[NodeId(n)].in_flight()) {
      const Task& task = tasks_[id];
      recalls += task.recalled() ? 1 : 0;
      releasers += task.releaser() ? 1 : 0;
      if (!task.ahead()) continue;
      ++ahead;
      if (std::count(node.tasks.begin(), node.tasks.end(), id) != 1)
        return StrCat("task ", id.value, ": is ahead, and not in its node's list");
    }
    if (ahead != node.tasks.size()) return StrCat("node ", n, ": tasks ahead");
    if (recalls != node.recalls)
      return StrCat("node ", n, ": recalls: ", recalls, " tasks, said ", node.recalls);
    if (releasers != node.releasers) return StrCat("node ", n, ": releasers");
    if (ahead > 0 && nodes[NodeId(n)].free_slots() > 0)
      return StrCat("node ", n, ": tasks are ahead of a free slot");
    if (ahead > 0 && std::find(listed_.begin(), listed_.end(), NodeId(n)) == listed_.end())
      return StrCat("node ", n, ": has tasks ahead and is not listed");
    if ((std::count(hungry_.begin(), hungry_.end(), NodeId(n)) != 0) != node.hungry)
      return StrCat("node ", n, ": hungry");
    total += ahead;
    recalled += recalls;
  }
  if (total != total_ || recalled != recalled_) return "sums of tasks ahead and recalled";
  return {};
}

}  // namespace harrow::core
