// Submits so many small tasks to a run by the public library, from so many threads: seconds until all are on disk.
//
// usage: perf_submit RUN_DIRECTORY TASKS [THREADS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <harrow/client.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int tasks = atoi(argv[2]), threads = argc > 3 ? atoi(argv[3]) : 1;
  auto run = harrow::client::Run::Open(argv[1]);
  if (!run) {
    fprintf(stderr, "%s\n", run.error().message.c_str());
    return 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> callers;
  for (int thread = 0; thread < threads; ++thread) {
    callers.emplace_back([&, thread] {
      for (int i = thread; i < tasks; i += threads) {
        if (!run->Submit({.command = "./solve case-" + std::to_string(i)})) abort();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  const auto submitted = std::chrono::steady_clock::now();
  const auto done = run->Flush();
  const auto end = std::chrono::steady_clock::now();
  if (!done) {
    fprintf(stderr, "%s\n", done.message.c_str());
    return 1;
  }
  printf("%.6f %.6f\n", std::chrono::duration<double>(end - begin).count(), std::chrono::duration<double>(submitted - begin).count());
}
