#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/resources.h"
#include "base/time.h"

namespace harrow::core {

// --- how an attempt ended
struct Done {};
/// The command failed: exit code, or 128 + signal; `retryable` as the task's retry_on says.
struct Failed {
  int32_t exit_code = 1;
  bool retryable = true;
  // Its outputs have so many bytes, and there was no room for them on its node's disk; 0: that is not why.
  int64_t no_room = 0;
};
/// The allocation's limit ended it: that costs no retry, and it is not started again in this run.
struct Interrupted {};
/// Its node or agent went away: counted apart from retries.
struct Lost {};
/// A user asked for its end.
struct Cancelled {};
/// What it read of a stream is void: it is to start again, which costs nothing.
struct Rewound {};
/// It was asked for a checkpoint, and has left one: its task goes on from there, which costs nothing. `took`: from the question on.
struct Checkpointed {
  Duration took{0};
};
using Outcome = std::variant<Done, Failed, Interrupted, Lost, Cancelled, Rewound, Checkpointed>;

// --- events: what has happened
struct NodeJoined {
  NodeId node;
  NodeCapacity capacity;
};
/// The connection to the node's agent is gone, for how long nobody knows: all stays as it is, but what lies
/// there is not counted on. NodeJoined, NodeSilent or NodeLost follows.
struct NodeHungUp {
  NodeId node;
};
/// Nothing is heard of the node. What is there may go on, so it stays there; nothing more is started, and its
/// queue goes to others. NodeJoined (it is heard of again: what was asked of it and may not have arrived is
/// asked again) or NodeLost follows.
struct NodeSilent {
  NodeId node;
};
/// The node is gone, with its replicas and everything sent to it: none of those attempts goes on, or ever
/// will without a TaskStarted (an agent that comes back later than it was waited for).
struct NodeLost {
  NodeId node;
};
/// Nothing new is to be started on the node; what runs may end. After AllNodesJoined, tasks that fit no other
/// node fail.
struct NodeClosed {
  NodeId node;
};
/// The same; and what runs there and writes checkpoints goes on elsewhere.
struct NodeDrained {
  NodeId node;
};
/// The task is to go on at that node, or, without one, at another server. It is there for the taking (TasksTaken) as soon as nothing of
/// it is at a node. What runs and writes no checkpoints stays.
struct MoveRequested {
  TaskId task;
  NodeId node;
  bool held = false;  // what is at no node is kept from all for a while, also where it is to go to a server
};
/// The attempt was asked for a checkpoint (AskCheckpoint), and goes on without.
struct CheckpointMissed {
  AttemptId attempt;
};
/// The graph has these tasks now: [first, first + count).
struct TasksAdded {
  TaskId first;
  uint32_t count = 0;
  // They are other servers' (of a run over several allocations): none of them is started here before
  // TasksGiven names it.
  bool elsewhere = false;
};
/// These are another server's from now on, those of them that have not begun and whose fate is not decided:
/// the state of a task tells whether it went. TaskRestored tells how it ended there. Not with local files.
struct TasksTaken {
  std::vector<TaskId> tasks;
};
/// Those of them that were elsewhere are to run here. What is known of them and of the tasks that they need,
/// attempts and ends, is told before (TaskRestored).
struct TasksGiven {
  std::vector<TaskId> tasks;
};
/// The task is known from an earlier run (resume) or server (restart), not wanted (target), or has ended at
/// another server: it is never started here. kOpen: it is to run, and only what was tried before is told. No
/// TaskSettled answers; what needs a task that is not done is skipped.
struct TaskRestored {
  TaskId task;
  enum class As : uint8_t { kDone, kFailed, kSkipped, kOpen, kCancelled, kPruned } as = As::kDone;
  // Attempts made so far, as far as they count against its retries, those that were lost included.
  uint32_t attempts = 0;
  // How many of them were lost.
  uint32_t losses = 0;
  // The highest number that an attempt ever had, when that is more than `attempts`.
  uint32_t last_attempt = 0;
};
/// After a restart: one more attempt of the task may have begun of which nobody told. Its number is used up
/// and costs nothing; where it is heard of while nothing was sent since, it goes on, as one that was lost.
struct AttemptMayBeOut {
  TaskId task;
};
/// The same of every task that is done, to make lost outputs again.
struct RemakesMayBeOut {};
// Attempts of a task are numbered from 1, by StartTask; what tells of a task's doing names the attempt, so
// that the late word of an old one is not taken for that of a newer one on the same node. A number is used
// again only when the attempt is known never to have begun (TaskReturned).

/// An agent began the attempt. Also told for one that this scheduler did not send (an agent that outlived a
/// server tells what it runs), and for the latest one when it was lost and nothing was started since: it goes
/// on there.
struct TaskStarted {
  AttemptId attempt;
  NodeId node;
};
/// The attempt of a task of several nodes is out, and these are its nodes, the lead node first: told right
/// before its TaskStarted by a server that did not send it.
struct GangRestored {
  AttemptId attempt;
  std::vector<NodeId> members;
};
struct TaskEnded {
  AttemptId attempt;
  NodeId node;
  Outcome outcome;
  Duration run_time{0};
  // Of that what it computed, and did not wait for what it reads; below 0: that is not known.
  Duration computed{-1};
  // Bytes that it wrote to each of its streams; below 0: that is not known.
  int64_t written = -1;
};
/// The attempt, whose success TaskEnded will tell in the same instant, was given all or some of what that one wrote.
struct StreamRead {
  AttemptId reader;
  AttemptId writer;
};
/// The same: the attempt was told that nothing more comes, and of no writer beside those that StreamRead names.
struct ReadToEnd {
  AttemptId reader;
};
/// The graph's streams have been connected, held or released since (TasksAdded tells so, too).
struct StreamsChanged {};
/// Until it is told again, with false, the stream does not end: something is about to be connected.
struct StreamKept {
  StreamId stream;
  bool kept = false;
};
/// The node holds what that attempt, which succeeded under an earlier server, wrote to streams.
struct StreamHeld {
  AttemptId writer;
  NodeId node;
};
/// The answer to TakeBack: the attempt was not begun there and will not be.
struct TaskReturned {
  AttemptId attempt;
  NodeId node;
};
/// The node holds the file whole: its task made it there (told before that task's end), or a copy came.
struct FileStored {
  FileId file;
  NodeId node;
  int64_t bytes = 0;  // below 0: as known
  // By its task, anew: what other nodes hold is not it.
  bool made = false;
};
/// The file lies in the submit directory, also where a task makes it: it can be copied from there.
struct FileShared {
  FileId file;
};
/// Answers AskOthers, or comes by itself: what the task made, one execution of it, lies where every node can read it, as far as it is
/// `shared`, or was not made (`absent`). Nodes are to drop what they hold of another execution, which are files of the task that are not
/// `same`. A task that was to make it again is done, unless more of it is lost that
/// is read here: then nobody has that.
struct FilesFound {
  TaskId task;
  std::vector<FileId> shared, absent, same;
};
/// Answers AskOthers: the task is to make its files again.
struct FilesNotFound {
  TaskId task;
};
/// They cannot be read any more where FilesFound said that they can.
struct FilesForgotten {
  std::vector<FileId> files;
};
/// Other schedulers of the run wait for these files of the task, until it is told anew: they are kept, and made again here if they are lost.
/// That tasks of others read them is not enough for that. None: nobody waits any more.
struct FilesWanted {
  TaskId task;
  std::vector<FileId> files;
};
/// Its task is done and did not make it (Profile::missing_ok): who reads it gets nothing.
struct FileAbsent {
  FileId file;
};
/// The answer to CopyFile when it does not succeed; FileStored is the other one.
struct CopyFailed {
  FileId file;
  NodeId to, from;  // as CopyFile said
  enum class Why : uint8_t {
    kUnreachable,  // nobody answers there, for now
    kAbsent,       // `from` has it not
    kDamaged,      // what `from` sent is not the file
    kUnreadable,   // it cannot be read from the submit directory: its tasks fail
    kNoRoom,       // there is no room for it at `to`, now: CopyFile or RefuseFile answers
  } why = Why::kUnreachable;
};
/// The node holds it no more.
struct FileLost {
  FileId file;
  NodeId node;
};
/// No node is expected beside those joined: a task that fits none of them fails. One that is lost later is
/// expected back until this is told again.
struct AllNodesJoined {};
/// Whether the run has other servers now: as long as it has, what fits no node here may fit one of theirs, and does not fail.
struct OtherServersThere {
  bool there = false;
};
/// The run has found a value of so much; the least is the best. Tasks that it makes pointless and that have not begun are
/// pruned, with those that need them.
struct BestKnown {
  double value = 0;
};
struct CancelRequested {
  TaskId task;
};
/// Nothing more is to be started (the time limit is near); what runs may end.
struct DrainRequested {};
struct RoundTripMeasured {
  NodeId node;
  Duration round_trip{0};
};
/// The allocation ends then: a task whose declared time does not fit is not started.
struct EndTimeKnown {
  Time end;
};
/// The answer to WakeAt: that time has come. Nothing is wrong with one that comes early or unasked.
struct TimeCame {};

using Event =
    std::variant<NodeJoined, NodeHungUp, NodeSilent, NodeLost, NodeClosed, TasksAdded, TasksTaken, TasksGiven,
                 TaskRestored, AttemptMayBeOut, RemakesMayBeOut, GangRestored, TaskStarted, StreamRead, ReadToEnd, StreamsChanged, StreamKept, StreamHeld, TaskEnded,
                 TaskReturned, FileStored, FileLost, FileShared, FileAbsent, FilesFound, FilesNotFound, FilesForgotten, FilesWanted, CopyFailed, CancelRequested, BestKnown,
                 NodeDrained, MoveRequested, CheckpointMissed,
                 DrainRequested, RoundTripMeasured, EndTimeKnown, AllNodesJoined, OtherServersThere, TimeCame>;

// --- actions: what is to be done
/// Send the task to the node. `ahead`: no slot is free there yet; the agent queues it behind what it has.
struct StartTask {
  // Its number is one more than that of the last that may have begun, those told by TaskRestored included.
  AttemptId attempt;
  NodeId node;
  bool ahead = false;
  // The task's input bytes by where they are now. `home_bytes`: those of the local ones that were made or
  // placed there, not fetched for another task (the locality of the Pwrake paper, 5.3); without stores on the
  // nodes as the local ones.
  int64_t local_bytes = 0, remote_bytes = 0, home_bytes = 0;
};
/// A further node of a task of several nodes. Comes right before its StartTask, which names the lead node;
/// all of them are the task's until it ends.
struct JoinGang {
  TaskId task;
  NodeId node;
};
/// Ask for a task back that was sent and may not have begun: TaskReturned, or TaskStarted / TaskEnded,
/// answers.
struct TakeBack {
  AttemptId attempt;
  NodeId node;
};
/// End that attempt: TaskEnded answers. A newer one may be started there at the same instant. `as_lost`: not
/// its task is to end but this attempt, as another one goes on or a node of it is gone: however late, its end
/// is told as Lost (or Done).
struct CancelTask {
  AttemptId attempt;
  NodeId node;
  bool as_lost;
};
/// Ask that attempt, which runs, for a checkpoint: TaskEnded answers, or CheckpointMissed.
struct AskCheckpoint {
  AttemptId attempt;
  NodeId node;
};
enum class FinalState : uint8_t { kDone, kFailed, kSkipped, kCancelled, kPruned };
enum class Reason : uint8_t {
  // It is done, has failed by itself, or a user cancelled it.
  kNone,
  // Something it needs is not done: `because`, the first cause.
  kDependency,
  // The run starts nothing more: drained, or too many failures (`because`: the last of them).
  kStopped,
  // The allocation's limit ended it.
  kInterrupted,
  // Its time limit does not fit before the allocation ends.
  kNoTimeLeft,
  // No node can ever give what it asks for.
  kNoNodeFits,
  // The nodes that could give it were lost, and none is expected back.
  kNodesGone,
  kLostTooOften,
  // Its bound is too near to the best value (BestKnown).
  kPointless,
};
/// The task's fate is decided. Told again of a task that was done, lost its outputs, and has made them again;
/// or could not.
struct TaskSettled {
  TaskId task;
  FinalState state = FinalState::kDone;
  TaskId because;
  Reason reason = Reason::kNone;
};
/// Tasks failed there one after the other, at once, while others did not, or other nodes cannot reach it:
/// nothing is started there any more.
struct NodePutAside {
  NodeId node;
  uint32_t failures = 0;
  bool cut_off = false;
};
/// Tell TimeCame then, or any other event after it; each replaces the one before.
struct WakeAt {
  Time time;
};
/// The node is to have the file: a task that was sent there reads it, or it is a backup. Told again when it
/// is to come from somebody else; what has come so far is kept. FileStored or CopyFailed answers.
struct CopyFile {
  FileId file;
  NodeId to;
  // A node that holds it, or gets it itself and hands on what it has; none: it is read from the submit
  // directory.
  NodeId from;
  // The first of the tasks for which it comes; none: it is a backup (Profile::replicas).
  TaskId reader;
};
/// With Options::ask_others, before a task that is done makes lost files again: whether they are to be had from elsewhere. Until FilesFound or
/// FilesNotFound answers, the task waits.
struct AskOthers {
  TaskId task;
};
/// Nobody reads the file any more, or it is not what it should be: the node is to drop it.
struct DropFile {
  FileId file;
  NodeId node;
  bool damaged = false;
};
/// There will be no room for the file on the node: the tasks there that wait for it fail.
struct RefuseFile {
  FileId file;
  NodeId node;
};
/// The reader, which is at its node (told after its StartTask, or later), gets that stream's lines of the writer's
/// task from this attempt, in place of what was told before. It begins anew with Rewound where what it has got of that is void.
struct ReadFrom {
  AttemptId reader;
  NodeId at;
  StreamId stream;
  AttemptId writer;
  // Where that runs or has run; none: nowhere now, another attempt will be told.
  NodeId from;
  // Without `from`: what the attempt wrote can be had no more, and the reader is to begin anew unless it has got all of it;
  // else the attempt has not succeeded, and who has got nothing of it waits for another one.
  bool gone = false;
};
/// The stream that the reader reads is held open, and more writers may be told; or it is so no more.
struct StreamOpen {
  AttemptId reader;
  NodeId at;
  StreamId stream;
  bool open = false;
  // The reader is to begin anew: others need its slot.
  bool yield = false;
};
/// Nobody is to read any more of what the attempt writes: it may end now, by SIGPIPE, or goes on where it declares outputs.
struct CloseOutput {
  AttemptId writer;
  NodeId node;
};
/// Nobody will read any more what the attempt has written.
struct DropWritten {
  AttemptId writer;
  NodeId node;
};
/// Every task is settled or elsewhere, or nothing can be started any more and nothing runs.
struct RunComplete {};

using Action = std::variant<StartTask, TakeBack, CancelTask, TaskSettled, RunComplete, JoinGang, NodePutAside,
                            WakeAt, CopyFile, AskOthers, DropFile, RefuseFile, ReadFrom, StreamOpen, CloseOutput, DropWritten,
                            AskCheckpoint>;

}  // namespace harrow::core
