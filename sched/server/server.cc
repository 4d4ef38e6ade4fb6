#include "server/server_impl.h"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "run_dir/names.h"
#include "run_dir/rendezvous.h"
#include "wire/decode.h"

// The life of a server. Start: flow and journal are read, the next epoch is taken, PART/server tells where it
// listens. Then one loop: channels call the driver, the driver asks to be flushed once a turn. The journal's
// thread posts what it has committed. The end comes in three steps, each when the one before is known to be
// done:
//   kRunning -> kRecording  all tasks are settled; what is queued for the journal gets to disk
//            -> kLeaving    agents know that their results are safe, and end
//            -> the journal becomes a plain file, PART/server goes, the loop stops
// A journal that fails ends the run at once: what is not recorded will run again with --resume.

namespace harrow::server {
namespace {

constexpr Duration kProgressEvery = std::chrono::milliseconds(200);
constexpr Duration kTick = std::chrono::seconds(1);
constexpr Duration kListenEvery = std::chrono::milliseconds(250);
constexpr Duration kAccountEvery = std::chrono::minutes(1);
constexpr Duration kAskBatchEvery = std::chrono::minutes(1);
constexpr Duration kLeaveTime = std::chrono::seconds(10);
constexpr Duration kBackTime = std::chrono::seconds(1);  // for clients of a server that died, which wait for tasks
constexpr size_t kTaskRecordsAtOnce = 4096;
constexpr size_t kMaxProblem = 2000;
constexpr size_t kMostNotices = 100;  // told to the user in all; the log has every one
constexpr size_t kMaxNotice = 500;
constexpr int kMostAbsent = 64;                 // told to the keeper at once
constexpr uint32_t kGatherAfterAnotherJob = 8;  // ticks

double SecondsOf(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

uint32_t TicksOf(Duration time) {
  return static_cast<uint32_t>((time + kTick - Duration(1)) / kTick);
}

}  // namespace

Server::Server(os::EventLoop* loop, os::Clock* clock, batch::Batch* batch, ServerOptions options)
    : impl_(std::make_unique<Impl>(loop, clock, batch, std::move(options))) {}
Server::~Server() {
  for (std::thread* thread : {&impl_->asking, &impl_->writing, &impl_->saving})
    if (thread->joinable()) thread->join();
}

Status Server::Start() {
  Status status = impl_->Start();
  if (!status.ok()) {
    impl_->problem = status.message();
    impl_->WriteProgress();
  }
  return status;
}

run::ServerEnd Server::Run() {
  impl_->loop->Run();
  return impl_->EndOf();
}

void Server::Interrupt() {
  if (impl_->phase != Impl::Phase::kRunning) return;
  os::LogWarning("interrupted: nothing more is started");
  impl_->driver->Interrupt(impl_->Now());
}

// --- start

Status Server::Impl::Start() {
  std::vector<run::Submission> known;
  const Result<uint32_t> tasks = run::ReadFlow(options.part, &flow, &builder, &known);
  if (!tasks.ok()) return tasks.status();
  flow_tasks = *tasks;
  Result<std::vector<batch::GrantedNode>> nodes = batch->Nodes();
  if (!nodes.ok()) return nodes.status();

  journal::History history;
  HARROW_RETURN_IF_ERROR(OpenJournal(&history));

  DriverOptions driver_options;
  driver_options.epoch = epoch;
  driver_options.nodes_expected = static_cast<uint32_t>(nodes->size());
  for (const batch::GrantedNode& node : *nodes) driver_options.node_names.push_back(node.name);
  driver_options.return_ticks = TicksOf(flow.settings.lease);
  // The first node to come may be one whose setup has failed.
  if (!flow.settings.node_setup.empty()) driver_options.setup_ticks = TicksOf(flow.settings.node_limit);
  // What an earlier job's agents had has been ended with that job.
  const bool other_job = std::any_of(history.facts.begin(), history.facts.end(), [this](const auto& fact) {
    return fact.first == "job_id" && fact.second != flow.settings.job_id;
  });
  driver_options.gather_ticks = TicksOf(flow.settings.fence) + 1;  // the first is at once
  driver_options.restarted =
      std::any_of(history.facts.begin(), history.facts.end(), [this](const auto& fact) {
        return fact.first == "started_ns" &&
               fact.second == StrCat(flow.settings.started.time_since_epoch().count());
      });
  // Before it is lost a node is silent for a while.
  driver_options.hung_after = std::min(driver_options.hung_after, flow.settings.fence * 2 / 3);
  if (other_job) driver_options.gather_ticks = kGatherAfterAnotherJob;
  granted = std::move(*nodes);
  for (const batch::GrantedNode& node : granted) {
    if (node.memory > 0) driver_options.memory_granted.emplace(node.name, node.memory);
  }
  RunDriver::Hooks hooks;
  hooks.wake = [this] { loop->Post([this] { Flush(); }); };
  hooks.drop_agent = [this](const wire::Channel* channel) { DropAgent(channel); };
  hooks.attempt_ended = [this](const journal::AttemptRecord& record) {
    others->AttemptEnded(record);
    awaiting.AttemptEnded(record);
  };
  hooks.decided = [this](TaskId task, journal::TaskFate fate) {
    others->Decided(task, fate, driver->recorder().added());
    awaiting.Settled(task);
  };
  hooks.ended_elsewhere = [this](TaskId task) {
    awaiting.Settled(task);
    if (std::exchange(tells_awaiting, true)) return;
    loop->Post([this] {
      tells_awaiting = false;
      awaiting.Committed(committed);
    });
  };
  hooks.tell = [this](const std::string& line) { Tell(line); };
  hooks.made_of = [this](uint32_t output_file) {
    made::Attempts attempts;
    const std::string path = run_dir::MadePath(dir().path(), output_file);
    const Status read = made::Read(dir(), path, flow.settings.flow_id, &attempts);
    if (!read.ok() && read.code() != Code::kNotFound)
      os::LogWarning(StrCat("what lost attempts made stays: ", read.message()));
    return attempts;
  };
  hooks.modified = [](const std::string& path) -> std::optional<WallTime> {
    const Result<os::FileInfo> info = os::RealFileSystem().Stat(path);
    return info.ok() ? std::optional(info->modified) : std::nullopt;
  };
  hooks.secret = [] { return run_dir::NewKey(); };
  hooks.ask_others = [this](TaskId task, const std::vector<FileId>& files, bool again) { others->Search(task, files, again); };
  hooks.published = [this](TaskId task, const MadeFiles* made) { others->Published(task, made); };
  hooks.read_list = [this](const std::string& name) -> Result<MadeFiles> {
    const Result<std::string> list = options.part.run->Read(StrCat(exchange_path(), "/", name));
    return list.ok() ? MadeFiles::Parse(*list) : list.status();
  };
  hooks.remove_exchanged = [this](const std::string& name) { (void)options.part.run->RemoveTree(StrCat(exchange_path(), "/", name)); };
  driver_options.part = options.part.number;
  if (flow.settings.files == config::Files::kLocal && flow.settings.stage == run::Stage::kNo) {
    const Status made = options.part.run->MakeDirectories(exchange_path(), 0700);
    const Result<std::string> place = os::RealFileSystem().Resolve(exchange_path());  // agents work elsewhere
    const Status& usable = made.ok() ? place.status() : made;
    if (!usable.ok()) Tell(StrCat("what tasks of other allocations read is made again there: ", usable.message()));
    if (usable.ok()) driver_options.exchange = *place;
  }
  driver = std::make_unique<RunDriver>(flow, driver_options, journal.get(), std::move(hooks));
  made::Attempts made;
  if (epoch > 1) made = made::ReadAll(dir(), dir().path(), flow.settings.flow_id);
  HARROW_RETURN_IF_ERROR(driver->Restore(history, std::move(made)));
  HARROW_RETURN_IF_ERROR(ReadyForOthers(history));
  DrainAgain(history);
  awaiting.Restore(history);
  RecordStart(history);
  if (options.part.is_first()) ReadyForSubmissions(std::move(known));
  account.emplace(os::RealFileSystem(), options.site.local, flow.settings, flow.graph, history);
  HARROW_RETURN_IF_ERROR(Announce());

  if (Result<std::optional<run::BestValue>> known_best = run::ReadBest(options.part.run); !known_best.ok()) {
    os::LogWarning(known_best.status().message());
    Tell(known_best.status().message());
  } else if (*known_best) {
    driver->LearnBest((*known_best)->value);
    best.Restore(**std::move(known_best));
  }
  driver->Begin(Now());
  if (driver->local_files()) TakeExchange(!driver_options.restarted && options.part.is_first());
  links->Begin();
  if (driver_options.restarted) {
    stays_until = loop->Now() + kBackTime;
    loop->After(kBackTime, [this] { GoOn(); });
  }
  TickTimer();
  ReportTimer();
  ListenTimer();
  ProgressTimer();
  BatchTimer();
  AccountTimer();
  FeedTasks();
  return Status();
}

/// `anew`: nobody of this session has been there. What it holds of tasks that are open they make again.
void Server::Impl::TakeExchange(bool anew) {
  Result<std::vector<std::string>> names = options.part.run->List(exchange_path());
  if (!names.ok()) return os::LogWarning(StrCat("what other allocations have left is made again: ", names.status().message()));
  std::erase_if(*names, [&](const std::string& name) {
    const std::optional<TaskId> task = TaskOfList(name);
    const bool open = task && (task->value >= flow.graph.task_count() || driver->recorder().fate(*task) != journal::TaskFate::kDone);
    if (anew && open) (void)options.part.run->Remove(StrCat(exchange_path(), "/", name));
    return !task || (anew && open);
  });
  driver->NoteLeft(*names, {});
}

Status Server::Impl::OpenJournal(journal::History* history) {
  const run::RunSettings& settings = flow.settings;
  journal::Journal::Options journal_options;
  journal_options.run_id = settings.run_id;
  journal_options.epoch = 0;
  journal_options.sync = settings.sync_journal;
  Result<std::unique_ptr<journal::Journal>> opened =
      journal::Journal::Open(options.part.dir, journal_options, history);
  if (!opened.ok()) return opened.status();
  journal = std::move(*opened);
  epoch = history->epoch + 1;
  for (const auto& [key, value] : history->facts) {
    if (key == "flow_id" && value != settings.flow_id) {
      return Status(Code::kDamaged, StrCat(run_path(),
                                           ": flow and journal do not belong together; go on with harrow "
                                           "run --resume --run-dir ",
                                           run_path()));
    }
  }
  journal->SetCallbacks([this](uint64_t sequence) { loop->Post([this, sequence] { Committed(sequence); }); },
                        [this](Status why) { loop->Post([this, why] { JournalFailed(why); }); });
  has_record.assign(flow.graph.task_count(), false);
  for (const journal::TaskRecord& task : history->tasks) {
    if (task.task.value < has_record.size()) has_record[task.task.value] = true;
  }
  return Status();
}

void Server::Impl::RecordStart(const journal::History& history) {
  const run::RunSettings& settings = flow.settings;
  Recorder& recorder = driver->recorder();
  recorder.Fact("flow_id", settings.flow_id);
  recorder.Fact("name", settings.name);
  recorder.Fact("tasks", StrCat(flow.graph.task_count()));
  recorder.Fact("order", order::PolicyName(settings.order));
  recorder.Fact("submit_dir", settings.submit_dir);
  const Result<std::string> place = os::RealFileSystem().Resolve(run_path());
  recorder.Fact("run_dir", place.ok() ? *place : run_path());
  recorder.Fact("started_ns", StrCat(settings.started.time_since_epoch().count()));
  recorder.Fact("version", StrCat(run::kFlowVersion));
  recorder.Fact("unwanted", StrCat(driver->unwanted()));
  if (!settings.job_id.empty()) recorder.Fact("job_id", settings.job_id);
  if (!settings.partition.empty()) recorder.Fact("partition", settings.partition);
  recorder.Fact("session_ns", StrCat(settings.session_start().time_since_epoch().count()));
  const bool ended_before = std::any_of(history.facts.begin(), history.facts.end(), [](const auto& fact) {
    return fact.first == "ended_ns" && !fact.second.empty();
  });
  if (ended_before) recorder.Fact("ended_ns", "");
}

Status Server::Impl::Announce() {
  credentials = {.run_id = flow.settings.run_id, .key = run_dir::NewKey()};
  Result<std::unique_ptr<wire::Listener>> listening = wire::Listen(
      loop, batch->ListenHosts(), {options.site.port_first, options.site.port_last}, credentials,
      wire::Limits(), [this](std::shared_ptr<wire::Channel> channel) { return Accept(std::move(channel)); },
      {wire::Role::kAgent, wire::Role::kClient, wire::Role::kServer});
  if (!listening.ok()) return listening.status();
  listener = std::move(*listening);
  run_dir::Rendezvous rendezvous;
  rendezvous.run_id = credentials.run_id;
  rendezvous.epoch = epoch;
  rendezvous.addresses = listener->addresses();
  rendezvous.key = credentials.key;
  rendezvous.host = HostName();
  rendezvous.pid = getpid();
  os::LogInfo(StrCat("server of epoch ", epoch, " listens on ", rendezvous.addresses.front(), "; ",
                     flow.graph.task_count(), " tasks"));
  return run_dir::WriteRendezvous(dir(), dir().path(), rendezvous);
}

wire::ChannelHandler Server::Impl::Accept(std::shared_ptr<wire::Channel> channel) {
  if (channel->role() == wire::Role::kServer) return links->Accept(std::move(channel));
  return channel->role() == wire::Role::kAgent ? AcceptAgent(std::move(channel))
                                               : AcceptClient(std::move(channel));
}

wire::ChannelHandler Server::Impl::AcceptAgent(std::shared_ptr<wire::Channel> channel) {
  const wire::Channel* key = channel.get();
  agents[key].channel = std::move(channel);
  wire::ChannelHandler handler;
  handler.on_message = [this, key](std::string_view bytes) {
    const auto found = agents.find(key);
    if (found == agents.end()) return;
    const Status taken = TakeFromAgent(&found->second, bytes);
    if (taken.ok()) return;
    // One that comes when all is done is told to leave as the others are.
    const bool refused = phase < Phase::kLeaving;
    if (refused) os::LogWarning(StrCat("agent at ", key->peer(), ": ", taken.message()));
    pb::ToAgent answer;
    answer.mutable_shutdown()->set_reason(taken.message());
    answer.mutable_shutdown()->set_refused(refused);
    found->second.channel->Send(answer.SerializeAsString());
    driver->Disconnected(Now(), found->second.node, key);
    DropAgent(key);
  };
  handler.on_closed = [this, key](const Status& why) {
    const auto found = agents.find(key);
    if (found == agents.end()) return;
    os::LogInfo(StrCat("agent at ", key->peer(), ": ", why.message()));
    if (found->second.node && phase < Phase::kLeaving) driver->Disconnected(Now(), found->second.node, key);
    agents.erase(found);
    loop->Post([this] { GoOn(); });
  };
  return handler;
}

Status Server::Impl::TakeFromAgent(AgentSession* session, std::string_view bytes) {
  HARROW_RETURN_IF_ERROR(wire::Decode(bytes, &from_agent));
  if (session->node) {
    driver->Handle(Now(), session->node, from_agent);
    return Status();
  }
  if (!from_agent.has_hello()) return Status(Code::kRefused, "it did not say who it is");
  if (phase >= Phase::kLeaving) return Status(Code::kRefused, "the run is over");
  const Result<NodeId> joined = driver->Join(Now(), session->channel, from_agent);
  if (joined.ok()) session->node = *joined;
  return joined.status();
}

void Server::Impl::DropAgent(const wire::Channel* key) {
  const auto found = agents.find(key);
  if (found == agents.end()) return;
  found->second.channel->Close();
  // Not now: it may be that channel whose message is being handled.
  loop->Post([this, held = std::move(found->second.channel)] { GoOn(); });
  agents.erase(found);
}

wire::ChannelHandler Server::Impl::AcceptClient(std::shared_ptr<wire::Channel> channel) {
  const wire::Channel* key = channel.get();
  ClientSession::Hooks hooks{.now = [this] { return Now(); },
                             .submit =
                                 [this](pb::SubmitRequest request, Submissions::Told told) {
                                   Submit(std::move(request), this->options.part.number, std::move(told));
                                 },
                             .await = [this](auto asking_channel, const pb::AwaitRequest& request) {
                               // Of a task that another server has told of already.
                               const auto is_new = [this](uint32_t task) { return task >= flow.graph.task_count(); };
                               if (std::any_of(request.task().begin(), request.task().end(), is_new)) ReadAddedAgain();
                               awaiting.Ask(std::move(asking_channel), request);
                             },
                             .offer = [this](run::BestValue value, Best::Told told) { Offer(std::move(value), std::move(told)); },
                             .best = [this] { return KnownBest(); },
                             .drain = [this](std::function<void(Status)> told) { Drain(std::move(told)); },
                             .drain_node = [this](const std::string& name) { return driver->DrainNode(name); },
                             .move = [this](TaskId task, const pb::MoveTask& request, std::function<void(Status)> told) { Move(task, request, std::move(told)); },
                             .takes_tasks = [this] { return TakesTasks(); },
                             .tell_load = [this](pb::Progress* told) { others->TellLoad(told); },
                             .cancel = [this](const std::vector<TaskId>& tasks) { others->Cancel(tasks); },
                             .allocation = [this](pb::AllocationStatus* status) {
                               others->Snapshot(status);
                               status->set_job(flow.settings.job_id);
                               status->set_partition(flow.settings.partition);
                             }};
  clients.emplace_back(std::move(channel), &flow, driver.get(), std::move(hooks));
  const auto session = std::prev(clients.end());
  wire::ChannelHandler handler;
  handler.on_message = [session](std::string_view bytes) { session->OnMessage(bytes); };
  handler.on_sent = [this] {
    if (phase == Phase::kLeaving) GoOn();
  };
  handler.on_closed = [this, key](const Status&) {
    awaiting.Gone(key);
    clients.remove_if([key](const ClientSession& client) { return client.channel() == key; });
  };
  return handler;
}

// --- run

void Server::Impl::Flush() {
  driver->Flush(Now());
  others->GoOnMoving();
  GoOn();
}

void Server::Impl::TickTimer() {
  driver->Tick(Now());
  loop->After(kTick, [this] { TickTimer(); });
}

void Server::Impl::ListenTimer() {
  driver->FindSilent(Now());
  loop->After(kListenEvery, [this] { ListenTimer(); });
}

void Server::Impl::ProgressTimer() {
  WriteProgress();
  loop->After(kProgressEvery, [this] { ProgressTimer(); });
}

// The answer may take seconds, so a thread of its own waits for it.
void Server::Impl::BatchTimer() {
  if (asking.joinable()) asking.join();
  asking = std::thread([this] {
    const std::optional<WallTime> end = batch->EndTime();
    const std::optional<std::vector<std::string>> closed = batch->DrainedNodes();
    loop->Post([this, end, closed] {
      if (end) driver->EndTime(Now(), *end);
      if (closed) driver->SiteDrains(*closed);
      if (!end && !closed) return;
      loop->After(kAskBatchEvery, [this] { BatchTimer(); });
    });
  });
}

void Server::Impl::AccountTimer() {
  if (!account->wanted()) return;
  account->Leave(driver->FiguresAt(Now()));
  loop->After(kAccountEvery, [this] { AccountTimer(); });
}

void Server::Impl::ReportTimer() {
  others->Tick();
  passed_on.AskAgain();
  GoOnDraining();
  loop->After(flow.settings.report_period, [this] { ReportTimer(); });
}

void Server::Impl::Tell(const std::string& line) {
  if (++notice_count <= kMostNotices) notices.push_back(line.substr(0, kMaxNotice));
}

void Server::Impl::WriteProgress() {
  pb::Progress figures;
  if (driver != nullptr) driver->Snapshot(Now(), false, &figures);
  for (const batch::GrantedNode& node : granted) {
    if (driver == nullptr || phase != Phase::kRunning || figures.absent_size() == kMostAbsent) break;
    if (driver->IsAbsent(node.name)) figures.add_absent(node.name);
  }
  figures.set_complete(phase == Phase::kOver);
  figures.set_drained(drained);
  figures.set_problem(problem.substr(0, kMaxProblem));
  figures.set_out_of_time(driver != nullptr && driver->out_of_time());
  if (driver != nullptr) figures.set_open_time_ns(driver->open_time().count());
  if (driver != nullptr && driver->end_time())
    figures.set_end_time_ns(driver->end_time()->time_since_epoch().count());
  do {
    figures.clear_notice();
    if (!notices.empty()) figures.add_notice(notices.front());
    if (!progress.Write(figures)) break;
    if (!notices.empty()) notices.pop_front();
  } while (phase == Phase::kOver && !notices.empty());
}

// The task table goes to the journal in pieces, the next when the last is on disk, so that results need not
// wait.
void Server::Impl::FeedTasks() {
  if (tasks_fed() || fed_until > committed) return;
  if (!identifier) identifier.emplace(flow.graph);
  while (identifier->done() < next_record) (void)identifier->Next();
  const graph::Graph& graph = flow.graph;
  std::vector<journal::TaskRecord> records;
  for (; !tasks_fed() && records.size() < kTaskRecordsAtOnce; ++next_record) {
    const TaskId task(next_record);
    const formats::Identity identity = identifier->Next();
    if (has_record[next_record]) continue;
    records.push_back({.task = task,
                       .name = graph.TaskName(task),
                       .kind = graph.kind(task) ? std::string(graph.kind_name(graph.kind(task))) : "",
                       .identity_high = identity.high,
                       .identity_low = identity.low,
                       .level = graph.level(task),
                       .cores = graph.profile(task).all_cores()});
  }
  if (!records.empty()) {
    driver->recorder().Tasks(std::move(records));
    fed_until = driver->recorder().added();
  }
  // What it remembers is much where tasks have no names; who submits tasks is likely to submit more.
  if (tasks_fed() && !submitted) identifier.reset();
}

void Server::Impl::Committed(uint64_t sequence) {
  committed = std::max(committed, sequence);
  driver->Committed(sequence);
  others->Committed(sequence);
  awaiting.Committed(sequence);
  for (; !promised.empty() && promised.front().first <= committed; promised.pop_front()) promised.front().second(Status());
  FeedTasks();
  GoOn();
}

void Server::Impl::JournalFailed(const Status& why) {
  CannotRecord("the journal", why);
}

void Server::Impl::CannotRecord(const char* what, const Status& why) {
  if (journal_failed) return;
  journal_failed = true;
  problem = StrCat(what, " cannot be written: ", why.message(),
                   "; the run has been stopped, nothing recorded is "
                   "lost; go on with harrow run --resume --run-dir ",
                   run_path());
  os::LogError(problem);
  if (phase >= Phase::kLeaving) return;
  driver->Interrupt(Now());
  Leave();
}

// --- end

void Server::Impl::GoOn() {
  // What is under way to or from another server is settled by the journals where this one has to stop.
  const bool settled = (others->idle() && (passed_on.idle() || !passed_on.taker())) || driver->interrupted();
  if (phase == Phase::kRunning && driver->complete() && tasks_fed() && (!submissions || submissions->idle()) && best.idle() && settled) {
    phase = Phase::kRecording;
    if (others->messages() > 0) driver->recorder().Fact("server_messages", StrCat(others->messages()));
    driver->RecordEnd(Now());
  }
  if (phase == Phase::kRecording && driver->recorder().all_committed()) Leave();
  if (phase == Phase::kLeaving && agents.empty() && awaiting.all_sent() && loop->Now() >= stays_until) Finish();
}

void Server::Impl::Leave() {
  phase = Phase::kLeaving;
  driver->Flush(Now());
  driver->ShutDownAgents(journal_failed ? "the journal cannot be written" : "the run is over");
  loop->After(kLeaveTime, [this] { Finish(); });
  GoOn();
}

void Server::Impl::Finish() {
  if (phase == Phase::kOver) return;
  phase = Phase::kOver;
  // Where tasks are open, here or elsewhere, somebody may still read it.
  const bool over = driver->FiguresAt(Now()).open() == 0 && driver->scheduler().counts().elsewhere == 0;
  if (driver->local_files() && over) (void)options.part.run->RemoveTree(run_dir::ExchangesPath(run_path()));
  if (!journal_failed) {
    driver->RemoveCheckpoints(run_path());
    WriteProgress();  // the keeper lets the journal be closed in peace
    if (const Status closed = journal->Close(); !closed.ok()) {
      journal_failed = true;
      problem = StrCat("the journal cannot be written: ", closed.message());
    }
  }
  if (EndOf() == run::ServerEnd::kCannotGoOn && problem.empty()) problem = CannotGoOn();
  (void)dir().Remove(run_dir::ServerPath(dir().path()));
  links->Close();
  AccountTimer();
  WriteProgress();
  for (ClientSession& client : clients) client.Close();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  os::LogInfo(StrCat("the run is over (", static_cast<int>(EndOf()), "); the server used ",
                     SecondsOf(usage.ru_utime), " s user, ", SecondsOf(usage.ru_stime), " s system, ",
                     usage.ru_maxrss, " KiB"));
  // Channels still have to send what is queued.
  loop->Post([this] { loop->Stop(); });
}

std::string Server::Impl::CannotGoOn() const {
  if (!driver->fatal().empty()) return driver->fatal();
  if (driver->nodes_gone()) return "no node is left that could run what is left";
  return StrCat(driver->FiguresAt(Now()).open(),
                " tasks could not be started; harrow explain TASK tells why");
}

run::ServerEnd Server::Impl::EndOf() const {
  if (journal_failed) return run::ServerEnd::kCannotGoOn;
  const Figures figures = driver->FiguresAt(Now());
  if (!driver->fatal().empty()) return run::ServerEnd::kCannotGoOn;
  if (const auto end = driver->StagingEnd()) return *end;
  if (drained && (figures.open() == 0 || others->there())) return run::ServerEnd::kAllDone;
  // One that came when all was settled, as agents left, has interrupted nothing.
  if (figures.open() > 0 && (driver->interrupted() || driver->out_of_time())) return run::ServerEnd::kStopped;
  if (driver->nodes_gone()) return run::ServerEnd::kCannotGoOn;
  if (figures.missed() > 0) return run::ServerEnd::kSomeFailed;
  return figures.done + figures.pruned == figures.total ? run::ServerEnd::kAllDone : run::ServerEnd::kCannotGoOn;
}

}  // namespace harrow::server
