// What becomes of an attempt on its node, from its start to its end: files, times, slots (simulation.cc tells
// the whole).

#include <algorithm>
#include <utility>

#include "base/prefetch.h"
#include "sim/simulated_run.h"

namespace harrow::sim {

KindTotals& SimulatedRun::KindOf(TaskId task) {
  const KindId kind = graph_.kind(task);
  if (!kind) {
    if (outcome_.kinds.empty()) outcome_.kinds.resize(1);
    return outcome_.kinds[0];
  }
  return outcome_.kinds[kind.value];
}

uint32_t SimulatedRun::SlotsOf(uint32_t number) {
  const Gangs::Part& part = gangs_.part(number);
  const Shape shape = graph_.profile(Record(part.attempt).task).Part(part.count, part.index);
  return shape.whole_node ? nodes_[part.node.value].capacity.slots : std::max(1u, shape.cores);
}

uint32_t SimulatedRun::AwaitInputs(uint32_t attempt) {
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

void SimulatedRun::Bring(const core::CopyFile& copy) {
  if (!nodes_[copy.to.value].up) return;
  stores_->Bring(copy.file, copy.to, copy.from, now_);
  TellArrivals();
}

void SimulatedRun::TellArrivals() {
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

void SimulatedRun::ReportArrival(const Stores::Arrival& arrival) {
  if (arrival.came) {
    stored_.push_back(core::FileStored{arrival.file, arrival.to, graph_.file_size(arrival.file)});
  } else {
    using Why = core::CopyFailed::Why;
    others_.push_back(core::CopyFailed{arrival.file, arrival.to, arrival.from,
                                       arrival.no_room ? Why::kNoRoom : Why::kAbsent});
  }
}

void SimulatedRun::Refuse(FileId file, NodeId node) {
  for (uint32_t attempt : stores_->TakeWaiting({file, node})) {
    const Attempt& record = Record(attempt);
    if (record.stage != Stage::kWaiting) continue;
    NoteNoRoom(file);
    TellCore(node, agent::Cancelled{{record.task, record.number}, agent::End::kNotStarted});
  }
}

agent::Needs SimulatedRun::NeedsOf(const Shape& shape) const {
  return {.cores = std::max(1u, shape.cores),
          .devices = shape.devices,
          .memory = shape.memory,
          .whole_node = shape.whole_node};
}

void SimulatedRun::Begin(uint32_t attempt, uint32_t slot) {
  Record(attempt).begin = now_;
  Record(attempt).slot = slot;
  if (Delayed()) happenings_.Add(now_ + cluster_.latency, 2, Kind::kStartReported, attempt);
  Record(attempt).stage = Stage::kReading;
  if (HasStreams()) {
    const TaskId task = Record(attempt).task;
    if (!Delayed() && streams_.Writes(task))
      others_.push_back(core::TaskStarted{{task, Record(attempt).number}, Record(attempt).node});
    if (streams_.Reads(task)) {
      if (!streams_.Begins(attempt, Record(attempt).node))
        happenings_.Add(now_, 1, Kind::kRewound, attempt);
      BringStreams(attempt);
    }
  }
  if (stores_) {
    for (FileId file : graph_.inputs(Record(attempt).task)) {
      if (!stores_->IsKept(file)) outcome_.shared_read += BytesOf(file);
    }
  }
  ReadOn(attempt);
}

void SimulatedRun::Gone(uint32_t attempt) {
  Record(attempt).stage = Stage::kGone;
  Record(attempt).begin = Record(attempt).end = now_;
}

void SimulatedRun::PrefetchSoon() const {
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

void SimulatedRun::PrefetchCore(uint32_t attempt, int step) const {
  const Attempt& record = outcome_.attempts[attempt];
  if (record.stage == Stage::kRunning) nodes_[record.node.value].core.PrefetchSettled(record.slot, step);
}

void SimulatedRun::ReadOn(uint32_t attempt) {
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
  if (changes_speed_) live_[attempt].run_ends = now_ + seconds;
  run_ends_.Push({now_ + seconds, record.task.value, attempt});
}

double SimulatedRun::SpeedOf(uint32_t attempt) {
  double speed = nodes_[Record(attempt).node.value].speed;
  for (const NodeId member : gangs_.MembersOf(attempt)) speed = std::min(speed, nodes_[member.value].speed);
  return speed;
}

Storage::Access SimulatedRun::Read(FileId file, NodeId node) const {
  if (!stores_) return storage_->Read(file, node);
  return storage_->Fetch(file, stores_->IsKept(file) ? node : NodeId(), node);
}

void SimulatedRun::HasRead(FileId file, NodeId node) {
  if (!stores_) return storage_->HasRead(file, node);
  storage_->HasCome(file, node);
}

void SimulatedRun::BringStreams(uint32_t attempt) {
  for (;;) {
    const Streams::Transfer next = streams_.Next(attempt);
    if (!next.from) return;
    outcome_.stream_bytes += next.bytes;
    if (!storage_ && !links_) continue;
    const Storage::Access access =
        (storage_ ? *storage_ : *links_).Send(next.bytes, next.from, Record(attempt).node);
    if (access.at_once) continue;
    stream_transfers_[attempt] = transfers_.Begin(now_, Streams::kTag | attempt, access.bytes, access.most,
                                                  {access.uses, access.use_count});
    return;
  }
}

void SimulatedRun::StreamCame(uint32_t attempt) {
  stream_transfers_.erase(attempt);
  BringStreams(attempt);
  if (streams_.MayEnd(attempt)) RunEnded(attempt);
}

bool SimulatedRun::WaitsForStreams(uint32_t attempt) {
  if (!streams_.Reads(Record(attempt).task)) return false;
  if (streams_.computed(attempt) < 0) streams_.Computed(attempt, now_ - Record(attempt).begin);
  return !streams_.MayEnd(attempt);
}

/// Who reads what it has written may end now.
void SimulatedRun::TellWritten(uint32_t attempt) {
  const Attempt& record = Record(attempt);
  if (!streams_.Writes(record.task)) return;
  for (const uint32_t reader : streams_.Written({record.task, record.number})) {
    if (Record(reader).stage == Stage::kRunning && streams_.MayEnd(reader)) RunEnded(reader);
  }
}

/// What it has read is void: it begins anew.
void SimulatedRun::Rewind(uint32_t attempt) {
  if (!Current(attempt) || Record(attempt).end >= 0 || Record(attempt).slot == Attempt::kNoSlot) return;
  Stop(attempt);
  ended_.push_back(core::TaskEnded{{Record(attempt).task, Record(attempt).number},
                                   Record(attempt).node,
                                   core::Rewound{},
                                   FromSeconds(now_ - Record(attempt).begin)});
  TellCore(Record(attempt).node, agent::Settled{Record(attempt).slot});
}

void SimulatedRun::ChangeSpeed(uint32_t id, double speed) {
  Node& node = nodes_[id];
  const double slower = node.speed / speed;
  node.speed = speed;
  for (const agent::Core::Info& info : node.core.All()) {
    if (Gangs::IsTag(info.tag) || Record(info.tag).stage != Stage::kRunning) continue;
    Live& live = live_[info.tag];
    if (live.run_ends <= now_) continue;
    live.run_ends = now_ + (live.run_ends - now_) * slower;
    run_ends_.Push({live.run_ends, Record(info.tag).task.value, info.tag});
  }
}

void SimulatedRun::RunEnded(uint32_t attempt) {
  if (HasStreams() && WaitsForStreams(attempt)) return;
  Record(attempt).stage = Stage::kWriting;
  if (storage_) live_[attempt].file = 0;
  WriteOn(attempt);
}

void SimulatedRun::WriteOn(uint32_t attempt) {
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

double SimulatedRun::BytesOf(FileId file) const {
  return static_cast<double>(std::max<int64_t>(0, graph_.file_size(file)));
}

void SimulatedRun::Move(uint32_t attempt, const Storage::Access& access) {
  Live& live = live_[attempt];
  live.file_begin = now_;
  live.behind = access.behind;
  live.transfer = transfers_.Begin(now_, attempt, access.bytes, access.most, {access.uses, access.use_count});
}

void SimulatedRun::TransferEnded(uint32_t attempt) {
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
    if (live.file < outputs.size()) storage_->HasWritten(outputs[live.file], record.node, live.behind, now_);
    ++live.file;
    WriteOn(attempt);
  }
}

void SimulatedRun::End(uint32_t attempt) {
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
  if (HasStreams()) TellWritten(attempt);
  if (Delayed()) {
    Report(attempt, agent::End::kExited);
  } else {
    ReportEnd(attempt, agent::End::kExited);
  }
  Settle(attempt);
}

void SimulatedRun::Settle(uint32_t attempt) {
  if (gangs_.Has(attempt)) return gangs_.Settle(attempt);
  TellCore(Record(attempt).node, agent::Settled{Record(attempt).slot});
}

bool SimulatedRun::MayKeepOutputs(uint32_t attempt) {
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

void SimulatedRun::Signalled(uint32_t attempt, agent::End reason) {
  if (Gangs::IsTag(attempt)) return gangs_.Signalled(Gangs::OfTag(attempt), reason);
  if (!Current(attempt) || Record(attempt).end >= 0) return;
  Stop(attempt);
  Record(attempt).lost = reason == agent::End::kLost;
  Report(attempt, reason);
  TellCore(Record(attempt).node, agent::Settled{Record(attempt).slot});
}

void SimulatedRun::Stop(uint32_t attempt, bool lost) {
  if (Record(attempt).slot == Attempt::kNoSlot) {
    Gone(attempt);
  } else if (Record(attempt).end < 0) {
    Stop(attempt);
  }
  Record(attempt).lost = lost;
}

void SimulatedRun::Stop(uint32_t attempt) {
  if (!live_.empty() && live_[attempt].transfer != UINT32_MAX) transfers_.Cancel(live_[attempt].transfer);
  if (const auto found = stream_transfers_.find(attempt); found != stream_transfers_.end()) {
    transfers_.Cancel(found->second);
    stream_transfers_.erase(found);
  }
  if (HasStreams()) streams_.Over(attempt);
  Over(attempt, Stage::kGone);
}

void SimulatedRun::Over(uint32_t attempt, Stage stage) {
  Attempt& record = Record(attempt);
  record.stage = stage;
  record.end = now_;
  outcome_.makespan = std::max(outcome_.makespan, now_);
}

void SimulatedRun::SumUp() {
  outcome_.counts = scheduler_.counts();
  if (!options_.io && !stores_) outcome_.bytes_moved = static_cast<double>(outcome_.counts.remote_bytes);
  outcome_.bytes_moved += outcome_.stream_bytes;
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

core::Outcome SimulatedRun::OutcomeOf(agent::End end) {
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

void SimulatedRun::ReportEnd(uint32_t attempt, agent::End end) {
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
  core::TaskEnded ended{
      {record.task, record.number}, record.node, outcome, FromSeconds(record.end - record.begin)};
  if (HasStreams() && streams_.Reads(record.task) && end == agent::End::kExited) {
    for (const AttemptId& writer : streams_.ReadBy(attempt))
      others_.push_back(core::StreamRead{ended.attempt, writer});
    ended.computed = FromSeconds(streams_.computed(attempt));
    streams_.Over(attempt);
  }
  if (HasStreams() && streams_.Writes(record.task) && end == agent::End::kExited)
    ended.written = static_cast<int64_t>(work_[record.task.value].stream_bytes);
  ended_.push_back(ended);
}

}  // namespace harrow::sim
