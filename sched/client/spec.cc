#include "client/spec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/records.h"
#include "base/text.h"

namespace harrow::client {
namespace {

// graph::CommandForm, which the wire has as a number.
constexpr uint32_t kArgv = 1;
constexpr uint32_t kMostCores = 65'536;
constexpr double kLongest = 100.0 * 365 * 86'400;

/// All that a caller of any release has given; what it does not know is zero.
Result<harrow_spec> Whole(const harrow_spec* given) {
  if (given == nullptr) return Status(Code::kInvalid, "the harrow_spec is NULL");
  harrow_spec spec{};
  if (given->size < offsetof(harrow_spec, name)) return Status(Code::kInvalid, "a harrow_spec begins as HARROW_SPEC");
  const auto* bytes = reinterpret_cast<const char*>(given);
  if (given->size > sizeof spec && std::any_of(bytes + sizeof spec, bytes + given->size, [](char c) { return c != 0; }))
    return Status(Code::kInvalid, "the harrow_spec says something that this release does not know; use the library that the program was built for");
  memcpy(&spec, given, std::min(given->size, sizeof spec));
  return spec;
}

std::string Text(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

template <class Use>
void Each(const char* const* list, const Use& use) {
  for (; list != nullptr && *list != nullptr; ++list) use(*list);
}

Status SetCommand(const harrow_spec& spec, pb::SubmittedTask* task) {
  const bool has_arguments = spec.arguments != nullptr && *spec.arguments != nullptr;
  const bool has_command = spec.command != nullptr && *spec.command != '\0';
  if (has_arguments == has_command)
    return {Code::kInvalid, has_command ? "a task has a command or arguments, not both" : "a task has no command"};
  if (has_command) {
    task->set_command(spec.command);
    task->set_line(true);
    return {};
  }
  if (**spec.arguments == '\0') return {Code::kInvalid, "the first argument names no program"};
  std::string* command = task->mutable_command();
  Each(spec.arguments, [&](const char* argument) {
    if (argument != *spec.arguments) command->push_back('\0');
    command->append(argument);
  });
  task->set_form(kArgv);
  return {};
}

Status SetResources(const harrow_spec& spec, pb::Profile* profile) {
  const uint32_t nodes = std::max(spec.nodes, 1u);
  const uint64_t here = spec.ranks == 0 ? 1 : (uint64_t{spec.ranks} + nodes - 1) / nodes;  // ranks of a node that has most of them
  const uint64_t cores = here * std::max(spec.cores, 1u), gpus = here * spec.gpus;
  if (spec.ranks > 0 && spec.ranks < nodes)
    return {Code::kInvalid, StrCat("a task has ", spec.ranks, " ranks for ", nodes, " nodes; each node has at least one")};
  if (cores > kMostCores || gpus > kMostCores)
    return {Code::kInvalid, StrCat("a task asks for more than ", kMostCores, " cores or devices of a node")};
  profile->set_cores(static_cast<uint32_t>(cores));
  profile->set_gpus(static_cast<uint32_t>(gpus));
  profile->set_memory(spec.memory);
  profile->set_nodes(nodes);
  profile->set_ranks(spec.ranks);
  return {};
}

Status SetEnvironment(const harrow_spec& spec, pb::Profile* profile) {
  Status status;
  Each(spec.environment, [&](const char* entry) {
    const char* equals = strchr(entry, '=');
    if (equals == nullptr || equals == entry) {
      status = Status(Code::kInvalid, StrCat("'", Printable(entry, 60), "' is not NAME=value"));
      return;
    }
    pb::EnvVar* variable = profile->add_env();
    variable->set_name(std::string(entry, equals));
    variable->set_value(equals + 1);
  });
  return status;
}

std::string DirectoryOf(const harrow_spec& spec, const std::string& directory, const std::string& submit_directory) {
  const std::string given = Text(spec.directory);
  if (given.starts_with('/')) return given;
  if (submit_directory.empty()) return given;
  if (!given.empty()) return StrCat(directory, "/", given);
  return directory == submit_directory ? "" : directory;
}

}  // namespace

Result<Described> Describe(const harrow_spec* given, const std::string& directory, const std::string& submit_directory) {
  const Result<harrow_spec> whole = Whole(given);
  if (!whole.ok()) return whole.status();
  const harrow_spec& spec = *whole;
  Described described;
  pb::SubmittedTask& task = *described.task.task;
  pb::Profile& profile = described.profile;
  HARROW_RETURN_IF_ERROR(SetCommand(spec, &task));
  HARROW_RETURN_IF_ERROR(SetResources(spec, &profile));
  HARROW_RETURN_IF_ERROR(SetEnvironment(spec, &profile));
  const std::string name = Text(spec.name);
  if (name.starts_with('#') || name.find('\n') != std::string::npos)
    return Status(Code::kInvalid, StrCat("'", Printable(name, 60), "' cannot be the name of a task: # begins numbers, and a name is one line"));
  task.set_name(name);
  if (!(spec.time_limit >= 0 && spec.time_limit <= kLongest))
    return Status(Code::kInvalid, "the time limit of a task is seconds, 0 for none");
  profile.set_time_limit_ns(static_cast<int64_t>(spec.time_limit * 1e9));
  if (spec.retries < -1) return Status(Code::kInvalid, "retries are 0 (as the run says), -1 (none), or how many");
  profile.set_retries(spec.retries == 0 ? -1 : std::max(spec.retries, 0));
  profile.set_priority(spec.priority);
  profile.set_cwd(DirectoryOf(spec, directory, submit_directory));
  profile.set_shell(Text(spec.shell));
  profile.set_stdin_path(Text(spec.stdin_path));
  profile.set_stdout_path(Text(spec.stdout_path));
  profile.set_stderr_path(Text(spec.stderr_path));
  for (const auto& [list, to] : {std::pair(spec.inputs, task.mutable_in()), std::pair(spec.outputs, task.mutable_out()),
                                 std::pair(spec.after_names, task.mutable_after()),
                                 std::pair(spec.after_any_names, task.mutable_after_any()), std::pair(spec.from, task.mutable_from()),
                                 std::pair(spec.to, task.mutable_to()), std::pair(spec.open, task.mutable_open())})
    Each(list, [&, to = to](const char* text) { to->Add(text); });
  if (spec.bound != nullptr) {
    if (!std::isfinite(*spec.bound)) return Status(Code::kInvalid, "the bound of a task is no finite number");
    task.set_bound(*spec.bound);
  }
  if (spec.share != nullptr) {
    const Result<bool> split = ParseShare(spec.share);
    if (!split.ok()) return split.status();
    task.set_split(*split);
  }
  if (spec.records != nullptr) {
    const Result<Records> records = ParseRecords(spec.records);
    if (!records.ok()) return records.status();
    task.set_records(*records);
  }
  for (const auto& [handles, count, to] : {std::tuple(spec.after, spec.after_count, &described.task.after),
                                           std::tuple(spec.after_any, spec.after_any_count, &described.task.after_any)}) {
    if (count > 0 && handles == nullptr) return Status(Code::kInvalid, "the list of tasks to wait for is NULL");
    to->assign(handles, handles + count);
  }
  return described;
}

}  // namespace harrow::client
