#include "cost/task_costs.h"

#include <algorithm>
#include <utility>

#include "cost/from_graph.h"
#include "cost/net.h"

namespace harrow::cost {
namespace {

// Of something that was learnt: so much more or less is much.
constexpr double kMuchLearnt = 1.25;
// What another run has found counts as so many tasks at most.
constexpr uint64_t kMostOfKnown = 8;

}  // namespace

TaskCosts::TaskCosts(const graph::Graph& graph, double seconds_a_unit, double bytes_a_unit, std::vector<Known> known)
    : graph_(graph), seconds_a_unit_(seconds_a_unit), known_(std::move(known)), factors_(seconds_a_unit, bytes_a_unit) {}

bool TaskCosts::Model() {
  const Result<Net> net = NetOf(graph_, seconds_a_unit_);
  if (!net.ok()) return false;
  Result<Costs> found = FindCosts(*net);
  if (!found.ok()) return false;
  const Costs costs = Guessed(*net, *std::move(found));
  const size_t count = graph_.task_count();
  units_.resize(count);
  out_units_.resize(count);
  factor_.resize(count);
  // A kind keeps its factor as the graph grows.
  const auto programs = static_cast<uint32_t>(net->programs.size());
  programs_.resize(std::max<size_t>(programs_.size(), programs + graph_.kind_count() + 1));
  for (Program& program : programs_) program.tasks = 0, program.units = program.out_units = 0;
  uint32_t task = 0;
  for (uint32_t t = 0; t < net->tasks.size(); ++t) {
    for (uint32_t n = 0; n < net->tasks[t].count; ++n, ++task) {
      units_[task] = AmountOf(costs.compute[t], n);
      out_units_[task] = AmountOf(costs.out[t], n);
      const KindId kind = graph_.kind(TaskId(task));
      const uint32_t model = net->tasks[t].program;
      factor_[task] = model != kNoProgram ? model : programs + (kind ? kind.value + 1 : 0);
      Program& program = programs_[factor_[task]];
      if (program.tasks++ == 0) {
        program.model = model != kNoProgram ? graph_.models()[model] : "";
        program.kind = kind ? std::string(graph_.kind_name(kind)) : "";
      }
      program.units += units_[task];
      program.out_units += out_units_[task];
    }
  }
  for (uint32_t factor = 0; factor < programs_.size(); ++factor) {
    if (!programs_[factor].seeded && programs_[factor].tasks > 0) Seed(factor);
  }
  NoteExpected();
  return true;
}

void TaskCosts::NoteExpected() {
  then_.resize(programs_.size());
  for (uint32_t factor = 0; factor < then_.size(); ++factor) then_[factor] = factors_.seconds_a_unit(factor);
}

/// By what another run has found of the same model, else of the same kind.
void TaskCosts::Seed(uint32_t factor) {
  Program& program = programs_[factor];
  program.seeded = true;
  const auto find = [&](const auto& same) { return std::find_if(known_.begin(), known_.end(), same); };
  auto known = find([&](const Known& k) { return !program.model.empty() && k.model == program.model && k.units > 0; });
  const bool by_model = known != known_.end();
  if (!by_model) known = find([&](const Known& k) { return !program.kind.empty() && k.kind == program.kind; });
  if (known == known_.end() || known->tasks == 0) return;
  const double weight = static_cast<double>(std::min(known->tasks, kMostOfKnown));
  const double all = static_cast<double>(program.tasks);
  const double units = by_model ? known->units : program.units / all;
  const double out_units = by_model ? known->out_units : program.out_units / all;
  factors_.Know(factor, weight, units, known->seconds, out_units, known->bytes);
}

bool TaskCosts::Learn(TaskId task, NodeId node, double seconds, double bytes) {
  if (task.value >= units_.size()) return false;
  const uint32_t factor = factor_[task.value];
  const double units = units_[task.value], out_units = out_units_[task.value];
  factors_.Learn(factor, node.value, units, seconds);
  Program& program = programs_[factor];
  if (seconds >= 0) {
    ++program.ended;
    program.ended_units += units;
    program.ended_out += out_units;
    program.ended_seconds += seconds;
  }
  if (bytes >= 0) {
    factors_.LearnBytes(factor, out_units, bytes);
    ++program.wrote;
    program.bytes += bytes;
  }
  const double now = factors_.seconds_a_unit(factor);
  return now > then_[factor] * kMuchLearnt || then_[factor] > now * kMuchLearnt;
}

std::vector<Known> TaskCosts::Found() const {
  std::vector<Known> found;
  for (const Program& program : programs_) {
    if (program.ended == 0) continue;
    const double ended = static_cast<double>(program.ended), wrote = static_cast<double>(program.wrote);
    Known known{.model = program.model, .kind = program.kind, .tasks = program.ended, .seconds = program.ended_seconds / ended};
    known.units = program.ended_units / ended;
    known.out_units = program.ended_out / ended;
    if (program.wrote > 0) known.bytes = program.bytes / wrote;
    found.push_back(std::move(known));
  }
  return found;
}

size_t TaskCosts::memory() const {
  return (units_.capacity() + out_units_.capacity()) * sizeof(double) + factor_.capacity() * sizeof(uint32_t) +
         programs_.capacity() * sizeof(Program) + factors_.memory();
}

std::vector<double> RemainingPaths(const graph::Graph& graph, const std::vector<double>& seconds) {
  std::vector<double> path(graph.task_count(), 0);
  const std::vector<TaskId> order = graph::PrerequisitesFirst(graph);
  for (size_t i = order.size(); i-- > 0;) {
    const TaskId task = order[i];
    const double own = seconds[task.value];
    double longest = own;
    for (const TaskId after : graph.successors(task)) {
      const double of = seconds[after.value], behind = path[after.value] - of;
      longest = std::max(longest, graph.StartSuffices(task, after) ? std::max(own, of) + behind : own + of + behind);
    }
    path[task.value] = longest;
  }
  return path;
}

}  // namespace harrow::cost
