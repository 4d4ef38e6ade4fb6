#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "formats/identity.h"
#include "run/added.h"
#include "run/flow_builder.h"
#include "run/flow_store.h"
#include "run/progress_pipe.h"
#include "run_dir/names.h"
#include "server/awaiting.h"
#include "server/best.h"
#include "server/client_session.h"
#include "server/driver.h"
#include "server/links.h"
#include "server/other_servers.h"
#include "server/passed_on.h"
#include "server/server.h"
#include "server/site_account.h"
#include "server/submissions.h"

namespace harrow::server {

/// What a server has and does: its life (server.cc), and what it does with other servers and with what is submitted
/// (server_others.cc).
struct Server::Impl {
  /// A connection of an agent, before and after it has said who it is.
  struct AgentSession {
    std::shared_ptr<wire::Channel> channel;
    NodeId node;
  };
  enum class Phase { kRunning, kRecording, kLeaving, kOver };

  Impl(os::EventLoop* l, os::Clock* c, batch::Batch* b, ServerOptions o)
      : loop(l), clock(c), batch(b), options(std::move(o)), progress(options.progress_fd) {}

  Moment Now() const { return {loop->Now(), clock->Now()}; }

  // --- start
  Status Start();
  Status OpenJournal(journal::History* history);
  void RecordStart(const journal::History& history);
  Status Announce();
  wire::ChannelHandler Accept(std::shared_ptr<wire::Channel> channel);
  wire::ChannelHandler AcceptAgent(std::shared_ptr<wire::Channel> channel);
  Status TakeFromAgent(AgentSession* session, std::string_view bytes);
  void DropAgent(const wire::Channel* key);
  wire::ChannelHandler AcceptClient(std::shared_ptr<wire::Channel> channel);
  void ReadyForSubmissions(std::vector<run::Submission> known);
  Status ReadyForOthers(const journal::History& history);
  Status Grow(uint32_t tasks);
  void ReadAddedAgain();
  void BeLowest();
  void LoseOthers(const std::string& why);
  void TakeExchange(bool anew);

  // --- run
  void Flush();
  void TickTimer();
  void ListenTimer();
  void ProgressTimer();
  void BatchTimer();
  void AccountTimer();
  void ReportTimer();
  void Tell(const std::string& line);
  void WriteProgress();
  void FeedTasks();
  std::set<uint32_t> Readers() const;
  void Submit(pb::SubmitRequest request, uint32_t part, Submissions::Told told);
  void TakePassed(uint32_t part, const pb::PassedSubmission& passed);
  void FindTaker();
  bool TakesPassed() const;
  bool TakesTasks() const;
  bool WritesForTheAbsent() const;
  void Write(const pb::AddedGroup& group, std::function<void(Status)> done);
  void Offer(run::BestValue value, Best::Told told);
  void Save(const run::BestValue& value, std::function<void(Status)> done);
  const run::BestValue* KnownBest() const { return best.known() ? &*best.known() : nullptr; }
  void Drain(std::function<void(Status)> told);
  void DrainAgain(const journal::History& history);
  Status Move(TaskId task, const pb::MoveTask& request);
  void Move(TaskId task, const pb::MoveTask& request, std::function<void(Status)> told);
  void BeginToDrain();
  std::string SessionName() const;
  void GoOnDraining();
  void Committed(uint64_t sequence);
  void JournalFailed(const Status& why);
  void CannotRecord(const char* what, const Status& why);

  // --- end
  void GoOn();
  void Leave();
  void Finish();
  run::ServerEnd EndOf() const;
  std::string CannotGoOn() const;
  const std::string& run_path() const { return options.part.run->path(); }
  std::string exchange_path() const { return run_dir::ExchangePath(run_path(), flow.settings.flow_id); }
  run_dir::RunDir& dir() const { return *options.part.dir; }
  /// The names of tasks are in the journal of the run's first part, or of who goes on in its place.
  bool tasks_fed() const { return !submissions || next_record >= flow.graph.task_count(); }

  os::EventLoop* loop;
  os::Clock* clock;
  batch::Batch* batch;
  ServerOptions options;
  run::ProgressWriter progress;

  run::StoredFlow flow;
  run::FlowBuilder builder{&flow};
  std::optional<Submissions> submissions;
  PassedOn passed_on{{.send = [this](uint32_t part, const pb::PassedSubmission& passed) { others->SendSubmission(part, passed); },
                      .new_id = [] { return run_dir::NewKey(); }}};
  Awaiting awaiting{{.tasks = [this] { return flow.graph.task_count(); },
                     .fate = [this](TaskId task) { return driver->fate_anywhere(task); },
                     .added = [this] { return driver->recorder().added(); }}};
  Best best{{.write = [this](const run::BestValue& value, std::function<void(Status)> done) { Save(value, std::move(done)); },
             .learned =
                 [this](const run::BestValue& value, bool ours) {
                   driver->LearnBest(value.value);
                   if (ours) others->TellBest();
                 }}};
  std::optional<SiteAccount> account;
  std::vector<batch::GrantedNode> granted;
  uint64_t epoch = 1;
  std::unique_ptr<journal::Journal> journal;
  std::unique_ptr<RunDriver> driver;
  wire::Credentials credentials;
  std::unique_ptr<wire::Listener> listener;
  std::unordered_map<const wire::Channel*, AgentSession> agents;
  std::list<ClientSession> clients;
  pb::FromAgent from_agent;  // reused for every message
  std::unique_ptr<OtherServers> others;
  std::unique_ptr<Links> links;
  uint32_t flow_tasks = 0;  // those of the flow file

  std::optional<formats::Identifier> identifier;
  std::vector<bool> has_record;  // tasks that the journal's task table names
  uint32_t next_record = 0;
  uint64_t committed = 0;
  uint64_t fed_until = 0;  // journal sequence of the last task records

  std::thread asking;  // the batch system, for the allocation's end
  std::optional<run_dir::Part> first_part;  // which is over, and whose submissions this server goes on with
  std::optional<run::AddedFile> added_file;
  uint64_t added_size = 0;  // when it was read last
  uint64_t added_up_to = 0;  // what of it has been read: up to that byte; 0: as the flow was
  std::thread writing;  // to it
  std::thread saving;   // the best value
  Phase phase = Phase::kRunning;
  Time stays_until{};
  std::string problem;
  std::deque<std::string> notices;  // not yet told to the keeper
  size_t notice_count = 0;
  bool journal_failed = false;
  bool submitted = false;  // tasks, to this server
  bool tells_awaiting = false;
  bool drained = false;
  std::deque<std::pair<uint64_t, std::function<void(Status)>>> promised;  // to be told when that is on disk
  Time gave_last{};  // while it drains: when anything ran, or went to another server
  uint64_t gave = 0;
};

}  // namespace harrow::server
