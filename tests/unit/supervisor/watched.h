#pragma once

#include <chrono>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/core/supervisor.h"

namespace harrow::supervisor {

/// A supervisor, and servers that report what a test says.
class Watched {
 public:
  explicit Watched(const Options& options = {}, uint32_t epoch = 1) : supervisor(options, epoch) {}

  /// A report of one queue of one-core tasks, with the next number of that part.
  Report Of(uint32_t part, uint64_t ready, double capacity = 8, uint32_t workers = 8) {
    Report report = {.part = PartId(part), .server_epoch = 1, .number = ++numbers_[part]};
    report.queues.push_back({.ready = ready, .workers = workers, .capacity = capacity});
    report.obeys = supervisor.epoch();
    report.handled = handled[part];
    return report;
  }
  void Tell(const Report& report) {
    supervisor.Handle(now, Reported{report}, &actions);
    supervisor.SanityCheck();
  }
  std::vector<MoveRequest> Asked() {
    std::vector<MoveRequest> asked;
    for (const Action& action : actions) {
      if (const auto* move = std::get_if<MoveRequest>(&action)) asked.push_back(*move);
    }
    actions.clear();
    return asked;
  }
  /// The worked example's four masters, once.
  void TellExample(uint64_t first, uint64_t second) {
    const double capacity[] = {1, 1, 2, 4};
    const uint64_t ready[] = {first, second, 40, 20};
    for (uint32_t part = 0; part < 4; ++part) {
      Tell(Of(part, ready[part], capacity[part]));
    }
  }
  void After(std::chrono::milliseconds later) { now += later; }

  Supervisor supervisor;
  Time now{};
  std::vector<Action> actions;
  std::map<uint32_t, uint64_t> handled;

 private:
  std::map<uint32_t, uint64_t> numbers_;
};

inline std::string TextOf(const std::vector<MoveRequest>& moves) {
  std::string text;
  for (const MoveRequest& move : moves)
    text += std::to_string(move.from.value) + ">" + std::to_string(move.to.value) + ":" +
            std::to_string(move.count) + " ";
  return text;
}

/// So many are known with equal, empty queues, and the round is over.
inline void Introduce(Watched* w, uint32_t parts) {
  for (uint32_t part = 0; part < parts; ++part) w->Tell(w->Of(part, 0));
  w->Asked();
  w->After(std::chrono::milliseconds(100));
}

/// A report of 8 busy slots, and what waits for them.
inline Report Working(Watched* w, uint32_t part, double work, uint64_t busy = 8) {
  Report report = w->Of(part, 0);
  report.queues[0].in_flight = busy;
  report.works = {{.kind = 1, .waiting = work}};
  report.power = 8;
  return report;
}

inline std::string SharesOf(const std::vector<MoveRequest>& moves) {
  std::string text;
  for (const MoveRequest& move : moves)
    text += std::to_string(move.from.value) + ">" + std::to_string(move.to.value) + ":" +
            std::to_string(static_cast<int>(1000 * move.share + 0.5)) + " ";
  return text;
}

}  // namespace harrow::supervisor
