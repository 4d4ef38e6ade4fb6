// A run's journal says where its tasks ran (S) and where it lay itself (R), as its last server saw it. When
// it is resumed it lies at R'. What moved along with it is then at S', which lies from R' as S did from R. As
// long as S' is S nothing was moved, or the run directory alone, beside where it was. Else a project was
// copied or moved, and S, if it is still there, is somebody else's by now (the original's, or that of a new
// project of the old name): no task may run there unasked.
//
// Without the flow's name on the command line tasks run in S, or, if that is gone and the user stands in S',
// there. With it they run in the current directory, which must be S or S': what is done stays done, and its
// results are in no other. An array has no flow to name, as its script lies in R': who stands in S' says as
// much.
#include "launcher/resume_place.h"

#include <filesystem>

#include "base/text.h"

namespace harrow::launcher {
namespace {

namespace fs = std::filesystem;

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// By device and inode: a directory may be mounted, or linked to, under two names.
bool Same(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || (fs::equivalent(a, b, error) && !error);
}

Status Refuse(std::string text) {
  return {Code::kInvalid, std::move(text)};
}

}  // namespace

std::string RealPath(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : real.string();
}

Result<ResumePlace> FindResumePlace(const run::RunSettings& settings, const journal::History& history,
                                    const std::string& run_dir, Named named) {
  const std::string now = RealPath(run_dir);
  std::string then = settings.submit_dir, was = now;
  // Every server records both; without a record no task was ever started.
  for (const auto& [key, value] : history.facts) {
    if (key == "submit_dir" && !value.empty()) then = value;
    if (key == "run_dir" && !value.empty()) was = value;
  }
  if (then.size() > 1 && then.ends_with('/')) then.pop_back();
  std::string beside = then;  // S'
  if (now != was) {
    beside = (fs::path(now) / fs::path(then).lexically_relative(was)).lexically_normal().string();
    if (beside.size() > 1 && beside.ends_with('/')) beside.pop_back();
  }
  const std::string here = RealPath(".");
  const auto shown = [](const std::string& path) { return Printable(path, 1000); };
  const std::string run = StrCat("the run in ", shown(now));
  const std::string goes_on = StrCat(run, " goes on in ", shown(here), "; its tasks ran in ", shown(then), " before");
  const bool then_there = IsDirectory(then), beside_there = IsDirectory(beside);
  const bool moved = !Same(then, beside);

  const auto again = [&](const std::string& to) {
    return StrCat(to, named == Named::kArray ? " and resume it from there: " : " and name the flow again: ",
                  "harrow run --resume --run-dir ", ShellQuote(now), named == Named::kArray ? "" : " FILE");
  };
  if (named == Named::kFlow) {
    if (Same(here, then)) return ResumePlace{here, ""};
    const bool neither = !then_there && (!moved || !beside_there);
    if (neither || (moved && Same(here, beside))) return ResumePlace{here, goes_on};
    return Refuse(StrCat(run, " has the results of its tasks in ", shown(moved && beside_there ? beside : then),
                         ", and this is ", shown(here), ": change to that directory to go on, or start a new run here "
                         "with another --run-dir"));
  }
  if (!moved) {
    if (!then_there) {
      const std::string gone =
          StrCat("the directory that the tasks of ", run, " ran in, ", shown(then), ", is no longer there; ");
      return Refuse(named == Named::kArray
                        ? gone + "make it again, or begin the array anew"
                        : gone + again("change to the directory that holds its files now,"));
    }
    return ResumePlace{then, Same(here, then) ? "" : StrCat("tasks run in ", shown(then), ", as before")};
  }
  const std::string copied = StrCat(run, " was in ", shown(was), " when its tasks ran in ", shown(then));
  if (named == Named::kArray && beside_there && Same(here, beside)) return ResumePlace{here, goes_on};
  if (then_there) {
    return Refuse(StrCat(
        copied,
        ", which is there still: no task is run in the directory of what this was copied or moved "
        "from. To go on here, ",
        again(StrCat("change to ", beside_there ? shown(beside) : "the directory that holds its files"))));
  }
  if (beside_there && Same(here, beside)) return ResumePlace{here, goes_on};
  return Refuse(StrCat(
      copied, ", which is no longer there; ",
      beside_there             ? StrCat("if ", shown(beside), " holds its files now, resume it from there")
      : named == Named::kArray ? "move the run directory to where its files are, as it was beside them before"
                               : again("change to the directory that holds its files now,")));
}

}  // namespace harrow::launcher
