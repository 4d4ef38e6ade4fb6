// An array as a flow: a task an element, in the order of their numbers, all of one profile. What is an
// element's own, its number, is a variable that its command assigns; so 10^6 elements cost what as many lines
// of a line file do.
//
// An element finds what it would find in a job of its own, but for the job's number, which srun and scontrol
// have to know: SLURM_JOB_ID is the job that Harrow runs in, and the array is called by its number. Where
// there is none, on a laptop, both are what the plan says. What depends on where an element runs is told by
// the agent (agent/steps/environment.cc).
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "formats/array_spec.h"
#include "formats/batch_script.h"

namespace harrow::formats {
namespace {

constexpr uint64_t kMostElements = 10'000'000;
constexpr std::string_view kSubmitDir = "SLURM_SUBMIT_DIR";
constexpr uint64_t kMega = uint64_t{1} << 20;
constexpr uint64_t kMostOfANode = uint64_t{1} << 20;  // cores or devices
constexpr uint64_t kMostMemory = uint64_t{1} << 62;   // as ParseBytes has it

/// %j and %J are a number of each element's own where each is a job.
std::string PatternOf(std::string_view pattern, bool* replaced) {
  if (pattern.find('\\') != std::string_view::npos) return std::string(pattern);
  std::string out;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%') {
      out += pattern[at];
      continue;
    }
    const size_t field = std::min(pattern.size(), pattern.find_first_not_of("0123456789", at + 1));
    const char letter = field < pattern.size() ? pattern[field] : '\0';
    const bool job = letter == 'j' || letter == 'J';
    *replaced = *replaced || job;
    out += job ? "%A_%a" : std::string(pattern.substr(at, field - at + 1));
    at = field;
  }
  return out;
}

/// Does each element have a file of its own by that pattern?
bool TellsElementsApart(std::string_view pattern) {
  if (pattern.find('\\') != std::string_view::npos) return false;  // nothing is replaced in it
  for (size_t at = 0; (at = pattern.find('%', at)) != std::string_view::npos;) {
    const size_t field = std::min(pattern.size(), pattern.find_first_not_of("0123456789", at + 1));
    if (field < pattern.size() && pattern[field] == 'a') return true;
    at = field + 1;
  }
  return false;
}

graph::Profile ProfileOf(const ArrayPlan& plan, const std::vector<uint64_t>& numbers, uint64_t step,
                         std::vector<std::string>* notices) {
  const ElementRequest& request = plan.request;
  const uint32_t tasks = request.all_tasks();
  const uint32_t cpus = std::max(1u, request.cpus_per_task);
  graph::Profile profile;
  profile.shape.cores = tasks * cpus;
  profile.shape.devices = std::max(request.gpus, request.gpus_per_task * tasks);
  profile.shape.memory = request.memory > 0 ? request.memory : request.memory_per_cpu * tasks * cpus;
  profile.shape.whole_node = request.whole_node || request.all_memory;
  profile.time_limit = request.time;
  profile.cwd = request.chdir;
  bool replaced = false;
  profile.stdin_path = request.input == "none" ? "" : PatternOf(request.input, &replaced);
  profile.stdout_path = PatternOf(request.output, &replaced);
  // Both go into one file where none is named for the errors.
  profile.stderr_path = request.error.empty() ? profile.stdout_path : PatternOf(request.error, &replaced);
  if (replaced)
    notices->push_back("%j is one number for all elements here: in names of files it stands for %A_%a");
  if (!request.unmet.empty()) {
    std::string names;
    for (const std::string& name : request.unmet)
      names += StrCat(names.empty() ? "" : ", ", Printable(name, 40));
    notices->push_back(StrCat("elements go without ", names, ", which harrow array cannot give"));
  }
  const auto own = [](const std::string& pattern) { return pattern.empty() || TellsElementsApart(pattern); };
  profile.empty_streams = !request.append && own(profile.stdout_path) && own(profile.stderr_path);
  if (request.signal > 0 && request.time == Duration(0)) {
    notices->push_back(
        "--signal is sent before an element's time limit, and --time sets none: it is never sent");
  } else if (request.signal > 0) {
    profile.warn_signal = request.signal;
    profile.warn_before = request.signal_before;
    profile.warn_alone = request.signal_alone;
  }
  const auto set = [&](std::string_view name, const auto& value) {
    profile.env.emplace_back(name, StrCat(value));
  };
  set("SLURM_ARRAY_JOB_ID", plan.job_id);
  set(kSubmitDir, plan.submit_dir);
  set("SLURM_ARRAY_TASK_COUNT", numbers.size());
  set("SLURM_ARRAY_TASK_MAX", numbers.back());
  set("SLURM_ARRAY_TASK_MIN", numbers.front());
  set("SLURM_ARRAY_TASK_STEP", step);
  set("SLURM_JOB_NAME", plan.job_name);
  set("SLURM_JOB_NUM_NODES", 1);
  set("SLURM_NNODES", 1);
  set("SLURM_NTASKS", tasks);
  set("SLURM_NPROCS", tasks);
  // With a whole node and no number of tasks it is the node's, which the agent knows.
  const bool as_many_as_fit = request.whole_node && request.tasks == 0 && request.tasks_per_node == 0;
  if (!as_many_as_fit) set("SLURM_TASKS_PER_NODE", tasks);
  // Threads of each of its processes, as one of a job's has them.
  if (tasks > 1) set("OMP_NUM_THREADS", cpus);
  if (request.cpus_per_task > 0) set("SLURM_CPUS_PER_TASK", cpus);
  if (request.tasks_per_node > 0) set("SLURM_NTASKS_PER_NODE", request.tasks_per_node);
  if (request.memory > 0) set("SLURM_MEM_PER_NODE", request.memory / kMega);
  if (request.memory_per_cpu > 0) set("SLURM_MEM_PER_CPU", request.memory_per_cpu / kMega);
  for (const auto& [name, value] : request.exported) {
    if (value) profile.env.emplace_back(name, *value);
  }
  return profile;
}

/// What no node has is not multiplied until it seems little.
Status CheckSize(const ElementRequest& request) {
  const uint64_t tasks = request.all_tasks();
  const uint64_t cores = tasks * std::max(1u, request.cpus_per_task);
  const uint64_t devices = std::max<uint64_t>(request.gpus, tasks * request.gpus_per_task);
  const auto too_much = [&](uint64_t count, std::string_view what) {
    return Status(Code::kInvalid, StrCat(request.array_place, ": an element asks for ", count, what,
                                         ", more than any node has; ask for less"));
  };
  if (cores > kMostOfANode) return too_much(cores, " cores (ntasks, cpus-per-task)");
  if (devices > kMostOfANode) return too_much(devices, " GPUs (ntasks, gpus-per-task)");
  if (request.memory_per_cpu > kMostMemory / cores)
    return too_much(request.memory_per_cpu / kMega * cores,
                    " megabytes (ntasks, cpus-per-task, mem-per-cpu)");
  return Status();
}

/// As sbatch tells it: that of the first range that has one.
uint64_t StepOf(const ArraySpec& spec) {
  for (const ArraySpec::Range& range : spec.ranges) {
    if (range.step > 1) return range.step;
  }
  return 1;
}

}  // namespace

Status AddArray(const ArrayPlan& plan, graph::Graph* graph, uint64_t* limit,
                std::vector<std::string>* notices) {
  const ElementRequest& request = plan.request;
  Result<ArraySpec> spec = ParseArraySpec(request.array, kMostElements, true);
  if (!spec.ok())
    return Status(Code::kInvalid, StrCat(request.array_place, ": array ", spec.status().message()));
  std::vector<uint64_t> numbers = spec->Numbers();
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  *limit = spec->limit;
  HARROW_RETURN_IF_ERROR(CheckSize(request));
  const ProfileId profile = graph->AddProfile(ProfileOf(plan, numbers, StepOf(*spec), notices));
  const KindId kind = graph->AddKind(plan.job_name);
  const uint32_t source = graph->AddSource(plan.job_name);
  std::string rest = StrCat(std::string_view("\0", 1), plan.script);
  for (const std::string& argument : plan.arguments) rest.append(1, '\0').append(argument);
  graph->Reserve(numbers.size());
  std::string name = StrCat(plan.job_id, "_");
  const size_t before_number = name.size();
  std::string command = "SLURM_ARRAY_TASK_ID=";
  const size_t before_value = command.size();
  for (const uint64_t number : numbers) {
    const std::string text = StrCat(number);
    name.resize(before_number);
    command.resize(before_value);
    graph::TaskSpec task;
    task.name = name.append(text);
    task.command = command.append(text).append(rest);
    task.form = graph::CommandForm::kAssigned;
    task.profile = profile;
    task.kind = kind;
    task.place = {.source = source, .line = 1, .column = 1};
    graph->AddTask(task);
  }
  return graph->Seal();
}

bool IsArray(const graph::Graph& graph) {
  return graph.task_count() > 0 && graph.form(TaskId(0)) == graph::CommandForm::kAssigned;
}

Status ExecuteScript(const std::string& script, const std::string& submit_dir, graph::Graph* graph) {
  if (!IsArray(*graph)) return Status();
  const auto told = [](auto& profile) -> decltype(&profile.env.front().second) {
    for (auto& [name, value] : profile.env) {
      if (name == kSubmitDir) return &value;
    }
    return nullptr;
  };
  const auto program = [](std::string_view command) {
    size_t begin = 0;
    while (true) {
      const size_t end = std::min(command.size(), command.find('\0', begin));
      if (end == command.size() || !IsAssignment(command.substr(begin, end - begin)))
        return std::pair(begin, end);
      begin = end + 1;
    }
  };
  const std::string_view first = graph->command(TaskId(0));
  const auto [from, to] = program(first);
  const std::string* const before = told(graph->profile(TaskId(0)));
  if (first.substr(from, to - from) == script && (before == nullptr || *before == submit_dir))
    return Status();
  graph::Graph moved;
  for (uint32_t i = 0; i < graph->profile_count(); ++i) {
    graph::Profile profile = graph->profile(ProfileId(i));
    if (std::string* const directory = told(profile)) *directory = submit_dir;
    moved.AddProfile(profile);
  }
  for (uint32_t i = 0; i < graph->kind_count(); ++i) moved.AddKind(graph->kind_name(KindId(i)));
  const uint32_t source = moved.AddSource(graph->kind_name(graph->kind(TaskId(0))));
  moved.Reserve(graph->task_count());
  for (uint32_t i = 0; i < graph->task_count(); ++i) {
    const TaskId task(i);
    const std::string_view command = graph->command(task);
    const auto [begin, end] = program(command);
    const std::string text = StrCat(command.substr(0, begin), script, command.substr(end));
    graph::TaskSpec spec;
    spec.name = graph->given_name(task);
    spec.command = text;
    spec.form = graph->form(task);
    spec.profile = graph->profile_id(task);
    spec.kind = graph->kind(task);
    spec.place = {.source = source, .line = 1, .column = 1};
    moved.AddTask(spec);
  }
  *graph = std::move(moved);
  return graph->Seal();
}

bool IsElementName(std::string_view name) {
  const size_t bar = name.find('_');
  return bar != std::string_view::npos && IsDigits(name.substr(0, bar)) && IsDigits(name.substr(bar + 1));
}

std::vector<std::string> ExpandElementNames(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    const size_t open = name.find("_[");
    const bool digits = open != std::string::npos && open > 0 && name.ends_with(']') &&
                        name.find_first_not_of("0123456789") == open;
    const Result<ArraySpec> spec =
        digits ? ParseArraySpec(std::string_view(name).substr(open + 2, name.size() - open - 3),
                                kMostElements, true)
               : Result<ArraySpec>(Status(Code::kInvalid, ""));
    if (!spec.ok()) {
      all.push_back(name);
      continue;
    }
    for (const uint64_t number : spec->Numbers()) all.push_back(StrCat(name.substr(0, open), "_", number));
  }
  return all;
}

}  // namespace harrow::formats
