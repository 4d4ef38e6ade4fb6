#include "server/flow_store.h"

#include <google/protobuf/arena.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <algorithm>
#include <cstring>
#include <xxhash.h>

#include "base/text.h"
#include "formats/command_form.h"
#include "server/messages.h"
#include "wire/harrow.pb.h"

// RUN/flow: see flow_format.md.

namespace harrow::server {
namespace {

constexpr char kMagic[] = "HARROWFL";
constexpr size_t kHeader = 12;       // magic and version
constexpr size_t kFrameHeader = 16;  // length, raw length, checksum
constexpr uint32_t kPerChunk = 16384;
constexpr uint32_t kMaxRaw = 1u << 30;
constexpr int kLevel = 1;

std::string PathOf(const std::string& run_dir) {
  return run_dir + "/flow";
}

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
  FrameWriter() : context_(ZSTD_createCCtx()) {
    out_.append(kMagic, 8);
    Put<uint32_t>(&out_, kFlowVersion);
  }
  ~FrameWriter() { ZSTD_freeCCtx(context_); }
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  Status Add(const pb::FlowChunk& chunk) {
    if (!chunk.SerializeToString(&raw_) || raw_.size() > kMaxRaw) {
      return Status(Code::kInvalid, "a part of the flow is larger than a run's flow file can hold (1 GiB)");
    }
    const size_t at = out_.size();
    const size_t bound = ZSTD_compressBound(raw_.size());
    out_.resize(at + kFrameHeader + bound);
    const size_t length =
        ZSTD_compressCCtx(context_, out_.data() + at + kFrameHeader, bound, raw_.data(), raw_.size(), kLevel);
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
  ZSTD_CCtx* context_;
  std::string out_, raw_;
  uint32_t frames_ = 0;
};

/// Walks over the frames of a flow file.
class FrameReader {
 public:
  FrameReader(std::string_view data, std::string path) : data_(data), path_(std::move(path)) {}

  Status Start() {
    if (data_.size() < kHeader || data_.substr(0, 8) != std::string_view(kMagic, 8)) {
      return Damaged("it is no flow file of a run");
    }
    const auto version = Get<uint32_t>(data_, 8);
    if (version != kFlowVersion) {
      return Status(Code::kDamaged, StrCat(path_, ": version ", version,
                                           " of the flow file; this harrow reads version ", kFlowVersion));
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
  p->set_name(s.name);
  p->set_job_id(s.job_id);
  p->set_order(std::string(order::PolicyName(s.order)));
  p->set_locality(s.locality);
  p->set_steal(s.steal);
  p->set_seed(s.seed);
  p->set_retries(s.retries);
  p->set_max_losses(s.max_losses);
  p->set_max_failures(s.max_failures);
  p->set_bad_node_failures(s.bad_node_failures);
  p->set_fail_fast(s.fail_fast);
  p->set_slots(s.slots);
  p->set_local_nodes(s.local_nodes);
  p->set_pin(s.pin);
  p->set_shell(s.shell);
  p->set_submit_dir(s.submit_dir);
  for (const auto& [name, value] : s.env) {
    pb::EnvVar* variable = p->add_env();
    variable->set_name(name);
    variable->set_value(value);
  }
  for (const std::string& source : s.sources) p->add_source(source);
  p->set_output_limit(s.output_limit);
  p->set_lease_ns(s.lease.count());
  p->set_end_margin_ns(s.end_margin.count());
  p->set_started_ns(s.started.time_since_epoch().count());
  p->set_sync_journal(s.sync_journal);
}

bool FromProto(const pb::RunSettings& p, RunSettings* s) {
  const auto policy = order::ParsePolicy(p.order());
  if (!policy) return false;
  s->run_id = p.run_id();
  s->flow_id = p.flow_id();
  s->name = p.name();
  s->job_id = p.job_id();
  s->order = *policy;
  s->locality = p.locality();
  s->steal = p.steal();
  s->seed = p.seed();
  s->retries = p.retries();
  s->max_losses = p.max_losses();
  s->max_failures = p.max_failures();
  s->bad_node_failures = p.bad_node_failures();
  s->fail_fast = p.fail_fast();
  s->slots = p.slots();
  s->local_nodes = p.local_nodes();
  s->pin = p.pin();
  s->shell = p.shell();
  s->submit_dir = p.submit_dir();
  for (const pb::EnvVar& variable : p.env()) s->env.emplace_back(variable.name(), variable.value());
  s->sources.assign(p.source().begin(), p.source().end());
  s->output_limit = p.output_limit();
  s->lease = Duration(p.lease_ns());
  s->end_margin = Duration(p.end_margin_ns());
  s->started = WallTime(Duration(p.started_ns()));
  s->sync_journal = p.sync_journal();
  return true;
}

graph::Profile ProfileFrom(const pb::Profile& p) {
  graph::Profile profile;
  profile.shape = {.cores = p.cores(),
                   .gpus = p.gpus(),
                   .nodes = p.nodes(),
                   .whole_node = p.whole_node(),
                   .memory = p.memory()};
  profile.ranks = p.ranks();
  profile.cwd = p.cwd();
  profile.shell = p.shell();
  for (const pb::EnvVar& variable : p.env()) profile.env.emplace_back(variable.name(), variable.value());
  profile.time_limit = Duration(p.time_limit_ns());
  profile.retries = p.retries();
  profile.retry_on.assign(p.retry_on().begin(), p.retry_on().end());
  profile.stdin_path = p.stdin_path();
  profile.stdout_path = p.stdout_path();
  profile.stderr_path = p.stderr_path();
  profile.priority = p.priority();
  profile.keep = p.keep();
  return profile;
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
    if (!by_file) out->add_after(before.value);
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
  bool AddChunk(const pb::FlowChunk& chunk) {
    if (chunk.has_settings()) {
      if (!FromProto(chunk.settings(), &flow_.settings)) return false;
      for (const std::string& source : flow_.settings.sources) flow_.graph.AddSource(source);
    }
    for (const pb::Profile& profile : chunk.profile())
      profiles_.push_back(flow_.graph.AddProfile(ProfileFrom(profile)));
    for (const std::string& kind : chunk.kind()) kinds_.push_back(flow_.graph.AddKind(kind));
    for (const pb::StoredFile& file : chunk.file()) {
      files_.push_back(flow_.graph.AddFile(file.name()));
      if (file.size() >= 0) flow_.graph.SetFileSize(files_.back(), file.size());
    }
    for (const pb::StoredTask& task : chunk.task()) {
      if (!AddTask(task)) return false;
    }
    return true;
  }

  Status Finish() {
    for (const auto& [before, after] : later_) {
      if (before.value >= count_) return Status(Code::kDamaged, "a task follows one that is not there");
      flow_.graph.AddDependency(before, after);
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

  bool AddTask(const pb::StoredTask& task) {
    if (task.profile() >= profiles_.size() || task.form() > static_cast<uint32_t>(graph::CommandForm::kNone))
      return false;
    if (task.kind() >= kinds_.size() && task.kind() != KindId::kNone) return false;
    if (!Files(task.in(), &in_) || !Files(task.out(), &out_)) return false;
    after_.clear();
    for (const uint32_t before : task.after()) {
      if (before < count_) {
        after_.push_back(TaskId(before));
      } else {
        later_.emplace_back(TaskId(before), TaskId(count_));
      }
    }
    graph::TaskSpec spec;
    spec.name = task.name();
    spec.command = task.command();
    spec.form = static_cast<graph::CommandForm>(task.form());
    spec.profile = profiles_[task.profile()];
    if (task.kind() != KindId::kNone) spec.kind = kinds_[task.kind()];
    spec.in = in_;
    spec.out = out_;
    spec.after = after_;
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
  std::vector<TaskId> after_;
  std::vector<std::pair<TaskId, TaskId>> later_;
  uint32_t count_ = 0;
};

Status NoRun(const std::string& run_dir, const Status& why) {
  if (why.code() != Code::kNotFound) return why;
  return Status(Code::kNotFound, StrCat(run_dir, ": no run there (it has no file 'flow')"));
}

}  // namespace

Status WriteFlow(os::FileSystem& fs, const std::string& run_dir, const RunSettings& settings,
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
  return fs.WriteWhole(PathOf(run_dir), writer.Finish(graph.task_count()), 0600);
}

Result<StoredFlow> ReadFlow(os::FileSystem& fs, const std::string& run_dir) {
  Result<std::string> data = fs.Read(PathOf(run_dir));
  if (!data.ok()) return NoRun(run_dir, data.status());
  FrameReader reader(*data, PathOf(run_dir));
  HARROW_RETURN_IF_ERROR(reader.Start());
  FlowBuilder builder;
  google::protobuf::Arena arena;
  std::string raw;
  while (true) {
    const Result<bool> more = reader.Next(&raw);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto* chunk = google::protobuf::Arena::CreateMessage<pb::FlowChunk>(&arena);
    if (!chunk->ParseFromString(raw) || !builder.AddChunk(*chunk))
      return reader.Damaged("a part does not fit the others");
    arena.Reset();
  }
  if (builder.count() != reader.tasks()) return reader.Damaged("tasks are missing");
  if (const Status sealed = builder.Finish(); !sealed.ok()) return reader.Damaged(sealed.message());
  return builder.Take();
}

Result<std::unordered_map<uint32_t, TaskText>> ReadTaskTexts(os::FileSystem& fs, const std::string& run_dir,
                                                             const std::vector<TaskId>& tasks) {
  std::vector<TaskId> left = tasks;  // the next one last
  std::sort(left.begin(), left.end(), std::greater<>());
  Result<std::string> data = fs.Read(PathOf(run_dir));
  if (!data.ok()) return NoRun(run_dir, data.status());
  FrameReader reader(*data, PathOf(run_dir));
  HARROW_RETURN_IF_ERROR(reader.Start());
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

Result<RunSettings> ReadSettings(os::FileSystem& fs, const std::string& run_dir) {
  Result<std::string> data = fs.Read(PathOf(run_dir));
  if (!data.ok()) return NoRun(run_dir, data.status());
  FrameReader reader(*data, PathOf(run_dir));
  HARROW_RETURN_IF_ERROR(reader.Start());
  std::string raw;
  const Result<bool> more = reader.Next(&raw);
  if (!more.ok()) return more.status();
  pb::FlowChunk chunk;
  RunSettings settings;
  if (!*more || !chunk.ParseFromString(raw) || !chunk.has_settings() ||
      !FromProto(chunk.settings(), &settings)) {
    return reader.Damaged("its settings do not read");
  }
  return settings;
}

}  // namespace harrow::server
