// Files on the nodes' own disks. A file lies in the submit directory, on nodes, or nowhere. When a task is
// sent, what it reads and its node has not is ordered: CopyFile, once a node however many tasks want it. Who
// sends it: a node that holds it, or that gets it itself (it hands on what has come so far), each to two
// others at most. So a file that many nodes want spreads as a tree, and its first holder sends it twice. From
// the submit directory it is read by the first node that wants it, and by no other while that one is there.
//
// Where a holder cannot be reached another one is asked, or the submit directory, and it itself only where
// nobody else has the file; with growing pauses. Of who fails a copy for the fifth time it is believed that
// it has lost the file. A node that fails so with two others, or for the third time, is alive and cut off: it
// is put aside, or what is made again there could not be had either. A file that nobody has any more, and
// that does not lie in the submit directory, is lost: its producer makes it again (fates.cc), if somebody who
// is not done reads it.
//
// A node that has no room for a copy drops what others have, too, and no task there is to read. If there is
// nothing of that kind the copy waits, and is tried again with growing pauses, as long as something goes on
// by which room may come: a task runs or can begin, a file is on its way. When nothing does, the first of the
// tasks that wait there has its way: what only the others wait for is dropped; and if that is not enough, it
// is tried once more some seconds later (what has just ended may have made room that the node did not know
// of), and refused then. A task whose outputs find no room when it has run is tried again some times, later
// each time, on another node, or as long as some may come; that costs no retry (fates.cc).
//
// A node is out of reach as soon as its agent hangs up, while nothing is heard of it, and when it was put
// aside as cut off. Who is asked for a file is then somebody else, if there is anybody, and what only such
// nodes have, too, is not dropped for room.
//
// Of some files their tasks want more replicas than one (backups.cc). Where there is no room, what is not
// needed for that number is dropped first.
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
// A node that copies were given up with is put aside: of so many others, or so often.
constexpr size_t kApartFrom = 2;
constexpr uint32_t kApartTimes = 3;
constexpr Duration kFirstPause = std::chrono::milliseconds(250);
constexpr int kLongestPause = 5;  // as a power of two, of the first
// A node learns within some seconds what others of its disk have given back.
constexpr Duration kLastPause = std::chrono::seconds(3);
constexpr Duration kSpareAgain = std::chrono::seconds(1);
// What has been refused there is refused to the next that reads it, without that pause.
constexpr Duration kRefusedFor = std::chrono::minutes(1);
// A node of which nothing is heard may be back at once. Its replicas count for so long.
constexpr Duration kAwayForLong = std::chrono::seconds(10);

}  // namespace

void Supply::AddReaders(TaskId first, TaskId end) {
  if (!options.local_files) return;
  const size_t known = files_.size();
  files_.resize(graph.file_count());
  for (size_t n = known; n < files_.size(); ++n)
    files_[n].shared = !graph.producer(FileId(static_cast<uint32_t>(n)));
  for (uint32_t n = first.value; n < end.value; ++n) {
    AddReads(TaskId(n));
    backups_wanted_ |= graph.profile(TaskId(n)).replicas > 1;
  }
}

void Supply::AddReads(TaskId id) {
  if (!options.local_files) return;
  ForEachInput(id, [this](FileId file) { ++files_[file.value].readers; });
}

void Supply::DropReads(TaskId id) {
  if (!options.local_files) return;
  ForEachInput(id, [this](FileId file) { DropReader(file); });
  if (!backups_wanted_) return;
  for (FileId file : graph.outputs(id)) NoteShort(file);
}

void Supply::Drop(FileId file) {
  if (copies.Any(file)) {
    for (NodeId taker : copies.Takers(file)) copies.Remove(file, taker);
  }
  replicas.ForEachHolder(file, [&](NodeId node) {
    OrderDrop(file, node);
    copies.NoteRoom(node, now);
  });
  replicas.RemoveAll(file);
}

bool Supply::IsLost(FileId file) const {
  if (files_[file.value].shared || files_[file.value].absent || replicas.Any(file)) return false;
  bool goes = false;
  copies.ForEachTaker(file, [&](NodeId, const Copies::Copy& copy) { goes |= copy.again == Time::max(); });
  return !goes;
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
    all &= files_[file.value].absent || failed_.contains({file, node}) || replicas.Holds(file, node) ||
           copies.Find(file, node) != nullptr;
  });
  return all;
}

NodeId Supply::ChooseSource(FileId file, NodeId to, bool* found) const {
  const Copies::Copy* const copy = copies.Find(file, to);
  const NodeId failed = copy != nullptr && copy->failures > 0 ? copy->failed : NodeId();
  NodeId best;
  uint64_t best_rank = UINT64_MAX;
  const auto consider = [&](NodeId node, bool whole) {
    if (node == to || !nodes.Joined(node)) return;
    const uint64_t served = copies.served(file, node);
    const uint64_t out_of_reach = InReach(node) ? 0 : 1;
    const uint64_t has_failed = node == failed ? 1 : 0;
    const uint64_t many = served < kMostServed ? 0 : 1;
    const uint64_t rank = out_of_reach << 63 | has_failed << 62 | many << 61 |
                          uint64_t{whole ? 0u : 1u} << 60 | served << 32 | node.value;
    if (rank >= best_rank) return;
    best_rank = rank;
    best = node;
  };
  replicas.ForEachHolder(file, [&](NodeId holder) { consider(holder, true); });
  copies.ForEachTaker(file, [&](NodeId taker, const Copies::Copy& its) {
    if (its.again == Time::max() && !copies.ComesFrom(file, taker, to)) consider(taker, false);
  });
  if (failed && best == failed && files_[file.value].shared) best = NodeId();
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
  copies.Add(file, to, from, reader, now);
  failed_.erase({file, to});
  if (order_later_) {
    NoteShort(file);
    return copies.ParkForRoom(file, to, now + kLastPause);
  }
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
    NoteShort(file);
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
  if (copy != nullptr && copy->no_room == 0 && copy->reader) ahead.NoteCopy(e.node, now - copy->since);
  if (copy != nullptr && copy->from) NoteTogether(copy->from, e.node);
  copies.Remove(e.file, e.node);
  failed_.erase({e.file, e.node});
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
  NoteShort(e.file);
  if (options.local_files && !Wanted(e.file)) Drop(e.file);
}

void Supply::NoteFailed(const CopyFailed& e) {
  const Copies::Copy* const copy = copies.Find(e.file, e.to);
  if (copy == nullptr || copy->from != e.from || copy->again != Time::max())
    return;  // it comes from another one by now
  NoteShort(e.file);
  const bool source_has_it = e.from && replicas.Holds(e.file, e.from);
  const bool absent = e.why == CopyFailed::Why::kAbsent && source_has_it;
  // Nor is a holder believed to have a damaged one because of a backup: it may be who gets it that damages.
  if (!absent && IsBackup(e.file, e.to)) return GiveUpBackup(e.file, e.to);
  switch (e.why) {
    case CopyFailed::Why::kUnreadable:  // its tasks fail there
      failed_.insert({e.file, e.to});
      copies.Remove(e.file, e.to);
      SourceAnew(e.file, e.to);
      break;
    case CopyFailed::Why::kNoRoom:
      ahead.NoteFull(e.to, now);
      NoteNoRoom(e);
      break;
    case CopyFailed::Why::kAbsent:
    case CopyFailed::Why::kDamaged:
      if (!replicas.Holds(e.file, e.from)) return ParkCopy(e);  // it gets it itself, still
      DropFrom(e.file, e.from, e.why == CopyFailed::Why::kDamaged);
      break;
    case CopyFailed::Why::kUnreachable:
      if (copy->failures + 1 >= kMostFailures && replicas.Holds(e.file, e.from) && !IsSilent(e.from)) {
        copies.ForgetFailures(e.file, e.to);
        if (NoteApart(e.from, e.to) != e.to) DropFrom(e.file, e.from);
      }
      ParkCopy(e);
      break;
  }
}

/// A copy was given up. Which of the two is to be put aside, as it fails again and again, or with others,
/// too; none: that cannot be told yet.
NodeId Supply::NoteApart(NodeId from, NodeId to) {
  ++apart_[from][to];
  ++apart_[to][from];
  copies.ForEach([&](FileId, NodeId taker, const Copies::Copy& copy) {
    if (taker == to && copy.failures > 1 && copy.failed) apart_[to].try_emplace(copy.failed);
  });
  const NodeId worse = apart_[to].size() > apart_[from].size() ? to : from;
  uint32_t times = 0;
  for (const auto& [other, each] : apart_[worse]) times += each;
  if (!nodes[worse].open() || nodes.open_nodes() < 2) return {};
  if (apart_[worse].size() < kApartFrom && times < kApartTimes) return {};
  cut_off.push_back(worse);
  // That they failed with this one says nothing against others; but of the two that failed last it may have
  // been the other one, which the next failure tells.
  const NodeId other = worse == from ? to : from;
  for (auto& [node, others] : apart_) {
    if (node != other) others.erase(worse);
  }
  return worse;
}

void Supply::NoteTogether(NodeId one, NodeId other) {
  if (apart_.empty()) return;
  apart_[one].erase(other);
  apart_[other].erase(one);
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
    if (MakeRoomFor(e.file, e.to, TaskId()) > 0) return try_again();
    in_vain = now + kSpareAgain;
  }
  if (MayGetRoom()) return;
  const TaskId first = FirstWaiting(e.to);
  if (!first || !ReadsInput(first, e.file)) return;  // after that one
  if (MakeRoomFor(e.file, e.to, first) > 0) return try_again();
  Time& believed = refused_until_[{e.file, e.to}];
  if (!tried.last_try && now >= believed) return copies.SetLastTry(e.file, e.to, now + kLastPause);
  believed = now + kRefusedFor;
  failed_.insert({e.file, e.to});
  copies.Remove(e.file, e.to);
  actions->push_back(RefuseFile{e.file, e.to});
}

/// Of those sent to the node that wait for what they read the one that goes first: always the same one, so
/// that they do not take the room from each other in turn. What was sent ahead is asked back instead.
TaskId Supply::FirstWaiting(NodeId node) const {
  TaskId first;
  for (TaskId id : nodes[node].in_flight()) {
    if (tasks[id].ahead() || tasks[id].state() == TaskState::kRunning || HasInputs(id, node)) continue;
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

bool Supply::HasInputs(TaskId id, NodeId node) const {
  bool all = true;
  ForEachInput(id, [&](FileId file) {
    all &= files_[file.value].absent || failed_.contains({file, node}) || replicas.Holds(file, node);
  });
  return all;
}

/// All files are looked at: not again at once where nothing was found.
int64_t Supply::MakeRoomFor(int64_t bytes, NodeId at) {
  Time& in_vain = no_spare_[at];
  if (now < in_vain) return 0;
  const int64_t freed = MakeRoom(bytes, FileId(), at, TaskId());
  if (freed == 0) in_vain = now + kSpareAgain;
  return freed;
}

/// By dropping what can be had elsewhere and no task there reads; `only_for`: no other task counts, but those
/// that run. Answers with the bytes; a file of unknown size is one.
int64_t Supply::MakeRoom(int64_t bytes, FileId wanted, NodeId at, TaskId only_for) {
  std::vector<bool> read(files_.size());
  for (TaskId id : nodes[at].in_flight()) {
    if (only_for && id != only_for && tasks[id].state() != TaskState::kRunning) continue;
    ForEachInput(id, [&](FileId file) { read[file.value] = true; });
  }
  const int64_t enough = 2 * bytes;
  int64_t freed = 0;
  order_later_ = true;  // or what is dropped here takes the room again
  const auto drop = [&](bool wanted_number_stays) {
    for (uint32_t n = 0; n < files_.size() && freed < enough; ++n) {
      const FileId file(n);
      if (read[n] || file == wanted || !replicas.Holds(file, at) || copies.served(file, at) > 0) continue;
      uint32_t elsewhere = 0;
      replicas.ForEachHolder(file,
                             [&](NodeId holder) { elsewhere += holder != at && InReach(holder) ? 1 : 0; });
      if (!files_[n].shared && elsewhere < (wanted_number_stays ? WantedReplicas(file) : 1)) continue;
      freed += std::max<int64_t>(1, replicas.size(file));
      DropFrom(file, at);
    }
  };
  drop(true);
  if (backups_wanted_) {
    drop(false);
    backups.PauseFull(at, now);
  }
  order_later_ = false;
  return freed;
}

bool Supply::MayGetRoom(TaskId other_than) const {
  const uint64_t itself = other_than && tasks.state(other_than) == TaskState::kRunning ? 1 : 0;
  if (tasks.counts().running > itself || copies.AnyGoes()) return true;
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

void Supply::OrderDrop(FileId file, NodeId holder, bool damaged) {
  if (!nodes.Joined(holder)) return;
  last_drop_[holder] = now;
  actions->push_back(DropFile{file, holder, damaged});
}

/// It is believed not to hold it: who was to get it from there, or needs it there, asks others.
void Supply::DropFrom(FileId file, NodeId holder, bool damaged) {
  OrderDrop(file, holder, damaged);
  NoteNotThere(file, holder);
}

/// The node does not hold it, nor does it get it.
void Supply::NoteNotThere(FileId file, NodeId node) {
  replicas.Remove(file, node);
  if (!options.local_files) return;
  NoteShort(file);
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
  if (Lacks(file)) lost.push_back(file);
}

void Supply::NoteNotShared(FileId file) {
  if (!options.local_files || !graph.producer(file) || !std::exchange(files_[file.value].shared, false)) return;
  for (NodeId taker : copies.Takers(file)) {
    if (const Copies::Copy* const copy = copies.Find(file, taker); copy != nullptr && !copy->from) Resource(file, taker);
  }
  NoteShort(file);
  if (Lacks(file)) lost.push_back(file);
}

void Supply::NoteWanted(TaskId task, const std::vector<FileId>& files) {
  if (!options.local_files || !tasks.Has(task)) return;
  std::set<FileId> wanted;
  for (FileId file : files) {
    if (file.value < files_.size() && graph.producer(file) == task) wanted.insert(file);
  }
  for (FileId file : wanted) {
    ++files_[file.value].readers;
    if (IsLost(file)) lost.push_back(file);
  }
  std::set<FileId>& known = wanted_elsewhere_[task];
  for (FileId file : std::exchange(known, std::move(wanted))) DropReader(file);
  if (known.empty()) wanted_elsewhere_.erase(task);
}

void Supply::TakeFound(const FilesFound& found) {
  for (FileId file : graph.outputs(found.task)) files_[file.value].shared = files_[file.value].absent = false;
  for (FileId file : found.shared) files_[file.value].shared = true;
  for (FileId file : found.absent) files_[file.value].absent = true;
  for (FileId file : graph.outputs(found.task)) NoteShort(file);
  const std::set<FileId> same(found.same.begin(), found.same.end());
  for (FileId file : graph.outputs(found.task)) {
    if (same.contains(file)) continue;
    // What comes to them is of another execution, too.
    const std::vector<NodeId> takers = copies.Takers(file);
    for (NodeId holder : replicas.Holders(file)) DropFrom(file, holder);
    for (NodeId taker : takers) {
      if (copies.Find(file, taker) != nullptr) Resource(file, taker);
    }
  }
}

void Supply::LoseFilesOf(NodeId node) {
  replicas.NodeLost(node);
  if (!options.local_files) return;
  apart_.erase(node);
  for (auto& [other, with] : apart_) with.erase(node);
  away_.erase(node);
  std::erase_if(failed_, [node](const Copies::Place& place) { return place.second == node; });
  for (const auto& [file, to] : copies.To(node)) copies.Remove(file, to);
  for (const auto& [file, to] : copies.From(node)) {
    if (copies.Find(file, to) != nullptr) Resource(file, to);
  }
  look_at_all = true;
}

void Supply::NoteAway(NodeId node) {
  if (!options.local_files || !nodes.Joined(node)) return;
  if (away_.try_emplace(node, Away{.since = now}).second)
    next_away_ = std::min(next_away_, now + kAwayForLong);
}

void Supply::NoteBack(NodeId node) {
  if (IsSilent(node)) away_.erase(node);
}

void Supply::NoteCutOff(NodeId node) {
  away_[node] = {.since = now, .for_long = true, .cut_off = true};
  look_at_all |= backups_wanted_;
}

/// Those that have been silent for so long that their replicas are made up for.
void Supply::LookAtAway() {
  if (now < next_away_) return;
  next_away_ = Time::max();
  for (auto& [node, away] : away_) {
    if (away.for_long) continue;
    if (now - away.since < kAwayForLong) {
      next_away_ = std::min(next_away_, away.since + kAwayForLong);
    } else {
      away.for_long = true;
      look_at_all |= backups_wanted_;
    }
  }
}

void Supply::LookForSources() {
  LookAtAway();
  for (const auto& [file, to] : copies.Parked(now)) {
    if (copies.Find(file, to) == nullptr) continue;
    // Whom it was for may have been taken back, or have ended.
    if (IsAwaited(file, to)) {
      Resource(file, to);
    } else {
      copies.Remove(file, to);
      NoteShort(file);
    }
  }
  if (!std::exchange(look_at_all, false)) return;
  for (uint32_t n = 0; n < files_.size(); ++n) {
    const FileId file(n);
    if (IsShort(file)) backups.Add(file);
    const TaskId producer = graph.producer(file);
    if (producer && Wanted(file) && tasks.state(producer) == TaskState::kDone &&
        replicas.Held(file) == file && IsLost(file))
      lost.push_back(file);
  }
}

std::string Supply::FindBrokenSupply() const {
  if (!options.local_files) return {};
  std::vector<uint32_t> readers(files_.size());
  for (const auto& [task, files] : wanted_elsewhere_) {
    for (FileId file : files) ++readers[file.value];
  }
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
  std::string broken;
  copies.ForEach([&](FileId file, NodeId to, const Copies::Copy& copy) {
    if (!nodes.Joined(to)) broken = StrCat("file ", file.value, ": comes to a node that is not there");
    if (replicas.Holds(file, to)) broken = StrCat("file ", file.value, ": comes to a node that has it");
    if (copy.again != Time::max()) return;
    const bool can = copy.from ? replicas.Holds(file, copy.from) || copies.Find(file, copy.from) != nullptr
                               : files_[file.value].shared;
    if (!can) broken = StrCat("file ", file.value, ": comes from nobody");
  });
  if (broken.empty()) broken = copies.FindBroken();
  return broken.empty() ? backups.FindBroken() : broken;
}

}  // namespace harrow::core
