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
#include "server/flow_store.h"

namespace harrow::launcher {
namespace {

/// Started by the keeper, with a pipe for progress as standard output.
int RunServer(const std::string& run_dir) {
  os::TakeSignals();
  constexpr std::array kSignals = {SIGTERM, SIGINT};
  const int signals = os::SignalDescriptor(kSignals);
  os::FileSystem& fs = os::RealFileSystem();
  (void)fs.MakeDirectories(run_dir + "/log");
  if (const Status opened = os::OpenLog(run_dir + "/log/server.log"); !opened.ok())
    os::LogWarning(opened.message());
  const Result<server::RunSettings> settings = server::ReadSettings(fs, run_dir);
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
  server::Server server(loop.get(), &fs, &os::RealClock(), batch.get(),
                        {.run_dir = run_dir, .progress_fd = STDOUT_FILENO, .site = site});
  if (const Status started = server.Start(); !started.ok()) {
    os::LogError(started.message());
    return static_cast<int>(server::ServerEnd::kCannotGoOn);
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
