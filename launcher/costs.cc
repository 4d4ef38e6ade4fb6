#include "launcher/costs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cost/from_graph.h"

namespace harrow::launcher {
namespace {

// A task without a model says in seconds what it computes.
constexpr double kSecondsAUnit = 1;

struct Extent {
  double least = cost::kUnknown, most = cost::kUnknown;
  bool known() const { return cost::IsKnown(least); }
};

/// None where some of them is not known.
Extent ExtentOf(const cost::Amounts& amounts) {
  if (!std::all_of(amounts.begin(), amounts.end(), cost::IsKnown)) return {};
  const auto [least, most] = std::minmax_element(amounts.begin(), amounts.end());
  return {*least, *most};
}

/// What a formula comes to: a number, from one to another, or what is left of the formula.
std::string ValueText(const cost::Amounts& amounts, const cost::Expression* formula,
                      const cost::MetaTask& task) {
  const Extent extent = ExtentOf(amounts);
  if (extent.known())
    return extent.least == extent.most ? StrCat(extent.least) : StrCat(extent.least, "..", extent.most);
  if (formula == nullptr) return "unknown";
  std::vector<double> arguments;
  for (const cost::Amounts& argument : task.arguments)
    arguments.push_back(argument.size() == 1 ? argument[0] : cost::kUnknown);
  return formula->Substitute(arguments, cost::kUnknown).Text();
}

const cost::Expression* FormulaOf(const cost::Net& net, const cost::MetaTask& task,
                                  cost::Expression cost::CostFunctions::*which) {
  return task.program == cost::kNoProgram ? nullptr : &(net.programs[task.program].*which);
}

/// "map-1", or "map-1 .. map-4".
std::string NamesText(const std::string& first, const std::string& last, size_t count) {
  return count == 1 ? Printable(first, 40) : StrCat(Printable(first, 40), " .. ", Printable(last, 40));
}

std::string Padded(std::string text, size_t width) {
  text.append(text.size() < width ? width - text.size() : 0, ' ');
  return text + "  ";
}

/// Columns as wide as what is in them; the last one ends where its text does.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c)
      width[c] = std::max(width[c], std::min<size_t>(row[c].size(), 60));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (size_t c = 0; c < row.size(); ++c) line += c + 1 < row.size() ? Padded(row[c], width[c]) : row[c];
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

/// Calls each(meta-task, first task) and so on, in the order of tasks.
template <class Each>
void ForEachTask(const cost::Net& net, const Each& each) {
  uint32_t first = 0;
  for (uint32_t t = 0; t < net.tasks.size(); ++t) {
    each(t, first);
    first += net.tasks[t].count;
  }
}

/// Of the streams, not of files.
template <class Each>
void ForEachStream(const cost::Net& net, const Each& each) {
  uint32_t first = 0;
  for (uint32_t s = 0; s < net.streams.size(); ++s) {
    if (net.streams[s].size.empty()) each(s, first);
    first += net.streams[s].count;
  }
}

/// The kind of the first task that has the program.
std::string ProgramName(const graph::Graph& graph, const cost::Net& net, uint32_t program) {
  std::string name;
  ForEachTask(net, [&](uint32_t t, uint32_t first) {
    if (net.tasks[t].program == program && name.empty()) name = graph.kind_name(graph.kind(TaskId(first)));
  });
  return name;
}

}  // namespace

Result<FlowCosts> FindFlowCosts(const graph::Graph& graph) {
  Result<cost::Net> net = cost::NetOf(graph, kSecondsAUnit);
  if (!net.ok()) return net.status();
  uint32_t at = UINT32_MAX;
  Result<cost::Costs> costs = cost::FindCosts(*net, &at);
  if (!costs.ok()) {
    uint32_t task = 0;
    ForEachTask(*net, [&](uint32_t t, uint32_t first) { task = t == at ? first : task; });
    return Status(costs.status().code(),
                  StrCat(graph.PlaceText(graph.place(TaskId(task))), ": ", costs.status().message()));
  }
  return FlowCosts{std::move(*net), std::move(*costs)};
}

std::string CostsText(const graph::Graph& graph, const FlowCosts& flow) {
  const cost::Net& net = flow.net;
  const cost::Costs& costs = flow.costs;
  std::string out;
  if (net.programs.empty()) {
    out += "\nno task has a model; tasks compute their run_time, and write what they read\n";
  } else {
    out += "\nprograms, by argument (a0 is the first) and input (C_i)\n";
    std::vector<std::vector<std::string>> rows = {{"kind", "reads C_i", "computes C_c", "writes C_o"}};
    for (uint32_t p = 0; p < net.programs.size(); ++p)
      rows.push_back({Printable(ProgramName(graph, net, p), 40), net.programs[p].in.Text(),
                      net.programs[p].compute.Text(), net.programs[p].out.Text()});
    out += Table(rows);
  }
  std::vector<std::vector<std::string>> rows = {{"tasks", "", "rank", "C_i", "C_c", "C_o"}};
  ForEachTask(net, [&](uint32_t t, uint32_t first) {
    const cost::MetaTask& task = net.tasks[t];
    using Functions = cost::CostFunctions;
    rows.push_back(
        {NamesText(graph.TaskName(TaskId(first)), graph.TaskName(TaskId(first + task.count - 1)), task.count),
         StrCat(task.count), StrCat(costs.rank[t]),
         ValueText(costs.in[t], FormulaOf(net, task, &Functions::in), task),
         ValueText(costs.compute[t], FormulaOf(net, task, &Functions::compute), task),
         ValueText(costs.out[t], FormulaOf(net, task, &Functions::out), task)});
  });
  out += "\nwhat they come to\n" + Table(rows);
  rows = {{"streams", "", "C_t", "share"}};
  ForEachStream(net, [&](uint32_t s, uint32_t first) {
    const cost::MetaStream& stream = net.streams[s];
    rows.push_back(
        {NamesText(graph.streams()[first].name, graph.streams()[first + stream.count - 1].name, stream.count),
         StrCat(stream.count), ValueText(costs.stream[s], nullptr, {}), stream.split ? "split" : "all"});
  });
  if (rows.size() > 1) out += "\n" + Table(rows);
  return out;
}

void CostsJson(const graph::Graph& graph, const FlowCosts& flow, report::JsonWriter* json) {
  const cost::Net& net = flow.net;
  const auto amounts = [&](std::string_view key, const cost::Amounts& of) {
    const Extent extent = ExtentOf(of);
    json->Key(key).BeginArray().Fixed(extent.least, 6).Fixed(extent.most, 6).EndArray();
  };
  json->BeginObject().Key("programs").BeginArray();
  for (uint32_t p = 0; p < net.programs.size(); ++p) {
    json->BeginObject()
        .Member("kind", ProgramName(graph, net, p))
        .Member("in", net.programs[p].in.Text())
        .Member("compute", net.programs[p].compute.Text())
        .Member("out", net.programs[p].out.Text())
        .EndObject();
  }
  json->EndArray().Key("tasks").BeginArray();
  ForEachTask(net, [&](uint32_t t, uint32_t first) {
    const cost::MetaTask& task = net.tasks[t];
    json->BeginObject().Member("first", graph.TaskName(TaskId(first))).MemberUint("count", task.count);
    json->Key("program");
    if (task.program == cost::kNoProgram) {
      json->Null();
    } else {
      json->Uint(task.program);
    }
    json->MemberUint("rank", flow.costs.rank[t]);
    amounts("in", flow.costs.in[t]);
    amounts("compute", flow.costs.compute[t]);
    amounts("out", flow.costs.out[t]);
    json->EndObject();
  });
  json->EndArray().Key("streams").BeginArray();
  ForEachStream(net, [&](uint32_t s, uint32_t first) {
    json->BeginObject()
        .Member("first", graph.streams()[first].name)
        .MemberUint("count", net.streams[s].count)
        .Key("split")
        .Bool(net.streams[s].split);
    amounts("amount", flow.costs.stream[s]);
    json->EndObject();
  });
  json->EndArray().EndObject();
}

Result<ModelTimes> FindModelTimes(const graph::Graph& graph) {
  constexpr double kSecondsOfModels = 1e-6;
  ModelTimes times;
  times.seconds.assign(graph.task_count(), -1);
  times.stream_bytes.assign(graph.task_count(), -1);
  if (graph.models().empty() && graph.streams().empty()) return times;
  const Result<FlowCosts> flow = FindFlowCosts(graph);
  if (!flow.ok()) return flow.status();
  ForEachTask(flow->net, [&](uint32_t t, uint32_t first) {
    const cost::MetaTask& task = flow->net.tasks[t];
    for (uint32_t n = 0; n < task.count; ++n) {
      const double compute = cost::AmountOf(flow->costs.compute[t], n);
      const double out = cost::AmountOf(flow->costs.out[t], n);
      if (task.program != cost::kNoProgram && cost::IsKnown(compute))
        times.seconds[first + n] = compute * kSecondsOfModels;
      if (cost::IsKnown(out)) times.stream_bytes[first + n] = out;
    }
  });
  return times;
}

Status RefuseStreams(const graph::Graph& graph, std::string_view what) {
  for (const graph::Stream& stream : graph.streams()) {
    const std::vector<TaskId>& some = stream.readers.empty() ? stream.writers : stream.readers;
    if (some.empty()) continue;
    return Status(
        Code::kInvalid,
        StrCat(graph.PlaceText(graph.place(some.front())), ": task ",
               Printable(graph.TaskName(some.front()), 80), stream.readers.empty() ? " writes" : " reads",
               " the stream \"", Printable(stream.name, 80), "\", and ", what,
               " does not join tasks by streams yet; let them write and read files (out, in), or join "
               "the programs within one task's command: a | b"));
  }
  return Status();
}

}  // namespace harrow::launcher
