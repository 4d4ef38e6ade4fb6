#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/figures.h"
#include "base/status.h"
#include "base/time.h"
#include "core/scheduler.h"
#include "formats/identity.h"
#include "journal/journal.h"
#include "made/record.h"
#include "run/flow_store.h"
#include "run/server_end.h"
#include "server/attempt_table.h"
#include "server/exchange.h"
#include "server/file_catalogue.h"
#include "server/moves.h"
#include "server/node_table.h"
#include "server/recorder.h"
#include "server/staging.h"
#include "server/to_copy.h"
#include "server/written.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// What time it is, on both clocks.
struct Moment {
  Time now;
  WallTime wall;
  int64_t wall_ns() const { return wall.time_since_epoch().count(); }
};

struct DriverOptions {
  uint64_t epoch = 1;
  uint32_t nodes_expected = 1;  // of the allocation
  std::vector<std::string> node_names{};  // of the allocation, where they are known
  bool restarted = false;       // a server of the same session was there before
  uint32_t gather_ticks = 30;   // after a restart, so long known agents are waited for: the fence
  uint32_t join_ticks = 60;     // nodes that have not come by then are not waited for
  uint32_t return_ticks = 300;  // lost ones neither, by tasks that fit nowhere else
  uint32_t setup_ticks = 0;     // both are waited for longer: node_setup comes first
  Duration heartbeat = std::chrono::seconds(1);           // what agents are told
  Duration dead_after = std::chrono::milliseconds(3500);  // a node unheard of for so long gets nothing more,
  Duration gone_after = std::chrono::seconds(3);   // one whose agent has hung up and does not dial again,
  Duration hung_after = std::chrono::seconds(20);  // and one that answers while its agent does not;
  Duration kill_wait = std::chrono::seconds(5);
  std::unordered_map<std::string, uint64_t> memory_granted{};  // bytes, by node; not named: all that it has
  std::string exchange{};  // where it lies, for agents; empty: there is none
  uint32_t part = 0;
};

/// Drives core::Scheduler: what agents say becomes events of one instant, its actions become one message an
/// agent, and all that has ended is recorded. Has no clock, socket or thread of its own; of one thread.
class RunDriver {
 public:
  struct Hooks {
    std::function<void(const wire::Channel*)> drop_agent;              // its connection is no longer wanted
    std::function<void()> wake;                                        // Flush is due, soon
    std::function<void(const journal::AttemptRecord&)> attempt_ended;  // may be empty
    std::function<void(const std::string&)> tell{};                    // a line for the user; may be empty
    std::function<void(TaskId)> ended_elsewhere{};  // at another server of the run; may be empty
    /// What the record of the agent with that output file holds; may be empty.
    std::function<made::Attempts(uint32_t)> made_of{};
    /// When what lies at that path was modified; none: nothing does. May be empty.
    std::function<std::optional<WallTime>(const std::string&)> modified{};
    /// This server has decided it; it is on disk when all up to Recorder::added() is. May be empty.
    std::function<void(TaskId, journal::TaskFate)> decided{};
    /// Bytes that nobody can guess, at least 16. Not empty where tasks are of several nodes.
    std::function<std::string()> secret{};
    // With local files, each may be empty (driver_exchange.cc).
    /// Other servers are asked for what the task made: these files at least. TakeMade or NobodyElsewhereHas answers.
    std::function<void(TaskId, const std::vector<FileId>& files, bool again)> ask_others{};
    /// Answers Publish: others can read that; null: it is not to be had here.
    std::function<void(TaskId, const MadeFiles*)> published{};
    std::function<Result<MadeFiles>(const std::string& name)> read_list{};  // of the exchange
    std::function<void(const std::string& name)> remove_exchanged{};
  };
  RunDriver(const run::StoredFlow& flow, const DriverOptions& options, journal::Journal* journal,
            Hooks hooks);

  /// What the journal and the agents' records know of earlier servers and runs; before Begin. kDamaged when
  /// the journal does not fit the flow.
  Status Restore(const journal::History& history, made::Attempts made = {});
  /// Starts scheduling, at once or when the agents that an earlier server knew have told what they run.
  void Begin(const Moment& moment);

  /// An agent introduces itself on a channel. kRefused: why it cannot take part.
  Result<NodeId> Join(const Moment& moment, std::shared_ptr<wire::Channel> channel,
                      const pb::FromAgent& message);
  void Handle(const Moment& moment, NodeId node, const pb::FromAgent& message);
  void Disconnected(const Moment& moment, NodeId node, const wire::Channel* channel);
  /// Hands what came in to the scheduler and sends what follows.
  void Flush(const Moment& moment);
  /// Each second: waiting for agents.
  void Tick(const Moment& moment);
  /// Some times a second: agents and nodes that are heard of no more.
  void FindSilent(const Moment& moment);
  /// The journal has all up to `sequence` on disk.
  void Committed(uint64_t sequence);

  void Cancel(const std::vector<TaskId>& tasks);

  // driver_moves.cc: of a run with several servers
  /// Which tasks are this server's, and what others have tried of them; before Begin, after Restore.
  void SetOwn(const std::vector<bool>& own, const std::unordered_map<uint32_t, Tried>& tried,
              const journal::History& history);
  /// Of tasks that may be another server's: those that are here, and those that come later.
  void CancelHere(const std::vector<TaskId>& tasks);
  /// Up to `count` ready tasks of the shape that may go, those that would begin last, where more than `keep` are left; and of them
  /// those whose files are copied sooner than they save (none: all).
  Movable MovableTasks(const Moment& moment, const Shape& shape, uint64_t count, uint64_t keep,
                       const std::optional<supervisor::Saving>& saving);
  /// What other allocations' nodes cannot read yet of what the task reads is there for them so long after somebody asks for it.
  Duration TimeToCopy(const Moment& moment, TaskId task) const;
  /// Of those that are known to run and ask for that the one that has done so for the longest time; 0: none is.
  Duration LongestRunning(const Moment& moment, const Shape& shape) const;
  /// Of those that wait for other tasks.
  std::vector<TaskId> WaitingTasks(uint64_t count) const;
  /// Whole groups of tasks that have not begun, so much (0 to 1) of what these are thought to take; they rise.
  std::vector<TaskId> ShareOfTasks(double part);
  /// Nothing of them is started here any more. Those that went, of which `tried` gets what was tried.
  std::vector<TaskId> TakeOut(const Moment& moment, const std::vector<TaskId>& tasks, std::vector<Tried>* tried);
  /// Why a task that is at no node has to begin again here: no other server knows what is to be removed before.
  Status MayLeave(TaskId task) const;
  /// Somebody moves them here: no supervisor moves them on, until they have had time to begin; and what runs of them stays.
  void Bring(const Moment& moment, const std::vector<TaskId>& tasks);
  bool was_brought(TaskId task) const { return brought_.contains(task.value); }
  /// They are this server's now.
  void GiveIn(const std::vector<TaskId>& tasks, const std::vector<Tried>& tried);
  /// How tasks of other servers ended.
  void EndElsewhere(const std::vector<std::pair<TaskId, journal::TaskFate>>& fates);
  /// As it was decided here or, by what was told, elsewhere.
  journal::TaskFate fate_anywhere(TaskId task) const {
    const auto elsewhere = ended_elsewhere_.find(task.value);
    return elsewhere == ended_elsewhere_.end() ? recorder_.fate(task) : elsewhere->second;
  }
  bool local_files() const;
  // driver_exchange.cc: with local files
  /// Names of what lies in the exchange, and paths of what one that is over has brought to the submit directory.
  void NoteLeft(const std::vector<std::string>& names, const std::vector<std::string>& results);
  /// What Hooks::ask_others is answered with; later than that it is ignored.
  void TakeMade(MadeFiles made);
  void NobodyElsewhereHas(TaskId task);
  /// Another server asks for what the task made: these files at least are to come into the exchange (Hooks::published). `make`: also where this one had
  /// nothing to do with the task. `again`: what was told of it cannot be read.
  void Publish(TaskId task, const std::vector<FileId>& files, bool make, bool again);
  bool CanMake(TaskId task) const { return scheduler_.CanRun(task); }
  /// What attempts made that agents of a part that is over left.
  void NoteMadeElsewhere(const made::Attempts& made);
  /// Whether other servers are there: as long as they are, a task that fits no node here may fit one of theirs.
  void SetOthers(bool there);
  // driver_checkpoints.cc: tasks that are sent elsewhere
  /// Those of tasks that are done, below the run's directory: what agents did not live to remove.
  void RemoveCheckpoints(const std::string& run);
  /// Why a task that is here cannot go elsewhere. kNotFound: another server has it.
  Status MayMove(TaskId task) const;
  /// It goes on at that node: what runs there is asked for a checkpoint, and starts on the node as soon as that has room.
  Status MoveToNode(const Moment& moment, TaskId task, const std::string& node);
  /// It can be taken out for that part (TakeOut) as soon as nothing of it is at a node. A server that follows knows that (parts_aimed_at).
  Status MoveToPart(const Moment& moment, TaskId task, uint32_t part);
  /// Where an earlier server was told to move tasks that have not gone there yet; until the first Flush().
  std::vector<std::pair<TaskId, uint32_t>> parts_aimed_at() const;
  /// Tasks that run, write checkpoints, and are to stay: with how long their attempts have run.
  std::vector<std::pair<core::Checkpointer, Duration>> Checkpointers(const Moment& moment) const;
  /// Nothing more is started on the node, and what writes checkpoints leaves it.
  Status DrainNode(const std::string& name);
  /// The batch system lets nothing new begin on these nodes: they are drained as by DrainNode. Where they are more than half of the
  /// allocation's they are not, as a site that drains them all waits for the job's end.
  void SiteDrains(const std::vector<std::string>& names);

  /// The run has found a value of so much.
  void LearnBest(double value);
  /// What other servers had is not to be had any more: it is left open.
  void GiveUpOthers();
  /// Nothing is left to do here, and other servers have tasks.
  bool waits_for_others() const { return complete_ && scheduler_.counts().elsewhere > 0; }
  /// Tasks, and files from that number on, have been added to the graph; after Begin.
  void AddTasks(const Moment& moment, TaskId first, uint32_t count, uint32_t first_file, bool elsewhere = false);
  /// Streams of the graph have been held or released.
  void ChangeStreams() {
    events_.push_back(core::StreamsChanged{});
    Wake();
  }
  /// They do not end until they are let (LetStreamEnd); or one has ended, which is returned, and none is kept.
  std::optional<StreamId> KeepStreams(const Moment& moment, const std::vector<StreamId>& streams);
  void LetStreamEnd(StreamId stream);
  /// Starts nothing more and ends what runs as interrupted: the run can be resumed.
  void Interrupt(const Moment& moment);
  /// Starts nothing more, so that other servers take what is open; what runs ends by itself.
  void Drain();
  void EndTime(const Moment& moment, WallTime end);
  /// Tells all agents to end.
  void ShutDownAgents(const std::string& reason);
  /// The run is over: its nodes and its end are recorded, and its figures change no more.
  void RecordEnd(const Moment& moment);

  /// Nothing is left to do, or nothing can be done any more. What other servers have is waited for, unless something is
  /// left open here.
  bool complete() const {
    return complete_ &&
           (scheduler_.counts().elsewhere == 0 || interrupted_ || out_of_time_ || nodes_gone_ || others_lost_);
  }
  /// How many tasks are open and not to be run; known from Restore on.
  uint64_t unwanted() const { return unwanted_; }
  bool interrupted() const { return interrupted_; }
  bool draining() const { return draining_; }
  /// Nothing is at a node, or on its way there.
  bool nothing_runs() const { return scheduler_.counts().running + scheduler_.counts().sent == 0; }
  /// Tasks are open because there was no time for them; the run can be resumed.
  bool out_of_time() const { return out_of_time_; }
  /// The shortest time that one of these tasks declares.
  Duration open_time() const { return open_time_; }
  /// Tasks are open because the nodes that they need are gone.
  bool nodes_gone() const { return nodes_gone_; }
  /// What an agent said that the run cannot go on with; empty: nothing.
  const std::string& fatal() const { return fatal_; }
  /// How a run ends that only stages; none: it has tasks.
  std::optional<run::ServerEnd> StagingEnd() const;
  /// When the allocation ends; none: not known.
  std::optional<WallTime> end_time() const { return end_time_; }
  /// A node that should have an agent and has none: it was lost, or has not come in time.
  bool IsAbsent(const std::string& node) const;
  bool agents_connected() const { return nodes_.connected_count() > 0; }
  bool gathering() const { return phase_ == Phase::kGathering; }

  /// Of the run from its first session on.
  Figures FiguresAt(const Moment& moment) const;
  /// What a client or the keeper is told of it; with its nodes or without.
  void Snapshot(const Moment& moment, bool with_nodes, pb::Progress* progress) const;
  /// The names of nodes of the allocation that never had an agent.
  std::vector<std::string> NotCome() const;
  /// Some lines for people about a task.
  std::string Explain(TaskId task) const;
  const core::Scheduler& scheduler() const { return scheduler_; }
  Recorder& recorder() { return recorder_; }
  bool IsUnwanted(TaskId task) const;
  bool MayBeRemade(TaskId task) const;

 private:
  enum class Phase { kIdle, kGathering, kRunning };
  using Row = AttemptTable::Row;

  // driver_agents.cc: agents come, go and tell
  void ReplaceLater(const Moment& moment, Node& node, std::shared_ptr<wire::Channel> channel,
                    const pb::FromAgent& message);
  void TakePlace(const Moment& moment, Node& node);
  void Enter(const Moment& moment, Node& node, std::shared_ptr<wire::Channel> channel,
             const pb::FromAgent& message);
  void AllJoined();
  void Welcome(Node& node);
  bool MayAdopt(AttemptId id);
  Row* FindOrAdopt(Node& node, AttemptId id);
  void Reconcile(const Moment& moment, Node& node, const pb::FromAgent& message);
  void EndAt(Node& node, AttemptId id);
  void EndSuperseded(Node& node, AttemptId id);
  void EndLost(const Moment& moment, Row* row, const std::string& why,
               journal::End end = journal::End::kLost);
  void FallSilent(Node& node, const std::string& why);
  void FindSilent(const Moment& moment, Node& node);
  void Lose(const Moment& moment, Node& node, const std::string& why);
  void ReadMade(const Node& node);
  void NoteMade(const pb::Attempt& attempt);
  void RecordLost(const Row& row, journal::End end = journal::End::kLost);
  void CountRecorded(Figures* figures) const;
  void TakeStarted(const Moment& moment, Node& node, AttemptId id, int64_t start_ns);
  void TakeAttempt(const Moment& moment, Node& node, const pb::Attempt& attempt);
  void TakeEndedUnasked(const Moment& moment, Node& node, const pb::Attempt& attempt);

  void AgentEnds(Node& node);
  void NoteSizes(const Node& node, const pb::Attempt& attempt);

  // driver_parts.cc: attempts of several nodes
  bool MayBeInParts(TaskId task) const;
  bool HasPart(AttemptId id, const Node& node);
  bool IsPart(const pb::Attempt& attempt, const Node& node);
  void StartParts(const core::StartTask& start, std::vector<NodeId> members);
  void StartWaiting(TaskId task);
  bool CancelParts(const core::CancelTask& cancel);
  void EndParts(Row* row, Gang::Ending how);
  void TellToEnd(Node& node, const Row& row);
  bool IsGangOf(TaskId task, const Node& node, const pb::Gang& gang) const;
  Row* FindOrAdoptParts(Node& node, AttemptId id, const pb::Gang* gang);
  void TakePartStarted(const Moment& moment, Node& node, AttemptId id, const pb::Gang* gang,
                       int64_t start_ns);
  void TakePart(const Moment& moment, Node& node, const pb::Attempt& attempt);
  void TakePartBack(const Moment& moment, Node& node, AttemptId id);
  void ReconcilePart(const Moment& moment, Node& node, Row* row, bool there);
  bool PartOver(const Moment& moment, Row* row, Part* part, journal::PartRecord record);
  bool LosePart(const Moment& moment, Row* row, Part* part, const std::string& why);
  void LosePartsAt(const Moment& moment, const Node& node, const std::string& why);
  bool Conclude(const Moment& moment, Row* row);
  void NoteMadeBy(const Row& row, bool succeeded);
  std::vector<journal::AttemptRecord> RestoreParts(const journal::History& history);
  journal::AttemptRecord RecordParts(std::vector<journal::PartRecord> parts);
  void GatherParts(const Moment& moment);
  void ForgetParts(const Moment& moment);
  void EndEarlier(const Row& row);
  std::string NameOf(NodeId node) const;

  // driver_checkpoints.cc
  std::string CheckpointsOf(TaskId task);
  void Act(const core::AskCheckpoint& ask);
  void TakeMissed(const Node& node, const pb::FromAgent& message);
  void RestoreDrained(const journal::History& history);
  void RestoreAims(const journal::History& history);
  void MoveAgain();
  void KeepAims();
  void CloseIfDrained(Node& node);

  // driver_files.cc: files on the nodes' own disks
  void Act(const core::CopyFile& copy);
  void Act(const core::DropFile& drop);
  void Act(const core::RefuseFile& refuse);
  void SendCopy(FileId file, NodeId to, NodeId from, TaskId reader);
  bool IsRead(FileId file);
  void NameFiles(TaskId task, pb::Task* message);
  void NoteFilesElsewhere(uint32_t first_file);
  void LookForShared(const std::unordered_map<uint32_t, int64_t>& success_ns, const std::unordered_set<FileId>& copied_back);
  void TakeAddresses(Node& node, const pb::FromAgent& message);
  void BringTogether(Node& one, Node& other);
  void Introduce(const Node& node, Node& to);
  void ForgetFilesOf(Node& node);
  void LoseFilesOf(const Node& node);
  static bool KeepsNoFiles(const Node& node);
  void FailCopy(FileId file, NodeId to, NodeId from);
  // driver_streams.cc
  bool HadEnded(const graph::Stream& stream) const;
  pb::StreamSource* SourceFor(AttemptId reader, Node& node, StreamId of, TaskId writer);
  void Act(const core::ReadFrom& read);
  void Act(const core::StreamOpen& open);
  void Act(const core::CloseOutput& close);
  void Act(const core::DropWritten& drop);
  void TakeWritten(const Node& node, const pb::AgentHello& hello);
  void TakeRead(const pb::Attempt& attempt);
  // driver_exchange.cc
  struct Publication;
  struct Put {
    TaskId task;
    FileId file;  // none: the list
    NodeId node;  // that is to copy it
    Time asked;
  };
  static bool Covers(const MadeFiles& made, const std::vector<FileId>& files);
  std::vector<FileId> OpenOutputs(TaskId task) const;
  std::vector<FileId> WantedOf(TaskId task) const;
  void Act(const core::AskOthers& ask);
  void UseMade(MadeFiles made);
  void NobodyHas(TaskId task);
  std::optional<MadeFiles> FindLeft(TaskId task, const std::vector<FileId>& wanted) const;
  std::optional<MadeFiles> ReadList(TaskId task, const std::vector<FileId>& wanted) const;
  const OutFile* OutOf(FileId file) const;
  const OutFile* InExchange(FileId file) const;
  std::vector<ToCopy> FilesToCopy(TaskId task) const;
  void LoseExchanged(const OutFile& out, bool damaged, const std::string& why);
  void ForgetExchanged(TaskId task, bool with_results = false);
  void MakeAnew(TaskId task, const pb::Attempt& attempt);
  void GoOnPublishing(const Moment& moment);
  void GoOnPublishing(const Moment& moment, TaskId task);
  std::optional<MadeFiles> WhatIsHere(TaskId task, const std::vector<FileId>& wanted, bool not_from_results) const;
  void PutAll(const Moment& moment, TaskId task);
  bool AskOneOf(const Moment& moment, TaskId task, FileId file, const std::vector<NodeId>& nodes);
  void Send(uint64_t number, const Put& put, Node& node);
  std::string NameOfList(TaskId task, uint64_t number) const;
  void TakePut(const Moment& moment, const Node& node, const pb::FileNote& note);
  void ForgetPuts(Publication* publication);
  void EndPublication(TaskId task, bool published);
  void PutAgain(Node& node);
  void LookAtPuts();
  void NoteEnded(TaskId task);
  void Unput(TaskId reader);
  // driver_saving.cc
  bool BeginSaving();
  bool BeginLeaving();
  void Save(FileId file);
  void AskToSave(FileId file, Node& node);
  void TakeSaved(const Moment& moment, const Node& node, const pb::FileNote& note);
  void GoOnSaving(const Moment& moment);

  void TakeStaged(const Moment& moment, Node& node, const pb::AgentHello& hello);
  static constexpr Duration kStagedPatience = std::chrono::seconds(5);
  bool AwaitsStaged(const Moment& moment) const {
    return staged_until_ && !all_joined_ && !interrupted_ && moment.now < *staged_until_;
  }
  void ReconcileFiles(const Moment& moment, Node& node, const pb::AgentHello& hello);
  void TakeFile(const Moment& moment, Node& node, const pb::FileNote& note);
  void SetObject(FileId file, const std::string& object, int64_t bytes);
  void TakeMadeFiles(const Moment& moment, Node& node, const pb::Attempt& attempt);
  int64_t BytesRead(TaskId task) const;
  void CountUnknownInput(AttemptTable::Row* row);
  void NoteCopied(journal::CopyRecord copy);
  void CountCopy(const journal::CopyRecord& copy);

  void NoteStored(FileId file, NodeId node, int64_t bytes);

  // driver_staging.cc: a run that only puts files on nodes, or takes them from there
  bool stages() const { return flow_.settings.stage != run::Stage::kNo; }
  void MakeStaging();
  void BeginStaging();
  void GoOnStaging();
  void NoteNotStaged(FileId file, NodeId to, NodeId from, core::CopyFailed::Why why, const std::string& text);
  std::string TroubleText(const Staging::Trouble& trouble) const;
  void SnapshotStaging(pb::Progress* progress) const;

  // driver.cc: what follows
  void RestoreSessions(const journal::History& history, int64_t session_start);
  void EndGathering(const Moment& moment);
  bool AllGathered() const;
  void UseNumbers(AttemptId last);
  void Schedule(const Moment& moment);
  void Act(const Moment& moment, const core::Action& action);
  void Start(const core::StartTask& start);
  pb::Task* SendTask(Node& node, const core::StartTask& start);
  void NameOutputs(TaskId task, pb::Task* message);
  void Settle(const Moment& moment, const core::TaskSettled& settled);
  void ForgetLost(TaskId task);
  void SendAll();
  void Tell(const std::string& line);
  void TellUnfit(const Node& node, const std::string& why);
  void TellDropped(const pb::Attempt& attempt);
  bool NodesTalk() const;
  void TellProblem(const Node& node, const std::string& text);
  core::Outcome OutcomeOf(const journal::AttemptRecord& attempt, uint64_t no_room) const;
  void Wake();

  const run::StoredFlow& flow_;
  const graph::Graph& graph_;
  DriverOptions options_;
  Hooks hooks_;
  core::Scheduler scheduler_;
  AttemptTable attempts_;
  Recorder recorder_;
  NodeTable nodes_;
  FileCatalogue catalogue_;
  formats::Identifier identifier_{graph_};  // of tasks that write checkpoints,
  std::vector<formats::Identity> identities_;  // and those before them
  std::set<std::string> drained_nodes_;
  struct Aim {
    std::string node{};  // or, where that is empty:
    uint32_t part = 0;
    bool gone = false;  // it has been taken out for that part
  };
  std::map<TaskId, Aim> aims_;  // where tasks are to go that have not gone yet, as it is on record
  std::string aims_recorded_;
  std::vector<std::string> site_drains_;  // as SiteDrains() was told last
  Phase phase_ = Phase::kIdle;
  uint32_t gather_ticks_ = 0, join_ticks_ = 0;
  bool all_joined_ = false;
  bool others_ = false;  // servers of the run are there
  bool others_lost_ = false;
  std::unordered_set<uint32_t> cancelled_elsewhere_;  // tasks
  std::unordered_map<uint32_t, journal::TaskFate> ended_elsewhere_;
  std::vector<bool> own_;  // until Begin; empty: all tasks are this server's
  bool some_given_up_ = false;                             // and the scheduler has not been told yet
  size_t back_ = 0;                                        // so many nodes are waited for while gathering
  bool numbers_unsure_ = false;                            // attempts may have begun of which nobody tells
  static constexpr size_t kUnfitNamed = 8;  // nodes that are named to the user
  size_t unfit_told_ = 0;                                  // nodes
  bool dropped_told_ = false;
  std::map<std::string, std::set<std::string>> problems_;  // what agents said, and the names of their nodes
  std::string last_problem_;                               // what was told last, where that was one of these
  std::unordered_set<std::string> awaited_;                // names of nodes an earlier server knew
  std::unordered_map<uint32_t, Time> brought_;  // until when they wait here for room
  made::Attempts made_;  // what is known of the last attempt of open tasks, where that did not succeed
  struct Tries {
    uint32_t attempts = 0, losses = 0, last = 0;
    bool done = false;
  };
  std::unordered_map<uint32_t, Tries> tries_;  // of earlier servers of this session; while gathering
  Written written_;  // to streams, since this server began
  // Tasks that read streams, sent in this Schedule(): what they read comes with them (Act of ReadFrom).
  std::unordered_map<AttemptId, pb::Task*> readers_sent_;
  // Of several nodes.
  TaskId joining_task_;          // the next that is sent
  std::vector<NodeId> joining_;  // its further nodes
  struct Waiting {
    core::StartTask start;
    std::vector<NodeId> members;
  };
  std::map<TaskId, Waiting> waiting_;  // for the parts of the task's attempt before, which are to end
  std::map<AttemptId, std::vector<journal::PartRecord>> known_parts_;  // by the journal; while gathering
  std::optional<Time> wake_at_;                                        // the scheduler is told TimeCame
  std::vector<core::Event> events_;
  std::vector<core::Action> actions_;
  bool wake_pending_ = false, complete_ = false, interrupted_ = false, draining_ = false;
  uint64_t left_open_ = 0;  // settled as skipped by the scheduler, and open all the same
  // By final state: those that were to make lost outputs again and could not. They are done.
  std::array<uint64_t, 5> undone_{};  // by FinalState
  bool out_of_time_ = false, nodes_gone_ = false;
  Duration open_time_{0};
  bool absent_recorded_ = false;  // an earlier session has named nodes that never had an agent
  std::string fatal_;
  std::optional<WallTime> end_time_;

  std::unordered_map<uint32_t, int64_t> success_ns_;  // until Begin: when attempts began that succeeded,
  std::unordered_set<FileId> copied_back_;            // and what was copied, whole, to the submit directory
  uint64_t unwanted_ = 0;                             // tasks not needed and not done before
  bool staged_found_ = false;
  bool saves_ = false;  // nothing runs any more, and the run is complete when this is done
  struct Saving {
    NodeId node;              // that copies it
    std::set<NodeId> failed;  // that could not
  };
  std::map<FileId, Saving> saving_;
  uint64_t saved_ = 0, unsaved_ = 0;
  int64_t saved_bytes_ = 0;
  std::string unsaved_why_;
  // What tasks made that lies where all nodes can read it, and is what is known of them here.
  std::unordered_map<TaskId, MadeFiles> exchanged_;
  std::unordered_map<TaskId, uint32_t> unreadable_;  // how often that could not be read, since it could be
  std::set<TaskId> distrusted_;                      // others could not read what is told of these
  std::unordered_map<TaskId, std::vector<std::string>> lists_;      // that lie in the exchange, as far as is known
  std::set<FileId> left_results_;                                   // of parts that are over
  std::unordered_map<TaskId, std::set<std::string>> own_lists_;     // that were put there for this server
  struct Publication {
    std::set<FileId> wanted;
    bool make = false, again = false;
    bool wants = false, told = false;  // the scheduler has been told what is wanted, and has not made it; has been told
    MadeFiles made;
    std::set<FileId> there;               // of `made`
    std::map<FileId, uint64_t> under_way;  // numbers of puts; no file: the list
    struct Failure {
      uint32_t times = 0;
      Time again{};
    };
    std::map<std::pair<FileId, NodeId>, Failure> failed;  // could not be put by that node; no file: the list
  };
  std::map<TaskId, Publication> publications_;
  bool answered_ = false;           // AskOthers, at once
  std::set<TaskId> due_;            // of them: something has changed
  std::vector<TaskId> ended_;       // tasks, whose inputs may not be read any more
  std::map<uint64_t, Put> puts_;    // that are asked for and not answered, by number
  uint64_t last_put_ = 0;
  CopySpeed copy_speed_;
  std::vector<TaskId> gone_;  // to other servers, and nodes here are to copy for them, or were
  std::optional<Time> staged_until_;  // other nodes are waited for, which may hold inputs, too
  std::unordered_map<FileId, std::string>
      sources_;                       // agent/source_index.h; of a run that puts files on nodes
  std::unique_ptr<Staging> staging_;  // of a run that puts files on nodes
  std::unordered_map<FileId, std::string> staging_whys_;  // what was said last of what did not come
  Figures
      known_;  // of earlier sessions (makespan, slot_seconds, attempts) or servers, and what is counted here
  int64_t ended_ns_ = 0;  // 0: the run goes on
};

}  // namespace harrow::server
