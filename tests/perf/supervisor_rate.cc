// What a supervisor costs: servers report each 100 ms of virtual time, with tasks of two shapes, and do at
// once what they are asked; some runs dry and some are filled, so that tasks move in every round.

#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "figure.h"
#include "supervisor/core/supervisor.h"

namespace harrow {
namespace {

using supervisor::PartId;

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Server {
  std::map<Shape, uint64_t> ready;
  supervisor::Obedience obedience;
  std::vector<supervisor::Offer> offers;
  std::vector<supervisor::MoveId> taken;
  uint64_t number = 0;
};

/// CPU seconds a second of the run, and moves a second.
std::pair<double, double> Share(uint32_t count, int rounds) {
  std::mt19937 random(1);
  std::vector<Server> servers(count);
  const std::vector<Shape> shapes = {Shape{}, Shape{.cores = 4}};
  supervisor::Supervisor watched({}, 1);
  std::vector<supervisor::Action> actions;
  double spent = 0;
  for (int round = 0; round < rounds; ++round) {
    const Time now = Time(std::chrono::milliseconds(100) * round);
    std::vector<supervisor::Report> reports;
    for (uint32_t n = 0; n < count; ++n) {
      Server& server = servers[n];
      supervisor::Report report = {.part = PartId(n), .server_epoch = 1, .number = ++server.number};
      report.obeys = server.obedience.epoch();
      report.handled = server.obedience.handled();
      for (const Shape& shape : shapes) {
        uint64_t& ready = server.ready[shape];
        ready = random() % 3 == 0 ? 0 : ready + random() % 2000;
        report.queues.push_back({.shape = shape,
                                 .ready = ready,
                                 .workers = 64 / shape.cores,
                                 .capacity = (1 + n % 3) * 64.0 / shape.cores,
                                 .mean = std::chrono::milliseconds(20)});
      }
      report.offers = std::move(server.offers);
      report.taken = server.taken;
      if (server.taken.size() > 64) server.taken.erase(server.taken.begin(), server.taken.end() - 64);
      server.offers.clear();
      reports.push_back(std::move(report));
    }
    const double before = CpuSeconds();
    actions.clear();
    for (const supervisor::Report& report : reports)
      watched.Handle(now, supervisor::Reported{report}, &actions);
    spent += CpuSeconds() - before;
    for (const supervisor::Action& action : actions) {
      const auto* move = std::get_if<supervisor::MoveRequest>(&action);
      Server& from = servers[move->from.value];
      if (!from.obedience.Take(move->id)) continue;
      uint64_t& ready = from.ready[move->shape];
      const uint64_t given = std::min(ready, move->count);
      ready -= given;
      if (given == 0) continue;
      from.offers.push_back({move->id, move->to, move->shape, given});
      servers[move->to.value].ready[move->shape] += given;
      servers[move->to.value].taken.push_back(move->id);
    }
  }
  const double run = rounds * 0.1;
  return {spent / run, static_cast<double>(watched.asked_moves()) / run};
}

int Main(bool quick) {
  for (const uint32_t count : {64u, 1000u}) {
    const auto [share, moves] = Share(count, quick ? 100 : 600);
    const std::string name = "supervisor." + std::to_string(count) + ".core";
    if (count == 64) {
      perf::Figure(name, 100 * share, "%", 5);
    } else {
      perf::Figure(name, 100 * share, "%");
    }
    perf::Figure("supervisor." + std::to_string(count) + ".moves", moves, "/s");
  }
  return perf::Status();
}

}  // namespace
}  // namespace harrow

int main(int argc, char** argv) {
  return harrow::Main(argc > 1 && std::string(argv[1]) == "--quick");
}
