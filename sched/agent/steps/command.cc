#include "agent/steps/command.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::agent {
namespace {

// Without a PATH, as dash and bash of Debian have it.
constexpr std::string_view kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr size_t kMaxFound = 4096;

/// 0 when `path` can be executed, else errno.
int CheckExecutable(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return errno;
  if (S_ISDIR(st.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

void ArgumentBuilder::Add(std::string_view argument) {
  offsets_.push_back(text_.size());
  text_.append(argument).append(1, '\0');
}

Result<char* const*> ArgumentBuilder::Build(CommandForm form, std::string_view command,
                                            std::string_view shell, bool always_shell) {
  text_.clear();
  offsets_.clear();
  assigned_ = 0;
  if (form == CommandForm::kNone) {
    return Status(Code::kInvalid, "the task has no command: it can be simulated or replayed, not run");
  }
  if (form == CommandForm::kShell || (form == CommandForm::kWords && always_shell)) {
    Add(shell);
    Add("-c");
    // What begins like an option would be taken for one.
    Add(command.starts_with('-') || command.starts_with('+') ? StrCat(" ", command) : command);
  } else if (form == CommandForm::kArgv || form == CommandForm::kAssigned) {
    bool assigning = form == CommandForm::kAssigned;
    for (size_t begin = 0;;) {
      const size_t end = std::min(command.find('\0', begin), command.size());
      const std::string_view argument = command.substr(begin, end - begin);
      assigning = assigning && IsAssignment(argument);
      assigned_ += assigning ? 1 : 0;
      Add(argument);
      if (end == command.size()) break;
      begin = end + 1;
    }
  } else {
    for (size_t begin = command.find_first_not_of(" \t"); begin != std::string_view::npos;) {
      const size_t end = std::min(command.find_first_of(" \t", begin), command.size());
      Add(command.substr(begin, end - begin));
      begin = command.find_first_not_of(" \t", end);
    }
  }
  if (offsets_.size() == assigned_ || text_[offsets_[assigned_]] == '\0')
    return Status(Code::kInvalid, "the task's command is empty");
  pointers_.clear();
  for (size_t offset : offsets_) pointers_.push_back(text_.data() + offset);
  pointers_.push_back(nullptr);
  return pointers_.data() + assigned_;
}

std::string_view AssignedValue(const LocalTask& task, std::string_view name) {
  if (task.form != CommandForm::kAssigned) return {};
  for (std::string_view rest = task.command; !rest.empty();) {
    const std::string_view argument = rest.substr(0, rest.find('\0'));
    if (!IsAssignment(argument)) break;
    if (argument.starts_with(name) && argument[name.size()] == '=') return argument.substr(name.size() + 1);
    rest.remove_prefix(std::min(rest.size(), argument.size() + 1));
  }
  return {};
}

const ProgramFinder::Found& ProgramFinder::Find(std::string_view program, std::string_view path_variable,
                                                const std::string& directory) {
  if (program.find('/') != std::string_view::npos) {
    uncached_ = {.path = std::string(program)};
    return uncached_;
  }
  if (path_variable.empty()) path_variable = kDefaultPath;
  key_.assign(program).append(1, '\0').append(path_variable);
  if (auto it = found_.find(key_); it != found_.end()) return it->second;
  uncached_ = {.path = {}, .error = ENOENT};
  bool depends_on_directory = false;
  for (size_t begin = 0; begin <= path_variable.size();) {
    const size_t end = std::min(path_variable.find(':', begin), path_variable.size());
    std::string entry(path_variable.substr(begin, end - begin));
    begin = end + 1;
    if (entry.empty() || entry.front() != '/') {
      depends_on_directory = true;
      entry = entry.empty() ? directory : StrCat(directory, "/", entry);
    }
    entry.append(1, '/').append(program);
    const int error = CheckExecutable(entry);
    if (error == 0) {
      uncached_ = {.path = std::move(entry), .error = 0};
      break;
    }
    if (error == EACCES) uncached_.error = EACCES;
  }
  // What is missing now may be made by the next task.
  if (depends_on_directory || uncached_.path.empty()) return uncached_;
  if (found_.size() >= kMaxFound) found_.clear();
  return found_.emplace(key_, uncached_).first->second;
}

Status Command::Prepare(Launch* launch, TaskResult*) {
  const LocalTask& task = launch->task;
  const TaskProfile& profile = *task.profile;
  const CheckpointSpec& checkpoint = profile.spec().checkpoint;
  const bool restarts = !launch->checkpoint.restart.empty() && !checkpoint.restart_command.empty();
  const CommandForm form = restarts ? checkpoint.restart_form : task.form;
  const std::string& command = restarts ? checkpoint.restart_command : task.command;
  const bool function = form == CommandForm::kWords && profile.StartsWithFunction(command);
  const Result<char* const*> argv =
      arguments_.Build(form, command, profile.shell(), !profile.spec().shell.empty() || function);
  if (!argv.ok()) return argv.status();
  launch->request.argv = *argv;
  launch->variables.assigned = arguments_.assigned();
  if (!launch->checkpoint.holder.empty()) {
    held_.clear();
    for (std::string& word : launch->checkpoint.holder) held_.push_back(word.data());
    for (char* const* word = *argv; *word != nullptr; ++word) held_.push_back(*word);
    held_.push_back(nullptr);
    launch->request.argv = held_.data();
  }
  program_ = launch->request.argv[0];
  return {};
}

int ExitCodeOfStartFailure(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG ? 127 : 126;
}

std::string DescribeStartFailure(std::string_view program, const std::string& path, int error) {
  const std::string name = Printable(program);
  const bool by_path = program.find('/') != std::string_view::npos;
  switch (error) {
    case ENOENT:
      if (!path.empty() && access(path.c_str(), F_OK) == 0)
        return StrCat(name, ": the interpreter that its first line names, or its loader, does not exist");
      return by_path ? StrCat(name, ": no such file") : StrCat(name, ": command not found");
    case EACCES:
      return StrCat(name, ": permission denied (is it executable?)");
    case EISDIR:
      return StrCat(name, ": is a directory");
    case E2BIG:
      return StrCat(name, ": arguments and environment are longer than the system allows");
    default:
      return StrCat(name, ": ", strerror(error));
  }
}

}  // namespace harrow::agent
