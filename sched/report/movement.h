#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_view.h"
#include "report/tables.h"

namespace harrow::report {

/// Bytes that were copied for tasks, or from them (run --files local).
struct CopiedBytes {
  uint64_t moved = 0;    // between nodes
  uint64_t read = 0;     // from the submit directory
  uint64_t written = 0;  // to it
  uint64_t sum() const { return moved + read + written; }
  void Count(const journal::CopyRecord& copy);
};

/// Input by where it was when tasks were assigned, and what was copied for them.
struct KindBytes {
  std::string kind;
  uint64_t input = 0, local = 0, home = 0;
  CopiedBytes copied{};
};
/// In the order in which the kinds first occur in the flow. Copies whose task is not known are of no kind.
std::vector<KindBytes> BytesByKind(const RunView& run, const std::vector<size_t>& tasks);

struct FileBytes {
  std::string path;
  uint32_t copies = 0;
  uint32_t nodes = 0;  // that got bytes of it
  CopiedBytes copied{};
};
/// The `count` files of which most bytes were copied, for the tasks or from them.
std::vector<FileBytes> LargestMovers(const RunView& run, const std::vector<size_t>& tasks, size_t count);

/// `report --files`: both as tables.
void WriteFiles(const RunView& run, const std::vector<size_t>& tasks, size_t count, size_t width,
                const Sink& sink);
void AppendFiles(const RunView& run, const std::vector<size_t>& tasks, size_t count, JsonWriter* json);

/// What was copied for a task, by where it came from: "12 MiB from n1, 3 MiB from the submit directory";
/// empty: nothing.
std::string CopiedFor(const RunView& run, TaskId task);

}  // namespace harrow::report
