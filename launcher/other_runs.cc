#include "launcher/other_runs.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "launcher/exec.h"
#include "run_dir/names.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"

namespace harrow::launcher {
namespace {

constexpr size_t kMost = 10'000;  // names looked at: a directory of data is no place of runs

std::string OtherRunIn(os::FileSystem& fs, const std::string& directory, const std::string& run_dir,
                       const run_dir::Owner& me) {
  const auto names = fs.List(directory);
  if (!names.ok() || names->size() > kMost) return "";
  for (const std::string& name : *names) {
    if (name.starts_with(kExecDirectories)) continue;  // which is meant to run beside others
    const std::string path = directory + "/" + name;
    const std::string first = run_dir::PartPath(path, run_dir::kFirstPart);
    if (path == run_dir || !fs.Stat(run_dir::OwnerPath(first)).ok()) continue;
    // What others made could say anything, and hold whoever opens it.
    auto run = run_dir::RunDir::Open(path);
    if (!run.ok()) continue;
    const auto part = run_dir::OpenPart(*std::move(run));
    if (!part.ok()) continue;
    const auto owner = run_dir::ReadOwner(*part->dir, part->dir->path());
    if (!owner.ok() || owner->job != me.job || owner->host != me.host || owner->pid == me.pid) continue;
    if (kill(static_cast<pid_t>(owner->pid), 0) == 0 || errno == EPERM) return path;
  }
  return "";
}

}  // namespace

std::string OtherRunOfJob(os::FileSystem& fs, const std::string& run_dir, const std::string& job) {
  if (job.empty()) return "";
  const run_dir::Owner me = run_dir::ThisProcess(job);
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  const std::string beside = run_dir.substr(0, run_dir.rfind('/'));
  std::string other = OtherRunIn(fs, beside, run_dir, me);
  if (other.empty() && !error && here != beside) other = OtherRunIn(fs, here, run_dir, me);
  return other;
}

}  // namespace harrow::launcher
