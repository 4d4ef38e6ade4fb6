#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/steps/step.h"
#include "agent/steps/task.h"
#include "base/status.h"

namespace harrow::agent {

/// The arguments of a command, in buffers that are used again. Of one thread.
class ArgumentBuilder {
 public:
  /// Ends with nullptr; valid until the next call. kInvalid when there is nothing to start.
  /// `shell` is for commands in shell form, and with `always_shell` also for those without shell syntax.
  Result<char* const*> Build(CommandForm form, std::string_view command, std::string_view shell,
                             bool always_shell);
  /// The variables that the command of the last Build assigns, NAME=value each.
  std::span<char* const> assigned() const { return {pointers_.data(), assigned_}; }

 private:
  void Add(std::string_view argument);

  std::string text_;
  std::vector<size_t> offsets_;
  std::vector<char*> pointers_;
  size_t assigned_ = 0;
};

/// The value that a command in the form kAssigned gives to a variable; empty: none.
std::string_view AssignedValue(const LocalTask& task, std::string_view name);

/// Where a program is: PATH searched as execvp does, the answer kept. Of one thread.
class ProgramFinder {
 public:
  struct Found {
    std::string path;
    int error = 0;  // errno when path is empty
  };
  /// `path_variable` is the PATH of the task, `directory` where it will run. Valid until the next call.
  const Found& Find(std::string_view program, std::string_view path_variable, const std::string& directory);
  /// What was kept did not start.
  void Forget() { found_.clear(); }

 private:
  std::unordered_map<std::string, Found> found_;
  std::string key_;
  Found uncached_;
};

/// The program and its arguments. The request's program is looked for when the process is started (Find).
class Command : public Step {
 public:
  Status Prepare(Launch* launch, TaskResult* result) override;

  /// Where the prepared task's program is; an errno where it is not. Valid until the next call.
  const ProgramFinder::Found& Find(const LocalTask& task) {
    return programs_.Find(program_, task.profile->path(), task.profile->directory());
  }
  /// It was not where Find said.
  void Forget() { programs_.Forget(); }
  std::string_view program() const { return program_; }

 private:
  ArgumentBuilder arguments_;
  ProgramFinder programs_;
  std::vector<char*> held_;  // with the words of who holds it for CRIU
  std::string_view program_;
};

/// What a shell would have ended with: 127, not found, or 126, found and not to be executed. `error` is an
/// errno.
int ExitCodeOfStartFailure(int error);
/// Why `program` could not be started: "mProject: command not found".
std::string DescribeStartFailure(std::string_view program, const std::string& path, int error);

}  // namespace harrow::agent
