// How many tasks a second one server brings through: real connections, TLS and journal, and agents that
// answer without running anything. The agents are one process with one loop; an agent's results of 2 ms leave
// together, as a real one's. --restart: half of the tasks are done, by a server that was killed; how long until the
// next one gives work to the agents that it knew.
//
// usage: perf_server [--quick] [--restart] [--agents N] [--slots N] [--tasks N]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "figure.h"
#include "journal/journal.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "run/flow_store.h"
#include "run_dir/names.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"
#include "server/server.h"
#include "wire/attempt_id.h"
#include "wire/channel.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace {

using namespace harrow;

struct Size {
  uint32_t agents = 1000, slots = 16, tasks = 1'000'000;
  bool restart = false;

  uint32_t done() const { return restart ? tasks / 2 : 0; }
};

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "perf_server: %s\n", why.c_str());
  std::exit(1);
}

double Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/// What the agents' process tells at its end.
struct Seen {
  double first = 0, last = 0;  // a task sent, a result told
  uint64_t ended = 0;
};

class Agents {
 public:
  Agents(std::shared_ptr<run_dir::RunDir> part, Size size)
      : part_(std::move(part)), size_(size), agents_(size.agents) {}

  Seen Run() {
    Wait();
    loop_->Run();
    return seen_;
  }

 private:
  struct Agent {
    std::shared_ptr<wire::Channel> channel;
    std::deque<AttemptId> ended;  // not told yet
    uint64_t sequence = 0;
    int64_t round_trip = 0;
    bool joined = false, over = false;
  };

  void Wait() {
    Result<run_dir::Rendezvous> server = run_dir::ReadRendezvous(*part_, part_->path());
    if (!server.ok()) {
      loop_->After(std::chrono::milliseconds(10), [this] { Wait(); });
      return;
    }
    server_ = std::move(*server);
    for (uint32_t i = 0; i < 32; ++i) DialNext();
    Tick();
    Beat();
  }

  void DialNext() {
    if (dialed_ == size_.agents) return;
    const uint32_t number = dialed_++;
    wire::Dial(loop_.get(), server_.addresses.at(0), wire::Role::kAgent,
               {.run_id = server_.run_id, .key = server_.key}, {},
               [this, number](Result<std::shared_ptr<wire::Channel>> channel) {
                 if (!channel.ok()) Fail(channel.status().message());
                 return Greet(number, std::move(*channel));
               });
  }

  wire::ChannelHandler Greet(uint32_t number, std::shared_ptr<wire::Channel> channel) {
    Agent& agent = agents_[number];
    agent.channel = std::move(channel);
    message_.Clear();
    pb::AgentHello* hello = message_.mutable_hello();
    hello->set_version(wire::kProtocolVersion);
    hello->set_run_id(server_.run_id);
    hello->set_incarnation(number + 1);
    hello->set_output_file(number + 1);
    hello->mutable_node()->set_name(StrCat("n", number));
    hello->mutable_node()->set_slots(size_.slots);
    agent.channel->Send(message_.SerializeAsString());
    DialNext();
    return {.on_message = [this, number](std::string_view bytes) { Take(agents_[number], bytes); },
            .on_closed = [this, number](const Status&) { Close(agents_[number]); }};
  }

  void Close(Agent& agent) {
    if (std::exchange(agent.over, true)) return;
    agent.channel->Close();
    if (++closed_ == size_.agents) loop_->Stop();
  }

  void Take(Agent& agent, std::string_view bytes) {
    if (!wire::Decode(bytes, &told_).ok()) Fail("a message cannot be read");
    agent.joined |= told_.has_welcome();
    if (told_.has_heartbeat())
      agent.round_trip = loop_->Now().time_since_epoch().count() - told_.heartbeat().sent_ns();
    if (told_.take_back_size() > 0) {
      message_.Clear();
      for (const pb::AttemptId& asked : told_.take_back()) {
        if (std::erase(agent.ended, wire::IdOf(asked)) > 0)
          *message_.mutable_returned()->add_attempt() = asked;
      }
      if (message_.has_returned()) agent.channel->Send(message_.SerializeAsString());
    }
    if (told_.start_size() > 0 && seen_.first == 0) seen_.first = Now();
    for (const pb::Task& task : told_.start()) agent.ended.push_back({TaskId(task.id()), task.attempt()});
    if (told_.has_shutdown()) Close(agent);
  }

  /// A task takes no time; its result waits for others of 2 ms. Never more at once than there are slots.
  void Tick() {
    for (Agent& agent : agents_) {
      if (agent.ended.empty() || agent.over) continue;
      message_.Clear();
      pb::TasksEnded* ended = message_.add_ended();
      ended->set_sequence(++agent.sequence);
      const int64_t now = std::chrono::system_clock::now().time_since_epoch().count();
      for (uint32_t i = 0; i < size_.slots && !agent.ended.empty(); ++i) {
        pb::Attempt* attempt = ended->add_attempt();
        attempt->set_task(agent.ended.front().task.value);
        attempt->set_attempt(agent.ended.front().number);
        attempt->set_end(pb::Attempt::EXITED);
        attempt->set_start_ns(now - 1'000'000);
        attempt->set_end_ns(now);
        attempt->mutable_usage()->set_user_us(500);
        attempt->mutable_usage()->set_max_rss_kib(1800);
        attempt->add_cores(i);
        agent.ended.pop_front();
        ++seen_.ended;
      }
      agent.channel->Send(message_.SerializeAsString());
      seen_.last = Now();
    }
    loop_->After(std::chrono::milliseconds(2), [this] { Tick(); });
  }

  void Beat() {
    for (Agent& agent : agents_) {
      if (!agent.joined || agent.over) continue;
      message_.Clear();
      message_.mutable_heartbeat()->set_sent_ns(loop_->Now().time_since_epoch().count());
      message_.mutable_heartbeat()->set_round_trip_ns(agent.round_trip);
      agent.channel->Send(message_.SerializeAsString());
    }
    loop_->After(std::chrono::seconds(1), [this] { Beat(); });
  }

  std::unique_ptr<os::EventLoop> loop_ = os::MakeEventLoop();  // outlives what it carries
  std::shared_ptr<run_dir::RunDir> part_;
  const Size size_;
  std::vector<Agent> agents_;
  run_dir::Rendezvous server_;
  pb::FromAgent message_;
  pb::ToAgent told_;
  uint32_t dialed_ = 0, closed_ = 0;
  Seen seen_;
};

class Cluster : public batch::Batch {
 public:
  explicit Cluster(uint32_t count) : count_(count) {}
  std::string name() const override { return "perf"; }
  std::string job_id() const override { return ""; }
  Result<std::vector<batch::GrantedNode>> Nodes() override {
    std::vector<batch::GrantedNode> nodes(count_);
    for (uint32_t i = 0; i < count_; ++i) nodes[i].name = StrCat("n", i);
    return nodes;
  }
  std::optional<WallTime> EndTime() override { return std::nullopt; }
  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string&) override {
    return std::vector<std::vector<std::string>>();
  }
  std::vector<std::string> ListenHosts() override { return {"127.0.0.1"}; }

 private:
  const uint32_t count_;
};

run_dir::Part MakeRun(const std::string& directory, Size size) {
  Result<std::shared_ptr<run_dir::RunDir>> run = run_dir::RunDir::Make(directory);
  if (!run.ok()) Fail(run.status().message());
  Result<run_dir::Part> part = run_dir::MakePart(*run);
  if (!part.ok()) Fail(part.status().message());
  run::RunSettings settings;
  settings.run_id = settings.flow_id = "perf";
  settings.submit_dir = directory;
  settings.started = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  graph::Graph graph;
  graph.AddSource("tasks.txt");
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile({});
  spec.kind = graph.AddKind("true");
  spec.command = "/bin/true";
  for (uint32_t i = 0; i < size.tasks; ++i) {
    spec.place = {.source = 0, .line = i + 1, .column = 1};
    graph.AddTask(spec);
  }
  if (const Status sealed = graph.Seal(); !sealed.ok()) Fail(sealed.message());
  if (const Status written = run::WriteFlow(**run, (*run)->path(), settings, graph, {}); !written.ok())
    Fail(written.message());
  return *part;
}

/// What a server that was killed has recorded.
void MakeHistory(const run_dir::Part& part, Size size) {
  const int64_t now = std::chrono::system_clock::now().time_since_epoch().count();
  Result<run::RunSettings> settings = run::ReadSettings(part);
  Result<std::unique_ptr<journal::Journal>> journal = journal::Journal::Open(part.dir, {.run_id = "perf"});
  if (!settings.ok() || !journal.ok()) Fail("no journal can be made");
  (*journal)->SetFact("flow_id", "perf");
  (*journal)->SetFact("started_ns", StrCat(settings->started.time_since_epoch().count()));
  for (uint32_t i = 0; i < size.agents; ++i) {
    journal::NodeRecord node;
    node.node = NodeId(i);
    node.name = StrCat("n", i);
    node.slots = size.slots;
    node.incarnation = i + 1;
    node.output_file = i + 1;
    node.joined_ns = now;
    (*journal)->Add(std::move(node));
  }
  std::vector<journal::TaskRecord> tasks(size.tasks);
  for (uint32_t i = 0; i < size.tasks; ++i) {
    tasks[i].task = TaskId(i);
    tasks[i].name = StrCat("#", i + 1);
    tasks[i].kind = "true";
  }
  (*journal)->Add(std::move(tasks));
  for (uint32_t i = 0; i < size.done(); ++i) {
    journal::AttemptRecord attempt;
    attempt.task = TaskId(i);
    attempt.attempt = 1;
    attempt.node = NodeId(i % size.agents);
    attempt.start_ns = now;
    attempt.end_ns = now + 1'000'000;
    attempt.cores = "0";
    (*journal)->Add(std::move(attempt));
    (*journal)->Add(journal::FateRecord{.task = TaskId(i), .fate = journal::TaskFate::kDone, .because = {}});
  }
  if (const Status closed = (*journal)->Close(); !closed.ok()) Fail(closed.message());
}

double Seconds(const timeval& which) {
  return static_cast<double>(which.tv_sec) + static_cast<double>(which.tv_usec) / 1e6;
}

int Measure(Size size) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, size.agents + 200);
  setrlimit(RLIMIT_NOFILE, &files);
  std::string directory = "/tmp/harrow-perf-server-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) Fail("no directory can be made in /tmp");
  const run_dir::Part part = MakeRun(directory + "/run", size);
  if (size.restart) MakeHistory(part, size);
  int pipes[2];
  if (pipe(pipes) != 0) Fail("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const Seen seen = Agents(part.dir, size).Run();
    _exit(write(pipes[1], &seen, sizeof seen) == sizeof seen ? 0 : 1);
  }
  const std::unique_ptr<os::EventLoop> loop = os::MakeEventLoop();
  Cluster cluster(size.agents);
  rusage before{}, after{};
  run::ServerEnd end{};
  const double began = Now();
  {
    server::Server server(loop.get(), &os::RealClock(), &cluster, {.part = part});
    if (const Status started = server.Start(); !started.ok()) Fail(started.message());
    perf::Figure("server.start", Now() - began, "s");
    getrusage(RUSAGE_SELF, &before);
    end = server.Run();
    getrusage(RUSAGE_SELF, &after);
  }
  Seen seen;
  if (read(pipes[0], &seen, sizeof seen) != sizeof seen) Fail("the agents said nothing");
  waitpid(child, nullptr, 0);
  std::filesystem::remove_all(directory);
  if (end != run::ServerEnd::kAllDone || seen.ended < size.tasks - size.done())
    Fail("not all tasks are done");
  if (size.restart) {
    perf::Figure(StrCat("server.", size.agents, ".restart"), seen.first - began, "s until work is given again", 3);
    return perf::Status();
  }
  const double user = Seconds(after.ru_utime) - Seconds(before.ru_utime);
  const double system = Seconds(after.ru_stime) - Seconds(before.ru_stime);
  const std::string name = StrCat("server.", size.agents, "x", size.slots);
  perf::Figure(name + ".tasks", size.tasks / (seen.last - seen.first), "tasks/s", 50'000,
               perf::Bound::kAtLeast);
  perf::Figure(name + ".cpu", 1e6 * (user + system) / size.tasks, "us a task");
  perf::Figure(name + ".cpu.kernel", 100 * system / (user + system), "%");
  return perf::Status();
}

}  // namespace

int main(int argc, char** argv) {
  Size size;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return static_cast<uint32_t>(i + 1 < argc ? std::atoi(argv[++i]) : 0); };
    if (arg == "--quick") size = {.agents = 200, .slots = 16, .tasks = 200'000};
    if (arg == "--restart") size.restart = true;
    if (arg == "--agents") size.agents = number();
    if (arg == "--slots") size.slots = number();
    if (arg == "--tasks") size.tasks = number();
  }
  if (size.agents == 0 || size.slots == 0 || size.tasks == 0) Fail("numbers from 1, please");
  return Measure(size);
}
