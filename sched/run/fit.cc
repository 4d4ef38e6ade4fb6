#include "run/fit.h"

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace harrow::run {
namespace {

bool Exceeds(uint64_t asked, uint64_t most) {
  return most > 0 && asked > most;
}

bool Holds(const NodeCapacity& node, const Shape& part) {
  return !Exceeds(part.cores, node.slots) && !Exceeds(part.devices, node.devices) &&
         !Exceeds(part.memory, node.memory);
}

/// Over how many nodes its ranks are spread at most where it says nothing of nodes; 1: they are not.
uint32_t MostSpread(const graph::Profile& profile) {
  return profile.ranks > 1 && profile.shape.nodes <= 1 && !profile.shape.whole_node ? profile.ranks : 1;
}

/// The smallest thing that has to be on one node: one rank where they may be spread.
Shape SmallestPart(const graph::Profile& profile) {
  const uint32_t spread = MostSpread(profile);
  return profile.Part(spread > 1 ? spread : std::max(1u, profile.shape.nodes), 0);
}

/// How many of the job's nodes it needs; 0: they are not enough.
uint32_t NodesFor(const graph::Profile& profile, const JobNodes& job) {
  const uint32_t named = std::max(1u, profile.shape.nodes);
  const uint32_t most = std::max(named, MostSpread(profile));
  const Shape smallest = SmallestPart(profile);
  if (std::none_of(job.nodes.begin(), job.nodes.end(),
                   [&](const NodeCapacity& node) { return Holds(node, smallest); }))
    return 0;
  for (uint32_t count = named; count <= most; ++count) {
    const Shape part = profile.Part(count, 0);
    const auto able = static_cast<uint64_t>(std::count_if(
        job.nodes.begin(), job.nodes.end(), [&](const NodeCapacity& node) { return Holds(node, part); }));
    if (able >= count || (able > 0 && !job.counted)) return count;
    if (job.counted && count >= job.nodes.size()) return 0;
  }
  return 0;
}

/// What a task asks for is its profile's, of which there are few.
Misfits Find(const graph::Graph& graph, const std::vector<bool>& left_out,
             const std::function<bool(const graph::Profile&)>& misfits) {
  std::vector<bool> bad(graph.profile_count());
  for (uint32_t i = 0; i < bad.size(); ++i) bad[i] = misfits(graph.profile(ProfileId(i)));
  Misfits found;
  for (uint32_t i = 0; i < graph.task_count(); ++i) {
    if (i < left_out.size() && left_out[i]) continue;
    ++found.of;
    const TaskId task(i);
    if (!bad[graph.profile_id(task).value]) continue;
    if (found.tasks++ == 0) found.first = task;
  }
  return found;
}

}  // namespace

std::string Misfits::Text() const {
  if (all()) return of == 1 ? "the task" : "all tasks";
  return StrCat(tasks, " of ", of, " tasks");
}

Misfits FindTooLong(const graph::Graph& graph, const std::vector<bool>& left_out, Duration time,
                    Duration margin) {
  return Find(graph, left_out, [&](const graph::Profile& profile) {
    return profile.time_limit > Duration(0) && profile.time_limit >= time - margin;
  });
}

NodeCapacity JobNodes::largest() const {
  NodeCapacity most;
  for (const NodeCapacity& node : nodes) {
    most.slots = std::max(most.slots, node.slots);
    most.devices = std::max(most.devices, node.devices);
    most.memory = std::max(most.memory, node.memory);
  }
  return most;
}

Misfits FindTooLarge(const graph::Graph& graph, const std::vector<bool>& left_out, const JobNodes& job) {
  if (job.nodes.empty()) return {};
  return Find(graph, left_out, [&](const graph::Profile& profile) { return NodesFor(profile, job) == 0; });
}

std::string TooLargeText(const graph::Profile& profile, const JobNodes& job, const std::string& where) {
  const NodeCapacity most = job.largest();
  const Shape part = SmallestPart(profile);
  const std::string each = MostSpread(profile) > 1 ? " a rank" : profile.shape.nodes > 1 ? " a node" : "";
  const auto text = [&](const std::string& asked, const std::string& there) {
    return StrCat(asked, each, ", and no node of ", where, " has more than ", there);
  };
  if (Exceeds(part.cores, most.slots)) return text(StrCat(part.cores, " cores"), StrCat(most.slots));
  if (Exceeds(part.devices, most.devices)) return text(StrCat(part.devices, " GPUs"), StrCat(most.devices));
  if (Exceeds(part.memory, most.memory)) {
    return StrCat(FormatBytes(part.memory), " of memory", profile.shape.nodes > 1 ? " a node" : "",
                  ", and no node of ", where, " has more than ", FormatBytes(most.memory));
  }
  if (MostSpread(profile) == 1 && !job.nodes.empty() && profile.shape.nodes > job.nodes.size())
    return StrCat(profile.shape.nodes, " nodes, and ", where, " has ", job.nodes.size());
  if (MostSpread(profile) == 1)
    return StrCat(profile.shape.nodes, " nodes, and ", where, " has fewer that are large enough");
  const std::string asked = StrCat(
      profile.ranks, " ranks", part.cores > 1 ? StrCat(" of ", part.cores, " cores") : "",
      part.devices > 0
          ? StrCat(part.cores > 1 ? " and " : " of ", part.devices, part.devices == 1 ? " GPU" : " GPUs")
          : "");
  uint64_t room = 0;
  for (const NodeCapacity& node : job.nodes) {
    uint64_t here = node.slots > 0 ? node.slots / part.cores : profile.ranks;
    if (part.devices > 0 && node.devices > 0) here = std::min<uint64_t>(here, node.devices / part.devices);
    room += here;
  }
  if (room < profile.ranks)
    return StrCat(asked, ", and all nodes of ", where, " together have room for ", room);
  return StrCat(asked, ", as many on each node, for which the nodes of ", where, " are not large enough");
}

Widest FindWidest(const graph::Graph& graph, const std::vector<bool>& left_out, const NodeCapacity& each) {
  const JobNodes job{.nodes = {each}, .counted = false};
  std::vector<uint32_t> needs(graph.profile_count());
  for (uint32_t i = 0; i < needs.size(); ++i) needs[i] = NodesFor(graph.profile(ProfileId(i)), job);
  Widest widest;
  for (uint32_t i = 0; i < graph.task_count(); ++i) {
    if (i < left_out.size() && left_out[i]) continue;
    const uint32_t nodes = needs[graph.profile_id(TaskId(i)).value];
    if (nodes > widest.nodes) widest = {nodes, TaskId(i)};
  }
  return widest;
}

}  // namespace harrow::run
