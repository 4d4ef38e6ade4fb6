#include <memory>
#include <optional>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "launcher/command.h"
#include "launcher/run_access.h"

namespace harrow::launcher {
namespace {

struct MoveOptions {
  std::string run_dir, to;
  std::vector<std::string> tasks;
};

/// By its number, or its job's.
std::optional<uint32_t> AllocationNamed(const std::vector<RunAccess::OneAllocation>& allocations, const std::string& name) {
  for (const RunAccess::OneAllocation& one : allocations) {
    if (!one.over && (StrCat(one.part.number) == name || (!one.job.empty() && one.job == name))) return one.part.number;
  }
  return {};
}

/// The server that has the task is asked; who does not have it says so.
Result<pb::Answer> AskOwner(RunAccess& access, const std::vector<RunAccess::OneAllocation>& allocations, const pb::MoveTask& request) {
  if (allocations.empty()) return access.server()->Move(request);
  Result<pb::Answer> last = Status(Code::kUnavailable, "no server of the run answers");
  for (const RunAccess::OneAllocation& one : allocations) {
    if (!one.progress) continue;
    last = access.Move(one.part, request);
    if (last.ok() && last->code() != pb::Answer::ELSEWHERE) return last;
  }
  // It may have been on its way from one to another.
  if (last.ok()) last->set_text(StrCat("it is just going from one allocation to another; try again"));
  return last;
}

int RunMove(const MoveOptions& options) {
  auto run = RunAccess::Open(options.run_dir, options.tasks);
  if (!run.ok()) return Fail(run.status());
  RunAccess& access = **run;
  const auto progress = access.server() == nullptr ? Result<pb::Progress>(access.server_status()) : access.server()->Progress(true);
  if (!progress.ok()) return Fail(Status(Code::kInvalid, StrCat("the run in ", access.dir(), " is over, or not answered for: nothing is to be moved")));
  const std::vector<RunAccess::OneAllocation> allocations = access.Allocations(*progress);
  pb::MoveTask request;
  if (const auto part = AllocationNamed(allocations, options.to)) {
    request.set_part(*part + 1);
  } else {
    request.set_node(options.to);
  }
  int exit = kExitDone;
  for (const std::string& task : options.tasks) {
    request.set_task(task);
    const Result<pb::Answer> answer = AskOwner(access, allocations, request);
    if (!answer.ok()) return Fail(answer.status());
    std::string text = answer->text();
    const RunAccess::OneAllocation* const other =
        answer->code() == pb::Answer::NO_NODE ? AllocationWithNode(allocations, options.to) : nullptr;
    if (other != nullptr)
      text = StrCat("node ", Printable(options.to), " is of allocation ", other->part.number, ", and the task is of another one; write --to ", other->part.number);
    if (!answer->ok()) {
      exit = Fail(answer->code() == pb::Answer::CANNOT ? Status(Code::kUnavailable, text) : Status(Code::kInvalid, text));
      continue;
    }
    WriteTo(STDOUT_FILENO, StrCat("task ", Printable(task), ": ", text, "\n"));
  }
  const int written = OutputDone();
  return exit != kExitDone ? exit : written;
}

const Registered kMove({.name = "move",
                        .summary = "Let running tasks go on elsewhere, from a checkpoint",
                        .example = "harrow move md-17 --to node4\n         harrow move md-17 --to 1",
                        .usage = "[options] TASK... --to ALLOCATION|NODE",
                        .order = 44,
                        .setup = [](CLI::App& app) -> std::function<int()> {
                          auto options = std::make_shared<MoveOptions>();
                          AddRunDir(app, &options->run_dir);
                          app.add_option("--to", options->to, "A node, or an allocation by its number or its job's")->type_name("WHERE")->required();
                          AddTaskNames(app, &options->tasks, "Tasks by name or #number that write checkpoints, or do not run");
                          app.get_option("TASK")->required();
                          return [options] { return RunMove(*options); };
                        }});

}  // namespace
}  // namespace harrow::launcher
