#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "report/json.h"
#include "report/rows.h"
#include "report/run_view.h"

namespace harrow::report {

/// An allocation of a run's last session.
struct AllocationRow {
  uint32_t part = 0;
  std::string job, partition;     // empty: none
  uint32_t nodes = 0, slots = 0;  // that joined
  Duration from{0}, until{0};     // in the run; its end, or that of the run's last attempt where that is earlier
  uint64_t attempts = 0;          // on its nodes
  Duration busy{0};               // their run time x cores
  double slot_seconds = 0;        // of its nodes, each from when it joined until it left, or the run's last attempt ended
  uint64_t took = 0, gave = 0;    // tasks, from and to other allocations
  double messages = 0;            // with other servers, a second; 0: not known

  /// Share of slot_seconds without a task, 0 to 1.
  double Idle() const;
};
/// By their parts. Of a run that has had one alone: that one.
std::vector<AllocationRow> AllocationRows(const RunView& run);

/// Tasks that went from one allocation to another one.
struct MoveRow {
  Duration at{0};  // in the run
  uint32_t from = 0, to = 0;  // parts
  uint64_t tasks = 0;
};
/// Of the last session, in the order of time.
std::vector<MoveRow> MoveRows(const RunView& run);

/// `report` where a run has several: a line an allocation.
void WriteAllocations(const RunView& run, size_t width, const Sink& sink);
/// `report --moves`: a line a move.
void WriteMoves(const RunView& run, size_t width, const Sink& sink);
/// "allocations" and "moves"; nothing where the run has had one alone.
void AppendAllocations(const RunView& run, JsonWriter* json);

}  // namespace harrow::report
