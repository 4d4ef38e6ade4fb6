#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "config/run_options.h"
#include "formats/load.h"
#include "launcher/command.h"
#include "launcher/costs.h"
#include "launcher/end_output.h"
#include "launcher/flow_plan.h"
#include "launcher/inputs.h"
#include "os/file_system.h"
#include "report/json.h"
#include "report/plot.h"

// `harrow plan`: a flow on so many nodes and on so many, by the simulator, and which count is worth having.

namespace harrow::launcher {
namespace {

struct PlanArguments {
  FlowArguments flow;
  std::string nodes, partition, times, task_time, plot;
  uint32_t max_nodes = 0;
  std::vector<config::Setting> settings;  // as given on the command line
  bool one_core = false, json = false;
};

/// "12x8": at most 12 nodes of 8 cores; "x8": of 8 cores.
Status ParseNodes(const std::string& text, NodeShape* shape) {
  const size_t times = std::min(text.find('x'), text.size());
  const std::string_view count = std::string_view(text).substr(0, times);
  const std::string_view cores = times < text.size() ? std::string_view(text).substr(times + 1) : "";
  const auto whole = [](std::string_view digits, uint32_t most, uint32_t* to) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *to);
    return error == std::errc() && end == digits.data() + digits.size() && *to >= 1 && *to <= most;
  };
  if ((count.empty() || whole(count, 1'000'000, &shape->most)) &&
      whole(cores, 65536, &shape->capacity.slots)) {
    shape->name = StrCat(shape->capacity.slots, shape->capacity.slots == 1 ? " core" : " cores");
    return Status();
  }
  return Bad(StrCat("--nodes cannot be \"", Printable(text, 40),
                    "\"; write x8 for nodes of 8 cores, or 12x8 for at most 12 of them"));
}

/// --nodes, the partition, or this machine.
Result<NodeShape> FindShape(const PlanArguments& arguments) {
  NodeShape shape;
  if (!arguments.nodes.empty()) {
    if (!arguments.partition.empty())
      return Bad("--nodes says what nodes are like, and so does --partition; leave one out");
    HARROW_RETURN_IF_ERROR(ParseNodes(arguments.nodes, &shape));
  } else {
    Result<NodeShape> partition = ShapeOfPartition(arguments.partition);
    if (partition.ok()) {
      shape = std::move(*partition);
    } else if (!arguments.partition.empty()) {
      return partition.status();
    } else {
      shape.capacity.slots = std::max(1u, std::thread::hardware_concurrency());
      shape.name =
          StrCat(shape.capacity.slots, shape.capacity.slots == 1 ? " core" : " cores", ", as this machine");
    }
  }
  if (arguments.max_nodes > 0) shape.most = arguments.max_nodes;
  return shape;
}

std::string Name(const PlanArguments& arguments, const formats::Flow& flow, const config::RunOptions& run) {
  return run.name.empty() ? flow.name.empty() ? arguments.flow.Inputs().front().path : flow.name : run.name;
}

/// Doublings, what was proposed, and its neighbours; all that was simulated is in the JSON document.
std::string Table(const sim::NodeCounts& counts, uint32_t cores) {
  char row[160];
  std::snprintf(row, sizeof row, "%7s %8s %14s %12s %7s\n", "nodes", "cores", "time", "core-hours", "busy");
  std::string out = row;
  for (size_t i = 0; i < counts.tried.size(); ++i) {
    const sim::NodeCount& count = counts.tried[i];
    const bool near = i + 1 >= counts.best && i <= counts.best + 1;
    if (!near && !std::has_single_bit(count.nodes) && i + 1 < counts.tried.size()) continue;
    if (!std::isfinite(count.makespan)) {
      std::snprintf(row, sizeof row, "%7u %8llu %14s", count.nodes, 1ull * count.nodes * cores, "not enough");
    } else {
      std::snprintf(row, sizeof row, "%7u %8llu %14s %12.4g %5.1f %%", count.nodes,
                    1ull * count.nodes * cores, FormatDuration(FromSeconds(count.makespan)).c_str(),
                    count.core_hours, 100 * count.busy);
    }
    out += StrCat(row, i == counts.best ? "  <- proposed\n" : "\n");
  }
  return out;
}

std::string Json(const std::string& name, const NodeShape& shape, const FlowTimes& times,
                 const sim::NodeCounts& counts) {
  std::string out;
  report::JsonWriter json(&out);
  const sim::NodeCount& best = counts.tried[counts.best];
  json.BeginObject().MemberUint("version", 1).Member("name", name).MemberUint("cores", shape.capacity.slots);
  json.Member("node", shape.name)
      .Member("times", times.said_by)
      .MemberUint("proposed_nodes", best.nodes)
      .Key("counts")
      .BeginArray();
  for (const sim::NodeCount& count : counts.tried) {
    json.BeginObject().MemberUint("nodes", count.nodes).MemberFixed("makespan_s", count.makespan, 6);
    json.MemberFixed("core_hours", count.core_hours, 6)
        .MemberFixed("core_utilisation", count.busy, 6)
        .EndObject();
  }
  json.EndArray().EndObject();
  return out + "\n";
}

int PlanNodes(const PlanArguments& arguments) {
  os::FileSystem& fs = os::RealFileSystem();
  if (arguments.flow.Inputs().empty()) return Fail(Bad("no FILE is named; try: harrow plan flow.toml"));
  formats::LoadOptions load;
  load.one_core = arguments.one_core;
  graph::Graph graph;
  formats::Flow flow;
  config::RunOptions run;
  if (const Status loaded = LoadFlow(fs, arguments.flow, arguments.settings, load, &graph, &flow, &run); !loaded.ok())
    return FailInput(loaded);
  for (const std::string& notice : flow.notices) std::cerr << notice << "\n";
  Result<NodeShape> shape = FindShape(arguments);
  if (!shape.ok()) return Fail(shape.status());
  if (run.slots > 0) shape->capacity.slots = run.slots;
  const Result<FlowTimes> times = FindFlowTimes(graph, arguments.times, arguments.task_time);
  if (!times.ok()) return FailInput(times.status());
  const std::string name = Name(arguments, flow, run);
  const sim::NodeCounts counts = ProposeNodes(graph, times->work, *shape, run);
  const sim::NodeCount& best = counts.tried[counts.best];
  if (!std::isfinite(best.makespan)) {
    return Fail(Bad(StrCat(
        "some tasks ask for more than ", counts.tried.back().nodes, " nodes of ", shape->capacity.slots,
        " cores have; harrow check shows what tasks ask for, --nodes 12x64 plans with larger nodes")));
  }
  if (!arguments.plot.empty()) {
    std::vector<report::PlotCount> drawn;
    for (const sim::NodeCount& count : counts.tried) {
      if (std::isfinite(count.makespan)) drawn.push_back({count.nodes, count.makespan, count.core_hours});
    }
    const std::string title = StrCat(name, " on nodes of ", shape->capacity.slots, " cores");
    const Status written = fs.WriteWhole(arguments.plot, report::PlotCounts(title, drawn, best.nodes));
    if (!written.ok()) return Fail(written);
  }
  if (arguments.json) {
    std::cout << Json(name, *shape, *times, counts);
  } else {
    std::cout << Printable(name) << ": " << graph.task_count()
              << (graph.task_count() == 1 ? " task" : " tasks") << ", run times " << times->said_by
              << "; nodes of " << shape->name << "\n"
              << Table(counts, shape->capacity.slots)
              << "proposed, as the least time x core-hours: " << best.nodes
              << (best.nodes == 1 ? " node\n" : " nodes\n");
  }
  const int code = EndOutput(kExitDone);
  std::cerr << std::flush;
  // A graph of a million tasks need not be taken apart piece by piece.
  _Exit(code);
}

const Registered kPlan(
    {.name = "plan",
     .summary = "How many nodes is a flow worth? Time and core-hours over counts",
     .example = "harrow plan --partition short flow.toml",
     .usage = "[options] FILE...",
     .order = 22,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto a = std::make_shared<PlanArguments>();
       AddFlowArguments(app, &a->flow, true);
       app.add_option("--nodes", a->nodes, "Nodes' cores and most nodes, as x8 or 12x8")->type_name("NxC");
       app.add_option("--partition", a->partition, "Nodes of this partition (default: Slurm's)")
           ->type_name("P");
       app.add_option("--max-nodes", a->max_nodes, "Look at no more nodes")
           ->check(CLI::Range(1, 1'000'000).description(""))
           ->type_name("N");
       app.add_option("--times", a->times, "Run times of this earlier run")->type_name("RUN");
       app.add_option("--task-time", a->task_time, "Of tasks whose run time is not known")->type_name("TIME");
       const auto setting = [&](const char* key, const char* option, const char* type, const char* help) {
         app.add_option_function<std::string>(
                option,
                [a, key, option](const std::string& value) { a->settings.push_back({key, value, option}); },
                help)
             ->type_name(type);
       };
       setting("place", "--place", "HOW", "");
       setting("tg_max", "--tg-max", "N", "");
       setting("ct_max", "--ct-max", "N", "By files (default), cost-paper, cost");
       app.add_flag("--one-core", a->one_core, "Recorded tasks take one core each");
       app.add_option("--plot", a->plot, "Draw time and core-hours over counts")->type_name("FILE.svg");
       app.add_flag("--json", a->json, "Print one JSON document");
       return [a] { return PlanNodes(*a); };
     }});

}  // namespace
}  // namespace harrow::launcher
