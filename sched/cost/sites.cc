#include "cost/sites.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "cost/together.h"

namespace harrow::cost {
namespace {

// Ranks are told apart by so many steps, each of as much work.
constexpr size_t kSteps = 16;
// So many groups at least are the share of the least site.
constexpr double kGroupsASite = 16;
// Of more pairs of tasks that one file joins nobody looks at each.
constexpr uint64_t kMostPairs = 4'000'000;

/// A file between two tasks.
struct Link {
  double bytes;
  uint32_t from, to;
};

class Sites {
 public:
  Sites(const Net& net, const Costs& costs, std::span<const double> seconds, const std::vector<bool>& movable,
        std::span<const double> weights, double seconds_a_byte)
      : net_(net),
        costs_(costs),
        seconds_(seconds),
        movable_(movable),
        weights_(weights),
        seconds_a_byte_(seconds_a_byte),
        first_(FirstOf(net)),
        together_(seconds.size()) {}

  std::vector<uint32_t> Place() {
    JoinStreams();
    FindLinks();
    FindSteps();
    JoinFiles();
    Distribute();
    std::vector<uint32_t> site(seconds_.size());
    for (uint32_t task = 0; task < site.size(); ++task) site[task] = at_[together_.Find(task)];
    return site;
  }

 private:
  template <class Use>
  void EachEnd(const std::vector<uint32_t>& side, const MetaStream& stream, uint64_t index, const Use& use) const {
    for (const uint32_t task : side) {
      const Block block = TasksOf(net_.tasks[task].count, stream.count, index);
      for (uint64_t t = 0; t < block.count; ++t) use(first_[task] + static_cast<uint32_t>(block.first + t));
    }
  }

  void JoinStreams() {
    for (const MetaStream& stream : net_.streams) {
      if (!stream.size.empty()) continue;
      for (uint64_t n = 0; n < stream.count; ++n) {
        uint32_t one = UINT32_MAX;
        const auto join = [&](uint32_t task) {
          if (one != UINT32_MAX) together_.Join(one, task);
          one = task;
        };
        EachEnd(stream.writers, stream, n, join);
        EachEnd(stream.readers, stream, n, join);
      }
    }
    stays_.assign(seconds_.size(), false);
    for (uint32_t task = 0; task < seconds_.size(); ++task) {
      if (!movable_[task]) stays_[together_.Find(task)] = true;
    }
  }

  void FindLinks() {
    std::vector<uint32_t> writers;
    for (uint32_t s = 0; s < net_.streams.size(); ++s) {
      const MetaStream& stream = net_.streams[s];
      if (stream.size.empty()) continue;
      for (uint64_t n = 0; n < stream.count; ++n) {
        const double bytes = AmountOf(costs_.stream[s], n);
        if (bytes <= 0) continue;
        writers.clear();
        EachEnd(stream.writers, stream, n, [&](uint32_t task) { writers.push_back(task); });
        EachEnd(stream.readers, stream, n, [&](uint32_t reader) {
          for (const uint32_t writer : writers) {
            if (links_.size() < kMostPairs && writer != reader) links_.push_back({bytes, writer, reader});
          }
        });
      }
    }
    std::stable_sort(links_.begin(), links_.end(), [](const Link& a, const Link& b) { return a.bytes > b.bytes; });
  }

  /// Of each task which step its rank is in.
  void FindSteps() {
    const uint32_t ranks =
        costs_.rank.empty() ? 1 : *std::max_element(costs_.rank.begin(), costs_.rank.end()) + 1;
    std::vector<double> work(ranks, 0);
    for (size_t t = 0; t < net_.tasks.size(); ++t) {
      for (uint32_t task = first_[t]; task < first_[t + 1]; ++task) work[costs_.rank[t]] += seconds_[task];
    }
    total_ = std::accumulate(work.begin(), work.end(), 0.0);
    std::vector<size_t> step(ranks, 0);
    double before = 0;
    for (uint32_t r = 0; r < ranks; ++r) {
      if (total_ > 0 && std::isfinite(total_)) step[r] = std::min(kSteps - 1, static_cast<size_t>(kSteps * (before / total_)));
      before += work[r];
    }
    step_.resize(seconds_.size());
    for (size_t t = 0; t < net_.tasks.size(); ++t)
      std::fill(step_.begin() + first_[t], step_.begin() + first_[t + 1], step[costs_.rank[t]]);
  }

  void JoinFiles() {
    std::vector<double> cost(seconds_.size(), 0);
    for (uint32_t task = 0; task < cost.size(); ++task) cost[together_.Find(task)] += seconds_[task];
    const double all = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    const double most = total_ * *std::min_element(weights_.begin(), weights_.end()) / all / kGroupsASite;
    for (const Link& link : links_) {
      const uint32_t a = together_.Find(link.from), b = together_.Find(link.to);
      if (a == b || stays_[a] || stays_[b] || cost[a] + cost[b] > most) continue;
      together_.Join(a, b);
      cost[std::min(a, b)] = cost[a] + cost[b];
    }
    cost_ = std::move(cost);
  }

  void Distribute() {
    // By the least task of each group; of others nothing.
    at_.assign(seconds_.size(), 0);
    std::vector<uint32_t> groups, begin(seconds_.size() + 1, 0), members(seconds_.size());
    for (uint32_t task = 0; task < seconds_.size(); ++task) ++begin[together_.Find(task) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<uint32_t> end(begin.begin(), begin.end() - 1);
    for (uint32_t task = 0; task < seconds_.size(); ++task) members[end[together_.Find(task)]++] = task;
    std::vector<uint32_t> links_begin(seconds_.size() + 1, 0), links(2 * links_.size());
    for (const Link& link : links_) ++links_begin[link.from + 1], ++links_begin[link.to + 1];
    std::partial_sum(links_begin.begin(), links_begin.end(), links_begin.begin());
    std::vector<uint32_t> links_end(links_begin.begin(), links_begin.end() - 1);
    for (uint32_t n = 0; n < links_.size(); ++n) {
      links[links_end[links_[n].from]++] = n;
      links[links_end[links_[n].to]++] = n;
    }

    const size_t sites = weights_.size();
    const double all = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    std::vector<double> ideal(kSteps, 0), load(sites * kSteps, 0), sum(sites, 0), own(kSteps), linked(sites);
    for (uint32_t task = 0; task < seconds_.size(); ++task) ideal[step_[task]] += seconds_[task] / all;
    std::vector<bool> placed(seconds_.size(), false);
    const auto put = [&](uint32_t group, uint32_t site) {
      at_[group] = site;
      placed[group] = true;
      for (uint32_t m = begin[group]; m < end[group]; ++m)
        load[site * kSteps + step_[members[m]]] += seconds_[members[m]];
      sum[site] += cost_[group];
    };
    for (uint32_t group = 0; group < seconds_.size(); ++group) {
      if (begin[group] == end[group]) continue;
      if (stays_[group]) {
        put(group, 0);
      } else {
        groups.push_back(group);
      }
    }
    std::stable_sort(groups.begin(), groups.end(), [this](uint32_t a, uint32_t b) { return cost_[a] > cost_[b]; });
    for (const uint32_t group : groups) {
      std::fill(own.begin(), own.end(), 0);
      std::fill(linked.begin(), linked.end(), 0);
      for (uint32_t m = begin[group]; m < end[group]; ++m) {
        const uint32_t task = members[m];
        own[step_[task]] += seconds_[task];
        for (uint32_t l = links_begin[task]; l < links_end[task]; ++l) {
          const Link& link = links_[links[l]];
          const uint32_t other = together_.Find(link.from == task ? link.to : link.from);
          if (other != group && placed[other]) linked[at_[other]] += link.bytes;
        }
      }
      const double bytes = std::accumulate(linked.begin(), linked.end(), 0.0);
      std::tuple<double, double, double> least;
      uint32_t best = UINT32_MAX;
      for (uint32_t site = 0; site < sites; ++site) {
        double late = 0;
        for (size_t step = 0; step < kSteps; ++step) {
          if (own[step] <= 0) continue;
          const double has = load[site * kSteps + step] / weights_[site] - ideal[step];
          late += std::max(0.0, has + own[step] / weights_[site]) - std::max(0.0, has);
        }
        const double apart = bytes - linked[site];
        const std::tuple found(late + apart * seconds_a_byte_, apart, (sum[site] + cost_[group]) / weights_[site]);
        if (best == UINT32_MAX || found < least) {
          least = found;
          best = site;
        }
      }
      put(group, best);
    }
  }

  const Net& net_;
  const Costs& costs_;
  const std::span<const double> seconds_;
  const std::vector<bool>& movable_;
  const std::span<const double> weights_;
  const double seconds_a_byte_;
  const std::vector<uint32_t> first_;
  Together together_;
  std::vector<bool> stays_;   // by the least task of each group; so are these:
  std::vector<double> cost_;
  std::vector<uint32_t> at_;
  std::vector<Link> links_;
  std::vector<size_t> step_;  // by task
  double total_ = 0;
};

}  // namespace

std::vector<uint32_t> PlaceOnSites(const Net& net, const Costs& costs, std::span<const double> seconds,
                                   const std::vector<bool>& movable, std::span<const double> weights,
                                   double seconds_a_byte) {
  if (weights.size() < 2) return std::vector<uint32_t>(seconds.size(), 0);
  return Sites(net, costs, seconds, movable, weights, seconds_a_byte).Place();
}

}  // namespace harrow::cost
