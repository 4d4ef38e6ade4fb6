// CPU of the journal's thread: records at the rate of a busy run, a million tasks at the start, and reading
// them back.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "figure.h"
#include "journal/journal.h"

namespace {

using harrow::StrCat;
using harrow::TaskId;
using namespace harrow::journal;

double Cpu(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/// CPU seconds of all threads but this one.
double OthersCpu() {
  return Cpu(CLOCK_PROCESS_CPUTIME_ID) - Cpu(CLOCK_THREAD_CPUTIME_ID);
}

template <class T>
T Checked(harrow::Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "journal_cost: %s\n", result.status().message().c_str());
  std::exit(1);
}

AttemptRecord Attempt(uint32_t i) {
  AttemptRecord a;
  a.task = TaskId(i);
  a.attempt = 1;
  a.node = harrow::NodeId(i % 4);
  a.start_ns = 1'700'000'000'000'000'000 + i * 80'000ll;
  a.end_ns = a.start_ns + 500'000;
  a.user_us = 300;
  a.system_us = 200;
  a.max_rss_kib = 1800;
  a.output_file = 1;
  a.cores = "0-1";
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const uint32_t tasks = quick ? 200'000 : 1'000'000;
  const int seconds = quick ? 2 : 10;
  constexpr int kRate = 12'000;
  std::string dir = (std::filesystem::temp_directory_path() / "harrow-perf-XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) return 1;
  {
    auto journal = Checked(Journal::Open(dir, {.run_id = "perf"}));
    std::vector<TaskRecord> all(tasks);
    for (uint32_t i = 0; i < tasks; ++i) {
      all[i] = {.task = TaskId(i),
                .name = StrCat("project-", i),
                .kind = "mProject",
                .identity_high = i * 0x9E3779B97F4A7C15,
                .identity_low = i};
    }
    double before = OthersCpu();
    journal->Add(std::move(all));
    if (!journal->Flush().ok()) return 1;
    harrow::perf::Figure("journal.tasks", (OthersCpu() - before) / tasks * 1e6, "CPU s a million tasks", 1.5);

    before = OthersCpu();
    double adding = 0;
    auto next = std::chrono::steady_clock::now();
    uint32_t n = 0;
    for (int ms = 0; ms < seconds * 1000; ++ms) {
      double own = Cpu(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < kRate / 1000; i += 2, ++n) {
        journal->Add(Attempt(n % tasks));
        journal->Add(FateRecord{TaskId(n % tasks), TaskFate::kDone, TaskId()});
      }
      adding += Cpu(CLOCK_THREAD_CPUTIME_ID) - own;
      next += std::chrono::milliseconds(1);
      std::this_thread::sleep_until(next);
    }
    if (!journal->Flush().ok()) return 1;
    double records = 2.0 * n;
    harrow::perf::Figure("journal.record", (OthersCpu() - before) / records * 1e6,
                         "CPU us a record on its thread", 3);
    harrow::perf::Figure("journal.add", adding / records * 1e6, "CPU us a record on the caller's", 0.5);
    if (!journal->Close().ok()) return 1;
  }
  double before = Cpu(CLOCK_PROCESS_CPUTIME_ID);
  History history = Checked(ReadHistory(dir));
  double rows = static_cast<double>(history.tasks.size() + history.attempts.size() + history.fates.size());
  harrow::perf::Figure("journal.read", (Cpu(CLOCK_PROCESS_CPUTIME_ID) - before) / rows * 1e6,
                       "CPU us a record, verified", 3);
  harrow::perf::Figure("journal.size",
                       static_cast<double>(std::filesystem::file_size(dir + "/journal.db")) / rows,
                       "bytes a record");
  std::filesystem::remove_all(dir);
  return harrow::perf::Status();
}
