#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "report/run_view.h"

namespace harrow::report {

/// Which tasks a report is about. Kinds and nodes: any of those named; empty: all.
struct Filter {
  bool failed = false;
  std::vector<std::string> kinds{};
  std::vector<std::string> nodes{};  // of a task's last attempt
};

/// Positions of the tasks that pass, in the order of the flow. kInvalid for a kind or node the run does not
/// have, with a suggestion.
Result<std::vector<size_t>> Select(const RunView& run, const Filter& filter);

/// Times are of the last attempts of tasks that are done.
struct KindRow {
  std::string kind;
  uint64_t tasks = 0, done = 0, failed = 0, skipped = 0, other = 0;  // other: cancelled, pruned or open
  uint64_t attempts = 0;
  Duration mean{0}, median{0}, max{0};
  Duration core_time{0};  // of all attempts, x cores
  Duration cpu_time{0};   // user and system, of all attempts
  int64_t max_rss_kib = 0;  // negative: less than so much
};
/// In the order in which the kinds first occur in the flow.
std::vector<KindRow> KindRows(const RunView& run, const std::vector<size_t>& tasks);

struct NodeRow {
  std::string node;
  uint32_t slots = 0;
  uint32_t incarnations = 0;  // of its agent
  bool gone = false;          // before the last session that it was in had ended
  uint64_t attempts = 0, failed = 0, lost = 0;  // interrupted and cancelled ones are not to blame: neither
  Duration busy{0};                             // run time x cores
  double utilisation = 0;                       // busy / (length x slots), over the sessions in which the node took part
  uint64_t local_bytes = 0, remote_bytes = 0;
  uint64_t output_bytes = 0;
};
/// In the order of their numbers.
std::vector<NodeRow> NodeRows(const RunView& run, const std::vector<size_t>& tasks);

/// Positions of the `count` tasks whose last attempt ran longest, longest first.
std::vector<size_t> Slowest(const RunView& run, const std::vector<size_t>& tasks, size_t count);

}  // namespace harrow::report
