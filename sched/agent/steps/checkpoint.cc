// Who is asked by a signal? Not the task's process alone, which may be a shell that would die of it and leave its program behind. Nor
// all: a program that has just been started has no handler yet, and one that never will is ended by the question. So those processes of
// the task are told that catch the signal (/proc/PID/status), and as long as none does it is tried again.
//
// What comes of an attempt: done, and its checkpoints are removed when that is on record: until then its agent may die, and it would have
// to begin anew. It was asked, ended with the status that says so and has left what a
// checkpoint consists of: that is kept, and the attempt is a checkpointed one. The same without files, or where these cannot be kept (a
// full disk): it is lost, so that its task goes on from the checkpoint before. Who writes by itself may have left one however it ended.
//
// A task that CRIU dumps has a process before it that is asked instead, and ends with that status when there is an image (`harrow hold`,
// criu/hold.cc). Where CRIU does not work the task runs without checkpoints. An image that cannot be restored is tried twice, as
// it may be this node that cannot: then the one before it counts, and where there is none it begins anew, and is not dumped again.
#include "agent/steps/checkpoint.h"

#include <charconv>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "agent/steps/gang.h"
#include "base/text.h"
#include "criu/hold.h"
#include "os/process.h"
#include "run_dir/names.h"

namespace harrow::agent {
namespace {

bool Catches(pid_t pid, int signal) {
  std::ifstream status(StrCat("/proc/", static_cast<int>(pid), "/status"));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    uint64_t mask = 0;
    const size_t begin = line.find_first_not_of(" \t", 7);
    if (begin == std::string::npos) return false;
    std::from_chars(line.data() + begin, line.data() + line.size(), mask, 16);
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

bool FollowsAnother(const LocalTask& task) {
  return task.gang && !task.gang->leads();
}

std::string NameOfTask(const LocalTask& task) {
  return task.name.empty() ? StrCat("#", task.id + 1) : Printable(task.name, 60);
}

}  // namespace

bool IsAnswer(const CheckpointSpec& spec, bool asked, bool exited, int code) {
  return spec.on && asked && exited && code == spec.status && spec.ask != CheckpointSpec::Ask::kNone;
}

Status Checkpoint::Prepare(Launch* launch, TaskResult* result) {
  const LocalTask& task = launch->task;
  const CheckpointSpec& spec = task.profile->spec().checkpoint;
  attempt_ = {};
  const std::string& run = task.profile->base().common().run_dir;
  if (!spec.on || task.checkpoints.empty() || run.empty()) return {};
  if (spec.criu) return PrepareForCriu(launch, result);
  const bool by_itself = spec.ask == CheckpointSpec::Ask::kNone;
  attempt_.checkpoints = std::make_unique<migrate::Checkpoints>(
      run_dir::CheckpointsPath(run, task.checkpoints),
      migrate::Checkpoints::Rules{.files = spec.files, .by_itself = by_itself}, to_end_);
  if (FollowsAnother(task)) return {};
  const Result<migrate::Checkpoints::Begun> begun = attempt_.checkpoints->Begin();
  if (!begun.ok()) return Status(begun.status().code(), StrCat("its checkpoints: ", begun.status().message()));
  if (!begun->trouble.empty()) tell_(StrCat("task ", NameOfTask(task), ": ", begun->trouble));
  attempt_.beats = by_itself;
  SetVariables(launch, begun->restart);
  attempt_.restarted = !begun->restart.empty();
  return {};
}

Status Checkpoint::PrepareForCriu(Launch* launch, TaskResult* result) {
  const LocalTask& task = launch->task;
  const CheckpointSpec& spec = task.profile->spec().checkpoint;
  const std::string directory = run_dir::CheckpointsPath(task.profile->base().common().run_dir, task.checkpoints);
  auto checkpoints = std::make_unique<migrate::Checkpoints>(
      directory, migrate::Checkpoints::Rules{.files = {}, .unpacked = StrCat(place_.empty() ? directory : place_, "/images.", slot_),
                                              .alike = criu_ == nullptr ? nullptr : &criu_->images()}, to_end_);
  bool first = false;
  if (checkpoints->IsGivenUp()) {
    attempt_.checkpoints = std::move(checkpoints);  // to be removed when the task is done
    return {};
  }
  Status works = criu_ == nullptr ? Status(Code::kUnavailable, "this agent has none") : criu_->Works(&first);
  if (works.ok() && launch->task.sandbox)
    works = Status(Code::kUnavailable, "it runs in a sandbox, which no other node has; --files shared is wanted for it");
  if (!works.ok()) {
    if (!checkpoints->Restart().empty()) {
      result->end = End::kLost;
      const std::string why = StrCat("it has an image to go on from, and CRIU does not work here: ", works.message());
      tell_(StrCat("task ", NameOfTask(task), ": ", why));
      return Status(Code::kUnavailable, why);
    }
    if (first || task.sandbox)
      tell_(StrCat("task ", NameOfTask(task), " and others with checkpoint = \"criu\" run without checkpoints here: ", works.message()));
    return {};
  }
  const Result<migrate::Checkpoints::Begun> begun = checkpoints->Begin();
  if (!begun.ok()) return Status(begun.status().code(), StrCat("its checkpoints: ", begun.status().message()));
  if (!begun->trouble.empty()) tell_(StrCat("task ", NameOfTask(task), ": ", begun->trouble));
  attempt_.checkpoints = std::move(checkpoints);
  attempt_.restarted = !begun->restart.empty();
  attempt_.image_status = spec.status;
  attempt_.trouble = attempt_.checkpoints->trouble();
  launch->checkpoint.holder = criu_->Words(
      {.images = attempt_.checkpoints->files_directory(), .trouble = attempt_.trouble, .restore = begun->restart},
      {.signal = spec.signal, .status = spec.status, .limit = spec.time * 8 / 10});  // before it is given up
  return {};
}

Status Checkpoint::HandOn(Launch* launch) {
  if (launch->checkpoint.holder.empty()) return {};
  std::string text;
  for (char* const* entry = launch->request.envp; *entry != nullptr; ++entry) text.append(*entry).append(1, '\0');
  // No name, so that nobody else reads it; and no word of a command line, which all can.
  environment_fd_ = os::Fd(memfd_create("environment", MFD_CLOEXEC));
  if (environment_fd_.get() < 0 || write(environment_fd_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return Status(Code::kUnavailable, StrCat("its environment cannot be handed on: ", strerror(errno)));
  own_environment_ = {StrCat(criu::kEnvironmentFd, "=", environment_fd_.get())};
  own_pointers_ = {own_environment_.front().data()};
  for (char** entry = environ; *entry != nullptr; ++entry) own_pointers_.push_back(*entry);
  own_pointers_.push_back(nullptr);
  launch->request.envp = own_pointers_.data();
  launch->request.kept_fd = environment_fd_.get();
  return {};
}

bool Checkpoint::HasImage(bool exited, int code) const {
  return attempt_.checkpoints && attempt_.image_status != 0 && exited && code == attempt_.image_status &&
         criu::HasHeld(attempt_.checkpoints->files_directory());
}

bool Checkpoint::AskCriu(const LocalTask& task, pid_t pid) {
  const CheckpointSpec& spec = task.profile->spec().checkpoint;
  attempt_.refusal = attempt_.image_status == 0 ? "it runs without" : "";
  if (attempt_.image_status == 0) return true;
  if (!attempt_.criu_asked) {
    attempt_.criu_asked = Catches(pid, spec.signal) && kill(pid, spec.signal) == 0;
    return false;  // what comes of it is looked for
  }
  attempt_.refusal = TakeTrouble(criu::kNoImage);
  if (attempt_.refusal.empty()) return false;
  attempt_.criu_asked = false;
  return true;
}

std::string Checkpoint::TakeTrouble(std::string_view kind) {
  std::ifstream in(attempt_.trouble);
  std::string line;
  if (!std::getline(in, line) || !line.starts_with(kind)) return {};
  std::remove(attempt_.trouble.c_str());
  return Printable(line.substr(kind.size()), 300);
}

void Checkpoint::JudgeRestore(const LocalTask& task, TaskResult* result) {
  if (result->end != End::kExited) return;
  if (const std::string lost = TakeTrouble(criu::kLostProcess); !lost.empty()) {
    result->end = End::kLost;
    result->message = StrCat("it was lost as its image was made: ", lost);
    tell_(StrCat("task ", NameOfTask(task), ": ", result->message));
    return;
  }
  const std::string trouble = TakeTrouble(criu::kNoProcess);
  if (trouble.empty()) return;
  result->end = End::kLost;
  result->message = StrCat(attempt_.restarted ? "its image cannot be restored: " : "it cannot be started so that CRIU could dump it: ", trouble);
  if (attempt_.restarted) {
    const Result<bool> dropped = attempt_.checkpoints->CountFailure();
    if (dropped.ok() && *dropped)
      result->message += "; that was tried often enough, and the checkpoint before it counts, or it begins anew and CRIU dumps it no more";
  }
  tell_(StrCat("task ", NameOfTask(task), ": ", result->message));
}

void Checkpoint::Find(Launch* launch) {
  if (attempt_.checkpoints && FollowsAnother(launch->task)) SetVariables(launch, attempt_.checkpoints->Restart());
}

void Checkpoint::SetVariables(Launch* launch, const std::string& restart) const {
  const CheckpointSpec& spec = launch->task.profile->spec().checkpoint;
  launch->checkpoint.directory = attempt_.checkpoints->files_directory();
  launch->checkpoint.restart = restart;
  if (spec.ask == CheckpointSpec::Ask::kFile) launch->checkpoint.request = attempt_.checkpoints->request();
  if (spec.ask == CheckpointSpec::Ask::kSignal) {
    const char* const name = sigabbrev_np(spec.signal);
    launch->checkpoint.signal = name != nullptr ? name : StrCat(spec.signal);
  }
  if (spec.ask != CheckpointSpec::Ask::kNone) launch->checkpoint.status = StrCat(spec.status);
}

bool Checkpoint::Ask(const LocalTask& task, pid_t pid) {
  const CheckpointSpec& spec = task.profile->spec().checkpoint;
  if (spec.criu) return AskCriu(task, pid);
  if (!attempt_.checkpoints) return true;
  if (spec.ask == CheckpointSpec::Ask::kFile) {
    const Status asked = attempt_.checkpoints->Ask();
    if (!asked.ok()) tell_(StrCat("task ", NameOfTask(task), " cannot be asked for a checkpoint: ", asked.message()));
    return asked.ok();
  }
  bool heard = false;
  if (Catches(pid, spec.signal)) heard = kill(pid, spec.signal) == 0;
  for (const os::Process& process : os::Descendants(pid)) {
    if (Catches(process.pid, spec.signal)) heard |= os::SignalProcess(process, spec.signal);
  }
  return heard;
}

void Checkpoint::Settle(const LocalTask& task, TaskResult* result) {
  if (!attempt_.checkpoints) return;
  const CheckpointSpec& spec = task.profile->spec().checkpoint;
  const bool by_itself = spec.ask == CheckpointSpec::Ask::kNone;
  if (spec.criu) JudgeRestore(task, result);
  if (FollowsAnother(task)) {
    // Whoever leads finds what it has left.
  } else if (result->succeeded()) {
    attempt_.checkpoints->Clear();
    result->over = std::move(attempt_.checkpoints);
    return;
  } else if (result->end == End::kNotStarted || result->end == End::kRunning) {
    // It has written nothing.
  } else if (result->end == End::kCheckpointed || by_itself || (result->end == End::kInterrupted && result->code == spec.status)) {
    Keep(task, result);
  }
  attempt_.checkpoints->Clear();
  attempt_.checkpoints.reset();
}

void Checkpoint::Keep(const LocalTask& task, TaskResult* result) {
  const Result<migrate::Checkpoints::Kept> kept = attempt_.checkpoints->Keep(attempt_.ran);
  if (kept.ok()) {
    result->checkpoint_bytes = kept->bytes;
    if (result->end == End::kCheckpointed)
      result->message = StrCat(kept->news ? "it left a checkpoint of " : "it goes on from its checkpoint of ",
                               FormatBytes(static_cast<uint64_t>(kept->bytes)),
                               kept->written > 0 ? StrCat(" (", FormatBytes(static_cast<uint64_t>(kept->written)), " written)") : "",
                               result->checkpoint_took > Duration(0) ? StrCat(" after ", FormatDuration(result->checkpoint_took)) : "");
    return;
  }
  if (result->end != End::kCheckpointed) return;
  result->end = End::kLost;
  const bool none = kept.status().code() == Code::kNotFound;
  result->message = StrCat(none ? "it was asked for a checkpoint, and " : "its checkpoint cannot be kept: ", kept.status().message(),
                           attempt_.restarted ? "; it goes on from the one before" : "; it begins anew");
  tell_(StrCat("task ", NameOfTask(task), ": ", result->message));
}

}  // namespace harrow::agent
