// What moves costs. With files on the nodes' own disks a task that goes to another allocation reads what nodes here have to copy for it
// (driver_exchange.cc). The supervisor tells what a move saves (supervisor::Saving), and not which tasks go; so it is here that what is saved is held
// against what is copied: of the very tasks that would go, each file once, and none that others can read already. Copies wait for those that others
// who went will ask for, or have asked for.
//
// The speed is that of copies lately, by the nodes' own clocks; that a file is read again is thought to take as long. Half of what was seen is
// forgotten in five minutes, for what is thought where nothing was seen: files that lay in the way of moves once would else never be moved, nor
// their speed be seen, again.
//
// Left out: that each of many small files takes a time of its own.

#include "server/to_copy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace harrow::server {
namespace {

// Of one node of many, to a shared file system.
constexpr double kThought = 200e6;  // bytes written in a second
constexpr double kThoughtOf = 64 << 20;  // bytes: so much has to be seen to count as much
constexpr double kHalfLife = 300;  // s
constexpr int64_t kTells = 1 << 20;  // bytes; what is less tells of latencies

/// What nodes copy.
class Load {
 public:
  explicit Load(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// The time until these are copied, which come to it.
  Duration With(std::span<const ToCopy> files) const {
    std::map<NodeId, double> of_node;
    std::set<FileId> seen;
    double most = 0;
    for (const ToCopy& each : files) {
      const auto [sum, first] = of_node.try_emplace(each.node, 0);
      const auto known = of_node_.find(each.node);
      if (first && known != of_node_.end()) sum->second = known->second;
      if (!files_.contains(each.file) && seen.insert(each.file).second) sum->second += static_cast<double>(each.bytes);
      most = std::max(most, sum->second);
    }
    constexpr double kMost = 1e9;
    return FromSeconds(std::min(most / bytes_per_second_, kMost));
  }
  void Add(std::span<const ToCopy> files) {
    for (const ToCopy& each : files) {
      if (files_.insert(each.file).second) of_node_[each.node] += static_cast<double>(each.bytes);
    }
  }

 private:
  const double bytes_per_second_;
  std::set<FileId> files_;
  std::map<NodeId, double> of_node_;
};

}  // namespace

void CopySpeed::Add(Time now, int64_t bytes, Duration took) {
  if (bytes < kTells || took <= Duration(0)) return;
  const double left = std::exp2(-Seconds(now - last_) / kHalfLife);
  bytes_ = bytes_ * left + static_cast<double>(bytes);
  seconds_ = seconds_ * left + Seconds(took);
  last_ = now;
}

double CopySpeed::At(Time now) const {
  const double left = std::exp2(-Seconds(now - last_) / kHalfLife);
  const double written = (kThoughtOf + bytes_ * left) / (kThoughtOf / kThought + seconds_ * left);
  return written / 2;
}

Duration TimeToCopy(std::span<const ToCopy> files, double bytes_per_second) {
  return Load(bytes_per_second).With(files);
}

Movable WorthCopying(std::span<const TaskId> in_order, std::span<const ToCopy> coming, uint64_t count, const std::optional<supervisor::Saving>& saving,
                     double bytes_per_second, const FilesOf& files_of) {
  Movable found;
  Load load(bytes_per_second);
  load.Add(coming);
  struct Candidate {
    TaskId task;
    std::vector<ToCopy> files;
    double bytes = 0;
  };
  std::vector<Candidate> candidates;
  for (auto task = in_order.rbegin(); task != in_order.rend(); ++task) {
    Candidate& candidate = candidates.emplace_back(*task);
    if (files_of) candidate.files = files_of(*task);
    for (const ToCopy& each : candidate.files) candidate.bytes += static_cast<double>(each.bytes);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; });
  for (const Candidate& candidate : candidates) {
    const uint64_t go = found.tasks.size();
    if (go == count) break;
    // What takes no time is not asked about: the supervisor has.
    if (saving && go >= saving->late && !candidate.files.empty()) {
      const Duration copied = load.With(candidate.files);
      const double saves = Seconds(saving->last) - Seconds(saving->each) * static_cast<double>(go + 1);
      if (Seconds(copied) > std::max(saves, 0.0)) {
        const Duration dear = copied + saving->each;
        found.dear = std::min(found.dear.value_or(dear), dear);
        continue;
      }
    }
    load.Add(candidate.files);
    found.tasks.push_back(candidate.task);
  }
  std::sort(found.tasks.begin(), found.tasks.end());
  return found;
}

}  // namespace harrow::server
