// New tasks write and read streams that are there, and new ones.
//
// A reader that is there waits for a new writer from then on, so what is submitted could lead to a cycle, which a sealed graph is
// not to find first (submissions.cc). Every such cycle goes through a new task, so what can be reached from these is looked through,
// those that share a stream (share = "split") taken for one, as they are done together (formats/streams.cc).

#include "server/connections.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "formats/streams.h"

namespace harrow::server {
namespace {

constexpr size_t kLongestName = 1024;
constexpr uint32_t kMostRecord = 1u << 20;
constexpr size_t kLongestShown = 60;
constexpr uint64_t kMostPairs = 50'000'000;  // as of flow files

Status Refused(const std::string& what) {
  return Status(Code::kInvalid, what);
}
std::string Quote(const std::string& name) {
  return StrCat("'", Printable(name, kLongestShown), "'");
}

Status CheckName(const std::string& name) {
  if (name.empty()) return Refused("a stream has an empty name; leave it out");
  if (name.size() > kLongestName) return Refused(StrCat("a stream has a name of ", name.size(), " bytes; at most ", kLongestName, " are taken"));
  if (name.find('\0') != std::string::npos) return Refused("the name of a stream holds a NUL");
  return {};
}

}  // namespace

bool Connections::Any(const pb::SubmitRequest& request) {
  return request.stream_size() > 0 || std::any_of(request.task().begin(), request.task().end(), [](const pb::SubmittedTask& task) {
           return task.from_size() + task.to_size() + task.open_size() > 0;
         });
}

Status Connections::Check(const pb::SubmitRequest& request) {
  for (const pb::StreamRequest& asked : request.stream()) HARROW_RETURN_IF_ERROR(CheckName(asked.name()));
  for (const pb::SubmittedTask& task : request.task()) {
    for (const auto* names : {&task.from(), &task.to(), &task.open()}) {
      for (const std::string& name : *names) HARROW_RETURN_IF_ERROR(CheckName(name));
    }
    if (task.from_size() + task.to_size() == 0) continue;
    if (BytesOf(task.records()) > kMostRecord) return Refused(StrCat("records of a stream have at most ", kMostRecord, " bytes"));
    const pb::Profile& profile = request.profile(static_cast<int>(task.profile()));
    const bool by_criu = profile.checkpoint().by() == static_cast<uint32_t>(graph::Checkpointing::By::kCriu);
    if (const std::string_view why = formats::WhyNoStreams(profile.ranks() > 0 || profile.nodes() > 1, by_criu); !why.empty())
      return Refused(std::string(why));
    if (task.from_size() > 0 && !profile.stdin_path().empty())
      return Refused("from and stdin exclude each other, as a task has one standard input; leave one of them out");
    if (task.to_size() > 0 && !profile.stdout_path().empty())
      return Refused("to and stdout exclude each other, as a task has one standard output; leave one of them out");
  }
  return {};
}

bool Connections::Same(const graph::Graph& run, TaskId there, const pb::SubmittedTask& task) {
  const auto same = [&](std::span<const graph::StreamEnd> ends, const auto& names, const auto& fits) {
    std::unordered_set<std::string> given(names.begin(), names.end());
    return given.size() == ends.size() && std::all_of(ends.begin(), ends.end(), [&](const graph::StreamEnd& end) {
             const graph::Stream& stream = run.streams()[end.second.value];
             return given.contains(stream.name) && fits(stream);
           });
  };
  return same(run.streams_read(there), task.from(), [&](const graph::Stream& s) { return s.split == task.split(); }) &&
         same(run.streams_written(there), task.to(), [&](const graph::Stream& s) { return s.records == task.records(); });
}

Connections::Joined& Connections::Of(const std::string& name) {
  const auto [at, added] = joined_.try_emplace(name);
  Joined& joined = at->second;
  if (!added) return joined;
  if (const std::optional<StreamId> known = run_.FindStream(name)) {
    joined.known = true;
    joined.stream = *known;
    joined.split = run_.streams()[known->value].split;
    joined.records = run_.streams()[known->value].records;
  }
  return joined;
}

std::string Connections::NameOf(uint32_t task) const {
  if (!IsNew(task)) return Quote(run_.TaskName(TaskId(task)));
  const auto place = static_cast<int>(std::find(ids_.begin(), ids_.end(), task) - ids_.begin());
  const std::string& name = request_.task(place).name();
  return name.empty() ? "the new one" : Quote(name);
}

Status Connections::Ask(const pb::StreamRequest& asked) {
  Joined& joined = Of(asked.name());
  if (asked.what() != pb::StreamRequest::OPEN && !joined.known)
    return Refused(StrCat("there is no stream ", Quote(asked.name()), " in the run"));
  switch (asked.what()) {
    case pb::StreamRequest::RELEASE:
      joined.release.push_back(asked.by());
      return {};
    case pb::StreamRequest::CLOSE:
      joined.close = true;
      return {};
    default:
      break;
  }
  TaskId until;
  if (!asked.task().empty()) {
    const std::optional<TaskId> task = run_.FindTask(asked.task());
    if (!task) return Refused(StrCat("there is no task ", Quote(asked.task()), " in the run that could hold a stream open"));
    until = *task;
  }
  joined.hold.push_back({asked.by(), until});
  return {};
}

Status Connections::AddReader(const std::string& name, uint32_t task, bool split) {
  Joined& joined = Of(name);
  const bool said = !joined.readers.empty() || (joined.known && !run_.streams()[joined.stream.value].readers.empty());
  if (said && joined.split != split)
    return Refused(StrCat("stream ", Quote(name), " is ", joined.split ? "split" : "whole", " for those that read it already; write the same share"));
  joined.split = split;
  if (std::find(joined.readers.begin(), joined.readers.end(), task) == joined.readers.end()) joined.readers.push_back(task);
  return {};
}

Status Connections::AddWriter(const std::string& name, uint32_t task, Records records) {
  Joined& joined = Of(name);
  const bool said = !joined.writers.empty() || (joined.known && !run_.streams()[joined.stream.value].writers.empty());
  if (said && joined.records != records)
    return Refused(StrCat("stream ", Quote(name), " consists of other records for another of its writers; write the same records"));
  joined.records = records;
  if (std::find(joined.writers.begin(), joined.writers.end(), task) == joined.writers.end()) joined.writers.push_back(task);
  return {};
}

/// What nobody writes, and nobody may yet, is a slip.
Status Connections::CheckWritten() const {
  uint64_t pairs = 0;
  for (const auto& [name, joined] : joined_) {
    const graph::Stream none, &there = joined.known ? run_.streams()[joined.stream.value] : none;
    pairs += joined.writers.size() * (there.readers.size() + joined.readers.size()) + there.writers.size() * joined.readers.size();
    if (pairs > kMostPairs)
      return Refused(StrCat("streams mean more than ", kMostPairs, " pairs of writer and reader; put one task between the two families"));
    if (joined.readers.empty()) continue;
    for (const uint32_t reader : joined.readers) {
      if (std::find(joined.writers.begin(), joined.writers.end(), reader) != joined.writers.end())
        return Refused(StrCat("task ", NameOf(reader), " reads stream ", Quote(name), ", which it writes itself; let another task read it"));
    }
    const bool written = !joined.writers.empty() || (joined.known && !run_.streams()[joined.stream.value].writers.empty());
    const bool held = !joined.hold.empty() || (joined.known && !run_.streams()[joined.stream.value].holds.empty());
    if (!written && !held)
      return Refused(StrCat("no task writes stream ", Quote(name), "; submit the task that does with it or before, or hold the stream open (harrow submit --open-stream)"));
  }
  return {};
}

Status Connections::Plan(const std::vector<std::vector<uint32_t>>& after) {
  for (const pb::StreamRequest& asked : request_.stream()) HARROW_RETURN_IF_ERROR(Ask(asked));
  for (size_t n = 0; n < ids_.size(); ++n) {
    if (!IsNew(ids_[n])) continue;
    const pb::SubmittedTask& task = request_.task(static_cast<int>(n));
    for (const std::string& name : task.to()) HARROW_RETURN_IF_ERROR(AddWriter(name, ids_[n], task.records()));
    for (const std::string& name : task.open()) Of(name).hold.push_back({"", TaskId(ids_[n])});
    for (const std::string& name : task.from()) HARROW_RETURN_IF_ERROR(AddReader(name, ids_[n], task.split()));
  }
  HARROW_RETURN_IF_ERROR(CheckWritten());
  return CheckCycles(after);
}

std::vector<StreamId> Connections::NeedOpen() const {
  std::vector<StreamId> streams;
  for (const auto& [_, joined] : joined_) {
    const bool joins = !(joined.writers.empty() && joined.readers.empty() && joined.hold.empty());
    if (joined.known && joins && !IsHeldAgain(joined)) streams.push_back(joined.stream);
  }
  return streams;
}

bool Connections::IsHeldAgain(const Joined& joined) const {
  const auto held_before = [&](const graph::StreamHold& hold) {
    const auto held = run_.streams_held(hold.task);
    return hold.task && std::any_of(held.begin(), held.end(), [&](const graph::StreamEnd& end) { return end.second == joined.stream; });
  };
  return joined.known && joined.writers.empty() && joined.readers.empty() && !joined.hold.empty() &&
         std::all_of(joined.hold.begin(), joined.hold.end(), held_before);
}

std::vector<StreamId> Connections::HeldAgain() const {
  std::vector<StreamId> streams;
  for (const auto& [_, joined] : joined_) {
    if (IsHeldAgain(joined)) streams.push_back(joined.stream);
  }
  return streams;
}

void Connections::LeaveEnded(StreamId stream) {
  for (auto& [_, joined] : joined_) {
    if (joined.known && joined.stream == stream) joined.hold.clear();
  }
}

void Connections::Write(pb::FlowChunk* chunk) const {
  for (const auto& [name, joined] : joined_) {
    pb::StoredStream& stored = *chunk->add_stream();
    stored.set_name(name);
    stored.set_split(joined.split);
    stored.set_records(joined.records);
    for (const uint32_t writer : joined.writers) stored.add_writer(writer);
    for (const uint32_t reader : joined.readers) stored.add_reader(reader);
    stored.set_close(joined.close);
    for (const std::string& by : joined.release) stored.add_release(by);
    for (const graph::StreamHold& hold : joined.hold) {
      pb::StreamHold& held = *stored.add_hold();
      held.set_by(hold.by);
      held.set_task(hold.task ? hold.task.value + 1 : 0);
    }
  }
}

TaskId ProducerOf(const graph::Graph& graph, const std::string& name) {
  for (std::string_view at = name; !at.empty();) {
    const std::optional<FileId> file = graph.FindFile(at);
    if (file && graph.producer(*file)) return graph.producer(*file);
    const size_t slash = at.rfind('/');
    at = slash == std::string_view::npos ? std::string_view() : at.substr(0, slash);
  }
  return TaskId();
}

/// Of the run and what comes to it, as far as it can be reached from new tasks.
Status Connections::CheckCycles(const std::vector<std::vector<uint32_t>>& after) const {
  std::unordered_map<uint32_t, std::vector<uint32_t>> more;                        // successors beside those of the run's graph
  std::unordered_map<uint32_t, std::vector<const Joined*>> shares_known;  // split streams of a reader that is there or new
  for (size_t n = 0; n < ids_.size(); ++n) {
    if (!IsNew(ids_[n])) continue;
    for (const uint32_t before : after[n]) more[before].push_back(ids_[n]);
    for (const FileId file : own_.inputs(TaskId(static_cast<uint32_t>(n)))) {
      const TaskId own = own_.producer(file);
      if (own) more[ids_[own.value]].push_back(ids_[n]);
      if (const TaskId there = ProducerOf(run_, std::string(own_.file_name(file)))) more[there.value].push_back(ids_[n]);
    }
  }
  const auto each_reader = [&](const Joined& joined, const auto& use) {
    if (joined.known) {
      for (const TaskId reader : run_.streams()[joined.stream.value].readers) use(reader.value);
    }
    for (const uint32_t reader : joined.readers) use(reader);
  };
  bool connects = false;
  for (const auto& [_, joined] : joined_) {
    connects |= !joined.readers.empty() || !joined.writers.empty() || !joined.hold.empty();
    for (const uint32_t writer : joined.writers) each_reader(joined, [&](uint32_t reader) { more[writer].push_back(reader); });
    if (joined.known) {
      for (const TaskId writer : run_.streams()[joined.stream.value].writers) {
        for (const uint32_t reader : joined.readers) more[writer.value].push_back(reader);
      }
    }
    // Who holds it open by itself is waited for until its end.
    const auto holds = [&](const graph::StreamHold& hold, const auto& use) {
      if (hold.task && hold.by.empty()) use(hold.task.value);
    };
    for (const graph::StreamHold& hold : joined.hold)
      holds(hold, [&](uint32_t holder) { each_reader(joined, [&](uint32_t reader) { more[holder].push_back(reader); }); });
    if (joined.known) {
      for (const graph::StreamHold& hold : run_.streams()[joined.stream.value].holds)
        holds(hold, [&](uint32_t holder) { more[holder].insert(more[holder].end(), joined.readers.begin(), joined.readers.end()); });
    }
    if (joined.split && !joined.readers.empty()) each_reader(joined, [&](uint32_t reader) { shares_known[reader].push_back(&joined); });
  }
  if (!connects) return {};
  // Those that share streams, each as one.
  std::unordered_map<uint32_t, size_t> group_of;
  std::vector<std::vector<uint32_t>> groups;
  const auto group = [&](uint32_t task) {
    if (const auto known = group_of.find(task); known != group_of.end()) return known->second;
    const size_t number = groups.size();
    std::vector<uint32_t> members = {task};
    group_of[task] = number;
    const auto add = [&](uint32_t other) {
      if (group_of.try_emplace(other, number).second) members.push_back(other);
    };
    for (size_t i = 0; i < members.size(); ++i) {
      if (const auto shared = shares_known.find(members[i]); shared != shares_known.end()) {
        for (const Joined* joined : shared->second) each_reader(*joined, add);
      }
      if (IsNew(members[i])) continue;
      for (const auto& [_, stream] : run_.streams_read(TaskId(members[i]))) {
        if (!run_.streams()[stream.value].split) continue;
        for (const TaskId reader : run_.streams()[stream.value].readers) add(reader.value);
      }
    }
    groups.push_back(std::move(members));
    return number;
  };
  // Depth first, without recursion.
  struct Edge {
    uint32_t from, to;
  };
  struct Visit {
    size_t group;
    std::vector<Edge> edges;
    size_t next = 0;
  };
  std::unordered_map<size_t, bool> open;  // false: it has been looked through
  std::vector<Visit> path;
  const auto enter = [&](size_t number) {
    Visit visit{number, {}};
    for (const uint32_t member : groups[number]) {
      if (const auto extra = more.find(member); extra != more.end()) {
        for (const uint32_t to : extra->second) visit.edges.push_back({member, to});
      }
      if (IsNew(member)) continue;
      for (const TaskId to : run_.successors(TaskId(member))) visit.edges.push_back({member, to.value});
      for (const auto& [_, stream] : run_.streams_held(TaskId(member))) {
        const graph::Stream& held = run_.streams()[stream.value];
        const bool by_itself = std::any_of(held.holds.begin(), held.holds.end(),
                                           [&](const graph::StreamHold& hold) { return hold.task.value == member && hold.by.empty(); });
        for (const TaskId reader : held.readers) {
          if (by_itself) visit.edges.push_back({member, reader.value});
        }
      }
    }
    open[number] = true;
    path.push_back(std::move(visit));
  };
  std::vector<uint32_t> starts = ids_;
  for (const auto& [_, joined] : joined_) {
    for (const graph::StreamHold& hold : joined.hold) {
      if (hold.task && hold.by.empty()) starts.push_back(hold.task.value);
    }
  }
  for (const uint32_t id : starts) {
    if (open.contains(group(id))) continue;
    enter(group(id));
    while (!path.empty()) {
      if (path.back().next == path.back().edges.size()) {
        open[path.back().group] = false;
        path.pop_back();
        continue;
      }
      const Edge edge = path.back().edges[path.back().next++];
      const size_t to = group(edge.to);
      const auto seen = open.find(to);
      if (seen == open.end()) {
        enter(to);
      } else if (seen->second) {
        return Refused(groups[to].size() > 1
                           ? StrCat("tasks that share a stream (split) are done together, and one of them would wait for another: ",
                                    NameOf(edge.to), " for ", NameOf(edge.from))
                           : StrCat("tasks would wait for each other in a circle: ", NameOf(edge.to), " for ", NameOf(edge.from),
                                    ", which waits for it; connect them in one direction"));
      }
    }
  }
  return {};
}

}  // namespace harrow::server
