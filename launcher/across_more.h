#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "launcher/across_jobs.h"
#include "launcher/part_servers.h"
#include "os/event_loop.h"
#include "run/flow_store.h"
#include "run_dir/run_dir.h"
#include "supervisor/asking/asking.h"

namespace harrow::launcher {

/// `--across auto`: shows supervisor::Asking the run and its jobs, and does what that decides.
class AcrossMore {
 public:
  /// kInvalid, kUnavailable: Slurm does not tell of partitions that could be asked. `allowed`: the site's list; empty: any.
  static Result<std::unique_ptr<AcrossMore>> Make(const AcrossAsked& asked, const std::vector<std::string>& allowed,
                                                  const run::RunSettings& settings, std::shared_ptr<run_dir::RunDir> run, RunJobs* jobs);

  /// Right after slurmctld has told of the jobs. `told`: by the servers.
  void GoOn(Time now, const std::vector<PartServers::Told>& told);
  /// slurmctld did not answer.
  void Unanswered(Time now);
  /// Nothing can be asked for that would run any of the tasks.
  bool hopeless() const { return asking_.hopeless(); }

 private:
  AcrossMore(const supervisor::AskingOptions& options, std::vector<supervisor::PartitionFacts> partitions,
             std::shared_ptr<run_dir::RunDir> run, RunJobs* jobs)
      : asking_(options, std::move(partitions)), run_(std::move(run)), jobs_(jobs) {}
  std::optional<supervisor::RunSeen> Seen(Time now, const std::vector<PartServers::Told>& told);
  std::vector<supervisor::WaitingTasks> StoredTasks() const;
  void Do(const supervisor::AskingAction& action, std::optional<supervisor::AskingEvent>* answer);

  supervisor::Asking asking_;
  std::shared_ptr<run_dir::RunDir> run_;
  RunJobs* jobs_;
  std::optional<std::vector<supervisor::WaitingTasks>> stored_;  // while nobody has the tasks
  int64_t stored_over_ = 0;                                        // so many jobs were over then
};

}  // namespace harrow::launcher
