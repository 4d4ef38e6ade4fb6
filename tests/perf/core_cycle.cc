// Cost of the scheduler's core: how many task completions a second it takes in, from TaskEnded to the
// StartTask that follows (successors made ready, candidates found, queues, choice), on one thread; and the
// bytes it holds.
//
// The flow: three levels of equally many tasks; each task reads two files made by two tasks of the level
// before (the first level: two files that lie on two nodes), and writes one, which two tasks read. So nearly
// every task has two candidate nodes, and they follow from where its predecessors ran. Every tenth task asks
// for four cores. The cluster: 1 000 nodes of 64 slots. Tasks end in random order, in batches, as a server
// reads them from its agents. Only the processor time inside the scheduler counts: tasks added, and
// everything until the last one is done.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/scheduler.h"
#include "figure.h"
#include "order/draws.h"

namespace {

using namespace harrow;

constexpr uint32_t kNodes = 1000, kSlots = 64;
constexpr double kMostGrowth = 2;

struct Figures {
  double seconds = 0;  // in the scheduler
  double completions = 0;
  double bytes_a_task = 0;  // most at any time, without text
  double seal_seconds = 0;
  uint64_t stolen = 0, attempts = 0, local = 0, remote = 0;
};

graph::Graph MakeFlow(uint32_t tasks, std::vector<core::Event>* stored) {
  order::SeededDraws random(42);
  graph::Graph graph;
  graph::Profile small, large;
  large.shape.cores = 4;
  const ProfileId profiles[2] = {graph.AddProfile(small), graph.AddProfile(large)};
  const uint32_t width = tasks / 3;
  std::vector<FileId> before, made;
  for (uint32_t i = 0; i < width; ++i) {
    for (const char* kind : {"a", "b"}) {
      const FileId file = graph.AddFile("in/" + std::string(kind) + std::to_string(i));
      graph.SetFileSize(file, 1'000'000);
      stored->push_back(core::FileStored{file, NodeId(random.Below(kNodes)), 1'000'000});
      before.push_back(file);
    }
  }
  for (int level = 0; level < 3; ++level) {
    made.clear();
    for (uint32_t i = 0; i < width; ++i) {
      const FileId in[2] = {before[2 * i], before[2 * i + 1]};
      const std::string number = std::to_string(level) + "/" + std::to_string(i);
      const FileId out = graph.AddFile("out/" + number);
      graph.SetFileSize(out, 1'000'000);
      const std::string name = "task" + number;
      graph::TaskSpec spec;
      spec.name = name;
      spec.command = "true";
      spec.profile = profiles[random.Below(10) == 0];
      spec.in = in;
      spec.out = {&out, 1};
      graph.AddTask(spec);
      made.push_back(out);
      made.push_back(out);
    }
    // Every file twice, in random order.
    before = made;
    for (size_t i = before.size(); i > 1; --i)
      std::swap(before[i - 1], before[random.Below(static_cast<uint32_t>(i))]);
  }
  return graph;
}

Figures Run(order::Policy policy, uint32_t tasks, size_t batch, bool growing_check) {
  Figures figures;
  std::vector<core::Event> stored;
  graph::Graph graph = MakeFlow(tasks, &stored);
  const double sealing = perf::ThreadSeconds();
  if (const Status sealed = graph.Seal(); !sealed.ok()) {
    std::fprintf(stderr, "%s\n", sealed.message().c_str());
    std::exit(1);
  }
  figures.seal_seconds = perf::ThreadSeconds() - sealing;

  order::SeededDraws random(7);
  core::Options options;
  options.policy = policy;
  core::Scheduler scheduler(graph, options);
  std::vector<core::Action> actions;
  std::vector<core::Event> events;
  for (uint32_t n = 0; n < kNodes; ++n) events.push_back(core::NodeJoined{NodeId(n), {kSlots, 0, 0}});
  scheduler.HandleAll(Time(), events, &actions);
  stored.push_back(core::TasksAdded{TaskId(0), static_cast<uint32_t>(graph.task_count())});
  events.swap(stored);

  struct Running {
    AttemptId attempt;
    NodeId node;
  };
  std::vector<Running> running;
  Time now{};
  size_t next_memory = 0;
  const auto handle = [&] {
    const double begin = perf::ThreadSeconds();
    if (events.size() == 1) {
      scheduler.Handle(now, events[0], &actions);
    } else {
      scheduler.HandleAll(now, events, &actions);
    }
    figures.seconds += perf::ThreadSeconds() - begin;
    for (const core::Action& action : actions) {
      if (const auto* start = std::get_if<core::StartTask>(&action))
        running.push_back({start->attempt, start->node});
    }
    actions.clear();
    events.clear();
  };
  handle();
  while (!running.empty()) {
    if (growing_check && scheduler.counts().done >= next_memory) {
      next_memory += tasks / 10;
      figures.bytes_a_task =
          std::max(figures.bytes_a_task, static_cast<double>(scheduler.MemoryWithoutText()) / tasks);
    }
    for (size_t i = 0; i < batch && !running.empty(); ++i) {
      Running& one = running[random.Below(static_cast<uint32_t>(running.size()))];
      const Duration run_time = std::chrono::milliseconds(500 + random.Below(1000));
      events.push_back(core::TaskEnded{one.attempt, one.node, core::Done{}, run_time});
      one = running.back();
      running.pop_back();
    }
    now += std::chrono::microseconds(batch);
    handle();
  }
  const core::Counts& counts = scheduler.counts();
  if (counts.done != graph.task_count()) {
    std::fprintf(stderr, "%llu of %zu tasks done\n", static_cast<unsigned long long>(counts.done),
                 graph.task_count());
    std::exit(1);
  }
  figures.completions = static_cast<double>(counts.done);
  figures.stolen = counts.stolen;
  figures.attempts = counts.attempts;
  figures.local = counts.local_bytes;
  figures.remote = counts.remote_bytes;
  return figures;
}

/// What memory alone does: rounds of changes to records at random, as many bytes as the core holds for so
/// many tasks. Rounds a second.
double BareRounds(uint32_t tasks) {
  struct Record {
    std::array<uint32_t, 58> words;  // 232 bytes
  };
  std::vector<Record> records(tasks);
  order::SeededDraws random(11);
  const uint32_t rounds = tasks;
  const double begin = perf::ThreadSeconds();
  for (uint32_t round = 0; round < rounds; ++round) {
    // Each record tells where the next one is, as queues, files and candidates do.
    uint32_t at = random.Below(tasks);
    for (int step = 0; step < 8; ++step) {
      Record& record = records[at];
      record.words[0] += round;
      at = static_cast<uint32_t>((uint64_t{record.words[0] * 2654435761U + at * 40503U} * tasks) >> 32);
    }
  }
  return rounds / (perf::ThreadSeconds() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  uint32_t tasks = 1'000'000;
  size_t batch = 64;
  bool small_too = true, ratios = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--quick") rounds = 1;
    if (arg == "--rounds" && i + 1 < argc) rounds = std::atoi(argv[++i]);
    if (arg == "--tasks" && i + 1 < argc) tasks = static_cast<uint32_t>(std::atoi(argv[++i]));
    if (arg == "--batch" && i + 1 < argc) batch = static_cast<size_t>(std::atoi(argv[++i]));
    if (arg == "--no-small") small_too = false;
    if (arg == "--ratios") ratios = true;  // no bound for what needs a quiet machine
    if (arg == "--only" && i + 1 < argc) only = argv[++i];
  }
  for (order::Policy policy : {order::Policy::kFifo, order::Policy::kLifo, order::Policy::kHrf,
                               order::Policy::kLifoHrf, order::Policy::kRankHrf}) {
    const std::string name(order::PolicyName(policy));
    if (!only.empty() && only != name) continue;
    std::vector<double> rates, growths, bare, bytes;
    Figures last;
    // Of neighbours in time the pair that was disturbed least: a tenth fits into the cache that is shared
    // with others of the machine, and all of it does not, so what they do is seen in one of the two only.
    const auto growth = [&] { return *std::min_element(growths.begin(), growths.end()); };
    // How much of the cache is ours is up to the machine; memory alone shows the most that this makes.
    const auto bound = [&] {
      return ratios ? std::max(kMostGrowth, *std::max_element(bare.begin(), bare.end())) : kMostGrowth;
    };
    for (int round = 0; round < rounds || (round < 3 * rounds && small_too && ratios && growth() > bound());
         ++round) {
      last = Run(policy, tasks, batch, true);
      rates.push_back(last.completions / last.seconds);
      bytes.push_back(last.bytes_a_task);
      if (!small_too) continue;
      const Figures small = Run(policy, tasks / 10, batch, false);
      growths.push_back(small.completions / small.seconds / rates.back());
      if (ratios) bare.push_back(BareRounds(tasks / 10) / BareRounds(tasks));
    }
    if (ratios)
      perf::Figure("core.completions." + name, perf::Median(rates), "tasks/s");
    else
      perf::Figure("core.completions." + name, perf::Median(rates), "tasks/s", 1e6, perf::Bound::kAtLeast);
    perf::Figure("core.memory." + name, perf::Median(bytes), "bytes a task", 250);
    if (small_too) {
      perf::Figure("core.growth." + name, growth(), "x from a tenth of the tasks", bound());
      if (ratios)
        std::printf("  (memory alone grows by up to %.2f)\n", *std::max_element(bare.begin(), bare.end()));
    }
    std::printf(
        "  (%s: %.0f %% of input bytes local, %.0f %% of tasks stolen, linking %.2f s)\n", name.c_str(),
        100.0 * static_cast<double>(last.local) / static_cast<double>(last.local + last.remote),
        100.0 * static_cast<double>(last.stolen) / static_cast<double>(last.attempts), last.seal_seconds);
  }
  return perf::Status();
}
