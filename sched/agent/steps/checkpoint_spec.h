#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace harrow::agent {

/// How a command is started; numbers as graph::CommandForm and pb::Task.form.
enum class CommandForm : uint8_t { kWords = 0, kArgv = 1, kShell = 2, kNone = 3, kAssigned = 4 };

/// What asks the process that holds a task for CRIU: a signal that nobody sends for anything else.
inline constexpr int kAskHolder = 40;
/// Of pb::Checkpointing.by, as graph::Checkpointing::By: CRIU dumps it.
inline constexpr uint32_t kByCriu = 2;

/// How tasks write checkpoints, as graph::Checkpointing tells it; numbers as there.
struct CheckpointSpec {
  enum class Ask : uint8_t { kSignal = 0, kFile = 1, kNone = 2 };
  bool on = false;
  bool criu = false;  // CRIU dumps it
  Ask ask = Ask::kSignal;
  int32_t signal = 0;
  int32_t status = 0;
  bool ask_all = false;
  std::vector<std::string> files{};
  Duration every{0};
  Duration time{0};
  std::string restart_command{};
  CommandForm restart_form = CommandForm::kWords;
};

}  // namespace harrow::agent
