// Tasks joined by streams, in a small world of agents: what they do with what the scheduler tells them, late and in
// pieces.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/scheduler.h"
#include "order/draws.h"
#include "support/action_lines.h"
#include "support/trail.h"

namespace harrow::core {
namespace {

using graph::WaitsFor;

struct Happened {
  uint64_t rewound = 0, held = 0, remade = 0, closed = 0, piped = 0, dropped = 0, lost_nodes = 0, failed = 0, went_on = 0,
           freed = 0, done = 0, shared = 0;
  // Of worlds that grow.
  uint64_t joined = 0, refused = 0, opened = 0, yielded = 0, missed = 0, late = 0;
};

TaskId AddTask(graph::Graph* graph, const std::string& name, ProfileId profile = {}, std::vector<TaskId> after = {}) {
  graph::TaskSpec spec;
  spec.name = name;
  spec.command = "x";
  spec.profile = profile;
  spec.after = after;
  return graph->AddTask(spec);
}

StreamId Join(graph::Graph* graph, const std::string& name, const std::vector<TaskId>& writers,
              const std::vector<TaskId>& readers) {
  const StreamId stream = graph->AddStream(name);
  for (const TaskId writer : writers) graph->AddWriter(stream, writer);
  for (const TaskId reader : readers) {
    graph->AddReader(stream, reader);
    for (const TaskId writer : writers) graph->AddDependency(writer, reader, WaitsFor::kStart);
  }
  return stream;
}

template <class T>
std::vector<T> Of(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const auto* one = std::get_if<T>(&action)) found.push_back(*one);
  }
  return found;
}

/// Agents, and the way to them and back.
class World {
 public:
  /// `grows`: streams are held open and closed, and tasks are connected to them, while it runs.
  World(uint64_t seed, Happened* happened, bool grows = false) : random_(seed), grows_(grows), happened_(*happened) {
    MakeNet();
    Options options;
    options.policy = static_cast<order::Policy>(Below(7));
    options.retries = 3;
    options.max_losses = 50;
    options.seed = seed;
    if (Chance(4)) options.max_running = 1 + Below(3);
    if (Chance(3)) options.costs.how = static_cast<cost::Place>(1 + Below(2));
    scheduler_.emplace(graph_, options);
    nodes_.resize(1 + Below(3));
    Events first = {TasksAdded{TaskId(0), static_cast<uint32_t>(graph_.task_count())}};
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      nodes_[n].slots = 1 + Below(3);
      first.push_back(Joined(n));
    }
    first.push_back(AllNodesJoined{});
    TellScheduler(first);
  }

  void Run() {
    calm_after_ = 300 + Below(600);
    for (uint32_t step = 0; !complete_; ++step) {
      ASSERT_LT(step, 60000u) << "it does not come to an end\n" << Describe();
      now_ += std::chrono::milliseconds(1 + Below(50));
      calm_ = step > calm_after_;
      Step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    Check();
  }

 private:
  using Events = std::vector<Event>;
  static constexpr uint32_t kLines = 5;
  struct Source {
    uint32_t attempt = 0;  // 0: nowhere now
    std::optional<NodeId> node;
    uint32_t got = 0;
    bool whole = false;
  };
  struct Attempt {
    AttemptId id;
    bool begun = false, told = false;
    uint32_t heard = 0, to_hear = 0;  // of what it reads, in the same message as itself
    bool knows() const { return heard >= to_hear; }
    std::set<StreamId> open;
    uint32_t wrote = 0;
    bool closed = false;
    std::map<std::pair<StreamId, TaskId>, Source> sources;
    bool rewind = false, cancelled = false;
  };
  struct Log {
    uint32_t lines = 0;
    bool whole = false;
  };
  struct AtNode {
    uint32_t slots = 1;
    bool up = true;
    std::deque<Attempt> attempts;
    std::map<AttemptId, Log> logs;
    std::deque<Action> inbox;
  };

  uint32_t Below(uint32_t n) { return random_.Below(n); }
  bool Chance(uint32_t one_in) { return Below(one_in) == 0; }

  void MakeNet() {
    const uint32_t count = 2 + Below(8);
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<TaskId> after;
      if (i > 0 && Chance(6)) after.push_back(TaskId(Below(i)));
      AddTask(&graph_, "t" + std::to_string(i), {}, after);
    }
    for (uint32_t s = 1 + Below(count); s > 0; --s) {
      const uint32_t cut = 1 + Below(count - 1);
      std::set<TaskId> writers, readers;
      for (uint32_t k = 1 + Below(2); k > 0; --k) writers.insert(TaskId(Below(cut)));
      for (uint32_t k = 1 + Below(3); k > 0; --k) readers.insert(TaskId(cut + Below(count - cut)));
      Join(&graph_, "s" + std::to_string(s), {writers.begin(), writers.end()}, {readers.begin(), readers.end()});
    }
    const Status sealed = graph_.Seal();
    ASSERT_TRUE(sealed.ok()) << sealed.message();
    // Those that share a stream may not wait for each other.
    for (uint32_t s = 0; s < graph_.streams().size(); ++s) {
      const std::vector<TaskId>& readers = graph_.streams()[s].readers;
      const auto beside = [&](TaskId reader) { return graph_.level(reader) == graph_.level(readers[0]); };
      if (Chance(2) && std::all_of(readers.begin(), readers.end(), beside)) graph_.SetSplit(StreamId(s));
    }
    for (uint32_t s = 0; grows_ && s < graph_.streams().size(); ++s) {
      if (Chance(3)) graph_.HoldStream(StreamId(s), {"", TaskId()});
      // Nothing comes before it.
      if (Chance(3) && graph_.streams_read(TaskId(0)).empty()) graph_.HoldStream(StreamId(s), {"", TaskId(0)});
    }
    early_.resize(count);
    for (uint32_t i = 0; i < count; ++i) early_[i] = Chance(5);  // it does not read to the end
  }

  NodeJoined Joined(uint32_t n) const { return {NodeId(n), {nodes_[n].slots, 0, 0}}; }

  void TellScheduler(const Events& events) {
    std::vector<Action> actions;
    scheduler_->HandleAll(now_, events, &actions);
    ASSERT_NO_THROW(scheduler_->SanityCheck()) << Describe();
    for (const Action& action : actions) {
      test::Trail::Say([&] { return test::Line(action); });
      if (const auto* start = std::get_if<StartTask>(&action)) {
        to_hear_[start->attempt] = 0;
        for (const ReadFrom& read : Of<ReadFrom>(actions)) to_hear_[start->attempt] += read.reader == start->attempt;
        for (const StreamOpen& open : Of<StreamOpen>(actions)) to_hear_[start->attempt] += open.reader == start->attempt;
        nodes_.at(start->node.value).inbox.push_back(action);
      } else if (const auto* back = std::get_if<TakeBack>(&action)) {
        nodes_.at(back->node.value).inbox.push_back(action);
      } else if (const auto* cancel = std::get_if<CancelTask>(&action)) {
        nodes_.at(cancel->node.value).inbox.push_back(action);
      } else if (const auto* read = std::get_if<ReadFrom>(&action)) {
        nodes_.at(read->at.value).inbox.push_back(action);
      } else if (const auto* open = std::get_if<StreamOpen>(&action)) {
        nodes_.at(open->at.value).inbox.push_back(action);
        happened_.yielded += open->yield;
      } else if (const auto* close = std::get_if<CloseOutput>(&action)) {
        nodes_.at(close->node.value).inbox.push_back(action);
        ++happened_.closed;
      } else if (const auto* drop = std::get_if<DropWritten>(&action)) {
        nodes_.at(drop->node.value).inbox.push_back(action);
        ++happened_.dropped;
      } else if (const auto* settled = std::get_if<TaskSettled>(&action)) {
        Settled(*settled);
      } else if (std::holds_alternative<RunComplete>(action)) {
        complete_ = true;
      } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
        wake_ = wake->time;
      }
    }
    for (uint32_t t = 0; t < graph_.task_count(); ++t) happened_.held += scheduler_->state(TaskId(t)) == TaskState::kHeld;
  }

  void Settled(const TaskSettled& settled) {
    const uint32_t t = settled.task.value;
    if (settled.state == FinalState::kDone) {
      happened_.remade += done_.contains(t);
      ++happened_.done;
      done_.insert(t);
      // What it has read counts as of now.
      if (!checked_.insert(t).second) return;
      for (const auto& [writer, attempt] : read_[t]) {
        EXPECT_TRUE(good_.contains({writer, attempt}))
            << "task " << t << " is done, and has read attempt " << attempt << " of task " << writer.value
            << ", which has not succeeded";
      }
      for (const auto& [task, stream] : graph_.streams_read(settled.task)) {
        for (const TaskId writer : graph_.streams()[stream.value].writers) {
          for (const TaskId other : graph_.streams()[stream.value].readers) {
            const bool both = checked_.contains(other.value) && read_[t].contains(writer) && read_[other.value].contains(writer);
            if (!graph_.streams()[stream.value].split || !both) continue;
            happened_.shared += other != settled.task;
            EXPECT_EQ(read_[t][writer], read_[other.value][writer])
                << "tasks " << t << " and " << other.value << " have shares of two attempts of task " << writer.value;
          }
          EXPECT_TRUE(done_.contains(writer.value)) << "task " << t << " is done before its writer " << writer.value;
          if (!early_[t] && !piped_.contains(t)) {
            EXPECT_TRUE(read_[t].contains(writer)) << t << " has not read " << writer.value;
          }
        }
      }
    } else {
      ++happened_.failed;
    }
  }

  /// The agent is told.
  void Deliver(uint32_t n, const Action& action) {
    AtNode& node = nodes_[n];
    if (const auto* start = std::get_if<StartTask>(&action)) {
      node.attempts.emplace_back();
      node.attempts.back().id = start->attempt;
      node.attempts.back().to_hear = to_hear_[start->attempt];
      return;
    }
    if (const auto* drop = std::get_if<DropWritten>(&action)) {
      node.logs.erase(drop->writer);
      return;
    }
    const AttemptId id = std::holds_alternative<TakeBack>(action)     ? std::get<TakeBack>(action).attempt
                         : std::holds_alternative<CancelTask>(action) ? std::get<CancelTask>(action).attempt
                         : std::holds_alternative<ReadFrom>(action)   ? std::get<ReadFrom>(action).reader
                         : std::holds_alternative<StreamOpen>(action) ? std::get<StreamOpen>(action).reader
                                                                      : std::get<CloseOutput>(action).writer;
    const auto at = std::find_if(node.attempts.begin(), node.attempts.end(), [&](const Attempt& a) { return a.id == id; });
    if (at == node.attempts.end()) return;
    if (std::holds_alternative<TakeBack>(action)) {
      if (at->begun) return;
      node.attempts.erase(at);
      TellScheduler({TaskReturned{id, NodeId(n)}});
    } else if (const auto* cancel = std::get_if<CancelTask>(&action)) {
      node.attempts.erase(at);
      node.logs.erase(id);
      TellScheduler({TaskEnded{id, NodeId(n), cancel->as_lost ? Outcome(Lost{}) : Cancelled{}}});
    } else if (std::holds_alternative<CloseOutput>(action)) {
      at->closed = true;
    } else if (const auto* open = std::get_if<StreamOpen>(&action)) {
      ++at->heard;
      if (open->open) {
        at->open.insert(open->stream);
      } else {
        at->open.erase(open->stream);
      }
      at->rewind |= open->yield;
    } else {
      const ReadFrom& read = std::get<ReadFrom>(action);
      if (at->knows() && !at->sources.contains({read.stream, read.writer.task})) {
        ++happened_.late;
        at->rewind |= at->begun && Chance(4);  // it is in mid-record
      }
      ++at->heard;
      Source& source = at->sources[{read.stream, read.writer.task}];
      const bool same = read.from && source.attempt == read.writer.number && source.node == read.from;
      if (same) return;
      if (source.attempt != 0 || source.got > 0) {
        const bool keep = read.gone ? source.whole : false;
        if (!read.from && read.gone && keep) return;
        if (source.got > 0 || read.gone) at->rewind = true;
        if (source.got == 0 && !read.gone) ++happened_.went_on;
      } else if (read.gone) {
        at->rewind = true;
      }
      source = {};
      if (read.from) {
        source.attempt = read.writer.number;
        source.node = read.from;
      }
    }
  }

  void Step() {
    if (wake_ && *wake_ <= now_) {
      wake_.reset();
      TellScheduler({TimeCame{}});
      return;
    }
    if (grows_ && Chance(calm_ ? 4 : 20)) {
      Grow();
      if (::testing::Test::HasFatalFailure() || complete_) return;
    }
    const uint32_t n = Below(static_cast<uint32_t>(nodes_.size()));
    AtNode& node = nodes_[n];
    if (!node.up) {
      if (!Chance(4)) return;
      node.up = true;
      TellScheduler({Joined(n)});
      return;
    }
    if (!calm_ && Chance(60)) {
      ++happened_.lost_nodes;
      node.up = false;
      node.attempts.clear();
      node.logs.clear();
      node.inbox.clear();
      TellScheduler({NodeLost{NodeId(n)}});
      return;
    }
    if (!node.inbox.empty() && !Chance(3)) {
      const Action action = node.inbox.front();
      node.inbox.pop_front();
      Deliver(n, action);
      return;
    }
    if (node.attempts.empty()) return;
    uint32_t running = 0;
    for (Attempt& attempt : node.attempts) {
      if (running++ == node.slots) break;
      if (attempt.begun) continue;
      attempt.begun = true;
      if (!graph_.streams_written(attempt.id.task).empty()) node.logs[attempt.id] = {};
    }
    const auto at = node.attempts.begin() + Below(std::min<uint32_t>(node.slots, static_cast<uint32_t>(node.attempts.size())));
    Go(n, at);
  }

  /// The attempt does something.
  void Go(uint32_t n, std::deque<Attempt>::iterator at) {
    AtNode& node = nodes_[n];
    const NodeId here(n);
    const AttemptId id = at->id;
    const uint32_t t = id.task.value;
    const auto end = [&](const Outcome& outcome, Events before = {}) {
      node.attempts.erase(at);
      before.push_back(TaskEnded{id, here, outcome, std::chrono::milliseconds(5)});
      TellScheduler(before);
    };
    if (!at->told && Chance(2)) {
      at->told = true;
      TellScheduler({TaskStarted{id, here}});
      return;
    }
    if (at->rewind) {
      ++happened_.rewound;
      node.logs.erase(id);
      return end(Rewound{});
    }
    if (!calm_ && Chance(25)) {
      node.logs.erase(id);
      return end(Failed{1, true});
    }
    const auto log = node.logs.find(id);
    if (at->closed && Chance(2)) {
      ++happened_.piped;
      if (!checked_.contains(t)) piped_.insert(t);  // it need not have read all
      return end(Failed{141, true}, Read(*at));
    }
    if (log != node.logs.end() && log->second.lines < kLines && Chance(2)) {
      ++log->second.lines;
      return;
    }
    bool all = at->knows() && at->open.empty();
    for (auto& [from, source] : at->sources) {
      if (source.whole) continue;
      all = false;
      if (!source.node) continue;
      AtNode& other = nodes_[source.node->value];
      const auto there = other.logs.find({from.second, source.attempt});
      if (!other.up || there == other.logs.end()) continue;
      if (source.got < there->second.lines) {
        ++source.got;
        return;
      }
      source.whole = there->second.whole;
    }
    if (!all && !(early_[t] && at->knows() && Chance(8))) return;
    if (log != node.logs.end()) {
      if (log->second.lines < kLines) return;
      log->second.whole = !at->closed;
    }
    if (!checked_.contains(t)) piped_.erase(t);
    good_.insert({id.task, id.number});
    Events read = Read(*at);
    if (all) read.push_back(ReadToEnd{id});
    end(Done{}, read);
    // What was on its way to it came too late.
    if (all && scheduler_->state(id.task) != TaskState::kHeld && !IsSettled(scheduler_->state(id.task))) ++happened_.missed;
  }

  /// As a server does: what is connected is kept from ending until it is there.
  void Grow() {
    if (joining_) {
      const StreamId stream = *std::exchange(joining_, {});
      const TaskId id = AddTask(&graph_, "new" + std::to_string(graph_.task_count()));
      const graph::Stream& of = graph_.streams()[stream.value];
      const std::vector<TaskId> others = joining_writes_ ? of.readers : of.writers;
      for (const TaskId other : others)
        joining_writes_ ? graph_.AddDependency(id, other, WaitsFor::kStart) : graph_.AddDependency(other, id, WaitsFor::kStart);
      joining_writes_ ? graph_.AddWriter(stream, id) : graph_.AddReader(stream, id);
      const Status sealed = graph_.Seal();
      ASSERT_TRUE(sealed.ok()) << sealed.message();
      early_.push_back(Chance(5));
      ++happened_.joined;
      return TellScheduler({TasksAdded{id, 1}, StreamKept{stream, false}});
    }
    const StreamId stream(Below(static_cast<uint32_t>(graph_.streams().size())));
    const std::vector<graph::StreamHold>& holds = graph_.streams()[stream.value].holds;
    const bool held = std::any_of(holds.begin(), holds.end(), [](const graph::StreamHold& hold) { return !hold.task; });
    if (held && (calm_ || Chance(4))) {
      graph_.ReleaseStream(stream, "");
      return TellScheduler({StreamsChanged{}});
    }
    if (calm_ || graph_.task_count() > 14) return;
    if (scheduler_->HasEnded(stream)) {
      ++happened_.refused;
      return;
    }
    if (Chance(5)) {
      graph_.HoldStream(stream, {"", TaskId()});
      ++happened_.opened;
      return TellScheduler({StreamsChanged{}});
    }
    joining_ = stream;
    joining_writes_ = Chance(2);
    TellScheduler({StreamKept{stream, true}});
  }

  Events Read(const Attempt& attempt) {
    Events told;
    auto& read = read_[attempt.id.task.value];
    // The one that counts is the last that ends well before the task is settled.
    if (!checked_.contains(attempt.id.task.value)) read.clear();
    for (const auto& [from, source] : attempt.sources) {
      if (source.attempt == 0 || (source.got == 0 && !source.whole)) continue;
      told.push_back(StreamRead{attempt.id, {from.second, source.attempt}});
      if (!checked_.contains(attempt.id.task.value)) read[from.second] = source.attempt;
    }
    // A writer that is ended by SIGPIPE counts as one that has succeeded.
    good_.insert({attempt.id.task, attempt.id.number});
    return told;
  }

  void Check() {
    for (uint32_t t = 0; t < graph_.task_count(); ++t) {
      EXPECT_TRUE(IsSettled(scheduler_->state(TaskId(t)))) << t;
      if (scheduler_->state(TaskId(t)) == TaskState::kDone) {
        EXPECT_TRUE(done_.contains(t));
      }
    }
  }

  std::string Describe() const {
    std::string text;
    for (uint32_t t = 0; t < graph_.task_count(); ++t) {
      text += std::to_string(t) + ": state " + std::to_string(static_cast<int>(scheduler_->state(TaskId(t)))) + " at " +
              std::to_string(scheduler_->node(TaskId(t)).value) + "; " + scheduler_->Explain(TaskId(t)).text + "\n";
    }
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      for (const Attempt& attempt : nodes_[n].attempts) {
        text += "attempt " + std::to_string(attempt.id.task.value) + "." + std::to_string(attempt.id.number) + ":";
        for (const auto& [from, source] : attempt.sources) {
          text += " [" + std::to_string(from.second.value) + "." + std::to_string(source.attempt) +
                  (source.node ? " at " + std::to_string(source.node->value) : " nowhere") + " got " +
                  std::to_string(source.got) + (source.whole ? " whole]" : "]");
        }
        text += "\n";
      }
      for (const auto& [id, log] : nodes_[n].logs)
        text += "log " + std::to_string(id.task.value) + "." + std::to_string(id.number) + (log.whole ? " whole\n" : "\n");
      text += "node " + std::to_string(n) + ": " + std::to_string(nodes_[n].slots) + " slots, " +
              std::to_string(nodes_[n].attempts.size()) + " attempts, inbox " + std::to_string(nodes_[n].inbox.size()) + "\n";
    }
    return text;
  }

  order::SeededDraws random_;
  const bool grows_;
  std::optional<StreamId> joining_;  // something is about to be connected to it
  bool joining_writes_ = false;
  std::map<AttemptId, uint32_t> to_hear_;
  Happened& happened_;
  graph::Graph graph_;
  std::vector<bool> early_;
  std::optional<Scheduler> scheduler_;
  std::vector<AtNode> nodes_;
  Time now_{};
  std::optional<Time> wake_;
  uint32_t calm_after_ = 0;
  bool calm_ = false, complete_ = false;
  std::set<uint32_t> done_, checked_, piped_;
  std::set<std::pair<TaskId, uint32_t>> good_;
  std::map<uint32_t, std::map<TaskId, uint32_t>> read_;
};

class StreamsTest : public ::testing::Test {
 protected:
  void Begin(uint32_t slots, uint32_t nodes = 1, Options options = {}) {
    ASSERT_TRUE(graph.Seal().ok());
    scheduler.emplace(graph, options);
    std::vector<Event> events = {TasksAdded{TaskId(0), static_cast<uint32_t>(graph.task_count())}};
    for (uint32_t n = 0; n < nodes; ++n) events.push_back(NodeJoined{NodeId(n), {slots, 0, 0}});
    events.push_back(AllNodesJoined{});
    Tell(events);
  }
  void Tell(const std::vector<Event>& events) {
    actions.clear();
    scheduler->HandleAll(now, events, &actions);
    scheduler->SanityCheck();
  }
  TaskState state(TaskId id) const { return scheduler->state(id); }

  graph::Graph graph;
  std::optional<Scheduler> scheduler;
  std::vector<Action> actions;
  Time now{};
  const NodeId n0{0}, n1{1};
};

}  // namespace
}  // namespace harrow::core
