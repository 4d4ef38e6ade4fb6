#include "server/server.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <signal.h>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "os/log.h"
#include "os/process.h"
#include "run/flow_store.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"

namespace harrow::launcher {
namespace {

/// Its keeper owns the directory that a server is for. Where the name leads to another directory by now, its
/// owner file names somebody else, or nobody.
Status KeeperOwns(const run_dir::Part& part) {
  const Result<run_dir::Owner> owner = run_dir::ReadOwner(*part.dir, part.dir->path());
  const run_dir::Owner here = run_dir::ThisProcess("");
  if (owner.ok() && owner->pid == getppid() && owner->host == here.host &&
      owner->pid_namespace == here.pid_namespace) {
    return Status();
  }
  return {Code::kUnavailable, StrCat(part.dir->path(),
                                     " is not the directory that this run was started in, or has been taken "
                                     "over by another keeper")};
}

/// Started by the keeper, with a pipe for progress as standard output.
int RunServer(const std::string& run_dir) {
  os::TakeSignals();
  constexpr std::array kSignals = {SIGTERM, SIGINT};
  const int signals = os::SignalDescriptor(kSignals);
  const auto part = run_dir::OpenArgument(run_dir);
  if (!part.ok()) return Fail(part.status());
  if (const Status owned = KeeperOwns(*part); !owned.ok()) return Fail(owned);
  if (const Status opened = run_dir::LogTo(*part->dir, run_dir::kServerLog); !opened.ok())
    os::LogWarning(opened.message());
  const Result<run::RunSettings> settings = run::ReadSettings(*part);
  if (!settings.ok()) return Fail(settings.status());
  const std::unique_ptr<batch::Batch> batch = batch::FindBatch({.program = ThisProgram(),
                                                                .nodes = settings->local_nodes,
                                                                .slots = settings->slots,
                                                                .pin = settings->pin},
                                                               Environment());
  batch::SitePolicy site = batch::ReadSitePolicy(batch::ParseEnvironment(Environment()));
  // A run within a task: its cores are those of the task, and accounted for.
  if (getenv("HARROW_TASK_ID") != nullptr) site.local.clear();
  const std::unique_ptr<os::EventLoop> loop = os::MakeEventLoop();
  const std::string job = batch::JobWithRestarts(Environment());
  server::Server server(loop.get(), &os::RealClock(), batch.get(),
                        {.part = *part,
                         .progress_fd = STDOUT_FILENO,
                         .site = site,
                         .job = job,
                         .job_alive = [job](const std::string& other) { return batch::JobRuns(ThisProgram(), other, job); }});
  if (const Status started = server.Start(); !started.ok()) {
    os::LogError(started.message());
    return static_cast<int>(run::ServerEnd::kCannotGoOn);
  }
  loop->WatchFd(signals, [&] {
    while (os::ReadSignal(signals) != 0) server.Interrupt();
  });
  return static_cast<int>(server.Run());
}

const Registered kServer(
    {.name = "server",
     .summary = "The scheduler of one run; started by harrow run",
     .example = "",
     .usage = "",
     .hidden = true,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto run_dir = std::make_shared<std::string>();
       app.add_option("--run-dir", *run_dir, "Run directory")->required()->type_name("D");
       return [run_dir] { return RunServer(*run_dir); };
     }});

}  // namespace
}  // namespace harrow::launcher
