#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cost/meta_program.h"

namespace harrow::cost {

/// An amount of each of many like tasks or streams: one entry where it is the same of all, else one each.
using Amounts = std::vector<double>;
inline double AmountOf(const Amounts& amounts, size_t index) {
  return amounts[amounts.size() == 1 ? 0 : index];
}
constexpr uint32_t kNoProgram = UINT32_MAX;

/// `count` tasks of one program whose streams are connected alike (paper 001, 7.2). They are one as long as
/// nothing tells them apart; an amount that does has an entry for each.
struct MetaTask {
  uint32_t program = kNoProgram;
  uint32_t count = 1;
  // By the argument's number. NaN: it is not known yet.
  std::vector<Amounts> arguments;
  // Where it has no program: what it computes; what it writes is what it reads.
  Amounts compute = {1};
  // The least rank that it has, by what is not in the net.
  uint32_t least_rank = 0;
};

/// `count` streams alike, between the same meta-tasks. Of n tasks and k streams, one of which divides the
/// other, the first n/k tasks are connected with the first stream and so on, or each task with the next k/n
/// streams: one to one, one to all, and by blocks.
struct MetaStream {
  uint32_t count = 1;
  // Each line goes to one of the readers; else each reader gets all.
  bool split = false;
  // Of a file: its bytes, whatever its writer's model says; it is no reader's input, and is read when its
  // writers have ended. 0: its readers only wait. Empty: a stream.
  Amounts size;
  // Meta-tasks.
  std::vector<uint32_t> writers, readers;
};

/// The net of tasks and streams (paper 001, 5.2). Tasks are numbered through: those of the first meta-task,
/// then those of the next; so are streams.
struct Net {
  std::vector<CostFunctions> programs;
  std::vector<MetaTask> tasks;
  std::vector<MetaStream> streams;

  uint64_t task_count() const;
  uint64_t stream_count() const;
};

/// The same net with each task and stream for itself.
Net Expand(const Net& net);

/// What is known of a net before it runs (paper 001, 5.3): amounts in the units of the programs; NaN:
/// unknown.
struct Costs {
  // By meta-task.
  std::vector<Amounts> in, compute, out;
  // By meta-task: the data-flow rank, the longest way from a task without predecessors.
  std::vector<uint32_t> rank;
  // C_t, by meta-stream.
  std::vector<Amounts> stream;
};

/// Carries amounts downstream: C_t of a stream is the sum of its writers' C_o, a reader whose C_i its program
/// does not tell gets what its streams bring: C_t of each, its part of one that is split. kInvalid: the net
/// has a cycle, numbers that do not divide each other, or a model without a value (a division by 0);
/// `at`: of the last, the meta-task whose model it is.
Result<Costs> FindCosts(const Net& net, uint32_t* at = nullptr);

/// `costs` with a guess where nothing is known, for deciding: of a task's C_c the mean of those known of its
/// program, else of all, else 1; of C_t the mean of those known, else 0.
Costs Guessed(const Net& net, Costs costs);

/// Each member's number of the block that it falls into: tasks of a meta-task that a stream of a meta-stream
/// connects. [first, first + count) within the meta-task.
struct Block {
  uint64_t first = 0, count = 0;
};
Block TasksOf(uint64_t tasks, uint64_t streams, uint64_t stream);
/// The streams of the meta-stream that a task is connected with.
Block StreamsOf(uint64_t tasks, uint64_t streams, uint64_t task);

}  // namespace harrow::cost
