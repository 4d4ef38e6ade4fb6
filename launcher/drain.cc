#include <algorithm>
#include <iostream>
#include <memory>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/run_access.h"

namespace harrow::launcher {
namespace {

struct DrainOptions {
  std::string run_dir, allocation;
};

/// "0 (job 17, partition fast)".
std::string Described(const RunAccess::OneAllocation& one) {
  std::string text = StrCat(one.part.number);
  if (!one.job.empty()) text += StrCat(" (job ", Printable(one.job), one.partition.empty() ? "" : ", partition ", Printable(one.partition), ")");
  return text;
}

/// By its number, or its job's; of none that is named this job's.
Result<const RunAccess::OneAllocation*> Choose(const std::vector<RunAccess::OneAllocation>& allocations, const std::string& named) {
  const std::string job = named.empty() ? JobId() : named;
  std::string there;
  for (const RunAccess::OneAllocation& one : allocations) {
    if (one.over) continue;
    if ((!job.empty() && one.job == job) || (!named.empty() && StrCat(one.part.number) == named)) return &one;
    there += StrCat(there.empty() ? "" : ", ", Described(one));
  }
  return Status(Code::kInvalid, StrCat(named.empty() ? "name the allocation" : StrCat("no allocation ", Printable(named, 40), " of the run goes on"),
                                       "; there are ", there, " (harrow status shows them)"));
}

/// The part that has a node of that name; null: none has.
const run_dir::Part* PartWithNode(RunAccess& access, const pb::Progress& progress, const std::vector<RunAccess::OneAllocation>& allocations,
                                  const std::string& node) {
  if (allocations.empty()) return HasNode(progress, node) ? &access.part() : nullptr;
  const RunAccess::OneAllocation* const one = AllocationWithNode(allocations, node);
  return one != nullptr ? &one->part : nullptr;
}

int DrainNode(RunAccess& access, const run_dir::Part& part, const std::string& node) {
  const auto answer = access.Drain(part, node);
  if (!answer.ok()) return Fail(answer.status());
  if (!answer->ok()) return Fail(Status(Code::kInvalid, answer->text()));
  WriteTo(STDOUT_FILENO, StrCat("node ", Printable(node), ": ", answer->text(), "\n"));
  return OutputDone();
}

int RunDrain(const DrainOptions& options) {
  auto run = RunAccess::Open(options.run_dir);
  if (!run.ok()) return Fail(run.status());
  RunAccess& access = **run;
  const auto over = [&] { return Fail(Status(Code::kInvalid, StrCat("the run in ", access.dir(), " is over, or not answered for: nothing is to be drained"))); };
  if (access.server() == nullptr) return over();
  const auto progress = access.server()->Progress(true);
  if (!progress.ok()) return over();
  const std::vector<RunAccess::OneAllocation> allocations = access.Allocations(*progress);
  if (!options.allocation.empty()) {
    if (const run_dir::Part* const part = PartWithNode(access, *progress, allocations, options.allocation))
      return DrainNode(access, *part, options.allocation);
  }
  if (allocations.empty()) return Fail(Status(Code::kInvalid, "the run has one allocation alone, and nobody to give its tasks to; harrow join in another job gives it one more"));
  const auto chosen = Choose(allocations, options.allocation);
  if (!chosen.ok()) return Fail(chosen.status());
  const bool all_drain = std::all_of(allocations.begin(), allocations.end(), [&](const RunAccess::OneAllocation& one) {
    return one.over || &one == *chosen || (one.progress && one.progress->allocation().draining());
  });
  const bool drains_too = (*chosen)->progress && (*chosen)->progress->allocation().draining();
  if (all_drain && !drains_too) {
    return Fail(Status(Code::kInvalid, StrCat("allocation ", Described(**chosen), ": no other allocation of the run would be left to take its tasks: all others drain",
                                              " or are over; harrow cancel --all, or a signal, ends the run")));
  }
  const auto answer = access.Drain((*chosen)->part);
  if (!answer.ok()) return Fail(answer.status());
  if (!answer->ok()) return Fail(Status(Code::kInvalid, StrCat("allocation ", Described(**chosen), ": ", answer->text())));
  WriteTo(STDOUT_FILENO, StrCat("allocation ", Described(**chosen), ": ", answer->text(), "\n"));
  return OutputDone();
}

const Registered kDrain({.name = "drain",
                         .summary = "Give the tasks of an allocation, or of a node, to others",
                         .example = "harrow drain 1\n         harrow drain node4",
                         .usage = "[options] [ALLOCATION | NODE]",
                         .order = 15,
                         .setup = [](CLI::App& app) -> std::function<int()> {
                           auto options = std::make_shared<DrainOptions>();
                           app.add_option("ALLOCATION", options->allocation, "Its number, its job's (default: this job's), or a node's name");
                           AddRunDir(app, &options->run_dir);
                           return [options] { return RunDrain(*options); };
                         }});

}  // namespace
}  // namespace harrow::launcher
