#include "run/flow_store.h"

#include <algorithm>
#include <google/protobuf/arena.h>

#include "base/text.h"
#include "formats/command_form.h"
#include "run/added.h"
#include "run/flow_builder.h"
#include "run/flow_frames.h"
#include "run/profile.h"
#include "run_dir/names.h"
#include "wire/harrow.pb.h"

// See flow_format.md.

namespace harrow::run {
namespace {

constexpr char kMagic[] = "HARROWFL";
constexpr size_t kHeader = 12;       // magic and version
constexpr uint32_t kPerChunk = 16384;
constexpr uint32_t kOldestWithTasks = 1;  // as they are stored now
constexpr uint32_t kOldestWhole = 2;
constexpr uint32_t kNoVersion = 3;  // one bent bit from version 2

class FrameWriter {
 public:
  FrameWriter() {
    out_.append(kMagic, 8);
    PutInteger<uint32_t>(&out_, kFlowVersion);
  }

  Status Add(const pb::FlowChunk& chunk) {
    HARROW_RETURN_IF_ERROR(AppendFrame(chunk, &out_));
    ++frames_;
    return Status();
  }

  const std::string& Finish(uint64_t tasks) {
    PutInteger<uint32_t>(&out_, 0);
    PutInteger<uint32_t>(&out_, frames_);
    PutInteger<uint64_t>(&out_, tasks);
    return out_;
  }

 private:
  std::string out_;
  uint32_t frames_ = 0;
};

/// Walks over the frames of a flow file.
class FrameReader {
 public:
  FrameReader(std::string_view data, std::string path) : data_(data), path_(std::move(path)) {}

  /// `oldest`: the version from which on a flow holds what the caller looks for.
  Status Start(uint32_t oldest = kOldestWhole) {
    if (data_.size() < kHeader || data_.substr(0, 8) != std::string_view(kMagic, 8)) {
      return Damaged("it is no flow file of a run");
    }
    const auto version = GetInteger<uint32_t>(data_, 8);
    if (version < oldest || version > kFlowVersion || version == kNoVersion) {
      return Status(Code::kDamaged,
                    StrCat(path_, ": version ", version, " of the flow file; this harrow reads versions ",
                           oldest, " to ", kFlowVersion));
    }
    at_ = kHeader;
    return Status();
  }

  /// False at the end.
  Result<bool> Next(std::string* raw) {
    FrameHeader header;
    switch (TakeFrame(data_, &at_, raw, &header)) {
      case FrameState::kCut:
        return Damaged("it is cut");
      case FrameState::kChanged:
        return Damaged("a checksum does not fit");
      case FrameState::kPacked:
        return Damaged("a part does not unpack");
      case FrameState::kEnd:
        tasks_ = header.checksum;
        if (header.raw_length != frames_ || at_ != data_.size()) return Damaged("its end does not fit its parts");
        return false;
      case FrameState::kWhole:
        break;
    }
    ++frames_;
    return true;
  }

  uint64_t tasks() const { return tasks_; }

  /// What is whole, and still cannot be used.
  Status Refused(const Status& why) const {
    if (why.code() == Code::kDamaged) return Damaged(why.message());
    return Status(Code::kRefused, StrCat(path_, ": the run's settings are of another version of Harrow (",
                                         why.message(), "); go on with that one"));
  }

  Status Damaged(std::string_view what) const {
    return Status(Code::kDamaged, StrCat(path_, ": the flow of the run is damaged (", what,
                                         "); start a new run in another directory"));
  }

 private:
  std::string_view data_;
  std::string path_;
  size_t at_ = 0;
  uint32_t frames_ = 0;
  uint64_t tasks_ = 0;
};

void ToProto(const RunSettings& s, pb::RunSettings* p) {
  p->set_run_id(s.run_id);
  p->set_flow_id(s.flow_id);
  p->set_job_id(s.job_id);
  p->set_partition(s.partition);
  p->set_submit_dir(s.submit_dir);
  for (const config::Setting& setting : config::ToStore(s)) {
    pb::Setting* stored = p->add_setting();
    stored->set_key(setting.key);
    stored->set_value(setting.value);
  }
  for (const auto& [name, value] : s.env) {
    pb::EnvVar* variable = p->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  for (const std::string& source : s.sources) p->add_source(source);
  for (const cost::Known& known : s.known_costs) {
    pb::KnownCost* cost = p->add_known_cost();
    cost->set_model(known.model);
    cost->set_kind(known.kind);
    cost->set_tasks(known.tasks);
    cost->set_seconds(known.seconds);
    cost->set_bytes(known.bytes);
    cost->set_units(known.units);
    cost->set_out_units(known.out_units);
  }
  p->set_started_ns(s.started.time_since_epoch().count());
  p->set_sync_journal(s.sync_journal);
  p->set_stage(static_cast<uint32_t>(s.stage));
  p->set_submitted(s.submitted);
  p->set_session_ns(s.session.time_since_epoch().count());
}

void ToProto(const graph::Graph& graph, TaskId task, bool unwanted, pb::StoredTask* out) {
  const std::string_view name = graph.given_name(task), command = graph.command(task);
  out->set_name(name.data(), name.size());
  out->set_command(command.data(), command.size());
  out->set_form(static_cast<uint32_t>(graph.form(task)));
  out->set_profile(graph.profile_id(task).value);
  out->set_kind(graph.kind(task).value);
  for (const FileId file : graph.inputs(task)) out->add_in(file.value);
  for (const FileId file : graph.outputs(task)) out->add_out(file.value);
  for (const TaskId before : graph.predecessors(task)) {
    if (graph.OnlyWaits(before, task)) {
      out->add_after_any(before.value);
    } else if (!graph.Reads(task, before) && !graph.StartSuffices(before, task)) {
      out->add_after(before.value);
    }
  }
  const SourcePlace place = graph.place(task);
  out->set_source(place.source);
  out->set_line(place.line);
  out->set_column(place.column);
  if (const auto recorded = graph.recorded_run_time(task)) out->set_recorded_ns(recorded->count() + 1);
  if (graph.bound(task) != graph::kNoBound) out->set_bound(graph.bound(task));
  out->set_unwanted(unwanted);
}

void ToProto(const graph::Stream& stream, pb::StoredStream* out) {
  out->set_name(stream.name);
  out->set_split(stream.split);
  out->set_records(stream.records);
  for (const TaskId writer : stream.writers) out->add_writer(writer.value);
  for (const TaskId reader : stream.readers) out->add_reader(reader.value);
  out->set_close(stream.closed);
  for (const graph::StreamHold& hold : stream.holds) {
    pb::StreamHold* const stored = out->add_hold();
    stored->set_by(hold.by);
    stored->set_task(hold.task ? hold.task.value + 1 : 0);
    stored->set_in_flow(hold.in_flow);
  }
}

/// In some chunks, so that none is too large to be read again.
Status AddStreams(const graph::Graph& graph, FrameWriter* writer) {
  pb::FlowChunk chunk;
  size_t ends = 0;
  std::vector<graph::StreamEnd> held = graph.held();
  std::sort(held.begin(), held.end(), [](const auto& a, const auto& b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); });
  auto holder = held.begin();
  for (uint32_t n = 0; n < graph.streams().size(); ++n) {
    const graph::Stream& stream = graph.streams()[n];
    pb::StoredStream* const stored = chunk.add_stream();
    ToProto(stream, stored);
    for (; holder != held.end() && holder->second == StreamId(n); ++holder) stored->add_held_by(holder->first.value);
    ends += 1 + stream.writers.size() + stream.readers.size();
    if (ends < 16 * kPerChunk) continue;
    HARROW_RETURN_IF_ERROR(writer->Add(chunk));
    chunk.Clear();
    ends = 0;
  }
  graph.EachModelled([&](TaskId first, uint32_t count, const std::string& text) {
    pb::StoredModel* model = chunk.add_model();
    model->set_first(first.value);
    model->set_count(count);
    model->set_text(text);
  });
  return chunk.stream_size() + chunk.model_size() > 0 ? writer->Add(chunk) : Status();
}

Status NoRun(const std::string& dir, const Status& why) {
  if (why.code() != Code::kNotFound) return why;
  return Status(Code::kNotFound, StrCat(dir, ": no run there (there is no ", run_dir::FlowPath(dir), ")"));
}

/// The directory whose flow file a part goes by. One that cannot be used is not passed over.
std::string HomeOf(const run_dir::Part& part) {
  const std::string own = part.is_first() ? part.dir->path() : run_dir::PartPath(part.run->path(), run_dir::kFirstPart);
  const Status there = part.run->Stat(run_dir::FlowPath(own)).status();
  return there.code() == Code::kNotFound ? part.run->path() : own;
}

}  // namespace

Status WriteSettings(os::FileSystem& fs, const std::string& dir, const RunSettings& settings) {
  return WriteFlow(fs, dir, settings, graph::Graph(), {});
}

Status WriteFlow(os::FileSystem& fs, const std::string& dir, const RunSettings& settings,
                 const graph::Graph& graph, const std::vector<bool>& unwanted) {
  FrameWriter writer;
  {
    pb::FlowChunk head;
    ToProto(settings, head.mutable_settings());
    for (uint32_t i = 0; i < graph.profile_count(); ++i) {
      ProfileToProto(graph.profile(ProfileId(i)), i, head.add_profile());
    }
    for (uint32_t i = 0; i < graph.kind_count(); ++i) head.add_kind(std::string(graph.kind_name(KindId(i))));
    HARROW_RETURN_IF_ERROR(writer.Add(head));
  }
  google::protobuf::Arena arena;
  for (uint32_t first = 0; first < graph.file_count(); first += kPerChunk) {
    auto* chunk = google::protobuf::Arena::CreateMessage<pb::FlowChunk>(&arena);
    for (uint32_t i = first; i < std::min<size_t>(first + kPerChunk, graph.file_count()); ++i) {
      pb::StoredFile* file = chunk->add_file();
      const std::string_view name = graph.file_name(FileId(i));
      file->set_name(name.data(), name.size());
      file->set_size(graph.file_size(FileId(i)));
    }
    HARROW_RETURN_IF_ERROR(writer.Add(*chunk));
    arena.Reset();
  }
  for (uint32_t first = 0; first < graph.task_count(); first += kPerChunk) {
    auto* chunk = google::protobuf::Arena::CreateMessage<pb::FlowChunk>(&arena);
    for (uint32_t i = first; i < std::min<size_t>(first + kPerChunk, graph.task_count()); ++i) {
      ToProto(graph, TaskId(i), i < unwanted.size() && unwanted[i], chunk->add_task());
    }
    HARROW_RETURN_IF_ERROR(writer.Add(*chunk));
    arena.Reset();
  }
  HARROW_RETURN_IF_ERROR(AddStreams(graph, &writer));
  return fs.WriteWhole(run_dir::FlowPath(dir), writer.Finish(graph.task_count()), 0600);
}

namespace {

/// The flow file of a directory.
Status Read(os::FileSystem& fs, const std::string& dir, FlowBuilder* builder) {
  Result<std::string> data = fs.Read(run_dir::FlowPath(dir));
  if (!data.ok()) return NoRun(dir, data.status());
  FrameReader reader(*data, run_dir::FlowPath(dir));
  HARROW_RETURN_IF_ERROR(reader.Start());
  google::protobuf::Arena arena;
  std::string raw;
  while (true) {
    const Result<bool> more = reader.Next(&raw);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto* chunk = google::protobuf::Arena::CreateMessage<pb::FlowChunk>(&arena);
    if (!chunk->ParseFromString(raw)) return reader.Damaged("a part does not read");
    if (const Status added = builder->AddChunk(*chunk); !added.ok()) return reader.Refused(added);
    arena.Reset();
  }
  if (builder->tasks() != reader.tasks()) return reader.Damaged("tasks are missing");
  if (const Status sealed = builder->Seal(); !sealed.ok()) return reader.Damaged(sealed.message());
  return {};
}

}  // namespace

Result<StoredFlow> ReadFlow(os::FileSystem& fs, const std::string& dir) {
  StoredFlow flow;
  FlowBuilder builder(&flow);
  HARROW_RETURN_IF_ERROR(Read(fs, dir, &builder));
  return flow;
}

Result<uint32_t> ReadFlow(const run_dir::Part& part, StoredFlow* flow, FlowBuilder* builder,
                          std::vector<Submission>* submissions) {
  HARROW_RETURN_IF_ERROR(Read(*part.run, HomeOf(part), builder));
  const uint32_t before = builder->tasks();
  if (part.is_first()) {
    HARROW_RETURN_IF_ERROR(ReadAdded(*part.dir, flow->settings.flow_id, builder, submissions));
  } else {
    uint64_t at = 0;
    Status unread;
    HARROW_RETURN_IF_ERROR(ReadMore(part, before, flow->settings.flow_id, &at, builder, &unread));
    HARROW_RETURN_IF_ERROR(unread);
    Result<RunSettings> own = ReadSettings(part);
    if (!own.ok()) return own.status();
    if (own->flow_id != flow->settings.flow_id)
      return Status(Code::kRefused, StrCat(part.dir->path(), ": the run has been resumed with another flow since"));
    own->submitted = flow->settings.submitted;
    flow->settings = *std::move(own);
  }
  flow->settings.submitted += builder->tasks() - before;
  return before;
}

Status ReadMore(const run_dir::Part& part, uint32_t flow_tasks, const std::string& flow_id, uint64_t* at, FlowBuilder* builder,
                Status* unread) {
  const auto first = run_dir::OpenPart(part.run);
  if (!first.ok()) return first.status().code() == Code::kNotFound ? Status() : first.status();
  const uint32_t before = builder->groups();
  uint32_t number = *at == 0 ? 0 : before;
  Status added;
  *unread = ReadAddedOn(*first->dir, flow_id, flow_tasks, at, [&](const pb::AddedGroup& group) {
    return added = ++number <= before ? Status() : builder->AddGroup(group);
  });
  HARROW_RETURN_IF_ERROR(added);
  return builder->groups() == before ? Status() : builder->Seal();
}

Result<StoredFlow> ReadFlow(const run_dir::Part& part) {
  StoredFlow flow;
  FlowBuilder builder(&flow);
  if (const auto read = ReadFlow(part, &flow, &builder, nullptr); !read.ok()) return read.status();
  return flow;
}

Result<std::unordered_map<uint32_t, TaskText>> ReadTaskTexts(const run_dir::Part& part,
                                                             const std::vector<TaskId>& tasks) {
  std::vector<TaskId> left = tasks;  // the next one last
  std::sort(left.begin(), left.end(), std::greater<>());
  const std::string dir = HomeOf(part);
  Result<std::string> data = part.run->Read(run_dir::FlowPath(dir));
  if (!data.ok()) return NoRun(dir, data.status());
  FrameReader reader(*data, run_dir::FlowPath(dir));
  HARROW_RETURN_IF_ERROR(reader.Start(kOldestWithTasks));
  std::unordered_map<uint32_t, TaskText> texts;
  std::vector<std::string> sources;
  std::string flow_id;
  uint32_t first = 0;  // task of the chunk
  const auto take = [&](const pb::FlowChunk& chunk, bool placed) {
    const uint32_t end = first + static_cast<uint32_t>(chunk.task_size());
    for (; !left.empty() && left.back().value < end; left.pop_back()) {
      const pb::StoredTask& task = chunk.task(static_cast<int>(left.back().value - first));
      TaskText& text = texts[left.back().value];
      text.command = formats::CommandText(task.command(), static_cast<graph::CommandForm>(task.form()));
      if (placed && task.source() < sources.size()) text.place = StrCat(sources[task.source()], ":", task.line());
    }
    first = end;
  };
  std::string raw;
  while (!left.empty()) {
    const Result<bool> more = reader.Next(&raw);
    if (!more.ok()) return more.status();
    if (!*more) break;
    pb::FlowChunk chunk;
    if (!chunk.ParseFromString(raw)) return reader.Damaged("a part does not read");
    if (chunk.has_settings()) {
      sources.assign(chunk.settings().source().begin(), chunk.settings().source().end());
      flow_id = chunk.settings().flow_id();
    }
    take(chunk, true);
  }
  if (!left.empty()) {
    const auto home = run_dir::OpenPart(part.run);
    run_dir::RunDir& added = home.ok() ? *home->dir : *part.dir;
    HARROW_RETURN_IF_ERROR(ReadAddedChunks(added, flow_id, first, [&](const pb::AddedGroup& group) {
      take(group.chunk(), false);
      return Status();
    }));
  }
  return texts;
}

Result<RunSettings> ReadSettings(const run_dir::Part& part) {
  return part.is_first() ? ReadSettings(*part.run, HomeOf(part)) : ReadSettings(*part.dir, part.dir->path());
}

Result<RunSettings> ReadSettings(os::FileSystem& fs, const std::string& dir) {
  // They come first, and each agent reads them: the tasks may be millions.
  const std::string path = run_dir::FlowPath(dir);
  constexpr size_t kBegin = kHeader + kFrameHeader;
  Result<std::string> data = fs.ReadRange(path, 0, kBegin);
  if (data.ok() && data->size() == kBegin)
    data = fs.ReadRange(path, 0, kBegin + GetInteger<uint32_t>(*data, kHeader));
  if (!data.ok()) return NoRun(dir, data.status());
  FrameReader reader(*data, path);
  HARROW_RETURN_IF_ERROR(reader.Start());
  std::string raw;
  const Result<bool> more = reader.Next(&raw);
  if (!more.ok()) return more.status();
  pb::FlowChunk chunk;
  RunSettings settings;
  if (!*more || !chunk.ParseFromString(raw) || !chunk.has_settings())
    return reader.Damaged("its settings do not read");
  if (const Status read = SettingsFromProto(chunk.settings(), &settings); !read.ok()) return reader.Refused(read);
  return settings;
}

}  // namespace harrow::run
