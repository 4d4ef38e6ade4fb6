#include <iostream>
#include <memory>
#include <unistd.h>

#include "base/text.h"
#include "launcher/command.h"
#include "launcher/run_access.h"

namespace harrow::launcher {
namespace {

struct CancelOptions {
  std::string run_dir;
  std::vector<std::string> tasks;
  bool all = false;
};

int RunCancel(const CancelOptions& options) {
  if (options.all != options.tasks.empty()) {
    return Fail(
        Status(Code::kInvalid, "name the tasks to cancel, or give --all for all that have not ended"));
  }
  auto run = RunAccess::Open(options.run_dir, options.tasks);
  if (!run.ok()) return Fail(run.status());
  if ((*run)->server() == nullptr) {
    const std::string state = (*run)->State({});
    if (state == "unreachable") return Fail((*run)->server_status());
    if (state == "starting") {
      return Fail(
          Status(Code::kUnavailable, StrCat("the run in ", (*run)->dir(), " is just starting; try again")));
    }
    return Fail(
        Status(Code::kInvalid, StrCat("the run in ", (*run)->dir(), " is over: nothing is left to cancel")));
  }
  const bool whole = (*run)->IsWhole(options.tasks);
  auto answer = (*run)->server()->Cancel(whole ? std::vector<std::string>() : options.tasks, options.all || whole);
  if (!answer.ok()) return Fail(answer.status());
  if (!answer->ok()) {
    std::cerr << "harrow: " << answer->text() << "\n";
    return answer->code() != 0 ? answer->code() : kExitTaskFailed;
  }
  WriteTo(STDOUT_FILENO, answer->text() + "\n");
  return OutputDone();
}

const Registered kCancel({.name = "cancel",
                          .summary = "Cancel tasks: a waiting one is not started, a running one is ended",
                          .example = "harrow cancel project-17 '#40' '17_[3-9]'\n         harrow cancel --all",
                          .usage = "[options] TASK... | --all",
                          .order = 43,
                          .setup = [](CLI::App& app) -> std::function<int()> {
                            auto options = std::make_shared<CancelOptions>();
                            AddRunDir(app, &options->run_dir);
                            app.add_flag("--all", options->all, "Every task that has not ended");
                            AddTaskNames(app, &options->tasks, "Tasks by name or #number; what needs them is skipped");
                            return [options] { return RunCancel(*options); };
                          }});

}  // namespace
}  // namespace harrow::launcher
