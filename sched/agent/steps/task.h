#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/attempt.h"
#include "base/ids.h"
#include "base/time.h"
#include "made/record.h"

namespace harrow::agent {

class TaskProfile;

/// How a command is started; numbers as graph::CommandForm and pb::Task.form.
enum class CommandForm : uint8_t { kWords = 0, kArgv = 1, kShell = 2, kNone = 3, kAssigned = 4 };

/// A task as the server sent it.
struct LocalTask {
  uint32_t id = 0;
  uint32_t attempt = 1;
  AttemptId attempt_id() const { return {TaskId(id), attempt}; }
  std::shared_ptr<const TaskProfile> profile;
  CommandForm form = CommandForm::kWords;
  std::string command;
  std::string name;
  std::vector<std::string> outputs;  // declared; below the submit directory
  bool sizes_wanted = false;
  std::optional<made::Attempt> earlier;  // its task and attempt are not looked at
};

struct TaskResult {
  uint32_t id = 0;
  uint32_t attempt = 1;
  End end = End::kNotStarted;
  int code = 0;  // exit code, or signal; 126 and 127 as a shell gives them when not started
  WallTime start, finish;
  Duration user_time{0}, system_time{0};
  int64_t max_rss_kib = 0;     // negative: not known, but less than so much
  uint64_t output_offset = 0;  // of the first record in the packed output; 0: none
  uint64_t stdout_bytes = 0;   // kept
  uint64_t stderr_bytes = 0;
  bool truncated = false;
  std::string message;
  std::vector<int64_t> output_sizes;  // of LocalTask::outputs, where wanted; -1: absent
  std::optional<made::Attempt> made;  // it began, and did not succeed
  std::vector<uint32_t> pus;          // it was pinned to
  std::string devices;
};

struct StartedTask {
  uint32_t id = 0;
  uint32_t attempt = 1;
  AttemptId attempt_id() const { return {TaskId(id), attempt}; }
  WallTime start{};
};

}  // namespace harrow::agent
