#include "launcher/known_costs.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/time.h"
#include "journal/parts.h"
#include "journal/whole_run.h"
#include "launcher/run_access.h"
#include "run/flow_store.h"
#include "server/written.h"

// What a task computed is what a scheduler learns while a run goes on (core/path_order.h): its run time, or, where it read what
// others wrote meanwhile, the time of its CPUs.

namespace harrow::launcher {

Result<std::vector<cost::Known>> CostsOfRun(const std::string& run_dir) {
  auto run = RunAccess::Open(run_dir);
  if (!run.ok()) return run.status();
  Result<run::StoredFlow> flow = run::ReadFlow((*run)->part());
  if (!flow.ok()) return flow.status();
  Result<journal::History> history = (*run)->ReadHistory();
  if (!history.ok()) return history.status();
  const graph::Graph& graph = flow->graph;
  const cost::PlacerOptions guessed;
  cost::TaskCosts costs(graph, guessed.seconds_a_unit, guessed.bytes_a_unit, {});
  if (!costs.Model()) return Status(Code::kInvalid, StrCat("the models of the run in ", Printable((*run)->dir()), " have no value (harrow check --costs)"));
  for (const journal::AttemptRecord& attempt : history->attempts) {
    if (attempt.task.value >= graph.task_count() || !journal::Succeeded(attempt) || attempt.start_ns == 0) continue;
    const bool waits = !graph.streams_read(attempt.task).empty();
    const double seconds = waits ? static_cast<double>(attempt.user_us + attempt.system_us) / 1e6
                                 : Seconds(Duration(std::max<int64_t>(0, attempt.end_ns - attempt.start_ns)));
    costs.Learn(attempt.task, NodeId(0), seconds, -1);
  }
  std::vector<cost::Known> found = costs.Found();
  if (found.empty()) return Status(Code::kInvalid, StrCat("no task of the run in ", Printable((*run)->dir()), " has succeeded; name another one, or none"));
  const server::Written written = server::Written::From(*history);
  for (cost::Known& known : found) known.bytes = written.MeanOf(known.kind).value_or(-1);
  return found;
}

Status FindKnownCosts(config::RunOptions* options) {
  if (options->costs_from.empty()) return {};
  Result<std::vector<cost::Known>> known = CostsOfRun(options->costs_from);
  if (!known.ok()) return Status(known.status().code(), StrCat("--costs-from: ", known.status().message()));
  options->known_costs = *std::move(known);
  return {};
}

}  // namespace harrow::launcher
