#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "config/run_options.h"
#include "formats/cluster_model.h"
#include "formats/load.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/costs.h"
#include "launcher/end_output.h"
#include "launcher/inputs.h"
#include "order/policy.h"
#include "os/file_system.h"
#include "sim/bounds.h"
#include "sim/simulation.h"
#include "sim/summary.h"
#include "topology/machine.h"
#include "topology/slots.h"

// `harrow sim`: a flow on a modelled cluster in virtual time.

namespace harrow::launcher {
namespace {

constexpr order::Policy kPolicies[] = {order::Policy::kAuto,    order::Policy::kFifo,
                                       order::Policy::kLifo,    order::Policy::kHrf,
                                       order::Policy::kLifoHrf, order::Policy::kRankHrf, order::Policy::kCost};

struct SimArguments {
  FlowArguments flow;
  std::string cluster, nodes, io, run_time, plot, inputs, local_limit, trigger, amount, alpha, report_period;
  std::vector<std::string> leave_out;
  std::vector<config::Setting> settings;  // as given on the command line
  bool one_core = false, compare = false, json = false, submit_children = false, move_all = false;
};

/// "12x8": 12 nodes of 8 cores.
Status ParseNodes(const std::string& text, uint32_t* nodes, uint32_t* cores) {
  const size_t times = text.find('x');
  const auto whole = [](std::string_view digits, uint32_t most, uint32_t* to) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *to);
    return error == std::errc() && end == digits.data() + digits.size() && *to >= 1 && *to <= most;
  };
  *cores = 0;
  const bool good =
      whole(std::string_view(text).substr(0, times), 1'000'000, nodes) &&
      (times == std::string::npos || whole(std::string_view(text).substr(times + 1), 65536, cores));
  return good ? Status()
              : Bad(StrCat("--nodes cannot be \"", Printable(text, 40),
                           "\"; write NODESxCORES, for example 12x8"));
}

/// This machine as harrow run would use it: pretend nodes, slots.
Status AddThisMachine(const config::RunOptions& run, formats::ClusterModel* cluster) {
  const Result<topology::Machine> machine = topology::ReadMachine();
  if (!machine.ok()) return machine.status();
  const topology::SlotPlan plan =
      topology::PlanSlots(*machine, run.slots, {.index = 0, .of = run.local_nodes});
  cluster->nodes.push_back({.count = run.local_nodes,
                            .capacity = {static_cast<uint32_t>(plan.slots.size()), 0, 0},
                            .page_cache = 0,
                            .speed = 1,
                            .line = 0});
  return Status();
}

/// --cluster, --nodes, or this machine; with both, the cluster's first kind of node, so many of it.
Status ReadCluster(os::FileSystem& fs, const SimArguments& arguments, const config::RunOptions& run,
                   formats::ClusterModel* cluster, std::string* name) {
  if (!arguments.cluster.empty()) {
    const Result<std::string> text = fs.Read(arguments.cluster);
    if (!text)
      return Bad(StrCat(Printable(arguments.cluster), ":1:1: ", text.status().message(),
                        "; --cluster names a readable file"));
    Result<formats::ClusterModel> model =
        formats::ReadClusterModel(Printable(arguments.cluster, 1000), *text);
    if (!model) return model.status();
    *cluster = std::move(*model);
    *name = cluster->name.empty() ? arguments.cluster : cluster->name;
  }
  uint32_t nodes = 1, cores = 0;
  if (arguments.nodes.empty()) {
    if (arguments.cluster.empty()) {
      *name = "this machine";
      return AddThisMachine(run, cluster);
    }
    return Status();
  }
  HARROW_RETURN_IF_ERROR(ParseNodes(arguments.nodes, &nodes, &cores));
  if (!cluster->allocations.empty())
    return Bad("--nodes does not go with [[allocation]] of the cluster file; leave out one of them");
  if (cluster->nodes.empty()) {
    if (cores == 0)
      return Bad(StrCat("--nodes ", arguments.nodes, " does not say how many cores; write ", arguments.nodes,
                        "x8, or give --cluster"));
    *name = arguments.nodes;
    cluster->nodes.emplace_back();
  } else {
    cluster->nodes.resize(1);
    for (const formats::ClusterModel::Failure& failure : cluster->failures) {
      if (failure.node >= nodes)
        return Bad(StrCat("--nodes ", arguments.nodes, " leaves out node ", failure.node,
                          ", of which the cluster file says when it fails"));
    }
  }
  cluster->nodes[0].count = nodes;
  if (cores > 0) cluster->nodes[0].capacity.slots = cores;
  return Status();
}

/// The recorded times, else those of models; --run-time where there is none.
Status FindWork(const SimArguments& arguments, const graph::Graph& graph, std::vector<sim::Work>* work) {
  std::optional<double> missing;
  if (!arguments.run_time.empty()) {
    const Result<Duration> time = ParseDuration(arguments.run_time);
    if (!time) return Bad(StrCat("--run-time: ", time.status().message()));
    missing = Seconds(*time);
  }
  std::vector<bool> out(graph.kind_count(), false);
  for (const std::string& name : arguments.leave_out) {
    bool known = false;
    std::vector<std::string_view> names;
    for (uint32_t k = 0; k < graph.kind_count(); ++k) {
      names.push_back(graph.kind_name(KindId(k)));
      if (names.back() == name) out[k] = known = true;
    }
    const auto near = Suggest(name, names);
    if (!known)
      return Bad(StrCat("--leave-out: no task is of kind \"", Printable(name, 60), "\"",
                        near ? StrCat("; did you mean ", *near, "?") : "; harrow check lists the kinds"));
  }
  const Result<ModelTimes> models = FindModelTimes(graph);
  if (!models.ok()) return models.status();
  work->resize(graph.task_count());
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    const TaskId id(n);
    const std::optional<Duration> recorded = graph.recorded_run_time(id);
    const bool modelled = models->seconds[n] >= 0;
    if (!recorded && !modelled && !missing) return UnknownRunTime(graph, id);
    const KindId kind = graph.kind(id);
    (*work)[n] = {.seconds = recorded ? Seconds(*recorded) : modelled ? models->seconds[n] : *missing,
                  .left_out = kind && out[kind.value],
                  .stream_bytes = std::max(0.0, models->stream_bytes[n])};
  }
  return Status();
}

/// Where the flow's own inputs lie at the start, of --files local.
Status ReadInputs(const std::string& text, bool local_files, formats::ClusterModel::Inputs* place) {
  using Inputs = formats::ClusterModel::Inputs;
  if (text.empty()) return Status();
  if (!local_files)
    return Bad(
        "--inputs is of files on the nodes' own disks; give --files local as well, or see inputs in "
        "harrow-cluster(5)");
  for (const auto& [name, value] :
       {std::pair{"submit", Inputs::kOutside}, std::pair{"round-robin", Inputs::kRoundRobin},
        std::pair{"spread", Inputs::kSpread}, std::pair{"random", Inputs::kRandom}}) {
    if (text != name) continue;
    *place = value;
    return Status();
  }
  return Bad(
      StrCat("--inputs cannot be \"", Printable(text, 40), "\"; write submit, round-robin, spread or random"));
}

/// What a node may hold of --files local.
Status ReadLocalLimit(const std::string& text, bool local_files, uint64_t* limit) {
  if (text.empty()) return Status();
  if (!local_files)
    return Bad("--local-limit is of files on the nodes' own disks; give --files local as well");
  const Result<uint64_t> bytes = ParseBytes(text);
  if (!bytes) return Bad(StrCat("--local-limit: ", bytes.status().message()));
  if (*bytes == 0) return Bad("--local-limit cannot be 0; leave it out where nodes may hold all");
  *limit = *bytes;
  return Status();
}

/// How tasks move between allocations.
Status ReadMoves(const SimArguments& arguments, sim::Options* options) {
  const bool several = !options->cluster.allocations.empty();
  for (const auto& [option, given] :
       {std::pair{"--trigger", !arguments.trigger.empty()}, std::pair{"--amount", !arguments.amount.empty()},
        std::pair{"--alpha", !arguments.alpha.empty()},
        std::pair{"--report-period", !arguments.report_period.empty()},
        std::pair{"--submit-children", arguments.submit_children},
        std::pair{"--move-all", arguments.move_all}}) {
    if (given && !several)
      return Bad(StrCat(
          option, " is of several allocations; give --cluster with [[allocation]] (harrow-cluster(5))"));
  }
  if (!arguments.trigger.empty()) {
    const auto trigger = supervisor::TriggerOf(arguments.trigger);
    if (!trigger)
      return Bad(StrCat("--trigger cannot be \"", Printable(arguments.trigger, 40),
                        "\"; write empty, low or always"));
    options->moves.trigger = *trigger;
  }
  if (!arguments.amount.empty()) {
    const auto amount = supervisor::AmountOf(arguments.amount);
    if (!amount)
      return Bad(
          StrCat("--amount cannot be \"", Printable(arguments.amount, 40), "\"; write capacity or workers"));
    options->moves.amount = *amount;
  }
  if (!arguments.alpha.empty()) {
    double alpha = 0;
    const char* last = arguments.alpha.data() + arguments.alpha.size();
    const auto [end, error] = std::from_chars(arguments.alpha.data(), last, alpha);
    if (error != std::errc() || end != last || !(alpha > 0 && alpha < 1))
      return Bad(StrCat("--alpha cannot be \"", Printable(arguments.alpha, 40),
                        "\"; write a number between 0 and 1, as 0.5"));
    options->moves.alpha = alpha;
  }
  if (!arguments.report_period.empty()) {
    const Result<Duration> period = ParseDuration(arguments.report_period);
    if (!period) return Bad(StrCat("--report-period: ", period.status().message()));
    if (*period < std::chrono::milliseconds(1)) return Bad("--report-period is at least 1ms; write 100ms");
    options->report_period = Seconds(*period);
    options->moves.SetPeriod(*period);
  }
  options->moves.worth_only = !arguments.move_all;
  options->submit_children = arguments.submit_children;
  return Status();
}

/// "2 cores, 4.0 GiB of memory".
std::string AsksText(const Shape& shape) {
  std::string asks = StrCat(std::max(1u, shape.cores), shape.cores > 1 ? " cores" : " core");
  if (shape.devices > 0) asks += StrCat(", ", shape.devices, " gpus");
  if (shape.memory > 0) asks += StrCat(", ", FormatBytes(shape.memory), " of memory");
  if (shape.nodes > 1) asks += StrCat(" on each of ", shape.nodes, " nodes");
  return asks;
}

/// Of one node.
bool FitsNode(const Shape& shape, const NodeCapacity& has) {
  return shape.cores <= has.slots && shape.devices <= has.devices &&
         (shape.memory == 0 || has.memory == 0 || shape.memory <= has.memory);
}

/// What several allocations do not do yet.
Status CheckAllocations(const SimArguments& arguments, const graph::Graph& graph,
                        const sim::Options& options) {
  if (options.cluster.allocations.empty()) return Status();
  if (options.core.local_files)
    return Bad("tasks with --files local do not move between allocations; leave it out, or [[allocation]]");
  const auto ends = [](const auto& allocation) { return allocation.end > 0; };
  if (!graph.streams().empty() && std::any_of(options.cluster.allocations.begin(), options.cluster.allocations.end(), ends))
    return Bad("tasks that streams join do not leave an allocation that ends; leave out its end");
  if (arguments.io == "model")
    return Bad("files are not modelled between allocations; leave out --io model, or [[allocation]]");
  const auto fits = [&](const Shape& shape) {
    return std::any_of(options.cluster.nodes.begin(), options.cluster.nodes.end(),
                       [&](const auto& group) { return FitsNode(shape, group.capacity); });
  };
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    const TaskId id(n);
    const graph::Profile& profile = graph.profile(id);
    const auto name = [&] { return Printable(graph.TaskName(id), 60); };
    if (profile.shape.nodes > 1 || profile.ranks > 1)
      return Bad(StrCat("task ", name(),
                        " is of several nodes or ranks, and such tasks do not move between allocations; "
                        "leave out [[allocation]]"));
    if (!fits(profile.shape))
      return Bad(StrCat("task ", name(), " asks for more than any node of any allocation has (",
                        AsksText(profile.shape), "); larger nodes run it, and so does --one-core where only "
                        "cores are short"));
    if (options.submit_children && graph.predecessors(id).size() > 1)
      return Bad(StrCat("task ", name(), " waits for ", graph.predecessors(id).size(),
                        " tasks, and only one can have submitted it; leave out --submit-children"));
  }
  return Status();
}

/// Tasks that ask for more than any node has fail at once: says so, as their number alone would not tell.
void NoteUnfitting(const graph::Graph& graph, const formats::ClusterModel& cluster) {
  const auto fit = [&](const Shape& shape) {
    uint64_t enough = 0;
    for (const formats::ClusterModel::Nodes& group : cluster.nodes) {
      if (FitsNode(shape, group.capacity)) enough += group.count;
    }
    return enough;
  };
  const auto fits = [&](const graph::Profile& profile) {
    const uint32_t named = std::max(1u, profile.shape.nodes);
    if (fit(profile.shape) >= named) return true;
    if (named > 1) return false;
    const uint64_t all = fit(Shape());
    for (uint32_t nodes = 2; nodes <= profile.ranks && nodes <= all; ++nodes) {  // its ranks may be spread
      if (fit(profile.Part(nodes, 0)) >= nodes) return true;
    }
    return false;
  };
  std::vector<bool> unfit(graph.profile_count());
  for (uint32_t n = 0; n < unfit.size(); ++n) unfit[n] = !fits(graph.profile(ProfileId(n)));
  uint64_t count = 0;
  TaskId first;
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    if (!unfit[graph.profile_id(TaskId(n)).value]) continue;
    if (count++ == 0) first = TaskId(n);
  }
  if (count == 0) return;
  std::cerr << "harrow sim: " << count << (count == 1 ? " task asks" : " tasks ask")
            << " for more than the cluster has, first " << Printable(graph.TaskName(first), 60) << " ("
            << AsksText(graph.profile(first).shape) << "); larger nodes run " << (count == 1 ? "it" : "them")
            << ", and so does --one-core where only cores are short\n";
}

int Simulate(const SimArguments& arguments) {
  os::FileSystem& fs = os::RealFileSystem();
  if (arguments.flow.Inputs().empty())
    return Fail(Bad("no FILE is named; try: harrow sim --nodes 4x8 flow.json"));
  sim::Options options;
  sim::Title title;
  formats::LoadOptions load;
  load.one_core = arguments.one_core;
  graph::Graph graph;
  formats::Flow flow;
  config::RunOptions run;
  if (const Status loaded = LoadFlow(fs, arguments.flow, arguments.settings, load, &graph, &flow, &run);
      !loaded.ok())
    return FailInput(loaded);
  if (const Status read = ReadCluster(fs, arguments, run, &options.cluster, &title.cluster); !read.ok())
    return FailInput(read);
  for (const std::string& notice : flow.notices) std::cerr << notice << "\n";
  title.flow = run.name.empty() ? flow.name : run.name;
  std::vector<sim::Work> work;
  if (const Status found = FindWork(arguments, graph, &work); !found.ok()) return FailInput(found);
  if (!arguments.io.empty() && arguments.io != "none" && arguments.io != "model") {
    return Fail(Bad(StrCat("--io cannot be \"", Printable(arguments.io, 40), "\"; write none or model")));
  }
  if (arguments.io == "model" && arguments.cluster.empty()) {
    return Fail(
        Bad("--io model needs the rates of a cluster; give --cluster FILE.toml (see harrow-cluster(5))"));
  }
  options.io = arguments.io == "model" ||
               (arguments.io.empty() && !arguments.cluster.empty() && options.cluster.allocations.empty());
  options.seed = run.seed;
  options.core.policy = run.order;
  options.core.locality = run.locality;
  options.core.steal = run.steal;
  options.core.costs = run.placer();
  if (options.cluster.nic > 0) options.core.costs.link = options.cluster.nic;
  options.core.seed = run.seed;
  options.core.retry_delay = run.retry_delay;
  options.core.max_losses = run.max_losses;
  options.core.local_files = run.files == config::Files::kLocal;
  if (const Status placed = ReadInputs(arguments.inputs, options.core.local_files, &options.place);
      !placed.ok())
    return Fail(placed);
  if (const Status limited =
          ReadLocalLimit(arguments.local_limit, options.core.local_files, &options.local_limit);
      !limited.ok())
    return Fail(limited);
  if (const Status fits = CheckLocalFiles(graph, run); !fits.ok()) return FailInput(fits);
  if (const Status moves = ReadMoves(arguments, &options); !moves.ok()) return Fail(moves);
  if (const Status several = CheckAllocations(arguments, graph, options); !several.ok())
    return FailInput(several);
  const sim::Bounds bounds = sim::FindBounds(graph, work, options.cluster);
  NoteUnfitting(graph, options.cluster);
  std::vector<sim::Compared> rows;
  if (arguments.compare) {
    for (const order::Policy policy : kPolicies) {
      options.core.policy = policy;
      rows.push_back({options, sim::Simulate(graph, work, options)});
      if (policy != run.order) rows.back().outcome.attempts.clear();
    }
    std::cout << (arguments.json ? sim::CompareJson(title, graph, rows, bounds)
                                 : sim::CompareText(title, rows, bounds));
    options.core.policy = run.order;
  }
  if (arguments.compare && arguments.plot.empty()) {
    const bool all_done = std::all_of(rows.begin(), rows.end(),
                                      [](const sim::Compared& row) { return row.outcome.all_done(); });
    return all_done ? kExitDone : kExitTaskFailed;
  }
  const sim::Outcome outcome = sim::Simulate(graph, work, options);
  if (!arguments.compare) {
    std::cout << (arguments.json ? sim::Json(title, graph, options, outcome, bounds)
                                 : sim::Text(title, graph, options, outcome, bounds));
  }
  if (!arguments.plot.empty()) {
    const Status drawn = fs.WriteWhole(arguments.plot, sim::PlotSvg(title, graph, options, outcome));
    if (!drawn.ok()) return Fail(drawn);
  }
  if (!options.cluster.allocations.empty() && !outcome.complete) {
    const core::Counts& counts = outcome.counts;
    const uint64_t left = counts.total - counts.settled();
    std::cerr << "harrow sim: " << left << (left == 1 ? " task was" : " tasks were")
              << " left when no allocation that is large enough was to come or to go on\n";
  }
  const int code = EndOutput(outcome.all_done() ? kExitDone : kExitTaskFailed);
  std::cerr << std::flush;
  // A simulation of a million tasks need not be taken apart piece by piece.
  _Exit(code);
}

const Registered kSim(
    {.name = "sim",
     .summary = "Simulate a flow of known run times on a modelled cluster",
     .example = "harrow sim --nodes 12x8 --compare montage.json",
     .usage = "[options] FILE...",
     .order = 21,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto a = std::make_shared<SimArguments>();
       AddFlowArguments(app, &a->flow, true);
       app.add_option("--cluster", a->cluster, "The cluster's model (harrow-cluster(5))")
           ->type_name("FILE.toml");
       app.add_option("--nodes", a->nodes, "Nodes and cores of each, as 12x8")->type_name("NxC");
       const auto setting = [&](const char* key, const char* type, const char* help) {
         app.add_option_function<std::string>(
                StrCat("--", key),
                [a, key](const std::string& value) {
                  a->settings.push_back({SettingKey(key), value, StrCat("--", key)});
                },
                help)
             ->type_name(type);
       };
       const auto no = [&](const char* key, const char* help) {
         app.add_flag_callback(
             StrCat("--no-", key),
             [a, key] {
               a->settings.push_back({key, "false", StrCat("--no-", key)});
             },
             help);
       };
       setting("order", "P", "auto, fifo, lifo, hrf, lifo+hrf, rank+hrf, cost");
       no("locality", "Do not place tasks where their files are");
       no("steal", "Idle slots take nothing from other nodes' queues");
       setting("place", "HOW", "");
       setting("tg-max", "N", "");
       setting("ct-max", "N", "");
       setting("costs-from", "RUN", "files, cost-paper, cost");
       setting("files", "MODE", "shared (default), or local: on the nodes' own disks");
       app.add_option("--inputs", a->inputs, "submit (default), round-robin, spread, random")
           ->type_name("WHERE");
       app.add_option("--local-limit", a->local_limit, "Most that a node may hold of them (no limit)")
           ->type_name("SIZE");
       app.add_option("--io", a->io, "none, or model (default with --cluster)")->type_name("MODE");
       app.add_option("--run-time", a->run_time, "Of tasks whose run time is not known")->type_name("TIME");
       app.add_option("--leave-out", a->leave_out, "")
           ->type_name("KIND")
           ->allow_extra_args(false);
       app.add_flag("--one-core", a->one_core, "Tasks of it take no time; recorded: one core");
       app.add_option("--trigger", a->trigger, "")->type_name("WHEN");
       app.add_option("--amount", a->amount, "")->type_name("HOW");
       app.add_option("--alpha", a->alpha, "Moves between allocations (manual)")->type_name("A");
       app.add_option("--report-period", a->report_period, "")->type_name("TIME");
       app.add_flag("--move-all", a->move_all, "Reports for them; not only what pays");
       app.add_flag("--submit-children", a->submit_children, "Tasks are submitted where what they need ran");
       setting("seed", "S", "Of what is drawn (default 1)");
       app.add_flag("--compare", a->compare, "All orders side by side");
       app.add_option("--plot", a->plot, "Draw cores in use over time, by kind")->type_name("FILE.svg");
       app.add_flag("--json", a->json, "Print one JSON document");
       return [a] { return Simulate(*a); };
     }});

}  // namespace
}  // namespace harrow::launcher
