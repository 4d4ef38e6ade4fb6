#include "run/flow_builder.h"

#include <algorithm>
#include <cmath>

#include "config/run_options.h"
#include "run/profile.h"

namespace harrow::run {
Status SettingsFromProto(const pb::RunSettings& p, RunSettings* s) {
  std::vector<config::Setting> settings;
  for (const pb::Setting& setting : p.setting()) settings.push_back({setting.key(), setting.value(), ""});
  HARROW_RETURN_IF_ERROR(config::Apply(settings, s));
  s->run_id = p.run_id();
  s->flow_id = p.flow_id();
  s->job_id = p.job_id();
  s->partition = p.partition();
  s->submit_dir = p.submit_dir();
  for (const pb::EnvVar& variable : p.env()) s->env.emplace_back(variable.name(), variable.value());
  for (const pb::KnownCost& cost : p.known_cost()) {
    s->known_costs.push_back({.model = cost.model(),
                              .kind = cost.kind(),
                              .tasks = cost.tasks(),
                              .seconds = cost.seconds(),
                              .bytes = cost.bytes(),
                              .units = cost.units(),
                              .out_units = cost.out_units()});
  }
  s->sources.assign(p.source().begin(), p.source().end());
  s->started = WallTime(Duration(p.started_ns()));
  s->sync_journal = p.sync_journal();
  if (p.stage() > static_cast<uint32_t>(Stage::kDrop)) return Status(Code::kInvalid, "stage: not known");
  s->stage = static_cast<Stage>(p.stage());
  s->submitted = p.submitted();
  s->session = WallTime(Duration(p.session_ns()));
  return {};
}

Status FlowBuilder::AddChunk(const pb::FlowChunk& chunk, uint32_t part) {
  if (chunk.has_settings()) {
    HARROW_RETURN_IF_ERROR(SettingsFromProto(chunk.settings(), &flow_.settings));
    for (const std::string& source : flow_.settings.sources) flow_.graph.AddSource(source);
  }
  for (const pb::Profile& profile : chunk.profile())
    profiles_.push_back(flow_.graph.AddProfile(ProfileFromProto(profile)));
  for (const std::string& kind : chunk.kind()) kinds_.push_back(flow_.graph.AddKind(kind));
  for (const pb::StoredFile& file : chunk.file()) {
    files_.push_back(flow_.graph.AddFile(file.name()));
    if (file.size() >= 0) flow_.graph.SetFileSize(files_.back(), file.size());
  }
  for (const pb::StoredTask& task : chunk.task()) {
    if (!AddTask(task)) return Status(Code::kDamaged, "a part does not fit the others");
  }
  flow_.first_owners.Add(part, static_cast<size_t>(chunk.task_size()));
  for (const pb::StoredStream& stream : chunk.stream()) {
    if (!AddStream(stream)) return Status(Code::kDamaged, "a part does not fit the others");
  }
  for (const pb::StoredModel& model : chunk.model()) {
    if (model.count() > count_ || model.first() > count_ - model.count())
      return Status(Code::kDamaged, "a part does not fit the others");
    flow_.graph.SetModel(TaskId(model.first()), model.count(), model.text());
  }
  return {};
}

/// What it says comes to what is known of the stream already.
bool FlowBuilder::AddStream(const pb::StoredStream& stored) {
  graph::Graph& graph = flow_.graph;
  const StreamId stream = graph.AddStream(stored.name());
  if (stored.split()) graph.SetSplit(stream);
  if (stored.writer_size() > 0) graph.SetRecords(stream, stored.records());
  const auto fits = [&](uint32_t task) { return task < count_; };
  const auto holds = [&](const pb::StreamHold& hold) { return hold.task() <= count_; };
  if (!std::all_of(stored.writer().begin(), stored.writer().end(), fits) ||
      !std::all_of(stored.reader().begin(), stored.reader().end(), fits) ||
      !std::all_of(stored.held_by().begin(), stored.held_by().end(), fits) ||
      !std::all_of(stored.hold().begin(), stored.hold().end(), holds))
    return false;
  const auto join = [&](TaskId writer, TaskId reader) { graph.AddDependency(writer, reader, graph::WaitsFor::kStart); };
  for (const uint32_t writer : stored.writer()) {
    for (const TaskId reader : graph.streams()[stream.value].readers) join(TaskId(writer), reader);
    graph.AddWriter(stream, TaskId(writer));
  }
  for (const uint32_t reader : stored.reader()) {
    for (const TaskId writer : graph.streams()[stream.value].writers) join(writer, TaskId(reader));
    graph.AddReader(stream, TaskId(reader));
  }
  if (stored.close()) graph.CloseStream(stream);
  for (const std::string& by : stored.release()) graph.ReleaseStream(stream, by);
  for (const pb::StreamHold& hold : stored.hold())
    graph.HoldStream(stream, {hold.by(), hold.task() > 0 ? TaskId(hold.task() - 1) : TaskId(), hold.in_flow()});
  for (const uint32_t task : stored.held_by()) graph.NoteHolder(stream, TaskId(task));
  return true;
}

Status FlowBuilder::Seal() {
  for (const Later& each : later_) {
    if (each.before.value >= count_) return Status(Code::kDamaged, "a task follows one that is not there");
    flow_.graph.AddDependency(each.before, each.after, each.what);
  }
  later_.clear();
  if (!flow_.unwanted.empty()) flow_.unwanted.resize(count_);
  return flow_.graph.Seal();
}

bool FlowBuilder::Files(const google::protobuf::RepeatedField<uint32_t>& from, std::vector<FileId>* to) const {
  to->clear();
  for (const uint32_t index : from) {
    if (index >= files_.size()) return false;
    to->push_back(files_[index]);
  }
  return true;
}

/// Those before the task that is being read, now; the others in the end.
void FlowBuilder::Follow(const google::protobuf::RepeatedField<uint32_t>& from, graph::WaitsFor what,
            std::vector<TaskId>* to) {
  to->clear();
  for (const uint32_t before : from) {
    if (before < count_) {
      to->push_back(TaskId(before));
    } else {
      later_.push_back({TaskId(before), TaskId(count_), what});
    }
  }
}

bool FlowBuilder::AddTask(const pb::StoredTask& task) {
  if (task.profile() >= profiles_.size() ||
      task.form() > static_cast<uint32_t>(graph::CommandForm::kAssigned))
    return false;
  if (task.kind() >= kinds_.size() && task.kind() != KindId::kNone) return false;
  if (!Files(task.in(), &in_) || !Files(task.out(), &out_)) return false;
  Follow(task.after(), graph::WaitsFor::kSuccess, &after_);
  Follow(task.after_any(), graph::WaitsFor::kEnd, &after_any_);
  graph::TaskSpec spec;
  spec.name = task.name();
  spec.command = task.command();
  spec.form = static_cast<graph::CommandForm>(task.form());
  spec.profile = profiles_[task.profile()];
  if (task.kind() != KindId::kNone) spec.kind = kinds_[task.kind()];
  spec.in = in_;
  spec.out = out_;
  spec.after = after_;
  spec.after_any = after_any_;
  spec.place = {.source = task.source(), .line = task.line(), .column = task.column()};
  if (task.has_bound() && !std::isnan(task.bound())) spec.bound = task.bound();
  if (task.recorded_ns() > 0) spec.recorded_run_time = Duration(task.recorded_ns() - 1);
  flow_.graph.AddTask(spec);
  if (task.unwanted()) {
    flow_.unwanted.resize(count_ + 1);
    flow_.unwanted[count_] = true;
  }
  ++count_;
  return true;
}

}  // namespace harrow::run
