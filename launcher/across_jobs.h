#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "batch/sbatch.h"
#include "launcher/across.h"
#include "supervisor/asking/messages.h"

namespace harrow::launcher {

/// A job of a run, as slurmctld told of it last.
struct RunJob {
  std::string id, partition;
  uint32_t nodes = 0;
  std::string state = "PENDING";  // empty: it is not known any more
  std::string reason, node_list, said;
  std::optional<WallTime> begins, ends;
  std::optional<Duration> limit;
  bool cancelled = false;  // by this command, which has said why
  bool pending() const { return state == "PENDING"; }
  bool running() const { return state == "RUNNING" || state == "CONFIGURING" || state == "SUSPENDED"; }
  /// Neither; one whose tasks have ended and which is cleaned up is over.
  bool over() const { return !pending() && !running(); }
};

/// The jobs of a run: they have its id in their comment, so that every command of the run knows which they are, those too of whose
/// submission nobody was told.
class RunJobs {
 public:
  /// `name`: of the jobs.
  RunJobs(const AcrossAsked& asked, std::string run_dir, std::string run_id, std::string name);

  /// Asks slurmctld for all of them. False: it does not answer.
  bool Look();
  const std::vector<RunJob>& jobs() const { return jobs_; }
  batch::SbatchAnswer Submit(const supervisor::Request& request);
  /// When it would begin.
  batch::SbatchAnswer Estimate(const supervisor::Request& request) const;
  void Cancel(const std::string& job);
  /// Those that would never begin are taken back; each is told once.
  void TakeBackHopeless();
  /// A line for each of which something else is to be said than last time. `last`: what is ending is told as over.
  void TellChanges(bool last = false);
  bool all_over() const;
  /// Of those that are not over, with blanks between them.
  std::string Ids() const;

 private:
  batch::SbatchAnswer Ask(const supervisor::Request& request, bool test_only) const;

  const AcrossAsked asked_;
  const std::string run_dir_, name_, mark_;
  std::vector<RunJob> jobs_;
};

/// "job 17 (fast, 2 nodes)"
std::string Described(const RunJob& job);

}  // namespace harrow::launcher
