// Cost of running short tasks in an agent's slots, without server and connection: against a bare loop of
// posix_spawn with two pipes, a thread a slot, in the same process, interleaved.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "agent/slot_pool.h"
#include "figure.h"
#include "os/process.h"

extern char** environ;

namespace harrow::agent {
namespace {

struct Cost {
  double seconds = 0;
  double cpu_us = 0;  // a task: ours and the tasks' own, user and system
};

double CpuSeconds() {
  double sum = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& t : {usage.ru_utime, usage.ru_stime})
      sum += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  }
  return sum;
}

template <class Body>
Cost Measure(uint32_t tasks, Body body) {
  const double cpu = CpuSeconds();
  const Duration start = os::RealClock().Steady();
  body();
  return {.seconds = Seconds(os::RealClock().Steady() - start), .cpu_us = (CpuSeconds() - cpu) * 1e6 / tasks};
}

void SpawnLoop(const char* program, uint32_t tasks) {
  char* argv[] = {const_cast<char*>(program), nullptr};
  for (uint32_t i = 0; i < tasks; ++i) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) exit(2);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    pid_t pid = 0;
    if (posix_spawn(&pid, program, &actions, nullptr, argv, environ) != 0) exit(2);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    pollfd set[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    for (int open_ends = 2; open_ends > 0;) {
      poll(set, 2, -1);
      for (pollfd& p : set) {
        char buffer[4096];
        if (p.fd < 0 || p.revents == 0 || read(p.fd, buffer, sizeof buffer) > 0) continue;
        close(p.fd);
        p.fd = -1;
        --open_ends;
      }
    }
    waitpid(pid, nullptr, 0);
  }
}

void RunSlots(const std::string& directory, const char* program, uint32_t tasks, size_t slots) {
  static uint32_t file = 0;
  NodeContext node;
  const Result<topology::Machine> machine = topology::ReadMachine();
  if (!machine.ok()) exit(2);
  node.slots = topology::PlanSlots(*machine, static_cast<uint32_t>(slots)).slots;
  node.tmp_root = TmpRootAt(directory);
  node.directory = std::filesystem::current_path();
  auto writer = output::Writer::Create(os::RealFileSystem(), directory, ++file);
  if (!writer.ok()) exit(2);
  EnvList env;
  for (char** e = environ; *e != nullptr; ++e) {
    if (const char* equals = strchr(*e, '='))
      env.emplace_back(std::string(*e, static_cast<size_t>(equals - *e)), equals + 1);
  }
  const auto base = std::make_shared<BaseEnvironment>(
      env, BaseEnvironment::Common{.submit_dir = node.directory, .node_name = "here", .own_tmp = true});
  const auto profile = std::make_shared<TaskProfile>(ProfileSpec{}, base);
  std::atomic<uint32_t> ended{0};
  Collector collector(
      std::move(writer).value(), os::RealClock(),
      [&](Batch batch) {
        for (const TaskResult& result : batch.ended) {
          if (result.end != End::kExited || result.code != 0) exit(2);
        }
        ended += static_cast<uint32_t>(batch.ended.size());
        ended.notify_one();
      },
      [](const std::string&) { exit(2); });
  SlotPool pool(node, os::RealClock(), collector);
  constexpr uint32_t kAhead = 200;
  for (uint32_t sent = 0; ended < tasks;) {
    const uint32_t before = ended;
    std::vector<LocalTask> more;
    for (; sent < tasks && sent < before + kAhead; ++sent) {
      LocalTask task;
      task.id = sent;
      task.command = program;
      task.profile = profile;
      more.push_back(std::move(task));
    }
    pool.Push(std::move(more));
    ended.wait(before);
  }
}

int Main(int argc, char** argv) {
  uint32_t tasks = 50'000;
  int rounds = 5;
  const char* program = "/bin/true";
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--quick") == 0) {
      tasks = 10'000;
      rounds = 3;
    } else {
      program = argv[i];
    }
  }
  os::TakeSignals();
  dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 0);
  constexpr size_t kSlots = 2;
  std::string directory = "/tmp/harrow-perf-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 2;
  std::vector<double> time_ratio, cpu_ratio, rate, cpu;
  for (int round = 0; round < rounds; ++round) {
    const Cost loop = Measure(tasks, [&] {
      std::vector<std::thread> threads;
      for (size_t i = 0; i < kSlots; ++i) threads.emplace_back(SpawnLoop, program, tasks / kSlots);
      for (std::thread& thread : threads) thread.join();
    });
    const Cost slots = Measure(tasks, [&] { RunSlots(directory, program, tasks, kSlots); });
    time_ratio.push_back(slots.seconds / loop.seconds);
    cpu_ratio.push_back(slots.cpu_us / loop.cpu_us);
    rate.push_back(tasks / slots.seconds);
    cpu.push_back(slots.cpu_us);
  }
  std::filesystem::remove_all(directory);
  perf::Figure("spawn.rate", perf::Median(rate), "tasks/s");
  perf::Figure("spawn.cpu", perf::Median(cpu), "us a task");
  perf::Figure("spawn.cpu_ratio", perf::Median(cpu_ratio), "x of the posix_spawn loop's");
  perf::Figure("spawn.ratio", perf::Median(time_ratio), "x of the posix_spawn loop's time", 1.0);
  return perf::Status();
}

}  // namespace
}  // namespace harrow::agent

int main(int argc, char** argv) {
  return harrow::agent::Main(argc, argv);
}
