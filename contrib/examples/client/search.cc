// Looks for where f is least: of nine places side by side the best one and its neighbours bound the next nine.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <harrow/client.h>

int main() {
  auto run = harrow::client::Run::Open();  // of the task that this is
  if (!run) {
    fprintf(stderr, "search: %s\n", run.error().message.c_str());
    return 1;
  }
  double from = -10, to = 10;
  for (int round = 0; round < 6; ++round) {
    const double step = (to - from) / 8;
    std::vector<harrow::client::Task> tasks;
    for (int i = 0; i < 9; ++i) {
      const std::string file = "f-" + std::to_string(round) + "-" + std::to_string(i);
      auto task = run->Submit({.command = "awk -v x=" + std::to_string(from + i * step) + " -f f.awk > " + file, .name = file});
      if (!task) {
        fprintf(stderr, "search: %s\n", task.error().message.c_str());
        return 1;
      }
      tasks.push_back(*task);
    }
    int best = 0;
    double least = 0;
    for (int i = 0; i < 9; ++i) {
      auto result = run->Await(tasks[i]);
      if (!result || result->state != harrow::client::State::kDone) {
        fprintf(stderr, "search: task %d of round %d: %s\n", i, round,
                result ? Name(result->state).c_str() : result.error().message.c_str());
        return 1;
      }
      double value = 0;
      std::ifstream("f-" + std::to_string(round) + "-" + std::to_string(i)) >> value;
      if (i == 0 || value < least) {
        best = i;
        least = value;
      }
    }
    const double at = from + best * step;
    printf("round %d: f(%.4f) = %.4f\n", round, at, least);
    from = at - step;
    to = at + step;
  }
}
