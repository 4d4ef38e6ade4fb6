#include "run_dir/part.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"
#include "os/file_system.h"

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

/// None: it is not as a part is called.
std::optional<uint32_t> NumberOf(const std::string& name) {
  uint32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  constexpr uint32_t kMost = 1'000'000;
  if (error != std::errc() || rest != end || StrCat(number) != name || number > kMost) return {};
  return number;
}

}  // namespace

Result<Part> OpenPart(std::shared_ptr<RunDir> run, const std::string& name) {
  Result<std::shared_ptr<RunDir>> dir = run->OpenBelow(name);
  if (dir.ok()) return Part{.run = std::move(run), .dir = *std::move(dir), .number = NumberOf(name).value_or(0)};
  if (dir.status().code() == Code::kNotFound) HARROW_RETURN_IF_ERROR(RefuseWithoutParts(*run));
  return dir.status();
}

Result<Part> MakePart(std::shared_ptr<RunDir> run, const std::string& name) {
  Result<Part> part = OpenPart(run, name);
  if (part.status().code() != Code::kNotFound) return part;
  HARROW_RETURN_IF_ERROR(run->MakeDirectories(PartPath(run->path(), name)));
  return OpenPart(std::move(run), name);
}

std::string PartArgument(const Part& part) {
  return part.is_first() ? part.run->path() : part.dir->path();
}

Result<Part> OpenArgument(const std::string& argument) {
  const size_t slash = argument.rfind('/');
  const std::string name = slash == std::string::npos ? "" : argument.substr(slash + 1);
  // A run's own directory may be called like a part.
  const bool part = NumberOf(name).value_or(0) > 0 && os::RealFileSystem().Stat(FlowPath(argument.substr(0, slash))).ok() &&
                    !os::RealFileSystem().Stat(PartPath(argument, kFirstPart)).ok();
  auto run = RunDir::Open(part ? argument.substr(0, slash) : argument);
  if (!run.ok()) return run.status();
  return part ? OpenPart(*std::move(run), name) : OpenPart(*std::move(run));
}

Result<std::vector<uint32_t>> PartNumbers(RunDir& run) {
  const Result<std::vector<std::string>> names = run.List(run.path());
  if (!names.ok()) return names.status();
  std::vector<uint32_t> numbers;
  for (const std::string& name : *names) {
    if (const auto number = NumberOf(name)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Result<Part> LookAtPart(std::shared_ptr<RunDir> run) {
  Result<std::shared_ptr<RunDir>> dir = run->OpenBelow(kFirstPart);
  if (dir.status().code() == Code::kNotFound) dir = run;
  if (!dir.ok()) return dir.status();
  return Part{.run = std::move(run), .dir = *std::move(dir)};
}

}  // namespace harrow::run_dir
