// Files on the nodes' own disks. A file lies in the submit directory, on nodes, or nowhere. When a task is
// sent, what it reads and its node has not is ordered: CopyFile, once a node however many tasks want it. Who
// sends it: a node that holds it, or that gets it itself (it hands on what has come so far), each to two
// others at most. So a file that many nodes want spreads as a tree, and its first holder sends it twice. From
// the submit directory it is read by the first node that wants it, and by no other while that one is there.
//
// A holder that cannot be reached is asked again some times, with growing pauses, and believed to have lost
// the file then. A file that nobody has any more, and that does not lie in the submit directory, is lost: its
// producer makes it again (fates.cc), if somebody who is not done reads it.
//
// A node that has no room for a copy drops what others have, too, and no task there is to read. If there is
// nothing of that kind the copy waits, and is tried again with growing pauses, as long as something goes on
// by which room may come: a task runs or can begin, a file is on its way. When nothing does, the first of the
// tasks that wait there has its way: what only the others wait for is dropped; and if that is not enough, it
// is tried once more some seconds later (what has just ended may have made room that the node did not know
// of), and refused then.
//
// Dropped is what all its readers have read. Not what tasks read that failed or were skipped: the run that
// resumes this one may want it (--save).

#include "core/supply.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace harrow::core {
namespace {

constexpr uint32_t kMostServed = 2;
constexpr uint8_t kMostFailures = 5;
constexpr Duration kFirstPause = std::chrono::milliseconds(250);
constexpr int kLongestPause = 5;  // as a power of two, of the first
// A node learns within some seconds what others of its disk have given back.
constexpr Duration kLastPause = std::chrono::seconds(3);
constexpr Duration kSpareAgain = std::chrono::seconds(1);
// What has been refused there is refused to the next that reads it, without that pause.
constexpr Duration kRefusedFor = std::chrono::minutes(1);

}  // namespace

void Supply::AddReaders(TaskId first, TaskId end) {
  if (!options.local_files) return;
  const size_t known = files_.size();
  files_.resize(graph.file_count());
  for (size_t n = known; n < files_.size(); ++n)
    files_[n].shared = !graph.producer(FileId(static_cast<uint32_t>(n)));
  for (uint32_t n = first.value; n < end.value; ++n) AddReads(TaskId(n));
}

void Supply::AddReads(TaskId id) {
  if (!options.local_files) return;
  ForEachInput(id, [this](FileId file) { ++files_[file.value].readers; });
}

void Supply::DropReads(TaskId id) {
  if (!options.local_files) return;
  ForEachInput(id, [this](FileId file) {
    if (--files_[file.value].readers == 0) Drop(file);
  });
}

void Supply::Drop(FileId file) {
  for (NodeId taker : copies.Takers(file)) copies.Remove(file, taker);
  for (NodeId node : replicas.Holders(file)) {
    replicas.Remove(file, node);
    if (nodes.Joined(node)) actions->push_back(DropFile{file, node});
    copies.NoteRoom(node, now);
  }
}

bool Supply::IsLost(FileId file) const {
  if (files_[file.value].shared || files_[file.value].absent || replicas.Any(file)) return false;
  const std::vector<NodeId> takers = copies.Takers(file);
  return std::none_of(takers.begin(), takers.end(),
                      [&](NodeId node) { return copies.Find(file, node)->again == Time::max(); });
}

bool Supply::MayHaveInputs(TaskId id) {
  bool all = true;
  if (!options.local_files) return true;
  ForEachInput(id, [&](FileId file) {
    if (!IsLost(file)) return;
    lost.push_back(file);
    all = false;
  });
  return all;
}

bool Supply::Supplied(TaskId id, NodeId node) const {
  bool all = true;
  ForEachInput(id, [&](FileId file) {
    all &= files_[file.value].absent || files_[file.value].failed || replicas.Holds(file, node) ||
           copies.Find(file, node) != nullptr;
  });
  return all;
}

NodeId Supply::ChooseSource(FileId file, NodeId to, bool* found) const {
  NodeId best;
  uint64_t best_rank = UINT64_MAX;
  const auto consider = [&](NodeId node, bool whole) {
    if (node == to || !nodes.Joined(node)) return;
    const uint64_t served = copies.served(file, node);
    const uint64_t out_of_reach = nodes[node].access() == Node::Access::kSilent ? 1 : 0;
    const uint64_t many = served < kMostServed ? 0 : 1;
    const uint64_t rank =
        out_of_reach << 62 | many << 61 | uint64_t{whole ? 0u : 1u} << 60 | served << 32 | node.value;
    if (rank >= best_rank) return;
    best_rank = rank;
    best = node;
  };
  for (NodeId holder : replicas.Holders(file)) consider(holder, true);
  for (NodeId taker : copies.Takers(file)) {
    if (copies.Find(file, taker)->again == Time::max() && !copies.ComesFrom(file, taker, to))
      consider(taker, false);
  }
  *found = best || files_[file.value].shared;
  return best;
}

void Supply::Order(FileId file, NodeId to, TaskId reader) {
  if (files_[file.value].absent || replicas.Holds(file, to) || copies.Find(file, to) != nullptr) return;
  bool found = false;
  const NodeId from = ChooseSource(file, to, &found);
  if (!found) {
    lost.push_back(file);
    return;
  }
  copies.Add(file, to, from, reader);
  if (order_later_) return copies.ParkForRoom(file, to, now + kLastPause);
  actions->push_back(CopyFile{file, to, from, reader});
}

void Supply::OrderInputs(TaskId id, NodeId node) {
  if (!options.local_files) return;
  ForEachInput(id, [&](FileId file) { Order(file, node, id); });
}

/// The copy has lost its source: it comes from somebody else, or not at all.
void Supply::Resource(FileId file, NodeId to) {
  bool found = false;
  const NodeId from = ChooseSource(file, to, &found);
  if (!found) {
    copies.Remove(file, to);
    lost.push_back(file);
    for (NodeId taker : copies.Takers(file)) {
      if (const Copies::Copy* const copy = copies.Find(file, taker); copy != nullptr && copy->from == to)
        Resource(file, taker);
    }
    return;
  }
  copies.SetSource(file, to, from);
  actions->push_back(CopyFile{file, to, from, copies.Find(file, to)->reader});
}

void Supply::NoteStored(const FileStored& e) {
  // Its home is where it was made or placed, or where it came to from the submit directory: no other node
  // had it.
  const Copies::Copy* const copy = copies.Find(e.file, e.node);
  const bool placed = copy == nullptr ? !replicas.Holds(e.file, e.node) : !copy->from;
  copies.Remove(e.file, e.node);
  if (!nodes.Joined(e.node)) return;
  if (options.local_files && placed && !replicas.Home(e.file)) replicas.SetHome(e.file, e.node);
  std::vector<NodeId> older;
  if (e.made && options.local_files) {
    for (NodeId holder : replicas.Holders(e.file)) {
      if (holder != e.node) older.push_back(holder);
    }
  }
  replicas.Add(e.file, e.node);
  if (options.local_files) files_[e.file.value].absent = false;
  for (NodeId holder : older) DropFrom(e.file, holder);
  if (options.local_files && !Wanted(e.file)) Drop(e.file);
}

void Supply::NoteFailed(const CopyFailed& e) {
  const Copies::Copy* const copy = copies.Find(e.file, e.to);
  if (copy == nullptr || copy->from != e.from || copy->again != Time::max())
    return;  // it comes from another one by now
  switch (e.why) {
    case CopyFailed::Why::kUnreadable:  // its tasks fail there
      files_[e.file.value].failed = true;
      copies.Remove(e.file, e.to);
      SourceAnew(e.file, e.to);
      break;
    case CopyFailed::Why::kNoRoom:
      NoteNoRoom(e);
      break;
    case CopyFailed::Why::kAbsent:
    case CopyFailed::Why::kDamaged:
      if (!replicas.Holds(e.file, e.from)) return ParkCopy(e);  // it gets it itself, still
      DropFrom(e.file, e.from);
      break;
    case CopyFailed::Why::kUnreachable:
      if (copy->failures + 1 >= kMostFailures && replicas.Holds(e.file, e.from) &&
          nodes[e.from].access() != Node::Access::kSilent)
        DropFrom(e.file, e.from);
      ParkCopy(e);
      break;
  }
}

/// Those who were to get it from there ask for themselves.
void Supply::SourceAnew(FileId file, NodeId gone) {
  for (NodeId taker : copies.Takers(file)) {
    if (const Copies::Copy* const copy = copies.Find(file, taker); copy != nullptr && copy->from == gone)
      Resource(file, taker);
  }
}

void Supply::NoteNoRoom(const CopyFailed& e) {
  const Copies::Copy tried = *copies.Find(e.file, e.to);
  const int longer = std::min<int>(tried.no_room, kLongestPause);
  copies.ParkForRoom(e.file, e.to, now + kFirstPause * (1 << longer));
  SourceAnew(e.file, e.to);
  const auto try_again = [&] {
    if (copies.Find(e.file, e.to) != nullptr) Resource(e.file, e.to);
  };
  Time& in_vain = no_spare_[e.to];
  if (now >= in_vain) {
    if (MakeRoom(e.file, e.to, TaskId()) > 0) return try_again();
    in_vain = now + kSpareAgain;
  }
  if (MayGetRoom()) return;
  const TaskId first = FirstWaiting(e.to);
  if (!first || !ReadsInput(first, e.file)) return;  // after that one
  if (MakeRoom(e.file, e.to, first) > 0) return try_again();
  Time& believed = refused_until_[{e.file, e.to}];
  if (!tried.last_try && now >= believed) return copies.SetLastTry(e.file, e.to, now + kLastPause);
  believed = now + kRefusedFor;
  files_[e.file.value].failed = true;
  copies.Remove(e.file, e.to);
  actions->push_back(RefuseFile{e.file, e.to});
}

/// Of those sent to the node that wait for what they read the one that goes first: always the same one, so
/// that they do not take the room from each other in turn.
TaskId Supply::FirstWaiting(NodeId node) const {
  TaskId first;
  for (TaskId id : nodes[node].in_flight()) {
    if (tasks[id].state() == TaskState::kRunning || HasInputs(id, node)) continue;
    if (!first || id < first) first = id;
  }
  return first;
}

/// A task that was sent there reads it, and does not run.
bool Supply::IsAwaited(FileId file, NodeId node) const {
  for (TaskId id : nodes[node].in_flight()) {
    if (tasks[id].state() != TaskState::kRunning && ReadsInput(id, file)) return true;
  }
  return false;
}

/// All that it reads is there, or will not come.
bool Supply::HasInputs(TaskId id, NodeId node) const {
  bool all = true;
  ForEachInput(id, [&](FileId file) {
    const File& known = files_[file.value];
    const bool refused = known.failed && copies.Find(file, node) == nullptr;
    all &= known.absent || refused || replicas.Holds(file, node);
  });
  return all;
}

/// By dropping what can be had elsewhere and no task there reads; `only_for`: no other task counts, but those
/// that run. Answers with the bytes; a file of unknown size is one.
int64_t Supply::MakeRoom(FileId wanted, NodeId at, TaskId only_for) {
  std::vector<bool> read(files_.size());
  for (TaskId id : nodes[at].in_flight()) {
    if (only_for && id != only_for && tasks[id].state() != TaskState::kRunning) continue;
    ForEachInput(id, [&](FileId file) { read[file.value] = true; });
  }
  const int64_t enough = 2 * std::max<int64_t>(1, replicas.size(wanted));
  int64_t freed = 0;
  order_later_ = true;  // or what is dropped here takes the room again
  for (uint32_t n = 0; n < files_.size() && freed < enough; ++n) {
    const FileId file(n);
    if (read[n] || file == wanted || !replicas.Holds(file, at) || copies.served(file, at) > 0) continue;
    bool elsewhere = files_[n].shared;
    for (NodeId holder : replicas.Holders(file)) {
      elsewhere |= holder != at && nodes.Joined(holder) && nodes[holder].access() != Node::Access::kSilent;
    }
    if (!elsewhere) continue;
    freed += std::max<int64_t>(1, replicas.size(file));
    DropFrom(file, at);
  }
  order_later_ = false;
  return freed;
}

/// Something goes on that may end with room on some node.
bool Supply::MayGetRoom() const {
  if (tasks.counts().running > 0 || copies.AnyGoes()) return true;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const NodeId node(n);
    for (TaskId id : nodes[node].in_flight()) {
      if (HasInputs(id, node)) return true;
    }
  }
  return false;
}

/// A source is looked for some time later, unless there is another one by now.
void Supply::ParkCopy(const CopyFailed& e) {
  const Copies::Copy* const copy = copies.Find(e.file, e.to);
  if (copy == nullptr || copy->from != e.from || copy->again != Time::max()) return;
  copies.Park(e.file, e.to, now + kFirstPause * (1 << std::min<int>(copy->failures, kMostFailures)));
}

/// It is believed not to hold it: who was to get it from there, or needs it there, asks others.
void Supply::DropFrom(FileId file, NodeId holder) {
  if (nodes.Joined(holder)) actions->push_back(DropFile{file, holder});
  NoteNotThere(file, holder);
}

/// The node does not hold it, nor does it get it.
void Supply::NoteNotThere(FileId file, NodeId node) {
  replicas.Remove(file, node);
  if (!options.local_files) return;
  for (NodeId taker : copies.Takers(file)) {
    const Copies::Copy* const copy = copies.Find(file, taker);
    if (copy != nullptr && copy->from == node && copies.Find(file, node) == nullptr) Resource(file, taker);
  }
  // Tasks that were sent there believed it to have it.
  if (nodes.Joined(node)) {
    for (TaskId id : nodes[node].in_flight()) {
      if (tasks[id].state() == TaskState::kRunning || !ReadsInput(id, file)) continue;
      Order(file, node, id);
      break;
    }
  }
  if (Wanted(file) && IsLost(file)) lost.push_back(file);
}

void Supply::LoseFilesOf(NodeId node) {
  replicas.NodeLost(node);
  if (!options.local_files) return;
  for (const auto& [file, to] : copies.To(node)) copies.Remove(file, to);
  for (const auto& [file, to] : copies.From(node)) {
    if (copies.Find(file, to) != nullptr) Resource(file, to);
  }
  look_at_all = true;
}

void Supply::LookForSources() {
  for (const auto& [file, to] : copies.Parked(now)) {
    if (copies.Find(file, to) == nullptr) continue;
    // Whom it was for may have been taken back, or have ended.
    if (IsAwaited(file, to)) {
      Resource(file, to);
    } else {
      copies.Remove(file, to);
    }
  }
  if (!std::exchange(look_at_all, false)) return;
  for (uint32_t n = 0; n < files_.size(); ++n) {
    const FileId file(n);
    const TaskId producer = graph.producer(file);
    if (producer && Wanted(file) && tasks.state(producer) == TaskState::kDone &&
        replicas.Held(file) == file && IsLost(file))
      lost.push_back(file);
  }
}

std::string Supply::FindBrokenSupply() const {
  if (!options.local_files) return {};
  std::vector<uint32_t> readers(files_.size());
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    const TaskId id(n);
    const Task& task = tasks[id];
    if (task.state() != TaskState::kDone) ForEachInput(id, [&](FileId file) { ++readers[file.value]; });
    const bool about_to_begin = task.state() == TaskState::kAhead;
    if (about_to_begin && !Supplied(id, task.node()))
      return StrCat("task ", n, ": what it reads does not come to it");
  }
  for (uint32_t n = 0; n < files_.size(); ++n) {
    const FileId file(n);
    if (readers[n] != files_[n].readers) return StrCat("file ", n, ": its readers");
    if (!Wanted(file) && replicas.Any(file)) return StrCat("file ", n, ": is held, and nobody reads it");
  }
  for (const auto& [place, copy] : copies.all()) {
    const auto& [file, to] = place;
    if (!nodes.Joined(to)) return StrCat("file ", file.value, ": comes to a node that is not there");
    if (replicas.Holds(file, to)) return StrCat("file ", file.value, ": comes to a node that has it");
    if (copy.again != Time::max()) continue;
    const bool can = copy.from ? replicas.Holds(file, copy.from) || copies.Find(file, copy.from) != nullptr
                               : files_[file.value].shared;
    if (!can) return StrCat("file ", file.value, ": comes from nobody");
  }
  return copies.FindBroken();
}

}  // namespace harrow::core
