// The second driver of core::Scheduler. All that happens at one instant is told to it at once: files stored,
// then tasks ended, in ascending order of tasks. Times are doubles that are only added, so that without I/O
// and latency a schedule ends at exactly the time that any other program gets that adds the same numbers.
//
// A start goes from the server to its node: it waits for the starts before it (rate), is on its way for the
// latency and jitter, and does not overtake on the way to one node. Each node has the agent::Core that a real
// agent has: it says which attempts begin, and what the node reports takes the latency. A begun task reads
// its inputs one after the other, runs, writes its outputs one after the other. One that is asked to end does
// so at once.
//
// An attempt of several nodes has a part on each, which goes there and is given slots as an attempt would be
// (gangs.h). It reads and writes at its lead node, runs as fast as the slowest of them, and ends on all at
// once.
//
// A node that fails takes its tasks and its page cache with it. Files on its disk stay readable from other
// nodes: the scheduler forgets these replicas, so nothing is placed by them, but no producer runs again.
//
// With local files (Options::core.local_files) each node has a store (stores.cc), and does with files what an
// agent does: it brings those that it is told to, an attempt waits for them before it has a slot, and results
// are written to the submit directory before the task is done. A node that fails takes its store with it, and
// what nobody else has is made again.

#include "sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/prefetch.h"
#include "sim/across.h"
#include "sim/simulated_run.h"

namespace harrow::sim {
namespace {

core::Options WithoutClients(core::Options options) {
  options.nobody_connects = true;
  return options;
}

}  // namespace

SimulatedRun::SimulatedRun(const graph::Graph& graph, const std::vector<Work>& work, const Options& options)
    : graph_(graph),
      work_(work),
      options_(options),
      cluster_(options.cluster),
      scheduler_(graph, WithoutClients(options.core)),
      jitter_draws_(options.seed ^ 0x510E527FADE682D1ull),
      failure_draws_(options.seed ^ 0x9B05688C2B3E6C1Full),
      streams_(graph, work) {
  const bool local = options.core.local_files;
  if (options.io) storage_.emplace(graph, cluster_, &transfers_, options.seed, local);
  if (!options.io && HasStreams() && (cluster_.nic > 0 || cluster_.hub > 0))
    links_.emplace(graph, cluster_, &transfers_, options.seed);
  if (local) stores_.emplace(graph, storage_ ? &*storage_ : nullptr, &transfers_, options.local_limit);
  for (const formats::ClusterModel::Nodes& group : cluster_.nodes) {
    for (uint32_t i = 0; i < group.count; ++i) {
      nodes_.push_back({.capacity = group.capacity, .core = NewCore(group.capacity), .speed = group.speed});
    }
  }
  outcome_.kinds.resize(graph.kind_count());
}

void SimulatedRun::Open(double now, bool elsewhere) {
  now_ = now;
  among_others_ = elsewhere;
  if (!elsewhere) outcome_.attempts.reserve(graph_.task_count());
  JoinAll();
}

double SimulatedRun::Next() const {
  return std::min({run_ends_.empty() ? Transfers::kNever : run_ends_.top().time, happenings_.Next(),
                   transfers_.Next(), wake_});
}

void SimulatedRun::Advance(double now) {
  now_ = now;
  if (wake_ == now_) {
    wake_ = Transfers::kNever;
    others_.push_back(core::TimeCame{});
  }
  while (happenings_.Next() == now_) Take(happenings_.Pop());
  while (!run_ends_.empty() && run_ends_.top().time == now_) {
    const uint32_t attempt = run_ends_.top().attempt;
    run_ends_.Pop();
    PrefetchSoon();
    if (Record(attempt).stage != Stage::kRunning) continue;
    if (!changes_speed_ || live_[attempt].run_ends == now_) RunEnded(attempt);
  }
  while (transfers_.Next() == now_) {
    const uint32_t who = transfers_.Pop();
    if (Storage::IsOwn(who)) {
      storage_->OwnEnded(who, now_);
    } else if (Stores::IsCopy(who)) {
      stores_->TransferEnded(who);
      TellArrivals();
    } else if ((who & Streams::kTag) != 0) {
      StreamCame(who & ~Streams::kTag);
    } else {
      TransferEnded(who);
    }
  }
  Tell();
  transfers_.Settle(now_);
}

void SimulatedRun::Tell(double now, const std::vector<core::Event>& events) {
  now_ = now;
  others_.insert(others_.end(), events.begin(), events.end());
  Tell();
  transfers_.Settle(now_);
}

void SimulatedRun::Close(double now) {
  now_ = now;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].up) LoseNode(n);
  }
  Tell();
  transfers_.Settle(now_);
}

Site::RunTimes SimulatedRun::TimesOf(const Shape& shape) const {
  const auto found = times_.find(shape);
  return found == times_.end() ? RunTimes() : found->second;
}

Outcome SimulatedRun::Finish() {
  SumUp();
  return std::move(outcome_);
}

agent::Core SimulatedRun::NewCore(const NodeCapacity& capacity) {
  return agent::Core({.numa_of_slot = std::vector<uint32_t>(capacity.slots),
                      .devices = capacity.devices,
                      .memory = capacity.memory});
}

void SimulatedRun::JoinAll() {
  for (const formats::ClusterModel::Late& late : cluster_.late) {
    if (late.node >= nodes_.size()) continue;
    nodes_[late.node].up = false;
    happenings_.Add(late.at, 0, Kind::kComes, late.node);
    ++expected_;
  }
  for (uint32_t i = 0; i < cluster_.changes.size(); ++i)
    happenings_.Add(cluster_.changes[i].at, 0, Kind::kSpeed, cluster_.changes[i].node, i);
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!nodes_[n].up) continue;
    others_.push_back(core::NodeJoined{NodeId(n), nodes_[n].capacity});
    if (Delayed())
      others_.push_back(
          core::RoundTripMeasured{NodeId(n), FromSeconds(2 * cluster_.latency + cluster_.jitter)});
    DrawFailure(n);
  }
  for (uint32_t i = 0; i < cluster_.failures.size(); ++i) {
    const formats::ClusterModel::Failure& failure = cluster_.failures[i];
    if (failure.node < nodes_.size()) happenings_.Add(failure.at, 0, Kind::kFails, failure.node, i);
  }
  others_.push_back(core::TasksAdded{TaskId(0), static_cast<uint32_t>(graph_.task_count()), among_others_});
  if (stores_) {
    PlaceInStores();
  } else if (storage_) {
    for (const auto& [file, node] : storage_->inputs()) {
      others_.push_back(core::FileStored{file, node, graph_.file_size(file)});
    }
  }
  if (!among_others_ && expected_ == 0) others_.push_back(core::AllNodesJoined{});
  Tell();
  transfers_.Settle(now_);
}

void SimulatedRun::PlaceInStores() {
  for (uint32_t n = 0; n < graph_.file_count(); ++n) {
    if (!stores_->IsKept(FileId(n))) others_.push_back(core::FileAbsent{FileId(n)});
  }
  const auto count = static_cast<uint32_t>(nodes_.size());
  for (const auto& [file, node] : PlaceInputs(graph_, options_.place, count, options_.seed)) {
    if (!stores_->IsKept(file)) continue;
    stores_->Add(file, node);
    others_.push_back(core::FileStored{file, node, graph_.file_size(file)});
  }
}

void SimulatedRun::DrawFailure(uint32_t node) {
  if (cluster_.mtbf > 0)
    happenings_.Add(now_ + Exponential(&failure_draws_, cluster_.mtbf), 0, Kind::kFails, node, kDrawn,
                    nodes_[node].incarnation);
}

void SimulatedRun::Take(const Happening& what) {
  switch (what.kind) {
    case Kind::kStartArrives:
      StartArrived(what.a);
      break;
    case Kind::kPartArrives:
      PartArrived(what.a);
      break;
    case Kind::kTakeBackArrives:
      TellCore(NodeId(what.b), agent::TakenBack{{TaskId(what.a), what.c}});
      break;
    case Kind::kCancelArrives: {
      const auto [attempt, reason] = cancels_[what.a];
      TellCore(NodeId(what.b), agent::Cancelled{attempt, reason});
      break;
    }
    case Kind::kSignalled:
      Signalled(what.a, static_cast<agent::End>(what.b));
      break;
    case Kind::kStartReported:
      if (Current(what.a))
        others_.push_back(
            core::TaskStarted{{Record(what.a).task, Record(what.a).number}, Record(what.a).node});
      break;
    case Kind::kEndReported:
      if (Current(what.a)) {
        ReportEnd(what.a, static_cast<agent::End>(what.b));
      } else {  // its node failed before anybody was told: it runs again
        Record(what.a).stage = Stage::kGone;
        Record(what.a).lost = true;
      }
      break;
    case Kind::kReturnReported:
      if (Current(what.a))
        others_.push_back(
            core::TaskReturned{{Record(what.a).task, Record(what.a).number}, Record(what.a).node});
      break;
    case Kind::kCopyArrives:
      Bring(copies_[what.a]);
      break;
    case Kind::kDropArrives:
      stores_->Drop(FileId(what.a), NodeId(what.b), now_);
      break;
    case Kind::kRefuseArrives:
      Refuse(FileId(what.a), NodeId(what.b));
      break;
    case Kind::kFileReported:
      if (what.c == nodes_[what.b].incarnation) ReportArrival(told_arrivals_[what.a]);
      break;
    case Kind::kFails:
      // What was drawn for a node that has failed otherwise since is drawn anew when it is back.
      if (what.b != kDrawn) {
        NodeFails(what.a, cluster_.failures[what.b].repair);
      } else if (what.c == nodes_[what.a].incarnation) {
        NodeFails(what.a, cluster_.repair);
      }
      break;
    case Kind::kRepaired:
      NodeRepaired(what.a);
      break;
    case Kind::kComes:
      NodeRepaired(what.a);
      if (expected_ == 0) others_.push_back(core::AllNodesJoined{});
      break;
    case Kind::kSpeed:
      if (what.a < nodes_.size()) ChangeSpeed(what.a, cluster_.changes[what.b].speed);
      break;
    case Kind::kRewound:
      Rewind(what.a);
      break;
  }
}

bool SimulatedRun::Current(uint32_t attempt) {
  return !may_fail_ || live_[attempt].incarnation == nodes_[Record(attempt).node.value].incarnation;
}

void SimulatedRun::Tell() {
  while (!others_.empty() || !stored_.empty() || !ended_.empty()) {
    std::vector<core::Event>& events = told_;
    events.assign(others_.begin(), others_.end());
    events.insert(events.end(), stored_.begin(), stored_.end());
    std::sort(ended_.begin(), ended_.end(),
              [](const core::TaskEnded& a, const core::TaskEnded& b) { return a.attempt < b.attempt; });
    events.insert(events.end(), ended_.begin(), ended_.end());
    others_.clear();
    stored_.clear();
    ended_.clear();
    actions_.clear();
    scheduler_.HandleAll(Time(FromSeconds(now_)), events, &actions_);
    for (const core::Action& action : actions_) std::visit([this](const auto& a) { Do(a); }, action);
  }
}

void SimulatedRun::Do(const core::StartTask& start) {
  Prefetch(&work_[start.attempt.task.value]);  // its node's core comes first
  const auto attempt = static_cast<uint32_t>(outcome_.attempts.size());
  outcome_.attempts.push_back({.task = start.attempt.task,
                               .node = start.node,
                               .number = static_cast<uint16_t>(start.attempt.number)});
  if (storage_ || may_fail_ || changes_speed_) live_.push_back({nodes_[start.node.value].incarnation});
  if (HasStreams() && streams_.Reads(start.attempt.task)) streams_.Sent(attempt, start.attempt);
  KindTotals& kind = KindOf(start.attempt.task);
  kind.local_bytes += static_cast<uint64_t>(start.local_bytes);
  kind.remote_bytes += static_cast<uint64_t>(start.remote_bytes);
  kind.home_bytes += static_cast<uint64_t>(start.home_bytes);
  if (!joining_.empty()) {
    joining_.insert(joining_.begin(), start.node);
    const std::vector<NodeId> members = std::exchange(joining_, {});
    for (const uint32_t part : gangs_.Add(attempt, start.attempt, members)) {
      const double arrives = StartArrival(gangs_.part(part).node);
      if (arrives == now_) {
        PartArrived(part);
      } else {
        happenings_.Add(arrives, 1, Kind::kPartArrives, part);
      }
    }
    return;
  }
  const double arrives = StartArrival(start.node);
  if (arrives == now_) {
    StartArrived(attempt);
  } else {
    happenings_.Add(arrives, 1, Kind::kStartArrives, attempt);
  }
}

double SimulatedRun::StartArrival(NodeId node) {
  double leaves = now_;
  if (cluster_.rate > 0) {
    leaves = std::max(now_, server_free_) + 1 / cluster_.rate;
    server_free_ = leaves;
  }
  double arrives = leaves + cluster_.latency;
  if (cluster_.jitter > 0) arrives += Exponential(&jitter_draws_, cluster_.jitter);
  if (arrives == now_) return now_;
  double& last = nodes_[node.value].last_arrival;
  return last = std::max(last, arrives);
}

double SimulatedRun::Arrival(NodeId node) {
  double& last = nodes_[node.value].last_arrival;
  return last = std::max(last, now_ + cluster_.latency);
}

void SimulatedRun::Do(const core::TakeBack& back) {
  happenings_.Add(Arrival(back.node), 1, Kind::kTakeBackArrives, back.attempt.task.value, back.node.value,
                  back.attempt.number);
}

void SimulatedRun::Do(const core::CancelTask& cancel) {
  const agent::End end = cancel.as_lost ? agent::End::kLost : agent::End::kCancelled;
  if (!gangs_.Cancel(cancel.attempt, end)) SendCancel(cancel.attempt, cancel.node, end);
}

void SimulatedRun::SendCancel(AttemptId attempt, NodeId node, agent::End end) {
  happenings_.Add(Arrival(node), 1, Kind::kCancelArrives, static_cast<uint32_t>(cancels_.size()), node.value);
  cancels_.emplace_back(attempt, end);
}

void SimulatedRun::Do(const core::CopyFile& copy) {
  if (!Delayed()) return Bring(copy);
  happenings_.Add(Arrival(copy.to), 1, Kind::kCopyArrives, static_cast<uint32_t>(copies_.size()));
  copies_.push_back(copy);
}

void SimulatedRun::Do(const core::DropFile& drop) {
  if (!Delayed()) return stores_->Drop(drop.file, drop.node, now_);
  happenings_.Add(Arrival(drop.node), 1, Kind::kDropArrives, drop.file.value, drop.node.value);
}

void SimulatedRun::Do(const core::RefuseFile& refuse) {
  happenings_.Add(Arrival(refuse.node), 1, Kind::kRefuseArrives, refuse.file.value, refuse.node.value);
}

void SimulatedRun::Do(const core::WakeAt& wake) {
  // A time that rounds to this instant is the next one.
  const double time = Seconds(wake.time.time_since_epoch());
  wake_ = time > now_ ? time : std::nextafter(now_, Transfers::kNever);
}

void SimulatedRun::Do(const core::ReadFrom& read) {
  const uint32_t attempt = streams_.Find(read.reader);
  if (streams_.Told(read)) {
    happenings_.Add(now_, 1, Kind::kRewound, attempt);
  } else if (streams_.Idle(attempt)) {
    BringStreams(attempt);
  }
}

void SimulatedRun::StartArrived(uint32_t attempt) {
  if (!Current(attempt)) return;  // the node has failed meanwhile
  Attempt& record = Record(attempt);
  record.stage = Stage::kWaiting;
  agent::Needs needs = NeedsOf(graph_.profile(record.task).Part(1, 0));
  if (stores_) needs.inputs = AwaitInputs(attempt);
  TellCore(record.node, agent::Sent{{record.task, record.number}, needs, attempt});
}

void SimulatedRun::PartArrived(uint32_t number) {
  const Gangs::Part part = gangs_.part(number);
  if (part.over) return;  // the node has failed meanwhile
  Attempt& record = Record(part.attempt);
  record.stage = Stage::kWaiting;
  agent::Needs needs = NeedsOf(graph_.profile(record.task).Part(part.count, part.index));
  if (stores_ && part.index == 0) needs.inputs = AwaitInputs(part.attempt);
  TellCore(part.node, agent::Sent{{record.task, record.number}, needs, Gangs::TagOf(number)});
}

void SimulatedRun::NoteNoRoom(FileId file) {
  if (outcome_.no_room++ == 0) outcome_.no_room_for = file;
}

void SimulatedRun::TellCore(NodeId id, const agent::Event& event) {
  agent::Core& core = nodes_[id.value].core;
  core_actions_.clear();
  core.Handle(Time(FromSeconds(now_)), event, &core_actions_);
  for (const agent::Action& action : core_actions_) {
    if (const auto* spawn = std::get_if<agent::Spawn>(&action)) {
      const uint32_t tag = core.given(spawn->slot)->tag;
      if (Gangs::IsTag(tag)) {
        const uint32_t part = Gangs::OfTag(tag);
        gangs_.Began(part, spawn->slot, SlotsOf(part));
      } else {
        Begin(tag, spawn->slot);
      }
    } else if (const auto* returned = std::get_if<agent::Returned>(&action)) {
      Gone(returned->tag);
      happenings_.Add(now_ + cluster_.latency, 2, Kind::kReturnReported, returned->tag);
    } else if (const auto* report = std::get_if<agent::Report>(&action);
               report && Gangs::IsTag(report->tag)) {
      gangs_.Ended(Gangs::OfTag(report->tag), report->end);
    } else if (report) {
      Gone(report->tag);
      Report(report->tag, report->end);
    } else if (const auto* signal = std::get_if<agent::Signal>(&action)) {
      happenings_.Add(now_, 1, Kind::kSignalled, core.given(signal->slot)->tag,
                      static_cast<uint32_t>(signal->reason));
    }
  }
}

void SimulatedRun::Report(uint32_t attempt, agent::End end) {
  happenings_.Add(now_ + cluster_.latency, 2, Kind::kEndReported, attempt, static_cast<uint32_t>(end));
}

void SimulatedRun::NodeFails(uint32_t id, double repair) {
  if (!nodes_[id].up) return;
  ++outcome_.node_losses;
  LoseNode(id);
  if (repair > 0) {
    happenings_.Add(now_ + repair, 0, Kind::kRepaired, id);
    ++expected_;
  }
  const bool any =
      expected_ > 0 || std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.up; });
  if (!any) {
    others_.push_back(core::DrainRequested{});
  } else if (expected_ == 0) {
    others_.push_back(core::AllNodesJoined{});
  }
}

void SimulatedRun::LoseNode(uint32_t id) {
  Node& node = nodes_[id];
  node.up = false;
  ++node.incarnation;
  std::vector<agent::Core::Info> here = node.core.All();
  // As they came, which is how they began.
  std::sort(here.begin(), here.end(),
            [](const agent::Core::Info& a, const agent::Core::Info& b) { return a.tag < b.tag; });
  for (const agent::Core::Info& info : here) {
    if (Gangs::IsTag(info.tag)) continue;
    if (info.state == agent::Core::State::kQueued || info.state == agent::Core::State::kStaging) {
      Gone(info.tag);
      continue;
    }
    Stop(info.tag);
    Record(info.tag).lost = true;
  }
  gangs_.NodeFails(NodeId(id));
  node.core = NewCore(node.capacity);
  if (storage_) storage_->NodeLost(NodeId(id));
  if (stores_) stores_->NodeLost(NodeId(id), now_);
  others_.push_back(core::NodeLost{NodeId(id)});
}

void SimulatedRun::NodeRepaired(uint32_t id) {
  Node& node = nodes_[id];
  --expected_;
  node.up = true;
  others_.push_back(core::NodeJoined{NodeId(id), node.capacity});
  if (Delayed())
    others_.push_back(
        core::RoundTripMeasured{NodeId(id), FromSeconds(2 * cluster_.latency + cluster_.jitter)});
  DrawFailure(id);
}

Outcome Simulate(const graph::Graph& graph, const std::vector<Work>& work, const Options& options) {
  Options own = options;
  own.core.shared_files = !own.core.local_files &&
                          (!options.io || options.cluster.storage == formats::ClusterModel::Storage::kShared);
  if (!options.cluster.allocations.empty()) return SimulateAcross(graph, work, own);
  SimulatedRun run(graph, work, own);
  run.Open(0, false);
  while (!run.complete()) {
    const double next = run.Next();
    if (next == Transfers::kNever) break;
    run.Advance(next);
  }
  return run.Finish();
}

std::unique_ptr<Site> MakeSite(const graph::Graph& graph, const std::vector<Work>& work,
                               const Options& options) {
  return std::make_unique<SimulatedRun>(graph, work, options);
}

}  // namespace harrow::sim
