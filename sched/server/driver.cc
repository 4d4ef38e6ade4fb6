#include "server/driver.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "journal/parts.h"
#include "journal/sessions.h"
#include "os/log.h"
#include "run/profile.h"
#include "server/messages.h"
#include "wire/attempt_id.h"
#include "wire/figures.h"

// One Flush is one instant of the scheduler: all that agents said since the last one is taken in before
// anything is started. The scheduler numbers attempts, going on after the highest recorded one, so that an
// AttemptId names a result for ever: whatever is sent twice is recorded once, and the late end of an attempt
// that was given up does not count for a later one. How agents come and go: driver_agents.cc.
//
// After a restart nothing is started until the agents that the earlier server knew have told what they run
// and hold, or have been waited for as long as their attempts may run (`gather_ticks`): until then events are
// only kept. A task that an agent has in its queue is asked back first, so that it cannot begin there and
// elsewhere.

namespace harrow::server {
namespace {

core::Options SchedulerOptions(const run::RunSettings& settings) {
  core::Options options;
  options.policy = settings.order;
  options.locality = settings.locality;
  options.steal = settings.steal;
  options.costs = settings.placer();
  options.seed = settings.seed;
  options.retries = settings.retries;
  options.retry_delay = settings.retry_delay;
  options.max_losses = settings.max_losses;
  options.max_failures = settings.max_failures;
  options.max_running = settings.max_running;
  options.fail_fast = settings.fail_fast;
  options.stop_gap = settings.stop_gap;
  options.bad_node_failures = settings.bad_node_failures;
  options.local_files = settings.files == config::Files::kLocal;
  options.ask_others = options.local_files && settings.stage == run::Stage::kNo;
  options.shared_files = !options.local_files;
  return options;
}

constexpr int32_t kTimedOutCode = 124;    // as timeout(1)
constexpr int32_t kNotStartedCode = 127;  // as a shell that does not find the command
constexpr int32_t kKilledCode = 128 + 9;
constexpr int32_t kMissingOutputCode = 1;

int32_t ExitCodeOf(const journal::AttemptRecord& attempt) {
  switch (attempt.end) {
    case journal::End::kExited:
      return attempt.code;
    case journal::End::kSignaled:
      return 128 + attempt.code;
    case journal::End::kTimedOut:
      return kTimedOutCode;
    case journal::End::kOutOfMemory:
      return kKilledCode;
    case journal::End::kMissingOutput:
      return kMissingOutputCode;
    default:
      return kNotStartedCode;
  }
}

/// It counts neither as a failure nor as a loss, and tells nothing of its task's fate.
bool CostsNothing(const graph::Graph& graph, const journal::AttemptRecord& attempt) {
  return journal::IsContinued(attempt) ||
         (journal::Succeeded(attempt) && !graph.streams_read(attempt.task).empty());
}

/// `most`: the slots of the largest node.
std::string NoNodeFits(const graph::Profile& profile, uint32_t most) {
  const Shape& shape = profile.shape;
  std::string text =
      shape.nodes > 1
          ? StrCat("no ", shape.nodes, " nodes of the allocation can give what it asks for on each of them:")
      : profile.ranks > 1
          ? "no node of the allocation can give what it asks for, nor can several that share its ranks:"
          : "no node of the allocation can give what it asks for:";
  text += StrCat(" ", shape.cores, shape.cores == 1 ? " core" : " cores");
  if (shape.devices > 0) text += StrCat(", ", shape.devices, shape.devices == 1 ? " device" : " devices");
  if (shape.memory > 0) text += StrCat(", ", FormatBytes(shape.memory));
  if (shape.cores > most && most > 0) text += StrCat("; the largest has ", most, ", unless --slots says otherwise");
  return text;
}

journal::TaskFate FateOf(core::FinalState state) {
  switch (state) {
    case core::FinalState::kDone:
      return journal::TaskFate::kDone;
    case core::FinalState::kFailed:
      return journal::TaskFate::kFailed;
    case core::FinalState::kSkipped:
      return journal::TaskFate::kSkipped;
    case core::FinalState::kCancelled:
      return journal::TaskFate::kCancelled;
    case core::FinalState::kPruned:
      return journal::TaskFate::kPruned;
  }
  return journal::TaskFate::kOpen;
}

}  // namespace

RunDriver::RunDriver(const run::StoredFlow& flow, const DriverOptions& options, journal::Journal* journal,
                     Hooks hooks)
    : flow_(flow),
      graph_(flow.graph),
      options_(options),
      hooks_(std::move(hooks)),
      scheduler_(flow.graph, SchedulerOptions(flow.settings)),
      attempts_(flow.graph),
      recorder_(journal, flow.graph.task_count()),
      catalogue_(flow.graph) {
  if (stages()) MakeStaging();
}

Status RunDriver::Restore(const journal::History& history, made::Attempts made) {
  if (!recorder_.Restore(history)) {
    return Status(Code::kDamaged, "the journal names tasks that the run's flow does not have");
  }
  for (const auto& [key, value] : history.facts) {
    if (key == "nodes_absent") absent_recorded_ = !value.empty();
  }
  for (uint32_t i = 0; i < flow_.unwanted.size(); ++i) unwanted_ += IsUnwanted(TaskId(i)) ? 1 : 0;
  std::vector<journal::NodeRecord> records = history.nodes;
  std::stable_sort(
      records.begin(), records.end(),
      [](const journal::NodeRecord& a, const journal::NodeRecord& b) { return a.node < b.node; });
  std::unordered_set<uint64_t> incarnations;  // each has a record of its coming and one of its end
  for (const journal::NodeRecord& record : records) {
    Node& node = nodes_.Named(record.name);
    node.number_at = 0;
    node.incarnations += incarnations.insert(record.incarnation).second ? 1 : 0;
    node.earlier_incarnation = record.incarnation;
    if (record.left_ns == 0) {
      awaited_.insert(record.name);
    } else {
      awaited_.erase(record.name);
      // What was lost with it and not started again since is not recorded.
      numbers_unsure_ |= options_.restarted;
    }
  }
  if (options_.restarted) {
    const auto gone =
        static_cast<size_t>(std::count_if(nodes_.all().begin(), nodes_.all().end(),
                                          [&](const auto& node) { return !awaited_.contains(node->name); }));
    back_ = options_.nodes_expected - std::min<size_t>(gone, options_.nodes_expected);
  }
  RestoreDrained(history);
  RestoreAims(history);
  made_ = std::move(made);
  std::erase_if(made_, [this](const auto& known) {
    return known.first >= graph_.task_count() ||
           recorder_.fate(TaskId(known.first)) == journal::TaskFate::kDone;
  });
  const int64_t session_start = flow_.settings.started.time_since_epoch().count();
  RestoreSessions(history, session_start);
  for (const journal::CopyRecord& copy : history.copies) {
    CountCopy(copy);
    if (!local_files() || copy.to) continue;
    if (const auto file = graph_.FindFile(copy.path)) copied_back_.insert(*file);
  }
  const auto count = [&](const journal::AttemptRecord& attempt) {
    known_.local_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.local_bytes, 0));
    known_.remote_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.remote_bytes, 0));
    known_.home_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.home_bytes, 0));
    // What succeeded made results, also where it is to run again; what goes on from a checkpoint finds what it has made.
    const auto known = made_.find(attempt.task.value);
    if (known != made_.end() && known->second.attempt <= attempt.attempt &&
        ((attempt.end == journal::End::kExited && attempt.code == 0) || attempt.end == journal::End::kCheckpointed))
      made_.erase(known);
    if (local_files() && attempt.end == journal::End::kExited && attempt.code == 0)
      success_ns_[attempt.task.value] = attempt.start_ns;
    const bool lost = attempt.end == journal::End::kLost;
    known_.losses += lost ? 1 : 0;
    known_.core_seconds +=
        CoreSeconds(attempt.start_ns, attempt.end_ns, graph_.profile(attempt.task).all_cores());
    if (attempt.end_ns < session_start) {
      ++known_.attempts;
    } else {
      Tries& tries = tries_[attempt.task.value];
      tries.last = std::max(tries.last, attempt.attempt);
      if (CostsNothing(graph_, attempt)) return;
      ++tries.attempts;
      // Its fate is on record a moment later, which the server before this one may not have lived to see.
      tries.done |= attempt.end == journal::End::kExited && attempt.code == 0;
      // One that its agent's end interrupted costs no retry, either.
      tries.losses += lost || attempt.end == journal::End::kInterrupted ? 1 : 0;
    }
  };
  for (const journal::AttemptRecord& attempt : history.attempts) count(attempt);
  for (const journal::AttemptRecord& attempt : RestoreParts(history)) count(attempt);
  return Status();
}

/// `session_start`: of the present one, which may be on record already, by an earlier server.
void RunDriver::RestoreSessions(const journal::History& history, int64_t session_start) {
  for (const journal::NodeRecord& record : history.nodes) {
    if (record.joined_ns >= session_start) nodes_.Named(record.name).session_slots = record.slots;
  }
  known_.sessions = 1;
  for (const journal::Session& session : journal::SessionsOf(history)) {
    if (session.start_ns >= session_start) continue;
    ++known_.sessions;
    known_.makespan += session.length();
    known_.slot_seconds += Seconds(session.length()) * session.slots;
    known_.slots = session.slots;
  }
}

bool RunDriver::IsUnwanted(TaskId task) const {
  return task.value < flow_.unwanted.size() && flow_.unwanted[task.value] &&
         recorder_.fate(task) == journal::TaskFate::kOpen;
}

/// It counts as done, and runs again where its outputs are lost.
bool RunDriver::MayBeRemade(TaskId task) const {
  return local_files() && !graph_.outputs(task).empty() &&
         (fate_anywhere(task) == journal::TaskFate::kDone || IsUnwanted(task));
}

void RunDriver::Begin(const Moment& moment) {
  phase_ = Phase::kGathering;
  last_put_ = options_.epoch << 32;  // agents may be at what a server before has asked for
  // As it was before this server: what agents tell from now on comes after it.
  const bool all_own = std::find(own_.begin(), own_.end(), false) == own_.end();
  events_.push_back(core::TasksAdded{TaskId(0), static_cast<uint32_t>(graph_.task_count()), !all_own});
  for (uint32_t i = 0; i < graph_.task_count(); ++i) {
    const TaskId task(i);
    const bool unwanted = IsUnwanted(task);
    const auto tried = tries_.find(i);
    const bool own = all_own || own_[i];  // else it has made again what was lost
    if (options_.restarted && own && !unwanted && tried != tries_.end() && tried->second.done)
      recorder_.Fate(task, journal::TaskFate::kDone, TaskId());
    const journal::TaskFate fate = recorder_.fate(task);
    const bool never_tried = recorder_.last_attempt(task) == 0 && tried == tries_.end();
    if (fate == journal::TaskFate::kOpen && never_tried && !unwanted) continue;
    core::TaskRestored restored{.task = task,
                                .as = unwanted ? core::TaskRestored::As::kDone : RestoredAs(fate),
                                .last_attempt = recorder_.last_attempt(task)};
    if (tried != tries_.end()) {
      restored.attempts = tried->second.attempts;
      restored.losses = tried->second.losses;
      restored.last_attempt = std::max(restored.last_attempt, tried->second.last);
    }
    events_.push_back(restored);
  }
  if (!all_own) {
    core::TasksGiven given;
    for (uint32_t i = 0; i < own_.size(); ++i) {
      if (own_[i]) given.tasks.emplace_back(i);
    }
    events_.push_back(std::move(given));
  }
  own_ = {};
  if (local_files()) {
    NoteFilesElsewhere(0);
    // Until somebody has come who may hold inputs: tasks are queued once, by where these are then.
    if (!stages()) staged_until_ = moment.now + kStagedPatience;
    LookForShared(std::exchange(success_ns_, {}), std::exchange(copied_back_, {}));
  }
  if (AllGathered()) EndGathering(moment);
}

bool RunDriver::AllGathered() const {
  return phase_ == Phase::kGathering && awaited_.empty() && attempts_.returning() == 0 &&
         nodes_.joined_count() >= back_;
}

void RunDriver::EndGathering(const Moment& moment) {
  if (phase_ != Phase::kGathering) return;
  for (const std::string& name : awaited_) os::LogWarning(StrCat("node ", name, " has not come back"));
  // Not given back, so they have begun.
  std::vector<AttemptTable::Row*> begun;
  attempts_.ForEach([&](const AttemptTable::Row& row) {
    if (row.state == AttemptTable::State::kReturning) begun.push_back(attempts_.Find(row.id.task));
  });
  for (AttemptTable::Row* row : begun) {
    attempts_.Begin(row, moment.wall_ns());
    events_.push_back(core::TaskStarted{row->id, row->node});
  }
  // What has not come back may have begun an attempt of any task that is open or whose outputs were lost, and
  // nobody else may have its number.
  if (numbers_unsure_ || !awaited_.empty()) events_.push_back(core::RemakesMayBeOut{});
  for (uint32_t i = 0; i < graph_.task_count() && (numbers_unsure_ || !awaited_.empty()); ++i) {
    const TaskId task(i);
    if (recorder_.fate(task) != journal::TaskFate::kOpen || IsUnwanted(task) ||
        attempts_.Find(task) != nullptr)
      continue;
    // So may those of the servers before have, which nobody told them of: each began after the numbers that
    // the one before it may have used.
    if (options_.epoch > 2)
      UseNumbers({task, recorder_.last_attempt(task) + static_cast<uint32_t>(options_.epoch) - 2});
    events_.push_back(core::AttemptMayBeOut{task});
  }
  MoveAgain();
  awaited_.clear();
  phase_ = Phase::kRunning;
  GatherParts(moment);
  tries_.clear();
  Wake();
}

/// The scheduler is not told of the attempt, but may not use its number, nor a lower one; while agents are
/// gathered.
void RunDriver::UseNumbers(AttemptId last) {
  const auto tried = tries_.find(last.task.value);
  const Tries tries = tried == tries_.end() ? Tries() : tried->second;
  events_.push_back(core::TaskRestored{.task = last.task,
                                       .as = core::TaskRestored::As::kOpen,
                                       .attempts = tries.attempts,
                                       .losses = tries.losses,
                                       .last_attempt = last.number});
}

void RunDriver::Wake() {
  if (wake_pending_) return;
  wake_pending_ = true;
  hooks_.wake();
}

/// `no_room`: bytes, as pb::Attempt has it.
core::Outcome RunDriver::OutcomeOf(const journal::AttemptRecord& attempt, uint64_t no_room) const {
  switch (attempt.end) {
    case journal::End::kCancelled:
      return core::Cancelled{};
    case journal::End::kInterrupted:
      return core::Interrupted{};
    case journal::End::kLost:
      return core::Lost{};
    case journal::End::kRewound:
      return core::Rewound{};
    case journal::End::kCheckpointed:
      return core::Checkpointed{};
    default:
      break;
  }
  const int32_t code = ExitCodeOf(attempt);
  if (journal::Succeeded(attempt)) return core::Done{};
  const std::vector<int32_t>& retry_on = graph_.profile(attempt.task).retry_on;
  const bool retryable =
      retry_on.empty() || std::find(retry_on.begin(), retry_on.end(), code) != retry_on.end();
  return core::Failed{code, retryable, static_cast<int64_t>(std::min<uint64_t>(no_room, INT64_MAX / 4))};
}

// --- what follows

void RunDriver::Flush(const Moment& moment) {
  wake_pending_ = false;
  Schedule(moment);
  if (stages()) GoOnStaging();
  GoOnPublishing(moment);
  GoOnSaving(moment);
  SendAll();
}

void RunDriver::Schedule(const Moment& moment) {
  if (phase_ != Phase::kRunning || events_.empty() || AwaitsStaged(moment)) return;
  do {
    answered_ = false;
    actions_.clear();
    scheduler_.HandleAll(moment.now, events_, &actions_);
    events_.clear();
    for (const core::Action& action : actions_) Act(moment, action);
  } while (answered_);
  readers_sent_.clear();
  KeepAims();
}

void RunDriver::Act(const Moment& moment, const core::Action& action) {
  if (const auto* start = std::get_if<core::StartTask>(&action)) {
    Start(*start);
  } else if (const auto* join = std::get_if<core::JoinGang>(&action)) {
    if (std::exchange(joining_task_, join->task) != join->task) joining_.clear();
    joining_.push_back(join->node);
  } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
    wake_at_ = wake->time;
  } else if (const auto* settled = std::get_if<core::TaskSettled>(&action)) {
    Settle(moment, *settled);
  } else if (const auto* back = std::get_if<core::TakeBack>(&action)) {
    if (Node* node = nodes_.Find(back->node))
      wire::SetId(back->attempt, nodes_.Outbox(*node).add_take_back());
  } else if (const auto* cancel = std::get_if<core::CancelTask>(&action)) {
    if (CancelParts(*cancel)) return;
    if (Node* node = nodes_.Find(cancel->node)) {
      pb::CancelTasks* message = nodes_.Outbox(*node).mutable_cancel();
      wire::SetId(cancel->attempt, cancel->as_lost ? message->add_lost() : message->add_attempt());
    }
  } else if (const auto* aside = std::get_if<core::NodePutAside>(&action)) {
    if (Node* node = nodes_.Find(aside->node)) {
      node->put_aside = true;
      Tell(aside->cut_off ? StrCat("node ", node->name,
                                   " is put aside: other nodes and it cannot get files from each other")
                          : StrCat("node ", node->name, " is put aside: ", aside->failures,
                                   " tasks in a row failed there at once; they run again elsewhere"));
    }
  } else if (const auto* ask = std::get_if<core::AskCheckpoint>(&action)) {
    Act(*ask);
  } else if (const auto* copy = std::get_if<core::CopyFile>(&action)) {
    Act(*copy);
  } else if (const auto* drop = std::get_if<core::DropFile>(&action)) {
    Act(*drop);
  } else if (const auto* others = std::get_if<core::AskOthers>(&action)) {
    Act(*others);
  } else if (const auto* refuse = std::get_if<core::RefuseFile>(&action)) {
    Act(*refuse);
  } else if (const auto* read = std::get_if<core::ReadFrom>(&action)) {
    Act(*read);
  } else if (const auto* open = std::get_if<core::StreamOpen>(&action)) {
    Act(*open);
  } else if (const auto* close = std::get_if<core::CloseOutput>(&action)) {
    Act(*close);
  } else if (const auto* written = std::get_if<core::DropWritten>(&action)) {
    Act(*written);
  } else if (std::holds_alternative<core::RunComplete>(action)) {
    if (stages() || complete_ || saves_) return;
    saves_ = BeginSaving();
    complete_ = !saves_;
  }
}

void RunDriver::Settle(const Moment& moment, const core::TaskSettled& settled) {
  if (settled.reason == core::Reason::kNoTimeLeft) {
    const Duration time = graph_.profile(settled.task).least_time();
    open_time_ = out_of_time_ ? std::min(open_time_, time) : time;
    out_of_time_ = true;
  }
  nodes_gone_ |= settled.reason == core::Reason::kNodesGone;
  ForgetLost(settled.task);
  NoteEnded(settled.task);
  // It has made lost outputs again, or could not: that it was done, or is not wanted, stays.
  if (fate_anywhere(settled.task) == journal::TaskFate::kDone || IsUnwanted(settled.task)) {
    if (settled.state == core::FinalState::kDone) return;
    ++undone_[static_cast<size_t>(settled.state)];
    if (settled.state == core::FinalState::kFailed)
      Tell(StrCat("task ", Printable(graph_.TaskName(settled.task), 60),
                  settled.reason == core::Reason::kLostTooOften
                      ? " was done; its outputs were lost too often to be made again"
                      : " was done; its outputs were lost, and it failed when it was to make them again"));
    return;
  }
  // What an interruption or the time limit kept from running stays open: --resume goes on there. So does what
  // needs outputs that were lost and could not be made again.
  const bool stays_open = settled.reason == core::Reason::kInterrupted ||
                          settled.reason == core::Reason::kNoTimeLeft ||
                          settled.reason == core::Reason::kNodesGone ||
                          (interrupted_ && settled.reason == core::Reason::kStopped) ||
                          (settled.reason == core::Reason::kDependency && settled.because &&
                           (fate_anywhere(settled.because) == journal::TaskFate::kOpen ||
                            fate_anywhere(settled.because) == journal::TaskFate::kDone));
  if (stays_open) {
    left_open_ += settled.state == core::FinalState::kSkipped ? 1 : 0;
    return;
  }
  if (settled.reason == core::Reason::kNoNodeFits) {
    journal::AttemptRecord record;
    record.task = settled.task;
    record.attempt = recorder_.last_attempt(settled.task) + 1;
    record.end = journal::End::kNotStarted;
    record.end_ns = moment.wall_ns();
    uint32_t most = 0;
    for (const auto& node : nodes_.all()) most = std::max(most, node->capacity.slots);
    record.message = NoNodeFits(graph_.profile(settled.task), most);
    recorder_.Attempt(std::move(record));
  }
  recorder_.Fate(settled.task, FateOf(settled.state), settled.because);
  if (hooks_.decided) hooks_.decided(settled.task, FateOf(settled.state));
}

void RunDriver::Start(const core::StartTask& start) {
  Node* node = nodes_.Find(start.node);
  if (node == nullptr) return;
  const TaskId task = start.attempt.task;
  std::vector<NodeId> further = std::exchange(joining_, {});
  if (joining_task_ == task && !further.empty()) {
    further.insert(further.begin(), start.node);
    return StartParts(start, std::move(further));
  }
  ForgetLost(task);
  AttemptTable::Row& row = attempts_.Add(start.attempt, node->id, AttemptTable::State::kSent);
  row.ahead = start.ahead;
  row.local_bytes = start.local_bytes;
  row.remote_bytes = start.remote_bytes;
  row.home_bytes = start.home_bytes;
  if (local_files()) row.known_bytes = BytesRead(task);
  pb::Task* const message = SendTask(*node, start);
  if (!graph_.streams_read(task).empty()) readers_sent_[start.attempt] = message;
  NameOutputs(task, message);
}

/// Its message to a node, without its files.
pb::Task* RunDriver::SendTask(Node& node, const core::StartTask& start) {
  const TaskId task = start.attempt.task;
  pb::ToAgent& out = nodes_.Outbox(node);
  const ProfileId profile = graph_.profile_id(task);
  if (!node.profiles_sent[profile.value]) {
    node.profiles_sent[profile.value] = true;
    run::ProfileToProto(graph_.profile(profile), profile.value, out.add_profile());
  }
  pb::Task* message = out.add_start();
  message->set_id(task.value);
  message->set_attempt(start.attempt.number);
  message->set_profile(profile.value);
  message->set_form(static_cast<uint32_t>(graph_.form(task)));
  const std::string_view command = graph_.command(task), name = graph_.given_name(task);
  message->set_command(command.data(), command.size());
  if (!name.empty()) message->set_name(name.data(), name.size());
  if (!graph_.streams_written(task).empty()) message->set_writes_streams(true);
  message->set_ahead(start.ahead);
  if (graph_.profile(profile).checkpoint.on()) message->set_checkpoints(CheckpointsOf(task));
  return message;
}

void RunDriver::NameOutputs(TaskId task, pb::Task* message) {
  if (local_files()) {
    NameFiles(task, message);
    if (message->sandbox()) return;
  }
  const auto outputs = graph_.outputs(task);
  if (outputs.empty()) return;
  for (const FileId file : outputs) {
    const std::string_view output = graph_.file_name(file);
    message->add_outputs(output.data(), output.size());
  }
  message->set_sizes_wanted(options_.nodes_expected > 1 && flow_.settings.locality &&
                            !graph_.successors(task).empty());
  if (const auto known = made_.find(task.value); known != made_.end()) {
    pb::Made* earlier = message->mutable_earlier();
    earlier->set_begin_ns(known->second.begin_ns);
    earlier->set_end_ns(known->second.end_ns);
    for (const uint32_t number : known->second.found) earlier->add_found(number);
  }
}

/// A lost attempt of the task is not waited for any more.
void RunDriver::ForgetLost(TaskId task) {
  const AttemptTable::Row* row = attempts_.Find(task);
  if (row == nullptr || row->state != AttemptTable::State::kLost) return;
  RecordLost(*row);
  attempts_.Erase(task);
}

void RunDriver::SendAll() {
  nodes_.SendAll(recorder_.committed());
}

void RunDriver::Committed(uint64_t sequence) {
  recorder_.Committed(sequence, [&](NodeId id, uint64_t incarnation, uint64_t agent_sequence) {
    Node* node = nodes_.Find(id);
    if (node != nullptr && node->incarnation == incarnation) nodes_.Acknowledge(*node, agent_sequence);
  });
  if (nodes_.MaySendMore(recorder_.committed())) Wake();
}

void RunDriver::Cancel(const std::vector<TaskId>& tasks) {
  for (const TaskId task : tasks) events_.push_back(core::CancelRequested{task});
  Wake();
}

void RunDriver::AddTasks(const Moment& moment, TaskId first, uint32_t count, uint32_t first_file, bool elsewhere) {
  recorder_.Grow(graph_.task_count());
  for (const auto& node : nodes_.all()) node->profiles_sent.resize(graph_.profile_count(), false);
  events_.push_back(core::TasksAdded{first, count, elsewhere});
  if (local_files()) NoteFilesElsewhere(first_file);
  complete_ = saves_ = false;
  saving_.clear();
  Schedule(moment);  // whoever asks finds them in the scheduler as in the graph
  Wake();
}

void RunDriver::LearnBest(double value) {
  events_.push_back(core::BestKnown{value});
  Wake();
}

void RunDriver::Interrupt(const Moment& moment) {
  if (interrupted_) return;
  interrupted_ = true;
  EndGathering(moment);
  // Before anything is started of what was gathered.
  events_.push_back(core::DrainRequested{});
  Flush(moment);  // what is believed to run is up to date
  for (const auto& node : nodes_.all()) {
    for (const TaskId task : attempts_.At(node->id)) {
      const Row* row = attempts_.Find(task);
      if (row->gang) row->gang->ending = Gang::Ending::kInterrupted;
      EndAt(*node, row->id);
    }
  }
  for (const auto& [task, waiting] : std::exchange(waiting_, {}))
    events_.push_back(core::TaskEnded{waiting.start.attempt, waiting.start.node, core::Interrupted{}});
  // One that had nothing to do may have what others read.
  if (complete_ && !saves_) {
    saves_ = BeginSaving();
    complete_ = !saves_;
  }
  Wake();
}

void RunDriver::RecordEnd(const Moment& moment) {
  std::vector<TaskId> lost;
  attempts_.ForEach([&](const AttemptTable::Row& row) {
    if (row.state == AttemptTable::State::kLost) lost.push_back(row.id.task);
  });
  for (const TaskId task : lost) ForgetLost(task);
  ForgetParts(moment);
  for (const auto& node : nodes_.all()) {
    if (!node->joined) continue;
    // A dead one, which it is too early to call lost, was there until it was last heard.
    const bool dead = node->silent && !node->leaving;
    recorder_.Node(NodeToRecord(*node, moment.wall_ns() - (dead ? (moment.now - node->heard).count() : 0)));
  }
  std::string absent;
  for (const std::string& name : NotCome()) absent += StrCat(absent.empty() ? "" : ",", name);
  if (!absent.empty() || absent_recorded_) recorder_.Fact("nodes_absent", absent);
  for (const auto& [key, value] : written_.Facts()) recorder_.Fact(key, value);
  ended_ns_ = moment.wall_ns();
  recorder_.Fact("ended_ns", StrCat(ended_ns_));
}

void RunDriver::Tell(const std::string& line) {
  last_problem_.clear();
  os::LogWarning(line);
  if (hooks_.tell) hooks_.tell(line);
}

/// Of thousands of nodes that lack the same the first ones are named; the log has every one.
void RunDriver::TellUnfit(const Node& node, const std::string& why) {
  const std::string line = StrCat("node ", node.name, " is put aside: ", why);
  if (++unfit_told_ <= kUnfitNamed) return Tell(line);
  os::LogWarning(line);
  if (unfit_told_ == kUnfitNamed + 1 && hooks_.tell)
    hooks_.tell("more nodes are put aside; the server's log in the run directory names each");
}

/// What several nodes say in the same words is told of the first, and that others say it, too.
void RunDriver::TellProblem(const Node& node, const std::string& text) {
  std::set<std::string>& nodes = problems_[text];
  const bool again = !nodes.insert(node.name).second;
  const std::string line = StrCat("node ", node.name, ": ", text);
  if (again || nodes.size() == 1) {
    Tell(line);
    last_problem_ = text;
    return;
  }
  os::LogWarning(line);
  if (nodes.size() == 2 && hooks_.tell)
    hooks_.tell(last_problem_ == text ? "other nodes say the same"
                                      : StrCat("other nodes say as well: ", text));
}

// --- answers

/// As long as nodes are awaited, the scheduler knows nothing of what was decided before.
void RunDriver::CountRecorded(Figures* figures) const {
  for (uint32_t i = 0; i < graph_.task_count(); ++i) {
    if (IsUnwanted(TaskId(i))) continue;
    const journal::TaskFate fate = recorder_.fate(TaskId(i));
    figures->done += fate == journal::TaskFate::kDone ? 1 : 0;
    figures->failed += fate == journal::TaskFate::kFailed ? 1 : 0;
    figures->skipped += fate == journal::TaskFate::kSkipped ? 1 : 0;
    figures->cancelled += fate == journal::TaskFate::kCancelled ? 1 : 0;
    figures->pruned += fate == journal::TaskFate::kPruned ? 1 : 0;
  }
}

Figures RunDriver::FiguresAt(const Moment& moment) const {
  const core::Counts& counts = scheduler_.counts();
  Figures figures = known_;
  // What is not wanted counts as done for the scheduler, and not at all for people.
  figures.total = graph_.task_count() - unwanted_;
  const auto undone = [this](core::FinalState state) { return undone_[static_cast<size_t>(state)]; };
  const uint64_t done = counts.done + counts.remaking + std::accumulate(undone_.begin(), undone_.end(), 0ull);
  figures.done = done > unwanted_ ? done - unwanted_ : 0;
  figures.failed = counts.failed - undone(core::FinalState::kFailed);
  figures.skipped = counts.skipped - left_open_ - undone(core::FinalState::kSkipped);
  figures.cancelled = counts.cancelled - undone(core::FinalState::kCancelled);
  figures.pruned = counts.pruned - undone(core::FinalState::kPruned);
  if (counts.total == 0) CountRecorded(&figures);
  figures.running = std::min<uint64_t>(counts.running + counts.sent, nodes_.joined_slots());
  figures.attempts += counts.attempts;
  figures.local_bytes += counts.local_bytes;
  figures.remote_bytes += counts.remote_bytes;
  figures.home_bytes += counts.home_bytes;
  uint32_t slots = 0;
  for (const auto& node : nodes_.all()) slots += node->session_slots;
  if (counts.attempts == 0 && known_.sessions > 1) {  // one in which nothing has begun is none
    --figures.sessions;
    figures.complete = complete();
    return figures;
  }
  const int64_t now_ns = ended_ns_ == 0 ? moment.wall_ns() : ended_ns_;
  const Duration session(std::max<int64_t>(now_ns - flow_.settings.started.time_since_epoch().count(), 0));
  figures.makespan += session;
  figures.core_seconds += attempts_.CoreSeconds(now_ns);
  figures.slots = slots;
  figures.slot_seconds += Seconds(session) * figures.slots;
  figures.complete = complete();
  return figures;
}

void RunDriver::Snapshot(const Moment& moment, bool with_nodes, pb::Progress* progress) const {
  wire::FiguresToProto(FiguresAt(moment), progress);
  progress->set_epoch(options_.epoch);
  if (stages()) SnapshotStaging(progress);
  if (const auto best = scheduler_.best()) progress->set_best(*best);
  if (const auto bound = scheduler_.LeastBound()) progress->set_bound(*bound);
  if (!with_nodes) return;
  for (const auto& node : nodes_.all()) {
    pb::NodeStatus* status = progress->add_node();
    status->set_name(node->name);
    status->set_slots(node->capacity.slots);
    status->set_running(attempts_.running(node->id));
    status->set_ended(node->ended);
    status->set_state(!node->joined     ? "lost"
                      : node->silent    ? "silent"
                      : node->put_aside ? "closed"
                                        : "joined");
    status->set_incarnations(node->incarnations);
  }
  for (const std::string& name : NotCome()) {
    pb::NodeStatus* status = progress->add_node();
    status->set_name(name);
    status->set_state(all_joined_ ? "absent" : "awaited");
  }
}

std::vector<std::string> RunDriver::NotCome() const {
  std::vector<std::string> names;
  for (const std::string& name : options_.node_names) {
    const Node* node = nodes_.FindNamed(name);
    if (node == nullptr || node->incarnations == 0) names.push_back(name);
  }
  return names;
}

bool RunDriver::IsAbsent(const std::string& name) const {
  const Node* node = nodes_.FindNamed(name);
  if (node == nullptr || node->incarnations == 0) return all_joined_;
  return !node->joined || (node->silent && node->channel == nullptr);
}

std::string RunDriver::Explain(TaskId task) const {
  const core::Explanation why = scheduler_.Explain(task);
  std::string text =
      StrCat("task ", graph_.TaskName(task), " (level ", graph_.level(task), "): ", why.text, "\n");
  if (!why.waits_for.empty()) {
    text += "waits for:";
    constexpr size_t kListed = 10;
    for (size_t i = 0; i < std::min(kListed, why.waits_for.size()); ++i)
      text += StrCat(i == 0 ? " " : ", ", ShellQuote(Printable(graph_.TaskName(why.waits_for[i]), 60)),
                     graph_.OnlyWaits(why.waits_for[i], task) ? " (its end)" : "");
    text += why.waits_for.size() > kListed ? ", ...\n" : "\n";
  }
  if (!why.candidates.empty()) {
    text += "candidate nodes:";
    for (const NodeId id : why.candidates) {
      const Node* node = nodes_.Find(id);
      text += StrCat(" ", node == nullptr ? "?" : node->name);
    }
    text += "\n";
  }
  if (!why.input_at.empty()) {
    text += "its input on nodes:";
    for (size_t i = 0; i < why.input_at.size(); ++i) {
      const Node* node = nodes_.Find(why.input_at[i].first);
      text += StrCat(i == 0 ? " " : ", ", node == nullptr ? "?" : node->name, " ",
                     FormatBytes(static_cast<uint64_t>(why.input_at[i].second)));
    }
    text += "\n";
  }
  const AttemptTable::Row* row = attempts_.Find(task);
  if (row != nullptr && row->gang && !row->gang->given_up) {
    text += "nodes:";
    for (const Part& part : row->gang->parts) text += StrCat(" ", NameOf(part.node));
    text += "\n";
  } else if (const Node* node = nodes_.Find(why.node)) {
    text += StrCat("node: ", node->name, "\n");
  }
  return text;
}

}  // namespace harrow::server
