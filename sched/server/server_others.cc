#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "run_dir/names.h"
#include "server/part_watch.h"
#include "server/server_impl.h"

// What a server does with the run's other servers, and with tasks that are submitted. The first part's server takes those, or
// where that is over the lowest that goes on; others read them from RUN/0/added. A better value any of them takes: it is saved
// with its part, told to the others, and counts with all that are connected at once.

namespace harrow::server {
namespace {

constexpr const char* kDraining = "draining";                 // a fact: in which execution
constexpr Duration kDrainPatience = std::chrono::seconds(5);  // for who might take what is left

}  // namespace

void Server::Impl::ReadyForSubmissions(std::vector<run::Submission> known) {
  added_file.emplace(first_part ? *first_part->dir : dir(), flow.settings.flow_id, flow_tasks);
  submissions.emplace(flow, &builder, options.part.number, run_path(), std::move(known),
                      Submissions::Hooks{
                          .write = [this](const pb::AddedGroup& group, std::function<void(Status)> done) {
                            Write(group, std::move(done));
                          },
                          .added =
                              [this](TaskId first, uint32_t count, uint32_t first_file, uint32_t part) {
                                submitted = true;
                                has_record.resize(flow.graph.task_count(), false);
                                driver->AddTasks(Now(), first, count, first_file, part != options.part.number);
                                others->TellOfTasks();
                                FeedTasks();
                              },
                          .streams_changed = [this] { driver->ChangeStreams(); },
                          .keep_from_ending = [this](const auto& streams) { return driver->KeepStreams(Now(), streams); },
                          .let_end = [this](StreamId stream) { driver->LetStreamEnd(stream); },
                          .connected = [this](uint32_t part) { return others->connected().contains(part); },
                          .closed =
                              [this](const Status& why) {
                                os::LogError(StrCat("what was submitted cannot be written: ", why.message()));
                                Tell(StrCat("no more tasks can be submitted to this run: ", why.message()));
                              },
                          .failed = [this](const Status& why) { CannotRecord("what was submitted", why); }});
}

Status Server::Impl::ReadyForOthers(const journal::History& history) {
  const run_dir::Part& part = options.part;
  Result<Holdings> holdings = HoldingsOf(part.number, flow.first_owners, history.moves);
  if (!holdings.ok()) return holdings.status();
  driver->SetOwn(holdings->own, holdings->tried, history);
  others = std::make_unique<OtherServers>(
      flow.graph, OtherServers::Options::Of(flow.settings, part.number, epoch), driver.get(),
      OtherServers::Hooks{
          .send = [this](uint32_t to, const pb::BetweenServers& message) { links->Send(to, message); },
          .now = [this] { return Now(); },
          .record = [this](journal::MoveRecord record) { return driver->recorder().Move(std::move(record)); },
          .grow = part.is_first() ? nullptr : std::function<Status(uint32_t)>([this](uint32_t tasks) { return Grow(tasks); }),
          .ending = [this](TaskId task) { return awaiting.EndingOf(task); },
          .ended = [this](const TaskEnding& ending) { awaiting.EndedElsewhere(ending); },
          .best = [this] { return KnownBest(); },
          .learn = [this](run::BestValue value) { best.Learn(std::move(value)); },
          .submit = [this](uint32_t from, const pb::PassedSubmission& passed) { TakePassed(from, passed); },
          .submitted = [this](const pb::SubmissionAnswered& answer) { passed_on.Answered(answer); },
          .connections_changed = [this] { FindTaker(); }});
  others->Restore(*std::move(holdings));
  PartWatch::Options watch = {.part = part,
                              .run_id = flow.settings.run_id,
                              .flow_id = flow.settings.flow_id,
                              .session = flow.settings.session_start(),
                              .job = options.job,
                              .fence = flow.settings.fence,
                              .job_alive = options.job_alive,
                              .sync_journal = flow.settings.sync_journal,
                              .local_files = driver->local_files()};
  links = std::make_unique<Links>(
      loop,
      Links::Options{.part = part.number,
                     .epoch = epoch,
                     .run_id = flow.settings.run_id,
                     .flow_id = flow.settings.flow_id,
                     .session_ns = flow.settings.session_start().time_since_epoch().count()},
      PartWatch(std::move(watch)), others.get(),
      Links::Hooks{.first_owners = [this] { return flow.first_owners; },
                   .may_look = [this] { return !WritesForTheAbsent(); },
                   .before_look = [this] { ReadAddedAgain(); },
                   .readers = [this] { return Readers(); },
                   .lowest = [this] { BeLowest(); },
                   .changed = [this] { GoOn(); },
                   .tell = [this](const std::string& line) {
                     os::LogWarning(line);
                     Tell(line);
                   },
                   .waits = [this] { return driver->waits_for_others(); },
                   .lost = [this](const std::string& why) { LoseOthers(why); }});
  return {};
}

/// Tasks that read streams; there may be more each time.
std::set<uint32_t> Server::Impl::Readers() const {
  std::set<uint32_t> readers;
  for (const graph::Stream& stream : flow.graph.streams()) {
    for (const TaskId reader : stream.readers) readers.insert(reader.value);
  }
  return readers;
}

void Server::Impl::LoseOthers(const std::string& why) {
  if (phase != Phase::kRunning) return;
  problem = StrCat("tasks that another allocation of the run had are not to be had: ", why);
  os::LogError(problem);
  driver->GiveUpOthers();
}

/// Takes in what was submitted to the first part, which has at least so many tasks.
Status Server::Impl::Grow(uint32_t tasks) {
  if (tasks != 0 && tasks <= flow.graph.task_count()) return {};
  // What this server writes it takes in itself, when it is on disk. Who has read it there before that comes again.
  if (submissions) return {};
  const auto first = static_cast<uint32_t>(flow.graph.task_count());
  const auto first_file = static_cast<uint32_t>(flow.graph.file_count());
  Status unread;
  HARROW_RETURN_IF_ERROR(run::ReadMore(options.part, flow_tasks, flow.settings.flow_id, &added_up_to, &builder, &unread));
  const auto count = static_cast<uint32_t>(flow.graph.task_count()) - first;
  if (count > 0) {
    driver->AddTasks(Now(), TaskId(first), count, first_file, true);
    // What was submitted to this server, and passed on from here.
    const std::vector<TaskId> own = flow.first_owners.From<TaskId>(first, options.part.number);
    if (!own.empty()) driver->GiveIn(own, {});
  } else {
    driver->ChangeStreams();
  }
  return unread;
}

/// Who took what was submitted may not have lived to tell.
void Server::Impl::ReadAddedAgain() {
  if (submissions) return;
  const Result<run_dir::Part> first = run_dir::OpenPart(options.part.run);
  const auto info = first.ok() ? first->dir->Stat(run_dir::AddedPath(first->dir->path())) : first.status();
  if (!info.ok() || info->size == added_size) return;
  if (Grow(0).ok()) added_size = info->size;
}

/// Where the first part is over, the lowest that goes on takes what is submitted.
void Server::Impl::BeLowest() {
  if (submissions || phase != Phase::kRunning || driver->interrupted()) return;
  Result<run_dir::Part> first = run_dir::OpenPart(options.part.run);
  Status ready = first.ok() ? Grow(0) : first.status();
  Result<std::vector<run::Submission>> known = ready;
  if (ready.ok()) known = run::ReadSubmissions(*first->dir, flow.settings.flow_id, flow_tasks);
  if (!known.ok()) return os::LogWarning(StrCat("nothing can be submitted to this server: ", known.status().message()));
  os::LogInfo("this server takes what is submitted to the run from now on");
  first_part = *std::move(first);
  has_record.resize(flow.graph.task_count(), false);
  ReadyForSubmissions(*std::move(known));
  others->TellOfTasks();
  FeedTasks();
  for (auto& [request, told] : passed_on.Release()) submissions->Submit(std::move(request), std::move(told));
}

/// It is the first part's server, or, where that is over, the lowest that goes on: as far as is known the lowest that is connected.
void Server::Impl::FindTaker() {
  if (submissions || phase != Phase::kRunning) return;
  const std::set<uint32_t>& connected = others->connected();
  const bool lower = !connected.empty() && *connected.begin() < options.part.number;
  passed_on.SetTaker(lower ? std::optional(*connected.begin()) : std::nullopt);
}

bool Server::Impl::TakesPassed() const {
  return submissions && phase == Phase::kRunning && !driver->interrupted() && !journal_failed;
}

/// Whether clients are to stay here. Where no other server is there they are told at once that nothing is taken any more.
bool Server::Impl::TakesTasks() const {
  return others->connected().empty() ? submissions || passed_on.takes() : TakesPassed() || (passed_on.takes() && phase == Phase::kRunning);
}

/// What clients of another server have submitted. The tasks are that one's at first, so that they run where they were made.
void Server::Impl::TakePassed(uint32_t part, const pb::PassedSubmission& passed) {
  pb::SubmissionAnswered answer;
  answer.set_id(passed.request().id());
  // Where this server ends another one follows it, which is asked then.
  if (!TakesPassed()) {
    answer.set_not_here(true);
    return others->AnswerSubmission(part, answer);
  }
  const auto told = [this, part, answer](const Result<pb::Submitted>& how) mutable {
    if (how.ok()) {
      *answer.mutable_taken() = *how;
    } else if (how.status().code() == Code::kInvalid) {
      answer.set_wrong(how.status().message());
    } else if (how.status().code() == Code::kRefused) {
      answer.set_refused(how.status().message());
    } else {
      answer.set_cannot(how.status().message());
    }
    others->AnswerSubmission(part, answer);
  };
  Submit(passed.request(), passed.for_you() ? options.part.number : part, told);
}

/// Of a part that dies just then nobody may say whose its tasks are before these are known.
bool Server::Impl::WritesForTheAbsent() const {
  const std::optional<uint32_t> part = submissions ? submissions->writes_for() : std::nullopt;
  return part && *part != options.part.number && !others->connected().contains(*part);
}

void Server::Impl::Submit(pb::SubmitRequest request, uint32_t part, Submissions::Told told) {
  if (flow.settings.stage != run::Stage::kNo)
    return told(Status(Code::kRefused, "this run only puts files on nodes, and takes no tasks"));
  if (phase != Phase::kRunning || (submissions && driver->interrupted()) || journal_failed)
    return told(Status(Code::kRefused, "the run is ending, and takes no more tasks"));
  if (submissions) return submissions->Submit(std::move(request), part, std::move(told));
  passed_on.Submit(std::move(request), driver->draining() || driver->interrupted() || driver->out_of_time(), std::move(told));
}

// Storage may take its time, so a thread of its own waits for it.
void Server::Impl::Write(const pb::AddedGroup& group, std::function<void(Status)> done) {
  if (writing.joinable()) writing.join();
  writing = std::thread([this, &group, done = std::move(done)]() mutable {
    const Status status = added_file->Append(group);
    loop->Post([this, status, done = std::move(done)] {
      done(status);
      GoOn();
    });
  });
}

void Server::Impl::Offer(run::BestValue value, Best::Told told) {
  if (value.solution.size() > run::kMostSolution)
    return told(Status(Code::kInvalid, StrCat("the solution has ", value.solution.size(), " bytes; at most ", run::kMostSolution, " are taken")));
  if (phase != Phase::kRunning || journal_failed) return told(Status(Code::kRefused, "the run is ending, and takes no more values"));
  best.Offer(std::move(value), std::move(told));
}

void Server::Impl::Save(const run::BestValue& value, std::function<void(Status)> done) {
  if (saving.joinable()) saving.join();
  saving = std::thread([this, &value, done = std::move(done)]() mutable {
    const Status status = run::WriteBest(dir(), value);
    loop->Post([this, status, done = std::move(done)] {
      if (!status.ok()) os::LogWarning(StrCat("the best value is not saved: ", status.message()));
      done(status);
      GoOn();
    });
  });
}

/// What has been promised holds for a server that follows, too.
void Server::Impl::Drain(std::function<void(Status)> told) {
  if (phase != Phase::kRunning || driver->interrupted()) return told(Status(Code::kInvalid, "it is ending already"));
  if (others->connected().empty() && !driver->draining())
    return told(Status(Code::kInvalid, "no other allocation of the run is there that could take its tasks; harrow cancel --all, or a signal, ends the run"));
  driver->recorder().Fact(kDraining, SessionName());
  promised.emplace_back(driver->recorder().added(), std::move(told));
  BeginToDrain();
}

/// As of Drain().
void Server::Impl::Move(TaskId task, const pb::MoveTask& request, std::function<void(Status)> told) {
  if (const Status moves = Move(task, request); !moves.ok()) return told(moves);
  if (driver->recorder().added() <= committed) return told({});
  promised.emplace_back(driver->recorder().added(), std::move(told));
}

Status Server::Impl::Move(TaskId task, const pb::MoveTask& request) {
  if (phase != Phase::kRunning || driver->interrupted() || journal_failed) return Status(Code::kInvalid, "the run is ending");
  if (flow.settings.files == config::Files::kLocal)
    return Status(Code::kInvalid, "the files of this run lie on the nodes' own disks; tasks can be moved by hand where files are shared (--files shared)");
  if (request.part() == 0) {
    HARROW_RETURN_IF_ERROR(driver->MoveToNode(Now(), task, request.node()));
    others->Keep(task);
    return {};
  }
  return others->MoveTo(task, request.part() - 1);
}

void Server::Impl::DrainAgain(const journal::History& history) {
  const bool was_asked = std::any_of(history.facts.begin(), history.facts.end(), [this](const auto& fact) {
    return fact.first == kDraining && fact.second == SessionName();
  });
  if (was_asked) BeginToDrain();
}

void Server::Impl::BeginToDrain() {
  if (driver->draining()) return;
  os::LogWarning("drains: other servers take what is open");
  driver->Drain();
  gave_last = loop->Now();
}

std::string Server::Impl::SessionName() const {
  return StrCat(flow.settings.started.time_since_epoch().count());
}

/// Until nothing runs, and all that others can take has gone to them. What then is left they take when this part is over.
void Server::Impl::GoOnDraining() {
  if (!driver->draining() || driver->interrupted() || phase != Phase::kRunning) return;
  const bool busy = driver->gathering() || !driver->nothing_runs() || !others->idle() || others->gave() != gave;
  gave = others->gave();
  if (busy) gave_last = loop->Now();
  const core::Counts& counts = driver->scheduler().counts();
  const bool nothing_left = counts.ready + counts.waiting == 0;
  if (busy || (!nothing_left && loop->Now() - gave_last < kDrainPatience)) return;
  drained = true;
  driver->Interrupt(Now());
  GoOn();
}

}  // namespace harrow::server
