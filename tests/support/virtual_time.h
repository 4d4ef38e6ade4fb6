#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "core/scheduler.h"

namespace harrow::test {

/// Drives a Scheduler in virtual time: agents that begin what they are sent in that order, on the lowest free
/// cores. Times are seconds; sums of them are exactly those of any other program that adds doubles in the
/// same order.
class VirtualTime {
 public:
  struct Options {
    std::vector<NodeCapacity> nodes = {{2, 0, 0}};
    std::function<double(TaskId)> run_time = [](TaskId) { return 1.0; };
    std::function<core::Outcome(TaskId, uint32_t attempt)> outcome = [](TaskId, uint32_t) {
      return core::Done{};
    };
    double latency = 0;     // of a message, one way
    bool instants = false;  // what ends at one instant is handled as one, in ascending task order
    bool report_starts = true;
    bool check = true;  // SanityCheck after everything
  };
  struct Start {
    double time;
    TaskId task;
    uint32_t number;  // of its attempt
    NodeId node;
    uint32_t core;  // the lowest one
    double end = -1;
  };

  VirtualTime(const graph::Graph& graph, const core::Options& options, Options cluster,
              order::Draws* draws = nullptr)
      : graph_(graph),
        scheduler_(graph, options, draws),
        cluster_(std::move(cluster)),
        agents_(cluster_.nodes.size()) {}

  /// Until nothing happens any more. `first`: told before the nodes join.
  void Run(const std::vector<core::Event>& first = {}) {
    std::vector<core::Event> begin = first;
    begin.push_back(core::TasksAdded{TaskId(0), static_cast<uint32_t>(graph_.task_count())});
    for (uint32_t n = 0; n < agents_.size(); ++n) {
      agents_[n].busy.assign(cluster_.nodes[n].slots, false);
      begin.push_back(core::NodeJoined{NodeId(n), cluster_.nodes[n]});
      if (cluster_.latency > 0)
        begin.push_back(core::RoundTripMeasured{NodeId(n), FromSeconds(2 * cluster_.latency)});
    }
    begin.push_back(core::AllNodesJoined{});
    Tell(begin);
    while (!happenings_.empty()) {
      now_ = happenings_.top().time;
      std::vector<core::Event> events;
      do {
        const Happening next = happenings_.top();
        happenings_.pop();
        Happen(next, &events);
      } while (cluster_.instants && !happenings_.empty() && happenings_.top().time == now_);
      if (!events.empty()) Tell(events);
    }
  }

  core::Scheduler& scheduler() { return scheduler_; }
  const std::vector<Start>& starts() const { return starts_; }
  const std::vector<core::Action>& actions() const { return all_; }
  double makespan() const { return makespan_; }
  template <class A>
  size_t Count() const {
    return static_cast<size_t>(std::count_if(
        all_.begin(), all_.end(), [](const core::Action& a) { return std::holds_alternative<A>(a); }));
  }

 private:
  struct Happening {
    double time;
    uint32_t order[2];  // ends before others: by node and core, or by task where instants count
    uint64_t number;
    std::function<void(std::vector<core::Event>*)> what;
    bool operator<(const Happening& o) const {
      return std::tie(o.time, o.order[0], o.order[1], o.number) < std::tie(time, order[0], order[1], number);
    }
  };
  struct Agent {
    std::vector<bool> busy;
    std::deque<core::StartTask> waiting;
    std::map<uint32_t, size_t> running;  // task -> index in starts_
  };

  void At(double time, uint32_t a, uint32_t b, std::function<void(std::vector<core::Event>*)> what) {
    happenings_.push({time, {a, b}, number_++, std::move(what)});
  }
  void Happen(const Happening& h, std::vector<core::Event>* events) { h.what(events); }

  void Tell(const std::vector<core::Event>& events) {
    std::vector<core::Action> actions;
    const Time now(FromSeconds(now_));
    if (events.size() == 1) {
      scheduler_.Handle(now, events[0], &actions);
    } else {
      scheduler_.HandleAll(now, events, &actions);
    }
    if (cluster_.check) scheduler_.SanityCheck();
    all_.insert(all_.end(), actions.begin(), actions.end());
    for (const core::Action& action : actions) std::visit([this](const auto& a) { Send(a); }, action);
  }
  template <class A>
  void Send(const A& action) {
    if constexpr (requires { action.node; }) {
      if (cluster_.latency == 0) {
        Arrive(action);
      } else {
        At(now_ + cluster_.latency, UINT32_MAX, 0, [this, action](auto*) { Arrive(action); });
      }
    }
  }
  void Report(core::Event event) {
    At(now_ + cluster_.latency, UINT32_MAX, 0,
       [event](std::vector<core::Event>* events) { events->push_back(event); });
  }
  void Arrive(const core::StartTask& start) {
    agents_[start.node.value].waiting.push_back(start);
    Begin(start.node);
  }
  void Arrive(const core::TakeBack& back) {
    auto& waiting = agents_[back.node.value].waiting;
    if (std::erase_if(waiting, [&](const auto& s) { return s.attempt == back.attempt; }) > 0) {
      Report(core::TaskReturned{back.attempt, back.node});
    }
  }
  void Arrive(const core::CancelTask& cancel) {
    auto& running = agents_[cancel.node.value].running;
    if (const auto it = running.find(cancel.attempt.task.value); it != running.end())
      End(it->second, core::Cancelled{});
  }
  void Arrive(const core::JoinGang&) {}
  void Arrive(const core::NodePutAside&) {}
  void Arrive(const core::DropFile&) {}
  void Arrive(const core::RefuseFile&) {}

  void Begin(NodeId node) {
    Agent& agent = agents_[node.value];
    while (!agent.waiting.empty()) {
      const core::StartTask start = agent.waiting.front();
      const TaskId task = start.attempt.task;
      const Shape& shape = graph_.profile(task).shape;
      const auto slots = static_cast<uint32_t>(agent.busy.size());
      const uint32_t cores = shape.whole_node || shape.nodes > 1 ? slots : shape.cores;
      if (std::count(agent.busy.begin(), agent.busy.end(), false) < cores) return;
      agent.waiting.pop_front();
      uint32_t lowest = slots;
      for (uint32_t c = 0, taken = 0; taken < cores; ++c) {
        if (agent.busy[c]) continue;
        agent.busy[c] = true;
        cores_of_[task.value].push_back(c);
        lowest = std::min(lowest, c);
        ++taken;
      }
      const size_t index = starts_.size();
      starts_.push_back({now_, task, start.attempt.number, node, lowest});
      agent.running[task.value] = index;
      if (cluster_.report_starts) {
        if (cluster_.latency > 0) Report(core::TaskStarted{start.attempt, node});
      }
      const uint32_t first = cluster_.instants ? task.value : node.value;
      At(now_ + cluster_.run_time(task), first, lowest,
         [this, index, start](std::vector<core::Event>* events) {
           if (starts_[index].end >= 0) return;
           const core::Event ended = End(index, cluster_.outcome(start.attempt.task, start.attempt.number));
           if (cluster_.latency == 0) {
             events->push_back(ended);
           } else {
             Report(ended);
           }
         });
    }
  }
  core::Event End(size_t index, core::Outcome outcome) {
    Start& start = starts_[index];
    start.end = now_;
    makespan_ = std::max(makespan_, now_);
    Agent& agent = agents_[start.node.value];
    agent.running.erase(start.task.value);
    for (uint32_t core : cores_of_[start.task.value]) agent.busy[core] = false;
    cores_of_.erase(start.task.value);
    const core::TaskEnded ended{
        {start.task, start.number}, start.node, outcome, FromSeconds(now_ - start.time)};
    if (std::holds_alternative<core::Cancelled>(outcome)) Report(ended);
    Begin(start.node);
    return ended;
  }

  const graph::Graph& graph_;
  core::Scheduler scheduler_;
  Options cluster_;
  std::vector<Agent> agents_;
  std::map<uint32_t, std::vector<uint32_t>> cores_of_;
  std::priority_queue<Happening> happenings_;
  uint64_t number_ = 0;
  double now_ = 0;
  double makespan_ = 0;
  std::vector<Start> starts_;
  std::vector<core::Action> all_;
};

}  // namespace harrow::test
