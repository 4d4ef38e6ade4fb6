#pragma once

#include <cstdint>
#include <vector>

#include "core/parts.h"

namespace harrow::core {

/// What a server tells of its tasks by their shapes: those that are ready and may be moved, and so many of
/// them as run at once on the nodes that are open. Tasks of several nodes are not among them.
std::vector<ShapeQueue> QueuesByShape(const Parts& parts);

/// All ready tasks, by what they ask for.
std::vector<ReadyKind> ReadyKinds(const Parts& parts);

/// Those that run on one node, write checkpoints, and are to stay; by task.
std::vector<Checkpointer> Checkpointers(const Parts& parts);

/// Up to `count` ready tasks of the shape, those that the order would take last, of tasks with bounds a sample of all; as many as `keep` are left.
/// In the order in which they would be taken.
std::vector<TaskId> LastInOrder(const Parts& parts, const Shape& shape, uint64_t count, uint64_t keep);

}  // namespace harrow::core
