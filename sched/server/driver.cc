#include "server/driver.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "server/messages.h"
#include "wire/version.h"

// One Flush is one instant of the scheduler: all that agents said since the last one is taken in before
// anything is started. The scheduler numbers attempts, going on after the highest recorded one, so that
// (task, attempt) names a result for ever: whatever is sent twice is recorded once, and the late end of an
// attempt that was given up does not count for a later one.
//
// After a restart nothing is started until the agents that the earlier server knew have told what they run
// and hold, or `gather_ticks` have passed: until then events are only kept. A task that an agent has in its
// queue is asked back first, so that it cannot begin there and elsewhere.

namespace harrow::server {
namespace {

core::Options SchedulerOptions(const RunSettings& settings) {
  core::Options options;
  options.policy = settings.order;
  options.locality = settings.locality;
  options.steal = settings.steal;
  options.seed = settings.seed;
  options.retries = settings.retries;
  options.max_losses = settings.max_losses;
  options.max_failures = settings.max_failures;
  options.fail_fast = settings.fail_fast;
  options.bad_node_failures = settings.bad_node_failures;
  return options;
}

constexpr int32_t kTimedOutCode = 124;    // as timeout(1)
constexpr int32_t kNotStartedCode = 127;  // as a shell that does not find the command
constexpr int32_t kKilledCode = 128 + 9;

int32_t ExitCodeOf(const pb::Attempt& attempt) {
  switch (attempt.end()) {
    case pb::Attempt::EXITED:
      return attempt.code();
    case pb::Attempt::SIGNALED:
      return 128 + attempt.code();
    case pb::Attempt::TIMED_OUT:
      return kTimedOutCode;
    case pb::Attempt::OUT_OF_MEMORY:
      return kKilledCode;
    default:
      return kNotStartedCode;
  }
}

core::TaskRestored::As RestoredAs(journal::TaskFate fate, bool unwanted) {
  using As = core::TaskRestored::As;
  switch (fate) {
    case journal::TaskFate::kDone:
      return As::kDone;
    case journal::TaskFate::kFailed:
      return As::kFailed;
    case journal::TaskFate::kSkipped:
      return As::kSkipped;
    case journal::TaskFate::kCancelled:
      return As::kCancelled;
    case journal::TaskFate::kOpen:
      break;
  }
  return unwanted ? As::kDone : As::kOpen;
}

journal::NodeRecord RecordOf(const Node& node, int64_t left_ns) {
  return {.node = node.id,
          .name = node.name,
          .slots = node.capacity.slots,
          .incarnation = node.incarnation,
          .output_file = node.output_file,
          .joined_ns = node.joined_ns,
          .left_ns = left_ns,
          .topology = node.topology};
}

std::string NoNodeFits(const Shape& shape) {
  std::string text = "no node of the allocation can give what it asks for:";
  if (shape.nodes > 1) text += StrCat(" ", shape.nodes, " nodes with");
  text += StrCat(" ", shape.cores, shape.cores == 1 ? " core" : " cores");
  if (shape.gpus > 0) text += StrCat(", ", shape.gpus, shape.gpus == 1 ? " device" : " devices");
  if (shape.memory > 0) text += StrCat(", ", FormatBytes(shape.memory));
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
  }
  return journal::TaskFate::kOpen;
}

}  // namespace

RunDriver::RunDriver(const StoredFlow& flow, const DriverOptions& options, journal::Journal* journal,
                     Hooks hooks)
    : flow_(flow),
      graph_(flow.graph),
      options_(options),
      hooks_(std::move(hooks)),
      scheduler_(flow.graph, SchedulerOptions(flow.settings)),
      recorder_(journal, flow.graph.task_count()) {}

Status RunDriver::Restore(const journal::History& history) {
  if (!recorder_.Restore(history)) {
    return Status(Code::kDamaged, "the journal names tasks that the run's flow does not have");
  }
  for (uint32_t i = 0; i < flow_.unwanted.size(); ++i) unwanted_ += IsUnwanted(TaskId(i)) ? 1 : 0;
  std::vector<journal::NodeRecord> records = history.nodes;
  std::stable_sort(
      records.begin(), records.end(),
      [](const journal::NodeRecord& a, const journal::NodeRecord& b) { return a.node < b.node; });
  for (const journal::NodeRecord& record : records) {
    Node& node = nodes_.Named(record.name);
    ++node.incarnations;
    if (record.left_ns == 0) {
      awaited_.insert(record.name);
    } else {
      awaited_.erase(record.name);
    }
  }
  const int64_t session_start = flow_.settings.started.time_since_epoch().count();
  for (const journal::AttemptRecord& attempt : history.attempts) {
    earlier_local_bytes_ += attempt.local_bytes;
    earlier_remote_bytes_ += attempt.remote_bytes;
    const bool lost = attempt.end == journal::End::kLost;
    losses_ += lost ? 1 : 0;
    if (attempt.start_ns > 0) {
      busy_ns_ += (attempt.end_ns - attempt.start_ns) * graph_.profile(attempt.task).shape.cores;
    }
    if (attempt.end_ns < session_start) {
      ++earlier_attempts_;
    } else {
      Tries& tries = tries_[attempt.task.value];
      ++tries.attempts;
      tries.losses += lost ? 1 : 0;
    }
  }
  return Status();
}

bool RunDriver::IsUnwanted(TaskId task) const {
  return task.value < flow_.unwanted.size() && flow_.unwanted[task.value] &&
         recorder_.fate(task) == journal::TaskFate::kOpen;
}

void RunDriver::Begin(const Moment& moment) {
  phase_ = Phase::kGathering;
  if (awaited_.empty()) EndGathering(moment);
}

void RunDriver::EndGathering(const Moment&) {
  if (phase_ != Phase::kGathering) return;
  phase_ = Phase::kRunning;
  for (const std::string& name : awaited_) os::LogWarning(StrCat("node ", name, " has not come back"));
  awaited_.clear();
  // Not given back, so it has begun there.
  for (const auto& [task, node] : unsure_) events_.push_back(core::TaskStarted{TaskId(task), node});
  unsure_.clear();
  std::vector<core::Event> first;
  const auto count = static_cast<uint32_t>(graph_.task_count());
  first.push_back(core::TasksAdded{TaskId(0), count});
  for (uint32_t i = 0; i < count; ++i) {
    const TaskId task(i);
    const journal::TaskFate fate = recorder_.fate(task);
    const auto tried = tries_.find(i);
    const uint32_t last_attempt = recorder_.NextAttempt(task) - 1;
    if (fate == journal::TaskFate::kOpen && last_attempt == 0 && !IsUnwanted(task)) continue;
    core::TaskRestored restored{
        .task = task, .as = RestoredAs(fate, IsUnwanted(task)), .last_attempt = last_attempt};
    if (tried != tries_.end()) {
      restored.attempts = tried->second.attempts;
      restored.losses = tried->second.losses;
    }
    first.push_back(restored);
  }
  tries_.clear();
  events_.insert(events_.begin(), std::make_move_iterator(first.begin()),
                 std::make_move_iterator(first.end()));
  Wake();
}

void RunDriver::Wake() {
  if (wake_pending_) return;
  wake_pending_ = true;
  hooks_.wake();
}

// --- agents come and go

Result<NodeId> RunDriver::Join(const Moment& moment, std::shared_ptr<wire::Channel> channel,
                               const pb::FromAgent& message) {
  const pb::AgentHello& hello = message.hello();
  if (hello.version() != wire::kProtocolVersion) {
    return Status(Code::kRefused,
                  StrCat("the agent speaks version ", hello.version(), " of the protocol, this server ",
                         wire::kProtocolVersion, "; all nodes must run the same harrow"));
  }
  if (hello.run_id() != flow_.settings.run_id)
    return Status(Code::kRefused, "the agent belongs to another run");
  if (hello.node().name().empty() || hello.node().slots() == 0) {
    return Status(Code::kRefused, "the agent names no node, or one without slots");
  }
  Node& node = nodes_.Named(hello.node().name());
  const bool same_agent = node.incarnation == hello.incarnation();
  if (node.channel != nullptr && node.channel != channel) {
    hooks_.drop_agent(std::exchange(node.channel, nullptr).get());
  }
  if (!same_agent && node.joined) Lose(moment, node, "its agent was started again");
  node.channel = std::move(channel);
  node.silent_ticks = 0;
  node.heard = moment.now;
  node.suspect = false;
  node.profiles_sent.assign(graph_.profile_count(), false);
  node.capacity = {
      .slots = hello.node().slots(), .gpus = hello.node().gpus(), .memory = hello.node().memory()};
  if (const auto granted = options_.memory_granted.find(node.name);
      granted != options_.memory_granted.end()) {
    const bool more = node.capacity.memory > granted->second || node.capacity.memory == 0;
    if (more) node.capacity.memory = granted->second;
  }
  const bool rejoined = node.joined;
  if (!same_agent) {
    node.incarnation = hello.incarnation();
    node.output_file = hello.output_file();
    node.joined_ns = moment.wall_ns();
    ++node.incarnations;
    node.topology = hello.node().topology();
    recorder_.Node(RecordOf(node, 0));
    os::LogInfo(
        StrCat("node ", node.name, " joined: ", node.capacity.slots, " slots, ", hello.node().topology()));
  } else {
    os::LogInfo(StrCat("node ", node.name, " is connected again"));
  }
  if (!rejoined) {
    node.joined = true;
    events_.push_back(core::NodeJoined{node.id, node.capacity});
    if (!all_joined_ && nodes_.joined_count() >= options_.nodes_expected) AllJoined();
  }
  most_slots_ = std::max(most_slots_, nodes_.joined_slots());
  Welcome(node);
  Reconcile(moment, node, message, rejoined);
  awaited_.erase(node.name);
  Handle(moment, node.id, message);
  if (phase_ == Phase::kGathering && awaited_.empty() && unsure_.empty()) EndGathering(moment);
  Wake();
  return node.id;
}

void RunDriver::AllJoined() {
  all_joined_ = true;
  events_.push_back(core::AllNodesJoined{});
}

void RunDriver::Welcome(Node& node) {
  pb::Welcome* welcome = nodes_.Outbox(node).mutable_welcome();
  welcome->set_version(wire::kProtocolVersion);
  welcome->set_epoch(options_.epoch);
  welcome->set_node(node.id.value);
  welcome->set_submit_dir(flow_.settings.submit_dir);
  for (const auto& [name, value] : flow_.settings.env) {
    pb::EnvVar* variable = welcome->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  welcome->set_output_limit(flow_.settings.output_limit);
  welcome->set_heartbeat_ns(options_.heartbeat.count());
  welcome->set_kill_wait_ns(options_.kill_wait.count());
  welcome->set_shell(flow_.settings.shell);
  welcome->set_lease_ns(flow_.settings.lease.count());
}

bool RunDriver::IsAt(TaskId task, NodeId node) const {
  if (scheduler_.node(task) != node) return false;
  const core::TaskState state = scheduler_.state(task);
  return state == core::TaskState::kSent || state == core::TaskState::kRecalled ||
         state == core::TaskState::kRunning;
}

bool RunDriver::IsAt(TaskId task, NodeId node, uint32_t attempt) const {
  return IsAt(task, node) && scheduler_.attempts(task) == attempt;
}

bool RunDriver::NeverSent(TaskId task) const {
  if (phase_ != Phase::kRunning) return recorder_.fate(task) == journal::TaskFate::kOpen;
  const core::TaskState state = scheduler_.state(task);
  return state == core::TaskState::kWaiting || state == core::TaskState::kReady;
}

void RunDriver::Adopt(Node& node, TaskId task, uint32_t attempt, int64_t start_ns) {
  // An attempt that was counted as lost may not go on beside the next.
  const bool later = phase_ != Phase::kRunning || attempt > scheduler_.attempts(task);
  if (IsAt(task, node.id, attempt) || (NeverSent(task) && recorder_.IsNew(task, attempt) && later)) {
    NoteStarted(task, node.id, start_ns);
    events_.push_back(core::TaskStarted{task, node.id, attempt});
  } else {
    nodes_.Outbox(node).mutable_cancel()->add_task(task.value);
  }
}

// Compares what the agent has with what the scheduler believes it has. What was sent and never arrived is
// ready again.
void RunDriver::Reconcile(const Moment& moment, Node& node, const pb::FromAgent& message, bool rejoined) {
  const pb::AgentHello& hello = message.hello();
  const size_t count = graph_.task_count();
  std::unordered_set<uint32_t> there(hello.queued().begin(), hello.queued().end());
  for (const pb::Attempt& attempt : hello.running()) {
    there.insert(attempt.task());
    if (attempt.task() < count) Adopt(node, TaskId(attempt.task()), attempt.attempt(), attempt.start_ns());
  }
  for (const pb::TasksEnded& ended : message.ended()) {
    for (const pb::Attempt& attempt : ended.attempt()) there.insert(attempt.task());
  }
  for (const uint32_t queued : hello.queued()) {
    if (queued >= count || (phase_ == Phase::kRunning && IsAt(TaskId(queued), node.id))) continue;
    nodes_.Outbox(node).add_take_back(queued);
    if (phase_ == Phase::kGathering) unsure_.emplace(queued, node.id);
  }
  for (uint32_t i = 0; rejoined && phase_ == Phase::kRunning && i < count; ++i) {
    const TaskId task(i);
    if (!IsAt(task, node.id) || there.contains(i)) continue;
    if (scheduler_.state(task) == core::TaskState::kRunning) {
      RecordLost(moment, node, task, "its agent does not know it any more");
      NoteEnded(task);
      events_.push_back(core::TaskEnded{
          .task = task, .node = node.id, .outcome = core::Lost{}, .attempt = scheduler_.attempts(task)});
    } else {
      events_.push_back(core::TaskReturned{task, node.id});
    }
  }
}

void RunDriver::Disconnected(NodeId id, const wire::Channel* channel) {
  Node* node = nodes_.Find(id);
  if (node == nullptr || node->channel.get() != channel) return;
  node->channel.reset();
  os::LogWarning(StrCat("node ", node->name, ": the connection to its agent is gone"));
}

void RunDriver::Tell(const std::string& line) {
  os::LogWarning(line);
  if (hooks_.tell) hooks_.tell(line);
}

void RunDriver::Lose(const Moment& moment, Node& node, const std::string& why) {
  os::LogWarning(StrCat("node ", node.name, " is lost: ", why));
  std::vector<TaskId> there;
  for (const auto& [task, running] : running_) {
    if (running.node == node.id) there.push_back(TaskId(task));
  }
  for (const TaskId task : there) {
    if (IsAt(task, node.id)) RecordLost(moment, node, task, why);
    NoteEnded(task);
  }
  for (uint32_t i = 0; phase_ == Phase::kRunning && i < graph_.task_count(); ++i) {
    if (IsAt(TaskId(i), node.id)) perhaps_begun_.insert(i);
  }
  recorder_.Node(RecordOf(node, moment.wall_ns()));
  node.joined = false;
  node.running = 0;
  events_.push_back(core::NodeLost{node.id});
  Wake();
}

void RunDriver::RecordLost(const Moment& moment, const Node& node, TaskId task, const std::string& why) {
  journal::AttemptRecord record;
  record.task = task;
  record.attempt = scheduler_.attempts(task);
  record.node = node.id;
  record.end = journal::End::kLost;
  if (const auto running = running_.find(task.value); running != running_.end()) {
    record.start_ns = running->second.start_ns;
    busy_ns_ += (moment.wall_ns() - record.start_ns) * running->second.cores;
  }
  record.end_ns = moment.wall_ns();
  record.message = why;
  ++losses_;
  recorder_.Attempt(std::move(record));
}

void RunDriver::Tick(const Moment& moment) {
  for (const auto& node : nodes_.all()) {
    ++node->silent_ticks;
    if (!node->joined && all_joined_ && node->silent_ticks == options_.return_ticks) {
      Tell(StrCat("node ", node->name, " is not waited for any longer"));
      AllJoined();
      Wake();
    }
  }
  if (!all_joined_ && nodes_.joined_count() > 0 && ++join_ticks_ >= options_.join_ticks) {
    Tell(StrCat("only ", nodes_.joined_count(), " of ", options_.nodes_expected,
                " nodes have come; the run goes on without the others"));
    AllJoined();
    Wake();
  }
  if (phase_ == Phase::kGathering && ++gather_ticks_ >= options_.gather_ticks) EndGathering(moment);
}

// A loaded machine makes agents late, and this server; neither means that a node is gone. So what the kernels
// know counts: that of a living node acknowledges, whatever its processes do, and this one's asks it. Where
// there is no connection to ask by, or the agent hangs on a living node, it must have been silent when looked
// at twice: in between all has been read that had come while this server was late.
void RunDriver::FindSilent(const Moment& moment) {
  for (const auto& node : nodes_.all()) {
    if (!node->joined) continue;
    const Duration silent = moment.now - node->heard;
    const bool dead = silent > options_.dead_after && node->channel != nullptr &&
                      node->channel->unheard() > options_.dead_after;
    const bool suspect = silent > (node->channel == nullptr ? options_.gone_after : options_.hung_after);
    const bool again = std::exchange(node->suspect, suspect) && suspect;
    if (!again && !dead) continue;
    Lose(moment, *node, dead ? "nothing is heard of it" : "nothing is heard of its agent");
    if (node->channel != nullptr) hooks_.drop_agent(std::exchange(node->channel, nullptr).get());
  }
}

// --- what agents say

void RunDriver::Handle(const Moment& moment, NodeId id, const pb::FromAgent& message) {
  Node* node = nodes_.Find(id);
  if (node == nullptr) return;
  node->silent_ticks = 0;
  node->heard = moment.now;
  node->suspect = false;
  if (message.has_heartbeat()) {
    *nodes_.Outbox(*node).mutable_heartbeat() = message.heartbeat();
    if (message.heartbeat().round_trip_ns() > 0) {
      events_.push_back(core::RoundTripMeasured{id, Duration(message.heartbeat().round_trip_ns())});
    }
  }
  if (message.has_started()) TakeStarted(id, message.started());
  bool leaves = false;
  for (const pb::TasksEnded& ended : message.ended()) {
    TakeEnded(moment, *node, ended);
    for (const pb::Attempt& attempt : ended.attempt()) leaves |= EndedUnasked(attempt);
  }
  if (leaves && node->joined) Lose(moment, *node, "its agent is ending");
  for (const uint32_t task : message.returned().task()) {
    if (task >= graph_.task_count()) continue;
    unsure_.erase(task);
    events_.push_back(core::TaskReturned{TaskId(task), id});
  }
  if (message.has_problem()) {
    Tell(StrCat("node ", node->name, ": ", message.problem().text()));
  }
  if (phase_ == Phase::kGathering && awaited_.empty() && unsure_.empty()) EndGathering(moment);
  Wake();
}

void RunDriver::TakeStarted(NodeId id, const pb::TasksStarted& started) {
  for (int i = 0; i < started.task_size(); ++i) {
    const uint32_t index = started.task(i);
    if (index >= graph_.task_count()) continue;
    const TaskId task(index);
    unsure_.erase(index);
    if (!IsAt(task, id) && !NeverSent(task)) continue;
    NoteStarted(task, id, i < started.start_ns_size() ? started.start_ns(i) : 0);
    events_.push_back(core::TaskStarted{task, id});
  }
}

void RunDriver::TakeEnded(const Moment& moment, Node& node, const pb::TasksEnded& ended) {
  for (const pb::Attempt& attempt : ended.attempt()) TakeAttempt(moment, node, attempt);
  recorder_.AcknowledgeLater(node.id, node.incarnation, ended.sequence());
}

/// An agent that was told to end by somebody else (its job step, its starter's death) interrupts its tasks:
/// for the run they are lost with it.
bool RunDriver::EndedUnasked(const pb::Attempt& attempt) const {
  return attempt.end() == pb::Attempt::INTERRUPTED && !interrupted_;
}

void RunDriver::TakeAttempt(const Moment&, Node& node, const pb::Attempt& attempt) {
  if (attempt.task() >= graph_.task_count() || EndedUnasked(attempt)) return;
  const TaskId task(attempt.task());
  unsure_.erase(task.value);
  if (!recorder_.IsNew(task, attempt.attempt())) return;
  const bool here = IsAt(task, node.id, attempt.attempt());
  if (!here && !NeverSent(task)) return;  // it was given to another node meanwhile, or here once more
  const graph::Profile& profile = graph_.profile(task);
  journal::AttemptRecord record = AttemptFromProto(attempt, node.id);
  const int64_t run_ns = record.start_ns > 0 ? std::max<int64_t>(0, record.end_ns - record.start_ns) : 0;
  busy_ns_ += run_ns * profile.shape.cores;
  ++node.ended;
  NoteEnded(task);
  if (const auto bytes = input_bytes_.find(task.value); bytes != input_bytes_.end()) {
    record.local_bytes = bytes->second.local;
    record.remote_bytes = bytes->second.remote;
    input_bytes_.erase(bytes);
  }
  const bool never_began = record.start_ns == 0 && (record.end == journal::End::kCancelled ||
                                                    record.end == journal::End::kInterrupted);
  if (!never_began) {
    if (hooks_.attempt_ended) hooks_.attempt_ended(record);
    recorder_.Attempt(std::move(record));
  }
  if (attempt.output_sizes_size() > 0) {
    const auto outputs = graph_.outputs(task);
    for (int i = 0; i < attempt.output_sizes_size() && i < static_cast<int>(outputs.size()); ++i) {
      if (attempt.output_sizes(i) >= 0) {
        events_.push_back(core::FileStored{outputs[i], node.id, attempt.output_sizes(i)});
      }
    }
  }
  if (!here) events_.push_back(core::TaskStarted{task, node.id, attempt.attempt()});
  events_.push_back(core::TaskEnded{task, node.id, OutcomeOf(attempt), Duration(run_ns), attempt.attempt()});
}

core::Outcome RunDriver::OutcomeOf(const pb::Attempt& attempt) const {
  switch (attempt.end()) {
    case pb::Attempt::CANCELLED:
      return core::Cancelled{};
    case pb::Attempt::INTERRUPTED:
      return core::Interrupted{};
    case pb::Attempt::LOST:
    case pb::Attempt::RUNNING:
      return core::Lost{};
    default:
      break;
  }
  const int32_t code = ExitCodeOf(attempt);
  if (attempt.end() == pb::Attempt::EXITED && code == 0) return core::Done{};
  const std::vector<int32_t>& retry_on = graph_.profile(TaskId(attempt.task())).retry_on;
  const bool retryable =
      retry_on.empty() || std::find(retry_on.begin(), retry_on.end(), code) != retry_on.end();
  return core::Failed{code, retryable};
}

void RunDriver::NoteStarted(TaskId task, NodeId node, int64_t start_ns) {
  const uint32_t cores = graph_.profile(task).shape.cores;
  if (!running_.try_emplace(task.value, Running{node, start_ns, cores}).second) return;
  running_cores_ += cores;
  running_start_ns_ += static_cast<uint64_t>(start_ns) * cores;
  if (Node* at = nodes_.Find(node)) ++at->running;
}

void RunDriver::NoteEnded(TaskId task) {
  const auto found = running_.find(task.value);
  if (found == running_.end()) return;
  running_cores_ -= found->second.cores;
  running_start_ns_ -= static_cast<uint64_t>(found->second.start_ns) * found->second.cores;
  if (Node* at = nodes_.Find(found->second.node); at != nullptr && at->running > 0) --at->running;
  running_.erase(found);
}

// --- what follows

void RunDriver::Flush(const Moment& moment) {
  wake_pending_ = false;
  if (phase_ == Phase::kRunning && !events_.empty()) {
    actions_.clear();
    scheduler_.HandleAll(moment.now, events_, &actions_);
    events_.clear();
    for (const core::Action& action : actions_) Act(moment, action);
  }
  SendAll();
}

void RunDriver::Act(const Moment& moment, const core::Action& action) {
  if (const auto* start = std::get_if<core::StartTask>(&action)) {
    Start(*start);
  } else if (const auto* settled = std::get_if<core::TaskSettled>(&action)) {
    Settle(moment, *settled);
  } else if (const auto* back = std::get_if<core::TakeBack>(&action)) {
    if (Node* node = nodes_.Find(back->node)) nodes_.Outbox(*node).add_take_back(back->task.value);
  } else if (const auto* cancel = std::get_if<core::CancelTask>(&action)) {
    if (Node* node = nodes_.Find(cancel->node))
      nodes_.Outbox(*node).mutable_cancel()->add_task(cancel->task.value);
  } else if (const auto* aside = std::get_if<core::NodePutAside>(&action)) {
    if (Node* node = nodes_.Find(aside->node)) {
      node->put_aside = true;
      Tell(StrCat("node ", node->name, " is put aside: ", aside->failures,
                  " tasks in a row failed there at once"));
    }
  } else if (std::holds_alternative<core::RunComplete>(action)) {
    complete_ = true;
  }
}

void RunDriver::Settle(const Moment& moment, const core::TaskSettled& settled) {
  if (IsUnwanted(settled.task)) return;
  // What an interruption or the time limit kept from running stays open: --resume goes on there.
  const bool stays_open = settled.reason == core::Reason::kInterrupted ||
                          settled.reason == core::Reason::kNoTimeLeft ||
                          (interrupted_ && settled.reason == core::Reason::kStopped) ||
                          (settled.reason == core::Reason::kDependency && settled.because &&
                           recorder_.fate(settled.because) == journal::TaskFate::kOpen);
  if (stays_open) {
    left_open_ += settled.state == core::FinalState::kSkipped ? 1 : 0;
    return;
  }
  if (settled.reason == core::Reason::kNoNodeFits) {
    journal::AttemptRecord record;
    record.task = settled.task;
    record.attempt = recorder_.NextAttempt(settled.task);
    record.end = journal::End::kNotStarted;
    record.end_ns = moment.wall_ns();
    record.message = NoNodeFits(graph_.profile(settled.task).shape);
    recorder_.Attempt(std::move(record));
  }
  recorder_.Fate(settled.task, FateOf(settled.state), settled.because);
}

void RunDriver::Start(const core::StartTask& start) {
  Node* node = nodes_.Find(start.node);
  if (node == nullptr) return;
  pb::ToAgent& out = nodes_.Outbox(*node);
  const TaskId task = start.task;
  const ProfileId profile = graph_.profile_id(task);
  if (!node->profiles_sent[profile.value]) {
    node->profiles_sent[profile.value] = true;
    ProfileToProto(graph_.profile(profile), profile.value, out.add_profile());
  }
  pb::Task* message = out.add_start();
  message->set_id(task.value);
  message->set_attempt(start.attempt);
  message->set_profile(profile.value);
  message->set_form(static_cast<uint32_t>(graph_.form(task)));
  const std::string_view command = graph_.command(task), name = graph_.given_name(task);
  message->set_command(command.data(), command.size());
  if (!name.empty()) message->set_name(name.data(), name.size());
  message->set_ahead(start.ahead);
  if (start.local_bytes + start.remote_bytes > 0)
    input_bytes_[task.value] = {start.local_bytes, start.remote_bytes};
  const auto outputs = graph_.outputs(task);
  if (outputs.empty()) return;
  if (start.attempt > 1 || options_.epoch > 1 || perhaps_begun_.contains(task.value)) {
    for (const FileId file : outputs) message->add_remove_first(std::string(graph_.file_name(file)));
  }
  if (options_.nodes_expected > 1 && flow_.settings.locality && !graph_.successors(task).empty()) {
    for (const FileId file : outputs) message->add_outputs(std::string(graph_.file_name(file)));
  }
}

void RunDriver::SendAll() {
  nodes_.SendAll();
}

void RunDriver::Committed(uint64_t sequence) {
  bool any = false;
  recorder_.Committed(sequence, [&](NodeId id, uint64_t incarnation, uint64_t agent_sequence) {
    Node* node = nodes_.Find(id);
    if (node == nullptr || node->incarnation != incarnation) return;
    nodes_.Outbox(*node).mutable_committed()->set_sequence(agent_sequence);
    any = true;
  });
  if (any) Wake();
}

void RunDriver::Cancel(const std::vector<TaskId>& tasks) {
  for (const TaskId task : tasks) events_.push_back(core::CancelRequested{task});
  Wake();
}

void RunDriver::Interrupt(const Moment& moment) {
  if (interrupted_) return;
  interrupted_ = true;
  EndGathering(moment);
  Flush(moment);  // what is believed to run is up to date
  events_.push_back(core::DrainRequested{});
  for (uint32_t i = 0; i < graph_.task_count(); ++i) {
    const core::TaskState state = scheduler_.state(TaskId(i));
    if (state != core::TaskState::kSent && state != core::TaskState::kRecalled &&
        state != core::TaskState::kRunning) {
      continue;
    }
    Node* node = nodes_.Find(scheduler_.node(TaskId(i)));
    if (node == nullptr) continue;
    pb::CancelTasks* cancel = nodes_.Outbox(*node).mutable_cancel();
    cancel->set_interrupted(true);
    cancel->add_task(i);
  }
  Wake();
}

void RunDriver::EndTime(const Moment& moment, WallTime end) {
  const Duration left = end - moment.wall - flow_.settings.end_margin;
  events_.push_back(core::EndTimeKnown{moment.now + left});
  Wake();
}

void RunDriver::ShutDownAgents(const std::string& reason) {
  for (const auto& node : nodes_.all()) {
    if (node->channel != nullptr) nodes_.Outbox(*node).mutable_shutdown()->set_reason(reason);
  }
  SendAll();
}

void RunDriver::RecordNodesLeft(const Moment& moment) {
  for (const auto& node : nodes_.all()) {
    if (!node->joined) continue;
    recorder_.Node(RecordOf(*node, moment.wall_ns()));
  }
}

// --- answers

void RunDriver::Snapshot(const Moment& moment, bool with_nodes, pb::Progress* progress) const {
  const core::Counts& counts = scheduler_.counts();
  // What is not wanted counts as done for the scheduler, and not at all for people.
  progress->set_total(graph_.task_count() - unwanted_);
  progress->set_done(counts.done > unwanted_ ? counts.done - unwanted_ : 0);
  progress->set_failed(counts.failed);
  progress->set_skipped(counts.skipped - left_open_);
  progress->set_cancelled(counts.cancelled);
  progress->set_running(std::min<uint64_t>(counts.running + counts.sent, nodes_.joined_slots()));
  progress->set_attempts(earlier_attempts_ + counts.attempts);
  progress->set_losses(losses_);
  progress->set_local_bytes(static_cast<uint64_t>(earlier_local_bytes_) + counts.local_bytes);
  progress->set_remote_bytes(static_cast<uint64_t>(earlier_remote_bytes_) + counts.remote_bytes);
  progress->set_elapsed_ns((moment.wall - flow_.settings.started).count());
  const uint64_t running_ns = running_cores_ * static_cast<uint64_t>(moment.wall_ns()) - running_start_ns_;
  progress->set_busy_core_ns(busy_ns_ + static_cast<int64_t>(running_ns));
  progress->set_slots(most_slots_);
  progress->set_complete(complete_);
  progress->set_epoch(options_.epoch);
  progress->set_stopping(interrupted_);
  if (!with_nodes) return;
  for (const auto& node : nodes_.all()) {
    pb::NodeStatus* status = progress->add_node();
    status->set_name(node->name);
    status->set_slots(node->capacity.slots);
    status->set_running(node->running);
    status->set_ended(node->ended);
    status->set_state(!node->joined ? "lost" : node->put_aside ? "closed" : "joined");
    status->set_incarnations(node->incarnations);
  }
}

bool RunDriver::IsAbsent(const std::string& name) const {
  const Node* node = nodes_.FindNamed(name);
  if (node == nullptr || node->incarnations == 0) return all_joined_;
  return !node->joined;
}

std::string RunDriver::Explain(TaskId task) const {
  const core::Explanation why = scheduler_.Explain(task);
  std::string text =
      StrCat("task ", graph_.TaskName(task), " (level ", graph_.level(task), "): ", why.text, "\n");
  if (!why.waits_for.empty()) {
    text += "waits for:";
    for (const TaskId before : why.waits_for) text += StrCat(" ", graph_.TaskName(before));
    text += "\n";
  }
  if (!why.candidates.empty()) {
    text += "candidate nodes:";
    for (const NodeId id : why.candidates) {
      const Node* node = nodes_.Find(id);
      text += StrCat(" ", node == nullptr ? "?" : node->name);
    }
    text += "\n";
  }
  if (const Node* node = nodes_.Find(why.node)) text += StrCat("node: ", node->name, "\n");
  return text;
}

}  // namespace harrow::server
