#include "server/other_servers.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "journal/parts.h"
#include "os/log.h"
#include "server/supervisor_messages.h"
#include "wire/decode.h"

// Several servers have the tasks of one run, each those of its part. Every one of them knows the whole graph.
//
// - Whose a task is, is agreed upon by the two servers that a move concerns (moves.h). This class puts tasks out of the
//   scheduler before they are offered, and into it when they have come.
// - How a task ended is told to all others by its owner, when that is on disk; to one that has just been connected, of all
//   tasks. So whoever has a task that waits for it knows; and each server sees by itself when the run is over.
// - When tasks go, and how many, is advised by the supervisor, which is in the server with the lowest part of those that
//   see each other. Each server reports to it. Its epoch is larger than every one that was heard of, so that what an earlier
//   one asked for is not carried out any more; where two are advisers at once, as servers do not all see each other, that
//   costs moves, and no task.

namespace harrow::server {
namespace {

using supervisor::MoveId;
using supervisor::PartId;

constexpr Duration kRemembered = std::chrono::seconds(5);  // moves that came, in reports
constexpr uint32_t kPartsInEpoch = 1024;                   // so that no two supervisors have the same

void Set(const OfferId& id, pb::OfferNumber* out) {
  out->set_giver(id.giver);
  out->set_number(id.number);
}
OfferId IdOf(const pb::OfferNumber& message) {
  return {message.giver(), message.number()};
}

void Add(TaskId task, journal::TaskFate fate, pb::EndedTasks* out) {
  switch (fate) {
    case journal::TaskFate::kDone:
      return out->add_done(task.value);
    case journal::TaskFate::kFailed:
      return out->add_failed(task.value);
    case journal::TaskFate::kSkipped:
      return out->add_skipped(task.value);
    case journal::TaskFate::kCancelled:
      return out->add_cancelled(task.value);
    case journal::TaskFate::kPruned:
      return out->add_pruned(task.value);
    case journal::TaskFate::kOpen:
      return;
  }
}

}  // namespace

OtherServers::Options OtherServers::Options::Of(const run::RunSettings& settings, uint32_t part, uint64_t epoch) {
  Options options = {.part = part, .epoch = epoch};
  supervisor::Options& advice = options.supervisor;
  advice.trigger = settings.move_trigger == config::MoveTrigger::kEmpty ? supervisor::Trigger::kEmpty
                   : settings.move_trigger == config::MoveTrigger::kLow ? supervisor::Trigger::kLow
                                                                        : supervisor::Trigger::kAlways;
  advice.amount = settings.move_amount == config::MoveAmount::kWorkers ? supervisor::Amount::kWorkers
                                                                       : supervisor::Amount::kCapacity;
  advice.alpha = settings.move_alpha / 100.0;
  advice.worth_only = !settings.move_all;
  advice.SetPeriod(settings.report_period);
  options.via_supervisor = settings.moves == config::Moves::kViaSupervisor;
  return options;
}

OtherServers::OtherServers(const graph::Graph& graph, const Options& options, RunDriver* driver, Hooks hooks)
    : graph_(graph),
      options_(options),
      driver_(*driver),
      hooks_(std::move(hooks)),
      moves_(options.part, {.record = hooks_.record,
                            .offer =
                                [this](const TaskOffer& offer) {
                                  pb::BetweenServers message;
                                  pb::TasksOffered* out = message.add_offered();
                                  Set(offer.id, out->mutable_id());
                                  for (const TaskId task : offer.tasks) out->add_task(task.value);
                                  for (const Tried& tried : offer.tried) {
                                    pb::TriedTask* known = out->add_tried();
                                    known->set_task(tried.task.value);
                                    known->set_attempts(tried.attempts);
                                    known->set_losses(tried.losses);
                                    known->set_last(tried.last);
                                  }
                                  const auto following = following_.find(offer.id.number);
                                  if (following != following_.end())
                                    Set(following->second.move, out->mutable_move());
                                  out->set_stay(by_hand_.contains(offer.id.number));
                                  SendOfMove(offer.taker, message);
                                },
                            .answer =
                                [this](const OfferId& id, bool taken) {
                                  pb::BetweenServers message;
                                  pb::OfferAnswered* out = message.add_answered();
                                  Set(id, out->mutable_id());
                                  out->set_taken(taken);
                                  SendOfMove(id.giver, message);
                                },
                            .own =
                                [this](const std::vector<TaskId>& tasks, const std::vector<Tried>& tried) {
                                  driver_.GiveIn(tasks, tried);
                                },
                            .now = [this] { return hooks_.now().wall_ns(); }}),
      search_({.ask = [this](uint32_t part, TaskId task, const std::vector<FileId>& files, bool make,
                             bool again) { AskForFiles(part, task, files, make, again); },
               .can_make = [this](TaskId task) { return driver_.CanMake(task); },
               .not_found = [this](TaskId task) { driver_.NobodyElsewhereHas(task); }}) {}

void OtherServers::Send(uint32_t part, const pb::BetweenServers& message) {
  if (!connected_.contains(part)) return;
  ++messages_;
  hooks_.send(part, message);
}

void OtherServers::SendBest(uint32_t part) {
  const run::BestValue* best = hooks_.best ? hooks_.best() : nullptr;
  if (best == nullptr) return;
  pb::BetweenServers message;
  message.mutable_best()->set_value(best->value);
  message.mutable_best()->set_solution(best->solution);
  Send(part, message);
}

void OtherServers::TellBest() {
  for (const uint32_t part : connected_) SendBest(part);
}

void OtherServers::SendSubmission(uint32_t part, const pb::PassedSubmission& passed) {
  pb::BetweenServers message;
  *message.add_submit() = passed;
  Send(part, message);
}

void OtherServers::AnswerSubmission(uint32_t part, const pb::SubmissionAnswered& answer) {
  pb::BetweenServers message;
  *message.add_submitted() = answer;
  Send(part, message);
}

void OtherServers::SendOfMove(uint32_t part, const pb::BetweenServers& message) {
  const uint32_t supervisor = connected_.empty() ? part : std::min(options_.part, *connected_.begin());
  if (!options_.via_supervisor || supervisor == options_.part || supervisor == part) return Send(part, message);
  pb::BetweenServers around;
  around.mutable_passed()->set_from(options_.part);
  around.mutable_passed()->set_to(part);
  around.mutable_passed()->set_message(message.SerializeAsString());
  Send(supervisor, around);
}

void OtherServers::Snapshot(pb::AllocationStatus* status) const {
  status->set_part(options_.part);
  status->set_ready(driver_.scheduler().counts().ready);
  status->set_waiting(driver_.scheduler().counts().waiting);
  status->set_took(moves_.took());
  status->set_gave(moves_.gave());
  status->set_messages(messages_);
  status->set_draining(driver_.draining());
}

// --- who is there

void OtherServers::Restore(Holdings holdings) {
  tells_of_tasks_ = options_.part == 0;
  alive_ = options_.part != 0 || holdings.last_number > 0 || !holdings.taken.empty();
  driver_.SetOthers(alive_);
  moves_.Restore(std::move(holdings));
  for (const auto& [task, part] : driver_.parts_aimed_at()) moving_[task] = {part, std::nullopt};
}

void OtherServers::SetAlive(bool alive) {
  alive_ = alive;
  driver_.SetOthers(alive_ || !connected_.empty());
}

void OtherServers::Connected(uint32_t part, uint64_t epoch) {
  connected_.insert(part);
  epochs_[part] = epoch;
  driver_.SetOthers(true);
  if (tells_of_tasks_) TellOfTasks();
  SendBest(part);
  SendAllDecided(part);
  search_.Connected(part);
  moves_.Connected(part);
  ChooseSupervisor();
  GoOnMoving();
  if (hooks_.connections_changed) hooks_.connections_changed();
}

void OtherServers::Disconnected(uint32_t part) {
  if (connected_.erase(part) == 0) return;
  delays_.erase(part);
  search_.Disconnected(part);
  // It asks once more when it is back.
  for (auto at = askers_.begin(); at != askers_.end();) {
    const bool last = at->second.erase(part) > 0 && at->second.empty();
    at = last ? askers_.erase(at) : std::next(at);
  }
  driver_.SetOthers(alive_ || !connected_.empty());
  ChooseSupervisor();
  if (hooks_.connections_changed) hooks_.connections_changed();
}

void OtherServers::PartOver(uint32_t part, const OverPart& what) {
  Disconnected(part);
  for (const TaskEnding& ending : what.endings) {
    if (hooks_.ended) hooks_.ended(ending);
  }
  driver_.NoteLeft(what.lists, what.results);
  search_.Over(part);
  driver_.EndElsewhere(what.fates);
  driver_.NoteMadeElsewhere(what.made);
  moves_.PartOver(part, what.holdings);
  if (supervisor_) Advise(supervisor::PartEnded{PartId(part), static_cast<uint32_t>(epochs_[part])});
}

void OtherServers::ChooseSupervisor() {
  const bool here = !connected_.empty() && options_.part < *connected_.begin();
  if (!here) return supervisor_.reset();
  if (supervisor_ && !supervisor_->superseded()) return;
  const uint32_t heard = std::max(obedience_.epoch(), supervisor_ ? supervisor_->epoch() : 0);
  // Beyond what this server's predecessors may have had, of whom nobody may have told yet.
  const uint32_t turn = std::max(heard / kPartsInEpoch + 1, static_cast<uint32_t>(options_.epoch));
  const uint32_t epoch = turn * kPartsInEpoch + options_.part % kPartsInEpoch;
  supervisor_ = std::make_unique<supervisor::Supervisor>(options_.supervisor, epoch);
  os::LogInfo(StrCat("supervisor of the run, epoch ", epoch));
}

// --- what others say

/// Whether all tasks that it names are in the graph, or have come to be.
Status OtherServers::CheckTasks(const pb::BetweenServers& message) {
  uint32_t tasks = message.tasks();
  const auto see = [&](const auto& rising) {
    if (!rising.empty()) tasks = std::max(tasks, *rising.rbegin() + 1);
  };
  see(message.ended().done());
  see(message.ended().failed());
  see(message.ended().skipped());
  see(message.ended().cancelled());
  see(message.ended().pruned());
  for (const pb::TasksOffered& offer : message.offered()) see(offer.task());
  see(message.cancel());
  for (const pb::FilesAsked& asked : message.files_asked()) tasks = std::max(tasks, asked.task() + 1);
  for (const pb::SubmissionAnswered& answer : message.submitted()) {
    for (const uint32_t task : answer.taken().task()) tasks = std::max(tasks, task + 1);
  }
  if (tasks <= graph_.task_count()) return {};
  if (hooks_.grow) HARROW_RETURN_IF_ERROR(hooks_.grow(tasks));
  if (tasks <= graph_.task_count()) return {};
  return Status(Code::kInvalid, StrCat("it names task ", tasks - 1, ", and the run has ", graph_.task_count()));
}

/// To be passed on, where this server is who it was sent by; or its end.
Status OtherServers::TakePassed(uint32_t part, const pb::Passed& passed) {
  if (passed.to() != options_.part) {
    if (passed.from() != part) return Status(Code::kInvalid, StrCat("it speaks for part ", passed.from()));
    pb::BetweenServers on;
    *on.mutable_passed() = passed;
    Send(passed.to(), on);
    return {};
  }
  pb::BetweenServers inside;
  // From whom it is says who passes it on: all of them are servers of this run.
  if (!wire::Decode(passed.message(), &inside).ok() || inside.has_passed() || passed.from() == options_.part)
    return Status(Code::kInvalid, StrCat("what is passed on of part ", passed.from(), " does not read"));
  return Take(passed.from(), inside);
}

Status OtherServers::Take(uint32_t part, const pb::BetweenServers& message) {
  ++messages_;
  HARROW_RETURN_IF_ERROR(CheckTasks(message));
  if (message.has_ended()) {
    std::vector<std::pair<TaskId, journal::TaskFate>> fates;
    const auto add = [&](const auto& list, journal::TaskFate fate) {
      for (const uint32_t task : list) fates.emplace_back(TaskId(task), fate);
    };
    add(message.ended().done(), journal::TaskFate::kDone);
    add(message.ended().failed(), journal::TaskFate::kFailed);
    add(message.ended().skipped(), journal::TaskFate::kSkipped);
    add(message.ended().cancelled(), journal::TaskFate::kCancelled);
    add(message.ended().pruned(), journal::TaskFate::kPruned);
    for (const pb::TaskEnding& ending : message.ended().ending()) {
      if (ending.task() < graph_.task_count() && hooks_.ended)
        hooks_.ended({TaskId(ending.task()), static_cast<journal::End>(ending.end()), ending.code()});
    }
    if (driver_.local_files()) {
      for (const uint32_t task : message.ended().done()) done_at_[task] = part;
    }
    driver_.EndElsewhere(fates);
  }
  if (message.has_best() && hooks_.learn) hooks_.learn({message.best().value(), message.best().solution()});
  for (const pb::TasksOffered& offered : message.offered()) {
    if (offered.id().giver() != part) return Status(Code::kInvalid, "it offers in the name of another server");
    TaskOffer offer = {IdOf(offered.id()), options_.part, {}, {}};
    for (const uint32_t task : offered.task()) offer.tasks.emplace_back(task);
    for (const pb::TriedTask& tried : offered.tried())
      offer.tried.push_back({TaskId(tried.task()), tried.attempts(), tried.losses(), tried.last()});
    if (offered.has_move()) coming_[offer.id] = IdOf(offered.move());
    if (offered.stay()) driver_.Bring(hooks_.now(), offer.tasks);
    moves_.Offered(offer, driver_.interrupted() || driver_.out_of_time());
  }
  HARROW_RETURN_IF_ERROR(TakeOfFiles(part, message));
  for (const pb::OfferAnswered& answered : message.answered()) moves_.Answered(IdOf(answered.id()), answered.taken());
  if (message.cancel_size() > 0) {
    std::vector<TaskId> tasks;
    for (const uint32_t task : message.cancel()) tasks.emplace_back(task);
    driver_.CancelHere(tasks);
  }
  for (const pb::PassedSubmission& passed : message.submit()) {
    if (hooks_.submit) hooks_.submit(part, passed);
  }
  for (const pb::SubmissionAnswered& answer : message.submitted()) {
    if (hooks_.submitted) hooks_.submitted(answer);
  }
  if (message.has_report()) Take(part, message.report());
  for (const pb::MoveAsked& asked : message.asked()) {
    Follow({.id = IdOf(asked.id()),
            .from = PartId(options_.part),
            .to = PartId(asked.to()),
            .shape = ShapeOf(asked.shape()),
            .count = asked.count(),
            .keep = asked.keep(),
            .saving = SavingOf(asked),
            .waiting = asked.waiting(),
            .running = asked.running(),
            .least_left = Duration(asked.least_left_ns()),
            .share = asked.share() > 0 && asked.share() <= 1 ? asked.share() : 0});
  }
  if (message.has_passed()) HARROW_RETURN_IF_ERROR(TakePassed(part, message.passed()));
  if (message.ping_ns() != 0) {
    pb::BetweenServers answer;
    answer.set_pong_ns(message.ping_ns());
    Send(part, answer);
  }
  if (message.pong_ns() != 0) {
    const Duration round_trip = hooks_.now().now.time_since_epoch() - Duration(message.pong_ns());
    Duration& delay = delays_[part];
    // What was waited for in queues is not the way's.
    delay = delay == Duration(0) ? round_trip / 2 : std::min(round_trip / 2, delay + delay / 8 + Duration(1));
  }
  return {};
}

// --- what is told

void OtherServers::TellOfTasks() {
  tells_of_tasks_ = true;
  pb::BetweenServers message;
  message.set_tasks(static_cast<uint32_t>(graph_.task_count()));
  for (const uint32_t part : connected_) Send(part, message);
}

void OtherServers::Cancel(const std::vector<TaskId>& tasks) {
  driver_.CancelHere(tasks);
  pb::BetweenServers message;
  for (const TaskId task : tasks) message.add_cancel(task.value);
  std::sort(message.mutable_cancel()->begin(), message.mutable_cancel()->end());
  message.mutable_cancel()->erase(std::unique(message.mutable_cancel()->begin(), message.mutable_cancel()->end()),
                                  message.mutable_cancel()->end());
  for (const uint32_t part : connected_) Send(part, message);
}

void OtherServers::Decided(TaskId task, journal::TaskFate fate, uint64_t sequence) {
  decided_.push_back({sequence, task, fate});
}

void OtherServers::AttemptEnded(const journal::AttemptRecord& record) {
  if (!journal::Succeeded(record)) return;
  auto& [count, seconds] = times_[graph_.profile(record.task).shape];
  const double took = Seconds(Duration(std::max<int64_t>(record.end_ns - record.start_ns, 0)));
  // Those of the next stage of a workflow may take another time than those of the last.
  constexpr uint64_t kLately = 256;
  if (count >= kLately) count /= 2, seconds /= 2;
  ++count;
  seconds += took;
  supervisor::Pace& pace = paces_[graph_.kind(record.task).value];
  ++pace.count;
  pace.seconds += took;
}

/// Of the kinds that most tasks had; what was long ago counts less and less.
std::vector<supervisor::Pace> OtherServers::PacesNow() {
  constexpr size_t kMost = 16;
  constexpr uint64_t kReportsToHalf = 100;  // ten seconds or more
  std::vector<supervisor::Pace> paces;
  for (auto& [kind, pace] : paces_) {
    if (reports_ % kReportsToHalf == 0) pace.count /= 2, pace.seconds /= 2;
    paces.push_back({.kind = kind, .count = pace.count, .seconds = pace.seconds});
  }
  std::erase_if(paces_, [](const auto& each) { return each.second.count < 0.5; });
  if (paces.size() > kMost) {
    std::nth_element(paces.begin(), paces.begin() + kMost, paces.end(),
                     [](const supervisor::Pace& a, const supervisor::Pace& b) { return a.count > b.count; });
    paces.resize(kMost);
  }
  return paces;
}

void OtherServers::AddEnded(TaskId task, journal::TaskFate fate, pb::EndedTasks* out) const {
  Add(task, fate, out);
  if (fate != journal::TaskFate::kFailed && fate != journal::TaskFate::kCancelled) return;
  const std::optional<TaskEnding> ending = hooks_.ending ? hooks_.ending(task) : std::nullopt;
  if (!ending) return;
  pb::TaskEnding* told = out->add_ending();
  told->set_task(task.value);
  told->set_end(static_cast<pb::Attempt::End>(ending->end));
  told->set_code(ending->code);
}

void OtherServers::SendAllDecided(uint32_t part) {
  std::unordered_set<uint32_t> not_yet;
  for (const Decision& each : decided_) not_yet.insert(each.task.value);
  pb::BetweenServers message;
  Recorder& recorder = driver_.recorder();
  for (uint32_t i = 0; i < graph_.task_count(); ++i) {
    if (!not_yet.contains(i)) AddEnded(TaskId(i), recorder.fate(TaskId(i)), message.mutable_ended());
  }
  Send(part, message);
}

void OtherServers::Committed(uint64_t sequence) {
  pb::BetweenServers message;
  std::vector<Decision> now;
  while (!decided_.empty() && decided_.front().sequence <= sequence) {
    now.push_back(decided_.front());
    decided_.pop_front();
  }
  if (connected_.empty()) now.clear();  // who comes is told all
  std::sort(now.begin(), now.end(), [](const Decision& a, const Decision& b) { return a.task < b.task; });
  for (const Decision& each : now) AddEnded(each.task, each.fate, message.mutable_ended());
  for (const uint32_t part : now.empty() ? std::set<uint32_t>() : connected_) Send(part, message);

  std::set<OfferId> coming;
  for (const auto& [id, move] : coming_) coming.insert(id);
  moves_.Committed(sequence);
  for (const OfferId& id : coming) {
    if (!moves_.has_taken(id)) continue;
    taken_.emplace_back(hooks_.now().now, coming_.at(id));
    coming_.erase(id);
  }
}

// --- the supervisor, and what it asks for

void OtherServers::AddQueues(supervisor::Report* report) const {
  for (const core::ShapeQueue& queue : driver_.scheduler().QueuesByShape()) {
    const auto times = times_.find(queue.shape);
    Duration mean{0}, at_least{0};
    if (times != times_.end() && times->second.first > 0) {
      mean = FromSeconds(times->second.second / double(times->second.first));
    } else if (driver_.local_files()) {
      // Nobody would else know what their files are worth.
      at_least = driver_.LongestRunning(hooks_.now(), queue.shape);
    }
    report->queues.push_back({.shape = queue.shape,
                              .ready = queue.ready,
                              .in_flight = queue.in_flight,
                              .workers = queue.workers,
                              .capacity = double(queue.workers),
                              .mean = mean,
                              .mean_at_least = at_least,
                              .dear = DearOf(queue.shape)});
  }
  report->waiting = driver_.scheduler().counts().waiting;
  AddWorks(report);
  for (const supervisor::QueueState& queue : report->queues) report->power = std::max(report->power, queue.capacity);
  report->draining = driver_.interrupted() || driver_.draining();
  if (const auto end = driver_.end_time()) report->ends_in = std::max(*end - hooks_.now().wall, Duration(0));
}

/// Of very many kinds those with the most waiting; the others' waits as one kind, of which nothing is known.
void OtherServers::AddWorks(supervisor::Report* report) const {
  constexpr size_t kMost = 64;
  const std::optional<std::vector<cost::Work>> works = driver_.scheduler().WorkByKind();
  if (!works) return;
  std::vector<supervisor::KindWork>& told = report->works.emplace();
  for (uint32_t kind = 0; kind < works->size(); ++kind) {
    const cost::Work& work = (*works)[kind];
    if (work.waiting > 0 || work.ended > 0) told.push_back({kind, work.waiting, work.ended, work.seconds});
  }
  if (told.size() <= kMost) return;
  std::stable_sort(told.begin(), told.end(), [](const auto& a, const auto& b) { return a.waiting > b.waiting; });
  supervisor::KindWork others{.kind = UINT32_MAX};
  for (size_t i = kMost - 1; i < told.size(); ++i) others.waiting += told[i].waiting;
  told.resize(kMost - 1);
  told.push_back(others);
}

/// Those that run and could go on elsewhere, the one with the most left first. What is left: what tasks of its kind have taken, less what it
/// has; where none has ended, or it has taken longer already, as much again as it has taken.
std::vector<OtherServers::Leaving> OtherServers::Leavers() const {
  constexpr double kEnough = 3;  // tasks
  constexpr double kLeast = 0.1;
  std::vector<Leaving> leavers;
  for (const auto& [running, ran] : driver_.Checkpointers(hooks_.now())) {
    if (moving_.contains(running.task) || driver_.was_brought(running.task)) continue;
    Duration left = ran;
    if (const auto pace = paces_.find(graph_.kind(running.task).value); pace != paces_.end() && pace->second.count >= kEnough) {
      const Duration mean = FromSeconds(pace->second.seconds / pace->second.count);
      if (ran < mean) left = std::max(mean - ran, FromSeconds(kLeast * Seconds(mean)));
    }
    // What is written is read again.
    leavers.push_back({running.task, running.shape, {.left = left, .stands = 2 * running.takes}});
  }
  std::stable_sort(leavers.begin(), leavers.end(), [](const Leaving& a, const Leaving& b) { return a.leaver.left > b.leaver.left; });
  return leavers;
}

/// The one with the most left is asked for a checkpoint.
void OtherServers::SendRunning(const supervisor::MoveRequest& request) {
  for (const Leaving& each : Leavers()) {
    if (each.shape != request.shape) continue;
    if (each.leaver.left < request.least_left || !driver_.MoveToPart(hooks_.now(), each.task, request.to.value).ok()) return;
    os::LogInfo(StrCat("task ", Printable(graph_.TaskName(each.task), 60), " is to go on in allocation ", request.to.value, ", which is faster and idle: it would have taken ",
                       FormatDuration(each.leaver.left), " here"));
    moving_[each.task] = {request.to.value, request};
    return GoOnMoving();
  }
}

void OtherServers::TellLoad(pb::Progress* progress) const {
  supervisor::Report report = {.part = PartId(options_.part)};
  AddQueues(&report);
  *progress->mutable_load() = ToProto(report);
  for (const core::ReadyKind& kind : driver_.scheduler().ReadyKinds()) {
    pb::ReadyTasks* ready = progress->add_ready();
    Set(kind.shape, ready->mutable_shape());
    ready->set_time_limit_ns(kind.time_limit.count());
    ready->set_count(kind.ready);
  }
}

supervisor::Report OtherServers::ReportNow() {
  const Time now = hooks_.now().now;
  supervisor::Report report = {.part = PartId(options_.part),
                               .server_epoch = static_cast<uint32_t>(options_.epoch),
                               .number = ++reports_,
                               .obeys = obedience_.epoch(),
                               .handled = obedience_.handled()};
  AddQueues(&report);
  for (const Leaving& each : Leavers()) {
    for (supervisor::QueueState& queue : report.queues) {
      if (queue.shape != each.shape || queue.leavers.size() >= supervisor::kMostLeavers) continue;
      queue.leavers.push_back(each.leaver);
      // What it reads may have to be copied.
      queue.leavers.back().stands += driver_.TimeToCopy(hooks_.now(), each.task);
    }
  }
  report.paces = PacesNow();
  // Each is told at least once, though it may be over already.
  for (const auto& [number, what] : following_)
    report.offers.push_back({what.move, PartId(what.to), what.shape, what.count, what.waiting, what.running, what.shared});
  for (const auto& [task, moving] : moving_) {
    if (moving.advice) report.offers.push_back({moving.advice->id, moving.advice->to, moving.advice->shape, 1, false, true, false});
  }
  std::erase_if(following_, [this](const auto& each) { return !moves_.out().contains(each.first); });
  std::erase_if(by_hand_, [this](uint64_t number) { return !moves_.out().contains(number); });
  std::erase_if(taken_, [&](const auto& each) { return each.first + kRemembered < now; });
  for (const auto& [when, id] : taken_) report.taken.push_back(id);
  return report;
}

void OtherServers::Tick() {
  search_.Look(hooks_.now().now);
  if (connected_.empty()) return;
  ChooseSupervisor();
  // What was lost with who was to pass it on.
  constexpr uint64_t kAgain = 50;
  if (options_.via_supervisor && reports_ % kAgain == kAgain - 1) {
    for (const uint32_t part : connected_) moves_.Connected(part);
  }
  supervisor::Report report = ReportNow();
  if (supervisor_) {
    Advise(supervisor::Reported{std::move(report)});
    return;
  }
  pb::BetweenServers message;
  *message.mutable_report() = ToProto(report);
  message.set_ping_ns(hooks_.now().now.time_since_epoch().count());
  Send(*connected_.begin(), message);
}

void OtherServers::Take(uint32_t part, const pb::ServerReport& message) {
  if (!supervisor_) return;
  supervisor::Report report = FromProto(message);
  report.part = PartId(part);
  report.server_epoch = static_cast<uint32_t>(epochs_[part]);
  if (const auto delay = delays_.find(part); delay != delays_.end()) report.delay = delay->second;
  Advise(supervisor::Reported{std::move(report)});
  pb::BetweenServers ping;
  ping.set_ping_ns(hooks_.now().now.time_since_epoch().count());
  Send(part, ping);
}

void OtherServers::Advise(const supervisor::Event& event) {
  std::vector<supervisor::Action> actions;
  supervisor_->Handle(hooks_.now().now, event, &actions);
  const uint32_t epoch = supervisor_->epoch();
  if (supervisor_->superseded()) {
    obedience_.Hear(epoch + 1);
    return ChooseSupervisor();
  }
  for (const supervisor::Action& action : actions) {
    const auto* request = std::get_if<supervisor::MoveRequest>(&action);
    if (request == nullptr) continue;
    if (request->from.value == options_.part) {
      Follow(*request);
      continue;
    }
    pb::BetweenServers message;
    *message.add_asked() = ToProto(*request);
    Send(request->from.value, message);
  }
}

// --- tasks that somebody moves

Status OtherServers::MoveTo(TaskId task, uint32_t part) {
  if (part == options_.part) {
    HARROW_RETURN_IF_ERROR(driver_.MayMove(task));
    return Status(Code::kInvalid, StrCat("it is allocation ", part, "'s already"));
  }
  if (!connected_.contains(part)) {
    HARROW_RETURN_IF_ERROR(driver_.MayMove(task));
    return Status(Code::kInvalid, StrCat("allocation ", part, " of the run is not there, or is over; harrow status shows those that are"));
  }
  HARROW_RETURN_IF_ERROR(driver_.MayLeave(task));
  HARROW_RETURN_IF_ERROR(driver_.MoveToPart(hooks_.now(), task, part));
  moving_[task] = {part, std::nullopt};
  GoOnMoving();
  return {};
}

/// Those of which nothing is at a node any more go; what does not leave its node stays.
void OtherServers::GoOnMoving() {
  // Before the first instant the scheduler knows nothing of those of an earlier server.
  if (moving_.empty() || driver_.scheduler().counts().total == 0) return;
  std::map<uint32_t, std::vector<TaskId>> by_hand;
  std::vector<std::pair<TaskId, supervisor::MoveRequest>> advised;
  for (auto at = moving_.begin(); at != moving_.end();) {
    const auto& [task, moving] = *at;
    const core::TaskState state = driver_.scheduler().state(task);
    // Where the connection is gone for a moment, what is held for it is held on.
    const bool may_go = !core::IsInFlight(state) && connected_.contains(moving.part);
    if (driver_.scheduler().IsMoving(task) && !may_go) {
      ++at;
      continue;
    }
    if (!core::IsInFlight(state) && !core::IsSettled(state) && state != core::TaskState::kElsewhere && connected_.contains(moving.part)) {
      if (const Status may = driver_.MayLeave(task); !may.ok()) {
        os::LogWarning(StrCat("it does not go to allocation ", moving.part, ": ", may.message()));
      } else if (moving.advice) {
        advised.emplace_back(task, *moving.advice);
      } else {
        by_hand[moving.part].push_back(task);
      }
    }
    at = moving_.erase(at);
  }
  for (const auto& [task, request] : advised) Give(request, {task});
  for (auto& [part, tasks] : by_hand) {
    std::sort(tasks.begin(), tasks.end());
    std::vector<Tried> tried;
    std::vector<TaskId> taken = driver_.TakeOut(hooks_.now(), tasks, &tried);
    if (!taken.empty()) by_hand_.insert(moves_.Give(part, std::move(taken), std::move(tried)));
  }
}

void OtherServers::Follow(const supervisor::MoveRequest& request) {
  if (!obedience_.Take(request.id) || !connected_.contains(request.to.value)) return;
  if (request.running) return SendRunning(request);
  if (request.share > 0) return Give(request, driver_.ShareOfTasks(request.share));
  if (request.waiting) return Give(request, driver_.WaitingTasks(request.count));
  GiveReady(request);
}

void OtherServers::GiveReady(const supervisor::MoveRequest& request) {
  // To look at all that are ready takes time, and what they read lies there for longer than until the next request.
  constexpr Duration kLookAgain = std::chrono::milliseconds(500);
  const Moment moment = hooks_.now();
  if (request.saving && request.saving->late == 0 && request.saving->last < DearOf(request.shape)) return;
  const Movable found = driver_.MovableTasks(moment, request.shape, request.count, request.keep, request.saving);
  dear_.erase(request.shape);
  if (found.dear) dear_[request.shape] = {moment.now + kLookAgain, *found.dear};
  Give(request, found.tasks);
}

Duration OtherServers::DearOf(const Shape& shape) const {
  const auto dear = dear_.find(shape);
  return dear != dear_.end() && hooks_.now().now < dear->second.until ? dear->second.saves : Duration(0);
}

/// As far as they may go.
void OtherServers::Give(const supervisor::MoveRequest& request, const std::vector<TaskId>& wanted) {
  std::vector<Tried> tried;
  std::vector<TaskId> tasks = driver_.TakeOut(hooks_.now(), wanted, &tried);
  if (tasks.empty()) return;
  const uint64_t count = tasks.size();
  const uint64_t number = moves_.Give(request.to.value, std::move(tasks), std::move(tried));
  following_[number] = {request.id, request.to.value, request.shape, count, request.waiting, request.running, request.share > 0};
}

// --- what tasks made, with local files (driver_exchange.cc)

void OtherServers::Search(TaskId task, const std::vector<FileId>& files, bool again) {
  const auto at = done_at_.find(task.value);
  search_.Begin(task, files, at == done_at_.end() ? std::nullopt : std::optional(at->second), again);
}

void OtherServers::AskForFiles(uint32_t part, TaskId task, const std::vector<FileId>& files, bool make, bool again) {
  pb::BetweenServers message;
  pb::FilesAsked* const asked = message.add_files_asked();
  asked->set_task(task.value);
  for (const FileId file : files) asked->add_file(file.value);
  asked->set_make(make);
  asked->set_again(again);
  Send(part, message);
}

Status OtherServers::TakeOfFiles(uint32_t part, const pb::BetweenServers& message) {
  const bool any = message.files_asked_size() + message.files_made_size() + message.files_not_had_size() > 0;
  if (any && !driver_.local_files()) return Status(Code::kInvalid, "it speaks of files of a run whose files are shared");
  for (const pb::FilesAsked& asked : message.files_asked()) {
    std::vector<FileId> files;
    for (const uint32_t file : asked.file()) files.emplace_back(file);
    askers_[TaskId(asked.task())].insert(part);
    driver_.Publish(TaskId(asked.task()), files, asked.make(), asked.again());
  }
  for (const pb::MadeFiles& told : message.files_made()) {
    MadeFiles made = MadeFiles::Of(told);
    if (!search_.Searches(made.task)) continue;
    search_.End(made.task);
    driver_.TakeMade(std::move(made));
  }
  for (const uint32_t task : message.files_not_had()) search_.NotHad(part, TaskId(task));
  return {};
}

void OtherServers::Published(TaskId task, const MadeFiles* made) {
  const auto askers = askers_.extract(task);
  if (askers.empty()) return;
  pb::BetweenServers message;
  if (made != nullptr) {
    made->Write(message.add_files_made());
  } else {
    message.add_files_not_had(task.value);
  }
  for (const uint32_t part : askers.mapped()) Send(part, message);
}

}  // namespace harrow::server
