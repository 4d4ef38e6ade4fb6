// What moves costs. With files on the nodes' own disks a task that goes to another allocation reads what nodes here have to copy for it
// (driver_exchange.cc). The supervisor tells what a move saves (supervisor::Saving), and not which tasks go; so it is here that what is saved is held
// against what is copied: of the very tasks that would go, each file once, and none that others can read already. Copies wait for those that others
// who went will ask for, or have asked for.
//
// The speed is that of copies lately, by the nodes' own clocks; that a file is read again is thought to take as long. Half of what was seen is forgotten each minute, for what is thought where nothing was
// seen: files that lay in the way of moves once would else never be moved, nor their speed be seen, again.

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
constexpr double kHalfLife = 60;  // s
constexpr int64_t kTells = 1 << 20;  // bytes; what is less tells of latencies

/// What nodes copy.
class Load {
 public:
  explicit Load(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// The time that all of it takes if these come to it.
  Duration With(std::span<const ToCopy> files) const {
    std::map<NodeId, int64_t> more;
    std::set<FileId> seen;
    int64_t most = most_;
    for (const ToCopy& each : files) {
      if (files_.contains(each.file) || !seen.insert(each.file).second) continue;
      const auto known = of_node_.find(each.node);
      int64_t& sum = more[each.node];
      sum += each.bytes;
      most = std::max(most, sum + (known == of_node_.end() ? 0 : known->second));
    }
    constexpr double kMost = 1e9;
    return FromSeconds(std::min(static_cast<double>(most) / bytes_per_second_, kMost));
  }
  void Add(std::span<const ToCopy> files) {
    for (const ToCopy& each : files) {
      if (files_.insert(each.file).second) most_ = std::max(most_, of_node_[each.node] += each.bytes);
    }
  }

 private:
  const double bytes_per_second_;
  std::set<FileId> files_;
  std::map<NodeId, int64_t> of_node_;
  int64_t most_ = 0;
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

Duration TimeToCopy(std::span<const TaskId> tasks, double bytes_per_second, const FilesOf& files_of) {
  Load load(bytes_per_second);
  for (const TaskId task : tasks) load.Add(files_of(task));
  return load.With({});
}

Movable WorthCopying(std::span<const TaskId> in_order, std::span<const TaskId> gone, uint64_t count, const std::optional<supervisor::Saving>& saving,
                     double bytes_per_second, const FilesOf& files_of) {
  Movable found;
  Load load(bytes_per_second);
  for (const TaskId task : gone) load.Add(files_of(task));
  for (size_t i = in_order.size(); i-- > 0 && found.tasks.size() < count;) {
    const TaskId task = in_order[i];
    if (saving && files_of) {
      const std::vector<ToCopy> files = files_of(task);
      const uint64_t go = found.tasks.size();
      const double saves = Seconds(saving->last) - Seconds(saving->each) * static_cast<double>(go + 1);
      // What takes no time is not asked about: the supervisor has.
      if (go >= saving->late && !files.empty() && Seconds(load.With(files)) > std::max(saves, 0.0)) {
        found.dear = true;
        continue;
      }
      load.Add(files);
    }
    found.tasks.push_back(task);
  }
  std::sort(found.tasks.begin(), found.tasks.end());
  return found;
}

}  // namespace harrow::server
