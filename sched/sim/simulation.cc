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
#include <map>
#include <optional>
#include <utility>

#include "agent/core/core.h"
#include "base/prefetch.h"
#include "order/draws.h"
#include "sim/gangs.h"
#include "sim/across.h"
#include "sim/happenings.h"
#include "sim/run_ends.h"
#include "sim/site.h"
#include "sim/storage.h"
#include "sim/stores.h"
#include "sim/transfers.h"

namespace harrow::sim {
namespace {

class Simulation : public Site, private Gangs::Host {
 public:
  Simulation(const graph::Graph& graph, const std::vector<Work>& work, const Options& options)
      : graph_(graph),
        work_(work),
        options_(options),
        cluster_(options.cluster),
        scheduler_(graph, options.core),
        jitter_draws_(options.seed ^ 0x510E527FADE682D1ull),
        failure_draws_(options.seed ^ 0x9B05688C2B3E6C1Full) {
    const bool local = options.core.local_files;
    if (options.io) storage_.emplace(graph, cluster_, &transfers_, options.seed, local);
    if (local) stores_.emplace(graph, storage_ ? &*storage_ : nullptr, &transfers_, options.local_limit);
    for (const formats::ClusterModel::Nodes& group : cluster_.nodes) {
      for (uint32_t i = 0; i < group.count; ++i) {
        nodes_.push_back({.capacity = group.capacity, .core = NewCore(group.capacity), .speed = group.speed});
      }
    }
    outcome_.kinds.resize(graph.kind_count());
    outcome_.attempts.reserve(graph.task_count());
  }

  void Open(double now, bool elsewhere) override {
    now_ = now;
    among_others_ = elsewhere;
    JoinAll();
  }
  double Next() const override {
    return std::min({run_ends_.empty() ? Transfers::kNever : run_ends_.top().time, happenings_.Next(),
                     transfers_.Next(), wake_});
  }
  void Advance(double now) override {
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
      if (Record(attempt).stage == Stage::kRunning) RunEnded(attempt);
    }
    while (transfers_.Next() == now_) {
      const uint32_t who = transfers_.Pop();
      if (Storage::IsOwn(who)) {
        storage_->OwnEnded(who, now_);
      } else if (Stores::IsCopy(who)) {
        stores_->TransferEnded(who);
        TellArrivals();
      } else {
        TransferEnded(who);
      }
    }
    Tell();
    transfers_.Settle(now_);
  }
  void Tell(double now, const std::vector<core::Event>& events) override {
    now_ = now;
    others_.insert(others_.end(), events.begin(), events.end());
    Tell();
    transfers_.Settle(now_);
  }
  void Close(double now) override {
    now_ = now;
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].up) LoseNode(n);
    }
    Tell();
    transfers_.Settle(now_);
  }
  const core::Scheduler& scheduler() const override { return scheduler_; }
  bool complete() const override { return outcome_.complete; }
  std::vector<core::TaskSettled> TakeSettled() override { return std::exchange(settled_, {}); }
  RunTimes TimesOf(const Shape& shape) const override {
    const auto found = times_.find(shape);
    return found == times_.end() ? RunTimes() : found->second;
  }
  Outcome Finish() override {
    SumUp();
    return std::move(outcome_);
  }

 private:
  using Kind = Happening::Kind;
  using Stage = Attempt::Stage;
  /// What must be known of an attempt beside its record where files are modelled or nodes fail.
  struct Live {
    uint32_t incarnation;  // of its node
    uint32_t file = 0;     // the one being read or written
    uint32_t transfer = UINT32_MAX;
    bool behind = false;  // the file being written goes to disk later
    double file_begin = 0;
  };
  struct Node {
    NodeCapacity capacity;
    agent::Core core;  // its tags: indices of attempts
    uint32_t incarnation = 0;
    bool up = true;
    double speed = 1;
    double last_arrival = 0;
  };

  static agent::Core NewCore(const NodeCapacity& capacity) {
    return agent::Core({.numa_of_slot = std::vector<uint32_t>(capacity.slots),
                        .devices = capacity.devices,
                        .memory = capacity.memory});
  }
  bool Delayed() const { return cluster_.latency > 0; }

  void JoinAll() {
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
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
    others_.push_back(
        core::TasksAdded{TaskId(0), static_cast<uint32_t>(graph_.task_count()), among_others_});
    if (stores_) {
      PlaceInStores();
    } else if (storage_) {
      for (const auto& [file, node] : storage_->inputs()) {
        others_.push_back(core::FileStored{file, node, graph_.file_size(file)});
      }
    }
    if (!among_others_) others_.push_back(core::AllNodesJoined{});
    Tell();
    transfers_.Settle(now_);
  }

  void PlaceInStores() {
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

  double Exponential(order::SeededDraws* draws, double mean) { return -mean * std::log1p(-draws->Next()); }
  void DrawFailure(uint32_t node) {
    if (cluster_.mtbf > 0)
      happenings_.Add(now_ + Exponential(&failure_draws_, cluster_.mtbf), 0, Kind::kFails, node, kDrawn,
                      nodes_[node].incarnation);
  }

  void Take(const Happening& what) {
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
    }
  }

  Attempt& Record(uint32_t attempt) { return outcome_.attempts[attempt]; }
  bool Current(uint32_t attempt) {
    return !may_fail_ || live_[attempt].incarnation == nodes_[Record(attempt).node.value].incarnation;
  }

  /// Tells the scheduler what has happened, and does what it says; again while that makes something happen at
  /// once.
  void Tell() {
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

  void Do(const core::StartTask& start) {
    Prefetch(&work_[start.attempt.task.value]);  // its node's core comes first
    const auto attempt = static_cast<uint32_t>(outcome_.attempts.size());
    outcome_.attempts.push_back({.task = start.attempt.task,
                                 .node = start.node,
                                 .number = static_cast<uint16_t>(start.attempt.number)});
    if (storage_ || may_fail_) live_.push_back({nodes_[start.node.value].incarnation});
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
  double StartArrival(NodeId node) {
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
  /// When a message to that node arrives: none overtakes another.
  double Arrival(NodeId node) {
    double& last = nodes_[node.value].last_arrival;
    return last = std::max(last, now_ + cluster_.latency);
  }
  void Do(const core::TakeBack& back) {
    happenings_.Add(Arrival(back.node), 1, Kind::kTakeBackArrives, back.attempt.task.value, back.node.value,
                    back.attempt.number);
  }
  void Do(const core::RunComplete&) { outcome_.complete = true; }
  void Do(const core::CancelTask& cancel) {
    const agent::End end = cancel.as_lost ? agent::End::kLost : agent::End::kCancelled;
    if (!gangs_.Cancel(cancel.attempt, end)) SendCancel(cancel.attempt, cancel.node, end);
  }
  void SendCancel(AttemptId attempt, NodeId node, agent::End end) override {
    happenings_.Add(Arrival(node), 1, Kind::kCancelArrives, static_cast<uint32_t>(cancels_.size()),
                    node.value);
    cancels_.emplace_back(attempt, end);
  }
  void Do(const core::TaskSettled& settled) {
    if (among_others_) settled_.push_back(settled);
  }
  void Do(const core::JoinGang& join) { joining_.push_back(join.node); }
  void Do(const core::NodePutAside&) {}
  void Do(const core::CopyFile& copy) {
    if (!Delayed()) return Bring(copy);
    happenings_.Add(Arrival(copy.to), 1, Kind::kCopyArrives, static_cast<uint32_t>(copies_.size()));
    copies_.push_back(copy);
  }
  void Do(const core::DropFile& drop) {
    if (!Delayed()) return stores_->Drop(drop.file, drop.node, now_);
    happenings_.Add(Arrival(drop.node), 1, Kind::kDropArrives, drop.file.value, drop.node.value);
  }
  void Do(const core::RefuseFile& refuse) {
    happenings_.Add(Arrival(refuse.node), 1, Kind::kRefuseArrives, refuse.file.value, refuse.node.value);
  }
  void Do(const core::WakeAt& wake) {
    // A time that rounds to this instant is the next one.
    const double time = Seconds(wake.time.time_since_epoch());
    wake_ = time > now_ ? time : std::nextafter(now_, Transfers::kNever);
  }

  KindTotals& KindOf(TaskId task) {
    const KindId kind = graph_.kind(task);
    if (!kind) {
      if (outcome_.kinds.empty()) outcome_.kinds.resize(1);
      return outcome_.kinds[0];
    }
    return outcome_.kinds[kind.value];
  }

  void StartArrived(uint32_t attempt) {
    if (!Current(attempt)) return;  // the node has failed meanwhile
    Attempt& record = Record(attempt);
    record.stage = Stage::kWaiting;
    agent::Needs needs = NeedsOf(graph_.profile(record.task).Part(1, 0));
    if (stores_) needs.inputs = AwaitInputs(attempt);
    TellCore(record.node, agent::Sent{{record.task, record.number}, needs, attempt});
  }
  void PartArrived(uint32_t number) {
    const Gangs::Part part = gangs_.part(number);
    if (part.over) return;  // the node has failed meanwhile
    Attempt& record = Record(part.attempt);
    record.stage = Stage::kWaiting;
    agent::Needs needs = NeedsOf(graph_.profile(record.task).Part(part.count, part.index));
    if (stores_ && part.index == 0) needs.inputs = AwaitInputs(part.attempt);
    TellCore(part.node, agent::Sent{{record.task, record.number}, needs, Gangs::TagOf(number)});
  }
  uint32_t SlotsOf(uint32_t number) {
    const Gangs::Part& part = gangs_.part(number);
    const Shape shape = graph_.profile(Record(part.attempt).task).Part(part.count, part.index);
    return shape.whole_node ? nodes_[part.node.value].capacity.slots : std::max(1u, shape.cores);
  }
  /// How many of its inputs are not there yet.
  uint32_t AwaitInputs(uint32_t attempt) {
    const Attempt& record = Record(attempt);
    std::vector<FileId> missing;
    for (FileId input : graph_.inputs(record.task)) {
      const FileId file = scheduler_.HeldAs(input);
      if (stores_->IsKept(file) && !stores_->Holds(file, record.node)) missing.push_back(file);
    }
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    for (FileId file : missing) stores_->Await(file, record.node, attempt);
    return static_cast<uint32_t>(missing.size());
  }
  void Bring(const core::CopyFile& copy) {
    if (!nodes_[copy.to.value].up) return;
    stores_->Bring(copy.file, copy.to, copy.from, now_);
    TellArrivals();
  }
  void TellArrivals() {
    for (const Stores::Arrival& arrival : stores_->TakeArrivals()) {
      if (arrival.moved) {
        (arrival.from ? outcome_.bytes_moved : outcome_.shared_read) += BytesOf(arrival.file);
      }
      if (arrival.came) {
        for (uint32_t attempt : stores_->TakeWaiting({arrival.file, arrival.to})) {
          const Attempt& record = Record(attempt);
          if (record.stage == Stage::kWaiting)
            TellCore(record.node, agent::InputArrived{{record.task, record.number}});
        }
      }
      if (!Delayed()) {
        ReportArrival(arrival);
        continue;
      }
      happenings_.Add(now_ + cluster_.latency, 2, Kind::kFileReported,
                      static_cast<uint32_t>(told_arrivals_.size()), arrival.to.value,
                      nodes_[arrival.to.value].incarnation);
      told_arrivals_.push_back(arrival);
    }
  }
  void ReportArrival(const Stores::Arrival& arrival) {
    if (arrival.came) {
      stored_.push_back(core::FileStored{arrival.file, arrival.to, graph_.file_size(arrival.file)});
    } else {
      using Why = core::CopyFailed::Why;
      others_.push_back(core::CopyFailed{arrival.file, arrival.to, arrival.from,
                                         arrival.no_room ? Why::kNoRoom : Why::kAbsent});
    }
  }
  /// What waits for the file there fails.
  void Refuse(FileId file, NodeId node) {
    for (uint32_t attempt : stores_->TakeWaiting({file, node})) {
      const Attempt& record = Record(attempt);
      if (record.stage != Stage::kWaiting) continue;
      NoteNoRoom(file);
      TellCore(node, agent::Cancelled{{record.task, record.number}, agent::End::kNotStarted});
    }
  }
  void NoteNoRoom(FileId file) {
    if (outcome_.no_room++ == 0) outcome_.no_room_for = file;
  }
  agent::Needs NeedsOf(const Shape& shape) const {
    return {.cores = std::max(1u, shape.cores),
            .devices = shape.devices,
            .memory = shape.memory,
            .whole_node = shape.whole_node};
  }
  /// Tells a node's core what has happened, and does what it says: nothing of that makes more happen at once.
  void TellCore(NodeId id, const agent::Event& event) override {
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
  void Report(uint32_t attempt, agent::End end) override {
    happenings_.Add(now_ + cluster_.latency, 2, Kind::kEndReported, attempt, static_cast<uint32_t>(end));
  }
  void Begin(uint32_t attempt, uint32_t slot) override {
    Record(attempt).begin = now_;
    Record(attempt).slot = slot;
    if (Delayed()) happenings_.Add(now_ + cluster_.latency, 2, Kind::kStartReported, attempt);
    Record(attempt).stage = Stage::kReading;
    if (stores_) {
      for (FileId file : graph_.inputs(Record(attempt).task)) {
        if (!stores_->IsKept(file)) outcome_.shared_read += BytesOf(file);
      }
    }
    ReadOn(attempt);
  }
  /// It leaves its node without having begun.
  void Gone(uint32_t attempt) {
    Record(attempt).stage = Stage::kGone;
    Record(attempt).begin = Record(attempt).end = now_;
  }
  /// What the ends to come will read is asked of memory in steps, each some ends before the next.
  void PrefetchSoon() const {
    constexpr size_t kGap = 6;
    if (const RunEnds::Entry* entry = run_ends_.After(4 * kGap)) Prefetch(&outcome_.attempts[entry->attempt]);
    if (const RunEnds::Entry* entry = run_ends_.After(3 * kGap)) {
      PrefetchAll(&nodes_[outcome_.attempts[entry->attempt].node.value], sizeof(Node));
      scheduler_.PrefetchEnd(TaskId(entry->task), 0);
    }
    if (const RunEnds::Entry* entry = run_ends_.After(2 * kGap)) {
      PrefetchCore(entry->attempt, 0);
      scheduler_.PrefetchEnd(TaskId(entry->task), 1);
    }
    if (const RunEnds::Entry* entry = run_ends_.After(kGap)) {
      PrefetchCore(entry->attempt, 1);
      scheduler_.PrefetchEnd(TaskId(entry->task), 2);
    }
  }
  void PrefetchCore(uint32_t attempt, int step) const {
    const Attempt& record = outcome_.attempts[attempt];
    if (record.stage == Stage::kRunning) nodes_[record.node.value].core.PrefetchSettled(record.slot, step);
  }

  /// Reads what is left to read, then runs.
  void ReadOn(uint32_t attempt) {
    Attempt& record = Record(attempt);
    if (storage_ && !work_[record.task.value].left_out) {
      Live& live = live_[attempt];
      const auto inputs = graph_.inputs(record.task);
      for (; live.file < inputs.size(); ++live.file) {
        const Storage::Access access = Read(inputs[live.file], record.node);
        if (access.remote && !stores_) outcome_.bytes_moved += access.bytes;
        if (!access.at_once) {
          Move(attempt, access);
          return;
        }
        HasRead(inputs[live.file], record.node);
      }
    }
    record.stage = Stage::kRunning;
    const Work& work = work_[record.task.value];
    const double seconds = work.left_out ? 0 : work.seconds / SpeedOf(attempt) + cluster_.overhead;
    run_ends_.Push({now_ + seconds, record.task.value, attempt});
  }
  double SpeedOf(uint32_t attempt) {
    double speed = nodes_[Record(attempt).node.value].speed;
    for (const NodeId member : gangs_.MembersOf(attempt)) speed = std::min(speed, nodes_[member.value].speed);
    return speed;
  }
  Storage::Access Read(FileId file, NodeId node) const {
    if (!stores_) return storage_->Read(file, node);
    return storage_->Fetch(file, stores_->IsKept(file) ? node : NodeId(), node);
  }
  void HasRead(FileId file, NodeId node) {
    if (!stores_) return storage_->HasRead(file, node);
    storage_->HasCome(file, node);
  }
  void RunEnded(uint32_t attempt) {
    Record(attempt).stage = Stage::kWriting;
    if (storage_) live_[attempt].file = 0;
    WriteOn(attempt);
  }
  void WriteOn(uint32_t attempt) {
    const Attempt& record = Record(attempt);
    if (storage_) {
      Live& live = live_[attempt];
      const bool left_out = work_[record.task.value].left_out;
      const auto outputs = graph_.outputs(record.task);
      for (; live.file < outputs.size(); ++live.file) {
        if (stores_ && !stores_->IsKept(outputs[live.file])) continue;
        const Storage::Access access = storage_->Write(outputs[live.file], record.node);
        if (!access.at_once && !left_out) {
          Move(attempt, access);
          return;
        }
        storage_->HasWritten(outputs[live.file], record.node, access.behind && !left_out, now_);
      }
      // Results, when all outputs are there.
      for (; stores_ && !left_out && live.file < 2 * outputs.size(); ++live.file) {
        const FileId file = outputs[live.file - outputs.size()];
        if (!IsWrittenBack(file)) continue;
        const Storage::Access access = storage_->WriteBack(file, record.node);
        if (!access.at_once) {
          Move(attempt, access);
          return;
        }
      }
    }
    End(attempt);
  }
  bool IsWrittenBack(FileId file) const { return stores_->IsResult(file) || !stores_->IsKept(file); }
  double BytesOf(FileId file) const {
    return static_cast<double>(std::max<int64_t>(0, graph_.file_size(file)));
  }
  void Move(uint32_t attempt, const Storage::Access& access) {
    Live& live = live_[attempt];
    live.file_begin = now_;
    live.behind = access.behind;
    live.transfer =
        transfers_.Begin(now_, attempt, access.bytes, access.most, {access.uses, access.use_count});
  }
  void TransferEnded(uint32_t attempt) {
    Live& live = live_[attempt];
    const Attempt& record = Record(attempt);
    live.transfer = UINT32_MAX;
    if (record.stage == Stage::kReading) {
      outcome_.read_seconds += now_ - live.file_begin;
      HasRead(graph_.inputs(record.task)[live.file++], record.node);
      ReadOn(attempt);
    } else {
      outcome_.write_seconds += now_ - live.file_begin;
      const auto outputs = graph_.outputs(record.task);
      if (live.file < outputs.size())
        storage_->HasWritten(outputs[live.file], record.node, live.behind, now_);
      ++live.file;
      WriteOn(attempt);
    }
  }

  /// Its outputs are whole, and are to be kept.
  void End(uint32_t attempt) {
    if (stores_ && !MayKeepOutputs(attempt)) {
      Over(attempt, Stage::kGone);
      Report(attempt, agent::End::kMissingOutput);
      Settle(attempt);
      return;
    }
    Over(attempt, Stage::kDone);
    const Attempt& record = Record(attempt);
    if (stores_) {
      for (FileId file : graph_.outputs(record.task)) {
        if (stores_->IsKept(file)) stores_->Add(file, record.node);
        if (IsWrittenBack(file)) outcome_.written_back += BytesOf(file);
      }
    }
    if (Delayed()) {
      Report(attempt, agent::End::kExited);
    } else {
      ReportEnd(attempt, agent::End::kExited);
    }
    Settle(attempt);
  }
  /// It has ended by itself: its slots are free.
  void Settle(uint32_t attempt) {
    if (gangs_.Has(attempt)) return gangs_.Settle(attempt);
    TellCore(Record(attempt).node, agent::Settled{Record(attempt).slot});
  }
  bool MayKeepOutputs(uint32_t attempt) {
    const Attempt& record = Record(attempt);
    std::vector<FileId> kept;
    for (FileId file : graph_.outputs(record.task)) {
      if (stores_->IsKept(file)) kept.push_back(file);
    }
    if (stores_->HasRoom(kept, record.node)) return true;
    NoteNoRoom(*std::max_element(kept.begin(), kept.end(),
                                 [this](FileId a, FileId b) { return BytesOf(a) < BytesOf(b); }));
    return false;
  }
  /// It was asked to end before it was done.
  void Signalled(uint32_t attempt, agent::End reason) {
    if (Gangs::IsTag(attempt)) return gangs_.Signalled(Gangs::OfTag(attempt), reason);
    if (!Current(attempt) || Record(attempt).end >= 0) return;
    Stop(attempt);
    Record(attempt).lost = reason == agent::End::kLost;
    Report(attempt, reason);
    TellCore(Record(attempt).node, agent::Settled{Record(attempt).slot});
  }
  void Stop(uint32_t attempt, bool lost) override {
    if (Record(attempt).slot == Attempt::kNoSlot) {
      Gone(attempt);
    } else if (Record(attempt).end < 0) {
      Stop(attempt);
    }
    Record(attempt).lost = lost;
  }
  /// It is in the middle of something, and does not go on.
  void Stop(uint32_t attempt) {
    if (!live_.empty() && live_[attempt].transfer != UINT32_MAX) transfers_.Cancel(live_[attempt].transfer);
    Over(attempt, Stage::kGone);
  }
  /// It has ended, whichever way.
  void Over(uint32_t attempt, Stage stage) {
    Attempt& record = Record(attempt);
    record.stage = stage;
    record.end = now_;
    outcome_.makespan = std::max(outcome_.makespan, now_);
  }
  void SumUp() {
    outcome_.counts = scheduler_.counts();
    if (!options_.io && !stores_) outcome_.bytes_moved = static_cast<double>(outcome_.counts.remote_bytes);
    for (uint32_t n = 0; n < outcome_.attempts.size(); ++n) {
      const Attempt& attempt = outcome_.attempts[n];
      if (attempt.end < 0) continue;
      const double seconds = attempt.end - attempt.begin;
      if (attempt.slot != Attempt::kNoSlot) {
        const Shape& shape = graph_.profile(attempt.task).shape;
        uint64_t cores = gangs_.slots(n);
        if (cores == 0)
          cores = shape.whole_node ? nodes_[attempt.node.value].capacity.slots : std::max(1u, shape.cores);
        outcome_.core_seconds += seconds * static_cast<double>(cores);
      }
      if (attempt.lost) outcome_.lost_seconds += seconds;
      if (attempt.stage != Stage::kDone) continue;
      KindTotals& kind = KindOf(attempt.task);
      ++kind.tasks;
      kind.task_seconds += seconds;
    }
  }
  static core::Outcome OutcomeOf(agent::End end) {
    switch (end) {
      case agent::End::kExited:
        return core::Done{};
      case agent::End::kCancelled:
        return core::Cancelled{};
      case agent::End::kLost:
        return core::Lost{};
      default:
        return core::Failed{};
    }
  }
  void ReportEnd(uint32_t attempt, agent::End end) {
    const Attempt& record = Record(attempt);
    if (end == agent::End::kExited && stores_) {
      for (FileId file : graph_.outputs(record.task)) {
        if (stores_->IsResult(file)) others_.push_back(core::FileShared{file});
        if (stores_->IsKept(file))
          stored_.push_back(core::FileStored{file, record.node, graph_.file_size(file)});
      }
    } else if (end == agent::End::kExited && storage_ &&
               cluster_.storage == formats::ClusterModel::Storage::kNodes) {
      for (FileId file : graph_.outputs(record.task)) {
        stored_.push_back(core::FileStored{file, record.node, graph_.file_size(file)});
      }
    }
    if (among_others_ && end == agent::End::kExited) {
      Shape shape = graph_.profile(record.task).Part(1, 0);
      shape.cores = std::max(1u, shape.cores);
      RunTimes& times = times_[shape];
      ++times.count;
      times.seconds += record.end - record.begin;
    }
    core::Outcome outcome = OutcomeOf(end);
    if (end == agent::End::kMissingOutput) {
      int64_t bytes = 0;
      for (FileId file : graph_.outputs(record.task)) bytes += std::max<int64_t>(0, graph_.file_size(file));
      // What can never be kept is not tried again.
      if (static_cast<uint64_t>(bytes) <= options_.local_limit) outcome = core::Failed{.no_room = bytes};
    }
    ended_.push_back(core::TaskEnded{
        {record.task, record.number}, record.node, outcome, FromSeconds(record.end - record.begin)});
  }

  void NodeFails(uint32_t id, double repair) {
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
  void LoseNode(uint32_t id) {
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
  void NodeRepaired(uint32_t id) {
    Node& node = nodes_[id];
    --expected_;
    node.up = true;
    others_.push_back(core::NodeJoined{NodeId(id), node.capacity});
    if (Delayed())
      others_.push_back(
          core::RoundTripMeasured{NodeId(id), FromSeconds(2 * cluster_.latency + cluster_.jitter)});
    DrawFailure(id);
  }

  const graph::Graph& graph_;
  const std::vector<Work>& work_;
  const Options& options_;
  const formats::ClusterModel& cluster_;
  core::Scheduler scheduler_;
  order::SeededDraws jitter_draws_, failure_draws_;
  Transfers transfers_;
  std::optional<Storage> storage_;
  std::optional<Stores> stores_;  // with local files
  std::vector<Node> nodes_;
  Gangs gangs_{this};
  std::vector<NodeId> joining_;  // the further nodes of the attempt that is sent next
  std::vector<Live> live_;       // by attempt, as outcome_.attempts; empty when none is needed
  static constexpr uint32_t kDrawn = UINT32_MAX;  // a failure that the cluster file does not list
  std::vector<std::pair<AttemptId, agent::End>> cancels_;
  std::vector<core::CopyFile> copies_;          // that were on their way to nodes
  std::vector<Stores::Arrival> told_arrivals_;  // and from them
  uint32_t expected_ = 0;                       // nodes that will be back
  RunEnds run_ends_;
  Happenings happenings_;  // all else
  const bool may_fail_ = cluster_.mtbf > 0 || !cluster_.failures.empty() || cluster_.ends;
  bool among_others_ = false;  // the tasks are shared with other sites
  std::vector<core::TaskSettled> settled_;
  std::map<Shape, RunTimes> times_;
  double now_ = 0;
  double wake_ = Transfers::kNever;  // when the scheduler wants to be told the time
  double server_free_ = 0;
  std::vector<core::Event> others_, told_;
  std::vector<core::FileStored> stored_;
  std::vector<core::TaskEnded> ended_;
  std::vector<core::Action> actions_;
  std::vector<agent::Action> core_actions_;
  Outcome outcome_;
};

}  // namespace

Outcome Simulate(const graph::Graph& graph, const std::vector<Work>& work, const Options& options) {
  Options own = options;
  own.core.shared_files = !own.core.local_files &&
                          (!options.io || options.cluster.storage == formats::ClusterModel::Storage::kShared);
  if (!options.cluster.allocations.empty()) return SimulateAcross(graph, work, own);
  Simulation simulation(graph, work, own);
  simulation.Open(0, false);
  while (!simulation.complete()) {
    const double next = simulation.Next();
    if (next == Transfers::kNever) break;
    simulation.Advance(next);
  }
  return simulation.Finish();
}

std::unique_ptr<Site> MakeSite(const graph::Graph& graph, const std::vector<Work>& work,
                               const Options& options) {
  return std::make_unique<Simulation>(graph, work, options);
}

}  // namespace harrow::sim
