#include "graph/graph.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace harrow::graph {
namespace {

void Combine(size_t* seed, size_t value) {
  *seed ^= value + 0x9E3779B97F4A7C15ull + (*seed << 6) + (*seed >> 2);
}

/// Of every member: what is left out makes adding profiles that differ only there quadratic.
size_t HashOf(const Profile& profile) {
  const std::hash<std::string> text;
  size_t hash = profile.shape.cores;
  Combine(&hash, profile.shape.devices);
  Combine(&hash, profile.shape.nodes);
  Combine(&hash, profile.shape.memory);
  Combine(&hash, profile.shape.whole_node);
  Combine(&hash, profile.ranks);
  Combine(&hash, static_cast<uint64_t>(profile.mpi));
  Combine(&hash, text(profile.cwd));
  Combine(&hash, text(profile.shell));
  for (const auto& [name, value] : profile.env) {
    Combine(&hash, text(name));
    Combine(&hash, text(value));
  }
  Combine(&hash, static_cast<size_t>(profile.time_limit.count()));
  Combine(&hash, static_cast<size_t>(profile.retries));
  Combine(&hash, static_cast<size_t>(profile.retry_delay.count()));
  for (const int32_t code : profile.retry_on) Combine(&hash, static_cast<size_t>(code));
  Combine(&hash, static_cast<size_t>(profile.priority));
  Combine(&hash, profile.keep);
  Combine(&hash, profile.replicas);
  Combine(&hash, profile.missing_ok);
  Combine(&hash, text(profile.stdin_path));
  Combine(&hash, text(profile.stdout_path));
  Combine(&hash, text(profile.stderr_path));
  Combine(&hash, text(profile.restart_command));
  Combine(&hash, static_cast<size_t>(profile.checkpoint.by));
  return hash;
}

}  // namespace

Shape Profile::Part(uint32_t nodes, uint32_t index) const {
  Shape part = shape;
  part.nodes = nodes;
  part.whole_node = whole_nodes();
  if (ranks == 0) return part;
  const uint32_t most = RanksOn(ranks, std::max(1u, shape.nodes), 0);
  const uint32_t here = RanksOn(ranks, std::max(1u, nodes), index);
  part.cores = std::max(1u, shape.cores / most) * here;
  part.devices = shape.devices / most * here;
  return part;
}

Duration Profile::least_time() const {
  const Duration until_next = 2 * checkpoint.time;
  if (!checkpoint.on()) return time_limit;
  return time_limit > Duration(0) ? std::min(time_limit, until_next) : until_next;
}

uint64_t Profile::all_cores() const {
  const uint32_t nodes = std::max(1u, shape.nodes);
  return ranks > 0 ? uint64_t{Part(ranks, 0).cores} * ranks : uint64_t{std::max(1u, shape.cores)} * nodes;
}

Graph::Graph() : links_(1), predecessor_begin_(1, 0) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

ProfileId Graph::AddProfile(const Profile& profile) {
  const size_t hash = HashOf(profile);
  const auto known = profile_index_.Find(hash, [&](uint32_t n) { return profiles_[n] == profile; });
  if (known) return ProfileId(*known);
  const ProfileId id(static_cast<uint32_t>(profiles_.size()));
  profiles_.push_back(profile);
  has_gangs_ |= profile.shape.nodes > 1;
  profile_index_.Insert(hash, id.value);
  return id;
}

KindId Graph::AddKind(std::string_view name) {
  const size_t hash = std::hash<std::string_view>()(name);
  const auto known = kind_index_.Find(hash, [&](uint32_t n) { return kinds_[n] == name; });
  if (known) return KindId(*known);
  const KindId id(static_cast<uint32_t>(kinds_.size()));
  kinds_.emplace_back(name);
  kind_index_.Insert(hash, id.value);
  return id;
}

FileId Graph::AddFile(std::string_view name) {
  return files_.Add(name, &text_);
}

void Graph::SetFileSize(FileId file, int64_t bytes) {
  files_.set_size(file, bytes);
}

uint32_t Graph::AddSource(std::string_view file_name) {
  sources_.emplace_back(file_name);
  return static_cast<uint32_t>(sources_.size() - 1);
}

TaskId Graph::AddTask(const TaskSpec& spec) {
  const TaskId task(static_cast<uint32_t>(tasks_.size()));
  char* text = nullptr;
  if (const size_t size = spec.name.size() + spec.command.size(); size > 0) {
    text = text_.Allocate(size);
    std::copy(spec.name.begin(), spec.name.end(), text);
    std::copy(spec.command.begin(), spec.command.end(), text + spec.name.size());
  }
  tasks_.push_back({text, static_cast<uint32_t>(spec.name.size()), static_cast<uint32_t>(spec.command.size()),
                    spec.profile ? spec.profile : AddProfile({}), spec.kind, spec.place.line,
                    spec.place.column, spec.place.source & 0xFFFFFF, spec.form});
  levels_.push_back(0);

  links_.back().inputs = static_cast<uint32_t>(io_.size());
  io_.insert(io_.end(), spec.in.begin(), spec.in.end());
  links_.back().outputs = static_cast<uint32_t>(io_.size());
  io_.insert(io_.end(), spec.out.begin(), spec.out.end());
  links_.push_back({static_cast<uint32_t>(io_.size()), static_cast<uint32_t>(io_.size()), 0, 0});

  for (FileId file : spec.out) {
    const TaskId known = files_.producer(file);
    if (known && !files_.below_output(file)) {
      if (known != task) second_producers_.emplace_back(file, task);
      continue;
    }
    files_.set_producer(file, task, false);
    if (files_.is_read(file)) late_products_.push_back(file);
  }
  for (TaskId before : spec.after) new_dependencies_.emplace_back(task, before);
  for (TaskId before : spec.after_any) new_waits_.emplace_back(task, before);
  if (spec.bound != kNoBound) {
    bounds_.resize(task.value, kNoBound);
    bounds_.push_back(spec.bound);
  }
  if (spec.recorded_run_time) {
    recorded_.resize(task.value, Duration(-1));
    recorded_.push_back(*spec.recorded_run_time);
  }
  return task;
}

void Graph::AddDependency(TaskId before, TaskId after, WaitsFor what) {
  (what == WaitsFor::kEnd     ? new_waits_
   : what == WaitsFor::kStart ? new_starts_
                              : new_dependencies_)
      .emplace_back(after, before);
}

std::optional<StreamId> Graph::FindStream(std::string_view name) const {
  const size_t hash = std::hash<std::string_view>()(name);
  const auto known = stream_index_.Find(hash, [&](uint32_t s) { return streams_[s].name == name; });
  return known ? std::optional(StreamId(*known)) : std::nullopt;
}

void Graph::HoldStream(StreamId stream, StreamHold hold) {
  streams_[stream.value].was_held = true;
  std::vector<StreamHold>& holds = streams_[stream.value].holds;
  const auto same = std::find_if(holds.begin(), holds.end(), [&](const StreamHold& each) {
    return each.by == hold.by && each.task == hold.task;
  });
  if (same != holds.end()) {
    same->in_flow &= hold.in_flow;
    return;
  }
  if (hold.task) NoteHolder(stream, hold.task);
  holds.push_back(std::move(hold));
}

void Graph::NoteHolder(StreamId stream, TaskId task) {
  streams_[stream.value].was_held = true;
  const StreamEnd end(task, stream);
  const auto place = std::lower_bound(held_.begin(), held_.end(), end);
  if (place == held_.end() || *place != end) held_.insert(place, end);
}

void Graph::ReleaseStream(StreamId stream, std::string_view by) {
  std::erase_if(streams_[stream.value].holds, [&](const StreamHold& hold) { return hold.by == by; });
}

StreamId Graph::AddStream(std::string_view name) {
  if (const std::optional<StreamId> known = FindStream(name)) return *known;
  const size_t hash = std::hash<std::string_view>()(name);
  const auto stream = static_cast<uint32_t>(streams_.size());
  streams_.emplace_back();
  streams_.back().name = name;
  stream_index_.Insert(hash, stream);
  return StreamId(stream);
}

void Graph::SetModel(TaskId first, uint32_t count, std::string_view model) {
  const auto known = std::find(models_.begin(), models_.end(), model);
  const auto number = static_cast<uint32_t>(known - models_.begin());
  if (known == models_.end()) models_.emplace_back(model);
  modelled_.push_back({first.value, count, number});
}

uint32_t Graph::model(TaskId task) const {
  const auto after = std::upper_bound(modelled_.begin(), modelled_.end(), task.value,
                                      [](uint32_t t, const Modelled& m) { return t < m.first; });
  if (after == modelled_.begin()) return UINT32_MAX;
  const Modelled& found = *(after - 1);
  return task.value - found.first < found.count ? found.model : UINT32_MAX;
}

bool Graph::Reads(TaskId after, TaskId before) const {
  const std::span<const FileId> read = inputs(after);
  return std::any_of(read.begin(), read.end(), [&](FileId file) { return producer(file) == before; });
}

bool Graph::OnlyWaits(TaskId before, TaskId after) const {
  if (only_waits_.empty()) return false;
  const std::span<const TaskId> all = predecessors(after);
  const auto at = std::lower_bound(all.begin(), all.end(), before);
  if (at == all.end() || *at != before) return false;
  const size_t index = predecessor_begin_[after.value] + static_cast<size_t>(at - all.begin());
  return index < only_waits_.size() && only_waits_[index];
}

void Graph::Reserve(size_t more_tasks, size_t more_files) {
  tasks_.reserve(tasks_.size() + more_tasks);
  links_.reserve(links_.size() + more_tasks);
  levels_.reserve(levels_.size() + more_tasks);
  files_.Reserve(more_files);
}

std::string Graph::TaskName(TaskId task) const {
  const std::string_view given = given_name(task);
  return given.empty() ? StrCat("#", task.value + uint64_t{1}) : std::string(given);
}

std::string_view Graph::kind_name(KindId kind) const {
  return kind ? std::string_view(kinds_[kind.value]) : std::string_view();
}

SourcePlace Graph::place(TaskId task) const {
  const Record& r = record(task);
  return {r.source, r.line, r.column};
}

std::string Graph::PlaceText(SourcePlace place) const {
  std::string text = place.source < sources_.size() ? sources_[place.source] : "-";
  if (place.line > 0) text += StrCat(":", place.line);
  if (place.line > 0 && place.column > 0) text += StrCat(":", place.column);
  return text;
}

std::optional<Duration> Graph::recorded_run_time(TaskId task) const {
  if (task.value >= recorded_.size() || recorded_[task.value].count() < 0) return std::nullopt;
  return recorded_[task.value];
}

TaskId Graph::FindNamed(std::string_view name) const {
  const std::hash<std::string_view> hash;
  for (; named_up_to_ < tasks_.size(); ++named_up_to_) {
    const TaskId task(static_cast<uint32_t>(named_up_to_));
    if (const std::string_view given = given_name(task); !given.empty())
      names_.Insert(hash(given), task.value);
  }
  const std::optional<uint32_t> found =
      names_.Find(hash(name), [&](uint32_t n) { return given_name(TaskId(n)) == name; });
  return found ? TaskId(*found) : TaskId();
}

std::optional<TaskId> Graph::FindTask(std::string_view name) const {
  if (const TaskId named = FindNamed(name)) return named;
  const bool sure = name.starts_with('#');
  if (sure) name.remove_prefix(1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number == 0 || number > tasks_.size()) {
    return std::nullopt;
  }
  const std::string_view given = given_name(TaskId(number - 1));
  if (!sure && !given.empty() && !EndsWithNumber(given, name)) return std::nullopt;
  return TaskId(number - 1);
}

size_t Graph::MemoryWithoutText() const {
  const auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return files_.memory() + names_.memory() + profile_index_.memory() + bytes(tasks_) + bytes(links_) +
         bytes(levels_) + bytes(io_) + bytes(successors_) + bytes(predecessors_) + bytes(predecessor_begin_) +
         bytes(recorded_) + bytes(bounds_) + bytes(profiles_) + bytes(new_dependencies_) + bytes(new_waits_) +
         only_waits_.capacity() / 8 + bytes(second_producers_) + bytes(late_products_) + bytes(relevelled_) +
         room_.size() * 4 * sizeof(uint32_t);
}

std::vector<TaskId> PrerequisitesFirst(const Graph& graph) {
  std::vector<TaskId> tasks(graph.task_count());
  for (uint32_t i = 0; i < tasks.size(); ++i) tasks[i] = TaskId(i);
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](TaskId a, TaskId b) { return graph.level(a) > graph.level(b); });
  return tasks;
}

}  // namespace harrow::graph
