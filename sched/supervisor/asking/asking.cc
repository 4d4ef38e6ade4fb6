#include "supervisor/asking/asking.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"

// One thing is asked of the batch system at a time, so that each decision sees what became of the one before. What is seen
// is taken in first; then what has nothing to do goes back; then it is looked whether more is to be had:
//
// - The tasks that count are those that the allocation could run: by their shape on the best of the partition's nodes, and
//   by their time. Where slots that are there, or come no later, are free for all of them, nothing is asked.
// - The backlog is their time, over the slots that could run them by then. It has to last longer than a new allocation
//   would wait. Before the first task of a shape has ended its time is what it declares, or at least as long as the
//   oldest has run; where neither is known nothing is asked beside what there is.
// - A refusal, and an allocation that ended no task, put the partition off; three in a row put an end to it. That nobody
//   answers is neither.
// - What a partition says of its nodes is a guess. What was granted tells how many slots to count on, and no more: tasks
//   that fitted by the guess go on being asked for, with their cores and devices as the least of each node.

namespace harrow::supervisor {
namespace {

constexpr double kUnknownSeconds = 60;  // to compare kinds of which nothing is known
constexpr Duration kStart = std::chrono::seconds(3);  // from an allocation's begin to its first task
constexpr Duration kUnseen = std::chrono::seconds(60);  // a job that was submitted is listed by then

std::string NodesText(uint32_t nodes) {
  return StrCat(nodes, nodes == 1 ? " node" : " nodes");
}

double CoresInFlight(const AllocationSeen& allocation) {
  double cores = 0;
  for (const ShapeLoad& load : allocation.loads) {
    const bool whole = load.shape.whole_node && load.workers > 0;
    cores += double(load.in_flight) * (whole ? double(allocation.slots) / load.workers : double(load.shape.cores));
  }
  return cores;
}

bool IsIdle(const AllocationSeen& allocation) {
  return std::all_of(allocation.loads.begin(), allocation.loads.end(), [](const ShapeLoad& load) { return load.in_flight == 0; });
}

}  // namespace

Asking::Asking(const AskingOptions& options, std::vector<PartitionFacts> partitions) : options_(options) {
  for (PartitionFacts& facts : partitions) {
    Partition partition;
    if (facts.most_nodes > 0 && facts.nodes > facts.most_nodes) {
      partition.impossible = StrCat("a job there has at most ", NodesText(facts.most_nodes), ", not ", facts.nodes);
    } else if (facts.most_time > Duration(0) && options_.time > facts.most_time) {
      partition.impossible = StrCat("a job there has at most ", FormatDuration(facts.most_time), ", not ", FormatDuration(options_.time));
    }
    partition.facts = std::move(facts);
    partitions_.push_back(std::move(partition));
  }
}

Asking::Partition* Asking::Find(const std::string& name) {
  const auto found = std::find_if(partitions_.begin(), partitions_.end(), [&](const Partition& each) { return each.facts.name == name; });
  return found == partitions_.end() ? nullptr : &*found;
}

bool Asking::stopped() const {
  return std::all_of(partitions_.begin(), partitions_.end(),
                     [](const Partition& each) { return each.stopped || !each.impossible.empty(); });
}

void Asking::Handle(Time now, const AskingEvent& event, std::vector<AskingAction>* actions) {
  now_ = now;
  std::visit([&](const auto& what) { On(now, what, actions); }, event);
  if (stopped() && !std::exchange(told_stopped_, true))
    actions->push_back(Tell{"no partition is left to ask: no further allocation is asked for"});
}

// --- answers

void Asking::On(Time now, const Estimated& estimated, std::vector<AskingAction>* actions) {
  if (!under_way_ || submits_) return;
  const Request request = *std::exchange(under_way_, std::nullopt);
  submits_ = false;
  if (std::exchange(silent_, false)) actions->push_back(Tell{"the batch system answers again"});
  if (Partition* partition = Find(request.partition)) {
    partition->estimate = {request, estimated.begins_in, now};
    partition->begins_in = estimated.begins_in;
  }
}

void Asking::On(Time now, const Submitted& submitted, std::vector<AskingAction>* actions) {
  if (!under_way_ || !submits_) return;
  const Request request = *std::exchange(under_way_, std::nullopt);
  submits_ = false;
  if (std::exchange(silent_, false)) actions->push_back(Tell{"the batch system answers again"});
  jobs_[submitted.job] = {.partition = request.partition, .nodes = request.nodes, .submitted = now};
  if (Partition* partition = Find(request.partition)) {
    partition->refused = 0;
    partition->told.clear();
    partition->estimate.reset();
  }
}

void Asking::On(Time now, const Refused& refused, std::vector<AskingAction>* actions) {
  if (!under_way_) return;
  const Request request = *std::exchange(under_way_, std::nullopt);
  submits_ = false;
  if (std::exchange(silent_, false)) actions->push_back(Tell{"the batch system answers again"});
  if (Partition* partition = Find(request.partition)) {
    partition->estimate.reset();
    if (unanswered_at_ && now - *unanswered_at_ < options_.settle) {
      partition->again_at = now + options_.again;
      return;
    }
    CountRefusal(now, partition, StrCat("no allocation of ", NodesText(request.nodes), ": ", refused.why), &partition->refused, actions);
  }
}

void Asking::On(Time now, const NoAnswer& none, std::vector<AskingAction>* actions) {
  unanswered_at_ = now;
  if (!under_way_) return;
  under_way_.reset();
  submits_ = false;
  quiet_until_ = now + options_.quiet;
  if (!std::exchange(silent_, true))
    actions->push_back(Tell{StrCat("the batch system does not answer (", none.why, "): it is asked again, and the run goes on")});
}

void Asking::CountRefusal(Time now, Partition* partition, const std::string& why, uint32_t* count, std::vector<AskingAction>* actions) {
  partition->again_at = now + options_.again;
  partition->stopped |= ++*count >= options_.refusals;
  std::string text = StrCat("partition ", partition->facts.name, ": ", why);
  if (partition->stopped) {
    text += StrCat("; that was the ", *count, *count == 3 ? "rd" : "th", " time in a row, and it is asked for no more");
  } else if (partition->told == why) {
    return;
  } else {
    text += StrCat("; it is asked again in ", FormatDuration(options_.again));
  }
  partition->told = why;
  actions->push_back(Tell{std::move(text)});
}

// --- what is seen

void Asking::On(Time now, const RunSeen& all, std::vector<AskingAction>* actions) {
  for (Partition& partition : partitions_) {
    if (partition.impossible.empty() || !partition.told.empty()) continue;
    partition.told = partition.impossible;
    actions->push_back(Tell{StrCat("partition ", partition.facts.name, ": ", partition.impossible, "; it is not asked")});
  }
  RunSeen seen = all;
  // Tasks of several nodes do not move: whoever has them runs them.
  const bool served = std::any_of(seen.allocations.begin(), seen.allocations.end(), [](const AllocationSeen& each) {
    return each.state == AllocationSeen::State::kRunning && each.served;
  });
  std::erase_if(seen.waiting, [&](const WaitingTasks& tasks) { return tasks.ready == 0 || (served && tasks.shape.nodes > 1); });
  LearnTimes(now, seen);
  LearnJobs(now, seen, actions);
  // From here on only those count that stay.
  std::erase_if(seen.allocations, [this](const AllocationSeen& each) {
    const auto job = jobs_.find(each.job);
    return each.state == AllocationSeen::State::kOver || job == jobs_.end() || job->second.given_back;
  });
  GiveBack(now, seen, actions);
  std::erase_if(seen.allocations, [this](const AllocationSeen& each) { return jobs_.at(each.job).given_back; });
  // What was submitted and is not listed yet.
  for (const auto& [id, job] : jobs_) {
    if (!job.seen) seen.allocations.push_back({.job = id, .partition = job.partition, .nodes = job.nodes});
  }
  if (!seen.allocations.empty()) nothing_fits_ = false;
  AskMore(now, seen, actions);
}

void Asking::LearnTimes(Time now, const RunSeen& seen) {
  for (const AllocationSeen& allocation : seen.allocations) {
    for (const ShapeLoad& load : allocation.loads) {
      if (load.in_flight > 0) running_since_.try_emplace(load.shape, now);
    }
  }
}

void Asking::LearnJobs(Time now, const RunSeen& seen, std::vector<AskingAction>* actions) {
  std::set<std::string> there;
  for (const AllocationSeen& each : seen.allocations) {
    if (each.state == AllocationSeen::State::kOver) {
      if (const auto job = jobs_.find(each.job); job != jobs_.end()) {
        job->second.ended = std::max(job->second.ended, each.ended);
        job->second.seen = true;
      }
      continue;
    }
    there.insert(each.job);
    Job& job = jobs_[each.job];
    job.partition = each.partition;
    job.nodes = each.nodes;
    job.seen = true;
    job.ours = each.ours;
    job.ended = std::max(job.ended, each.ended);
    Partition* partition = Find(each.partition);
    if (partition == nullptr) continue;
    if (each.served && each.slots > 0 && each.nodes > 0) partition->slots = std::max(1u, each.slots / each.nodes);
    if (job.ended > 0) partition->useless = 0;
    if (!each.never.empty() && !job.given_back) {
      job.given_back = true;
      actions->push_back(Cancel{each.job});
      CountRefusal(now, partition, StrCat("a job of ", NodesText(each.nodes), " would never begin: ", each.never), &partition->useless, actions);
    }
  }
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const auto& [id, job] = *it;
    if (there.contains(id) || (!job.seen && now < job.submitted + kUnseen)) {
      ++it;
      continue;
    }
    Partition* partition = Find(job.partition);
    const bool open = job.ours && (seen.blocked > 0 || !seen.waiting.empty());
    if (partition != nullptr && job.ended > 0) partition->useless = 0;
    if (partition != nullptr && open && job.ended == 0 && !job.given_back)
      CountRefusal(now, partition, "an allocation was over before a task of it had ended", &partition->useless, actions);
    it = jobs_.erase(it);
  }
}

// --- what the tasks and the partitions are like

bool Asking::CouldRun(const Partition& partition, uint32_t nodes, const WaitingTasks& tasks) {
  const NodeCapacity& most = partition.facts.most;
  return tasks.shape.nodes <= nodes && (most.slots == 0 || tasks.shape.cores <= most.slots) && tasks.shape.devices <= most.devices &&
         (most.memory == 0 || tasks.shape.memory <= most.memory);
}

bool Asking::InTime(Duration time, const WaitingTasks& tasks) const {
  return time == Duration(0) || tasks.limit == Duration(0) || tasks.limit + options_.margin <= time;
}

Duration Asking::TimeOf(const Partition& partition, const WaitingTasks* lead) const {
  const PartitionFacts& facts = partition.facts;
  if (options_.time > Duration(0)) return options_.time;
  if (lead == nullptr || InTime(facts.default_time, *lead)) return facts.default_time;
  const Duration time = lead->limit + 2 * options_.margin;
  return facts.most_time > Duration(0) ? std::min(time, facts.most_time) : time;
}

uint32_t Asking::SlotsOf(const Partition& partition) const {
  return std::max(1u, partition.slots.value_or(partition.facts.node.slots));
}

double Asking::CoresOf(const WaitingTasks& tasks, const Partition& partition) const {
  return double(tasks.shape.nodes) * (tasks.shape.whole_node ? SlotsOf(partition) : tasks.shape.cores);
}

std::optional<double> Asking::SecondsOf(const WaitingTasks& tasks) const {
  if (tasks.mean > Duration(0)) return Seconds(tasks.mean);
  if (tasks.limit > Duration(0)) return Seconds(tasks.limit);
  const auto since = running_since_.find(tasks.shape);
  if (since == running_since_.end()) return std::nullopt;
  return Seconds(now_ - since->second);
}

bool Asking::IsOfUse(const AllocationSeen& allocation, const WaitingTasks& tasks) const {
  const auto load = std::find_if(allocation.loads.begin(), allocation.loads.end(),
                                 [&](const ShapeLoad& each) { return each.shape == tasks.shape; });
  return load != allocation.loads.end() && load->workers > 0 && (!allocation.ends_in || InTime(std::max(*allocation.ends_in, Duration(1)), tasks));
}

Asking::Need Asking::NeedOf(const Partition& partition, uint32_t nodes, Duration time, Duration begins_in, const RunSeen& seen) const {
  Need need;
  double most_work = 0;
  std::vector<const WaitingTasks*> fitting;
  for (size_t i = 0; i < seen.waiting.size(); ++i) {
    const WaitingTasks& tasks = seen.waiting[i];
    if (!CouldRun(partition, nodes, tasks) || !InTime(time, tasks)) continue;
    fitting.push_back(&tasks);
    const double cores = double(tasks.ready) * CoresOf(tasks, partition);
    const std::optional<double> seconds = SecondsOf(tasks);
    need.ready_cores += cores;
    need.tasks += tasks.ready;
    if (seconds) need.seconds = need.seconds.value_or(0) + cores * *seconds;
    const double work = cores * seconds.value_or(kUnknownSeconds);
    if (need.lead == SIZE_MAX || work > most_work) {
      need.lead = i;
      most_work = work;
    }
  }
  for (const AllocationSeen& each : seen.allocations) {
    if (each.state == AllocationSeen::State::kRunning && each.served) {
      double free = 0;
      bool of_use = false;
      const double idle = std::max(0.0, double(each.slots) - CoresInFlight(each));
      for (const WaitingTasks* tasks : fitting) {
        if (!IsOfUse(each, *tasks)) continue;
        of_use = true;
        const auto load = std::find_if(each.loads.begin(), each.loads.end(), [&](const ShapeLoad& one) { return one.shape == tasks->shape; });
        const double more = load->workers > load->in_flight ? double(load->workers - load->in_flight) : 0;
        free = std::max(free, std::min(more * CoresOf(*tasks, partition), idle));
      }
      need.free_cores += free;
      if (of_use) need.slots += each.slots;
      continue;
    }
    // It is to come, and what it will be is a guess.
    if (each.state == AllocationSeen::State::kPending && each.begins_in && *each.begins_in > begins_in + options_.useful) continue;
    const auto known = std::find_if(partitions_.begin(), partitions_.end(), [&](const Partition& one) { return one.facts.name == each.partition; });
    const Partition& its = known == partitions_.end() ? partition : *known;
    const bool of_use = std::any_of(fitting.begin(), fitting.end(), [&](const WaitingTasks* tasks) {
      return CouldRun(its, each.nodes, *tasks) && (!each.ends_in || InTime(*each.ends_in, *tasks));
    });
    if (!of_use) continue;
    need.slots += double(each.nodes) * SlotsOf(its);
    need.free_cores += double(each.nodes) * SlotsOf(its);
  }
  return need;
}

// --- what is decided

void Asking::GiveBack(Time now, const RunSeen& seen, std::vector<AskingAction>* actions) {
  const auto running = [](const AllocationSeen& each) { return each.state == AllocationSeen::State::kRunning; };
  int64_t others = std::count_if(seen.allocations.begin(), seen.allocations.end(), running) - 1;
  RunSeen begun = seen;  // without what waits for nodes
  std::erase_if(begun.allocations, [&](const AllocationSeen& each) { return !running(each); });
  for (const AllocationSeen& each : seen.allocations) {
    Job& job = jobs_.at(each.job);
    if (!job.ours) continue;
    bool needless = false;
    if (running(each)) {
      const bool of_use = std::any_of(seen.waiting.begin(), seen.waiting.end(), [&](const WaitingTasks& tasks) { return IsOfUse(each, tasks); });
      // The last one keeps what other tasks wait for.
      needless = each.served && IsIdle(each) && !of_use && (others > 0 || !seen.waiting.empty());
    } else if (const Partition* partition = Find(each.partition)) {
      const Need need = NeedOf(*partition, each.nodes, each.ends_in.value_or(Duration(0)), Duration(0), begun);
      needless = need.ready_cores <= need.free_cores;
    }
    if (!needless) {
      job.needless_since.reset();
      continue;
    }
    if (!job.needless_since) job.needless_since = now;
    if (now < *job.needless_since + options_.idle) continue;
    job.given_back = true;
    if (Partition* partition = Find(each.partition); partition != nullptr && running(each) && job.ended == 0 && !seen.waiting.empty())
      CountRefusal(now, partition, "an allocation could run none of the tasks that wait", &partition->useless, actions);
    if (running(each)) --others;
    actions->push_back(Tell{StrCat("job ", each.job, " (", each.partition, ", ", NodesText(each.nodes), ") ",
                                   running(each) ? "has had nothing to do for " : "has not been needed for ", FormatDuration(options_.idle),
                                   running(each) ? ", and is given back" : ", and is taken back")});
    actions->push_back(Cancel{each.job});
  }
}

std::optional<Request> Asking::RequestTo(const Partition& partition, const RunSeen& seen) const {
  const PartitionFacts& facts = partition.facts;
  const uint32_t most = facts.nodes > 0 ? facts.nodes : facts.most_nodes > 0 ? facts.most_nodes : UINT32_MAX;
  // Of the tasks that could run there at all, those with most of the work say how much time it needs.
  const Need any = NeedOf(partition, most, TimeOf(partition, nullptr), Duration(0), seen);
  size_t lead = any.lead;
  for (size_t i = 0; lead == SIZE_MAX && i < seen.waiting.size(); ++i) {
    if (CouldRun(partition, most, seen.waiting[i]) && InTime(TimeOf(partition, &seen.waiting[i]), seen.waiting[i])) lead = i;
  }
  if (lead == SIZE_MAX) return std::nullopt;
  const WaitingTasks& first = seen.waiting[lead];
  Request request = {.partition = facts.name,
                     .nodes = facts.nodes,
                     .time = TimeOf(partition, &first),
                     .least = {.slots = first.shape.cores, .devices = first.shape.devices}};
  if (request.nodes > 0) return request;
  const Need need = NeedOf(partition, most, request.time, partition.begins_in, seen);
  const double slots = SlotsOf(partition);
  double nodes = std::ceil((need.ready_cores - need.free_cores) / slots);
  nodes = std::min(nodes, need.seconds ? std::floor((*need.seconds / Seconds(options_.useful) - need.slots) / slots) : 1);
  uint32_t at_least = 1;
  for (const WaitingTasks& tasks : seen.waiting) {
    if (tasks.shape.nodes <= most) at_least = std::max(at_least, tasks.shape.nodes);
  }
  request.nodes = static_cast<uint32_t>(std::clamp(nodes, double(at_least), double(most)));
  return request;
}

void Asking::AskMore(Time now, const RunSeen& seen, std::vector<AskingAction>* actions) {
  if (under_way_ || now < quiet_until_ || seen.waiting.empty() || jobs_.size() >= options_.most) return;
  struct Choice {
    Partition* partition;
    Need need;
    size_t left_out;  // kinds of tasks that it could not run, where it is the first
  };
  std::optional<Choice> best;
  bool fits_any = false;
  const auto worth = [](const Need& need, Duration begins_in) {
    if (need.tasks == 0 || need.ready_cores <= need.free_cores) return false;
    return need.slots == 0 || (need.seconds && *need.seconds / need.slots > Seconds(begins_in + kStart));
  };
  for (Partition& partition : partitions_) {
    if (!partition.impossible.empty() || partition.stopped) continue;
    const std::optional<Request> request = RequestTo(partition, seen);
    if (!request) continue;
    fits_any = true;
    if (now < partition.again_at) continue;
    if (!worth(NeedOf(partition, request->nodes, request->time, partition.begins_in, seen), Duration(0))) continue;
    std::optional<Estimate>& estimate = partition.estimate;
    if (!estimate || now >= estimate->at + options_.fresh || estimate->request.time != request->time ||
        estimate->request.least != request->least) {
      under_way_ = request;
      submits_ = false;
      actions->push_back(AskEstimate{*request});
      return;
    }
    const Need need = NeedOf(partition, estimate->request.nodes, request->time, estimate->begins_in, seen);
    if (!worth(need, estimate->begins_in)) continue;
    const auto left_out = seen.allocations.empty() ? std::count_if(seen.waiting.begin(), seen.waiting.end(), [&](const WaitingTasks& tasks) {
      return !CouldRun(partition, estimate->request.nodes, tasks) || !InTime(request->time, tasks);
    })
                                                   : 0;
    const Choice choice = {&partition, need, static_cast<size_t>(left_out)};
    if (!best || std::pair(choice.left_out, estimate->begins_in) < std::pair(best->left_out, best->partition->estimate->begins_in)) best = choice;
  }
  const bool fitted_before = !std::exchange(nothing_fits_, !fits_any && !stopped() && seen.allocations.empty());
  if (nothing_fits_ && fitted_before) {
    uint64_t tasks = 0;
    for (const WaitingTasks& each : seen.waiting) tasks += each.ready;
    actions->push_back(Tell{StrCat("no partition has nodes, or time, for ",
                                   tasks == 1 ? std::string("the task that waits") : StrCat("any of the ", tasks, " tasks that wait"),
                                   ": no allocation is asked for")});
  }
  if (!best) return;
  const Estimate& estimate = *best->partition->estimate;
  std::string text = StrCat("asks for ", NodesText(estimate.request.nodes), " of partition ", estimate.request.partition);
  if (estimate.request.time > Duration(0)) text += StrCat(" for ", FormatDuration(estimate.request.time));
  text += best->need.tasks == 1 ? ": 1 task is ready" : StrCat(": ", best->need.tasks, " tasks are ready");
  if (best->need.slots > 0 && best->need.seconds)
    text += StrCat(", ", FormatDuration(FromSeconds(*best->need.seconds / best->need.slots)), " of work for ", uint64_t(best->need.slots), " slots");
  text += estimate.begins_in > Duration(0) ? StrCat("; it would begin in ", FormatDuration(estimate.begins_in)) : "; it would begin at once";
  actions->push_back(Tell{std::move(text)});
  under_way_ = estimate.request;
  submits_ = true;
  actions->push_back(Submit{estimate.request});
}

std::string Asking::FindBroken() const {
  for (const Partition& partition : partitions_) {
    if (!partition.stopped && std::max(partition.refused, partition.useless) >= options_.refusals)
      return StrCat("partition ", partition.facts.name, " goes on after its refusals");
  }
  if (jobs_.contains("")) return "a job has no number";
  if (submits_ && !under_way_) return "nothing is submitted";
  return {};
}

}  // namespace harrow::supervisor
