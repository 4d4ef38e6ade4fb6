#include <algorithm>
#include <iostream>
#include <memory>
#include <unistd.h>

#include "base/text.h"
#include "formats/batch_script.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/run_access.h"
#include "os/file_system.h"
#include "report/aggregate.h"
#include "report/tables.h"
#include "wire/figures.h"

namespace harrow::launcher {
namespace {

struct StatusOptions {
  std::string run_dir;
  bool json = false, failed = false, nodes = false, watch = false;
};

/// One look at a run.
struct Look {
  Figures view;
  report::StatusContext context;
  uint32_t asked_part = 0;  // whose server has said the view
};

void AddBest(const pb::Progress& progress, report::StatusContext* context) {
  if (progress.has_best()) context->best = std::min(progress.best(), context->best.value_or(progress.best()));
  if (progress.has_bound()) context->bound = std::min(progress.bound(), context->bound.value_or(progress.bound()));
}

/// The figures of a run that goes on in several allocations: each server knows how far all of it is, and what its own nodes do.
void AddAllocations(const std::vector<RunAccess::OneAllocation>& allocations, const StatusOptions& options, Look* look) {
  Figures& view = look->view;
  for (const RunAccess::OneAllocation& one : allocations) {
    report::AllocationView shown{.part = one.part.number,
                                 .partition = one.partition,
                                 .job = one.job,
                                 .state = one.over                                   ? "over"
                                          : !one.progress                            ? "silent"
                                          : one.progress->allocation().draining() ? "draining"
                                                                                     : "running"};
    if (one.progress) {
      const pb::AllocationStatus& status = one.progress->allocation();
      const Figures figures = wire::FiguresOf(*one.progress);
      const std::vector<report::NodeView> nodes = NodesOf(*one.progress);
      shown.nodes = static_cast<uint32_t>(std::count_if(nodes.begin(), nodes.end(), [](const auto& node) { return node.state == "joined"; }));
      shown.slots = figures.slots;
      shown.running = figures.running;
      shown.ready = status.ready();
      shown.waiting = status.waiting();
      shown.took = status.took();
      shown.gave = status.gave();
      AddBest(*one.progress, &look->context);
      if (shown.part != look->asked_part) {
        view.running += figures.running;
        view.attempts += figures.attempts;
        view.losses += figures.losses;
        view.slots += figures.slots;
        view.core_seconds += figures.core_seconds;
        view.slot_seconds += figures.slot_seconds;
        view.local_bytes += figures.local_bytes;
        view.remote_bytes += figures.remote_bytes;
        view.home_bytes += figures.home_bytes;
        if (options.nodes) look->context.nodes.insert(look->context.nodes.end(), nodes.begin(), nodes.end());
      }
    }
    look->context.allocations.push_back(std::move(shown));
  }
}

Result<Look> TakeLook(RunAccess& run, const StatusOptions& options) {
  Look look;
  look.context.run_dir = options.json ? Absolute(run.dir()) : run.dir();
  look.context.with_nodes = options.nodes;
  look.context.with_failures = options.failed;
  bool from_server = false;
  if (run.server() != nullptr) {
    auto progress = run.server()->Progress(true);
    if (!progress.ok()) {
      run.Reconnect();  // a server that has just been replaced, or whose run has just ended
      if (run.server() != nullptr) progress = run.server()->Progress(true);
    }
    if (progress.ok()) {
      from_server = true;
      look.view = wire::FiguresOf(*progress);
      if (options.nodes) look.context.nodes = NodesOf(*progress);
      look.context.epoch = progress->epoch();
      look.asked_part = progress->allocation().part();
      AddBest(*progress, &look.context);
      AddAllocations(run.Allocations(*progress), options, &look);
    }
  }
  look.context.source = from_server ? "server" : "journal";
  if (from_server && !options.failed && !options.json) {
    look.context.state = run.State(look.view);
    return look;
  }
  auto history = run.ReadHistory();
  const bool nothing_yet = !history.ok() && history.status().code() == Code::kUnavailable;
  if (!history.ok()) {
    if (!nothing_yet && (!from_server || options.failed)) return history.status();
  } else {
    const report::RunView view(*history);
    look.context.run_id = history->run_id;
    if (!from_server) {
      look.view = report::FiguresOf(view);
      look.context.epoch = history->epoch;
      if (options.nodes) look.context.nodes = NodesOf(view);
      look.context.note = run.Note();
    }
    if (options.failed) {
      auto reader = run.OpenOutput();
      look.context.failures =
          report::FirstFailures(*history, options.json && reader.ok() ? reader->get() : nullptr, SIZE_MAX);
      AddCommands(run.part(), &look.context.failures);
    }
  }
  look.context.state = run.State(look.view);
  return look;
}

std::string NodeTable(const std::vector<report::NodeView>& nodes) {
  std::string text;
  report::WriteTable(
      {{"node"}, {"slots", true}, {"running", true}, {"ended", true}, {"state"}}, nodes.size(),
      [&nodes](size_t r, std::vector<std::string>* cells) {
        const report::NodeView& node = nodes[r];
        *cells = {Printable(node.name), StrCat(node.slots), StrCat(node.running), StrCat(node.ended),
                  node.state};
        if (node.incarnations > 1) cells->back() += StrCat(" (agent started ", node.incarnations, " times)");
      },
      [&text](std::string_view piece) {
        text += piece;
        return true;
      });
  return text;
}

std::string AllocationTable(const std::vector<report::AllocationView>& allocations) {
  std::string text;
  report::WriteTable(
      {{"allocation"},
       {"partition", false, 2},
       {"job", false, 1},
       {"state"},
       {"nodes", true},
       {"slots", true},
       {"running", true},
       {"ready", true},
       {"waiting", true, 3},
       {"took", true},
       {"gave", true}},
      allocations.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const report::AllocationView& one = allocations[r];
        *cells = {StrCat(one.part), one.partition.empty() ? "-" : Printable(one.partition),
                  one.job.empty() ? "-" : Printable(one.job), one.state};
        if (one.state != "running" && one.state != "draining") {
          cells->resize(11, "-");
          return;
        }
        for (const uint64_t figure : {uint64_t{one.nodes}, uint64_t{one.slots}, one.running, one.ready, one.waiting, one.took, one.gave})
          cells->push_back(StrCat(figure));
      },
      [&text](std::string_view piece) {
        text += piece;
        return true;
      },
      TableWidth());
  return text;
}

std::string LookText(const Look& look, const StatusOptions& options) {
  const Figures& view = look.view;
  std::string text = StrCat("run ", Printable(look.context.run_dir), ": ", look.context.state);
  if (look.context.state == "stopped") {
    text += StrCat(" with ", view.open(), view.open() == 1 ? " task" : " tasks", " open; harrow run --resume --run-dir ",
                   ShellQuote(look.context.run_dir), " goes on");
  }
  text += "\n";
  if (look.context.state == "running") {
    report::RateMeter meter;
    meter.Add(view);
    text += StrCat(report::ProgressLine(view, meter.rate(), 200), "\n", FormatDuration(view.makespan), " so far");
    if (view.slots > 0) text += StrCat(" on ", view.slots, view.slots == 1 ? " slot" : " slots");
    text += "\n";
  } else {
    text += report::SummaryLine(view) + "\n";
  }
  if (const std::string best = report::BestText(look.context); !best.empty()) text += best + "\n";
  if (!look.context.allocations.empty()) text += "\n" + AllocationTable(look.context.allocations);
  if (options.nodes) text += "\n" + NodeTable(look.context.nodes);
  if (options.failed && !look.context.failures.empty()) {
    text += "\n" + report::FailuresText(look.context.failures, look.context.failures.size(), "");
  }
  return text;
}

/// Until the run is over; the exit status is then the run's.
int Watch(RunAccess& run, const StatusOptions& options) {
  const bool terminal = DrawsOn(STDOUT_FILENO);
  report::RateMeter rate;
  report::PlainProgress plain;
  for (;;) {
    auto look = TakeLook(run, options);
    if (!look.ok()) {
      if (terminal) WriteTo(STDOUT_FILENO, report::EraseLine());
      return Fail(look.status());
    }
    const bool running = look->context.state == "running" || look->context.state == "starting";
    if (options.json) {
      if (!WriteTo(STDOUT_FILENO, report::StatusJson(look->view, look->context))) return OutputDone();
    } else if (running) {
      rate.Add(look->view);
      std::string text;
      if (terminal) {
        text = report::DrawOver(report::ProgressLine(look->view, rate.rate(), TableWidth() - 1));
      } else if (auto line = plain.Next(look->view, rate.rate())) {
        text = *line + "\n";
      }
      if (!WriteTo(STDOUT_FILENO, text)) return OutputDone();
    } else {
      if (terminal) WriteTo(STDOUT_FILENO, report::EraseLine());
      WriteTo(STDOUT_FILENO, LookText(*look, options));
    }
    if (!running) {
      if (look->context.state == "stopped") return kExitStopped;
      if (look->context.state != "ended") return kExitCannotGoOn;
      const auto& view = look->view;
      return view.missed() + view.open() > 0 ? kExitTaskFailed : OutputDone();
    }
    run.Wait(terminal ? std::chrono::milliseconds(250) : std::chrono::milliseconds(1000));
  }
}

int RunStatus(const StatusOptions& options) {
  // Elements in the place of a run: "17_4", "17_[3-9]".
  const std::vector<std::string> elements = formats::ExpandElementNames({options.run_dir});
  const bool of_array = formats::IsElementName(elements.front()) && access(options.run_dir.c_str(), F_OK) != 0;
  auto run = of_array ? RunAccess::Open("", elements) : RunAccess::Open(options.run_dir);
  if (of_array && run.ok()) return ExplainTasks(**run, elements);
  if (!run.ok()) return Fail(run.status());
  if (options.watch) return Watch(**run, options);
  auto look = TakeLook(**run, options);
  if (!look.ok()) return Fail(look.status());
  if (!look->context.note.empty() && !options.json) std::cerr << "harrow: " << look->context.note << "\n";
  WriteTo(STDOUT_FILENO,
          options.json ? report::StatusJson(look->view, look->context) : LookText(*look, options));
  return OutputDone();
}

const Registered kStatus({.name = "status",
                          .summary = "Show how far a run is",
                          .example = "harrow status --failed\n         harrow status --watch && ./next-step",
                          .usage = "[options] [RUN]",
                          .order = 40,
                          .setup = [](CLI::App& app) -> std::function<int()> {
                            auto options = std::make_shared<StatusOptions>();
                            AddRunDir(app, &options->run_dir, true);
                            app.add_flag("--failed", options->failed, "Also the tasks that failed, and how");
                            app.add_flag("--nodes", options->nodes, "Also the nodes");
                            app.add_flag("--watch", options->watch,
                                         "Until the run is over; exits as the run does");
                            app.add_flag("--json", options->json,
                                         "One JSON document (with --watch: a line each second)");
                            return [options] { return RunStatus(*options); };
                          }});

}  // namespace
}  // namespace harrow::launcher
