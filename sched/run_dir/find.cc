#include "run_dir/find.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "run_dir/names.h"

namespace harrow::run_dir {
namespace {

/// When the run of a directory was started or resumed last; none: it is no run directory. RUN/flow is written when it
/// is started, that of a part when it is resumed, `server` at each start of a server; the journal alone is what a copied
/// run may have. In what a release without parts left they lie in RUN.
std::optional<WallTime> StartOf(os::FileSystem& fs, const std::string& run) {
  std::vector<std::string> directories = {run};
  if (const auto names = fs.List(run); names.ok()) {
    for (const std::string& name : *names) {
      if (IsPart(name)) directories.push_back(PartPath(run, name));
    }
  }
  std::optional<WallTime> latest;
  const auto take = [&](const std::string& path) {
    const auto info = fs.Stat(path);
    if (info.ok() && !info->is_directory) latest = std::max(latest.value_or(info->modified), info->modified);
  };
  for (const std::string& directory : directories) {
    take(FlowPath(directory));
    take(ServerPath(directory));
  }
  if (latest) return latest;
  for (const std::string& directory : directories) take(JournalPath(directory));
  return latest;
}

using JudgeOf = std::function<Standing(const std::string&, Purpose)>;

struct Found {
  std::string path;
  Status usable;
};

/// Of the directories of ours. One that must not be used counts: an older run is not taken for it.
std::optional<Found> NewestIn(os::FileSystem& fs, const std::string& directory, const JudgeOf& judge) {
  const auto names = fs.List(directory);
  if (!names.ok()) return std::nullopt;
  std::optional<Found> newest;
  WallTime newest_start;
  for (const std::string& name : *names) {
    if (!name.starts_with("harrow-")) continue;
    const std::string path = directory == "." ? name : StrCat(directory, "/", name);
    Standing standing = judge(path, Purpose::kRun);
    if (!standing.ours) continue;
    const auto start = StartOf(fs, path);
    if (!start || (newest && *start < newest_start)) continue;
    newest = Found{path, std::move(standing.usable)};
    newest_start = *start;
  }
  return newest;
}

Result<std::string> Usable(Found found) {
  if (!found.usable.ok()) return found.usable;
  return std::move(found.path);
}

Status NoRun(const std::string& path, const char* option) {
  return {Code::kNotFound, StrCat("no run in ", Printable(path), " (", option,
                                 "); a run directory holds the files flow and ", JournalPath(kFirstPart))};
}

/// Who names a part of a run, or stands in one, means the run.
std::string RunOf(os::FileSystem& fs, std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  std::string full = directory, above = "..";
  if (directory == ".") {
    const Result<std::string> resolved = fs.Resolve(directory);
    full = resolved.ok() ? *resolved : "";
  } else if (const size_t slash = directory.rfind('/'); slash != std::string::npos) {
    above = directory.substr(0, slash);
  } else {
    above = ".";
  }
  const bool part = IsPart(std::string_view(full).substr(full.rfind('/') + 1)) && fs.Stat(FlowPath(above)).ok();
  return part ? above : directory;
}

/// Runs of ours in the current directory that bear other names than harrow-*: begun with --run-dir.
std::vector<std::string> NamedRuns(os::FileSystem& fs, const JudgeOf& judge) {
  constexpr size_t kMost = 10'000;  // looked at: a directory of data is no place of runs
  std::vector<std::string> runs;
  const auto names = fs.List(".");
  if (!names.ok() || names->size() > kMost) return runs;
  for (const std::string& name : *names) {
    // Those of commands that leave nothing are hidden.
    if (name.starts_with("harrow-") || name.starts_with(".harrow-") || !fs.Stat(FlowPath(name)).ok()) continue;
    const bool begun = fs.Stat(PartPath(name, kFirstPart)).ok() || fs.Stat(JournalPath(name)).ok();
    if (begun && judge(name, Purpose::kRun).ours) runs.push_back(name);
  }
  return runs;
}

}  // namespace

bool IsRun(os::FileSystem& fs, const std::string& path) {
  return StartOf(fs, path).has_value();
}

Result<std::string> FindRun(os::FileSystem& fs, const std::string& given, const std::string& from_environment,
                            Purpose purpose, const JudgeOf& judge) {
  const std::string named = RunOf(fs, given.empty() ? from_environment : given);
  const char* option = given.empty() ? "HARROW_RUN_DIR" : "--run-dir";
  if (!named.empty()) {
    const Standing standing = judge(named, purpose);
    // Another's directory is refused as that, whatever is in it; but one of runs may be anybody's.
    const bool is_run = IsRun(fs, named);
    if (!is_run && given.empty()) {
      if (auto newest = NewestIn(fs, named, judge)) return Usable(*std::move(newest));
    }
    if (!standing.usable.ok() && standing.usable.code() != Code::kNotFound) return standing.usable;
    return is_run ? Result<std::string>(named) : NoRun(named, option);
  }
  if (auto newest = NewestIn(fs, ".", judge)) return Usable(*std::move(newest));
  if (const std::string run = RunOf(fs, "."); IsRun(fs, run)) return Usable({run, judge(run, purpose).usable});
  const std::vector<std::string> others = NamedRuns(fs, judge);
  if (others.size() == 1) return Usable({others[0], judge(others[0], purpose).usable});
  std::string which;
  for (size_t i = 0; i < others.size() && i < 3; ++i) which += StrCat(i == 0 ? "" : ", ", Printable(others[i], 60));
  if (others.size() > 3) which += ", ...";
  return Status(Code::kNotFound,
                others.empty() ? "no run here: no directory harrow-* of a run of yours in this directory; name one with "
                                 "--run-dir D"
                               : StrCat("there are several runs here (", which, "); name one with --run-dir D"));
}

}  // namespace harrow::run_dir
