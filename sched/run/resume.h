#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "journal/journal.h"
#include "made/record.h"
#include "run/flow_store.h"
#include "run_dir/run_dir.h"

namespace harrow::run {

/// What `--resume` keeps of an earlier run, by the rule of identity: a task that is done and has the same
/// name, command, environment, directory, inputs and outputs stays done, unless something it follows from
/// runs again.
struct ResumePlan {
  bool same_numbering = true;   // every task has the id it had: the journal goes on as it is
  std::vector<TaskId> earlier;  // a task's id in the earlier run; none: it was not there, or is changed
  std::vector<bool> done;       // stays done
  uint64_t done_count = 0;
  uint64_t failed_count = 0;      // failed, skipped or cancelled before, open again
  std::vector<TaskId> changed;    // same name, another identity
  std::vector<TaskId> following;  // were done, and run again because of what they follow from
};

/// Adds the last so many tasks of the earlier flow, which were submitted to it, to a flow that is named again, at its end.
/// kInvalid, for people, where they no longer fit; `now` is of no more use then.
Status TakeOverSubmitted(const graph::Graph& before, uint32_t submitted, graph::Graph* now);

/// `unwanted`: a flag a task of `now`, or empty; these are not run and hold nobody up.
ResumePlan PlanResume(const graph::Graph& before, const graph::Graph& now, const std::vector<bool>& unwanted,
                      const journal::History& history);

/// Makes a part of a run, in `dir`, ready for a server: the journal says what is open again, and the part's own flow file
/// holds `graph`. With another numbering both are replaced; the journal of before is kept as journal-N.db.
/// `history`: the part's own. `made_elsewhere`: what attempts of other parts left. `settings` gets its flow_id here. The
/// caller owns the part. Can be repeated after a crash at any
/// point.
Status ApplyResume(const std::shared_ptr<run_dir::RunDir>& dir, const ResumePlan& plan,
                   const journal::History& history, RunSettings* settings, const graph::Graph& graph,
                   const std::vector<bool>& unwanted, const made::Attempts& made_elsewhere = {});
/// Finishes a replacement that a crash cut short. Before anything of the part is read.
Status FinishReplacement(run_dir::RunDir& dir);
/// The directory in which the run's file of that name lies, as if the replacement had been finished; for
/// readers who may not move anything.
std::string HomeOf(os::FileSystem& fs, const std::string& run_dir, const std::string& name);

}  // namespace harrow::run
