#include "run/flow_store.h"

#include <google/protobuf/arena.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <algorithm>
#include <cstring>
#include <xxhash.h>

#include "base/text.h"
#include "formats/command_form.h"
#include "run/profile.h"
#include "run_dir/names.h"
#include "wire/harrow.pb.h"

// See flow_format.md.

namespace harrow::run {
namespace {

constexpr char kMagic[] = "HARROWFL";
constexpr size_t kHeader = 12;       // magic and version
constexpr size_t kFrameHeader = 16;  // length, raw length, checksum
constexpr uint32_t kPerChunk = 16384;
constexpr uint32_t kMaxRaw = 1u << 30;
constexpr int kLevel = 1;
constexpr uint32_t kOldestWithTasks = 1;  // as they are stored now
constexpr uint32_t kOldestWhole = 2;
constexpr uint32_t kNoVersion = 3;  // one bent bit from version 2

template <class T>
void Put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

template <class T>
T Get(std::string_view data, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<T>(static_cast<uint8_t>(data[at + i])) << (8 * i);
  return value;
}

class FrameWriter {
 public:
  FrameWriter() {
    out_.append(kMagic, 8);
    Put<uint32_t>(&out_, kFlowVersion);
  }

  Status Add(const pb::FlowChunk& chunk) {
    if (!chunk.SerializeToString(&raw_) || raw_.size() > kMaxRaw) {
      return Status(Code::kInvalid, "a part of the flow is larger than a run's flow file can hold (1 GiB)");
    }
    const size_t at = out_.size();
    const size_t bound = ZSTD_compressBound(raw_.size());
    out_.resize(at + kFrameHeader + bound);
    const size_t length =
        ZSTD_compress(out_.data() + at + kFrameHeader, bound, raw_.data(), raw_.size(), kLevel);
    if (ZSTD_isError(length)) return Status(Code::kInternal, StrCat("zstd: ", ZSTD_getErrorName(length)));
    out_.resize(at + kFrameHeader + length);
    std::string header;
    Put<uint32_t>(&header, static_cast<uint32_t>(length));
    Put<uint32_t>(&header, static_cast<uint32_t>(raw_.size()));
    Put<uint64_t>(&header, XXH3_64bits(out_.data() + at + kFrameHeader, length));
    std::memcpy(out_.data() + at, header.data(), kFrameHeader);
    ++frames_;
    return Status();
  }

  const std::string& Finish(uint64_t tasks) {
    Put<uint32_t>(&out_, 0);
    Put<uint32_t>(&out_, frames_);
    Put<uint64_t>(&out_, tasks);
    return out_;
  }

 private:
  std::string out_, raw_;
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
    const auto version = Get<uint32_t>(data_, 8);
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
    if (data_.size() - at_ < kFrameHeader) return Damaged("it is cut");
    const auto length = Get<uint32_t>(data_, at_);
    const auto raw_length = Get<uint32_t>(data_, at_ + 4);
    const auto checksum = Get<uint64_t>(data_, at_ + 8);
    at_ += kFrameHeader;
    if (length == 0) {
      tasks_ = checksum;
      if (raw_length != frames_ || at_ != data_.size()) return Damaged("its end does not fit its parts");
      return false;
    }
    if (data_.size() - at_ < length || raw_length > kMaxRaw) return Damaged("it is cut");
    const std::string_view packed = data_.substr(at_, length);
    if (XXH3_64bits(packed.data(), packed.size()) != checksum) return Damaged("a checksum does not fit");
    raw->resize(raw_length);
    const size_t got = ZSTD_decompress(raw->data(), raw->size(), packed.data(), packed.size());
    if (ZSTD_isError(got) || got != raw_length) return Damaged("a part does not unpack");
    at_ += length;
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
  p->set_started_ns(s.started.time_since_epoch().count());
  p->set_sync_journal(s.sync_journal);
  p->set_stage(static_cast<uint32_t>(s.stage));
}

/// kInvalid: a setting that is not known here, or not as it can be.
Status FromProto(const pb::RunSettings& p, RunSettings* s) {
  std::vector<config::Setting> settings;
  for (const pb::Setting& setting : p.setting()) settings.push_back({setting.key(), setting.value(), ""});
  HARROW_RETURN_IF_ERROR(config::Apply(settings, s));
  s->run_id = p.run_id();
  s->flow_id = p.flow_id();
  s->job_id = p.job_id();
  s->submit_dir = p.submit_dir();
  for (const pb::EnvVar& variable : p.env()) s->env.emplace_back(variable.name(), variable.value());
  s->sources.assign(p.source().begin(), p.source().end());
  s->started = WallTime(Duration(p.started_ns()));
  s->sync_journal = p.sync_journal();
  if (p.stage() > static_cast<uint32_t>(Stage::kDrop)) return Status(Code::kInvalid, "stage: not known");
  s->stage = static_cast<Stage>(p.stage());
  return {};
}

void ToProto(const graph::Graph& graph, TaskId task, bool unwanted, pb::StoredTask* out) {
  const std::string_view name = graph.given_name(task), command = graph.command(task);
  out->set_name(name.data(), name.size());
  out->set_command(command.data(), command.size());
  out->set_form(static_cast<uint32_t>(graph.form(task)));
  out->set_profile(graph.profile_id(task).value);
  out->set_kind(graph.kind(task).value);
  const auto inputs = graph.inputs(task);
  for (const FileId file : inputs) out->add_in(file.value);
  for (const FileId file : graph.outputs(task)) out->add_out(file.value);
  for (const TaskId before : graph.predecessors(task)) {
    const bool by_file = std::any_of(inputs.begin(), inputs.end(),
                                     [&](FileId file) { return graph.producer(file) == before; });
    if (graph.OnlyWaits(before, task)) {
      out->add_after_any(before.value);
    } else if (!by_file) {
      out->add_after(before.value);
    }
  }
  const SourcePlace place = graph.place(task);
  out->set_source(place.source);
  out->set_line(place.line);
  out->set_column(place.column);
  if (const auto recorded = graph.recorded_run_time(task)) out->set_recorded_ns(recorded->count() + 1);
  out->set_unwanted(unwanted);
}

/// Puts a flow together from its chunks. Every index is checked: a damaged file must not become a wrong
/// graph.
class FlowBuilder {
 public:
  /// kInvalid: settings that are not known here; kDamaged.
  Status AddChunk(const pb::FlowChunk& chunk) {
    if (chunk.has_settings()) {
      HARROW_RETURN_IF_ERROR(FromProto(chunk.settings(), &flow_.settings));
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
    return {};
  }

  Status Finish() {
    for (const Later& each : later_) {
      if (each.before.value >= count_) return Status(Code::kDamaged, "a task follows one that is not there");
      flow_.graph.AddDependency(each.before, each.after, each.what);
    }
    return flow_.graph.Seal();
  }

  uint64_t count() const { return count_; }
  StoredFlow Take() {
    if (!flow_.unwanted.empty()) flow_.unwanted.resize(count_);
    return std::move(flow_);
  }

 private:
  bool Files(const google::protobuf::RepeatedField<uint32_t>& from, std::vector<FileId>* to) {
    to->clear();
    for (const uint32_t index : from) {
      if (index >= files_.size()) return false;
      to->push_back(files_[index]);
    }
    return true;
  }

  /// Those before the task that is being read, now; the others in the end.
  void Follow(const google::protobuf::RepeatedField<uint32_t>& from, graph::WaitsFor what,
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

  bool AddTask(const pb::StoredTask& task) {
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
    if (task.recorded_ns() > 0) spec.recorded_run_time = Duration(task.recorded_ns() - 1);
    flow_.graph.AddTask(spec);
    if (task.unwanted()) {
      flow_.unwanted.resize(count_ + 1);
      flow_.unwanted[count_] = true;
    }
    ++count_;
    return true;
  }

  StoredFlow flow_;
  std::vector<ProfileId> profiles_;
  std::vector<KindId> kinds_;
  std::vector<FileId> files_, in_, out_;
  std::vector<TaskId> after_, after_any_;
  struct Later {
    TaskId before, after;
    graph::WaitsFor what;
  };
  std::vector<Later> later_;
  uint32_t count_ = 0;
};

Status NoRun(const std::string& dir, const Status& why) {
  if (why.code() != Code::kNotFound) return why;
  return Status(Code::kNotFound, StrCat(dir, ": no run there (there is no ", run_dir::FlowPath(dir), ")"));
}

/// The directory whose flow file a part goes by. One that cannot be used is not passed over.
std::string HomeOf(const run_dir::Part& part) {
  const std::string& own = part.dir->path();
  const Status there = part.run->Stat(run_dir::FlowPath(own)).status();
  return there.code() == Code::kNotFound ? part.run->path() : own;
}

}  // namespace

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
  return fs.WriteWhole(run_dir::FlowPath(dir), writer.Finish(graph.task_count()), 0600);
}

Result<StoredFlow> ReadFlow(os::FileSystem& fs, const std::string& dir) {
  Result<std::string> data = fs.Read(run_dir::FlowPath(dir));
  if (!data.ok()) return NoRun(dir, data.status());
  FrameReader reader(*data, run_dir::FlowPath(dir));
  HARROW_RETURN_IF_ERROR(reader.Start());
  FlowBuilder builder;
  google::protobuf::Arena arena;
  std::string raw;
  while (true) {
    const Result<bool> more = reader.Next(&raw);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto* chunk = google::protobuf::Arena::CreateMessage<pb::FlowChunk>(&arena);
    if (!chunk->ParseFromString(raw)) return reader.Damaged("a part does not read");
    if (const Status added = builder.AddChunk(*chunk); !added.ok()) return reader.Refused(added);
    arena.Reset();
  }
  if (builder.count() != reader.tasks()) return reader.Damaged("tasks are missing");
  if (const Status sealed = builder.Finish(); !sealed.ok()) return reader.Damaged(sealed.message());
  return builder.Take();
}

Result<StoredFlow> ReadFlow(const run_dir::Part& part) {
  return ReadFlow(*part.run, HomeOf(part));
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
  uint32_t first = 0;  // task of the chunk
  std::string raw;
  while (!left.empty()) {
    const Result<bool> more = reader.Next(&raw);
    if (!more.ok()) return more.status();
    if (!*more) break;
    pb::FlowChunk chunk;
    if (!chunk.ParseFromString(raw)) return reader.Damaged("a part does not read");
    if (chunk.has_settings())
      sources.assign(chunk.settings().source().begin(), chunk.settings().source().end());
    const uint32_t end = first + static_cast<uint32_t>(chunk.task_size());
    for (; !left.empty() && left.back().value < end; left.pop_back()) {
      const pb::StoredTask& task = chunk.task(static_cast<int>(left.back().value - first));
      TaskText& text = texts[left.back().value];
      text.command = formats::CommandText(task.command(), static_cast<graph::CommandForm>(task.form()));
      if (task.source() < sources.size()) text.place = StrCat(sources[task.source()], ":", task.line());
    }
    first = end;
  }
  return texts;
}

Result<RunSettings> ReadSettings(const run_dir::Part& part) {
  return ReadSettings(*part.run, HomeOf(part));
}

Result<RunSettings> ReadSettings(os::FileSystem& fs, const std::string& dir) {
  // They come first, and each agent reads them: the tasks may be millions.
  const std::string path = run_dir::FlowPath(dir);
  constexpr size_t kBegin = kHeader + kFrameHeader;
  Result<std::string> data = fs.ReadRange(path, 0, kBegin);
  if (data.ok() && data->size() == kBegin)
    data = fs.ReadRange(path, 0, kBegin + Get<uint32_t>(*data, kHeader));
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
  if (const Status read = FromProto(chunk.settings(), &settings); !read.ok()) return reader.Refused(read);
  return settings;
}

}  // namespace harrow::run
