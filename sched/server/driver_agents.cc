// Agents that come, fall silent, come back, are replaced or lost, and what they tell of their attempts.
//
// A node of which nothing is heard is *silent*: the scheduler gives it nothing more, and what it has stays
// where it is. Either it is heard of again, and nothing has happened, or after `fence` it is *lost*, and its
// attempts start again elsewhere. By then they do not run any more: an agent that nobody has answered stops
// its tasks a little earlier, and lets them go on only when a server has adopted them (agent/fence.h). Where
// most nodes fall silent at once it is this server that is cut off, so they are waited for as long as agents
// live without a server (the lease). An agent of another incarnation on the node shows at once that the one
// before has ended: its warden waits for that. While the one before still answers, it is told to end, and its
// place is taken when it has gone.
//
// The batch system is not asked about a silent node. Slurm calls a node down when its slurmd has not answered
// for SlurmdTimeout, 300 seconds unless a site says otherwise: long after the fence, and without knowing
// whether what runs there has ended.
//
// Who holds the run's key may say that it is the agent of any node: names are not bound to agents by secrets.
// There is no place for such a secret that the tasks could not read: they run as the same user, see the same
// run directory, and may trace their agent. So a secret of each node's own would bind nobody who means harm,
// and who does not is kept apart by incarnations: two agents of one name (a node listed twice, nodes that
// have the same host name) are noticed, and end with one of them. Other users have no key (wire/).
//
// A lost attempt keeps its row until the next of its task is sent. Till then it goes on, running or ended,
// where its agent comes back with it; with the next its loss is recorded, and whatever is told of it later is
// dropped.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "server/driver.h"
#include "server/messages.h"
#include "wire/attempt_id.h"
#include "wire/version.h"

namespace harrow::server {
namespace {

using State = AttemptTable::State;
using Row = AttemptTable::Row;

constexpr uint32_t kMostSlots = 65536;
constexpr size_t kMostReplaced = 64;   // incarnations of a node that are remembered
constexpr uint32_t kMostUnknown = 64;  // attempts of a task of which this server has not heard

}  // namespace

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
  if (hello.node().slots() > kMostSlots)
    return Status(Code::kRefused, "the agent has more slots than a node can have");
  Node& node = nodes_.Named(hello.node().name());
  if (std::find(node.replaced.begin(), node.replaced.end(), hello.incarnation()) != node.replaced.end())
    return Status(Code::kRefused, "another agent has taken its place on the node");
  Schedule(moment);  // what is believed to be where is up to date
  const bool same_agent = node.incarnation == hello.incarnation();
  const bool answers = moment.now - node.heard <= options_.dead_after;
  if (!same_agent && node.joined && (node.successor || (node.channel != nullptr && answers))) {
    ReplaceLater(moment, node, std::move(channel), message);
    return node.id;
  }
  Enter(moment, node, std::move(channel), message);
  return node.id;
}

/// The node's agent answers, and is to end before another takes its place.
void RunDriver::ReplaceLater(const Moment& moment, Node& node, std::shared_ptr<wire::Channel> channel,
                             const pb::FromAgent& message) {
  Time since = moment.now;
  if (node.successor) {
    const uint64_t before = node.successor->message.hello().incarnation();
    if (before == message.hello().incarnation()) {  // it has dialled again
      since = node.successor->since;
    } else {
      node.replaced.push_back(before);
    }
    if (node.successor->channel != nullptr) hooks_.drop_agent(node.successor->channel.get());
  } else {
    Tell(StrCat("node ", node.name, ": a second agent has come; the first one is told to end"));
    node.replaced.push_back(node.incarnation);
    pb::Shutdown* shutdown = nodes_.Outbox(node).mutable_shutdown();
    shutdown->set_reason("another agent has taken its place on the node");
    shutdown->set_refused(true);
    FallSilent(node, "its agent was told to end");
  }
  if (node.replaced.size() > kMostReplaced) node.replaced.erase(node.replaced.begin());
  node.successor = std::make_unique<Node::Successor>(
      Node::Successor{.channel = std::move(channel), .message = message, .since = since});
  Wake();
}

void RunDriver::TakePlace(const Moment& moment, Node& node) {
  const std::unique_ptr<Node::Successor> next = std::exchange(node.successor, nullptr);
  if (next->channel == nullptr) return;  // the place is free when it dials again
  Schedule(moment);
  Enter(moment, node, next->channel, next->message);
}

void RunDriver::Enter(const Moment& moment, Node& node, std::shared_ptr<wire::Channel> channel,
                      const pb::FromAgent& message) {
  const pb::AgentHello& hello = message.hello();
  const bool same_agent = node.incarnation == hello.incarnation();
  if (node.channel != nullptr && node.channel != channel)
    hooks_.drop_agent(std::exchange(node.channel, nullptr).get());
  if (node.successor && node.successor->channel != nullptr) hooks_.drop_agent(node.successor->channel.get());
  node.successor.reset();
  if (!same_agent && node.joined) {
    Lose(moment, node, "its agent was started again");
    // What it holds still need not be made again.
    if (hello.held().empty()) Schedule(moment);
  }
  // What was to be told to the agent by its last connection; what of it still holds is found below.
  node.outbox.Clear();
  node.acknowledged = 0;
  node.channel = std::move(channel);
  node.silent_ticks = 0;
  node.heard = moment.now;
  node.suspect = node.given_up = false;
  node.profiles_sent.assign(graph_.profile_count(), false);
  node.capacity = {
      .slots = hello.node().slots(), .devices = hello.node().gpus(), .memory = hello.node().memory()};
  if (const auto granted = options_.memory_granted.find(node.name);
      granted != options_.memory_granted.end()) {
    const bool more = node.capacity.memory > granted->second || node.capacity.memory == 0;
    if (more) node.capacity.memory = granted->second;
  }
  const bool rejoined = node.joined;
  if (awaited_.contains(node.name) && node.earlier_incarnation != hello.incarnation()) numbers_unsure_ = true;
  node.leaving = false;
  if (!same_agent) {
    node.incarnation = hello.incarnation();
    node.output_file = hello.output_file();
    node.joined_ns = moment.wall_ns();
    ++node.incarnations;
    node.topology = hello.node().topology();
    os::LogInfo(
        StrCat("node ", node.name, " joined: ", node.capacity.slots, " slots, ", hello.node().topology()));
  } else {
    os::LogInfo(StrCat("node ", node.name, " is connected again"));
  }
  if (!rejoined)
    recorder_.Node(NodeToRecord(node, 0));  // also one that was recorded as lost, and was only cut off
  if (!node.number_at) node.number_at = NodesTalk() ? recorder_.added() : 0;
  node.joined = true;
  node.silent = false;
  // Also of a node that is here already: what it was asked for may not have arrived.
  events_.push_back(core::NodeJoined{node.id, node.capacity});
  CloseIfDrained(node);
  if (!hello.unfit().empty()) {
    // It is there, and given nothing. Told once: it may dial again.
    events_.push_back(core::NodeClosed{node.id});
    if (!std::exchange(node.put_aside, true)) TellUnfit(node, hello.unfit());
    node.unfit = hello.unfit();
  } else if (staging_) {
    staging_->Joined(node.id);
  }
  if (!rejoined && !all_joined_ && nodes_.joined_count() >= options_.nodes_expected) AllJoined();
  node.session_slots = node.capacity.slots;
  Welcome(node);
  Reconcile(moment, node, message);
  awaited_.erase(node.name);
  Handle(moment, node.id, message);
  if (!fatal_.empty()) Interrupt(moment);
  Wake();
}

/// Nodes may have something to say to each other as soon as they are there, by their numbers.
bool RunDriver::NodesTalk() const {
  return local_files() || !graph_.streams().empty() || graph_.has_gangs();
}

/// Where no node is fit the run is interrupted by the caller: tasks stay open, and can be gone on with.
void RunDriver::AllJoined() {
  all_joined_ = true;
  std::string unfit;
  for (const auto& node : nodes_.all()) {
    if (!node->joined) continue;
    if (node->unfit.empty()) {
      events_.push_back(core::AllNodesJoined{});
      return;
    }
    unfit = StrCat("node ", node->name, ": ", node->unfit);
  }
  if (unfit.empty()) {
    events_.push_back(core::AllNodesJoined{});
  } else if (fatal_.empty()) {
    fatal_ = StrCat("no node is fit to run tasks; ", unfit);
  }
}

void RunDriver::Welcome(Node& node) {
  pb::ToAgent& outbox = nodes_.Outbox(node);
  if (end_time_) outbox.set_end_time_ns(end_time_->time_since_epoch().count());
  pb::Welcome* welcome = outbox.mutable_welcome();
  welcome->set_version(wire::kProtocolVersion);
  welcome->set_epoch(options_.epoch);
  welcome->set_node(node.id.value);
  welcome->set_submit_dir(flow_.settings.submit_dir);
  for (const auto& [name, value] : flow_.settings.env) {
    pb::EnvVar* variable = welcome->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  welcome->set_flow_id(flow_.settings.flow_id);
  welcome->set_output_limit(flow_.settings.output_limit);
  welcome->set_heartbeat_ns(options_.heartbeat.count());
  welcome->set_kill_wait_ns(options_.kill_wait.count());
  welcome->set_shell(flow_.settings.shell);
  welcome->set_lease_ns(flow_.settings.lease.count());
  welcome->set_fence_ns(flow_.settings.fence.count());
  welcome->set_local_files(local_files());
  if (local_files()) welcome->set_exchange(options_.exchange);
  welcome->set_plain_transfers(!flow_.settings.transfer_encryption);
}

/// May an attempt that an agent tells of be taken in, where no row is its?
bool RunDriver::MayAdopt(AttemptId id) {
  if (!recorder_.IsNew(id.task, id.number)) return false;
  const uint32_t known = std::max(recorder_.last_attempt(id.task), scheduler_.attempts(id.task));
  if (id.number > known + kMostUnknown) return false;
  const Row* row = attempts_.Find(id.task);
  if (phase_ != Phase::kRunning) {
    // Of two that come back, the later one counts: it may have removed what the earlier one made.
    return (recorder_.fate(id.task) == journal::TaskFate::kOpen || MayBeRemade(id.task)) &&
           id.number > recorder_.last_attempt(id.task) && (row == nullptr || row->id.number < id.number);
  }
  return row == nullptr && scheduler_.MayAdopt(id);
}

/// The row of an attempt that an agent tells of; null: it counts no more.
Row* RunDriver::FindOrAdopt(Node& node, AttemptId id) {
  if (Row* row = attempts_.Find(id, node.id)) return row;
  if (!MayAdopt(id)) return nullptr;
  if (const Row* earlier = attempts_.Find(id.task)) EndEarlier(*earlier);
  return &attempts_.Add(id, node.id, State::kSent);
}

void RunDriver::TakeStarted(const Moment& moment, Node& node, AttemptId id, int64_t start_ns) {
  Row* row = FindOrAdopt(node, id);
  if (row == nullptr) {
    EndSuperseded(node, id);
    return;
  }
  attempts_.Begin(row, start_ns > 0 ? start_ns : moment.wall_ns());
  events_.push_back(core::TaskStarted{id, node.id});
}

// Compares what the agent has with what it is believed to have. What was sent and never arrived is ready
// again.
void RunDriver::Reconcile(const Moment& moment, Node& node, const pb::FromAgent& message) {
  const pb::AgentHello& hello = message.hello();
  const size_t count = graph_.task_count();
  std::unordered_set<AttemptId> there;
  for (const pb::AttemptId& queued : hello.queued()) there.insert(wire::IdOf(queued));
  for (const pb::Attempt& attempt : hello.running()) there.insert(wire::IdOf(attempt));
  for (const pb::TasksEnded& ended : message.ended()) {
    for (const pb::Attempt& attempt : ended.attempt()) there.insert(wire::IdOf(attempt));
  }
  const std::vector<TaskId> believed = attempts_.At(node.id);
  for (const TaskId task : believed) {
    Row* row = attempts_.Find(task);
    if (row->gang) {
      ReconcilePart(moment, node, row, there.contains(row->id));
      continue;
    }
    if (there.contains(row->id)) continue;
    const AttemptId id = row->id;
    if (row->state == State::kRunning) {
      EndLost(moment, row, "its agent does not know it any more");
    } else {
      attempts_.Erase(task);
      events_.push_back(core::TaskReturned{id, node.id});
    }
  }
  for (const pb::Attempt& attempt : hello.running()) {
    const AttemptId id = wire::IdOf(attempt);
    if (id.task.value >= count) continue;
    if (IsPart(attempt, node)) {
      TakePartStarted(moment, node, id, attempt.has_gang() ? &attempt.gang() : nullptr, attempt.start_ns());
    } else {
      TakeStarted(moment, node, id, attempt.start_ns());
    }
  }
  for (const pb::AttemptId& queued : hello.queued()) {
    const AttemptId id = wire::IdOf(queued);
    const Row* row = id.task.value < count ? attempts_.Find(id, node.id) : nullptr;
    if (row != nullptr && row->state == State::kSent) continue;
    wire::SetId(id, nodes_.Outbox(node).add_take_back());
    if (phase_ == Phase::kGathering && id.task.value < count && MayAdopt(id))
      attempts_.Add(id, node.id, State::kReturning);
  }
  ReconcileFiles(moment, node, hello);
  TakeWritten(node, hello);
  if (!interrupted_) return;
  // It may not have arrived.
  for (const TaskId task : attempts_.At(node.id)) EndAt(node, attempts_.Find(task)->id);
}

/// It is lost by its agent's own word.
void RunDriver::EndLost(const Moment& moment, Row* row, const std::string& why, journal::End end) {
  const AttemptId id = row->id;
  const NodeId node = row->node;
  attempts_.Lose(row, moment.wall_ns(), why);
  RecordLost(*row, end);
  attempts_.Erase(id.task);
  events_.push_back(core::TaskEnded{.attempt = id, .node = node, .outcome = core::Lost{}});
}

void RunDriver::EndAt(Node& node, AttemptId id) {
  pb::CancelTasks* cancel = nodes_.Outbox(node).mutable_cancel();
  cancel->set_interrupted(true);
  wire::SetId(id, cancel->add_attempt());
}

/// Its task is settled, or a later attempt is out: it may not go on beside that. A server after this one that
/// knows nothing of all this is not to take its end for that of a cancelled task.
void RunDriver::EndSuperseded(Node& node, AttemptId id) {
  pb::CancelTasks* cancel = nodes_.Outbox(node).mutable_cancel();
  const bool cancelled = recorder_.fate(id.task) == journal::TaskFate::kCancelled;
  wire::SetId(id, cancelled ? cancel->add_attempt() : cancel->add_lost());
}

void RunDriver::Disconnected(const Moment& moment, NodeId id, const wire::Channel* channel) {
  Node* node = nodes_.Find(id);
  if (node == nullptr) return;
  if (node->successor && node->successor->channel.get() == channel) {
    node->successor->channel.reset();  // it dials again, and has been waiting since it first came
    return;
  }
  if (node->channel.get() != channel) return;
  node->channel.reset();
  os::LogWarning(StrCat("node ", node->name, ": the connection to its agent is gone"));
  if (local_files()) events_.push_back(core::NodeHungUp{id});
  // An agent ends when its tasks have; one that was cut off before is waited for.
  if (!attempts_.At(id).empty()) return;
  if (node->leaving && node->joined) Lose(moment, *node, "its agent has ended");
  if (node->successor) TakePlace(moment, *node);
}

void RunDriver::FallSilent(Node& node, const std::string& why) {
  if (std::exchange(node.silent, true)) return;
  os::LogWarning(StrCat("node ", node.name, " is silent: ", why));
  events_.push_back(core::NodeSilent{node.id});
  Wake();
}

void RunDriver::Lose(const Moment& moment, Node& node, const std::string& why) {
  const std::vector<TaskId> there = attempts_.At(node.id);
  const std::string line = StrCat("node ", node.name, " is lost: ", why);
  const uint32_t ran = attempts_.running(node.id);
  if (interrupted_) {
    os::LogWarning(line);
  } else {
    Tell(ran == 0 ? line
                  : StrCat(line, "; what ran there (", ran, ran == 1 ? " task" : " tasks", ") begins again"));
  }
  for (const TaskId task : there) {
    Row* row = attempts_.Find(task);
    if (row->gang) continue;
    // The scheduler has not heard of it: its number is used up all the same.
    if (row->state == State::kReturning) events_.push_back(core::TaskStarted{row->id, node.id});
    attempts_.Lose(row, moment.wall_ns(), why);
  }
  node.joined = node.silent = node.leaving = node.put_aside = false;
  LosePartsAt(moment, node, why);
  ReadMade(node);
  recorder_.Node(NodeToRecord(node, moment.wall_ns()));
  node.unfit.clear();
  events_.push_back(core::NodeLost{node.id});
  if (staging_ && !complete_) staging_->Lost(node.id);  // what it has when all is done stays on its disk
  ForgetFilesOf(node);
  Wake();
}

/// What an agent that says nothing any more wrote down of its tasks' outputs. It also tells of attempts that
/// began and were not reported as started before the agent was gone.
void RunDriver::ReadMade(const Node& node) {
  if (!hooks_.made_of) return;
  for (auto& [index, attempt] : hooks_.made_of(node.output_file)) {
    const TaskId task(index);
    if (index >= graph_.task_count() || recorder_.fate(task) == journal::TaskFate::kDone) continue;
    Row* row = attempts_.Find({task, attempt.attempt}, node.id);
    if (row != nullptr && !row->gang && row->start_ns == 0) {
      row->start_ns = attempt.begin_ns;
      // Also where it was sent ahead: it was no lesser attempt than others.
      events_.push_back(core::TaskStarted{row->id, node.id});
    }
    made::Note(std::move(attempt), &made_);
  }
}

/// Its loss is for good now. One that was sent ahead and is not known to have begun was none.
void RunDriver::RecordLost(const Row& row, journal::End end) {
  if (row.ahead && row.start_ns == 0) return;
  known_.losses += end == journal::End::kLost ? 1 : 0;
  known_.core_seconds += CoreSeconds(row.start_ns, row.lost_ns, row.cores);
  journal::AttemptRecord record;
  record.task = row.id.task;
  record.attempt = row.id.number;
  record.node = row.node;
  record.end = end;
  record.start_ns = row.start_ns;
  record.end_ns = row.lost_ns;
  record.local_bytes = row.local_bytes;
  record.remote_bytes = row.remote_bytes;
  record.home_bytes = row.home_bytes;
  record.message = row.why;
  recorder_.Attempt(std::move(record));
}

void RunDriver::Tick(const Moment& moment) {
  bool others = false;  // are waited for still
  for (const auto& node : nodes_.all()) {
    ++node->silent_ticks;
    if (node->joined || !all_joined_ || node->incarnation == 0 || node->given_up) continue;
    if (node->silent_ticks < options_.return_ticks + options_.setup_ticks) {
      others = true;
      continue;
    }
    node->given_up = some_given_up_ = true;
    Tell(StrCat("node ", node->name, " is not waited for any longer"));
  }
  if (!others && std::exchange(some_given_up_, false)) {
    AllJoined();
    Wake();
  }
  if (!all_joined_ && nodes_.joined_count() > 0 &&
      ++join_ticks_ >= options_.join_ticks + options_.setup_ticks) {
    std::string names;
    const std::vector<std::string> absent = NotCome();
    for (size_t i = 0; i < std::min(absent.size(), kUnfitNamed); ++i)
      names += StrCat(i == 0 ? ": not " : ", ", absent[i]);
    if (absent.size() > kUnfitNamed) names += ", ...";
    Tell(StrCat("only ", nodes_.joined_count(), " of ", options_.nodes_expected, " nodes have come", names,
                "; the run goes on without the others"));
    AllJoined();
    Wake();
  }
  if (!fatal_.empty()) Interrupt(moment);
  if (phase_ == Phase::kGathering && ++gather_ticks_ >= options_.gather_ticks) EndGathering(moment);
}

// A loaded machine makes agents late, and this server; neither means that a node is gone. So what the kernels
// know counts: that of a living node acknowledges, whatever its processes do, and this one's asks it. Where
// there is no connection to ask by, or the agent hangs on a living node, it must have been silent when looked
// at twice: in between all has been read that had come while this server was late.
void RunDriver::FindSilent(const Moment& moment) {
  if (wake_at_ && *wake_at_ <= moment.now) {
    wake_at_.reset();
    events_.push_back(core::TimeCame{});
    Wake();
  }
  // A message of its own for each commit and agent would be half of all that is sent.
  if (nodes_.SendAcknowledgements()) Wake();
  LookAtPuts();
  if (saves_) Wake();
  if (staged_until_ && moment.now >= *staged_until_ && !events_.empty()) Wake();
  size_t joined = 0, silent = 0;
  for (const auto& node : nodes_.all()) {
    if (!node->joined) continue;
    ++joined;
    if (!node->silent) FindSilent(moment, *node);
    silent += node->silent && !node->leaving ? 1 : 0;
  }
  const Duration lease = std::max<Duration>(flow_.settings.lease, flow_.settings.fence);
  const Duration patience = 2 * silent > joined ? lease : flow_.settings.fence;
  for (const auto& node : nodes_.all()) {
    if (node->joined && node->silent && moment.now - node->heard > patience) {
      Lose(moment, *node, StrCat("nothing was heard of it for ", FormatDuration(patience)));
      if (node->channel != nullptr) hooks_.drop_agent(std::exchange(node->channel, nullptr).get());
    }
    if (node->successor && node->successor->channel != nullptr &&
        moment.now - node->successor->since > flow_.settings.fence)
      TakePlace(moment, *node);
  }
}

void RunDriver::FindSilent(const Moment& moment, Node& node) {
  const Duration silent = moment.now - node.heard;
  const bool dead = silent > options_.dead_after && node.channel != nullptr &&
                    node.channel->unheard() > options_.dead_after;
  const bool suspect = silent > (node.channel == nullptr ? options_.gone_after : options_.hung_after);
  const bool again = std::exchange(node.suspect, suspect) && suspect;
  if (!again && !dead) return;
  FallSilent(node, dead ? "nothing is heard of it" : "nothing is heard of its agent");
  if (dead) hooks_.drop_agent(std::exchange(node.channel, nullptr).get());
}

// --- what agents say

void RunDriver::Handle(const Moment& moment, NodeId id, const pb::FromAgent& message) {
  Node* node = nodes_.Find(id);
  if (node == nullptr) return;
  node->silent_ticks = 0;
  node->heard = moment.now;
  node->suspect = false;
  if (node->joined && node->silent && !node->leaving && !node->successor) {
    os::LogInfo(StrCat("node ", node->name, " is heard of again"));
    node->silent = false;
    events_.push_back(core::NodeJoined{id, node->capacity});
    CloseIfDrained(*node);
  }
  if (message.has_heartbeat()) {
    *nodes_.Outbox(*node).mutable_heartbeat() = message.heartbeat();
    if (message.heartbeat().round_trip_ns() > 0) {
      events_.push_back(core::RoundTripMeasured{id, Duration(message.heartbeat().round_trip_ns())});
    }
  }
  if (message.peer_address_size() > 0) TakeAddresses(*node, message);
  // Before the ends of those that read them.
  for (const pb::FileNote& note : message.file()) TakeFile(moment, *node, note);
  const pb::TasksStarted& started = message.started();
  for (int i = 0; i < started.attempt_size() && i < started.start_ns_size(); ++i) {
    const AttemptId attempt = wire::IdOf(started.attempt(i));
    if (attempt.task.value >= graph_.task_count()) continue;
    if (HasPart(attempt, *node)) {
      TakePartStarted(moment, *node, attempt, nullptr, started.start_ns(i));
    } else if (MayBeInParts(attempt.task) && attempts_.Find(attempt, id) == nullptr) {
      EndSuperseded(*node, attempt);  // nobody knows what else there is of it
    } else {
      TakeStarted(moment, *node, attempt, started.start_ns(i));
    }
  }
  TakeMissed(*node, message);
  for (const pb::TasksEnded& ended : message.ended()) {
    for (const pb::Attempt& attempt : ended.attempt()) TakeAttempt(moment, *node, attempt);
    recorder_.AcknowledgeLater(node->id, node->incarnation, ended.sequence());
  }
  // Where nothing of it was new no commit is to come.
  if (message.ended_size() > 0 && recorder_.all_committed()) Committed(recorder_.added());
  for (const pb::AttemptId& returned : message.returned().attempt()) {
    const AttemptId attempt = wire::IdOf(returned);
    if (HasPart(attempt, *node)) {
      TakePartBack(moment, *node, attempt);
      continue;
    }
    Row* row = attempts_.Find(attempt, id);
    if (row == nullptr) continue;
    if (row->state == State::kRunning) {  // it was believed to have begun: the answer took too long
      EndLost(moment, row, "it was taken back");
      continue;
    }
    attempts_.Erase(attempt.task);
    events_.push_back(core::TaskReturned{attempt, id});
  }
  if (!message.unfit().empty()) {
    events_.push_back(core::NodeClosed{id});
    if (!std::exchange(node->put_aside, true)) TellUnfit(*node, message.unfit());
    node->unfit = message.unfit();
    if (staging_) {
      staging_->Lost(id);
    } else {
      LoseFilesOf(*node);
    }
    if (all_joined_) AllJoined();
  }
  if (message.has_problem()) {
    TellProblem(*node, message.problem().text());
    if (message.problem().fatal() && fatal_.empty()) {
      fatal_ = StrCat("node ", node->name, ": ", message.problem().text());
      Interrupt(moment);
    }
  }
  if (AllGathered()) EndGathering(moment);
  Wake();
}

/// An agent that was told to end by somebody else (its job step, its starter's death) interrupts its tasks:
/// for the scheduler they are lost. A time limit or scancel does so, some moments before the server itself is
/// told. It gets nothing more; what else it has it still tells.
void RunDriver::TakeEndedUnasked(const Moment& moment, Node& node, const pb::Attempt& attempt) {
  AgentEnds(node);
  const AttemptId id = wire::IdOf(attempt);
  Row* row = FindOrAdopt(node, id);
  if (row == nullptr) return;
  NoteMade(attempt);
  if (row->state == State::kRunning || attempt.start_ns() < attempt.end_ns()) {
    EndLost(moment, row, "its agent was ending", journal::End::kInterrupted);
    return;
  }
  attempts_.Erase(id.task);
  events_.push_back(core::TaskReturned{id, node.id});
}

void RunDriver::AgentEnds(Node& node) {
  if (std::exchange(node.leaving, true)) return;
  FallSilent(node, "its agent is ending");
  // One that does not, as it was a server before this one that interrupted its tasks, is to begin anew.
  nodes_.Outbox(node).mutable_shutdown()->set_reason("its tasks were interrupted");
}

/// What the attempt made of its outputs, for the next of its task.
void RunDriver::NoteMade(const pb::Attempt& attempt) {
  if (attempt.has_made()) {
    made_[attempt.task()] = {.task = attempt.task(),
                             .attempt = attempt.attempt(),
                             .begin_ns = attempt.made().begin_ns(),
                             .end_ns = attempt.made().end_ns(),
                             .found = {attempt.made().found().begin(), attempt.made().found().end()}};
  } else if ((attempt.end() == pb::Attempt::EXITED && attempt.code() == 0) || attempt.end() == pb::Attempt::CHECKPOINTED) {
    made_.erase(attempt.task());  // also what its agent had written down when this server began
  }
}

void RunDriver::TakeAttempt(const Moment& moment, Node& node, const pb::Attempt& attempt) {
  const AttemptId id = wire::IdOf(attempt);
  if (id.task.value >= graph_.task_count()) return;
  if (IsPart(attempt, node)) return TakePart(moment, node, attempt);
  if (attempt.end() == pb::Attempt::INTERRUPTED && !interrupted_)
    return TakeEndedUnasked(moment, node, attempt);
  const bool is_new = recorder_.IsNew(id.task, id.number);
  Row* row = FindOrAdopt(node, id);
  if (row == nullptr) return;  // told before, or given up, and another attempt is out or has decided
  journal::AttemptRecord record = AttemptFromProto(attempt, node.id);
  const int64_t run_ns = record.start_ns > 0 ? std::max<int64_t>(0, record.end_ns - record.start_ns) : 0;
  known_.core_seconds += CoreSeconds(record.start_ns, record.end_ns, row->cores);
  ++node.ended;
  CountUnknownInput(row);
  record.local_bytes = row->local_bytes;
  record.remote_bytes = row->remote_bytes;
  record.home_bytes = row->home_bytes;
  attempts_.Erase(id.task);
  core::Outcome outcome = OutcomeOf(record, attempt.no_room());
  // One that reads streams waits for what comes; what it computes is the time of its CPUs.
  const Duration computed = graph_.streams_read(id.task).empty()
                                ? Duration(-1)
                                : Duration(std::chrono::microseconds(record.user_us + record.system_us));
  if (auto* left = std::get_if<core::Checkpointed>(&outcome)) left->took = Duration(attempt.checkpoint().took_ns());
  const bool lost = record.end == journal::End::kLost;
  known_.losses += lost ? 1 : 0;
  const bool never_began = record.start_ns == 0 && (lost || record.end == journal::End::kCancelled ||
                                                    record.end == journal::End::kInterrupted);
  if (!never_began && is_new) {
    if (hooks_.attempt_ended) hooks_.attempt_ended(record);
    recorder_.Attempt(std::move(record));
    TellDropped(attempt);
  }
  NoteMade(attempt);
  TakeMadeFiles(moment, node, attempt);
  NoteSizes(node, attempt);
  TakeRead(attempt);
  const int64_t bytes = attempt.written() - 1;
  if (bytes >= 0 && std::holds_alternative<core::Done>(outcome) && graph_.kind(id.task))
    written_.Add(std::string(graph_.kind_name(graph_.kind(id.task))), bytes);
  events_.push_back(core::TaskEnded{id, node.id, outcome, Duration(run_ns), computed, bytes});
}

/// Of its outputs, where the server wants to know them.
void RunDriver::NoteSizes(const Node& node, const pb::Attempt& attempt) {
  const auto outputs = graph_.outputs(TaskId(attempt.task()));
  for (int i = 0; i < attempt.output_sizes_size() && i < static_cast<int>(outputs.size()); ++i) {
    if (attempt.output_sizes(i) >= 0)
      events_.push_back(core::FileStored{outputs[i], node.id, attempt.output_sizes(i)});
  }
}

void RunDriver::EndTime(const Moment& moment, WallTime end) {
  const bool news = std::exchange(end_time_, end) != end;
  const Duration left = end - moment.wall - flow_.settings.end_margin;
  events_.push_back(core::EndTimeKnown{moment.now + left});
  for (const auto& node : nodes_.all()) {
    if (news && node->channel != nullptr)
      nodes_.Outbox(*node).set_end_time_ns(end.time_since_epoch().count());
  }
  Wake();
}

void RunDriver::ShutDownAgents(const std::string& reason) {
  for (const auto& node : nodes_.all()) {
    if (node->channel != nullptr) nodes_.Outbox(*node).mutable_shutdown()->set_reason(reason);
  }
  nodes_.SendAll(UINT64_MAX);
}

}  // namespace harrow::server
