// Tasks and who is related to whom are a graph; it is cut in two halves between which there is as little as can be,
// each of these is cut again, and so on down. A half comes from a search in breadth that begins at the rim, and is
// then bettered by the passes of Fiduccia and Mattheyses (A Linear-Time Heuristic for Improving Network Partitions,
// DAC 1982). That nodes should get parts of a flow between which little moves, and that graph partitioning finds
// such parts, is Tanaka's and Tatebe's (Workflow Scheduling to Minimize Data Movement Using Multi-constraint Graph
// Partitioning, CCGrid 2012); an order instead of parts needs to know neither how many nodes there are nor how fast
// each is.
#include "place/nearby.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

namespace harrow::place {
namespace {

// What more of them share tells nothing.
constexpr size_t kMostTogether = 32;
constexpr size_t kMostInPairs = 4;  // each with each; of more, each with the next one
// Tasks that follow one alone, and are looked through for those that follow it and others.
constexpr size_t kMostFollowing = 32;
// Of one task: files and readers of what it makes that are looked at, and groups of related tasks that it is in.
constexpr size_t kMostLooks = 64;
constexpr uint8_t kMostGroups = 16;
constexpr size_t kSmallest = 3;  // is not cut
constexpr int kMostPasses = 4;
constexpr size_t kMostInVain = 64;  // changes of sides

/// Who is related to whom, and how much. Takes time by the tasks, whatever the size of the graph.
class Relations {
 public:
  struct Edge {
    uint32_t to, weight;
  };
  Relations(const graph::Graph& graph, std::span<const TaskId> tasks)
      : graph_(graph), tasks_(tasks), groups_(tasks.size()) {
    owner_.reserve(2 * tasks.size());
    for (uint32_t i = 0; i < tasks.size(); ++i) owner_.emplace(tasks[i].value, i);
    FindReaders();
    FindSameFiles();
    owner_.clear();
    Join();
  }
  bool any() const { return !edges_.empty(); }
  std::span<const Edge> of(uint32_t i) const {
    return {edges_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }

 private:
  // In owner_: it follows several.
  static constexpr uint32_t kJoint = UINT32_MAX;

  std::optional<uint32_t> OwnerOf(TaskId task) const {
    const auto found = owner_.find(task.value);
    if (found == owner_.end() || found->second == kJoint) return std::nullopt;
    return found->second;
  }

  /// Whose outputs a task reads, directly or by what follows these alone; each once, and empty if they are too many.
  std::vector<uint32_t> OwnersOf(TaskId reader) const {
    std::vector<uint32_t> owners;
    const std::span<const TaskId> before = graph_.predecessors(reader);
    if (before.size() > 4 * kMostTogether) return {};
    for (const TaskId task : before) {
      const std::optional<uint32_t> owner = OwnerOf(task);
      if (owner && std::find(owners.begin(), owners.end(), *owner) == owners.end()) owners.push_back(*owner);
    }
    if (owners.size() > kMostTogether) return {};
    return owners;
  }

  bool FollowsAlone(TaskId reader, uint32_t i) const {
    const std::span<const TaskId> before = graph_.predecessors(reader);
    return before.size() <= 4 * kMostTogether &&
           std::all_of(before.begin(), before.end(), [&](TaskId b) { return OwnerOf(b) == i; });
  }

  void FindReaders() {
    std::vector<TaskId> joint, following;
    for (uint32_t i = 0; i < tasks_.size(); ++i) {
      following.assign(1, tasks_[i]);
      size_t looks = 0;
      for (size_t at = 0; at < following.size() && looks < kMostLooks; ++at) {
        for (const TaskId reader : graph_.successors(following[at])) {
          if (++looks > kMostLooks) break;
          if (owner_.contains(reader.value)) continue;
          if (following.size() < kMostFollowing && FollowsAlone(reader, i)) {
            owner_.emplace(reader.value, i);
            following.push_back(reader);
          } else {
            owner_.emplace(reader.value, kJoint);
            joint.push_back(reader);
          }
        }
      }
    }
    // Some were seen before the last of what they wait for had an owner.
    for (const TaskId reader : joint) Relate(OwnersOf(reader));
  }

  void FindSameFiles() {
    std::vector<std::pair<FileId, uint32_t>> read;
    for (uint32_t i = 0; i < tasks_.size(); ++i) {
      const std::span<const FileId> inputs = graph_.inputs(tasks_[i]);
      for (const FileId file : inputs.first(std::min(inputs.size(), kMostLooks))) read.emplace_back(file, i);
    }
    std::sort(read.begin(), read.end());
    std::vector<uint32_t> together;
    for (size_t at = 0; at < read.size();) {
      together.clear();
      const FileId file = read[at].first;
      for (; at < read.size() && read[at].first == file; ++at) together.push_back(read[at].second);
      Relate(together);
    }
  }

  void Relate(std::vector<uint32_t> together) {
    if (together.size() > kMostTogether) return;
    std::erase_if(together, [&](uint32_t i) { return groups_[i] >= kMostGroups; });
    if (together.size() < 2) return;
    for (const uint32_t i : together) ++groups_[i];
    for (size_t a = 0; a < together.size(); ++a) {
      const size_t end = together.size() <= kMostInPairs ? together.size() : std::min(a + 2, together.size());
      for (size_t b = a + 1; b < end; ++b) {
        if (together[a] != together[b]) pairs_.push_back(std::minmax(together[a], together[b]));
      }
    }
  }

  void Join() {
    std::sort(pairs_.begin(), pairs_.end());
    begin_.assign(tasks_.size() + 1, 0);
    std::vector<std::pair<std::pair<uint32_t, uint32_t>, uint32_t>> weighted;
    for (const auto& pair : pairs_) {
      if (!weighted.empty() && weighted.back().first == pair) {
        ++weighted.back().second;
        continue;
      }
      weighted.emplace_back(pair, 1);
      ++begin_[pair.first + 1];
      ++begin_[pair.second + 1];
    }
    pairs_ = {};
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    edges_.resize(begin_.back());
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [pair, weight] : weighted) {
      edges_[next[pair.first]++] = {pair.second, weight};
      edges_[next[pair.second]++] = {pair.first, weight};
    }
  }

  const graph::Graph& graph_;
  const std::span<const TaskId> tasks_;
  std::unordered_map<uint32_t, uint32_t> owner_;  // of a task: which of tasks_ it follows alone, or is
  std::vector<uint8_t> groups_;  // that it is in
  std::vector<std::pair<uint32_t, uint32_t>> pairs_;
  std::vector<uint32_t> begin_;
  std::vector<Edge> edges_;
};

/// Cuts a block, [begin, end) of the order, and so on; block_ tells in which one each is, by its begin.
class Cutter {
 public:
  Cutter(const Relations& relations, uint32_t count, uint32_t unit)
      : relations_(relations), unit_(unit), order_(count), block_(count), visited_(count), side_(count), gain_(count), moved_(count) {
    std::iota(order_.begin(), order_.end(), 0u);
  }
  std::vector<uint32_t> Run() {
    std::vector<std::pair<uint32_t, uint32_t>> blocks{{0, order_.size()}};
    // All of a size before those of half the size: each half knows where those are that it is related to.
    for (size_t at = 0; at < blocks.size(); ++at) {
      const auto [begin, end] = blocks[at];
      if (end - begin < kSmallest) continue;
      const uint32_t middle = Cut(begin, end);
      blocks.emplace_back(begin, middle);
      blocks.emplace_back(middle, end);
    }
    return std::move(order_);
  }

 private:
  uint32_t Cut(uint32_t begin, uint32_t end) {
    const std::vector<uint32_t> all(order_.begin() + begin, order_.begin() + end);
    const uint32_t rim = InBreadth(begin, all, all.front()).second;
    std::vector<uint32_t> found = InBreadth(begin, all, rim).first;
    size_t half = (all.size() + 1) / 2;
    if (all.size() > unit_) half = (half + unit_ - 1) / unit_ * unit_;
    const auto assign = [&] {
      for (size_t i = 0; i < found.size(); ++i) side_[found[i]] = i >= half;
    };
    assign();
    if (BelongTheOtherWay(begin, end, all)) {
      std::reverse(found.begin(), found.end());
      assign();
    }
    for (int pass = 0; pass < kMostPasses && Better(begin, all); ++pass) {
    }
    const auto middle =
        begin + static_cast<uint32_t>(std::count_if(all.begin(), all.end(), [this](uint32_t i) { return side_[i] == 0; }));
    uint32_t next[] = {begin, middle};
    for (const uint32_t each : all) {
      block_[each] = side_[each] == 0 ? begin : middle;
      order_[next[side_[each]]++] = each;
    }
    return middle;
  }

  /// All of a block as they are found from one of them; and which was last of those that hang together with that.
  std::pair<std::vector<uint32_t>, uint32_t> InBreadth(uint32_t block, const std::vector<uint32_t>& all, uint32_t first) {
    std::vector<uint32_t> found;
    found.reserve(all.size());
    const auto find = [&](uint32_t each) {
      if (std::exchange(visited_[each], turn_) != turn_) found.push_back(each);
    };
    ++turn_;
    find(first);
    std::optional<uint32_t> last;
    auto others = all.begin();
    for (size_t at = 0; at < all.size(); ++at) {
      if (at == found.size()) {
        if (!last) last = found.back();
        while (visited_[*others] == turn_) ++others;
        find(*others);
      }
      for (const Relations::Edge& edge : relations_.of(found[at])) {
        if (block_[edge.to] == block) find(edge.to);
      }
    }
    const uint32_t rim = last.value_or(found.back());
    return {std::move(found), rim};
  }

  /// One pass: by turns the one of either half that gains most changes sides, each once; what was best in between
  /// stays. Returns whether something was gained.
  bool Better(uint32_t block, const std::vector<uint32_t>& all) {
    using Entry = std::pair<int64_t, uint32_t>;  // those of one gain: the later ones of `all` last
    std::priority_queue<Entry> heaps[2];
    const auto put = [&](uint32_t each) { heaps[side_[each]].emplace(gain_[each], each); };
    for (const uint32_t each : all) {
      gain_[each] = 0;
      moved_[each] = false;
      for (const Relations::Edge& edge : relations_.of(each)) {
        if (block_[edge.to] == block) gain_[each] += side_[edge.to] == side_[each] ? -int64_t{edge.weight} : edge.weight;
      }
      put(each);
    }
    const auto take = [&](int side) -> std::optional<uint32_t> {
      std::priority_queue<Entry>& heap = heaps[side];
      while (!heap.empty()) {
        const auto [gain, each] = heap.top();
        heap.pop();
        if (!moved_[each] && gain == gain_[each]) return each;
      }
      return std::nullopt;
    };
    std::vector<uint32_t> moves;
    int64_t gained = 0, most = 0;
    size_t best = 0;
    while (moves.size() < best + kMostInVain + all.size() / 16) {
      for (const int side : {0, 1}) {
        const std::optional<uint32_t> each = take(side);
        if (!each) break;
        gained += gain_[*each];
        moved_[*each] = true;
        side_[*each] ^= 1;
        moves.push_back(*each);
        for (const Relations::Edge& edge : relations_.of(*each)) {
          if (block_[edge.to] != block || moved_[edge.to]) continue;
          gain_[edge.to] += (side_[edge.to] == side_[*each] ? -2 : 2) * int64_t{edge.weight};
          put(edge.to);
        }
      }
      if (moves.size() % 2 != 0 || moves.size() + 1 >= all.size()) break;
      if (gained > most) {
        most = gained;
        best = moves.size();
      }
    }
    while (moves.size() > best) {
      side_[moves.back()] ^= 1;
      moves.pop_back();
    }
    return most > 0;
  }

  /// The first half is related more to what comes behind the block, and the second to what comes before.
  bool BelongTheOtherWay(uint32_t begin, uint32_t end, const std::vector<uint32_t>& all) const {
    int64_t other_way = 0;
    for (const uint32_t each : all) {
      for (const Relations::Edge& edge : relations_.of(each)) {
        const uint32_t block = block_[edge.to];
        if (block == begin) continue;
        other_way += (block >= end) == (side_[each] == 0) ? edge.weight : -int64_t{edge.weight};
      }
    }
    return other_way > 0;
  }

  const Relations& relations_;
  const uint32_t unit_;
  std::vector<uint32_t> order_, block_;
  std::vector<uint32_t> visited_;  // in which turn
  uint32_t turn_ = 0;
  std::vector<uint8_t> side_;
  // Of Better(): by how much less goes between the halves when it changes sides.
  std::vector<int64_t> gain_;
  std::vector<bool> moved_;
};

}  // namespace

std::optional<std::vector<TaskId>> NearbyOrder(const graph::Graph& graph, std::span<const TaskId> tasks, uint32_t unit) {
  const Relations relations(graph, tasks);
  if (!relations.any()) return std::nullopt;
  std::vector<TaskId> all;
  all.reserve(tasks.size());
  for (const uint32_t i : Cutter(relations, static_cast<uint32_t>(tasks.size()), unit).Run()) all.push_back(tasks[i]);
  return all;
}

}  // namespace harrow::place
