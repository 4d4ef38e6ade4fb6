// What placement by costs is worth where it runs: the simulator, which drives the scheduler. usage: perf_placement [--quick]
//   [--only NAME] [--nets N] [--seed S]
//
// small: random nets of up to 9 tasks on 3 nodes: the simulated makespan of each placement over that of the
//   best of all placements, which are simulated one by one; and bytes between nodes, where the larger streams
//   take at least as long to send as their tasks compute, over those of a placement that knows no costs.
// wrong: nets of 60 tasks and more, costs wrong by a factor of up to 3, over the same with right ones.
// servers: 4 servers of 16 nodes each over one scheduler with all 64: the paper's net (M = 64, N = 8; what T1 writes is a file, as a stream
//   never goes from one server to another), and random nets: pipes of streams that files join, and tasks that files join.
// changes: a node that halves its speed, comes or goes in mid-run, over the same where that was known.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "figure.h"
#include "sim/simulation.h"

namespace harrow::perf {
namespace {

using Random = std::mt19937_64;
double Part(Random* random) {
  return static_cast<double>((*random)() >> 11) * 0x1p-53;
}
uint32_t Below(Random* random, uint32_t count) {
  return static_cast<uint32_t>((*random)() % count);
}
/// From one to the other, each order of magnitude as often.
double Scaled(Random* random, double least, double most) {
  return least * std::pow(most / least, Part(random));
}

[[noreturn]] void Raise(const std::string& text) {
  std::fprintf(stderr, "perf_placement: %s\n", text.c_str());
  std::exit(2);
}

/// A placement that somebody has made.
class GivenPlacement final : public cost::Placer {
 public:
  GivenPlacement(const std::vector<uint32_t>* nodes, const std::vector<uint32_t>* order)
      : nodes_(*nodes), order_(*order) {}
  void Grow() override {}
  void SetSlots(NodeId, uint32_t) override {}
  bool Learn(TaskId, NodeId, double, double) override { return false; }
  void Place(double, const Look& look) override {
    for (uint32_t n = 0; n < nodes_.size(); ++n) look(TaskId(n));
  }
  void Reopen(TaskId) override {}
  NodeId node(TaskId task) const override { return NodeId(nodes_[task.value]); }
  uint32_t order(TaskId task) const override { return order_[task.value]; }

 private:
  const std::vector<uint32_t>& nodes_;
  const std::vector<uint32_t>& order_;
};

/// Tasks joined by streams, what they say that they cost, and what they do.
struct Net {
  graph::Graph graph;
  std::vector<sim::Work> work;
  std::vector<uint32_t> rank;
  double compute = 0, bytes = 0;
};

struct Shape {
  uint32_t tasks = 9;
  uint32_t programs = 0;  // 0: each task is of one of its own
  double heaviness = 1;   // of streams: seconds on the link over seconds of computing
  uint32_t window = 0;    // a stream goes to one of so many that follow; 0: to any
  double wrong = 1;       // models are off by up to this factor
  bool wrong_by_program = false;
};

constexpr double kSecondsAUnit = 1e-6, kLink = 1e6;  // bytes a second

/// Each task computes 1 to 100 s, and who comes later reads of some that came before.
void MakeNet(Random* random, const Shape& shape, Net* net) {
  net->graph.AddSource("random");
  struct Program {
    double seconds, bytes, wrong_seconds, wrong_bytes;
  };
  const auto draw = [&] {
    const double seconds = 1 + 99 * Part(random);
    const double bytes = 50 * shape.heaviness * Scaled(random, 0.1, 10) * kLink;
    return Program{seconds, bytes, Scaled(random, 1 / shape.wrong, shape.wrong),
                   Scaled(random, 1 / shape.wrong, shape.wrong)};
  };
  std::vector<Program> programs;
  for (uint32_t p = 0; p < shape.programs; ++p) programs.push_back(draw());
  for (uint32_t t = 0; t < shape.tasks; ++t) {
    const uint32_t which = shape.programs == 0 ? t : Below(random, shape.programs);
    if (shape.programs == 0) programs.push_back(draw());
    const Program& of = programs[which];
    // Tasks of one program differ by their arguments.
    const double times = shape.programs == 0 ? 1 : Scaled(random, 0.5, 2);
    const double off = shape.wrong_by_program || shape.programs == 0 ? 1 : Scaled(random, 1 / shape.wrong, shape.wrong);
    const double seconds = of.seconds * times, bytes = of.bytes * times;
    graph::TaskSpec spec;
    const std::string name = StrCat("t", t), kind = StrCat("p", which);
    const std::string command =
        StrCat("p", which, " ",
               ExactText(std::ceil(seconds / kSecondsAUnit * (shape.programs == 0 || shape.wrong_by_program ? of.wrong_seconds : off))),
               " ", ExactText(std::ceil(bytes * (shape.programs == 0 || shape.wrong_by_program ? of.wrong_bytes : off))));
    spec.name = name;
    spec.command = command;
    spec.form = graph::CommandForm::kWords;
    spec.kind = net->graph.AddKind(kind);
    const TaskId task = net->graph.AddTask(spec);
    // One text a program, so that each is a model of its own.
    net->graph.SetModel(task, 1, StrCat("compute(@arg[0]) output(@arg[1]) compute(0 * ", which, ")"));
    net->work.push_back({.seconds = seconds, .left_out = false, .stream_bytes = bytes});
    net->compute += seconds;
    net->bytes += bytes;
  }
  std::vector<std::vector<uint32_t>> from(shape.tasks);
  for (uint32_t t = 0; t + 1 < shape.tasks; ++t) {
    std::vector<uint32_t> readers;
    const uint32_t end = shape.window == 0 ? shape.tasks : std::min(shape.tasks, t + 1 + shape.window);
    for (uint32_t reader = t + 1; reader < end; ++reader) {
      if (Below(random, end - t) == 0) readers.push_back(reader);
    }
    if (readers.empty() && Below(random, 2) == 0) readers.push_back(t + 1 + Below(random, end - t - 1));
    if (readers.empty()) continue;
    const StreamId stream = net->graph.AddStream(StrCat("s", t));
    net->graph.AddWriter(stream, TaskId(t));
    for (const uint32_t reader : readers) {
      net->graph.AddReader(stream, TaskId(reader));
      net->graph.AddDependency(TaskId(t), TaskId(reader), graph::WaitsFor::kStart);
      from[reader].push_back(t);
    }
  }
  const harrow::Status sealed = net->graph.Seal();
  if (!sealed.ok()) Raise(sealed.message());
  net->rank.assign(shape.tasks, 0);
  for (uint32_t t = 0; t < shape.tasks; ++t) {
    for (const uint32_t writer : from[t]) net->rank[t] = std::max(net->rank[t], net->rank[writer] + 1);
  }
}

sim::Options OnNodes(uint32_t nodes, uint32_t slots) {
  sim::Options options;
  options.cluster.nodes.push_back(
      {.count = nodes, .capacity = {slots, 0, 0}, .page_cache = 0, .speed = 1, .line = 0});
  options.cluster.nic = kLink;
  options.core.costs.link = kLink;
  options.core.costs.seconds_a_unit = kSecondsAUnit;
  return options;
}

sim::Outcome Run(const Net& net, sim::Options options, cost::Place how) {
  options.core.costs.how = how;
  sim::Outcome outcome = sim::Simulate(net.graph, net.work, options);
  if (!outcome.all_done())
    Raise(StrCat("a simulated run has ended with ", outcome.counts.done, " of ", outcome.counts.total, " tasks done, ",
                 outcome.counts.failed, " failed, ", outcome.counts.running, " running, ", outcome.counts.held, " held, ",
                 outcome.counts.ready, " ready, ", outcome.counts.waiting, " waiting"));
  return outcome;
}

std::vector<uint32_t> ByRank(const Net& net) {
  std::vector<uint32_t> tasks(net.rank.size()), order(net.rank.size());
  for (uint32_t t = 0; t < tasks.size(); ++t) tasks[t] = t;
  std::stable_sort(tasks.begin(), tasks.end(), [&](uint32_t a, uint32_t b) { return net.rank[a] < net.rank[b]; });
  for (uint32_t i = 0; i < tasks.size(); ++i) order[tasks[i]] = i;
  return order;
}

sim::Outcome RunAs(const Net& net, sim::Options options, const std::vector<uint32_t>& nodes,
                   const std::vector<uint32_t>& order) {
  options.core.make_placer = [&](const graph::Graph&) { return std::make_unique<GivenPlacement>(&nodes, &order); };
  return sim::Simulate(net.graph, net.work, options);
}

/// The least makespan of all placements; nodes are alike, so each way of dividing the tasks is tried once.
double Exhaustive(const Net& net, const sim::Options& options, uint32_t nodes) {
  const std::vector<uint32_t> order = ByRank(net);
  std::vector<uint32_t> at(order.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(uint32_t, uint32_t)> place = [&](uint32_t task, uint32_t used) {
    if (task == at.size()) {
      best = std::min(best, RunAs(net, options, at, order).makespan);
      return;
    }
    for (uint32_t n = 0; n < std::min(used + 1, nodes); ++n) {
      at[task] = n;
      place(task + 1, std::max(used, n + 1));
    }
  };
  place(0, 0);
  return best;
}

/// Everything in turn, by rank.
sim::Outcome Blind(const Net& net, const sim::Options& options, uint32_t nodes) {
  const std::vector<uint32_t> order = ByRank(net);
  std::vector<uint32_t> at(order.size());
  for (size_t t = 0; t < at.size(); ++t) at[t] = order[t] % nodes;
  return RunAs(net, options, at, order);
}

void Small(uint64_t seed, int count) {
  constexpr uint32_t kNodes = 3;
  struct Tally {
    int near = 0;
    double worst = 0, bytes = 0;
    void Add(double ratio) {
      near += ratio <= 1.1 ? 1 : 0;
      worst = std::max(worst, ratio);
    }
  };
  Tally cost, paper, files;
  double heavy_cost = 0, heavy_paper = 0, heavy_blind = 0, light_cost = 0, light_blind = 0;
  for (int i = 0; i < count; ++i) {
    Random random(seed + static_cast<uint64_t>(i) * 7919);
    Net net;
    const double heaviness = Scaled(&random, 0.05, 5);
    MakeNet(&random, {.tasks = 2 + Below(&random, 8), .heaviness = heaviness}, &net);
    const sim::Options options = OnNodes(kNodes, 1 + Below(&random, 2));
    const double best = Exhaustive(net, options, kNodes);
    const sim::Outcome by_cost = Run(net, options, cost::Place::kCost);
    const sim::Outcome by_paper = Run(net, options, cost::Place::kCostPaper);
    cost.Add(by_cost.makespan / best);
    paper.Add(by_paper.makespan / best);
    files.Add(Run(net, options, cost::Place::kFiles).makespan / best);
    const double blind = Blind(net, options, kNodes).stream_bytes;
    if (heaviness >= 1) {
      heavy_cost += by_cost.stream_bytes;
      heavy_paper += by_paper.stream_bytes;
      heavy_blind += blind;
    } else {
      light_cost += by_cost.stream_bytes;
      light_blind += blind;
    }
  }
  Figure("small.seed", static_cast<double>(seed), "");
  Figure("small.nets", count, "");
  Figure("small.cost_within_10_percent", 100.0 * cost.near / count, "%", 95, Bound::kAtLeast);
  Figure("small.cost_worst", cost.worst, "of the best", 1.5);
  Figure("small.paper_within_10_percent", 100.0 * paper.near / count, "%");
  Figure("small.paper_worst", paper.worst, "of the best");
  Figure("small.files_within_10_percent", 100.0 * files.near / count, "%");
  Figure("small.files_worst", files.worst, "of the best");
  Figure("small.heavy_bytes", heavy_cost / heavy_blind, "of cost-blind placement", 0.5);
  Figure("small.heavy_bytes_paper", heavy_paper / heavy_blind, "of cost-blind placement");
  Figure("small.light_bytes", light_cost / light_blind, "of cost-blind placement");
}

void Wrong(uint64_t seed, int count) {
  struct How {
    const char* name;
    uint32_t programs;
    bool by_program;
  };
  for (const How& how : {How{"own", 0, true}, How{"by_program", 8, true}, How{"by_task", 8, false}}) {
    double sum[2] = {}, worst[2] = {};
    for (int i = 0; i < count; ++i) {
      const uint64_t own = seed + static_cast<uint64_t>(i) * 7919;
      double right[2] = {}, wrong[2] = {};
      for (const bool off : {false, true}) {
        Random random(own);
        Shape shape{.tasks = 60 + Below(&random, 60), .programs = how.programs, .heaviness = Scaled(&random, 0.05, 1)};
        shape.wrong = off ? 3 : 1;
        shape.wrong_by_program = how.by_program;
        shape.window = 12;
        Net net;
        MakeNet(&random, shape, &net);
        const sim::Options options = OnNodes(4, 2);
        int k = 0;
        for (const cost::Place place : {cost::Place::kCost, cost::Place::kCostPaper})
          (off ? wrong : right)[k++] = Run(net, options, place).makespan;
      }
      for (int k = 0; k < 2; ++k) {
        sum[k] += wrong[k] / right[k];
        worst[k] = std::max(worst[k], wrong[k] / right[k]);
      }
    }
    Figure(StrCat("wrong.", how.name, ".cost"), sum[0] / count, "of the makespan with right ones, on average", 1.15);
    Figure(StrCat("wrong.", how.name, ".cost_worst"), worst[0], "of the makespan with right ones");
    Figure(StrCat("wrong.", how.name, ".paper"), sum[1] / count, "of the makespan with right ones, on average");
  }
}

/// Tasks and what they really take; models tell the same.
struct Built {
  Net net;

  Built() { net.graph.AddSource("servers"); }
  TaskId Add(const std::string& name, const char* kind, double seconds, double bytes, const std::vector<FileId>& in,
             FileId out) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "x";
    spec.kind = net.graph.AddKind(kind);
    spec.in = in;
    const std::vector<FileId> outs = out ? std::vector<FileId>{out} : std::vector<FileId>{};
    spec.out = outs;
    spec.recorded_run_time = FromSeconds(seconds);
    net.work.push_back({.seconds = seconds, .left_out = false, .stream_bytes = bytes});
    net.compute += seconds;
    net.bytes += bytes;
    return net.graph.AddTask(spec);
  }
  void Join(const std::string& name, TaskId writer, const std::vector<TaskId>& readers) {
    const StreamId stream = net.graph.AddStream(name);
    net.graph.AddWriter(stream, writer);
    for (const TaskId reader : readers) {
      net.graph.AddReader(stream, reader);
      net.graph.AddDependency(writer, reader, graph::WaitsFor::kStart);
    }
  }
  FileId File(const std::string& name, double bytes) {
    const FileId file = net.graph.AddFile(name);
    net.graph.SetFileSize(file, static_cast<int64_t>(bytes));
    return file;
  }
  void Seal() {
    const harrow::Status sealed = net.graph.Seal();
    if (!sealed.ok()) Raise(sealed.message());
  }
};

/// Figure 1 with M = m and N = n; a unit of compute is 10 ms, of output a byte.
void MakePaper(uint32_t m, uint32_t n, Built* built) {
  const FileId s1 = built->File("s1", 5);
  built->Add("t1", "make", 2, 0, {}, s1);
  for (uint32_t k = 1; k <= m; ++k) {
    const TaskId t2 = built->Add(StrCat("t2-", k), "map", 5.0 * k, 50, {s1}, FileId());
    std::vector<TaskId> readers;
    for (uint32_t j = (k - 1) * n + 1; j <= k * n; ++j)
      readers.push_back(built->Add(StrCat("t3-", j), "reduce", 25.0 * j, 0, {}, FileId()));
    built->Join(StrCat("s2-", k), t2, readers);
  }
  built->Seal();
}

/// Steps of pipes: one task writes a stream to up to six others, and reads files that some of the step before have made. With `pipes` false
/// each pipe is one task.
void MakeSteps(Random* random, uint32_t tasks, bool pipes, Built* built) {
  const uint32_t steps = 2 + Below(random, 8);
  std::vector<FileId> before, made;
  uint32_t number = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    const uint32_t end = tasks * (step + 1) / steps;
    while (number < end) {
      std::vector<FileId> in;
      for (uint32_t k = before.empty() ? 0 : 1 + Below(random, 3); k > 0; --k)
        in.push_back(before[Below(random, static_cast<uint32_t>(before.size()))]);
      std::sort(in.begin(), in.end());
      in.erase(std::unique(in.begin(), in.end()), in.end());
      const uint32_t count = pipes ? std::min(end - number, 1 + Below(random, 7)) : 1;
      const FileId out = built->File(StrCat("f", number), Scaled(random, 1e3, 1e6));
      const char* kinds[] = {"a", "b", "c", "d", "e"};
      const TaskId writer = built->Add(StrCat("t", number), kinds[Below(random, 5)], 1 + 29 * Part(random),
                                       pipes ? Scaled(random, 1e5, 1e7) : 0, in, out);
      made.push_back(out);
      ++number;
      std::vector<TaskId> readers;
      for (uint32_t r = 1; r < count; ++r, ++number)
        readers.push_back(built->Add(StrCat("t", number), kinds[Below(random, 5)], 1 + 29 * Part(random), 0, {}, FileId()));
      if (!readers.empty()) built->Join(StrCat("s", writer.value), writer, readers);
    }
    before.swap(made);
    made.clear();
  }
  built->Seal();
}

void Servers(uint64_t seed, int count, bool quick) {
  constexpr uint32_t kServers = 4, kNodes = 16, kSlots = 2;
  uint64_t of_others = 0;
  const auto ratio = [&](const Net& net) {
    const sim::Options one = OnNodes(kServers * kNodes, kSlots);
    sim::Options four = one;
    for (uint32_t n = 0; n < kServers; ++n)
      four.cluster.allocations.push_back({.name = StrCat("server", n), .nodes = kNodes});
    const double alone = Run(net, one, cost::Place::kCost).makespan;
    const sim::Outcome outcome = Run(net, four, cost::Place::kCost);
    of_others = std::max(of_others, outcome.modelled_of_others);
    return outcome.makespan / alone;
  };
  const auto figures = [&](const std::string& name, const std::vector<double>& ratios) {
    double sum = 0;
    for (const double each : ratios) sum += each;
    Figure(StrCat("servers.", name), sum / static_cast<double>(ratios.size()), "of the makespan of one scheduler, on average", 1.1);
    Figure(StrCat("servers.", name, "_worst"), *std::max_element(ratios.begin(), ratios.end()),
           "of the makespan of one scheduler");
  };
  Figure("servers.seed", static_cast<double>(seed), "");
  {
    Built paper;
    MakePaper(64, 8, &paper);
    figures("paper_64_8", {ratio(paper.net)});
  }
  for (const bool pipes : {true, false}) {
    for (const uint32_t tasks : {1000u, 10'000u, 100'000u}) {
      if (tasks > 1000 && quick) continue;
      std::vector<double> ratios;
      const int nets = std::max(1, tasks == 1000 ? count : tasks == 10'000 ? count / 4 : count / 10);
      for (int i = 0; i < nets; ++i) {
        Random random(seed + static_cast<uint64_t>(i) * 7919);
        Built built;
        MakeSteps(&random, tasks, pipes, &built);
        ratios.push_back(ratio(built.net));
        if (std::getenv("HARROW_EACH") != nullptr) std::fprintf(stderr, "%s %u net %d: %.3f\n", pipes ? "pipes" : "files", tasks, i, ratios.back());
      }
      figures(StrCat(pipes ? "pipes_" : "files_", tasks), ratios);
    }
  }
  Figure("servers.modelled_of_others", static_cast<double>(of_others), "tasks of other servers in one's model", 0);
}

/// With node 0 as fast as `speed`, as the placement knows from the start.
double Knowing(const Net& net, sim::Options options, double speed) {
  options.core.costs.speeds = {speed};
  return Run(net, options, cost::Place::kCost).makespan;
}

void Changes(uint64_t seed, int count) {
  constexpr uint32_t kNodes = 4;
  double sum[3] = {}, worst[3] = {}, files[3] = {};
  for (int i = 0; i < count; ++i) {
    Random random(seed + static_cast<uint64_t>(i) * 7919);
    const Shape shape{.tasks = 80 + Below(&random, 80),
                      .programs = 8,
                      .heaviness = Scaled(&random, 0.02, 0.5),
                      .window = 12};
    Net net;
    MakeNet(&random, shape, &net);
    const sim::Options usual = OnNodes(kNodes, 2);
    const double at = Run(net, usual, cost::Place::kCost).makespan * (0.2 + 0.3 * Part(&random));
    for (int k = 0; k < 3; ++k) {
      sim::Options options = usual, known = usual;
      std::vector<double> speeds;
      if (k == 0) {  // it halves its speed
        options.cluster.changes = known.cluster.changes = {{0, at, 0.5}};
        speeds = {0.5, 0.6, 0.7, 0.8, 1};
      } else if (k == 1) {  // it comes; who knows that gives it tasks before, which wait there
        options.cluster.late = {{0, at}};
        known.cluster.changes = {{0, 0, 1e-6}, {0, at, 1}};
        speeds = {0.5, 0.6, 0.7, 0.8};
      } else {  // it goes; who knows that may leave it alone
        options.cluster.failures = known.cluster.failures = {{0, at, 0}};
        speeds = {0.01, 0.2, 0.3, 0.4, 1};
      }
      const sim::Outcome outcome = Run(net, options, cost::Place::kCost);
      double best = std::numeric_limits<double>::infinity();
      for (const double speed : speeds) best = std::min(best, Knowing(net, known, speed));
      if (k == 1) best = std::min(best, Knowing(net, options, 1));
      sum[k] += outcome.makespan / best;
      worst[k] = std::max(worst[k], outcome.makespan / best);
      files[k] += Run(net, options, cost::Place::kFiles).makespan / best;
    }
  }
  const char* names[] = {"half_speed", "joins", "leaves"};
  for (int k = 0; k < 3; ++k) {
    Figure(StrCat("changes.", names[k]), sum[k] / count, "of having known it, on average", 1.15);
    Figure(StrCat("changes.", names[k], "_worst"), worst[k], "of having known it");
    Figure(StrCat("changes.", names[k], "_files"), files[k] / count, "of having known it, placed by files");
  }
}

}  // namespace
}  // namespace harrow::perf

int main(int argc, char** argv) {
  bool quick = false;
  int nets = 0;
  std::string only;
  uint64_t seed = 18;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) quick = true;
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
    if (std::strcmp(argv[i], "--nets") == 0 && i + 1 < argc) nets = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) seed = std::strtoull(argv[++i], nullptr, 10);
  }
  if (only.empty() || only == "small") harrow::perf::Small(seed, nets > 0 ? nets : quick ? 60 : 2000);
  if (only.empty() || only == "wrong") harrow::perf::Wrong(seed, nets > 0 ? nets : quick ? 4 : 40);
  if (only.empty() || only == "servers") harrow::perf::Servers(seed, nets > 0 ? nets : quick ? 1 : 20, quick);
  if (only.empty() || only == "changes") harrow::perf::Changes(seed, nets > 0 ? nets : quick ? 3 : 40);
  return harrow::perf::Status();
}
