#include "run_dir/part.h"

#include <utility>

#include "base/text.h"

namespace harrow::run_dir {
namespace {

/// Ok when no release without parts has written here.
Status RefuseWithoutParts(RunDir& run) {
  const std::string& path = run.path();
  for (const std::string& old : {JournalPath(path), OwnerPath(path), ResumeReadyPath(path)}) {
    const Status there = run.Stat(old).status();
    if (there.code() == Code::kNotFound) continue;
    if (!there.ok()) return there;
    return {Code::kInvalid,
            StrCat("the run in ", Printable(path), " was made by an earlier version of Harrow (", Printable(old),
                   " lies in it, not in ", Printable(PartPath(path, kFirstPart)),
                   "): finish it with that version; status, logs, report and explain of this one show it")};
  }
  return {};
}

}  // namespace

Result<Part> OpenPart(std::shared_ptr<RunDir> run, const std::string& name) {
  Result<std::shared_ptr<RunDir>> dir = run->OpenBelow(name);
  if (dir.ok()) return Part{.run = std::move(run), .dir = *std::move(dir)};
  if (dir.status().code() == Code::kNotFound) HARROW_RETURN_IF_ERROR(RefuseWithoutParts(*run));
  return dir.status();
}

Result<Part> MakePart(std::shared_ptr<RunDir> run, const std::string& name) {
  Result<Part> part = OpenPart(run, name);
  if (part.status().code() != Code::kNotFound) return part;
  HARROW_RETURN_IF_ERROR(run->MakeDirectories(PartPath(run->path(), name)));
  return OpenPart(std::move(run), name);
}

Result<Part> LookAtPart(std::shared_ptr<RunDir> run) {
  Result<std::shared_ptr<RunDir>> dir = run->OpenBelow(kFirstPart);
  if (dir.status().code() == Code::kNotFound) dir = run;
  if (!dir.ok()) return dir.status();
  return Part{.run = std::move(run), .dir = *std::move(dir)};
}

}  // namespace harrow::run_dir
