#include "launcher/flow_plan.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "batch/sbatch.h"
#include "batch/slurm_query.h"
#include "formats/identity.h"
#include "journal/journal.h"
#include "launcher/costs.h"
#include "launcher/inputs.h"
#include "launcher/run_access.h"

namespace harrow::launcher {
namespace {

constexpr uint32_t kMostNodes = 10'000;  // looked at where nobody says how many there are
constexpr Duration kSinfoWithin = std::chrono::seconds(10);

/// What the tasks of an earlier run took.
struct EarlierTimes {
  std::string run_dir;
  std::map<formats::Identity, double> by_identity;
  std::unordered_map<std::string, double> by_name;
  std::unordered_map<std::string, std::pair<double, uint64_t>> of_kind;  // sum and count
};

Result<EarlierTimes> ReadTimes(const std::string& run_dir) {
  const auto part = OpenRun(run_dir);
  if (!part.ok()) return part.status();
  const Result<journal::History> history = journal::ReadHistory(part->dir);
  if (!history.ok()) return history.status();
  EarlierTimes times{.run_dir = part->run->path(), .by_identity = {}, .by_name = {}, .of_kind = {}};
  std::unordered_map<uint32_t, double> took;
  for (const journal::AttemptRecord& attempt : history->attempts) {
    if (attempt.start_ns > 0 && attempt.end == journal::End::kExited && attempt.code == 0) {
      took[attempt.task.value] = static_cast<double>(attempt.end_ns - attempt.start_ns) * 1e-9;
    }
  }
  for (const journal::TaskRecord& task : history->tasks) {
    const auto found = took.find(task.task.value);
    if (found == took.end()) continue;
    times.by_identity[{task.identity_high, task.identity_low}] = found->second;
    times.by_name[task.name] = found->second;
    auto& [sum, count] = times.of_kind[task.kind];
    sum += found->second;
    ++count;
  }
  return times;
}

Status NobodyKnows(const graph::Graph& graph, TaskId task) {
  return Status(Code::kInvalid, StrCat(graph.PlaceText(graph.place(task)), ": the run time of task ",
                                       Printable(graph.TaskName(task), 80),
                                       " is not known; give --times RUN (an earlier run of it) or "
                                       "--task-time 10s, or write run_time = \"10s\" "
                                       "in the flow"));
}

}  // namespace

Result<FlowTimes> FindFlowTimes(const graph::Graph& graph, const std::string& times_of,
                                const std::string& otherwise) {
  std::optional<double> missing;
  if (!otherwise.empty()) {
    const Result<Duration> time = ParseDuration(otherwise);
    if (!time.ok()) return Status(Code::kInvalid, StrCat("--task-time: ", time.status().message()));
    missing = Seconds(*time);
  }
  const auto count = static_cast<uint32_t>(graph.task_count());
  FlowTimes times;
  times.work.resize(count);
  std::vector<bool> known(count, false);
  const auto recorded = [&] {
    uint32_t found = 0;
    for (uint32_t n = 0; n < count; ++n) {
      const std::optional<Duration> time = graph.recorded_run_time(TaskId(n));
      if (!time || known[n]) continue;
      times.work[n].seconds = Seconds(*time);
      known[n] = true;
      ++found;
    }
    return found;
  };
  const Result<ModelTimes> models = FindModelTimes(graph);
  if (!models.ok()) return models.status();
  for (uint32_t n = 0; n < count; ++n) times.work[n].stream_bytes = std::max(0.0, models->stream_bytes[n]);
  const bool asked = !times_of.empty();
  const auto add = [&](const std::string& text) {
    times.said_by += StrCat(times.said_by.empty() ? "" : "; ", text);
  };
  uint32_t open = count;
  if (!asked) {
    const uint32_t found = recorded();
    open -= found;
    if (found > 0) add("recorded in the flow");
  }
  if (open > 0) {
    const Result<EarlierTimes> earlier = ReadTimes(times_of);
    if (asked && !earlier.ok()) return earlier.status();
    uint32_t found = 0, by_kind = 0;
    if (earlier.ok()) {
      const std::vector<formats::Identity> identities = formats::Identities(graph);
      std::vector<uint32_t> rest;
      for (uint32_t n = 0; n < count; ++n) {
        if (known[n]) continue;
        const auto same = earlier->by_identity.find(identities[n]);
        const auto named = asked ? earlier->by_name.find(graph.TaskName(TaskId(n))) : earlier->by_name.end();
        if (same == earlier->by_identity.end() && named == earlier->by_name.end()) {
          rest.push_back(n);
          continue;
        }
        times.work[n].seconds = same != earlier->by_identity.end() ? same->second : named->second;
        known[n] = true;
        ++found;
      }
      // A run of which no task is this flow's says nothing about it, unless it was named.
      for (const uint32_t n : rest) {
        const KindId kind = graph.kind(TaskId(n));
        if ((found == 0 && !asked) || !kind) continue;
        const auto mean = earlier->of_kind.find(std::string(graph.kind_name(kind)));
        if (mean == earlier->of_kind.end()) continue;
        times.work[n].seconds = mean->second.first / static_cast<double>(mean->second.second);
        known[n] = true;
        ++by_kind;
      }
    }
    open -= found + by_kind;
    if (found + by_kind > 0)
      add(StrCat("of the run ", Printable(earlier->run_dir.substr(earlier->run_dir.rfind('/') + 1))));
    if (by_kind > 0) add(StrCat(by_kind, " of ", count, " tasks take their kind's mean"));
  }
  if (asked && open > 0) {
    const uint32_t found = recorded();
    open -= found;
    if (found > 0) add(StrCat(found, " recorded in the flow"));
  }
  uint32_t modelled = 0;
  for (uint32_t n = 0; n < count && open > 0; ++n) {
    if (known[n] || models->seconds[n] < 0) continue;
    times.work[n].seconds = models->seconds[n];
    known[n] = true;
    ++modelled;
  }
  open -= modelled;
  if (modelled > 0) add(StrCat(modelled, " as models say"));
  for (uint32_t n = 0; n < count && open > 0; ++n) {
    if (known[n]) continue;
    if (!missing) return NobodyKnows(graph, TaskId(n));
    times.work[n].seconds = *missing;
  }
  if (open > 0)
    add(StrCat(open, " of ", count, open == 1 ? " task takes " : " tasks take ", otherwise,
               " by assumption"));
  return times;
}

Result<NodeShape> ShapeOfPartition(const std::string& partition) {
  std::vector<std::string> command = {"sinfo", "-h", "-o", batch::kPartitionFormat};
  if (!partition.empty()) command.insert(command.end(), {"-p", partition});
  const Result<std::string> told = batch::RunCommand(command, kSinfoWithin);
  if (!told.ok()) return Status(Code::kNotFound, told.status().message());
  const std::optional<batch::Partition> found = batch::ParsePartitions(*told, partition);
  if (!found) {
    return Status(Code::kNotFound,
                  partition.empty()
                      ? std::string("there is no default partition; name one with --partition")
                      : StrCat("there is no partition ", Printable(partition), "; sinfo lists them"));
  }
  return NodeShape{.name = StrCat("partition ", found->name),
                   .capacity = {found->cpus, found->gpus, found->memory},
                   .largest = {found->most_cpus, found->most_gpus, found->most_memory},
                   .time = found->default_time,
                   .most = found->most_nodes};
}

sim::NodeCounts ProposeNodes(const graph::Graph& graph, const std::vector<sim::Work>& work,
                             const NodeShape& shape, const config::RunOptions& options) {
  sim::Options simulated;
  simulated.cluster.nodes.push_back(
      {.count = 1, .capacity = shape.capacity, .page_cache = 0, .speed = 1, .line = 0});
  if (options.slots > 0) simulated.cluster.nodes[0].capacity.slots = options.slots;
  simulated.seed = simulated.core.seed = options.seed;
  simulated.core.policy = options.order;
  simulated.core.locality = options.locality;
  simulated.core.steal = options.steal;
  simulated.core.costs = options.placer();
  simulated.core.max_losses = options.max_losses;
  return sim::FindNodeCount(graph, work, std::move(simulated), shape.most > 0 ? shape.most : kMostNodes);
}

}  // namespace harrow::launcher
