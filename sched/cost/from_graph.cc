// Which tasks are one meta-task: at first all neighbours of one model and kind, and all neighbouring streams
// between the same of these. Where a stream is not connected with them by like parts (TasksOf), they are told
// apart, each for itself, and what they are connected with is looked at again, until all is alike; after some
// rounds all are told apart.

#include "cost/from_graph.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace harrow::cost {
namespace {

/// A stream, a file or a wait as the graph has it.
struct Raw {
  bool split = false;
  double size = kUnknown;  // of a stream
  bool file = false;
  std::vector<uint32_t> writers, readers;
};

double NumberOf(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && IsKnown(number) ? number : kUnknown;
}

constexpr uint32_t kNotThere = UINT32_MAX;

/// Between these tasks, by their places in `tasks`.
std::vector<Raw> RawOf(const graph::Graph& graph, std::span<const TaskId> tasks) {
  std::vector<uint32_t> place(graph.task_count(), kNotThere);
  for (uint32_t n = 0; n < tasks.size(); ++n) place[tasks[n].value] = n;
  std::vector<Raw> all;
  for (const graph::Stream& stream : graph.streams()) {
    Raw raw;
    raw.split = stream.split;
    const auto add = [&](const std::vector<TaskId>& from, std::vector<uint32_t>* to) {
      for (const TaskId task : from) {
        if (place[task.value] != kNotThere) to->push_back(place[task.value]);
      }
    };
    add(stream.writers, &raw.writers);
    add(stream.readers, &raw.readers);
    const bool none = raw.writers.empty() && raw.readers.empty() && tasks.size() < graph.task_count();
    if (!none) all.push_back(std::move(raw));
  }
  std::vector<uint32_t> of_file(graph.file_count(), UINT32_MAX);
  std::vector<uint32_t> of_task(tasks.size(), UINT32_MAX);
  std::vector<TaskId> by_file;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    const TaskId task = tasks[n];
    by_file.clear();
    for (const FileId file : graph.inputs(task)) {
      const TaskId producer = graph.producer(file);
      if (!producer || producer == task) continue;
      by_file.push_back(producer);
      if (place[producer.value] == kNotThere) continue;
      uint32_t& raw = of_file[file.value];
      if (raw == UINT32_MAX) {
        raw = static_cast<uint32_t>(all.size());
        all.push_back({.file = true, .writers = {place[producer.value]}, .readers = {}});
        all.back().size = static_cast<double>(std::max<int64_t>(0, graph.file_size(file)));
      }
      all[raw].readers.push_back(n);
    }
    std::sort(by_file.begin(), by_file.end());
    for (const TaskId before : graph.predecessors(task)) {
      if (graph.StartSuffices(before, task) || std::binary_search(by_file.begin(), by_file.end(), before) ||
          place[before.value] == kNotThere)
        continue;
      uint32_t& raw = of_task[place[before.value]];
      if (raw == UINT32_MAX) {
        raw = static_cast<uint32_t>(all.size());
        all.push_back({.file = true, .writers = {place[before.value]}, .readers = {}});
        all.back().size = 0;
      }
      all[raw].readers.push_back(n);
    }
  }
  for (Raw& raw : all) {
    for (auto* side : {&raw.writers, &raw.readers}) {
      std::sort(side->begin(), side->end());
      side->erase(std::unique(side->begin(), side->end()), side->end());
    }
  }
  return all;
}

/// The ranks of those that wait for what is not among them; of others 0.
std::vector<uint32_t> LeastRanks(const graph::Graph& graph, std::span<const TaskId> tasks,
                                 std::span<const uint32_t> ranks) {
  std::vector<uint32_t> least(tasks.size(), 0);
  if (tasks.size() == graph.task_count()) return least;
  const auto is_in = [&](TaskId task) { return std::binary_search(tasks.begin(), tasks.end(), task); };
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    const auto before = graph.predecessors(tasks[n]);
    if (!std::all_of(before.begin(), before.end(), is_in)) least[n] = ranks[tasks[n].value];
  }
  return least;
}

class Reducer {
 public:
  Reducer(const graph::Graph& graph, std::span<const TaskId> of, std::vector<uint32_t> least, std::vector<Raw> raw)
      : graph_(graph),
        of_(of),
        least_(std::move(least)),
        raw_(std::move(raw)),
        apart_(of.size(), false),
        stream_apart_(raw_.size(), false) {}

  /// Fills in the net's tasks and streams.
  void Reduce(Net* net) {
    constexpr int kRounds = 8;
    for (int round = 0;; ++round) {
      FindTaskRuns();
      FindStreamRuns();
      if (!TellApart(round >= kRounds)) break;
    }
    for (const Run& run : tasks_) {
      MetaTask task;
      task.program = graph_.model(of_[run.first]);
      task.count = run.count;
      task.least_rank = least_[run.first];
      net->tasks.push_back(std::move(task));
    }
    for (const Run& run : streams_) {
      const Raw& first = raw_[run.first];
      MetaStream stream;
      stream.count = run.count;
      stream.split = first.split;
      stream.writers = RunsOf(first.writers);
      stream.readers = RunsOf(first.readers);
      if (first.file) {
        stream.size = {first.size};
        for (uint32_t s = 1; s < run.count && stream.size.size() == 1; ++s) {
          if (raw_[run.first + s].size != first.size) stream.size.resize(run.count);
        }
        for (uint32_t s = 0; s < stream.size.size(); ++s) stream.size[s] = raw_[run.first + s].size;
      }
      net->streams.push_back(std::move(stream));
    }
  }
  uint32_t first(uint32_t meta) const { return tasks_[meta].first; }

 private:
  struct Run {
    uint32_t first, count;
  };

  void FindTaskRuns() {
    tasks_.clear();
    run_of_.assign(of_.size(), 0);
    for (uint32_t n = 0; n < of_.size(); ++n) {
      const bool on = n > 0 && !apart_[n] && !apart_[n - 1] && least_[n] == least_[n - 1] &&
                      graph_.model(of_[n]) == graph_.model(of_[n - 1]) &&
                      graph_.kind(of_[n]) == graph_.kind(of_[n - 1]) &&
                      graph_.profile_id(of_[n]) == graph_.profile_id(of_[n - 1]);
      if (!on) tasks_.push_back({n, 0});
      ++tasks_.back().count;
      run_of_[n] = static_cast<uint32_t>(tasks_.size() - 1);
    }
  }

  std::vector<uint32_t> RunsOf(const std::vector<uint32_t>& tasks) const {
    std::vector<uint32_t> runs;
    for (const uint32_t task : tasks) {
      if (runs.empty() || runs.back() != run_of_[task]) runs.push_back(run_of_[task]);
    }
    return runs;
  }

  void FindStreamRuns() {
    streams_.clear();
    std::vector<uint32_t> writers, readers;
    for (uint32_t s = 0; s < raw_.size(); ++s) {
      std::vector<uint32_t> w = RunsOf(raw_[s].writers), r = RunsOf(raw_[s].readers);
      const bool on = s > 0 && !stream_apart_[s] && !stream_apart_[s - 1] &&
                      raw_[s].split == raw_[s - 1].split && raw_[s].file == raw_[s - 1].file &&
                      (raw_[s].size == 0) == (raw_[s - 1].size == 0) && w == writers && r == readers;
      if (!on) {
        streams_.push_back({s, 0});
        writers = std::move(w);
        readers = std::move(r);
      }
      ++streams_.back().count;
    }
  }

  /// Tasks that are not connected by like parts; false: all are.
  bool TellApart(bool all) {
    bool found = false;
    for (const Run& run : streams_) {
      const auto runs = {RunsOf(raw_[run.first].writers), RunsOf(raw_[run.first].readers)};
      bool like = true;
      for (uint32_t s = 0; s < run.count && like; ++s) {
        like = IsLike(raw_[run.first + s].writers, *runs.begin(), run.count, s) &&
               IsLike(raw_[run.first + s].readers, *(runs.begin() + 1), run.count, s);
      }
      if (like) continue;
      for (const auto& side : runs) {
        for (const uint32_t meta : side) {
          if (tasks_[meta].count < 2) continue;
          found = true;
          for (uint32_t t = 0; t < tasks_[meta].count; ++t) apart_[tasks_[meta].first + t] = true;
        }
      }
      // Also where there are single tasks on both sides: several streams between them.
      for (uint32_t s = 0; s < run.count && run.count > 1; ++s) found = stream_apart_[run.first + s] = true;
    }
    if (found && all) {
      std::fill(apart_.begin(), apart_.end(), true);
      std::fill(stream_apart_.begin(), stream_apart_.end(), true);
    }
    return found;
  }

  bool IsLike(const std::vector<uint32_t>& tasks, const std::vector<uint32_t>& metas, uint32_t streams,
              uint32_t stream) const {
    size_t at = 0;
    for (const uint32_t meta : metas) {
      const Run& run = tasks_[meta];
      if (run.count % streams != 0 && streams % run.count != 0) return false;
      const Block block = TasksOf(run.count, streams, stream);
      for (uint64_t t = 0; t < block.count; ++t, ++at) {
        if (at >= tasks.size() || tasks[at] != run.first + block.first + t) return false;
      }
    }
    return at == tasks.size();
  }

  const graph::Graph& graph_;
  const std::span<const TaskId> of_;
  const std::vector<uint32_t> least_;  // ranks
  const std::vector<Raw> raw_;
  std::vector<bool> apart_, stream_apart_;  // each for itself
  std::vector<Run> tasks_, streams_;
  std::vector<uint32_t> run_of_;
};

/// One entry where all are the same.
void Shorten(Amounts* amounts) {
  const auto same = [&](double a) {
    const double first = amounts->front();
    return a == first || (!IsKnown(a) && !IsKnown(first));
  };
  if (std::all_of(amounts->begin(), amounts->end(), same)) amounts->resize(1);
}

void FillIn(const graph::Graph& graph, std::span<const TaskId> of, double seconds_a_unit, uint32_t arguments,
            MetaTask* task) {
  task->compute.assign(task->count, kUnknown);
  task->arguments.assign(arguments, Amounts(task->count, kUnknown));
  for (uint32_t n = 0; n < task->count; ++n) {
    const TaskId id = of[n];
    if (const auto time = graph.recorded_run_time(id)) task->compute[n] = Seconds(*time) / seconds_a_unit;
    if (arguments == 0) continue;
    const auto words = ArgumentsOf(graph.command(id), graph.form(id));
    if (!words) continue;
    for (uint32_t a = 0; a < std::min<size_t>(arguments, words->size()); ++a)
      task->arguments[a][n] = NumberOf((*words)[a]);
  }
  Shorten(&task->compute);
  for (Amounts& argument : task->arguments) Shorten(&argument);
}

}  // namespace

std::optional<std::vector<std::string_view>> ArgumentsOf(std::string_view command, graph::CommandForm form) {
  using Form = graph::CommandForm;
  if (form == Form::kShell || form == Form::kNone) return std::nullopt;
  std::vector<std::string_view> words;
  const std::string_view between = form == Form::kWords ? " \t" : std::string_view("\0", 1);
  while (!command.empty()) {
    const size_t end = std::min(command.find_first_of(between), command.size());
    const std::string_view word = command.substr(0, end);
    if (!word.empty() || form != Form::kWords) words.push_back(word);
    command.remove_prefix(std::min(command.size(), end + 1));
  }
  size_t program = 0;
  while (form == Form::kAssigned && program < words.size() && IsAssignment(words[program])) ++program;
  words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(std::min(words.size(), program + 1)));
  return words;
}

std::vector<uint32_t> RanksOf(const graph::Graph& graph) {
  const auto count = static_cast<uint32_t>(graph.task_count());
  std::vector<uint32_t> order(count), rank(count, 0);
  std::iota(order.begin(), order.end(), 0u);
  // Who is waited for has the higher level.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return graph.level(TaskId(a)) > graph.level(TaskId(b)); });
  for (const uint32_t task : order) {
    for (const TaskId before : graph.predecessors(TaskId(task)))
      rank[task] = std::max(rank[task], rank[before.value] + 1);
  }
  return rank;
}

Result<Net> NetOf(const graph::Graph& graph, double seconds_a_unit) {
  std::vector<TaskId> all;
  all.reserve(graph.task_count());
  for (uint32_t n = 0; n < graph.task_count(); ++n) all.emplace_back(n);
  return NetOf(graph, seconds_a_unit, all, {});
}

Result<Net> NetOf(const graph::Graph& graph, double seconds_a_unit, std::span<const TaskId> tasks,
                  std::span<const uint32_t> ranks) {
  Net net;
  std::vector<uint32_t> arguments;
  for (const std::string& text : graph.models()) {
    auto parsed = ParseMetaProgram(text);
    if (const auto* problem = std::get_if<MetaProblem>(&parsed))
      return Status(Code::kInvalid,
                    StrCat("model:", problem->line, ":", problem->column, ": ", problem->text));
    net.programs.push_back(std::move(std::get<CostFunctions>(parsed)));
    const CostFunctions& costs = net.programs.back();
    arguments.push_back(
        std::max({costs.in.ArgumentCount(), costs.compute.ArgumentCount(), costs.out.ArgumentCount()}));
  }
  Reducer reducer(graph, tasks, LeastRanks(graph, tasks, ranks), RawOf(graph, tasks));
  reducer.Reduce(&net);
  for (uint32_t t = 0; t < net.tasks.size(); ++t) {
    MetaTask& task = net.tasks[t];
    FillIn(graph, tasks.subspan(reducer.first(t), task.count), seconds_a_unit,
           task.program == kNoProgram ? 0 : arguments[task.program], &task);
  }
  return net;
}

}  // namespace harrow::cost
