#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/moves.h"

namespace harrow::core {

/// What becomes of tasks: which become ready, are tried again, or are settled, and how.
class Fates : protected Moves {
 protected:
  using Moves::Moves;

  // --- what a task waits for
  /// Counts anew the predecessors that it waits for.
  void CountWaits(TaskId id);
  /// A task that was there before waits for a new one.
  void AddPredecessor(TaskId id);
  /// Delayed tasks that are due wait for nothing more.
  void EndDelays();
  /// Tells when the next delayed task is due.
  void TellWake();

  // --- files that are lost
  /// Tasks that are done make again what somebody reads who is not settled.
  void RemakeLost();
  /// The task is done, and what it made is lost: it runs again, or has failed where that was so too often.
  void RemakeAll(TaskId producer);
  /// What AskOthers is answered with, and what else is told of files that lie where every node can read them.
  void NoteFound(const FilesFound& found);
  void NoteNotFound(TaskId id);
  /// Nodes that are there or expected can give what it asks for, as far as is known.
  bool CanRunHere(TaskId id) const { return !nodes_known || lanes.CanHold(tasks[id].lane(), nodes); }
  /// Of each task that is made again an earlier server may have begun an attempt.
  bool remakes_may_be_out = false;

  // --- ends of attempts
  /// The task is done, now or in an earlier run. `released_at`: where it ended, so that what it makes ready
  /// can be started there.
  void MarkDone(TaskId id, NodeId released_at);
  /// `elsewhere`: it had better not be tried again on the same node at once, which may be to blame; a task
  /// without further retries waits until that is known. `forgiven`: it costs no retry of a task that has some.
  void AfterFailure(TaskId id, const Failed& failed, NodeId node, bool elsewhere, bool forgiven);
  /// Its outputs, of so many bytes (0: that is not why it failed), had no room on the node, where it ran so
  /// long. False: none is to come, or it has been waited for too often.
  bool AfterNoRoom(TaskId id, NodeId node, int64_t bytes, Duration run_time);
  void AfterLoss(TaskId id);
  /// In flight no longer, and to be tried again, `delay` from now.
  void TryAgain(TaskId id, Duration delay = Duration(0));
  /// The task was sent ahead to a node that is lost: it may have begun there, or not.
  void AfterLossAhead(TaskId id);
  /// The task was sent, and comes back as if it had not been.
  void AfterReturn(TaskId id);
  /// The attempt has left a checkpoint, so long after it was asked (0: nobody knows); its task goes on from there.
  void AfterCheckpoint(TaskId id, Duration took);
  /// A node where tasks fail one after the other, at once, is put aside when others end theirs, and suspect
  /// until then; but not when they fail everywhere, and never the last one. Returns whether the node may be
  /// to blame.
  bool NoteFailureAt(NodeId id, TaskId task, Duration run_time);
  void NoteDoneAt(NodeId id);
  /// Suspects whose pause is over are given a task; where all nodes are suspect, it is the tasks that fail.
  void LookAtSuspects();
  /// What waits for a verdict has failed where nothing will come of which more could be learnt. Returns
  /// whether there was some.
  bool GiveLastVerdicts();
  /// The node is to blame for the failures of those that wait for a verdict on it.
  void AcquitTasksOf(NodeId node);

  // --- fates
  void Settle(TaskId id, TaskState state, Reason reason, TaskId because = TaskId());
  /// Settles a task as something else than done, and skips all that needs it; what only waits for its end
  /// goes on, unless that is still to come, in the run that resumes this one.
  void GiveUp(TaskId id, TaskState state, Reason reason, TaskId because = TaskId());
  /// The task was settled before this scheduler was.
  void RestoreFate(TaskId id, TaskRestored::As as);
  void Cancel(TaskId id);
  /// The task came here: when all of this instant is known, it is pruned if its bound makes it pointless.
  void NoteNewcomer(TaskId id) {
    if (graph.bound(id) != graph::kNoBound) newcomers_.push_back(id);
  }
  void PruneNewcomers();
  void LearnBest(double value);
  /// Nothing better than what is known can come of it, and nobody waits for what it made before.
  bool Pointless(TaskId id) const { return bounds.Pointless(graph.bound(id)) && !tasks.remaking(id); }
  /// Starts nothing more: what was not begun is skipped, what was sent ahead is asked back.
  void Stop(TaskId because);
  bool stopped() const { return stopped_; }
  TaskId stopped_by() const { return stopped_by_; }

  // --- tasks that are to leave their nodes (leaving.cc)
  /// One that is at a node: it is asked back, or for a checkpoint.
  void SendAway(TaskId id);
  void AskForCheckpoint(TaskId id);
  /// Those of a node that write checkpoints; all of them that will have to soon, as the allocation ends.
  void SendAwayFrom(NodeId node);
  void SendAwayBefore(Time end);
  /// To that node, or, without one, to another server (MoveRequested).
  void MoveTask(TaskId id, NodeId to, bool held);

  // --- once for all events of an instant
  /// What nodes can give, or tasks ask for, has changed.
  void NoteCapacity() { capacity_changed_ = true; }
  void ExpectNoMoreNodes();
  void CloseNode(NodeId id);
  void SettleDependents();
  /// Settles the tasks that ask for what no node has, or spreads their ranks over several. False: nothing has changed that would.
  bool SettleImpossible();
  /// When nothing runs and all that is ready would take longer than there is time, none of it is going to
  /// run.
  void SkipWithoutTime();

  /// The nodes that others cannot reach.
  void PutAsideCutOff();

 private:
  void Remake(FileId file);
  void RecallReaders(TaskId producer);
  void Reopen(TaskId id);
  void MakeAgain(TaskId id);
  bool NothingLacks(TaskId id) const;
  bool IsReadHere(FileId file) const;
  void FailImpossibleRemakes();
  void PutAside(NodeId id);
  /// What fails there does not follow what failed before.
  void EndRow(NodeId id);
  void ClearSuspects();
  void SkipDependents(TaskId root, bool root_stays_open);
  void ReleaseThoseThatOnlyWait(TaskId id);
  void Fail(TaskId id, Reason reason);
  bool MayWaitForVerdict(TaskId id, const Failed& failed);
  /// Its node was to blame, and it is tried again.
  void Acquit(TaskId id);
  /// Delayed tasks, beside those that wait for a verdict, will be tried.
  bool OthersDelayed() const { return tasks.delayed() > verdicts.size(); }
  void FailAll(const std::vector<TaskId>& ids);
  /// Its time to wait for a verdict is over.
  void EndWait(TaskId id);
  void GiveUpImpossible(TaskId id);
  bool MayFit(TaskId id);
  /// So long it is kept from all nodes, as it is to go where it was moved to.
  Duration Held(TaskId id) const;
  void ToOldPlace(TaskId id);
  void CountFailure(TaskId id);

  Time ask_at_ = Time::max();  // some are to leave their nodes then
  bool stopped_ = false;
  // Those that wait for verdicts are given theirs, as so many failures end the run.
  bool enough_failed_ = false;
  TaskId stopped_by_;
  // Tasks that are settled as something else than done, while what needs them is not settled yet.
  std::vector<TaskId> skip_roots_;
  std::vector<TaskId> restored_failures_;
  std::vector<TaskId> skip_stack_;
  std::vector<TaskId> newcomers_;  // that have a bound
  // What nodes can give, or tasks ask for, is not what it was when SettleImpossible() looked last.
  bool capacity_changed_ = false;
  // How often tasks have made their outputs again.
  std::unordered_map<TaskId, uint32_t> remakes_;
  // In this instant those that wait for their lost files have been asked back.
  std::unordered_set<TaskId> recalled_for_;
  // How often they were tried again for want of room.
  std::unordered_map<TaskId, uint32_t> waits_for_room_;
};

}  // namespace harrow::core
