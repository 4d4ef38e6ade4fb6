#include "agent/task_needs.h"

#include <algorithm>

#include "agent/steps/environment.h"
#include "agent/steps/gang.h"

namespace harrow::agent {

Needs NeedsOf(const LocalTask& task) {
  const ProfileSpec& spec = task.profile->spec();
  const bool several = task.gang != nullptr;
  if (several && !task.gang->has_processes()) return {.whole_node = true};
  const uint32_t processes = std::max<uint32_t>(1, several ? task.gang->ranks_here() : spec.ranks);
  return {.processes = processes,
          .cores = spec.cores_of_rank(),
          .devices = spec.devices / spec.most_ranks_of_node(),
          .memory = spec.memory,
          .whole_node = processes == 1 && (spec.whole_node || (several && spec.ranks == 0)),
          .time_limit = spec.time_limit,
          .warn_before = spec.warn_signal > 0 ? spec.warn_before : Duration(0),
          .checkpoint = !spec.checkpoint.on                                    ? Needs::Asked::kNot
                        : spec.checkpoint.ask == CheckpointSpec::Ask::kNone ? Needs::Asked::kByEnd
                                                                             : Needs::Asked::kByQuestion,
          .ask_all = spec.checkpoint.ask_all,
          .ask_none = several && !task.gang->leads() && !spec.checkpoint.ask_all,
          .checkpoint_every = spec.checkpoint.every,
          .checkpoint_time = spec.checkpoint.time};
}

}  // namespace harrow::agent
