#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "cost/net.h"
#include "graph/graph.h"

namespace harrow::cost {

/// The arguments of a command, without its program: of one that no shell reads. None: nobody knows them
/// before a shell has read it, or there is no command.
std::optional<std::vector<std::string_view>> ArgumentsOf(std::string_view command, graph::CommandForm form);

/// The net of a sealed graph: its streams; its files whose size is known, as streams of so many bytes; and
/// what else tasks wait for. Tasks keep their numbers. Neighbours of one program that are connected alike are
/// one meta-task. Programs are the graph's models, by their numbers. `seconds_a_unit`: of compute; a task
/// without a model computes its recorded run time, or, where there is none, an unknown amount.
/// kInvalid: a model that is none.
Result<Net> NetOf(const graph::Graph& graph, double seconds_a_unit);
/// The net of some tasks, which rise, and are numbered as they come. Of the others nothing is in it: what they
/// write is not, and what waits for them only ranks after them (`ranks`: by the graph's tasks, RanksOf).
Result<Net> NetOf(const graph::Graph& graph, double seconds_a_unit, std::span<const TaskId> tasks,
                  std::span<const uint32_t> ranks);

/// Of each task the longest way, in tasks, from one that waits for none.
std::vector<uint32_t> RanksOf(const graph::Graph& graph);

}  // namespace harrow::cost
