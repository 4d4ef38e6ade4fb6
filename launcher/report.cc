#include <iostream>
#include <memory>
#include <unistd.h>

#include "base/text.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/run_access.h"
#include "os/file_system.h"
#include "report/allocations.h"
#include "report/continued.h"
#include "report/movement.h"
#include "report/plot.h"
#include "report/tables.h"
#include "run_dir/names.h"

namespace harrow::launcher {
namespace {

struct ReportOptions {
  std::string run_dir;
  report::Filter filter;
  bool csv = false, json = false, attempts = false, tasks = false, files = false, wide = false, moves = false;
  size_t slowest = 10;
  std::string plot;
};

int RunReport(const ReportOptions& options) {
  if (options.csv && options.json) return Fail(Status(Code::kInvalid, "--csv and --json exclude each other"));
  if (options.attempts && !options.csv) {
    return Fail(Status(Code::kInvalid, "--attempts goes with --csv (--json always has every attempt)"));
  }
  auto run = RunAccess::Open(options.run_dir);
  if (!run.ok()) return Fail(run.status());
  auto history = (*run)->ReadHistory();
  if (!history.ok()) return Fail(history.status());
  const report::RunView view(*history);
  const std::string state = (*run)->State(report::FiguresOf(view));
  auto tasks = report::Select(view, options.filter);
  if (!tasks.ok()) return Fail(tasks.status());
  const size_t width = options.wide ? report::kAnyWidth : TableWidth();
  const report::Sink sink = [](std::string_view text) { return WriteTo(STDOUT_FILENO, text); };

  if (!options.plot.empty()) {
    const std::string title = StrCat(view.Fact("name").value_or((*run)->dir()), ": ", tasks->size(),
                                     " tasks, ", FormatDuration(view.makespan()));
    const Status written =
        os::RealFileSystem().WriteWhole(options.plot, report::PlotSvg(view, *tasks, title));
    if (!written.ok()) return Fail(written);
    std::cerr << "harrow: drew " << options.plot << "\n";
    if (!options.csv && !options.json) return kExitDone;
  }
  if (state != "ended") std::cerr << "harrow: the run is " << state << ": what is recorded so far\n";
  if (options.csv) {
    report::WriteCsv(view, *tasks, options.attempts, sink);
  } else if (options.json) {
    report::StatusContext context;
    context.run_dir = Absolute((*run)->dir());
    context.run_id = history->run_id;
    context.state = state;
    context.source = "journal";
    context.epoch = history->epoch;
    report::WriteJson(view, *tasks, context, sink);
  } else if (options.moves) {
    report::WriteMoves(view, width, sink);
    report::WriteContinued(view, width, sink);
  } else if (options.files) {
    report::WriteFiles(view, *tasks, options.slowest, width, sink);
  } else if (options.tasks || options.filter.failed) {
    report::WriteTaskTable(view, *tasks, width, sink);
  } else {
    report::WriteOverview(view, *tasks, options.slowest, width, sink);
    sink(StrCat("\njournal: ", Printable(run_dir::JournalPath((*run)->part().dir->path())), "\n"));
  }
  return OutputDone();
}

const Registered kReport(
    {.name = "report",
     .summary = "Tables of a run: per task, kind and node",
     .example = "harrow report --csv --kind mProject > projects.csv\n         harrow report --plot run.svg",
     .usage = "[options] [RUN]",
     .order = 44,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<ReportOptions>();
       AddRunDir(app, &options->run_dir, true);
       app.add_flag("--csv", options->csv, "A row a task: node, times, exit, memory, bytes, ...");
       app.add_flag("--attempts", options->attempts, "With --csv: a row an attempt");
       app.add_flag("--json", options->json, "One JSON document with all of it");
       app.add_flag("--tasks", options->tasks, "A table of the tasks instead of the overview");
       app.add_flag("--files", options->files, "Bytes by kind, and the files that were copied most");
       app.add_flag("--moves", options->moves, "What went between allocations, or on from a checkpoint");
       app.add_flag("--failed", options->filter.failed, "Only failed tasks, as a table");
       app.add_option("--kind", options->filter.kinds, "Only tasks of these kinds")
           ->type_name("K")
           ->allow_extra_args(false);
       app.add_option("--node", options->filter.nodes, "Only tasks last tried on these nodes")
           ->type_name("N")
           ->allow_extra_args(false);
       app.add_flag("--wide", options->wide, "All columns, also where the terminal has fewer");
       app.add_option("--slowest", options->slowest, "How many tasks or files are shown (10)")
           ->type_name("N");
       app.add_option("--plot", options->plot, "Draw cores in use over time, by kind")->type_name("FILE.svg");
       return [options] { return RunReport(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
