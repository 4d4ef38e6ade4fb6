// How many tasks a second one server brings through: real connections, TLS and journal, and agents that
// answer without running anything. The agents are one process with one loop; an agent's results of 2 ms leave
// together, as a real one's. --restart: half of the tasks are done, by a server that was killed; how long
// until the next one gives work to the agents that it knew.
//
// --files: what files on the nodes' own disks cost a server (--files local): bytes a file, and its rate over
// that of the same tasks without files, in turns. Half of the tasks read a file of the submit directory each
// and make one, which the other half read; what these make is copied back. The agents tell of copies and of
// what was made as real ones do: what a copy has come to waits 2 ms for others, as a result does, and goes
// along with what is said before (agent/session.cc). With --rounds 0 only the bytes.
//
// usage: perf_server [--quick] [--restart | --files] [--agents N] [--slots N] [--tasks N] [--rounds N]
#include <csignal>
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
#include "file_bytes.h"
#include "journal/journal.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "run/flow_store.h"
#include "run_dir/names.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"
#include "server/server.h"
#include "store/object.h"
#include "wire/attempt_id.h"
#include "wire/channel.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace {

using namespace harrow;

struct Size {
  uint32_t agents = 1000, slots = 16, tasks = 1'000'000;
  bool restart = false, files = false;
  bool in_twos = false;  // half of the tasks each wait for one of the other half

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

constexpr int64_t kFileBytes = 1 << 20;

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
  struct Ended {
    AttemptId attempt;
    uint32_t made = FileId::kNone;  // by a task in a sandbox
    bool result = false;            // which is copied to the submit directory
  };
  struct Agent {
    std::shared_ptr<wire::Channel> channel;
    std::deque<Ended> ended;  // not told yet
    std::string notes;        // of copies, neither
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
                 if (channel.ok()) return Greet(number, std::move(*channel));
                 // The others may have done everything before it came.
                 if (seen_.ended < size_.tasks - size_.done()) Fail(channel.status().message());
                 CountClosed();
                 DialNext();
                 return wire::ChannelHandler{};
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
    if (size_.files) {
      message_.Clear();
      message_.add_peer_address(StrCat("10.0.", number / 256, ".", number % 256, ":40000"));
      agent.channel->Send(message_.SerializeAsString());
    }
    DialNext();
    return {.on_message = [this, number](std::string_view bytes) { Take(agents_[number], bytes); },
            .on_closed = [this, number](const Status&) { Close(agents_[number]); }};
  }

  void Close(Agent& agent) {
    if (std::exchange(agent.over, true)) return;
    agent.channel->Close();
    CountClosed();
  }

  void CountClosed() {
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
        const AttemptId id = wire::IdOf(asked);
        if (std::erase_if(agent.ended, [&](const Ended& each) { return each.attempt == id; }) > 0)
          *message_.mutable_returned()->add_attempt() = asked;
      }
      if (message_.has_returned()) Say(agent);
    }
    if (told_.start_size() > 0 && seen_.first == 0) seen_.first = Now();
    for (const pb::CopyFile& copy : told_.copy()) NoteCopied(agent, copy);
    for (const pb::Task& task : told_.start()) {
      Ended ended{.attempt = {TaskId(task.id()), task.attempt()}};
      if (task.output_file_size() > 0) {
        ended.made = task.output_file(0);
        ended.result = task.output_result(0);
      }
      agent.ended.push_back(ended);
    }
    if (told_.has_shutdown()) Close(agent);
  }

  static std::string ObjectOf(uint32_t file) {
    std::string bytes(store::ObjectId::kSize, '\1');
    std::memcpy(bytes.data(), &file, sizeof file);
    return bytes;
  }

  /// What is to be told of copies comes first.
  void Say(Agent& agent) {
    message_.AppendToString(&agent.notes);
    agent.channel->Send(agent.notes);
    agent.notes.clear();
  }

  /// It is there at once.
  void NoteCopied(Agent& agent, const pb::CopyFile& copy) {
    message_.Clear();
    pb::FileNote* note = message_.add_file();
    note->set_file(copy.file());
    note->set_object(ObjectOf(copy.file()));
    note->set_bytes(kFileBytes);
    note->set_moved(kFileBytes);
    note->set_from(copy.from());
    message_.AppendToString(&agent.notes);
  }

  /// A task takes no time; its result waits for others of 2 ms. Never more at once than there are slots.
  void Tick() {
    for (Agent& agent : agents_) {
      if (agent.over || (agent.ended.empty() && agent.notes.empty())) continue;
      message_.Clear();
      if (agent.ended.empty()) {
        Say(agent);
        continue;
      }
      pb::TasksEnded* ended = message_.add_ended();
      ended->set_sequence(++agent.sequence);
      const int64_t now = std::chrono::system_clock::now().time_since_epoch().count();
      for (uint32_t i = 0; i < size_.slots && !agent.ended.empty(); ++i) {
        pb::Attempt* attempt = ended->add_attempt();
        const Ended& front = agent.ended.front();
        attempt->set_task(front.attempt.task.value);
        attempt->set_attempt(front.attempt.number);
        attempt->set_end(pb::Attempt::EXITED);
        attempt->set_start_ns(now - 1'000'000);
        attempt->set_end_ns(now);
        attempt->mutable_usage()->set_user_us(500);
        attempt->mutable_usage()->set_max_rss_kib(1800);
        attempt->add_cores(i);
        if (front.made != FileId::kNone) {
          pb::MadeFile* made = attempt->add_made_file();
          made->set_file(front.made);
          made->set_object(ObjectOf(front.made));
          made->set_bytes(kFileBytes);
          made->set_shared(front.result);
        }
        agent.ended.pop_front();
        ++seen_.ended;
      }
      Say(agent);
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
      Say(agent);
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
  if (size.files) settings.files = config::Files::kLocal;
  graph::Graph graph;
  graph.AddSource("tasks.txt");
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile({});
  spec.kind = graph.AddKind("true");
  spec.command = "/bin/true";
  const uint32_t half = size.tasks / 2;
  for (uint32_t i = 0; i < size.tasks; ++i) {
    spec.place = {.source = 0, .line = i + 1, .column = 1};
    FileId in, out;
    if (size.files) {
      in = graph.AddFile(i < half ? StrCat("in/", i) : StrCat("made/", i - half));
      out = graph.AddFile(i < half ? StrCat("made/", i) : StrCat("out/", i));
      spec.in = {&in, 1};
      spec.out = {&out, 1};
    }
    const TaskId before(i - half);
    if (size.in_twos && i >= half) spec.after = {&before, 1};
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

/// What one run of a server took.
struct Taken {
  double rate = 0;  // tasks a second
  double user = 0, system = 0;
  double start = 0;        // seconds
  double until_given = 0;  // from its start until work is given
};

/// What work() answers, in a process of its own: memory that others have used, and pages that they share,
/// cost what comes after them.
template <class Answer>
class Aside {
 public:
  template <class Work>
  explicit Aside(const Work& work) {
    if (pipe(pipe_) != 0) Fail("no pipe");
    child_ = fork();
    if (child_ == 0) {
      const Answer answer = work();
      _exit(write(pipe_[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
    }
    close(pipe_[1]);
  }
  Answer Wait() {
    Answer answer{};
    if (read(pipe_[0], &answer, sizeof answer) != sizeof answer) Fail("a process has ended early");
    close(pipe_[0]);
    waitpid(child_, nullptr, 0);
    return answer;
  }

 private:
  int pipe_[2];
  pid_t child_;
};

Taken ServeHere(Size size, const std::string& directory) {
  Aside<bool>([&] {
    const run_dir::Part made = MakeRun(directory, size);
    if (size.restart) MakeHistory(made, size);
    return true;
  }).Wait();
  Result<std::shared_ptr<run_dir::RunDir>> run = run_dir::RunDir::Open(directory);
  if (!run.ok()) Fail(run.status().message());
  Result<run_dir::Part> opened = run_dir::OpenPart(*run);
  if (!opened.ok()) Fail(opened.status().message());
  const run_dir::Part& part = *opened;
  // Without agents the server would wait for them.
  std::signal(SIGCHLD, [](int) {
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0 && status != 0) _exit(1);
  });
  Aside<Seen> agents([&] { return Agents(part.dir, size).Run(); });
  const std::unique_ptr<os::EventLoop> loop = os::MakeEventLoop();
  Cluster cluster(size.agents);
  rusage before{}, after{};
  run::ServerEnd end{};
  double started_after = 0;
  const double began = Now();
  {
    server::Server server(loop.get(), &os::RealClock(), &cluster, {.part = part});
    if (const Status started = server.Start(); !started.ok()) Fail(started.message());
    started_after = Now() - began;
    getrusage(RUSAGE_SELF, &before);
    end = server.Run();
    getrusage(RUSAGE_SELF, &after);
  }
  const Seen seen = agents.Wait();
  if (end != run::ServerEnd::kAllDone || seen.ended < size.tasks - size.done())
    Fail("not all tasks are done");
  return {.rate = size.tasks / (seen.last - seen.first),
          .user = Seconds(after.ru_utime) - Seconds(before.ru_utime),
          .system = Seconds(after.ru_stime) - Seconds(before.ru_stime),
          .start = started_after,
          .until_given = seen.first - began};
}

Taken Serve(Size size) {
  std::string directory = "/tmp/harrow-perf-server-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) Fail("no directory can be made in /tmp");
  const Taken taken = Aside<Taken>([&] { return ServeHere(size, directory + "/run"); }).Wait();
  std::filesystem::remove_all(directory);
  return taken;
}

void Measure(Size size) {
  const Taken taken = Serve(size);
  perf::Figure("server.start", taken.start, "s");
  const std::string name = StrCat("server.", size.agents);
  if (size.restart)
    return perf::Figure(name + ".restart", taken.until_given, "s until work is given again", 3);
  const double cpu = taken.user + taken.system;
  perf::Figure(StrCat(name, "x", size.slots, ".tasks"), taken.rate, "tasks/s", 50'000, perf::Bound::kAtLeast);
  perf::Figure(StrCat(name, "x", size.slots, ".cpu"), 1e6 * cpu / size.tasks, "us a task");
  perf::Figure(StrCat(name, "x", size.slots, ".cpu.kernel"), 100 * taken.system / cpu, "%");
}

void MeasureFiles(Size size, int rounds, bool quick) {
  perf::Figure("server.files.bytes", perf::BytesAFile(quick ? 100'000 : 1'000'000),
               "bytes a file, each on two nodes, without names", 200);
  if (rounds == 0) return;
  size.in_twos = true;
  std::vector<double> ratios, with, without, cpu_ratios;
  for (int round = 0; round < rounds; ++round) {
    size.files = false;
    const Taken bare = Serve(size);
    size.files = true;
    const Taken filed = Serve(size);
    without.push_back(bare.rate);
    with.push_back(filed.rate);
    ratios.push_back(filed.rate / bare.rate);
    cpu_ratios.push_back((filed.user + filed.system) / (bare.user + bare.system));
  }
  const std::string name = StrCat("server.", size.agents, "x", size.slots, ".files");
  perf::Figure(name + ".without", perf::Median(without), "tasks/s");
  perf::Figure(name + ".tasks", perf::Median(with), "tasks/s");
  perf::Figure(name + ".cpu", perf::Median(cpu_ratios), "x that without");
  perf::Figure(name + ".ratio", perf::Median(ratios), "x the rate without", 0.7, perf::Bound::kAtLeast);
}

}  // namespace

int main(int argc, char** argv) {
  Size size;
  bool files = false, quick = false;
  int rounds = 3;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return static_cast<uint32_t>(i + 1 < argc ? std::atoi(argv[++i]) : 0); };
    if (arg == "--quick") {
      size = {.agents = 200, .slots = 16, .tasks = 200'000};
      quick = true;
    } else if (arg == "--files") {
      files = true;
    } else if (arg == "--rounds") {
      rounds = static_cast<int>(number());
    } else if (arg == "--restart") {
      size.restart = true;
    } else if (arg == "--agents") {
      size.agents = number();
    } else if (arg == "--slots") {
      size.slots = number();
    } else if (arg == "--tasks") {
      size.tasks = number();
    } else {
      printf("usage: tests/perf/server [--quick] [--restart | --files] [--agents N] [--slots N] [--tasks N] [--rounds N]\n");
      return arg == "--help" ? 0 : 2;
    }
  }
  if (size.agents == 0 || size.slots == 0 || size.tasks == 0 || (rounds < 1 && !files))
    Fail("numbers from 1, please");
  rlimit open{};
  getrlimit(RLIMIT_NOFILE, &open);
  open.rlim_cur = std::min<rlim_t>(open.rlim_max, size.agents + 200);
  setrlimit(RLIMIT_NOFILE, &open);
  if (files) {
    MeasureFiles(size, rounds, quick);
  } else {
    Measure(size);
  }
  return perf::Status();
}
