#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace harrow::graph {

/// How tasks of one kind write checkpoints, from which their next attempts go on.
struct Checkpointing {
  enum class By : uint8_t {
    kNobody,
    kApp,   // the program itself
    kCriu,  // CRIU dumps its processes
  };
  /// How a task is asked for one.
  enum class Ask : uint8_t {
    kSignal,
    kFile,  // by a file that it looks for
    kNone,  // it writes them by itself, and is ended
  };

  By by = By::kNobody;
  Ask ask = Ask::kSignal;
  int32_t signal = SIGUSR1;
  // It exits with that when it was asked and has written one.
  int32_t status = 85;
  // Of an MPI task each rank is asked; else rank 0.
  bool ask_all = false;
  // What a checkpoint consists of, below the directory that the task is given; empty: all that is there.
  std::vector<std::string> files;
  // So long after the start of an attempt, and again and again, it is asked; 0: only where it has to go.
  Duration every{0};
  // It may take so long.
  Duration time = std::chrono::minutes(1);

  bool on() const { return by != By::kNobody; }
  bool by_criu() const { return by == By::kCriu; }
  bool operator==(const Checkpointing&) const = default;
};

}  // namespace harrow::graph
