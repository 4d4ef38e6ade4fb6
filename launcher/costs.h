#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cost/net.h"
#include "graph/graph.h"
#include "report/json.h"

namespace harrow::launcher {

/// What a flow's programs will cost, as far as their models tell (harrow check --costs).
struct FlowCosts {
  cost::Net net;
  cost::Costs costs;
};
/// kInvalid, with its place: a model that has no value for its arguments.
Result<FlowCosts> FindFlowCosts(const graph::Graph& graph);
/// Formulas, then what they come to for each kind of tasks and each stream.
std::string CostsText(const graph::Graph& graph, const FlowCosts& costs);
/// The same as an object.
void CostsJson(const graph::Graph& graph, const FlowCosts& costs, report::JsonWriter* json);
/// What the models say that each task does, a unit of compute being a microsecond and one of output a byte;
/// below 0: they do not tell.
struct ModelTimes {
  std::vector<double> seconds, stream_bytes;
};
Result<ModelTimes> FindModelTimes(const graph::Graph& graph);
/// kInvalid, with its place, for a flow with streams, which `what` ("harrow run") does not do.
Status RefuseStreams(const graph::Graph& graph, std::string_view what);

}  // namespace harrow::launcher
