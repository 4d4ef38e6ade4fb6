#pragma once

#include <cstdint>
#include <map>
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

  void NoteStored(const FileStored& e);
  void NoteFailed(const CopyFailed& e);
  void NoteNotThere(FileId file, NodeId node);
  void NoteShared(FileId file) {
    if (options.local_files) files_[file.value].shared = true;
  }
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
  /// When to look for sources; Time::max(): not by itself.
  Time next_look() const { return copies.next(); }

  /// Can be had from nobody, as far as is known: its producer is to make it again. It may be named twice.
  std::vector<FileId> lost;
  /// All files are to be looked at: which have been lost is not known.
  bool look_at_all = false;

  /// Nobody has it, nobody gets it, and it does not lie in the submit directory.
  bool IsLost(FileId file) const;
  std::string FindBrokenSupply() const;
  size_t supply_memory() const { return files_.capacity() * sizeof(File); }

  bool ReadsInput(TaskId id, FileId file) const {
    bool reads = false;
    ForEachInput(id, [&](FileId input) { reads |= input == file; });
    return reads;
  }

 private:
  /// Somebody reads it who is not done.
  bool Wanted(FileId file) const { return files_[file.value].readers > 0; }
  struct File {
    // Tasks that read it and are not done.
    uint32_t readers = 0;
    bool shared = false;  // it lies in the submit directory
    bool absent = false;  // its task did not make it
    bool failed = false;  // a copy did not succeed, and its tasks there end of themselves
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
  int64_t MakeRoom(FileId file, NodeId at, TaskId only_for);
  bool MayGetRoom() const;
  TaskId FirstWaiting(NodeId node) const;
  bool IsAwaited(FileId file, NodeId node) const;
  bool HasInputs(TaskId id, NodeId node) const;
  void SourceAnew(FileId file, NodeId gone);
  void DropFrom(FileId file, NodeId holder);
  void Drop(FileId file);

  std::vector<File> files_;
  bool order_later_ = false;
  // Where nothing was found that could be dropped: when to look again.
  std::map<NodeId, Time> no_spare_;
  std::map<Copies::Place, Time> refused_until_;
};

}  // namespace harrow::core
