// What it costs to keep tasks within their memory: CPU time of an agent's thread that looks, with 64 tasks of
// 47 processes each (3 000 in all) that declare a limit, in parts of a core; and how far a task that grows by
// 200 MB a second gets before it is ended, in parts of its limit, alone and beside the 3 000.
//
// usage: perf_memory [--quick]; the program starts itself as the task that grows (grow).
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/slot_pool.h"
#include "figure.h"
#include "os/file_system.h"
#include "os/process.h"

extern char** environ;

namespace harrow::agent {
namespace {

constexpr uint32_t kTasks = 64, kSleepers = 46;
constexpr uint64_t kLimit = 512u << 20;
constexpr double kRate = 200e6;  // bytes/s

double Now() {
  return Seconds(os::RealClock().Steady());
}

void Sleep(double seconds) {
  const timespec t{
      .tv_sec = static_cast<time_t>(seconds),
      .tv_nsec = static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  nanosleep(&t, nullptr);
}

/// Touches memory at kRate until it is ended.
int Grow() {
  constexpr size_t kMost = 4ull << 30, kStep = 1 << 20;
  auto* memory = static_cast<char*>(
      mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) return 1;
  const double began = Now();
  for (size_t touched = 0; touched < kMost; touched += kStep) {
    memset(memory + touched, 1, kStep);
    const double ahead = static_cast<double>(touched) / kRate - (Now() - began);
    if (ahead > 0) Sleep(ahead);
  }
  return 0;
}

/// CPU seconds of this process's thread of that name.
double ThreadSeconds(const std::string& wanted) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream stat(task.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const size_t begin = text.find('('), end = text.rfind(')');
    if (begin == std::string::npos || text.substr(begin + 1, end - begin - 1) != wanted) continue;
    // The scheduler's own count is exact; that in stat is in ticks.
    std::ifstream sched(task.path() / "schedstat");
    double ran = 0;
    sched >> ran;
    return ran * 1e-9;
  }
  std::fprintf(stderr, "there is no thread %s\n", wanted.c_str());
  exit(2);
}

class Bench {
 public:
  explicit Bench(const std::string& self) : self_(self) {
    char name[] = "/tmp/harrow-perf-XXXXXX";
    directory_ = mkdtemp(name);
    node_.slots.resize(kTasks + 1);
    node_.directory = std::filesystem::current_path();
    node_.kill_wait_ns = 0;
    auto writer = output::Writer::Create(os::RealFileSystem(), directory_, 1);
    if (!writer.ok()) exit(2);
    collector_ = std::make_unique<Collector>(
        std::move(writer).value(), os::RealClock(),
        [this](Batch batch) {
          for (TaskResult& result : batch.ended) {
            if (result.id != grower_) continue;
            held_ = static_cast<double>(result.max_rss_kib) * 1024 / static_cast<double>(kLimit);
            ended_as_ = result.end;
            over_ = true;
          }
          arrival_->Arrived();
        },
        [](const std::string& problem) { std::fprintf(stderr, "%s\n", problem.c_str()); });
    arrival_ = collector_.get();
    pool_ = std::make_unique<SlotPool>(node_, os::RealClock(), *collector_);
    EnvList env;
    for (char** e = environ; *e != nullptr; ++e) {
      if (const char* equals = strchr(*e, '='))
        env.emplace_back(std::string(*e, static_cast<size_t>(equals - *e)), equals + 1);
    }
    base_ = std::make_shared<BaseEnvironment>(
        env, BaseEnvironment::Common{.submit_dir = directory_, .node_name = "here"});
  }
  ~Bench() {
    pool_.reset();
    collector_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void StartSleepers() {
    std::string many = "i=0; while [ $i -lt " + std::to_string(kSleepers) +
                       " ]; do sleep 600 & i=$((i+1)); done; echo >> ready; wait";
    for (uint32_t i = 0; i < kTasks; ++i) Push(many);
    const double limit = Now() + 120;
    while (Ready() < kTasks) {
      if (Now() > limit) exit(2);
      Sleep(0.05);
    }
  }
  /// Parts of a core.
  double Watching(double seconds) {
    const double used = ThreadSeconds("memory-watch"), began = Now();
    Sleep(seconds);
    return (ThreadSeconds("memory-watch") - used) / (Now() - began);
  }
  /// The most that a task that grows held, in parts of its limit.
  double Growing() {
    over_ = false;
    grower_ = Push(self_ + " grow");
    while (!over_) Sleep(0.02);
    if (ended_as_ != End::kOutOfMemory) {
      std::fprintf(stderr, "the task that grows ended as %d\n", static_cast<int>(ended_as_.load()));
      exit(2);
    }
    return held_;
  }

 private:
  uint32_t Push(const std::string& text) {
    LocalTask task;
    task.id = next_++;
    grower_ = task.id;
    task.form = CommandForm::kShell;
    task.command =
        (text.find(' ') != std::string::npos && text.find(';') == std::string::npos ? "exec " : "") + text;
    task.profile = std::make_shared<TaskProfile>(ProfileSpec{.memory = kLimit}, base_);
    const uint32_t id = task.id;
    std::vector<LocalTask> tasks;
    tasks.push_back(std::move(task));
    pool_->Push(std::move(tasks));
    return id;
  }
  uint32_t Ready() const {
    std::ifstream file(directory_ + "/ready");
    uint32_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

  const std::string self_;
  std::string directory_;
  NodeContext node_;
  std::unique_ptr<Collector> collector_;
  Collector* arrival_ = nullptr;
  std::unique_ptr<SlotPool> pool_;
  std::shared_ptr<const BaseEnvironment> base_;
  uint32_t next_ = 0;
  std::atomic<uint32_t> grower_{0};
  std::atomic<bool> over_{false};
  std::atomic<double> held_{0};
  std::atomic<End> ended_as_{End::kRunning};
};

int Main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "grow") == 0) return Grow();
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  os::TakeSignals();
  (void)os::BecomeSubreaper();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  {
    Bench bench(std::filesystem::canonical("/proc/self/exe"));
    perf::Figure("memory.overshoot_alone", bench.Growing(), "x its limit, at 200 MB/s", 1.5);
    bench.StartSleepers();
    perf::Figure("memory.watching", 100 * bench.Watching(quick ? 10 : 30),
                 "% of a core with 3 000 processes of 64 tasks", 1.0);
    perf::Figure("memory.overshoot_among_many", bench.Growing(), "x its limit, at 200 MB/s", 1.5);
  }
  (void)os::EndDescendants(Duration(0));
  return perf::Status();
}

}  // namespace
}  // namespace harrow::agent

int main(int argc, char** argv) {
  return harrow::agent::Main(argc, argv);
}
