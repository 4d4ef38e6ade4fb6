#include "formats/streams.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/pattern.h"
#include "formats/pattern_index.h"
#include "formats/text_rules.h"

namespace harrow::formats {

namespace {

bool CheckStreamName(std::string_view key, const std::string& name, SourcePlace place, Problems* problems) {
  if (!name.empty() && name.size() <= 1024) return true;
  problems->Add(place, name.empty() ? StrCat(key, " names a stream with an empty name; leave it out")
                                    : StrCat(key, " names a stream of ", name.size(), " bytes; at most 1024 are taken"));
  return false;
}

}  // namespace

std::string_view WhyNoStreams(bool several_processes, bool by_criu) {
  if (several_processes) return "streams are of tasks of one process, and this one has ranks or nodes; let a task beside it read and write";
  if (by_criu) return "CRIU dumps no task that is joined to others by streams; leave checkpoint = \"criu\" out, or let a task beside it read and write";
  return {};
}

void StreamEnds::AddHolder(TaskId task, std::string name, SourcePlace place) {
  if (!CheckStreamName("open", name, place, problems_)) return;
  const StreamId stream = graph_->AddStream(name);
  graph_->HoldStream(stream, {.by = "", .task = task, .in_flow = true});
  named_.try_emplace(std::move(name), stream);
}

void StreamEnds::AddOpen(std::string name, SourcePlace place) {
  AddHolder(TaskId(), std::move(name), place);
}

void StreamEnds::Add(TaskId task, std::string name, SourcePlace place, bool writer, bool split, Records records) {
  if (!CheckStreamName(writer ? "to" : "from", name, place, problems_)) return;
  if (!IsPattern(name)) named_.try_emplace(name, graph_->AddStream(name));
  ends_.push_back({task, std::move(name), place, writer, split, records});
}

void StreamEnds::Connect(const End& end, StreamId stream) {
  Shared& shared = shared_[stream.value];
  if (end.writer) {
    graph_->AddWriter(stream, end.task);
    if (!shared.written) {
      shared.written = true;
      shared.records = end.records;
      shared.written_place = end.place;
      graph_->SetRecords(stream, end.records);
    } else if (shared.records != end.records) {
      problems_->Add(end.place, StrCat("stream \"", Printable(graph_->streams()[stream.value].name),
                                       "\" consists of other records for another of its writers (",
                                       graph_->PlaceText(shared.written_place),
                                       "); write the same records for all that write it"));
    }
    return;
  }
  if (!shared.known) {
    shared.known = true;
    shared.split = end.split;
    shared.place = end.place;
  }
  if (shared.split != end.split)
    problems_->Add(end.place,
                   StrCat("stream \"", Printable(graph_->streams()[stream.value].name),
                          "\" is split for some readers and whole for others (",
                          graph_->PlaceText(shared.place), "); write the same share for all that read it"));
  if (end.split) graph_->SetSplit(stream);
  graph_->AddReader(stream, end.task);
}

void StreamEnds::Link() {
  if (ends_.empty()) return;
  shared_.resize(graph_->streams().size());
  std::vector<std::string_view> names;
  for (const auto& [name, stream] : named_) names.push_back(name);
  std::optional<PatternIndex> index;
  std::unordered_map<std::string, std::vector<StreamId>> matching;
  for (const bool writers : {true, false}) {
    for (const End& end : ends_) {
      if (end.writer != writers) continue;
      if (problems_->full()) return;
      if (const auto named = named_.find(end.name); named != named_.end()) {
        if (!end.writer && IsSlip(named->second)) {
          std::vector<std::string_view> written;
          for (const graph::Stream& stream : graph_->streams()) {
            if (!stream.writers.empty()) written.push_back(stream.name);
          }
          std::sort(written.begin(), written.end());
          const auto near = Suggest(end.name, written);
          problems_->Add(end.place, StrCat("no task writes stream \"", Printable(end.name), "\"",
                                           near ? StrCat("; did you mean \"", Printable(*near), "\"?")
                                                : "; name it in the to of the task that writes it"));
          continue;
        }
        Connect(end, named->second);
        continue;
      }
      const auto [found, added] = matching.try_emplace(end.name);
      if (added) {
        if (!index) index.emplace(names);
        for (const std::string_view name : index->Candidates(end.name)) {
          if (MatchesPattern(end.name, name)) found->second.push_back(named_.at(std::string(name)));
        }
        std::sort(found->second.begin(), found->second.end());
      }
      // What nobody writes is no stream yet.
      size_t count = 0;
      for (const StreamId stream : found->second) {
        if (!end.writer && IsSlip(stream)) continue;
        Connect(end, stream);
        ++count;
      }
      if (count == 0)
        problems_->Add(end.place, StrCat("\"", Printable(end.name), "\" matches no stream that a task ",
                                         end.writer ? "names" : "writes",
                                         "; correct it, or name the stream in some task's ",
                                         end.writer ? "from" : "to"));
    }
  }
  uint64_t links = 0;
  for (const End& end : ends_) {
    if (end.writer) continue;
    const auto named = named_.find(end.name);
    const auto connect = [&](StreamId stream) {
      for (const TaskId writer : graph_->streams()[stream.value].writers) {
        if (++links > kMostLinks) return;
        if (writer == end.task) {
          problems_->Add(end.place,
                         StrCat("task \"", Printable(graph_->TaskName(writer)), "\" reads stream \"",
                                Printable(graph_->streams()[stream.value].name),
                                "\", which it writes itself; let another task read it"));
          continue;
        }
        graph_->AddDependency(writer, end.task, graph::WaitsFor::kStart);
      }
    };
    if (named != named_.end()) {
      connect(named->second);
    } else {
      for (const StreamId stream : matching[end.name]) connect(stream);
    }
    if (links <= kMostLinks) continue;
    problems_->AddLast(end.place,
                       StrCat("streams mean more than ", kMostLinks,
                              " pairs of writer and reader; put one task between the two families"));
    return;
  }
}

namespace {

/// Tasks that share split streams, directly or by others, taken for one: the graph of these has to have no cycle.
class Sharers {
 public:
  explicit Sharers(const graph::Graph& graph) : graph_(graph), group_(graph.task_count()) {
    for (uint32_t n = 0; n < group_.size(); ++n) group_[n] = n;
    for (const graph::Stream& stream : graph.streams()) {
      if (!stream.split) continue;
      for (const TaskId reader : stream.readers) {
        any_ |= Find(reader.value) != Find(stream.readers[0].value);
        group_[Find(reader.value)] = Find(stream.readers[0].value);
      }
    }
    for (const graph::Stream& stream : graph.streams()) {
      for (const graph::StreamHold& hold : stream.holds) {
        if (!hold.task) continue;
        any_ = true;
        for (const TaskId reader : stream.readers) {
          held_up_[hold.task.value].push_back(reader);
          holders_[reader.value].push_back(hold.task);
        }
      }
    }
  }

  struct Pair {
    TaskId first, waits;
  };
  /// Two of one group of which one waits for the other, if need be by way of further groups.
  std::optional<Pair> FindWaiting() {
    if (!any_) return std::nullopt;
    for (const auto& [holder, readers] : held_up_) {
      if (std::find(readers.begin(), readers.end(), TaskId(holder)) != readers.end()) return Pair{TaskId(holder), TaskId(holder)};
    }
    std::vector<std::vector<TaskId>> members(group_.size());
    std::vector<size_t> open(group_.size(), 0);
    for (uint32_t n = 0; n < group_.size(); ++n) {
      members[Find(n)].push_back(TaskId(n));
      open[Find(n)] += Before(TaskId(n)).size();
    }
    std::vector<uint32_t> ready;
    for (uint32_t n = 0; n < group_.size(); ++n) {
      if (Find(n) == n && open[n] == 0) ready.push_back(n);
    }
    std::vector<bool> taken(group_.size());
    while (!ready.empty()) {
      const uint32_t group = ready.back();
      ready.pop_back();
      taken[group] = true;
      for (const TaskId member : members[group]) {
        for (const TaskId after : graph_.successors(member)) {
          if (--open[Find(after.value)] == 0) ready.push_back(Find(after.value));
        }
        if (const auto held = held_up_.find(member.value); held != held_up_.end()) {
          for (const TaskId after : held->second) {
            if (--open[Find(after.value)] == 0) ready.push_back(Find(after.value));
          }
        }
      }
    }
    // Whatever is left waits for something that is left: going back leads around a cycle.
    const auto left = std::find_if(group_.begin(), group_.end(), [&](uint32_t n) { return !taken[Find(n)]; });
    if (left == group_.end()) return std::nullopt;
    std::unordered_map<uint32_t, size_t> been;  // the step that left it
    std::vector<Pair> steps;                    // one that is waited for, and who waits, of two groups
    for (uint32_t at = Find(*left); been.try_emplace(at, steps.size()).second; at = Find(steps.back().first.value)) {
      for (const TaskId member : members[at]) {
        const std::vector<TaskId> before = Before(member);
        const auto found = std::find_if(before.begin(), before.end(), [&](TaskId b) { return !taken[Find(b.value)]; });
        if (found == before.end()) continue;
        steps.push_back({*found, member});
        break;
      }
    }
    const size_t start = been.at(Find(steps.back().first.value));
    // Who is waited for from outside is another one than who waits: in some group, as no task waits for itself.
    for (size_t i = start; i < steps.size(); ++i) {
      const TaskId waited = steps[i == start ? steps.size() - 1 : i - 1].first;
      if (waited != steps[i].waits) return Pair{waited, steps[i].waits};
    }
    for (size_t i = start; i < steps.size(); ++i) {
      if (held_up_.contains(steps[i].first.value)) return steps[i];
    }
    return std::nullopt;
  }

 private:
  /// Those that it waits for, and those that hold open what it reads.
  std::vector<TaskId> Before(TaskId task) const {
    const auto before = graph_.predecessors(task);
    std::vector<TaskId> all(before.begin(), before.end());
    if (const auto held = holders_.find(task.value); held != holders_.end()) all.insert(all.end(), held->second.begin(), held->second.end());
    return all;
  }
  uint32_t Find(uint32_t n) {
    while (group_[n] != n) n = group_[n] = group_[group_[n]];
    return n;
  }

  const graph::Graph& graph_;
  std::vector<uint32_t> group_;
  std::unordered_map<uint32_t, std::vector<TaskId>> held_up_, holders_;  // readers by who holds a stream open, and the other way round
  bool any_ = false;
};

}  // namespace

void CheckSharers(const graph::Graph& graph, Problems* problems) {
  const auto waiting = Sharers(graph).FindWaiting();
  if (!waiting) return;
  const auto [first, waits] = *waiting;
  if (!graph.streams_held(first).empty() || !graph.streams_held(waits).empty()) {
    const TaskId holder = graph.streams_held(first).empty() ? waits : first;
    problems->Add(graph.place(holder), StrCat("task \"", Printable(graph.TaskName(holder)),
                                              "\" holds a stream open (open) until it has ended, and waits for one that reads it, itself or "
                                              "by others; let what reads a stream come after what holds it open"));
    return;
  }
  problems->Add(graph.place(waits),
                StrCat("tasks \"", Printable(graph.TaskName(first)), "\" and \"", Printable(graph.TaskName(waits)),
                       "\" share a stream (share = \"split\") and so are done together, and one waits for the other; "
                       "let them share no stream, or take away what makes one wait"));
}

}  // namespace harrow::formats
