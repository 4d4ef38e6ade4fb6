#include "agent/steps/declared_outputs.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <utility>

#include "agent/steps/gang.h"
#include "base/text.h"
#include "made/remove.h"
#include "os/posix_files.h"

namespace harrow::agent {
namespace {

int64_t SizeOf(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 ? st.st_size : -1;
}

/// A client of NFS remembers for a while that a name was not there. It asks again when the directory is
/// opened.
bool IsThereNow(const std::string& directory, const std::string& name) {
  if (made::IsThere(directory, name)) return true;
  const std::filesystem::path parent = std::filesystem::path(Below(directory, name)).parent_path();
  const os::Fd opened(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return made::IsThere(directory, name);
}

bool IsOfOthers(const LocalTask& task) {
  return task.sandbox || (task.gang && !task.gang->leads());  // sandbox.cc; the lead node's
}

}  // namespace

Status DeclaredOutputs::Prepare(Launch* launch, TaskResult*) {
  const LocalTask& task = launch->task;
  if (task.outputs.empty() || IsOfOthers(task)) return {};
  const std::string& directory = task.profile->base().common().submit_dir;
  made::Attempt now{.task = task.id, .attempt = task.attempt};
  // What it goes on from may be in the middle of them.
  const bool goes_on = !launch->checkpoint.restart.empty();
  for (uint32_t i = 0; i < task.outputs.size(); ++i) {
    const std::string& name = task.outputs[i];
    const auto& earlier = task.earlier;
    if (earlier && !goes_on && !std::binary_search(earlier->found.begin(), earlier->found.end(), i)) {
      const Status removed = made::RemoveMade(directory, name, {earlier->begin_ns, earlier->end_ns});
      if (!removed.ok())
        return Status(removed.code(), "an output of the earlier attempt stays: " + removed.message());
    }
    if (made::IsThere(directory, name)) {
      now.found.push_back(i);
    } else {
      MakeDirectoriesOf(Below(directory, name));
    }
  }
  const Result<int64_t> began = writer_.Began(task.id, task.attempt, now.found);
  if (!began.ok()) return {};  // then nothing of it is ever removed
  now.begin_ns = *began;
  looked_ = std::move(now);
  return {};
}

std::optional<Duration> DeclaredOutputs::beat_every() const {
  return looked_ ? std::optional(Duration(made::Writer::kBeat)) : std::nullopt;
}

/// A success without an output is the failure of this task, not of those that read it.
void DeclaredOutputs::LookForMissing(const LocalTask& task, TaskResult* result) {
  if (result->end != End::kExited || result->code != 0 || task.profile->spec().missing_ok) return;
  size_t missing = 0;
  for (const std::string& name : task.outputs) {
    if (IsThereNow(task.profile->base().common().submit_dir, name)) continue;
    if (missing++ == 0) result->message = StrCat("exited with 0, and did not write its output ", name);
  }
  if (missing == 0) return;
  if (missing > 1) result->message += StrCat(" and ", missing - 1, " more");
  result->end = End::kMissingOutput;
}

void DeclaredOutputs::Settle(const LocalTask& task, TaskResult* result) {
  if (IsOfOthers(task)) return;
  LookForMissing(task, result);
  if (looked_) {
    looked_->end_ns = writer_.Ended(looked_->task, looked_->attempt);
    // The end of a success is written down as well: its result may get lost with this agent, and what others
    // put among its outputs since then is not the attempt's.
    const bool succeeded = result->succeeded();
    if (!succeeded && result->end != End::kCheckpointed) result->made = std::move(looked_);
    looked_.reset();
  }
  const bool ran = result->end != End::kNotStarted && result->end != End::kRunning;
  if (!task.sizes_wanted || !ran) return;
  for (const std::string& name : task.outputs)
    result->output_sizes.push_back(SizeOf(Below(task.profile->base().common().submit_dir, name)));
}

}  // namespace harrow::agent
