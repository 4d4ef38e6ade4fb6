#include "client/find_run.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace harrow::client {
namespace {

/// When the run of a directory was started or resumed last; none: it is no run directory. RUN/flow is written
/// at each start; RUN/server at each start of a server; the journal alone is what a copied run may have.
std::optional<WallTime> StartOf(os::FileSystem& fs, const std::string& directory) {
  std::optional<WallTime> latest;
  for (const char* name : {"/flow", "/server"}) {
    const auto info = fs.Stat(directory + name);
    if (info.ok() && !info->is_directory) latest = std::max(latest.value_or(info->modified), info->modified);
  }
  if (!latest) {
    const auto info = fs.Stat(directory + "/journal.db");
    if (info.ok() && !info->is_directory) latest = info->modified;
  }
  return latest;
}

std::optional<std::string> NewestIn(os::FileSystem& fs, const std::string& directory) {
  const auto names = fs.List(directory);
  if (!names.ok()) return std::nullopt;
  std::optional<std::string> newest;
  WallTime newest_start;
  for (const std::string& name : *names) {
    if (!name.starts_with("harrow-")) continue;
    const std::string path = directory == "." ? name : StrCat(directory, "/", name);
    const auto start = StartOf(fs, path);
    if (!start || (newest && *start < newest_start)) continue;
    newest = path;
    newest_start = *start;
  }
  return newest;
}

Status NoRun(const std::string& path, const char* option) {
  return {Code::kInvalid, StrCat("no run in ", Printable(path), " (", option,
                                 "); a run directory holds the files flow and journal.db")};
}

}  // namespace

Result<std::string> FindRun(os::FileSystem& fs, const std::string& given,
                            const std::string& from_environment) {
  if (!given.empty()) {
    if (StartOf(fs, given)) return given;
    return NoRun(given, "--run-dir");
  }
  if (!from_environment.empty()) {
    if (StartOf(fs, from_environment)) return from_environment;
    if (auto newest = NewestIn(fs, from_environment)) return *newest;
    return NoRun(from_environment, "HARROW_RUN_DIR");
  }
  if (auto newest = NewestIn(fs, ".")) return *newest;
  if (StartOf(fs, ".")) return std::string(".");
  return Status(Code::kNotFound,
                "no run here: no directory harrow-* of a run in this directory; name one with --run-dir D");
}

}  // namespace harrow::client
