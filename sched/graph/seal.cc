// Linking what was added.
//
// A task's predecessors are the producers of its inputs, the writers of its streams, and the tasks named by
// `after` and `after_any`; a flag an entry tells which of them it only waits for. New tasks append
// their lists to `predecessors_` (one run of a task after the other); `successors_` is filled from them by
// counting. When the graph grows, an old task that gets successors has its list moved to the end, into room
// for twice as many, so that growth costs no more than what is added. Only a new dependency of an old task
// (somebody now makes a file it reads) needs everything linked again.
//
// Levels are computed from the final tasks backwards (Kahn's order on the reversed edges); whoever is never
// reached lies on a cycle or before one.

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/text.h"
#include "graph/graph.h"

namespace harrow::graph {

class Sealer {
 public:
  Sealer(Graph* graph, size_t max_problems)
      : g_(*graph), max_problems_(max_problems), first_(graph->sealed_), count_(graph->task_count()) {}

  Status Run() {
    CheckNames();
    CheckProducers();
    if (problems_ > 0) return Failure();
    std::sort(g_.new_dependencies_.begin(), g_.new_dependencies_.end());
    std::sort(g_.new_waits_.begin(), g_.new_waits_.end());
    FindLateReaders();
    SortEnds(&g_.read_);
    SortEnds(&g_.written_);
    AddStarts();
    g_.relevelled_.clear();
    if (first_ == 0 || OldTaskDepends()) {
      LinkAll();
    } else {
      LinkNew();
    }
    if (problems_ > 0) return Failure();
    Finish();
    return Status();
  }

 private:
  void Problem(TaskId task, const std::string& text) {
    if (problems_++ >= max_problems_) return;
    if (!text_.empty()) text_ += '\n';
    text_ += StrCat(g_.PlaceText(g_.place(task)), ": ", text);
  }
  Status Failure() {
    if (problems_ > max_problems_)
      text_ += StrCat("\n... and ", problems_ - max_problems_, " more of the kind");
    return Status(Code::kInvalid, text_);
  }
  std::string Quoted(TaskId task) const { return StrCat("'", Printable(g_.TaskName(task)), "'"); }

  void CheckNames() {
    for (size_t n = g_.named_up_to_; n < count_; ++n) {
      const TaskId task(static_cast<uint32_t>(n));
      const std::string_view name = g_.given_name(task);
      if (name.empty()) continue;
      const size_t hash = std::hash<std::string_view>()(name);
      const auto known = g_.names_.Find(hash, [&](uint32_t m) { return g_.given_name(TaskId(m)) == name; });
      if (known) {
        Problem(task, StrCat("a second task is named ", Quoted(task), "; the first is at ",
                             g_.PlaceText(g_.place(TaskId(*known))), ", give this one another name"));
      } else {
        g_.names_.Insert(hash, task.value);
      }
    }
    g_.named_up_to_ = count_;
  }

  void CheckProducers() {
    for (const auto& [file, task] : g_.second_producers_) {
      const TaskId first = g_.producer(file);
      Problem(task, StrCat("task ", Quoted(task), " makes '", Printable(g_.file_name(file)), "', which task ",
                           Quoted(first), " (", g_.PlaceText(g_.place(first)),
                           ") makes already; one task should make a file"));
    }
  }

  /// Sealed tasks that read what a new task makes.
  void FindLateReaders() {
    std::vector<FileId>& late = g_.late_products_;
    if (late.empty()) return;
    std::sort(late.begin(), late.end());
    for (size_t n = 0; n < first_; ++n) {
      const TaskId reader(static_cast<uint32_t>(n));
      for (FileId file : g_.inputs(reader)) {
        if (std::binary_search(late.begin(), late.end(), file)) {
          g_.new_dependencies_.emplace_back(reader, g_.producer(file));
        }
      }
    }
    std::sort(g_.new_dependencies_.begin(), g_.new_dependencies_.end());
  }

  static void SortEnds(std::vector<StreamEnd>* ends) {
    std::sort(ends->begin(), ends->end());
    ends->erase(std::unique(ends->begin(), ends->end()), ends->end());
  }

  /// A reader needs its writers; where nothing else makes it wait for their ends, their beginning lets it
  /// begin.
  void AddStarts() {
    if (g_.new_starts_.empty()) return;
    std::vector<std::pair<TaskId, TaskId>> edges = std::move(g_.new_starts_);
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    const auto waits_for_end = [this](const std::pair<TaskId, TaskId>& edge) {
      const TaskId after = edge.first, before = edge.second;
      if (std::binary_search(g_.new_dependencies_.begin(), g_.new_dependencies_.end(), edge) ||
          std::binary_search(g_.new_waits_.begin(), g_.new_waits_.end(), edge))
        return true;
      const auto inputs = g_.inputs(after);
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](FileId file) { return FindProducer(file) == before; });
    };
    for (const auto& edge : edges) {
      if (!waits_for_end(edge)) g_.starts_.emplace_back(edge.second, edge.first);
    }
    std::sort(g_.starts_.begin(), g_.starts_.end());
    g_.new_dependencies_.insert(g_.new_dependencies_.end(), edges.begin(), edges.end());
    std::sort(g_.new_dependencies_.begin(), g_.new_dependencies_.end());
    g_.new_dependencies_.erase(std::unique(g_.new_dependencies_.begin(), g_.new_dependencies_.end()),
                               g_.new_dependencies_.end());
  }

  bool OldTaskDepends() const {
    for (const auto* added : {&g_.new_dependencies_, &g_.new_waits_}) {
      if (!added->empty() && added->front().first.value < first_) return true;
    }
    return false;
  }

  /// The task that makes `file`, itself or a directory above it.
  TaskId FindProducer(FileId file) {
    const TaskId known = g_.files_.producer(file);
    if (known) return known;
    const std::string_view name = g_.file_name(file);
    for (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0;
         slash = name.rfind('/', slash - 1)) {
      const std::optional<FileId> directory = g_.files_.FindNormal(name.substr(0, slash));
      if (!directory) continue;
      const TaskId owner = g_.files_.producer(*directory);
      if (owner && !g_.files_.below_output(*directory)) {
        g_.files_.set_producer(file, owner, true);
        return owner;
      }
    }
    return TaskId();
  }

  /// Predecessors, in the order of the tasks that wait for them.
  struct Found {
    std::vector<TaskId> tasks;
    // As Graph::only_waits_.
    std::vector<bool> only_waits;
    // Where they are in the sorted new_dependencies_ and new_waits_.
    size_t dependency = 0, wait = 0;
  };

  /// Appends the predecessors of task `n`, each once, to those in `found` from `begin` on, which it has
  /// already.
  void AppendPredecessors(size_t n, size_t begin, Found* found) {
    std::vector<TaskId>* list = &found->tasks;
    const TaskId task(static_cast<uint32_t>(n));
    for (FileId file : g_.inputs(task)) {
      const TaskId producer = FindProducer(file);
      g_.files_.set_read(file);
      if (producer && producer != task) list->push_back(producer);
    }
    const auto& dependencies = g_.new_dependencies_;
    size_t& at = found->dependency;
    for (; at < dependencies.size() && dependencies[at].first == task; ++at)
      list->push_back(dependencies[at].second);
    if (list->size() - begin > 1) {
      std::sort(list->begin() + static_cast<ptrdiff_t>(begin), list->end());
      list->erase(std::unique(list->begin() + static_cast<ptrdiff_t>(begin), list->end()), list->end());
    }
    AppendWaits(task, begin, found);
  }

  /// Those that task `task` only waits for, which it does not need anyway.
  void AppendWaits(TaskId task, size_t begin, Found* found) {
    std::vector<TaskId> waits;
    if (task.value < first_ && !g_.only_waits_.empty()) {
      for (TaskId before : g_.predecessors(task)) {
        if (g_.OnlyWaits(before, task)) waits.push_back(before);
      }
    }
    for (; found->wait < g_.new_waits_.size() && g_.new_waits_[found->wait].first == task; ++found->wait)
      waits.push_back(g_.new_waits_[found->wait].second);
    if (waits.empty()) return;
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    const auto needed = found->tasks.begin() + static_cast<ptrdiff_t>(begin);
    const std::vector<TaskId> needs(needed, found->tasks.end());
    std::vector<TaskId> only;
    std::set_difference(waits.begin(), waits.end(), needs.begin(), needs.end(), std::back_inserter(only));
    found->tasks.resize(begin);
    std::set_union(needs.begin(), needs.end(), only.begin(), only.end(), std::back_inserter(found->tasks));
    found->only_waits.resize(begin);
    for (size_t i = begin; i < found->tasks.size(); ++i)
      found->only_waits.push_back(std::binary_search(only.begin(), only.end(), found->tasks[i]));
  }

  /// Everything anew: the first time, and when an old task gets predecessors.
  void LinkAll() {
    Found found;
    found.tasks.reserve(g_.io_.size() / 2);
    std::vector<uint32_t> begin;
    begin.reserve(count_ + 1);
    for (size_t n = 0; n < count_; ++n) {
      const size_t start = found.tasks.size();
      begin.push_back(static_cast<uint32_t>(start));
      if (n < first_) {
        const TaskId task(static_cast<uint32_t>(n));
        for (TaskId before : g_.predecessors(task)) {
          if (!g_.OnlyWaits(before, task)) found.tasks.push_back(before);
        }
      }
      AppendPredecessors(n, start, &found);
    }
    begin.push_back(static_cast<uint32_t>(found.tasks.size()));
    g_.predecessors_ = std::move(found.tasks);
    g_.only_waits_ = std::move(found.only_waits);
    g_.predecessor_begin_ = std::move(begin);

    g_.room_.clear();
    for (size_t n = 0; n < count_; ++n) g_.links_[n].successor_count = 0;
    for (TaskId before : g_.predecessors_) ++g_.links_[before.value].successor_count;
    uint32_t sum = 0;
    for (size_t n = 0; n < count_; ++n) {
      g_.links_[n].successors = sum;
      sum += g_.links_[n].successor_count;
      g_.links_[n].successor_count = 0;
    }
    g_.successors_ = std::vector<TaskId>(sum);
    for (size_t n = 0; n < count_; ++n) {
      const TaskId task(static_cast<uint32_t>(n));
      for (TaskId before : g_.predecessors(task)) {
        Graph::Links& links = g_.links_[before.value];
        g_.successors_[links.successors + links.successor_count++] = task;
      }
    }

    const std::vector<Level> old(g_.levels_.begin(), g_.levels_.begin() + static_cast<ptrdiff_t>(first_));
    ComputeLevels(0);
    for (size_t n = 0; n < first_; ++n) {
      if (g_.levels_[n] != old[n]) g_.relevelled_.emplace_back(static_cast<uint32_t>(n));
    }
  }

  /// What was added, when nothing old waits for it.
  void LinkNew() {
    Found found{std::move(g_.predecessors_), std::move(g_.only_waits_)};
    for (size_t n = first_; n < count_; ++n) {
      AppendPredecessors(n, found.tasks.size(), &found);
      g_.predecessor_begin_.push_back(static_cast<uint32_t>(found.tasks.size()));
    }
    g_.predecessors_ = std::move(found.tasks);
    g_.only_waits_ = std::move(found.only_waits);
    std::vector<std::pair<TaskId, TaskId>> edges;  // before, after
    for (size_t n = first_; n < count_; ++n) {
      const TaskId task(static_cast<uint32_t>(n));
      for (TaskId before : g_.predecessors(task)) edges.emplace_back(before, task);
    }
    std::sort(edges.begin(), edges.end());
    for (size_t i = 0; i < edges.size();) {
      size_t end = i;
      while (end < edges.size() && edges[end].first == edges[i].first) ++end;
      AddSuccessors(edges[i].first, std::span(edges).subspan(i, end - i));
      i = end;
    }
    ComputeLevels(first_);
    if (problems_ == 0) RaiseLevels();
  }

  void AddSuccessors(TaskId before, std::span<const std::pair<TaskId, TaskId>> edges) {
    Graph::Links& links = g_.links_[before.value];
    const auto old_count = links.successor_count;
    const auto count = static_cast<uint32_t>(old_count + edges.size());
    const auto known = g_.room_.find(before.value);
    const uint32_t room = known == g_.room_.end() ? old_count : known->second;
    if (count > room) {
      const uint32_t new_room = before.value < first_ ? std::bit_ceil(count) : count;
      const auto place = static_cast<uint32_t>(g_.successors_.size());
      g_.successors_.resize(g_.successors_.size() + new_room);
      std::copy_n(g_.successors_.begin() + links.successors, old_count, g_.successors_.begin() + place);
      links.successors = place;
      if (new_room > count) g_.room_[before.value] = new_room;
    }
    for (size_t i = 0; i < edges.size(); ++i)
      g_.successors_[links.successors + old_count + i] = edges[i].second;
    links.successor_count = count;
  }

  /// Levels of the tasks from `first` on; their successors are all among them.
  void ComputeLevels(size_t first) {
    std::fill(g_.levels_.begin() + static_cast<ptrdiff_t>(first), g_.levels_.end(), 0);
    if (g_.predecessors_.empty()) return;
    std::vector<uint32_t> open(count_ - first);  // successors without a level yet
    std::vector<uint32_t> order;
    order.reserve(count_ - first);
    for (size_t n = first; n < count_; ++n) {
      open[n - first] = g_.links_[n].successor_count;
      if (open[n - first] == 0) order.push_back(static_cast<uint32_t>(n));
    }
    for (size_t i = 0; i < order.size(); ++i) {
      const TaskId task(order[i]);
      const Level above = g_.levels_[task.value] + 1;
      for (TaskId before : g_.predecessors(task)) {
        if (before.value < first) continue;
        Level& level = g_.levels_[before.value];
        level = std::max(level, above);
        if (--open[before.value - first] == 0) order.push_back(before.value);
      }
    }
    if (order.size() < count_ - first) ReportCycles(first, open);
  }

  /// Every task with open successors leads to a cycle: following them must come back to where it has been.
  void ReportCycles(size_t first, const std::vector<uint32_t>& open) {
    const auto is_open = [&](TaskId task) { return task.value >= first && open[task.value - first] > 0; };
    std::vector<uint32_t> seen_in(count_ - first, 0);  // number of the walk that came here
    uint32_t walk = 0;
    for (size_t n = first; n < count_; ++n) {
      TaskId at(static_cast<uint32_t>(n));
      if (!is_open(at) || seen_in[n - first] > 0) continue;
      ++walk;
      std::vector<TaskId> path;
      while (at && seen_in[at.value - first] == 0) {
        seen_in[at.value - first] = walk;
        path.push_back(at);
        const auto next = g_.successors(at);
        const auto it = std::find_if(next.begin(), next.end(), is_open);
        at = it == next.end() ? TaskId() : *it;
      }
      if (!at || seen_in[at.value - first] != walk) continue;
      path.erase(path.begin(), std::find(path.begin(), path.end(), at));
      std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
      ReportCycle(path);
    }
  }

  void ReportCycle(const std::vector<TaskId>& cycle) {
    constexpr size_t kShown = 12;
    std::string text;
    for (size_t i = 0; i < cycle.size(); ++i) {
      if (cycle.size() > kShown && i == kShown - 2) {
        text += StrCat("(", cycle.size() - kShown + 1, " more) -> ");
        i = cycle.size() - 1;
      }
      text += StrCat(Printable(g_.TaskName(cycle[i]), 60), " -> ");
    }
    text += Printable(g_.TaskName(cycle.front()), 60);
    Problem(cycle.front(),
            StrCat("tasks wait for each other in a cycle: ", text, "; remove one of these dependencies"));
  }

  /// New tasks push the old ones that they need to higher levels.
  void RaiseLevels() {
    std::vector<TaskId> raised;
    const auto raise = [&](TaskId task) {
      for (TaskId before : g_.predecessors(task)) {
        if (before.value >= first_ || g_.levels_[before.value] > g_.levels_[task.value]) continue;
        g_.levels_[before.value] = g_.levels_[task.value] + 1;
        raised.push_back(before);
      }
    };
    for (size_t n = first_; n < count_; ++n) raise(TaskId(static_cast<uint32_t>(n)));
    for (size_t i = 0; i < raised.size(); ++i) raise(raised[i]);
    std::sort(raised.begin(), raised.end());
    raised.erase(std::unique(raised.begin(), raised.end()), raised.end());
    g_.relevelled_ = std::move(raised);
  }

  void Finish() {
    g_.new_dependencies_ = {};
    g_.new_waits_ = {};
    g_.new_starts_ = {};
    g_.second_producers_ = {};
    g_.late_products_ = {};
    if (first_ == 0) {
      g_.tasks_.shrink_to_fit();
      g_.links_.shrink_to_fit();
      g_.levels_.shrink_to_fit();
      g_.io_.shrink_to_fit();
      g_.predecessors_.shrink_to_fit();
      g_.predecessor_begin_.shrink_to_fit();
      g_.only_waits_.shrink_to_fit();
      g_.recorded_.shrink_to_fit();
      g_.files_.ShrinkToFit();
      // Most flows never grow, and few are asked for a task by name: FindTask makes the index again.
      g_.names_.Clear();
      g_.named_up_to_ = 0;
    }
    g_.sealed_ = count_;
    ++g_.seal_count_;
  }

  Graph& g_;
  const size_t max_problems_;
  const size_t first_;  // first task that is not linked yet
  const size_t count_;
  size_t problems_ = 0;
  std::string text_;
};

Status Graph::Seal(size_t max_problems) {
  if (sealed_ == task_count() && new_dependencies_.empty() && new_waits_.empty() && new_starts_.empty() &&
      sealed_ > 0) {
    relevelled_.clear();
    return Status();
  }
  return Sealer(this, max_problems).Run();
}

}  // namespace harrow::graph
