// What placement by costs is worth, and what it costs itself. usage: perf_cost [--quick]
//
// Random nets of up to 9 tasks on 3 nodes: the makespan that the model predicts for a placement, over that of
// the best of all placements by the same model. A million tasks of ten kinds: model, clusters and
// distribution.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <sys/resource.h>
#include <vector>

#include "cost/distribute.h"
#include "cost/load.h"
#include "cost/placement.h"
#include "figure.h"

namespace harrow::perf {
namespace {

using cost::Load;
using cost::Machine;
using cost::Net;
using cost::Placement;
using cost::Prediction;

using Random = std::mt19937_64;
double Unit(Random* random) {
  return static_cast<double>((*random)() >> 11) * 0x1p-53;
}
uint32_t Below(Random* random, uint32_t count) {
  return static_cast<uint32_t>((*random)() % count);
}
/// From one to the other, each order of magnitude as often.
double Scaled(Random* random, double least, double most) {
  return least * std::pow(most / least, Unit(random));
}

cost::CostFunctions Program(double compute, double out) {
  return {cost::Expression::Input(), compute, out};
}

/// Each task a program of its own; who comes later reads of some that came before.
Net RandomNet(Random* random, uint32_t tasks, double heaviness) {
  Net net;
  for (uint32_t t = 0; t < tasks; ++t) {
    net.programs.push_back(Program(1 + 99 * Unit(random), 100 * heaviness * Scaled(random, 0.1, 10)));
    cost::MetaTask task;
    task.program = t;
    net.tasks.push_back(task);
  }
  for (uint32_t t = 0; t + 1 < tasks; ++t) {
    cost::MetaStream stream;
    stream.writers = {t};
    for (uint32_t reader = t + 1; reader < tasks; ++reader) {
      if (Below(random, tasks - t) == 0) stream.readers.push_back(reader);
    }
    if (stream.readers.empty() && Below(random, 2) == 0)
      stream.readers.push_back(t + 1 + Below(random, tasks - t - 1));
    if (!stream.readers.empty()) net.streams.push_back(stream);
  }
  return net;
}

constexpr uint32_t kNodes = 3;

struct Case {
  Net net;
  cost::Costs costs;
  Load load;
  Machine machine;
  cost::Limits limits;
};

Case MakeCase(Net net, uint32_t slots) {
  Case c;
  c.net = std::move(net);
  c.costs = cost::Guessed(c.net, *cost::FindCosts(c.net));
  c.load = cost::MakeLoad(c.net, c.costs, {{1, 1}});
  c.machine.nodes.assign(kNodes, {slots, 1, 1, 1});
  c.limits = cost::DefaultLimits(c.net, c.costs, kNodes * slots, 1, 1);
  return c;
}

Placement ByPaper(const Case& c) {
  std::vector<double> task_costs;
  for (const cost::Amounts& amounts : c.costs.compute) task_costs.push_back(amounts[0]);
  Placement placement;
  cost::PlaceClusters(cost::FindClusters(c.net, c.costs, c.limits), task_costs, c.costs.rank,
                      std::vector<double>(kNodes, 1), std::vector<bool>(task_costs.size(), true), &placement);
  return placement;
}

/// Everything in turn, by rank: what knows no costs.
Placement Blind(const Case& c) {
  Placement placement;
  cost::OrderByRank(c.load, &placement);
  placement.node.resize(c.load.tasks.size());
  for (size_t t = 0; t < placement.node.size(); ++t) placement.node[t] = placement.order[t] % kNodes;
  return placement;
}

/// The best of all: the nodes are alike, so each way of dividing the tasks is looked at once.
double Exhaustive(const Case& c) {
  cost::Predictor predictor(c.load, c.machine);
  Placement placement;
  cost::OrderByRank(c.load, &placement);
  placement.node.assign(c.load.tasks.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  const auto place = [&](const auto& self, uint32_t task, uint32_t used) -> void {
    if (task == placement.node.size()) {
      best = std::min(best, predictor.Predict(placement.node, placement.order).makespan);
      return;
    }
    for (uint32_t n = 0; n < std::min(used + 1, kNodes); ++n) {
      placement.node[task] = n;
      self(self, task + 1, std::max(used, n + 1));
    }
  };
  place(place, 0, 0);
  return best;
}

void SmallNets(int count) {
  constexpr uint64_t kSeed = 18;
  Random random(kSeed);
  int cost_near = 0, paper_near = 0;
  double cost_worst = 1, paper_worst = 1, cost_bytes = 0, blind_bytes = 0;
  for (int i = 0; i < count; ++i) {
    const double heaviness = Scaled(&random, 0.05, 5);
    const Case c = MakeCase(RandomNet(&random, 2 + Below(&random, 8), heaviness), 1 + Below(&random, 2));
    const double best = Exhaustive(c);
    Placement placement;
    const Prediction by_cost =
        cost::PlaceByCosts(c.net, c.costs, c.load, c.machine, c.limits, 1'000'000, &placement);
    const Placement by_paper = ByPaper(c), blind = Blind(c);
    cost::Predictor predictor(c.load, c.machine);
    const double paper = predictor.Predict(by_paper.node, by_paper.order).makespan;
    cost_near += by_cost.makespan <= 1.1 * best;
    paper_near += paper <= 1.1 * best;
    cost_worst = std::max(cost_worst, by_cost.makespan / best);
    paper_worst = std::max(paper_worst, paper / best);
    if (heaviness < 1) continue;  // here the larger streams take as long as their tasks
    cost_bytes += by_cost.bytes;
    blind_bytes += predictor.Predict(blind.node, blind.order).bytes;
  }
  Figure("small_nets.seed", static_cast<double>(kSeed), "");
  Figure("small_nets.cost_within_10_percent", 100.0 * cost_near / count, "%", 95, Bound::kAtLeast);
  Figure("small_nets.cost_worst", cost_worst, "of the best", 1.5);
  Figure("small_nets.paper_within_10_percent", 100.0 * paper_near / count, "%");
  Figure("small_nets.paper_worst", paper_worst, "of the best");
  Figure("small_nets.heavy_bytes", cost_bytes / blind_bytes, "of cost-blind placement", 0.5);
}

/// Placed by costs that are wrong by up to a factor of 3, against right ones; nothing is distributed again.
void WrongCosts(int count) {
  Random random(19);
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    const Case right = MakeCase(RandomNet(&random, 60 + Below(&random, 20), Scaled(&random, 0.05, 1)), 2);
    Net net = right.net;
    for (cost::CostFunctions& program : net.programs) {
      program.compute = program.compute * cost::Expression(Scaled(&random, 1.0 / 3, 3));
      program.out = program.out * cost::Expression(Scaled(&random, 1.0 / 3, 3));
    }
    const Case wrong = MakeCase(net, 2);
    constexpr uint64_t kBudget = 1'000'000;
    Placement placement, by_wrong;
    const double known = cost::PlaceByCosts(right.net, right.costs, right.load, right.machine, right.limits,
                                            kBudget, &placement)
                             .makespan;
    cost::PlaceByCosts(wrong.net, wrong.costs, wrong.load, wrong.machine, wrong.limits, kBudget, &by_wrong);
    sum += cost::Predictor(right.load, right.machine).Predict(by_wrong.node, by_wrong.order).makespan / known;
  }
  Figure("wrong_costs.without_redistribution", sum / count, "of the makespan with right ones, on average");
}

/// Ten kinds of 100 000 tasks, each a layer that reads of the one before by blocks.
void Million() {
  const auto begin = std::chrono::steady_clock::now();
  Net net;
  for (uint32_t kind = 0; kind < 10; ++kind) {
    net.programs.push_back(std::get<cost::CostFunctions>(
        cost::ParseMetaProgram("IF @arg[1] FOR @arg[0] compute(10) END output(20) ELSE WHILE input(1) "
                               "compute(@arg[0]) output(1) END END")));
    cost::MetaTask task;
    task.program = kind;
    task.count = 100'000;
    cost::Amounts sizes(task.count);
    for (uint32_t n = 0; n < task.count; ++n) sizes[n] = 1 + n % 977;
    task.arguments = {sizes, {kind % 3 == 0 ? 1.0 : 0.0}};
    net.tasks.push_back(std::move(task));
    if (kind == 0) continue;
    cost::MetaStream stream;
    stream.count = kind % 2 == 0 ? 1000 : 100'000;
    stream.writers = {kind - 1};
    stream.readers = {kind};
    net.streams.push_back(std::move(stream));
  }
  const cost::Costs costs = cost::Guessed(net, *cost::FindCosts(net));
  const cost::Limits limits = cost::DefaultLimits(net, costs, 64 * 32, 1e-6, 1e-9);
  const cost::Clusters clusters = cost::FindClusters(net, costs, limits);
  const std::vector<cost::Queue> queues = cost::Distribute(clusters.groups, std::vector<double>(64, 32));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Figure("million.groups", static_cast<double>(clusters.groups.size()), "");
  Figure("million.queues", static_cast<double>(queues.size()), "");
  Figure("million.time", took.count(), "s", 10);
  Figure("million.memory", static_cast<double>(usage.ru_maxrss) / 1048576, "GiB", 1);
}

}  // namespace
}  // namespace harrow::perf

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  harrow::perf::Million();  // first: what memory it needs is the most that was needed
  harrow::perf::SmallNets(quick ? 200 : 2000);
  harrow::perf::WrongCosts(quick ? 5 : 40);
  return harrow::perf::Status();
}
