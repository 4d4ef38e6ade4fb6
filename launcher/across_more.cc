#include "launcher/across_more.h"

#include <algorithm>
#include <iostream>
#include <map>

#include "base/text.h"
#include "batch/slurm_query.h"
#include "journal/snapshot.h"
#include "journal/whole_run.h"
#include "os/clock.h"
#include "run_dir/part.h"

// What waits is told by the servers of the run, each for the tasks that it has. Where nobody has them, as no allocation has begun or
// all are over, it is read from the run's flow and journals. What is asked of Slurm is asked by its commands: sbatch for a job, with
// --test-only for when it would begin, which goes through all of the site's rules; squeue, sinfo, scancel.

namespace harrow::launcher {
namespace {

using supervisor::AllocationSeen;
using supervisor::RunSeen;
using supervisor::WaitingTasks;

constexpr Duration kSinfoTime = std::chrono::seconds(20);
constexpr Duration kUntilUp = std::chrono::seconds(10);  // from an allocation's begin to its first task, at most, mostly

Shape ShapeFrom(const pb::QueueShape& message) {
  return {.cores = message.cores(),
          .devices = message.gpus(),
          .nodes = std::max(message.nodes(), 1u),
          .whole_node = message.whole_node(),
          .memory = message.memory()};
}

void Count(const Shape& shape, Duration limit, uint64_t count, std::vector<WaitingTasks>* waiting) {
  const auto known = std::find_if(waiting->begin(), waiting->end(),
                                  [&](const WaitingTasks& tasks) { return tasks.shape == shape && tasks.limit == limit; });
  if (known != waiting->end()) {
    known->ready += count;
  } else {
    waiting->push_back({.shape = shape, .limit = limit, .ready = count});
  }
}

supervisor::PartitionFacts FactsOf(const batch::Partition& partition) {
  return {.name = partition.name,
          .node = {.slots = partition.cpus, .devices = partition.gpus, .memory = partition.memory},
          .most = {.slots = partition.most_cpus, .devices = partition.most_gpus, .memory = partition.most_memory},
          .most_nodes = partition.most_nodes,
          .most_time = partition.most_time,
          .default_time = partition.default_time};
}

}  // namespace

Result<std::unique_ptr<AcrossMore>> AcrossMore::Make(const AcrossAsked& asked, const std::vector<std::string>& allowed,
                                                     const run::RunSettings& settings, std::shared_ptr<run_dir::RunDir> run, RunJobs* jobs) {
  const Result<std::string> sinfo = batch::RunCommand({"sinfo", "-h", "-o", batch::kPartitionFormat}, kSinfoTime);
  if (!sinfo.ok()) return sinfo.status();
  std::vector<AcrossAsked::Allocation> wanted = asked.allocations;
  if (wanted.empty()) {
    for (const std::string& name : batch::PartitionNames(*sinfo)) {
      if (allowed.empty() || std::find(allowed.begin(), allowed.end(), name) != allowed.end()) wanted.push_back({name, 0});
    }
  }
  std::vector<supervisor::PartitionFacts> partitions;
  for (const AcrossAsked::Allocation& each : wanted) {
    const std::optional<batch::Partition> found = batch::ParsePartitions(*sinfo, each.partition);
    // One that sinfo does not tell of may be hidden: sbatch knows.
    supervisor::PartitionFacts facts;
    if (found) facts = FactsOf(*found);
    facts.name = each.partition;
    facts.nodes = each.nodes;
    if (!found && facts.nodes == 0) facts.nodes = 1;
    partitions.push_back(std::move(facts));
  }
  if (partitions.empty()) return Status(Code::kInvalid, "sinfo tells of no partition that could be asked");
  const supervisor::AskingOptions options = {
      .most = asked.most, .time = asked.time, .margin = settings.end_margin + kUntilUp, .idle = asked.idle};
  return std::unique_ptr<AcrossMore>(new AcrossMore(options, std::move(partitions), std::move(run), jobs));
}

std::vector<WaitingTasks> AcrossMore::StoredTasks() const {
  std::vector<WaitingTasks> waiting;
  const auto first = run_dir::OpenPart(run_);
  const Result<run::StoredFlow> flow = first.ok() ? run::ReadFlow(*first) : run::ReadFlow(*run_, run_->path());
  if (!flow.ok()) return waiting;
  std::vector<bool> settled = flow->unwanted;
  settled.resize(flow->graph.task_count(), false);
  if (first.ok()) {
    const auto history = journal::ReadRun(*first, journal::ReadSnapshot);
    if (history.ok()) {
      for (const journal::FateRecord& fate : history->fates) {
        if (fate.task.value < settled.size()) settled[fate.task.value] = fate.fate != journal::TaskFate::kOpen;
      }
    }
  }
  for (uint32_t i = 0; i < settled.size(); ++i) {
    const auto before = flow->graph.predecessors(TaskId(i));
    if (settled[i] || std::any_of(before.begin(), before.end(), [&](TaskId task) { return !settled[task.value]; })) continue;
    const graph::Profile& profile = flow->graph.profile(TaskId(i));
    Count(profile.shape, profile.time_limit, 1, &waiting);
  }
  return waiting;
}

/// None: who has the tasks does not answer.
std::optional<RunSeen> AcrossMore::Seen(Time now, const std::vector<PartServers::Told>& told) {
  (void)now;
  RunSeen seen;
  const WallTime wall = os::RealClock().Now();
  bool running = false;
  for (const RunJob& job : jobs_->jobs()) {
    if (job.cancelled && job.over()) continue;
    AllocationSeen each = {.job = job.id, .partition = job.partition, .nodes = job.nodes};
    each.state = job.pending()   ? AllocationSeen::State::kPending
                 : job.running() ? AllocationSeen::State::kRunning
                                 : AllocationSeen::State::kOver;
    running |= job.running();
    if (job.pending()) {
      each.never = batch::NeverBegins(job.reason);
      if (job.begins) each.begins_in = std::max(*job.begins - wall, Duration(0));
      each.ends_in = job.limit;
    } else if (job.ends) {
      each.ends_in = std::max(*job.ends - wall, Duration(0));
    }
    seen.allocations.push_back(std::move(each));
  }
  std::map<Shape, std::pair<double, uint64_t>> means;
  for (const PartServers::Told& server : told) {
    auto its = std::find_if(seen.allocations.begin(), seen.allocations.end(), [&](const AllocationSeen& each) { return each.job == server.job; });
    if (its == seen.allocations.end()) {
      // Somebody has given it an allocation by hand.
      seen.allocations.push_back({.job = StrCat("of part ", server.part), .state = AllocationSeen::State::kRunning, .ours = false});
      its = seen.allocations.end() - 1;
    }
    its->served = true;
    for (const pb::NodeStatus& node : server.progress.node()) {
      its->ended += node.ended();
      if (node.state() == "joined") its->slots += node.slots();
    }
    if (server.progress.load().ends_in_ns() > 0) its->ends_in = Duration(server.progress.load().ends_in_ns() - 1);
    for (const pb::QueueReport& queue : server.progress.load().queue()) {
      its->loads.push_back({.shape = ShapeFrom(queue.shape()), .workers = queue.workers(), .in_flight = queue.in_flight()});
      if (queue.mean_ns() <= 0) continue;
      auto& [seconds, servers] = means[ShapeFrom(queue.shape())];
      seconds += Seconds(Duration(queue.mean_ns()));
      ++servers;
    }
    seen.blocked += server.progress.load().waiting();
    for (const pb::ReadyTasks& ready : server.progress.ready())
      Count(ShapeFrom(ready.shape()), Duration(ready.time_limit_ns()), ready.count(), &seen.waiting);
  }
  if (told.empty()) {
    if (running) return std::nullopt;
    const auto over = std::count_if(jobs_->jobs().begin(), jobs_->jobs().end(), [](const RunJob& job) { return job.over(); });
    if (!stored_ || stored_over_ != over) stored_ = StoredTasks();
    stored_over_ = over;
    seen.waiting = *stored_;
  } else {
    stored_.reset();
  }
  for (WaitingTasks& tasks : seen.waiting) {
    if (const auto mean = means.find(tasks.shape); mean != means.end()) tasks.mean = FromSeconds(mean->second.first / double(mean->second.second));
  }
  return seen;
}

void AcrossMore::Do(const supervisor::AskingAction& action, std::optional<supervisor::AskingEvent>* answer) {
  using What = batch::SbatchAnswer::What;
  if (const auto* tell = std::get_if<supervisor::Tell>(&action)) {
    std::cerr << "harrow: " << tell->text << std::endl;
  } else if (const auto* cancel = std::get_if<supervisor::Cancel>(&action)) {
    jobs_->Cancel(cancel->job);
  } else {
    const auto* submit = std::get_if<supervisor::Submit>(&action);
    const batch::SbatchAnswer said =
        submit != nullptr ? jobs_->Submit(submit->request) : jobs_->Estimate(std::get<supervisor::AskEstimate>(action).request);
    if (said.what == What::kNoAnswer) {
      *answer = supervisor::NoAnswer{said.why};
    } else if (said.what == What::kRefused) {
      *answer = supervisor::Refused{said.why};
    } else if (submit != nullptr) {
      *answer = supervisor::Submitted{said.job};
    } else {
      const WallTime now = os::RealClock().Now();
      *answer = supervisor::Estimated{said.begins ? std::max(*said.begins - now, Duration(0)) : Duration(0)};
    }
  }
}

void AcrossMore::Unanswered(Time now) {
  std::vector<supervisor::AskingAction> actions;  // none: nothing was asked
  asking_.Handle(now, supervisor::NoAnswer{}, &actions);
}

void AcrossMore::GoOn(Time now, const std::vector<PartServers::Told>& told) {
  const std::optional<RunSeen> seen = Seen(now, told);
  if (!seen) return;
  // Each estimate is followed by another look, until something else is decided.
  constexpr int kMostEstimates = 100;
  for (int i = 0; i < kMostEstimates; ++i) {
    std::vector<supervisor::AskingAction> actions;
    asking_.Handle(now, *seen, &actions);
    std::optional<supervisor::AskingEvent> answer;
    for (const supervisor::AskingAction& action : actions) Do(action, &answer);
    if (!answer) return;
    actions.clear();
    asking_.Handle(now, *answer, &actions);
    for (const supervisor::AskingAction& action : actions) Do(action, &answer);
    if (!std::holds_alternative<supervisor::Estimated>(*answer)) return;
  }
}

}  // namespace harrow::launcher
