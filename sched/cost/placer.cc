// A placement is made anew of all that waits (paper 001, 6.2.3), each time by what is known then: the clusters
// stay as the first placement found them, less what has begun. Clusters go to the node queues by 6.2.2, nodes
// weighted by their slots and speed. kCost goes on from there, and also from where tasks are now, from each
// task for itself, and from as many clusters as there are nodes: each is refined against the prediction, and
// the best is taken; where tasks are now, if nothing is better.
//
// What has been done is left out of what is predicted, but where it lies is known. So a placement costs what
// is open, not what there is.
//
// Where other servers have tasks of the graph, too, the model is of those that are here: that are open, those that
// streams join with them, and those that are done and whose files they read. They are numbered by themselves
// (`own_`). What is written elsewhere is nowhere; what waits for it only ranks after it.

#include "cost/placer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cost/distribute.h"
#include "cost/factors.h"
#include "cost/from_graph.h"
#include "cost/load.h"
#include "cost/sites.h"

namespace harrow::cost {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;
// Of more tasks, the first placement is not refined.
constexpr size_t kMostRefined = 20'000;
// Later ones come while the run goes on: they may take so many times less.
constexpr uint64_t kLater = 6;
// Of something that was learnt: so much more or less is a reason to place again.
constexpr double kMuch = 1.25;
// The model is made anew when one in so many of the tasks that wait has come or gone: it looks at all there are.
constexpr size_t kPartExchanged = 16;

bool Differs(double a, double b) {
  return a > b * kMuch || b > a * kMuch;
}

class CostPlacer final : public Placer {
 public:
  CostPlacer(const graph::Graph& graph, const PlacerOptions& options)
      : graph_(graph), options_(options), factors_(options.seconds_a_unit, options.bytes_a_unit) {}

  void Grow() override {
    stale_ = true;
    ranks_.clear();
  }
  void Exchange(size_t tasks) override {
    exchanged_ += tasks;
    if (exchanged_ * kPartExchanged >= open_.size()) stale_ = true;
  }
  bool stale() const override { return stale_; }
  void Gone(TaskId task) override {
    if (PlaceOf(task) == kNowhere) return;
    if (place_in_own_.empty()) {
      place_in_own_.resize(graph_.task_count());
      std::iota(place_in_own_.begin(), place_in_own_.end(), 0u);
    }
    place_in_own_[task.value] = kNowhere;
  }
  bool works() const override { return modelled_; }
  void SetSlots(NodeId node, uint32_t slots) override {
    if (node.value >= slots_.size()) slots_.resize(node.value + 1, 0);
    slots_[node.value] = slots;
  }
  bool Learn(TaskId task, NodeId node, double seconds, double bytes) override;
  void Place(double now, const Look& look) override;
  void Reopen(TaskId task) override {
    const uint32_t own = PlaceOf(task);
    if (own == kNowhere) {
      Exchange(1);
    } else {
      reopened_.push_back(own);
    }
  }
  NodeId node(TaskId task) const override {
    const uint32_t own = PlaceOf(task);
    return own != kNowhere && node_[own] != kNowhere ? NodeId(node_[own]) : NodeId();
  }
  uint32_t order(TaskId task) const override {
    const uint32_t own = PlaceOf(task);
    return own == kNowhere ? 0 : order_[own];
  }
  void Begins(TaskId task) override {
    const uint32_t own = PlaceOf(task);
    if (own == kNowhere) return;
    Work& work = WorkOf(task);
    work.waiting = std::max(0.0, work.waiting - GuessOf(own));
  }
  bool models(TaskId task) const override { return PlaceOf(task) != kNowhere; }
  std::vector<Work> work_by_kind() const override { return work_by_kind_; }
  std::vector<TaskId> Share(double part, const Look& look, const std::function<bool(TaskId)>& movable) override;
  size_t memory() const override {
    return (node_.capacity() + order_.capacity() + rank_.capacity() + factor_.capacity() + open_.capacity() +
            clusters_.members.capacity() + own_.capacity() + place_in_own_.capacity() + ranks_.capacity()) * sizeof(uint32_t) +
           units_.capacity() * sizeof(double) + raw_.tasks.capacity() * sizeof(Load::Task) +
           raw_.sources.capacity() * sizeof(Load::Source) + factors_.memory();
  }

 private:
  void Model(const Look& look);
  void FindOwn(const Look& look);
  void Seed();
  uint32_t PlaceOf(TaskId task) const {
    if (place_in_own_.empty()) return task.value < own_.size() ? task.value : kNowhere;
    return task.value < place_in_own_.size() ? place_in_own_[task.value] : kNowhere;
  }
  void FindOpen(const Look& look);
  void KeepWaiting(Clusters* clusters) const;
  void ByClusters(const Clusters& clusters, Placement* placement) const;
  void Refined(double now, Placement* placement);
  double GuessOf(uint32_t task) const { return units_[task] * options_.seconds_a_unit; }
  double SecondsOf(uint32_t task) const { return units_[task] * factors_.seconds_a_unit(factor_[task]); }
  double KnownSpeed(uint32_t node) const {
    return node < options_.speeds.size() ? options_.speeds[node] : 1;
  }
  double SpeedOf(uint32_t node) const { return KnownSpeed(node) * factors_.speed(node); }
  /// What one unit that it writes turns out to be, or has been.
  double BytesAUnit(uint32_t task) const {
    if (written_[task] >= 0 && out_units_[task] > 0) return written_[task] / out_units_[task];
    return factors_.bytes_a_unit(factor_[task]);
  }
  Work& WorkOf(TaskId task) {
    const KindId kind = graph_.kind(task);
    work_by_kind_.resize(std::max(work_by_kind_.size(), graph_.kind_count() + 1));
    return work_by_kind_[kind ? kind.value + 1 : 0];
  }
  double FactorOf(uint32_t program) const { return factors_.seconds_a_unit(program); }

  const graph::Graph& graph_;
  const PlacerOptions options_;
  Factors factors_;
  bool stale_ = true;      // the graph has grown since the model was made
  size_t exchanged_ = 0;   // tasks, since then
  bool modelled_ = false;  // there is one
  bool seeded_ = false;
  std::vector<uint32_t> slots_;  // by node

  // --- the tasks that are modelled, which rise; below, a task is its place there
  std::vector<TaskId> own_;
  std::vector<uint32_t> place_in_own_;  // by task; empty: all are there
  std::vector<uint32_t> ranks_;         // by task of the graph

  // --- the model, by task
  Net net_;
  Costs costs_;
  std::vector<double> units_, out_units_; // C_c, C_o
  std::vector<double> written_;           // bytes, of those that have told; else below 0
  std::vector<uint32_t> rank_, factor_;   // factor_: its program, or behind these its kind
  Load raw_;                              // in units; empty: too large
  Clusters clusters_;                     // of what waits
  std::vector<uint32_t> by_rank_;         // places in the order of ranks

  // --- of the last placement
  std::vector<uint32_t> node_, order_;
  std::vector<double> speeds_, units_then_;  // of nodes; of programs: what was known
  std::vector<uint32_t> nodes_;              // those it was for

  // --- what is open
  std::vector<uint32_t> open_, reopened_;
  std::vector<Standing> standing_;  // of open_
  std::vector<bool> waits_;         // by task
  std::vector<Standing> done_at_;   // by task, where it reads or is read of
  std::vector<uint32_t> place_of_;  // in the load that is predicted
  bool first_ = true;               // nothing was refined yet
  uint64_t learnt_ = 0;             // since the last placement
  std::vector<Work> work_by_kind_;
};

/// Which tasks there are to model.
void CostPlacer::FindOwn(const Look& look) {
  const auto count = static_cast<uint32_t>(graph_.task_count());
  std::vector<State> states(count);
  std::vector<bool> nowhere(count, false);  // done elsewhere, or by an earlier server
  bool all = true;
  for (uint32_t n = 0; n < count; ++n) {
    const Standing standing = look(TaskId(n));
    states[n] = standing.state;
    nowhere[n] = standing.state == State::kDone && !standing.node;
    all &= standing.state != State::kElsewhere && !nowhere[n];
  }
  own_.clear();
  place_in_own_.clear();
  if (all) {
    for (uint32_t n = 0; n < count; ++n) own_.emplace_back(n);
    return;
  }
  if (ranks_.empty()) ranks_ = RanksOf(graph_);
  std::vector<bool> in(count, false);
  std::vector<uint32_t> found;
  const auto add = [&](TaskId task) {
    if (in[task.value] || states[task.value] == State::kElsewhere) return;
    in[task.value] = true;
    found.push_back(task.value);
  };
  for (uint32_t n = 0; n < count; ++n) {
    if (states[n] == State::kWaiting || states[n] == State::kRunning) add(TaskId(n));
  }
  const size_t open = found.size();
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& ends : {graph_.streams_read(TaskId(found[i])), graph_.streams_written(TaskId(found[i]))}) {
      for (const graph::StreamEnd& end : ends) {
        const graph::Stream& stream = graph_.streams()[end.second.value];
        for (const TaskId task : stream.writers) add(task);
        for (const TaskId task : stream.readers) add(task);
      }
    }
  }
  for (size_t i = 0; i < open; ++i) {
    for (const FileId file : graph_.inputs(TaskId(found[i]))) {
      const TaskId producer = graph_.producer(file);
      if (producer && !nowhere[producer.value]) add(producer);
    }
  }
  std::sort(found.begin(), found.end());
  place_in_own_.assign(count, kNowhere);
  for (const uint32_t task : found) {
    place_in_own_[task] = static_cast<uint32_t>(own_.size());
    own_.emplace_back(task);
  }
}

/// The net as it is now, its costs and clusters.
void CostPlacer::Model(const Look& look) {
  stale_ = false;
  exchanged_ = 0;
  modelled_ = false;
  // What is known of those that stay.
  struct Kept {
    uint32_t node, order;
    double written;
  };
  std::vector<std::pair<TaskId, Kept>> kept;
  for (uint32_t n = 0; n < node_.size(); ++n) kept.emplace_back(own_[n], Kept{node_[n], order_[n], written_[n]});
  FindOwn(look);
  const auto count = static_cast<uint32_t>(own_.size());
  node_.assign(count, kNowhere);
  order_.assign(count, 0);
  written_.assign(count, -1);
  for (const auto& [task, was] : kept) {
    const uint32_t own = PlaceOf(task);
    if (own == kNowhere) continue;
    node_[own] = was.node;
    order_[own] = was.order;
    written_[own] = was.written;
  }
  open_.clear();
  reopened_.clear();
  units_.assign(count, 0);
  factor_.assign(count, 0);
  Result<Net> net = NetOf(graph_, options_.seconds_a_unit, own_, ranks_);
  if (!net.ok()) return;
  Result<Costs> costs = FindCosts(*net);
  if (!costs.ok()) return;
  net_ = std::move(*net);
  costs_ = Guessed(net_, std::move(*costs));
  modelled_ = true;
  out_units_.resize(count);
  rank_.resize(count);
  const auto programs = static_cast<uint32_t>(net_.programs.size());
  uint32_t task = 0;
  for (uint32_t t = 0; t < net_.tasks.size(); ++t) {
    for (uint32_t n = 0; n < net_.tasks[t].count; ++n, ++task) {
      units_[task] = AmountOf(costs_.compute[t], n);
      out_units_[task] = AmountOf(costs_.out[t], n);
      rank_[task] = costs_.rank[t];
      const KindId kind = graph_.kind(own_[task]);
      factor_[task] = net_.tasks[t].program != kNoProgram ? net_.tasks[t].program
                                                          : programs + (kind ? kind.value + 1 : 0);
    }
  }
  Seed();
  raw_ = options_.how == Place::kCost && count <= kMostRefined ? MakeLoad(net_, costs_, {{1, 1}}) : Load();
  for (uint32_t n = 0; n < raw_.tasks.size(); ++n)
    raw_.tasks[n].cores = std::max(1u, graph_.profile(own_[n]).Part(1, 0).cores);

  double slots = 0;
  for (const uint32_t each : slots_) slots += each;
  Limits limits = DefaultLimits(net_, costs_, slots, options_.seconds_a_unit,
                                options_.bytes_a_unit / options_.link);
  if (options_.groups > 0) limits.groups = options_.groups;
  if (options_.stream > 0) limits.stream = options_.stream;
  clusters_ = FindClusters(net_, costs_, limits);

  by_rank_.resize(count);
  std::vector<uint32_t> tasks(count);
  std::iota(tasks.begin(), tasks.end(), 0u);
  std::stable_sort(tasks.begin(), tasks.end(), [this](uint32_t a, uint32_t b) { return rank_[a] < rank_[b]; });
  for (uint32_t i = 0; i < count; ++i) by_rank_[tasks[i]] = i;
  done_at_.assign(count, {});
  place_of_.assign(count, kNowhere);
  open_ = std::move(tasks);
  std::sort(open_.begin(), open_.end());
}

/// The first time, by what other runs have found.
void CostPlacer::Seed() {
  if (options_.known.empty() || std::exchange(seeded_, true)) return;
  TaskCosts costs(graph_, options_.seconds_a_unit, options_.bytes_a_unit, options_.known);
  if (costs.Model()) factors_ = costs.factors();
}

bool CostPlacer::Learn(TaskId task, NodeId node, double seconds, double bytes) {
  const uint32_t own = PlaceOf(task);
  if (!modelled_ || own == kNowhere) return false;
  const uint32_t factor = factor_[own];
  factors_.Learn(factor, node.value, units_[own], seconds * KnownSpeed(node.value));
  if (seconds > 0 && units_[own] > 0) {
    Work& work = WorkOf(task);
    work.ended += GuessOf(own);
    work.seconds += seconds * SpeedOf(node.value);
  }
  if (bytes >= 0) {
    factors_.LearnBytes(factor, out_units_[own], bytes);
    written_[own] = bytes;
  }
  ++learnt_;
  // Not for each of the first ones.
  if (learnt_ * 16 < open_.size()) return false;
  if (node.value < speeds_.size() && Differs(SpeedOf(node.value), speeds_[node.value])) return true;
  return factor < units_then_.size() && Differs(FactorOf(factor), units_then_[factor]);
}

/// Which tasks of those that were open still are, and how they stand.
void CostPlacer::FindOpen(const Look& look) {
  if (!reopened_.empty()) {
    // They are in no cluster any more: each is one.
    std::sort(reopened_.begin(), reopened_.end());
    reopened_.erase(std::unique(reopened_.begin(), reopened_.end()), reopened_.end());
    for (const uint32_t task : reopened_) {
      if (std::binary_search(open_.begin(), open_.end(), task) &&
          std::find(clusters_.members.begin(), clusters_.members.end(), task) != clusters_.members.end())
        continue;
      clusters_.groups.push_back(
          {units_[task], rank_[task], static_cast<uint32_t>(clusters_.members.size()), 1});
      clusters_.members.push_back(task);
    }
    const auto middle = static_cast<ptrdiff_t>(open_.size());
    open_.insert(open_.end(), reopened_.begin(), reopened_.end());
    std::inplace_merge(open_.begin(), open_.begin() + middle, open_.end());
    open_.erase(std::unique(open_.begin(), open_.end()), open_.end());
    reopened_.clear();
  }
  waits_.assign(node_.size(), false);
  standing_.clear();
  for (Work& each : work_by_kind_) each.waiting = 0;
  size_t kept = 0;
  for (const uint32_t task : open_) {
    const Standing standing = look(own_[task]);
    done_at_[task] = standing;
    if (standing.state >= State::kDone) continue;
    waits_[task] = standing.state == State::kWaiting;
    if (waits_[task]) WorkOf(own_[task]).waiting += GuessOf(task);
    open_[kept++] = task;
    standing_.push_back(standing);
  }
  open_.resize(kept);
}

/// Leaves the tasks of clusters that wait; what costs nothing any more is not looked at again.
void CostPlacer::KeepWaiting(Clusters* clusters) const {
  uint32_t place = 0;
  size_t groups = 0;
  for (const Group& group : clusters->groups) {
    Group left{0, UINT32_MAX, place, 0};
    for (uint32_t m = group.first; m < group.first + group.count; ++m) {
      const uint32_t task = clusters->members[m];
      if (!waits_[task]) continue;
      clusters->members[place++] = task;
      left.cost += units_[task] * (FactorOf(factor_[task]) / options_.seconds_a_unit);
      left.rank = std::min(left.rank, rank_[task]);
      ++left.count;
    }
    if (left.count > 0) clusters->groups[groups++] = left;
  }
  clusters->members.resize(place);
  clusters->groups.resize(groups);
}

/// `placement`: by task; nodes by their numbers in nodes_.
void CostPlacer::ByClusters(const Clusters& clusters, Placement* placement) const {
  std::vector<double> weights;
  for (const uint32_t node : nodes_) weights.push_back(slots_[node] * SpeedOf(node));
  const std::vector<Queue> queues = Distribute(clusters.groups, weights);
  for (uint32_t q = 0; q < queues.size(); ++q) {
    uint32_t place = 0;
    for (const uint32_t group : queues[q].groups) {
      for (const uint32_t task : clusters.of(clusters.groups[group])) {
        placement->node[task] = q;
        placement->order[task] = place++;
      }
    }
  }
}

/// Of several placements, each refined, the best.
void CostPlacer::Refined(double now, Placement* placement) {
  // What is open, and what that reads of tasks that are done.
  std::vector<uint32_t> tasks = open_;
  for (size_t i = 0; i < open_.size(); ++i) {
    const Load::Task& task = raw_.tasks[open_[i]];
    for (uint32_t s = 0; s < task.sources; ++s) {
      const uint32_t from = raw_.sources[task.first_source + s].task;
      if (done_at_[from].state == State::kDone && place_of_[from] == kNowhere) {
        place_of_[from] = 0;
        tasks.push_back(from);
      }
    }
  }
  std::sort(tasks.begin() + static_cast<ptrdiff_t>(open_.size()), tasks.end());
  for (uint32_t i = 0; i < tasks.size(); ++i) place_of_[tasks[i]] = i;

  std::vector<uint32_t> dense(slots_.size(), kNowhere);
  Machine machine;
  for (const uint32_t node : nodes_) {
    dense[node] = static_cast<uint32_t>(machine.nodes.size());
    machine.nodes.push_back({slots_[node], SpeedOf(node), options_.link, options_.link});
  }
  // Where something lies or runs that nothing more is placed on.
  const auto dense_of = [&](NodeId node) {
    if (!node) return 0u;
    if (node.value >= dense.size()) dense.resize(node.value + 1, kNowhere);
    if (dense[node.value] == kNowhere) {
      dense[node.value] = static_cast<uint32_t>(machine.nodes.size());
      machine.nodes.push_back({1, SpeedOf(node.value), options_.link, options_.link});
    }
    return dense[node.value];
  };

  Load load;
  std::vector<cost::Standing> standing(tasks.size());
  Placement now_at;
  now_at.node.resize(tasks.size());
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    const uint32_t task = tasks[i];
    const Load::Task& raw = raw_.tasks[task];
    Load::Task one = raw;
    one.seconds = SecondsOf(task);
    one.first_source = static_cast<uint32_t>(load.sources.size());
    double part = 1;  // that is still to be read
    if (i >= open_.size()) {
      standing[i].state = cost::Standing::State::kDone;
      now_at.node[i] = dense_of(done_at_[task].node);
    } else if (standing_[i].state == State::kRunning) {
      standing[i].state = cost::Standing::State::kRunning;
      now_at.node[i] = dense_of(standing_[i].node);
      // One that takes longer than it should will end some time.
      const double gone = (now - standing_[i].since) * machine.nodes[now_at.node[i]].speed;
      standing[i].left = std::max(one.seconds - gone, 0.25 * std::min(gone, 3 * one.seconds));
      part = one.seconds > 0 ? std::min(1.0, standing[i].left / one.seconds) : 0;
    }
    for (uint32_t s = 0; s < raw.sources && i < open_.size(); ++s) {
      Load::Source source = raw_.sources[raw.first_source + s];
      if (place_of_[source.task] == kNowhere || (part < 1 && source.file)) continue;
      if (!source.file) source.bytes *= BytesAUnit(source.task) * part;
      source.task = place_of_[source.task];
      load.sources.push_back(source);
    }
    one.sources = static_cast<uint32_t>(load.sources.size()) - one.first_source;
    load.tasks.push_back(one);
  }

  const auto nodes = static_cast<uint32_t>(nodes_.size());
  std::vector<Placement> starts;
  const auto from_clusters = [&](const Placement& by_task) {
    Placement start = now_at;
    for (uint32_t i = 0; i < open_.size(); ++i) {
      if (standing_[i].state == State::kWaiting) start.node[i] = by_task.node[open_[i]];
    }
    starts.push_back(std::move(start));
  };
  bool placed = true;  // all that waits, on nodes that are there
  Placement as_it_is = now_at;
  for (uint32_t i = 0; i < open_.size() && placed; ++i) {
    if (standing_[i].state != State::kWaiting) continue;
    const uint32_t at = node_[open_[i]];
    placed = at < dense.size() && dense[at] < nodes;
    if (placed) as_it_is.node[i] = dense[at];
  }
  if (placed) starts.push_back(as_it_is);
  from_clusters(*placement);
  Clusters each;  // for itself
  for (const uint32_t task : open_) {
    if (!waits_[task]) continue;
    each.groups.push_back({units_[task], rank_[task], static_cast<uint32_t>(each.members.size()), 1});
    each.members.push_back(task);
  }
  KeepWaiting(&each);
  ByClusters(each, placement);
  from_clusters(*placement);
  Clusters few = FindClusters(net_, costs_, Limits{static_cast<double>(nodes) + 1});
  KeepWaiting(&few);
  ByClusters(few, placement);
  from_clusters(*placement);

  Prediction best;
  size_t best_start = starts.size();
  const uint64_t budget = options_.budget / (std::exchange(first_, false) ? 1 : kLater);
  for (size_t i = 0; i < starts.size(); ++i) {
    Placement& start = starts[i];
    start.order.resize(tasks.size());
    for (uint32_t t = 0; t < tasks.size(); ++t) start.order[t] = by_rank_[tasks[t]];
    const Prediction found =
        Refine(load, machine, standing, budget / starts.size(), &start, nodes);
    if (best_start < starts.size() && !found.BetterThan(best)) continue;
    best = found;
    best_start = i;
  }
  for (uint32_t i = 0; i < open_.size(); ++i) {
    placement->node[open_[i]] = starts[best_start].node[i];
    placement->order[open_[i]] = starts[best_start].order[i];
  }
  for (const uint32_t task : tasks) place_of_[task] = kNowhere;
}

void CostPlacer::Place(double now, const Look& look) {
  nodes_.clear();
  for (uint32_t n = 0; n < slots_.size(); ++n) {
    if (slots_[n] > 0) nodes_.push_back(n);
  }
  if (nodes_.empty()) return;
  if (stale_) Model(look);
  if (!modelled_) return;
  FindOpen(look);
  KeepWaiting(&clusters_);
  Placement placement;
  placement.node.resize(node_.size());
  placement.order.resize(node_.size());
  ByClusters(clusters_, &placement);
  if (!raw_.tasks.empty() && nodes_.size() > 1) Refined(now, &placement);
  const bool by_rank = options_.how == Place::kCost;
  for (size_t i = 0; i < open_.size(); ++i) {
    const uint32_t task = open_[i];
    if (!waits_[task]) continue;
    node_[task] = nodes_[placement.node[task]];
    order_[task] = by_rank ? by_rank_[task] : placement.order[task];
  }
  speeds_.resize(slots_.size());
  for (uint32_t n = 0; n < slots_.size(); ++n) speeds_[n] = SpeedOf(n);
  units_then_.resize(net_.programs.size() + graph_.kind_count() + 1);
  for (uint32_t p = 0; p < units_then_.size(); ++p) units_then_[p] = FactorOf(p);
  learnt_ = 0;
}

std::vector<TaskId> CostPlacer::Share(double part, const Look& look, const std::function<bool(TaskId)>& movable) {
  // Without a node the model would be one of nodes that there are not.
  if (std::all_of(slots_.begin(), slots_.end(), [](uint32_t slots) { return slots == 0; })) return {};
  if (stale_) Model(look);
  if (!modelled_ || !(part > 0)) return {};
  FindOpen(look);
  KeepWaiting(&clusters_);
  std::vector<double> seconds(own_.size(), 0);
  std::vector<bool> may(own_.size(), false);
  for (const uint32_t task : open_) {
    if (!waits_[task]) continue;
    seconds[task] = SecondsOf(task);
    may[task] = movable(own_[task]);
  }
  const double here = std::max(1e-6, 1 - part);
  const std::vector<uint32_t> sites =
      PlaceOnSites(net_, costs_, seconds, may, std::vector<double>{here, std::min(part, 1.0)},
                   options_.bytes_a_unit / options_.link);
  std::vector<TaskId> share;
  for (uint32_t task = 0; task < own_.size(); ++task) {
    if (sites[task] == 1) share.push_back(own_[task]);
  }
  return share;
}

}  // namespace

std::unique_ptr<Placer> MakePlacer(const graph::Graph& graph, const PlacerOptions& options) {
  return std::make_unique<CostPlacer>(graph, options);
}

}  // namespace harrow::cost
