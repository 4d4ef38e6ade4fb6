#pragma once

#include <cstdint>
#include <vector>

#include "core/parts.h"
#include "cost/placer.h"

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

/// How far a task has come, for those who place by costs.
cost::Placer::Standing StandingOf(const Parts& parts, TaskId id);

/// Tasks that wait, whole groups of them, that are thought to take so much (0 to 1) of the time of all that do.
/// They rise. None where tasks are not placed by costs.
std::vector<TaskId> ShareOf(Parts* parts, double part);

/// A task that streams join with others goes elsewhere only with all of them: is it one that may? None of its
/// streams is held open or kept from ending.
bool MayLeaveWithItsStreams(const Parts& parts, TaskId id);

}  // namespace harrow::core
