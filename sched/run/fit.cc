#include "run/fit.h"

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace harrow::run {
namespace {

bool Exceeds(uint64_t asked, uint64_t most) {
  return most > 0 && asked > most;
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
    const Duration time = graph.profile(task).time_limit;
    if (found.shortest == Duration(0) || time < found.shortest) found.shortest = time;
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

Misfits FindTooLarge(const graph::Graph& graph, const std::vector<bool>& left_out, const NodeCapacity& most) {
  Misfits found = Find(graph, left_out, [&](const graph::Profile& profile) {
    return Exceeds(profile.shape.cores, most.slots) || Exceeds(profile.shape.devices, most.devices) ||
           Exceeds(profile.shape.memory, most.memory);
  });
  found.shortest = Duration(0);
  return found;
}

std::string TooLargeText(const Shape& shape, const NodeCapacity& most, const std::string& where) {
  const auto text = [&](const std::string& asked, const std::string& there) {
    return StrCat(asked, ", and no node of ", where, " has more than ", there);
  };
  if (Exceeds(shape.cores, most.slots)) return text(StrCat(shape.cores, " cores"), StrCat(most.slots));
  if (Exceeds(shape.devices, most.devices)) return text(StrCat(shape.devices, " GPUs"), StrCat(most.devices));
  return text(StrCat(FormatBytes(shape.memory), " of memory"), FormatBytes(most.memory));
}

}  // namespace harrow::run
