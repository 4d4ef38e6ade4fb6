#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/parts.h"

namespace harrow::core {

/// Brings files to the nodes whose tasks read them, and drops what nobody reads any more; where files lie on
/// the nodes' own disks (Options::local_files), else it does nothing.
class Supply : protected Parts {
 protected:
  using Parts::Parts;

  /// The graph has grown: these tasks are new.
  void AddReaders(TaskId first, TaskId end);
  /// The task is done: what nobody reads any more is dropped.
  void DropReads(TaskId id);
  /// It is not done any more.
  void AddReads(TaskId id);

  /// Each input of the task can be had from somewhere; what cannot is noted as lost.
  bool MayHaveInputs(TaskId id);
  /// It was sent there: what it reads and the node has not comes to it.
  void OrderInputs(TaskId id, NodeId node);
  /// A node has an input of the task, or it is on its way there.
  bool Supplied(TaskId id, NodeId node) const;
  /// All that it reads is there, or will not come.
  bool HasInputs(TaskId id, NodeId node) const;

  void NoteStored(const FileStored& e);
  void NoteFailed(const CopyFailed& e);
  void NoteNotThere(FileId file, NodeId node);
  void NoteShared(FileId file) {
    if (options.local_files) files_[file.value].shared = true;
  }
  void NoteNotShared(FileId file);
  /// FilesWanted.
  void NoteWanted(TaskId task, const std::vector<FileId>& files);
  bool IsWantedElsewhere(FileId file) const {
    if (wanted_elsewhere_.empty()) return false;
    const auto wanted = wanted_elsewhere_.find(graph.producer(file));
    return wanted != wanted_elsewhere_.end() && wanted->second.contains(file);
  }
  /// The files of its task are these, and no others.
  void TakeFound(const FilesFound& found);
  /// Somebody waits for it who is not done, and nobody has it.
  bool Lacks(FileId file) const { return Wanted(file) && IsLost(file); }
  void NoteAbsent(FileId file) {
    if (options.local_files) files_[file.value].absent = true;
  }
  /// The task was done there, which is home to what it made.
  void NoteHome(TaskId id, NodeId node) {
    if (!options.local_files) return;
    for (FileId file : graph.outputs(id)) replicas.SetHome(file, node);
  }
  /// All that the node held is gone, and what was on its way there or from there.
  void LoseFilesOf(NodeId node);
  /// Somebody may be reached again.
  void LookForSources();
  /// When to look for sources, or for nodes that take backups; Time::max(): not by itself.
  Time next_look() const { return std::min({copies.next(), next_backup_, next_away_}); }
  /// Drops what others have, too, and no task there reads, to come to so much. Returns how much it was.
  int64_t MakeRoomFor(int64_t bytes, NodeId at);
  /// A drop was ordered there in so long a time before now: it may not have been carried out all that while.
  bool DroppedWithin(NodeId at, Duration time) const {
    const auto drop = last_drop_.find(at);
    return drop != last_drop_.end() && now - drop->second <= time;
  }
  /// Something goes on, other than that task, that may end with room on some node.
  bool MayGetRoom(TaskId other_than = TaskId()) const;
  /// Nothing is heard of it, from now on; again; or others cannot reach it, and will not.
  void NoteAway(NodeId node);
  void NoteBack(NodeId node);
  void NoteCutOff(NodeId node);
  /// A node that may take backups.
  void NoteTaker() { look_at_all |= backups_wanted_ && nodes_known; }
  /// Tasks want more replicas of some files than there are: they are ordered as far as nodes may take them. Not
  /// `wanted`: none is now; what lacks some stays listed, as tasks may come after all have ended.
  void OrderBackups(bool wanted);
  bool IsBackup(FileId file, NodeId to) const {
    const Copies::Copy* const copy = copies.Find(file, to);
    return copy != nullptr && !copy->reader && !IsAwaited(file, to);
  }

  /// Can be had from nobody, as far as is known: its producer is to make it again. It may be named twice.
  std::vector<FileId> lost;
  /// Nodes that are alive, and that others cannot reach: they are to be put aside.
  std::vector<NodeId> cut_off;
  /// All files are to be looked at: which have been lost is not known.
  bool look_at_all = false;

  bool IsSharedFile(FileId file) const { return file.value < files_.size() && files_[file.value].shared; }
  bool IsWantedFile(FileId file) const { return file.value < files_.size() && Wanted(file); }
  /// Nobody has it, nobody gets it, and it does not lie in the submit directory.
  bool IsLost(FileId file) const;
  std::string FindBrokenSupply() const;
  std::string FindForgottenBackup() const;

  bool ReadsInput(TaskId id, FileId file) const {
    bool reads = false;
    ForEachInput(id, [&](FileId input) { reads |= input == file; });
    return reads;
  }

 private:
  /// Somebody reads it who is not done.
  bool Wanted(FileId file) const { return files_[file.value].readers > 0; }
  struct File {
    // Tasks that read it and are not done, and one more where others wait for it.
    uint32_t readers = 0;
    bool shared = false;  // every node can read it, from the submit directory or where FilesFound says
    bool absent = false;  // its task did not make it
  };
  template <class Each>
  void ForEachInput(TaskId id, const Each& each) const {
    for (FileId file : graph.inputs(id)) each(replicas.Held(file));
  }
  /// A node to copy it from; `found`: somebody, or (none) the submit directory.
  NodeId ChooseSource(FileId file, NodeId to, bool* found) const;
  void Order(FileId file, NodeId to, TaskId reader);
  void Resource(FileId file, NodeId to);
  void ParkCopy(const CopyFailed& e);
  void NoteNoRoom(const CopyFailed& e);
  int64_t MakeRoomFor(FileId wanted, NodeId at, TaskId only_for) {
    return MakeRoom(std::max<int64_t>(1, replicas.size(wanted)), wanted, at, only_for);
  }
  int64_t MakeRoom(int64_t bytes, FileId wanted, NodeId at, TaskId only_for);
  TaskId FirstWaiting(NodeId node) const;
  bool IsAwaited(FileId file, NodeId node) const;
  NodeId NoteApart(NodeId from, NodeId to);
  void NoteTogether(NodeId one, NodeId other);
  void SourceAnew(FileId file, NodeId gone);
  void DropFrom(FileId file, NodeId holder, bool damaged = false);
  void Drop(FileId file);
  void DropReader(FileId file) {
    if (--files_[file.value].readers == 0) Drop(file);
  }
  void OrderDrop(FileId file, NodeId holder, bool damaged = false);

  uint32_t WantedReplicas(FileId file) const {
    const TaskId producer = backups_wanted_ ? graph.producer(file) : TaskId();
    return producer ? graph.profile(producer).replicas : 1;
  }
  /// Its replicas may be fewer than wanted.
  void NoteShort(FileId file) {
    if (WantedReplicas(file) > 1) backups.Add(file);
  }
  bool IsShort(FileId file) const;
  bool AnyLacks(FileId file) const;
  struct Taker {
    std::tuple<uint32_t, uint64_t, uint32_t> rank;
    NodeId node;
    auto operator<=>(const Taker&) const = default;
  };
  std::vector<Taker> BackupTakers() const;
  Taker RankTaker(NodeId node) const;
  bool OrderBackup(FileId file, std::vector<Taker>* takers);
  void GiveUpBackup(FileId file, NodeId to);
  // A node that could not take a backup is given none for so long.
  static constexpr Duration kBackupPause = std::chrono::seconds(5);

  std::vector<File> files_;
  // What others wait for, by its task.
  std::map<TaskId, std::set<FileId>> wanted_elsewhere_;
  // Copies that did not succeed, and were not ordered since: their tasks there end of themselves.
  std::set<Copies::Place> failed_;
  // Nodes that are alive, each with those that it could not give files to, or get them from, and how often.
  std::map<NodeId, std::map<NodeId, uint32_t>> apart_;
  bool order_later_ = false;
  // Where nothing was found that could be dropped: when to look again.
  std::map<NodeId, Time> no_spare_;
  // When the last drop was ordered of a node.
  std::map<NodeId, Time> last_drop_;
  std::map<Copies::Place, Time> refused_until_;
  // Some task wants more than one replica of its outputs.
  bool backups_wanted_ = false;
  // When to look for nodes that take backups, while nothing else makes us look.
  Time next_backup_ = Time::max();
  Time backups_rest_ = Time::min(), next_looks_ = Time::min();
  // So many files were looked at, one after the other, for which no node was found.
  size_t looked_in_vain_ = 0;

  // Others may get files from it.
  bool InReach(NodeId node) const { return nodes.Joined(node) && (away_.empty() || !away_.contains(node)); }
  bool IsSilent(NodeId node) const {
    const auto found = away_.find(node);
    return found != away_.end() && !found->second.cut_off;
  }
  /// What it holds counts among the replicas of a file.
  bool CountsAsHolder(NodeId node) const {
    if (away_.empty()) return true;
    const auto found = away_.find(node);
    return found == away_.end() || !found->second.for_long;
  }
  void LookAtAway();
  struct Away {
    Time since{};
    bool for_long = false;
    bool cut_off = false;
  };
  // Nodes that are there, and out of reach.
  std::map<NodeId, Away> away_;
  Time next_away_ = Time::max();
};

}  // namespace harrow::core
