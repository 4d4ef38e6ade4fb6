#include "cost/predict.h"

#include <algorithm>

namespace harrow::cost {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Turns pairs (by, what) into lists.
void Lists(std::vector<std::pair<uint32_t, uint32_t>>* pairs, size_t count, std::vector<uint32_t>* begin,
           std::vector<uint32_t>* lists) {
  std::sort(pairs->begin(), pairs->end());
  pairs->erase(std::unique(pairs->begin(), pairs->end()), pairs->end());
  begin->assign(count + 1, 0);
  lists->reserve(pairs->size());
  for (const auto& [by, what] : *pairs) {
    ++(*begin)[by + 1];
    lists->push_back(what);
  }
  for (size_t i = 0; i < count; ++i) (*begin)[i + 1] += (*begin)[i];
}

}  // namespace

Predictor::Predictor(const Load& load, const Machine& machine) : load_(load), machine_(machine) {
  std::vector<std::pair<uint32_t, uint32_t>> readers, after;
  for (uint32_t t = 0; t < load.tasks.size(); ++t) {
    const Load::Task& task = load.tasks[t];
    for (uint32_t s = 0; s < task.sources; ++s) {
      const Load::Source& source = load.sources[task.first_source + s];
      (source.file ? after : readers).emplace_back(source.task, t);
    }
    for (uint32_t b = 0; b < task.befores; ++b) after.emplace_back(load.befores[task.first_before + b], t);
  }
  Lists(&readers, load.tasks.size(), &readers_begin_, &readers_);
  Lists(&after, load.tasks.size(), &after_begin_, &after_);
}

/// It waits for one less.
void Predictor::Release(uint32_t task) {
  if (--waits_[task] > 0) return;
  std::vector<uint32_t>& ready = ready_[node_[task]];
  ready.insert(std::upper_bound(ready.begin(), ready.end(), task,
                                [this](uint32_t a, uint32_t b) { return order_[a] > order_[b]; }),
               task);
}

void Predictor::Begin(uint32_t task, double left, double now) {
  const Load::Task& what = load_.tasks[task];
  const Machine::Node& here = machine_.nodes[node_[task]];
  Run& run = runs_[task];
  run.begun = true;
  running_.push_back(task);
  double fetching = 0;
  run.chain = static_cast<uint32_t>(from_.size());
  for (uint32_t s = 0; s < what.sources; ++s) {
    const Load::Source& source = load_.sources[what.first_source + s];
    const uint32_t from = node_[source.task];
    if (!source.file) run.open_writers += runs_[source.task].done ? 0 : 1;
    if (from == node_[task]) continue;
    found_.bytes += source.bytes;
    if (source.file) {
      const double rate = std::min(machine_.nodes[from].out, here.in);
      fetching += source.bytes / rate;
    } else if (source.bytes > 0) {
      if (from_node_[from] == 0) from_.push_back({from, 0});
      from_node_[from] += source.bytes;
    }
  }
  run.chain_end = static_cast<uint32_t>(from_.size());
  for (uint32_t f = run.chain; f < run.chain_end; ++f) {
    from_[f].bytes = from_node_[from_[f].node];
    from_node_[from_[f].node] = 0;
  }
  run.ends = now + fetching + left / here.speed;
  NextTransfer(task);
  for (uint32_t r = readers_begin_[task]; r < readers_begin_[task + 1]; ++r) {
    if (!runs_[readers_[r]].begun) Release(readers_[r]);
  }
}

/// What comes from the next node begins, if any.
void Predictor::NextTransfer(uint32_t task) {
  Run& run = runs_[task];
  run.arriving = false;
  while (run.chain < run.chain_end) {
    const From& from = from_[run.chain++];
    if (machine_.nodes[from.node].out == kNever && machine_.nodes[node_[task]].in == kNever) continue;
    transfers_.push_back({task, from.node, node_[task], from.bytes, 0});
    run.arriving = true;
    return;
  }
}

void Predictor::MayEnd(uint32_t task) {
  const Run& run = runs_[task];
  if (run.computed && !run.done && run.open_writers == 0 && !run.arriving) ended_.push_back(task);
}

void Predictor::FindRates() {
  std::fill(sending_.begin(), sending_.end(), 0);
  std::fill(receiving_.begin(), receiving_.end(), 0);
  for (const Transfer& t : transfers_) {
    ++sending_[t.from];
    ++receiving_[t.to];
  }
  for (Transfer& t : transfers_)
    t.rate =
        std::min(machine_.nodes[t.from].out / sending_[t.from], machine_.nodes[t.to].in / receiving_[t.to]);
}

Prediction Predictor::Predict(std::span<const uint32_t> node, std::span<const uint32_t> order,
                              std::span<const Standing> standing) {
  using State = Standing::State;
  const auto count = static_cast<uint32_t>(load_.tasks.size());
  const size_t nodes = machine_.nodes.size();
  node_ = node;
  order_ = order;
  found_ = {};
  waits_.assign(count, 0);
  runs_.assign(count, {});
  free_.resize(nodes);
  ready_.resize(nodes);
  for (size_t n = 0; n < nodes; ++n) {
    free_[n] = machine_.nodes[n].slots;
    ready_[n].clear();
  }
  running_.clear();
  ended_.clear();
  transfers_.clear();
  from_.clear();
  sending_.assign(nodes, 0);
  receiving_.assign(nodes, 0);
  from_node_.assign(nodes, 0);
  const auto state = [&](uint32_t task) { return standing.empty() ? State::kWaiting : standing[task].state; };

  uint32_t open = 0;
  for (uint32_t t = 0; t < count; ++t) {
    if (state(t) == State::kDone) {
      runs_[t].begun = runs_[t].computed = runs_[t].done = true;
      continue;
    }
    ++open;
  }
  for (uint32_t t = 0; t < count; ++t) {
    if (state(t) == State::kDone) continue;
    for (uint32_t r = readers_begin_[t]; r < readers_begin_[t + 1]; ++r) ++waits_[readers_[r]];
    for (uint32_t a = after_begin_[t]; a < after_begin_[t + 1]; ++a) ++waits_[after_[a]];
  }
  for (uint32_t t = 0; t < count; ++t) {
    if (runs_[t].done || state(t) == State::kRunning || waits_[t] > 0) continue;
    waits_[t] = 1;
    Release(t);
  }
  // Those that run first: what they release may begin only where they leave room.
  for (uint32_t t = 0; t < count; ++t) {
    if (state(t) != State::kRunning) continue;
    runs_[t].begun = true;
    free_[node[t]] -= std::min(free_[node[t]], load_.tasks[t].cores);
  }
  for (uint32_t t = 0; t < count; ++t) {
    if (state(t) == State::kRunning) Begin(t, standing[t].left, 0);
  }

  double now = 0;
  while (open > 0) {
    for (bool more = true; more;) {  // what begins may let others begin, also on a node seen before
      more = false;
      for (size_t n = 0; n < nodes; ++n) {
        std::vector<uint32_t>& ready = ready_[n];
        for (size_t i = ready.size(); i-- > 0 && free_[n] > 0;) {
          const uint32_t task = ready[i];
          const uint32_t cores = std::min(load_.tasks[task].cores, machine_.nodes[n].slots);
          if (cores > free_[n]) continue;
          ready.erase(ready.begin() + static_cast<ptrdiff_t>(i));
          free_[n] -= cores;
          Begin(task, load_.tasks[task].seconds, now);
          more = true;
          i = ready.size();
        }
      }
    }
    double next = kNever;
    for (const uint32_t task : running_) {
      if (!runs_[task].computed) next = std::min(next, runs_[task].ends);
    }
    if (!transfers_.empty()) FindRates();
    for (const Transfer& t : transfers_) next = std::min(next, now + t.left / t.rate);
    if (next == kNever) break;  // a task that no node can take
    for (size_t i = 0; i < transfers_.size();) {
      Transfer& t = transfers_[i];
      t.left -= t.rate * (next - now);
      if (t.left > 1e-9 * t.rate) {
        ++i;
        continue;
      }
      const uint32_t task = t.task;
      transfers_[i] = transfers_.back();
      transfers_.pop_back();
      NextTransfer(task);
      MayEnd(task);
    }
    now = std::max(now, next);
    for (const uint32_t task : running_) {
      Run& run = runs_[task];
      if (run.computed || run.ends > now) continue;
      run.computed = true;
      MayEnd(task);
    }
    for (size_t i = 0; i < ended_.size(); ++i) {
      const uint32_t task = ended_[i];
      if (runs_[task].done) continue;
      runs_[task].done = true;
      --open;
      free_[node[task]] += std::min(load_.tasks[task].cores, machine_.nodes[node[task]].slots);
      for (uint32_t r = readers_begin_[task]; r < readers_begin_[task + 1]; ++r) {
        Run& reader = runs_[readers_[r]];
        if (!reader.begun) continue;
        uint32_t streams = 0;
        const Load::Task& what = load_.tasks[readers_[r]];
        for (uint32_t s = 0; s < what.sources; ++s) {
          const Load::Source& source = load_.sources[what.first_source + s];
          streams += !source.file && source.task == task ? 1 : 0;
        }
        reader.open_writers -= std::min(reader.open_writers, streams);
        MayEnd(readers_[r]);
      }
      for (uint32_t a = after_begin_[task]; a < after_begin_[task + 1]; ++a) Release(after_[a]);
    }
    if (!ended_.empty()) std::erase_if(running_, [this](uint32_t task) { return runs_[task].done; });
    ended_.clear();
  }
  found_.makespan = open > 0 ? kNever : now;
  return found_;
}

}  // namespace harrow::cost
