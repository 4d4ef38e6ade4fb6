// A task may want more than one replica of what it makes (Profile::replicas). When it is done, copies beyond
// the first, backups, are ordered until there are as many as it wants, and again after every loss. They are
// copies like any other: a task that is sent to their node finds its input there, they are no home, and a
// copy that was fetched for a task counts among them. What lies in the submit directory, or is read by nobody
// any more, needs none.
//
// A backup goes to the node with the fewest on their way to it, then with the least to do, then that was
// given the fewest. Not to one where tasks wait for room; and for some seconds not to one that had no room,
// or could not get it: nobody waits for a backup, so that it is tried elsewhere, and nothing is dropped for
// it, nor is its holder believed to have lost the file. Only some are on their way to a node at one time, as
// its tasks' inputs come over the same links.
//
// What a node holds of which nothing is heard counts for some seconds still: it may be back at once. Longer
// than that, and at a node that others cannot reach, it does not; where such a node comes back there is one
// replica more than wanted, which goes first where room is made.
//
// Files are noted whenever their number may have become too small, and looked at when the instant ends, some
// at a time: a node's loss may have taken a replica of each of a million files. Not before all nodes are
// known: those that are still to come may have some (a server that was restarted).

#include "core/backups.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "core/supply.h"

namespace harrow::core {
namespace {

constexpr uint32_t kMostBackups = 16;  // on their way to one node
constexpr size_t kMostLooks = 64;      // at files, one time
constexpr Duration kLooksPause = std::chrono::milliseconds(5);

}  // namespace

bool Supply::IsShort(FileId file) const {
  const uint32_t wanted = WantedReplicas(file);
  const File& known = files_[file.value];
  if (wanted < 2 || !Wanted(file) || known.shared || known.absent || !replicas.Any(file) ||
      tasks.state(graph.producer(file)) != TaskState::kDone)
    return false;
  size_t there = 0;
  replicas.ForEachHolder(file, [&](NodeId holder) { there += CountsAsHolder(holder) ? 1 : 0; });
  copies.ForEachTaker(file, [&](NodeId to, const Copies::Copy& copy) {
    there += copy.again == Time::max() && CountsAsHolder(to) ? 1 : 0;
  });
  return there < wanted;
}

/// Some node, if not now, may get it.
bool Supply::AnyLacks(FileId file) const {
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const NodeId node(n);
    if (nodes.Open(node) && !replicas.Holds(file, node) && copies.Find(file, node) == nullptr) return true;
  }
  return false;
}

Supply::Taker Supply::RankTaker(NodeId id) const {
  const Node& node = nodes[id];
  const uint64_t busy = uint64_t{node.used_slots()} * 1024 / std::max(1u, node.total().slots);
  return {{copies.backups(id), busy, backups.given(id)}, id};
}

/// The best first.
std::vector<Supply::Taker> Supply::BackupTakers() const {
  std::vector<bool> waits(nodes.size());
  copies.ForEach([&](FileId, NodeId to, const Copies::Copy& copy) {
    waits[to.value] = waits[to.value] || copy.for_room;
  });
  std::vector<Taker> takers;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const NodeId node(n);
    if (nodes.Open(node) && !backups.Pauses(node, now) && !waits[n] && copies.backups(node) < kMostBackups)
      takers.push_back(RankTaker(node));
  }
  std::sort(takers.begin(), takers.end());
  return takers;
}

bool Supply::OrderBackup(FileId file, std::vector<Taker>* takers) {
  bool reachable = false;
  replicas.ForEachHolder(file, [&](NodeId holder) { reachable |= InReach(holder); });
  if (!reachable) return false;
  const auto best = std::find_if(takers->begin(), takers->end(), [&](const Taker& taker) {
    return !replicas.Holds(file, taker.node) && copies.Find(file, taker.node) == nullptr;
  });
  if (best == takers->end()) return false;
  const NodeId to = best->node;
  takers->erase(best);
  Order(file, to, TaskId());
  backups.CountGiven(to);
  if (copies.backups(to) >= kMostBackups) return true;
  const Taker again = RankTaker(to);
  takers->insert(std::upper_bound(takers->begin(), takers->end(), again), again);
  return true;
}

void Supply::OrderBackups(bool wanted) {
  next_backup_ = Time::max();
  if (!wanted || !nodes_known || backups.size() == 0) return;
  if (now < next_looks_) {
    next_backup_ = next_looks_;
    return;
  }
  if (looked_in_vain_ >= backups.size() && now >= backups_rest_) looked_in_vain_ = 0;
  std::vector<Taker> takers = BackupTakers();
  const size_t looks = std::min(backups.size(), kMostLooks);
  for (size_t n = 0; n < looks && !takers.empty(); ++n) {
    const FileId file = backups.Take();
    bool found = true;
    while (found && IsShort(file)) found = OrderBackup(file, &takers);
    looked_in_vain_ = found ? 0 : looked_in_vain_ + 1;
    if (!found && AnyLacks(file)) backups.Add(file);
  }
  const bool more = looks == kMostLooks && looked_in_vain_ < backups.size();
  if (looks == kMostLooks) next_looks_ = now + kLooksPause;
  if (backups.size() == 0) return;
  if (more && !takers.empty()) {
    next_backup_ = next_looks_;
  } else if (copies.backups() == 0) {
    if (now >= backups_rest_) backups_rest_ = now + kBackupPause;
    next_backup_ = backups_rest_;
  }
}

void Supply::GiveUpBackup(FileId file, NodeId to) {
  copies.Remove(file, to);
  SourceAnew(file, to);
  backups.Pause(to, now + kBackupPause);
}

std::string Supply::FindForgottenBackup() const {
  if (!options.local_files || !nodes_known) return {};
  for (uint32_t n = 0; n < files_.size(); ++n) {
    const FileId file(n);
    if (replicas.Held(file) == file && IsShort(file) && !backups.Has(file) && AnyLacks(file))
      return StrCat("file ", n, ": has fewer replicas than its task wants");
  }
  return {};
}

}  // namespace harrow::core
