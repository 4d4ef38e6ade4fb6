// Inputs are links to read-only objects of the store (store/store.h says how), so a task that writes to one
// is refused by the kernel. Root is not: so each input is looked at after the attempt. One that has changed
// is dropped, and the attempt fails, also when its command did not: what it and others read is not known.
//
// Outputs are taken only of an attempt that succeeded, all of them or none. A result gets its name in the
// submit directory only while the agent has been answered all the time since the process ended: where it was
// cut off, another attempt may be writing the same, or have written it. A look at the fence is all that
// stands between a copy of hours and its name; a rename that the file system itself holds up for longer than
// the fence's margin (fence.h) is not covered.
//
// A program that is called by a path of the submit directory ("./model") is run from there. In a shell's
// command that is done by a link beside the inputs: what it starts finds it where it would without a sandbox.

#include "agent/steps/sandbox.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "agent/steps/environment.h"
#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr size_t kNamed = 10;          // undeclared files, of an attempt
constexpr uint32_t kCounted = 100000;  // of them

bool IsThere(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

bool IsProgram(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
}

/// The words of a command, of which some may be paths; in a shell's, quotes and what is computed are not
/// looked at. `first`: only those that are run, by their place.
std::vector<std::string> Words(const LocalTask& task, bool first) {
  std::vector<std::string> words;
  const bool shell = task.form == CommandForm::kShell;
  const std::string_view separators = task.form == CommandForm::kArgv || task.form == CommandForm::kAssigned
                                          ? std::string_view("\0", 1)
                                      : shell ? std::string_view(" \t\n;&|()<>`\"'")
                                              : std::string_view(" \t");
  bool runs = true;  // the next word is run
  for (size_t begin = 0; begin <= task.command.size();) {
    const size_t end = std::min(task.command.find_first_of(separators, begin), task.command.size());
    if (end > begin) {
      const std::string_view word(task.command.data() + begin, end - begin);
      if (!first || runs) words.emplace_back(word);
      runs = IsAssignment(word) && runs;
    }
    if (end < task.command.size() && shell &&
        std::string_view("\n;&|(`").find(task.command[end]) != std::string_view::npos)
      runs = true;
    begin = end + 1;
  }
  return words;
}

bool IsRelative(std::string_view path) {
  return !path.empty() && path.front() != '/';
}

std::string Plain(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

}  // namespace

/// Where an input has gone meanwhile, the attempt is lost: its task has done nothing wrong.
Status Sandbox::PlaceInputs(const LocalTask& task, TaskResult* result) {
  placed_.clear();
  for (const TaskInput& input : task.inputs) {
    const std::optional<store::Object> object = files_->ObjectOf(input.file);
    if (!object) {
      result->end = End::kLost;
      return Status(Code::kNotFound,
                    StrCat("its input ", Printable(input.path), " is not on its node any more"));
    }
    placed_.push_back({object->id, files_->Spoilings(object->id)});
    const Status placed = files_->store().Place(object->id, input.inside, Below(path_, input.path));
    if (placed.ok()) continue;
    if (!files_->store().Has(object->id)) {
      files_->Spoiled(input.file);
      result->end = End::kLost;
    }
    return Status(placed.code(), StrCat("its input ", Printable(input.path),
                                        " cannot be brought to its sandbox: ", placed.message()));
  }
  for (const std::string& output : task.outputs) {
    if (IsRelative(output)) MakeDirectoriesOf(Below(path_, output));
  }
  return {};
}

void Sandbox::LinkPrograms(const LocalTask& task) {
  const std::string& directory = task.profile->directory();
  const std::string& cwd = task.profile->spec().cwd;
  for (const std::string& word : Words(task, true)) {
    if (!IsRelative(word) || word.find('/') == std::string::npos) continue;
    const std::string here = Below(Below(path_, cwd), word);
    const std::string program = Below(directory, word);
    if (IsThere(here) || !IsProgram(program) || Plain(word).starts_with("..")) continue;
    MakeDirectoriesOf(here);
    [[maybe_unused]] const int made = symlink(program.c_str(), here.c_str());
  }
}

Status Sandbox::Prepare(Launch* launch, TaskResult* result) {
  if (!launch->task.sandbox) return {};
  if (files_ == nullptr) return Status(Code::kInternal, "this node keeps no files");
  Status ready;
  files_->Outside([&] { ready = MakeReady(launch, result); });
  return ready;
}

Status Sandbox::MakeReady(Launch* launch, TaskResult* result) {
  const LocalTask& task = launch->task;
  Result<std::string> made = files_->store().MakeSandbox(StrCat(task.id, ".", task.attempt));
  if (!made.ok()) return Status(made.status().code(), "no sandbox for it: " + made.status().message());
  path_ = *std::move(made);
  if (const Status placed = PlaceInputs(task, result); !placed.ok()) {
    files_->store().RemoveSandbox(std::exchange(path_, {}));
    return placed;
  }
  LinkPrograms(task);
  const std::string& cwd = task.profile->spec().cwd;
  const bool elsewhere = !cwd.empty() && (!IsRelative(cwd) || Plain(cwd).starts_with(".."));
  launch->sandbox = path_;
  launch->directory = cwd.empty() ? path_ : elsewhere ? task.profile->directory() : Below(path_, cwd);
  if (!elsewhere) MakeDirectoriesOf(launch->directory + "/.");
  return {};
}

void Sandbox::LookAtInputs(const LocalTask& task, TaskResult* result) {
  for (size_t i = 0; i < placed_.size(); ++i) {
    const TaskInput& input = task.inputs[i];
    const std::optional<store::Object> object = files_->ObjectOf(input.file);
    const bool here = object && object->id == placed_[i].object;
    const bool gone = here && !files_->store().Has(object->id);
    const bool now = here && !gone && !files_->store().Unchanged(object->id);
    if (now || gone) files_->Spoiled(input.file);
    if (!now && files_->Spoilings(placed_[i].object) == placed_[i].spoilings) continue;
    if (result->end == End::kCancelled || result->end == End::kInterrupted || result->end == End::kLost)
      continue;
    if (now) {
      result->end = End::kMissingOutput;
      result->message = StrCat("it, or another task on its node, changed its input ", Printable(input.path),
                               ": a task that changes a file copies it first");
    } else if (result->end == End::kExited || result->end == End::kSignaled) {
      // Another one has changed it, and failed for that, or it has rotted: what this one made of it counts
      // for nothing, also where it was a failure.
      result->end = End::kLost;
    }
  }
}

/// Of those that are still there.
uint64_t Sandbox::BytesOfOutputs(const LocalTask& task) const {
  uint64_t bytes = 1;
  const auto count = [&bytes](const std::filesystem::path& path) {
    struct stat info {};
    if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode))
      bytes += static_cast<uint64_t>(info.st_size);
  };
  for (const std::string& output : task.outputs) {
    if (!IsRelative(output)) continue;
    const std::string path = Below(path_, output);
    count(path);
    std::error_code error;
    if (!std::filesystem::is_directory(std::filesystem::symlink_status(path, error))) continue;
    for (std::filesystem::recursive_directory_iterator each(path, error), end; !error && each != end;
         each.increment(error))
      count(each->path());
  }
  return bytes;
}

void Sandbox::TakeOutputs(const LocalTask& task, TaskResult* result) {
  const std::string& submit = task.profile->base().common().submit_dir;
  const auto fail = [&](const std::string& output, const std::string& why) {
    for (const MadeFile& made : result->made_files) {
      if (made.object) files_->Discard(made.object->id);
    }
    result->made_files.clear();
    result->end = End::kMissingOutput;
    result->message = StrCat("its output ", Printable(output), " ", why);
  };
  // First whether all are there.
  for (const std::string& output : task.outputs) {
    const std::string path = IsRelative(output) ? Below(path_, output) : output;
    if (!IsThere(path) && !task.profile->spec().missing_ok)
      return fail(output, "was not written, although it exited with 0");
  }
  std::vector<size_t> results;  // of made_files: the number of the output
  for (size_t i = 0; i < task.outputs.size(); ++i) {
    const std::string& output = task.outputs[i];
    if (!IsRelative(output)) continue;  // it is where it belongs
    MadeFile made{.file = task.output_files[i]};
    const std::string path = Below(path_, output);
    if (IsThere(path)) {
      const Result<store::Object> object = files_->store().MoveIn(path);
      if (!object.ok()) {
        uint64_t bytes = BytesOfOutputs(task);
        for (const MadeFile& moved : result->made_files)
          bytes += moved.object ? static_cast<uint64_t>(moved.object->bytes) : 0;
        const bool ever = bytes <= files_->store().room().limit;
        if (object.status().code() == Code::kExhausted && ever) result->no_room = bytes;
        return fail(output, "cannot be kept: " + object.status().message());
      }
      made.object = *object;
    }
    result->made_files.push_back(std::move(made));
    results.push_back(i);
  }
  for (size_t m = 0; m < results.size(); ++m) {
    MadeFile& made = result->made_files[m];
    const std::string& output = task.outputs[results[m]];
    if (!made.object || !task.output_results[results[m]]) continue;
    bool refused = false;
    const store::CopyWatch watch{
        .temporary = [this](const std::string& path) { files_->NoteTemporary(path); },
        .may_name =
            [&] {
              refused = fenced_();
              return refused ? Status(Code::kUnavailable,
                                      "its node was cut off from the server while it was copied")
                             : Status();
            }};
    const Status copied =
        files_->store().CopyOut(made.object->id, Below(submit, output), files_->umask(), watch);
    if (refused) {
      fail(output, "was not copied to the submit directory: " + copied.message());
      result->end = End::kLost;  // it is no fault of the task
      return;
    }
    if (!copied.ok()) return fail(output, "cannot be copied to the submit directory: " + copied.message());
    made.shared = true;
  }
  for (const MadeFile& made : result->made_files) {
    if (made.object) files_->Made(made.file, *made.object);
  }
}

void Sandbox::NameUndeclared(const LocalTask& task, TaskResult* result) {
  std::set<std::string> declared(task.outputs.begin(), task.outputs.end());
  std::set<std::string> parents;
  for (const TaskInput& input : task.inputs) declared.insert(input.path);
  const auto add_parents = [&parents](const std::filesystem::path& path) {
    for (std::filesystem::path parent = path.parent_path(); parent.has_relative_path(); parent = parent.parent_path())
      parents.insert(parent.string());
  };
  for (const std::string& path : declared) add_parents(path);
  if (const std::string& cwd = task.profile->spec().cwd; !cwd.empty()) add_parents(Plain(cwd) + "/.");
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator
           it(path_, std::filesystem::directory_options::skip_permission_denied, error),
       end;
       !error && it != end && result->undeclared < kCounted; it.increment(error)) {
    const std::string name = it->path().lexically_relative(path_).string();
    const bool link = it->is_symlink(error);
    const bool directory = !link && it->is_directory(error);
    if (declared.contains(name)) {
      if (directory) it.disable_recursion_pending();
      continue;
    }
    if (directory && parents.contains(name)) continue;
    if (link && std::filesystem::read_symlink(it->path(), error)
                    .string()
                    .starts_with(task.profile->base().common().submit_dir))
      continue;  // a program
    if (directory) it.disable_recursion_pending();
    ++result->undeclared;
    if (result->undeclared_paths.size() < kNamed) result->undeclared_paths.push_back(name);
  }
}

void Sandbox::NameMissing(const LocalTask& task, TaskResult* result) const {
  const bool failed =
      (result->end == End::kExited && result->code != 0) || result->end == End::kMissingOutput;
  if (!failed) return;
  std::string named;
  for (const std::string& word : Words(task, false)) {
    const std::string& cwd = task.profile->spec().cwd;
    const std::string name = Plain(cwd.empty() ? word : Below(cwd, word));
    const bool known = std::any_of(task.inputs.begin(), task.inputs.end(),
                                   [&](const TaskInput& i) { return i.path == name; }) ||
                       std::find(task.outputs.begin(), task.outputs.end(), name) != task.outputs.end();
    if (known || name == "." || name.starts_with("..") || IsThere(Below(path_, name)) ||
        !IsThere(Below(task.profile->base().common().submit_dir, name)))
      continue;
    named += (named.empty() ? "" : ", ") + Printable(name);
    if (named.size() > 200) break;
  }
  if (named.empty()) return;
  result->message += StrCat(result->message.empty() ? "" : "; ", named,
                            named.find(',') == std::string::npos ? " lies" : " lie",
                            " in the submit directory, and not among what the task declares (in = [...])");
}

void Sandbox::Settle(const LocalTask& task, TaskResult* result) {
  if (!path_.empty()) files_->Outside([&] { PutAway(task, result); });
}

void Sandbox::PutAway(const LocalTask& task, TaskResult* result) {
  if (result->end != End::kRunning && result->end != End::kNotStarted) {
    NameMissing(task, result);
    LookAtInputs(task, result);
    if (result->succeeded()) {
      const uint64_t taking = files_->BeginTaking();
      TakeOutputs(task, result);
      files_->EndTaking(taking);
      NameUndeclared(task, result);
    }
  }
  files_->store().RemoveSandbox(std::exchange(path_, {}));
}

}  // namespace harrow::agent
