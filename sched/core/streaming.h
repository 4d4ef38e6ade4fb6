#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/fates.h"

namespace harrow::core {

/// Tasks that are joined by streams: when readers may begin, what they read, and when what they have read is
/// void (streaming.cc).
class Streaming : protected Fates {
 protected:
  using Fates::Fates;

  /// The graph has grown: these tasks are new.
  void AddStreamsOf(TaskId first, TaskId end);
  bool ReadsStreams(TaskId id) const { return streams.any() && !graph.streams_read(id).empty(); }
  bool WritesStreams(TaskId id) const { return streams.any() && !graph.streams_written(id).empty(); }

  /// Streams have been connected, held or released.
  void LookAtStreams();
  void NoteKept(const StreamKept& e);
  /// Of these tasks, which are to go elsewhere, those that streams join with one that stays.
  std::set<TaskId> CutFromStreams(const std::vector<TaskId>& leave) const;
  /// Nothing can be connected to it any more.
  bool HasEnded(StreamId stream) const;

  void NoteReadToEnd(const ReadToEnd& e) { streams.told_to_end.push_back(e.reader); }
  void NoteRead(const StreamRead& e) { streams.told_read.emplace_back(e.reader, e.writer); }
  void NoteHeld(const StreamHeld& e);
  /// All that the node held is gone.
  void LoseWrittenAt(NodeId node);
  /// What was told to readers there may not have arrived.
  void TellAgainAt(NodeId node);

  /// The writer's attempt was ended by SIGPIPE: what became of the task?
  enum class Piped : uint8_t { kDone, kVoid, kFailed };
  Piped AfterSigpipe(AttemptId attempt) const;
  /// It was told that all who read it have ended well: what it wrote since then nobody has kept.
  bool WasClosed(AttemptId attempt) const { return streams.writers.at(attempt.task).closed == attempt.number; }
  /// A writer's attempt has succeeded there; `whole`: all that it would write has been kept.
  void NoteWritten(AttemptId attempt, NodeId node, bool whole);
  /// The reader's attempt has succeeded, and is at no node any more.
  void EndRead(AttemptId attempt);
  /// What the reader's attempt had read is void, it says.
  void AfterRewind(TaskId id);

  /// What follows for readers and writers from the states that tasks have come to. Again, until nothing does.
  void FollowStreams();
  /// Does so, and settles what follows from that.
  void SettleAll();
  /// Writers run again of which readers that are to begin have to have what is lost.
  void RemakeWriters();
  /// Slots are wanted: readers that only wait for a writer which is at no node begin anew.
  void FreeStarved();
  /// The same of readers of open streams, where nothing else runs that would give its slot to others.
  void FreeOpenReaders();
  /// Those that were, and that nobody is waiting any more to come before: are there some?
  bool LetYieldedGoOn();

  std::string FindBrokenStreams() const;

 private:
  // --- open streams (open_streams.cc)
  void ConnectNew(TaskId id);
  bool IsHeld(StreamId stream) const;
  bool IsOpen(StreamId stream) const { return streams.kept.contains(stream) || IsHeld(stream); }
  bool ReadsOpen(TaskId reader) const;
  bool WritesOpen(TaskId writer) const;
  bool WaitsForStreams(TaskId reader) const;
  void LookAtStream(StreamId stream);
  void NoteEndsOf(StreamId stream);
  void TellOpen(TaskId reader, StreamId stream, bool yield);
  void Starve(TaskId reader);
  bool OthersWantSlots() const;
  std::set<TaskId> StuckReaders() const;

  void LookAtWriter(TaskId id);
  void LookAtReader(TaskId id);
  void Recount(TaskId id);
  void TellReaders(TaskId writer, bool gone);
  void Tell(TaskId reader, StreamId stream, TaskId writer, bool gone);
  void TellAll(TaskId reader);
  /// What the success of one that is held is worth.
  enum class Worth : uint8_t { kOpen, kVoid, kNothing, kAll };
  Worth WorthOf(TaskId reader, TaskId* failed) const;
  std::vector<TaskId> ThoseDoneWith(TaskId reader) const;
  void MayConclude(TaskId reader);
  void ConcludeSharers(TaskId reader);
  void BeginAnew(TaskId id);
  bool IsReadByNobody(TaskId writer) const;
  void CloseIfRead(TaskId writer);
  void DropIfRead(TaskId writer);
};

}  // namespace harrow::core
