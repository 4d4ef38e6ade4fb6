// Threads of an agent: this one (the event loop: the conversation with the server, signals), the collector
// (output and batches of results), one a slot (tasks), and where the site limits it one that watches the
// disk. Whoever serves ranks has one, and so has the way to the loop from threads with descriptors of their
// own (gang_port.cc). Nothing that may block on storage runs on the loop while it is connected. All but the
// loop's thread look themselves whether tasks may run (fence_page.cc).
#include "agent/agent.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <malloc.h>
#include <optional>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/collector.h"
#include "agent/file_port.h"
#include "agent/gang_port.h"
#include "agent/local_watch.h"
#include "agent/messages.h"
#include "agent/node_plan.h"
#include "agent/pmix/pmi1_port.h"
#include "agent/pmix/pmix_port.h"
#include "agent/session.h"
#include "agent/slot_pool.h"
#include "agent/stream_port.h"
#include "base/text.h"
#include "os/event_loop.h"
#include "os/file_system.h"
#include "os/log.h"
#include "os/process.h"
#include "os/random.h"
#include "run_dir/names.h"
#include "run_dir/rendezvous.h"
#include "topology/fabric.h"
#include "topology/machine.h"
#include "wire/address.h"
#include "wire/channel.h"

namespace harrow::agent {
namespace {

constexpr Duration kLookAtSlots = std::chrono::seconds(1);
constexpr Duration kOutputPatience = std::chrono::minutes(5);  // with storage that takes no output
constexpr Duration kSayGoodbye = std::chrono::seconds(2);
constexpr uint32_t kLeastHosts = 64;  // srun takes a line a process
constexpr Duration kLookWhetherIdle = std::chrono::milliseconds(20);

std::optional<std::string> Variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

class Agent {
 public:
  explicit Agent(AgentOptions options) : options_(std::move(options)) {}

  int Run() {
    if (const Status ready = Begin(); !ready.ok()) {
      os::LogError(ready.message());
      return kAgentCannotGoOn;
    }
    loop_->Run();
    os::LogInfo(StrCat("the agent ends with ", exit_));
    // A slot may wait for a child that was stopped before it ran its program. The warden ends all that is
    // left.
    if (!node_.fence->MayRun(os::RealClock().Steady()) && !pool_->Idle()) _exit(exit_);
    if (file_port_) file_port_->Stop();
    // Slots may wait for its answers, and it tells the pool what is lost.
    if (pmix_port_) pmix_port_->Stop();
    // Threads first: they use the collector, and the collector the loop.
    local_watch_.reset();
    pool_.reset();
    pmix_port_.reset();
    if (shares_gang_port_) stream_port_->gate()->Close();
    stream_port_.reset();
    gang_port_.reset();
    node_.copies.Remove();
    collector_.reset();
    session_.reset();
    file_port_.reset();
    if (home_) home_->Close();
    return exit_;
  }

 private:
  Status Begin() {
    Result<topology::Machine> machine = topology::ReadMachine();
    if (!machine.ok()) return machine.status();
    topology::KeepVisibleDevices(Variable("CUDA_VISIBLE_DEVICES"), Variable("ROCR_VISIBLE_DEVICES"),
                                 &*machine);
    NodePlan plan = PlanNode(options_, *machine);
    Result<std::unique_ptr<output::Writer>> writer = output::Writer::CreateNew(
        *options_.dir, options_.dir->path(), [] { return static_cast<uint32_t>(os::UniqueNumber()); }, &output_file_);
    if (!writer.ok()) return writer.status();
    char directory[4096];
    if (getcwd(directory, sizeof directory) != nullptr) node_.directory = directory;
    node_.slots = std::move(plan.slots);
    node_.fence = options_.fence;
    node_.fence->SetOutputFile(output_file_);
    node_.devices = std::move(plan.devices);
    node_.tmp_root = options_.tmp_root;
    node_.criu = std::make_unique<CriuTool>(options_.harrow, options_.criu, node_.tmp_root.path);
    node_.memory = plan.memory;
    node_.local_limit = plan.local_limit;
    // Slurm ends a step, and systemd a unit, by a signal to each of its processes.
    node_.in_step = Variable("SLURM_STEP_ID").has_value() || Variable("INVOCATION_ID").has_value();

    notice_ = plan.notice;
    OpenHome();
    const auto slots = static_cast<uint32_t>(node_.slots.size());
    const std::string fabric = options_.no_fabric ? topology::Fabric() : "";
    if (!fabric.empty()) os::LogInfo(StrCat("mpi_profile = no-fabric is not for this node: it has ", fabric));
    NodeInfo info{.name = options_.node_name,
                  .slots = slots,
                  .devices = static_cast<uint32_t>(node_.devices.size()),
                  .memory = node_.memory,
                  .topology = plan.summary,
                  .incarnation = incarnation_ = os::UniqueNumber(),
                  .output_file = output_file_,
                  .own_tmp = !node_.tmp_root.empty(),
                  .no_fabric = options_.no_fabric && fabric.empty(),
                  .run_dir = options_.run_dir,
                  .part = options_.part,
                  .local = options_.local,
                  .unfit = options_.unfit.empty() ? no_home_ : options_.unfit,
                  .hosts = {}};
    if (Variable("SLURM_JOB_ID"))
      info.hosts = MakeLinesFile(node_.tmp_root, "hosts", info.name, std::max(kLeastHosts, 2 * slots));
    os::LogInfo(StrCat("agent of node ", info.name, ": ", slots, " slots, ", info.topology));
    if (node_.tmp_root.empty()) {
      notice_ +=
          StrCat(notice_.empty() ? "" : "; ",
                 "no directory for temporary files is safe (TMPDIR, /tmp): tasks have none of their own",
                 Variable("SLURM_JOB_ID") ? ", and in an array srun needs -w $SLURMD_NODENAME" : "");
    }

    const std::array signals = {SIGTERM, SIGINT, SIGHUP};
    loop_began_ =
        os::RealClock().Steady();  // before it does, so that no time of the loop's is taken for a later one
    loop_ = os::MakeEventLoop();
    signal_fd_ = os::SignalDescriptor(signals);
    loop_->WatchFd(signal_fd_, [this] {
      while (const int signal = os::ReadSignal(signal_fd_)) Leave(StrCat("signal ", signal), kAgentDone);
    });
    const auto post = [this](auto work) { loop_->Post(std::move(work)); };
    collector_ = std::make_unique<Collector>(
        std::move(writer).value(), os::RealClock(),
        [this, post](Batch batch) {
          // A function object has to be copyable.
          auto shared = std::make_shared<Batch>(std::move(batch));
          post([this, shared] {
            session_->Deliver(std::move(*shared));
            collector_->Arrived();
          });
        },
        [this, post](std::string problem) { post([this, problem] { session_->Report(problem); }); });
    collector_->SetStuck(kOutputPatience, [this, post](std::string problem) {
      post([this, problem] { session_->Report(problem, true); });
    });
    JoinOtherNodes();
    ServeRanks();
    ServeStreams();
    pool_ = std::make_unique<SlotPool>(node_, os::RealClock(), *collector_);
    slots_ = pool_.get();
    if (node_.local_limit > 0) local_watch_ = std::make_unique<LocalWatch>(node_, os::RealClock(), *pool_);
    session_ = std::make_unique<Session>(
        *loop_, *pool_, info, [this](Session::OnDialed done) { Dial(std::move(done)); },
        Session::Hooks{
            .over = [this](Session::Over how, const std::string& why) { Over(how, why); },
            .welcomed = [this](const pb::Welcome& welcome) { TakeSettings(welcome); },
            .job_ends = [this](WallTime end) { node_.job_ends_ns.store(end.time_since_epoch().count()); },
            .may_run_until =
                [this](std::optional<Time> until) {
                  return pool_->RunUntil(until ? loop_began_ + until->time_since_epoch()
                                               : FencePage::kNoFence);
                },
            .files =
                [this](const pb::ToAgent& message) {
                  if (file_port_) return file_port_->Take(message);
                  for (const pb::Peer& peer : message.peer()) Meet(peer);
                },
            .streams = [this](const pb::ToAgent& message) { stream_port_->Take(message); },
            .held =
                [this](pb::AgentHello* hello) {
                  NameHeld(hello);
                  stream_port_->NameWritten(hello);
                }});
    session_->Start();
    LookAtSlots();
    return {};
  }

  void Dial(Session::OnDialed done) {
    Result<run_dir::Rendezvous> server = run_dir::ReadRendezvous(*options_.dir, options_.dir->path());
    if (!server.ok()) {
      done(server.status());
      return;
    }
    if (server->addresses.empty()) {
      done(Status(Code::kUnavailable, "the server names no address"));
      return;
    }
    // One address an attempt, in turn.
    const std::string address = server->addresses[dials_++ % server->addresses.size()];
    dialled_ = address;
    credentials_ = {.run_id = server->run_id, .key = server->key};
    if (file_port_) file_port_->SetCredentials(credentials_);
    if (gang_port_) gang_port_->SetCredentials(credentials_);
    wire::Dial(
        loop_.get(), address, wire::Role::kAgent, {.run_id = server->run_id, .key = server->key}, {},
        [done = std::move(done), run_id = server->run_id](Result<std::shared_ptr<wire::Channel>> channel) {
          if (!channel.ok()) return done(channel.status());
          return done(Session::Connection{.channel = std::move(channel).value(), .run_id = run_id});
        });
  }

  void TakeSettings(const pb::Welcome& welcome) {
    node_.output_limit.store(welcome.output_limit());
    // Slots have descriptors of their own, but /proc/self is this thread, which has the directory open.
    node_.made.Set(run_dir::MadePath(options_.dir->LastingPath("."), output_file_), welcome.flow_id());
    node_.copies.Set(run_dir::CopiesPath(options_.dir->LastingPath("."), output_file_));
    node_.kill_wait_ns.store(welcome.kill_wait_ns());
    self_ = NodeId(welcome.node());
    stream_port_->SetSelf(self_);
    if (welcome.local_files()) KeepFiles(welcome);
    if (gang_port_) gang_port_->TellAddresses();
    if (!settled_) {
      // Before the first task: slots read the directory from then on.
      settled_ = true;
      if (chdir(welcome.submit_dir().c_str()) == 0) node_.directory = welcome.submit_dir();
      if (!notice_.empty()) session_->Report(notice_);
    }
  }

  /// Tasks of several nodes, when there will be any. Where files go between nodes there are none.
  void JoinOtherNodes() {
    if (options_.files != AgentOptions::Files::kShared) return;
    gang_port_ = std::make_unique<GangPort>(
        loop_.get(),
        GangPort::Hooks{
            .open = [this] { return ListenForOthers(); },
            .addresses =
                [this](const std::vector<std::string>& addresses) { session_->TellPeerAddresses(addresses); },
            .asked =
                [this](AttemptId attempt, std::string question, std::function<void(std::string)> answer) {
                  if (!pmix_port_) return answer({});
                  pmix_port_->Ask(attempt, std::move(question), std::move(answer));
                },
            .problem = [this](const std::string& text) { session_->Report(text); }});
    node_.gangs = gang_port_.get();
  }

  Result<std::unique_ptr<Peers>> ListenForOthers() {
    return MakePeers(loop_.get(), {.self = self_,
                                   .incarnation = incarnation_,
                                   .credentials = credentials_,
                                   .hosts = {wire::HostTowards(dialled_)},
                                   .ports = options_.ports});
  }

  void Meet(const pb::Peer& peer) {
    if (!gang_port_) return;
    const NodeId node(peer.node());
    if (peer.address().empty()) return gang_port_->Forget(node);
    gang_port_->Know(node, {peer.address().begin(), peer.address().end()}, peer.incarnation());
  }

  /// Between tasks, when there will be any.
  void ServeStreams() {
    stream_port_ = std::make_unique<StreamPort>(
        node_.tmp_root.path,
        StreamPort::Hooks{
            .rewind = [this](AttemptId attempt,
                             const std::string&) { slots_->EndTasks({attempt}, End::kRewound); },
            .wake = [this](AttemptId attempt) { slots_->WakeSlotsOf(attempt); },
            .first =
                [this] {
                  loop_->Post([this] {
                    if (file_port_) return file_port_->Share(stream_port_->gate());
                    Peers* const peers = gang_port_ ? gang_port_->OpenForAll() : nullptr;
                    if (peers == nullptr) return;
                    shares_gang_port_ = true;
                    stream_port_->gate()->Open(loop_.get(), peers);
                  });
                }});
    node_.streams = stream_port_.get();
  }

  /// Of MPI tasks, when there will be any.
  void ServeRanks() {
    node_.rank_root = MakeSharedMemoryRoot(node_.tmp_root);
    pmi1_port_ =
        std::make_unique<Pmi1Port>(node_.gangs, [this](AttemptId attempt) { slots_->WakeSlotsOf(attempt); });
    node_.rank_servers.pmi1 = pmi1_port_.get();
    if (options_.mpi_helper.empty()) {
      node_.rank_servers.no_pmix =
          StrCat("its ranks need PMIx, and harrow-pmix is not installed on ", options_.node_name,
                 ": harrow was built without libpmix; with mpi = \"none\" it starts them "
                 "without");
      return;
    }
    pmix_port_ = std::make_unique<PmixPort>(
        PmixPort::Options{.program = options_.mpi_helper,
                          .node = options_.node_name,
                          .root = node_.rank_root,
                          .gangs = node_.gangs},
        os::RealClock(),
        PmixPort::Hooks{.lost = [this](const std::vector<AttemptId>& attempts,
                                       const std::string&) { pool_->EndTasks(attempts, End::kLost); },
                        .may_run = [this] { return node_.fence->MayRun(os::RealClock().Steady()); }});
    node_.rank_servers.pmix = pmix_port_.get();
  }

  /// Before the first greeting, which names what is there.
  void OpenHome() {
    using Files = AgentOptions::Files;
    using Use = StoreHome::Options::Use;
    if (options_.files == Files::kShared) return;
    const std::string& base = options_.local_dir.empty() ? options_.local : options_.local_dir;
    Result<std::unique_ptr<StoreHome>> home =
        StoreHome::Open({.base = IsSafeBase(base) ? base : "",
                         .of_job = options_.local_dir.empty(),
                         .tmp = options_.tmp_root.path,
                         .node = options_.node_name,
                         .session = options_.session,
                         .limit = options_.local_limit / options_.share.of,
                         .use = options_.files == Files::kStage  ? Use::kStage
                                : options_.files == Files::kDrop ? Use::kDrop
                                                                 : Use::kRun});
    if (home.ok()) {
      home_ = *std::move(home);
      staged_ = home_->FindUnchanged(options_.commands.directory);
      if (!home_->notice().empty()) notice_ += (notice_.empty() ? "" : "; ") + home_->notice();
    } else if (options_.files != Files::kDrop || home.status().code() != Code::kNotFound) {
      no_home_ = "the flow's files cannot be kept there: " + home.status().message();
    } else {
      notice_ = "there is nothing to be dropped";
    }
  }

  void NameHeld(pb::AgentHello* hello) {
    if (file_port_) return file_port_->NameHeld(hello);
    if (!home_) return;
    agent::NameHeld(home_->held(), hello);
    if (home_->found()) (void)hello->add_staged();
    for (const SourceIndex::Entry& entry : staged_) {
      pb::StagedFile* staged = hello->add_staged();
      staged->set_path(entry.path);
      staged->set_object(entry.object.id.Bytes());
      staged->set_bytes(entry.object.bytes);
    }
  }

  /// The flow's files lie on this node's disk, from the first welcome on.
  void KeepFiles(const pb::Welcome& welcome) {
    if (!home_) return;
    if (!file_port_) {
      staged_.clear();
      const auto tell = [this](const FileNews& news) {
        loop_->Post([this, news] {
          if (!news.text.empty()) os::LogWarning(StrCat("file ", news.file.value, ": ", news.text));
          session_->TellFile(news);
        });
      };
      Result<std::unique_ptr<FilePort>> port = FilePort::Open(
          {.home = home_.get(),
           .stages = options_.files != AgentOptions::Files::kLocal,
           .incarnation = incarnation_,
           .slots = static_cast<uint32_t>(node_.slots.size()),
           .ports = options_.ports},
          welcome, dialled_, credentials_,
          {.arrived = [pool = pool_.get()](AttemptId attempt) { pool->InputArrived(attempt); },
           .failed = [pool = pool_.get()](AttemptId attempt,
                                          const std::string& why) { pool->InputFailed(attempt, why); },
           .tell = tell,
           .temporary = [this](const std::string& path) { node_.copies.Add(path); }});
      if (!port.ok())
        return session_->TellUnfit("the flow's files cannot be kept there: " + port.status().message());
      file_port_ = *std::move(port);
      node_.files = file_port_->files();
      if (local_watch_) local_watch_->Share(&file_port_->files()->store());
    }
    session_->TellPeerAddresses(file_port_->addresses());
    file_port_->files()->TellMissing();
  }

  /// For a collector that is held up by storage (slot_pool.cc). And what much output once needed must not
  /// hide how little later tasks do (os/spawn.cc).
  void LookAtSlots() {
    pool_->InterruptBlindWaits();
    os::ForgetPeakMemory();
    loop_->After(kLookAtSlots, [this] { LookAtSlots(); });
  }

  void Over(Session::Over how, const std::string& why) {
    os::LogInfo(StrCat("over: ", why));
    // Who is not wanted any more may have been replaced: its tasks are killed, and do nothing before that.
    if (how == Session::Over::kRefused) node_.kill_wait_ns.store(0);
    Leave(why, how == Session::Over::kShutDown ? kAgentDone : kAgentCannotGoOn);
  }

  /// Ends the tasks, lets the server know while it is there, and ends.
  void Leave(const std::string& why, int code) {
    if (leaving_) return;
    leaving_ = true;
    exit_ = code;
    os::LogInfo(StrCat("ending what runs: ", why));
    session_->Leave();
    pool_->Close(End::kInterrupted);
    leave_by_ = loop_->Now() + Duration(node_.kill_wait_ns.load()) + kSayGoodbye;
    WaitUntilIdle();
  }

  void WaitUntilIdle() {
    const bool quiet = pool_->Idle() && (!session_->joined() || session_->AllSent());
    if (quiet || loop_->Now() >= leave_by_) {
      session_->Close();
      // Once more round the loop, so that what is queued leaves.
      loop_->After(Duration(0), [this] { loop_->Stop(); });
      return;
    }
    loop_->After(kLookWhetherIdle, [this] { WaitUntilIdle(); });
  }

  const AgentOptions options_;
  NodeContext node_;
  Duration loop_began_{0};  // steady
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<StoreHome> home_;
  std::string no_home_;                      // why there is none
  std::vector<SourceIndex::Entry> staged_;   // what was found in it, until it is told
  std::unique_ptr<FilePort> file_port_;      // outlives the pool, whose slots use it
  std::unique_ptr<GangPort> gang_port_;      // likewise, and those who serve ranks
  std::unique_ptr<StreamPort> stream_port_;  // likewise
  bool shares_gang_port_ = false;
  std::unique_ptr<PmixPort> pmix_port_;  // likewise
  std::unique_ptr<Pmi1Port> pmi1_port_;  // likewise
  std::unique_ptr<SlotPool> pool_;
  SlotPool* slots_ = nullptr;  // also while it ends, for its own threads
  std::unique_ptr<LocalWatch> local_watch_;
  std::unique_ptr<Session> session_;
  int signal_fd_ = -1;
  uint32_t output_file_ = 0;
  std::string notice_;
  size_t dials_ = 0;
  std::string dialled_;            // the server's address that was tried last
  wire::Credentials credentials_;  // that go with it
  uint64_t incarnation_ = 0;
  NodeId self_{};  // as the server calls this node
  bool settled_ = false;
  bool leaving_ = false;
  Time leave_by_{};
  int exit_ = kAgentDone;
};

}  // namespace

int RunAgent(const AgentOptions& options) {
  prctl(PR_SET_NAME, "harrow-agent");
  // Messages of a few 100 KiB between nodes would each be given pages that the kernel has to clear.
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
  // Tasks inherit the standard input; nothing else uses it.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null > 0) {
    dup2(null, STDIN_FILENO);
    close(null);
  }
  return Agent(options).Run();
}

}  // namespace harrow::agent
