#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "graph/graph.h"

namespace harrow::formats {

/// What a task can say besides its command and files: by `key = value` in a flow file, by #HARROW key=value
/// in a line file.
struct TaskAttributes {
  graph::Profile profile;
  bool cores_given = false;     // else they are a default, or one
  uint32_t ranks_per_node = 0;  // the most ranks of a node; 0: as many as `nodes` makes it
  std::string kind;
  std::optional<Duration> run_time;  // recorded, for simulation
  double bound = graph::kNoBound;    // graph::TaskSpec::bound

  /// The profile with what follows from other keys: `cores` and `gpus` of a task with ranks are those of
  /// one; a rank has a core where nothing else is said of this task. `ranks_per_node` is a number of nodes.
  graph::Profile Resolved() const;
  /// Of a task with ranks: how many nodes these ask for.
  uint32_t NodesOfRanks() const;
};

/// How its restart_command is started, of which every text is filled in.
void FindRestartForm(graph::Profile* profile);

/// Sets one attribute from its text. kInvalid: unknown key or bad value; the text says what is wrong and what
/// would be right.
Status SetAttribute(std::string_view key, std::string_view value, TaskAttributes* attributes);
/// Adds or replaces a variable of the environment.
Status SetVariable(std::string_view name, std::string_view value, TaskAttributes* attributes);

/// What `key` says that another key forbids, or asks for; OK for every other key. Of all keys together.
Status Contradiction(std::string_view key, const TaskAttributes& attributes);

/// The keys of SetAttribute.
const std::vector<std::string_view>& AttributeKeys();
/// It is about the checkpoints of a task.
bool IsCheckpointKey(std::string_view key);
/// "; did you mean cores?": knows the words of other systems as well (mem, cpus, walltime, inputs).
std::string SuggestKey(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace harrow::formats
