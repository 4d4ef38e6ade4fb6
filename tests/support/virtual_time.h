#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/scheduler.h"

namespace harrow::test {

/// Drives a Scheduler in virtual time: agents that begin what they are sent in that order, on the lowest free
/// cores; tasks of several nodes on cores of all of them, which have to be free. Times are seconds; sums of
/// them are exactly those of any other program that adds doubles in the same order.
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
  using Cores = std::map<uint32_t, std::vector<uint32_t>>;  // of each node
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
    for (const core::Action& action : actions) {
      if (const auto* join = std::get_if<core::JoinGang>(&action)) joining_.push_back(join->node);
      std::visit([this](const auto& a) { Send(a); }, action);
    }
  }
  template <class A>
  void Send(const A& action) {
    if constexpr (requires { action.ahead; }) {
      std::vector<NodeId> members = std::exchange(joining_, {});
      members.insert(members.begin(), action.node);
      members_of_[action.attempt.task.value] = std::move(members);
    } else if constexpr (requires { action.time; }) {
      const double time = std::max(Seconds(action.time.time_since_epoch()), now_);
      wake_ = action.time;
      At(time, UINT32_MAX, 0, [this, wake = wake_](std::vector<core::Event>* events) {
        if (wake == wake_) events->push_back(core::TimeCame{});
      });
      return;
    }
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
  void Arrive(const core::JoinGang&) {}  // it comes with its StartTask
  void Arrive(const core::NodePutAside&) {}
  void Arrive(const core::AskCheckpoint&) {}
  void Arrive(const core::DropFile&) {}
  void Arrive(const core::RefuseFile&) {}
  void Arrive(const core::StreamOpen&) {}
  void Arrive(const core::CloseOutput&) {}
  void Arrive(const core::DropWritten&) {}

  void Begin(NodeId node) {
    Agent& agent = agents_[node.value];
    while (!agent.waiting.empty()) {
      const core::StartTask start = agent.waiting.front();
      const TaskId task = start.attempt.task;
      const std::vector<NodeId>& members = members_of_.at(task.value);
      const auto cores_on = [&](size_t i) {
        const Shape part =
            graph_.profile(task).Part(static_cast<uint32_t>(members.size()), static_cast<uint32_t>(i));
        const auto slots = static_cast<uint32_t>(agents_[members[i].value].busy.size());
        return part.whole_node ? slots : part.cores;
      };
      if (Free(node) < cores_on(0)) return;
      agent.waiting.pop_front();
      Cores& cores = cores_of_[task.value];
      for (size_t i = 0; i < members.size(); ++i) {
        if (Free(members[i]) < cores_on(i)) throw std::logic_error("a gang has no room on a node");
        cores[members[i].value] = TakeLowest(members[i], cores_on(i));
      }
      const uint32_t lowest = cores[node.value].front();
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
  uint32_t Free(NodeId node) const {
    const std::vector<bool>& busy = agents_[node.value].busy;
    return static_cast<uint32_t>(std::count(busy.begin(), busy.end(), false));
  }
  std::vector<uint32_t> TakeLowest(NodeId node, uint32_t count) {
    std::vector<uint32_t> taken;
    std::vector<bool>& busy = agents_[node.value].busy;
    for (uint32_t c = 0; taken.size() < count; ++c) {
      if (busy[c]) continue;
      busy[c] = true;
      taken.push_back(c);
    }
    return taken;
  }
  core::Event End(size_t index, core::Outcome outcome) {
    Start& start = starts_[index];
    start.end = now_;
    makespan_ = std::max(makespan_, now_);
    Agent& agent = agents_[start.node.value];
    agent.running.erase(start.task.value);
    const Cores cores = std::move(cores_of_.extract(start.task.value).mapped());
    for (const auto& [node, taken] : cores) {
      for (uint32_t core : taken) agents_[node].busy[core] = false;
    }
    const core::TaskEnded ended{
        {start.task, start.number}, start.node, outcome, FromSeconds(now_ - start.time)};
    if (std::holds_alternative<core::Cancelled>(outcome)) Report(ended);
    for (const auto& [node, taken] : cores) Begin(NodeId(node));
    return ended;
  }

  const graph::Graph& graph_;
  core::Scheduler scheduler_;
  Options cluster_;
  std::vector<Agent> agents_;
  std::map<uint32_t, Cores> cores_of_;                  // of tasks that run
  std::map<uint32_t, std::vector<NodeId>> members_of_;  // of tasks that were sent: their nodes
  std::vector<NodeId> joining_;
  Time wake_{};
  std::priority_queue<Happening> happenings_;
  uint64_t number_ = 0;
  double now_ = 0;
  double makespan_ = 0;
  std::vector<Start> starts_;
  std::vector<core::Action> all_;
};

}  // namespace harrow::test
