// What it costs the scheduler to give nodes regions of a flow (core/regions.cc): its processor time with the
// order auto, over that with lifo+hrf, which knows none, in turns; and the longest that it works at events of
// one instant. Flows that ask most of it: tasks all of a kind of their own (bounds); many readers of many
// (dense); thousands of narrow levels (levels); a wide level whose tasks are read two by two (wide), and the
// same of a hundred kinds (kinds).
// usage: perf_regions [--quick]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/scheduler.h"
#include "figure.h"
#include "order/draws.h"

namespace {

using namespace harrow;

constexpr uint32_t kNodes = 16, kSlots = 4;
constexpr int64_t kBytes = 1'000'000;

class Flow {
 public:
  FileId Make(const std::vector<FileId>& in, double bound = graph::kNoBound) {
    const std::string number = std::to_string(graph_.task_count());
    const FileId out = graph_.AddFile(number);
    graph_.SetFileSize(out, kBytes);
    graph::TaskSpec spec;
    spec.name = number;
    spec.in = in;
    spec.out = {&out, 1};
    spec.bound = bound;
    graph_.AddTask(spec);
    return out;
  }
  graph::Graph Take() {
    if (const Status sealed = graph_.Seal(); !sealed.ok()) {
      std::fprintf(stderr, "%s\n", sealed.message().c_str());
      std::exit(1);
    }
    return std::move(graph_);
  }

 private:
  graph::Graph graph_;
};

graph::Graph Bounds(uint32_t tasks) {
  Flow flow;
  for (uint32_t i = 0; i < tasks; ++i) flow.Make({}, i);
  return flow.Take();
}

graph::Graph Dense(uint32_t tasks) {
  Flow flow;
  order::SeededDraws random(5);
  std::vector<FileId> made, read;
  for (uint32_t i = 0; i < tasks / 6; ++i) made.push_back(flow.Make({}));
  for (uint32_t i = 0; i < tasks / 6 * 5; ++i) {
    read.clear();
    while (read.size() < 32) read.push_back(made[random.Below(static_cast<uint32_t>(made.size()))]);
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    flow.Make(read);
  }
  return flow.Take();
}

graph::Graph Levels(uint32_t tasks) {
  constexpr uint32_t kWide = 8;
  Flow flow;
  std::vector<FileId> before, made;
  for (uint32_t level = 0; level < tasks / kWide; ++level) {
    made.clear();
    for (uint32_t i = 0; i < kWide; ++i)
      made.push_back(flow.Make(before.empty() ? before : std::vector{before[i], before[(i + 1) % kWide]}));
    before = made;
  }
  return flow.Take();
}

graph::Graph WideOf(uint32_t tasks, uint32_t kinds) {
  Flow flow;
  std::vector<FileId> made;
  const uint32_t width = tasks / 2;
  for (uint32_t i = 0; i < width; ++i) made.push_back(flow.Make({}, kinds > 1 ? i % kinds : graph::kNoBound));
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t other = static_cast<uint32_t>(uint64_t{i} * 7919 % width);
    flow.Make(other == i ? std::vector{made[i]} : std::vector{made[i], made[other]});
  }
  return flow.Take();
}

graph::Graph Wide(uint32_t tasks) {
  return WideOf(tasks, 1);
}

graph::Graph Kinds(uint32_t tasks) {
  return WideOf(tasks, 100);
}

struct Cost {
  double seconds = 0, longest = 0;
};

Cost Run(const graph::Graph& flow, order::Policy policy) {
  core::Scheduler scheduler(flow, {.policy = policy, .shared_files = false, .local_files = true});
  std::vector<core::Event> events;
  for (uint32_t n = 0; n < kNodes; ++n) events.push_back(core::NodeJoined{NodeId(n), {kSlots, 0, 0}});
  events.push_back(core::TasksAdded{TaskId(0), static_cast<uint32_t>(flow.task_count())});
  std::vector<core::Action> actions;
  std::deque<std::pair<AttemptId, NodeId>> running;
  Cost cost;
  Time now{};
  while (!events.empty()) {
    const double begin = perf::ThreadSeconds();
    scheduler.HandleAll(now, events, &actions);
    const double took = perf::ThreadSeconds() - begin;
    cost.seconds += took;
    cost.longest = std::max(cost.longest, took);
    events.clear();
    for (const core::Action& action : actions) {
      if (const auto* start = std::get_if<core::StartTask>(&action))
        running.emplace_back(start->attempt, start->node);
      if (const auto* copy = std::get_if<core::CopyFile>(&action))
        events.push_back(core::FileStored{copy->file, copy->to, kBytes});
    }
    actions.clear();
    for (uint32_t i = 0; i < kSlots && !running.empty(); ++i) {
      const auto [attempt, node] = running.front();
      running.pop_front();
      for (const FileId file : flow.outputs(attempt.task)) events.push_back(core::FileStored{file, node, kBytes});
      events.push_back(core::TaskEnded{attempt, node, core::Done{}, std::chrono::seconds(1)});
    }
    now += std::chrono::milliseconds(10);
  }
  if (scheduler.counts().done != flow.task_count()) {
    std::fprintf(stderr, "%zu of %zu tasks are done\n", static_cast<size_t>(scheduler.counts().done), flow.task_count());
    std::exit(1);
  }
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const uint32_t tasks = quick ? 24'000 : 240'000;
  const int rounds = quick ? 3 : 5;
  const std::pair<const char*, std::function<graph::Graph(uint32_t)>> flows[] = {
      {"bounds", Bounds}, {"dense", Dense}, {"levels", Levels}, {"wide", Wide}, {"kinds", Kinds}};
  for (const auto& [name, make] : flows) {
    const graph::Graph flow = make(tasks);
    std::vector<double> ratios, longest, longest_without;
    for (int round = 0; round < rounds; ++round) {
      const Cost with = Run(flow, order::Policy::kAuto);
      const Cost without = Run(flow, order::Policy::kLifoHrf);
      ratios.push_back(with.seconds / without.seconds);
      longest.push_back(with.longest);
      longest_without.push_back(without.longest);
    }
    perf::Figure(std::string("regions.") + name, perf::Median(ratios), "x the time without regions", 2);
    perf::Figure(std::string("regions.longest.") + name, 1e3 * perf::Median(longest), "ms at once");
    std::printf("  (without regions %.4g ms)\n", 1e3 * perf::Median(longest_without));
  }
  return perf::Status();
}
