#include "sim/summary.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/text.h"
#include "order/policy.h"
#include "report/json.h"
#include "report/plot.h"

namespace harrow::sim {
namespace {

std::string Fixed(double value, int decimals) {
  std::string text;
  report::AppendFixed(&text, value, decimals);
  return text;
}

std::string Percent(double share) { return StrCat(Fixed(share * 100, 1), " %"); }

std::string Manner(const core::Options& options) {
  return StrCat(order::PolicyName(options.policy), options.locality ? "" : ", no locality", options.steal ? "" : ", no steal");
}

std::string_view PlaceName(formats::ClusterModel::Inputs place) {
  using Inputs = formats::ClusterModel::Inputs;
  return place == Inputs::kSpread ? "spread" : place == Inputs::kRandom ? "random" : place == Inputs::kRoundRobin ? "round-robin" : "submit";
}

double MessagesPerSecond(const AllocationOutcome& each) {
  return each.end > each.begin ? static_cast<double>(each.messages) / (each.end - each.begin) : 0;
}

void WriteKinds(const graph::Graph& graph, const Outcome& outcome, bool local_files, report::JsonWriter* json) {
  json->Key("kinds").BeginArray();
  for (uint32_t k = 0; k < outcome.kinds.size() && k < graph.kind_count(); ++k) {
    const KindTotals& kind = outcome.kinds[k];
    if (kind.tasks == 0) continue;
    json->BeginObject().Member("kind", graph.kind_name(KindId(k))).MemberUint("tasks", kind.tasks);
    json->MemberFixed("task_s", kind.task_seconds, 6);
    json->Key("input_bytes").BeginObject().MemberUint("local", kind.local_bytes).MemberUint("remote", kind.remote_bytes);
    if (local_files) json->MemberUint("home", kind.home_bytes);
    json->EndObject();
    json->EndObject();
  }
  json->EndArray();
}

void WriteAllocations(const Options& options, const Outcome& outcome, report::JsonWriter* json) {
  json->Member("trigger", supervisor::NameOf(options.moves.trigger)).Member("amount", supervisor::NameOf(options.moves.amount));
  json->MemberUint("moves", outcome.moves).MemberUint("moved_tasks", outcome.moved_tasks).MemberUint("messages", outcome.messages);
  json->Key("allocations").BeginArray();
  for (const AllocationOutcome& each : outcome.allocations) {
    json->BeginObject().Member("name", each.name).MemberUint("nodes", each.nodes).MemberUint("slots", each.slots);
    json->Key("began").Bool(each.began).MemberFixed("begin_s", each.begin, 9).MemberFixed("end_s", each.end, 9).MemberUint("done", each.done);
    json->MemberUint("moved_in", each.moved_in).MemberUint("moved_out", each.moved_out);
    json->MemberFixed("idle_s", each.idle_seconds(), 6).MemberFixed("slot_s", each.slot_seconds(), 6);
    json->MemberFixed("messages_per_s", MessagesPerSecond(each), 6).EndObject();
  }
  json->EndArray();
}

void WriteOutcome(const graph::Graph& graph, const Options& options, const Outcome& outcome, report::JsonWriter* json) {
  const core::Counts& counts = outcome.counts;
  const Figures figures = FiguresOf(outcome, options.cluster);
  const bool local_files = options.core.local_files;
  json->Member("order", order::PolicyName(options.core.policy)).Key("locality").Bool(options.core.locality);
  json->Key("steal").Bool(options.core.steal).MemberUint("seed", options.seed);
  json->Member("io", options.io ? "model" : "none");
  if (local_files) json->Member("files", "local").Member("place", PlaceName(options.place));
  if (options.local_limit > 0) json->MemberUint("local_limit", options.local_limit).MemberUint("no_room", outcome.no_room);
  json->Key("tasks").BeginObject().MemberUint("total", counts.total).MemberUint("done", counts.done);
  json->MemberUint("failed", counts.failed).MemberUint("skipped", counts.skipped + counts.cancelled).MemberUint("pruned", counts.pruned);
  json->MemberUint("running", counts.total - counts.settled()).EndObject();
  json->MemberFixed("makespan_s", outcome.makespan, 9).MemberFixed("core_utilisation", figures.CoreUtilisation(), 6);
  json->MemberUint("attempts", counts.attempts).MemberUint("losses", counts.losses).MemberUint("stolen", counts.stolen);
  json->MemberUint("node_losses", outcome.node_losses);
  json->Key("input_bytes").BeginObject().MemberUint("local", counts.local_bytes).MemberUint("remote", counts.remote_bytes);
  if (local_files) json->MemberUint("home", counts.home_bytes);
  json->EndObject();
  if (local_files) {
    json->MemberFixed("home_share", figures.HomeShare().value_or(0), 6).MemberFixed("present_share", figures.LocalShare().value_or(0), 6);
    json->MemberUint("shared_read_bytes", figures.shared_read_bytes).MemberUint("written_back_bytes", figures.written_back_bytes);
  }
  json->MemberFixed("bytes_moved", outcome.bytes_moved, 0).MemberFixed("core_s", outcome.core_seconds, 6);
  json->MemberFixed("lost_s", outcome.lost_seconds, 6).MemberFixed("read_s", outcome.read_seconds, 6);
  json->MemberFixed("write_s", outcome.write_seconds, 6);
  WriteKinds(graph, outcome, local_files, json);
  if (!outcome.allocations.empty()) WriteAllocations(options, outcome, json);
}

void WriteHead(const Title& title, const Options& options, const Bounds& bounds, report::JsonWriter* json) {
  json->BeginObject().MemberUint("version", 1).Member("flow", title.flow).Member("cluster", title.cluster);
  json->MemberUint("nodes", options.cluster.node_count()).MemberUint("slots", options.cluster.slot_count());
  json->MemberFixed("critical_path_s", bounds.critical_path, 9).MemberFixed("work_core_s", bounds.work, 9);
  json->MemberFixed("lower_bound_s", bounds.lower, 9);
}

std::string Where(const Options& options, const Title& title) {
  const uint64_t slots = options.cluster.slot_count();
  return StrCat(title.cluster, ": ", options.cluster.node_count(), " node", options.cluster.node_count() == 1 ? "" : "s",
                ", ", slots, " slot", slots == 1 ? "" : "s", options.io ? ", with I/O" : ", without I/O");
}

}  // namespace

Figures FiguresOf(const Outcome& outcome, const formats::ClusterModel& cluster) {
  const core::Counts& counts = outcome.counts;
  Figures figures;
  figures.total = counts.total;
  figures.done = counts.done;
  figures.failed = counts.failed;
  figures.skipped = counts.skipped;
  figures.cancelled = counts.cancelled;
  figures.pruned = counts.pruned;
  figures.attempts = counts.attempts;
  figures.losses = counts.losses;
  figures.local_bytes = counts.local_bytes;
  figures.remote_bytes = counts.remote_bytes;
  figures.bytes_moved = static_cast<uint64_t>(outcome.bytes_moved);
  figures.home_bytes = counts.home_bytes;
  figures.shared_read_bytes = static_cast<uint64_t>(outcome.shared_read);
  figures.written_back_bytes = static_cast<uint64_t>(outcome.written_back);
  figures.makespan = FromSeconds(outcome.makespan);
  figures.core_seconds = outcome.core_seconds;
  figures.slots = static_cast<uint32_t>(cluster.slot_count());
  figures.slot_seconds = outcome.makespan * static_cast<double>(cluster.slot_count());
  if (!outcome.allocations.empty()) {
    figures.slot_seconds = 0;
    for (const AllocationOutcome& each : outcome.allocations) figures.slot_seconds += each.slot_seconds();
  }
  figures.complete = true;
  return figures;
}

std::string Json(const Title& title, const graph::Graph& graph, const Options& options, const Outcome& outcome,
                 const Bounds& bounds) {
  std::string out;
  report::JsonWriter json(&out);
  WriteHead(title, options, bounds, &json);
  WriteOutcome(graph, options, outcome, &json);
  json.EndObject();
  return out + "\n";
}

std::string Text(const Title& title, const graph::Graph& graph, const Options& options, const Outcome& outcome,
                 const Bounds& bounds) {
  const core::Counts& counts = outcome.counts;
  const Figures figures = FiguresOf(outcome, options.cluster);
  std::string out = StrCat(Printable(title.flow), " on ", Printable(Where(options, title)), "; ", Manner(options.core), "\n");
  const auto row = [&](std::string_view name, const std::string& value) {
    std::string line(name);
    line.append(line.size() < 18 ? 18 - line.size() : 1, ' ');
    out += line + value + "\n";
  };
  row("tasks", StrCat(counts.done, " done", counts.failed > 0 ? StrCat(", ", counts.failed, " failed") : "",
                      counts.skipped > 0 ? StrCat(", ", counts.skipped, " skipped") : "", ", ", counts.attempts, " attempts"));
  const double over = bounds.lower > 0 && outcome.all_done() ? outcome.makespan / bounds.lower : 0;
  row("makespan", StrCat(Fixed(outcome.makespan, 3), " s", over > 0 ? StrCat(", ", Fixed(over, 3), " times the lower bound ", Fixed(bounds.lower, 3), " s") : ""));
  row("core utilisation", Percent(figures.CoreUtilisation()));
  if (options.core.local_files) {
    if (const auto home = figures.HomeShare(); home)
      row("local input", StrCat(Percent(*figures.LocalShare()), " present, ", Percent(*home), " at home (where files were made or placed)"));
    row("moved", StrCat(FormatBytes(figures.bytes_moved), " between nodes, ", FormatBytes(figures.shared_read_bytes), " from the submit directory, ",
                        FormatBytes(figures.written_back_bytes), " back to it"));
  } else if (counts.local_bytes + counts.remote_bytes > 0) {
    row("local input", StrCat(Percent(figures.LocalShare().value_or(0)), ", ", FormatBytes(static_cast<uint64_t>(outcome.bytes_moved)), options.io ? " moved" : " to be moved"));
  }
  if (outcome.no_room > 0)
    row("no room", StrCat(outcome.no_room, outcome.no_room == 1 ? " attempt" : " attempts", " failed, first for ", Printable(graph.file_name(outcome.no_room_for), 60), " (",
                          FormatBytes(static_cast<uint64_t>(std::max<int64_t>(0, graph.file_size(outcome.no_room_for)))), ") where a node may hold ",
                          FormatBytes(options.local_limit)));
  if (!outcome.allocations.empty()) {
    row("moves", StrCat(outcome.moves, ", of ", outcome.moved_tasks, " tasks; ", outcome.messages, " messages; trigger ", supervisor::NameOf(options.moves.trigger),
                        ", amount ", supervisor::NameOf(options.moves.amount)));
  }
  for (const AllocationOutcome& each : outcome.allocations) {
    row(StrCat("allocation ", Printable(each.name, 40)),
        StrCat(each.nodes, each.nodes == 1 ? " node, " : " nodes, ", each.slots, each.slots == 1 ? " slot, " : " slots, ", each.began ? StrCat(Fixed(each.begin, 3), " to ", Fixed(each.end, 3), " s: ") : "did not begin: ",
               each.done, " done, ", each.moved_in, " moved in, ", each.moved_out, " out, idle ", Fixed(each.idle_seconds(), 3), " s (",
               Percent(each.slot_seconds() > 0 ? each.idle_seconds() / each.slot_seconds() : 0), "), ", Fixed(MessagesPerSecond(each), 1), " messages/s"));
  }
  if (counts.stolen > 0) row("stolen", StrCat(counts.stolen));
  if (options.io) row("in I/O", StrCat(Percent(outcome.core_seconds > 0 ? (outcome.read_seconds + outcome.write_seconds) / outcome.core_seconds : 0), " of the tasks' time"));
  if (outcome.node_losses > 0) row("nodes lost", StrCat(outcome.node_losses, ", with ", Fixed(outcome.lost_seconds, 3), " s of tasks"));
  return out;
}

std::string CompareText(const Title& title, const std::vector<Compared>& rows, const Bounds& bounds) {
  const Options& first = rows.front().options;
  double best = std::numeric_limits<double>::infinity();
  for (const Compared& row : rows) {
    if (row.outcome.all_done()) best = std::min(best, row.outcome.makespan);
  }
  std::string out = StrCat(Printable(title.flow), " on ", Printable(Where(first, title)), "; lower bound ", Fixed(bounds.lower, 3),
                           " s (critical path ", Fixed(bounds.critical_path, 3), " s, ", Fixed(bounds.work, 3), " core seconds)\n");
  char line[160];
  std::snprintf(line, sizeof line, "%-10s %14s %9s %12s %8s %12s\n", "order", "makespan s", "/ bound", "utilisation", "local", "moved");
  out += line;
  for (const Compared& row : rows) {
    const Outcome& outcome = row.outcome;
    const Figures figures = FiguresOf(outcome, row.options.cluster);
    std::snprintf(line, sizeof line, "%-10s %14s %9s %12s %8s %12s%s\n", std::string(order::PolicyName(row.options.core.policy)).c_str(),
                  Fixed(outcome.makespan, 3).c_str(), bounds.lower > 0 && outcome.all_done() ? Fixed(outcome.makespan / bounds.lower, 3).c_str() : "",
                  Percent(figures.CoreUtilisation()).c_str(), Percent(figures.LocalShare().value_or(0)).c_str(),
                  FormatBytes(static_cast<uint64_t>(outcome.bytes_moved)).c_str(), !outcome.all_done() ? "" : outcome.makespan == best ? "  *" : "");
    out += line;
    if (!outcome.all_done()) {
      out.pop_back();
      out += StrCat("  only ", outcome.counts.done, " of ", outcome.counts.total, " tasks done\n");
    }
  }
  return out;
}

std::string CompareJson(const Title& title, const graph::Graph& graph, const std::vector<Compared>& rows,
                        const Bounds& bounds) {
  std::string out;
  report::JsonWriter json(&out);
  WriteHead(title, rows.front().options, bounds, &json);
  json.Key("runs").BeginArray();
  for (const Compared& row : rows) {
    json.BeginObject();
    WriteOutcome(graph, row.options, row.outcome, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out + "\n";
}

std::string PlotSvg(const Title& title, const graph::Graph& graph, const Options& options, const Outcome& outcome) {
  report::Plot plot;
  plot.title = StrCat(title.flow, " on ", Where(options, title), "; ", Manner(options.core));
  plot.sessions.push_back({outcome.makespan, static_cast<double>(options.cluster.slot_count())});
  std::vector<size_t> series(graph.kind_count() + 1, SIZE_MAX);
  for (const Attempt& attempt : outcome.attempts) {
    if (attempt.end <= attempt.begin) continue;
    const KindId kind = graph.kind(attempt.task);
    size_t& at = series[kind ? kind.value : graph.kind_count()];
    if (at == SIZE_MAX) {
      at = plot.series.size();
      plot.series.emplace_back(kind ? graph.kind_name(kind) : "tasks");
    }
    plot.intervals.push_back({attempt.begin, attempt.end, static_cast<double>(graph.profile(attempt.task).all_cores()), at});
  }
  return report::PlotSvg(plot);
}

}  // namespace harrow::sim
