#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "run/flow_store.h"

namespace harrow::test {

/// A task of a small flow: name, command, files read and written.
struct TinyTask {
  std::string name, command;
  std::vector<std::string> in = {}, out = {};
  graph::Profile profile = {};
  std::string kind = "kind";
};

/// `after`: what each of them waits for besides.
inline void AddTiny(graph::Graph* graph, const std::vector<TinyTask>& tasks, const std::vector<TaskId>& after = {}) {
  for (const TinyTask& task : tasks) {
    std::vector<FileId> in, out;
    for (const std::string& name : task.in) in.push_back(graph->AddFile(name));
    for (const std::string& name : task.out) out.push_back(graph->AddFile(name));
    graph::TaskSpec spec;
    spec.name = task.name;
    spec.command = task.command;
    spec.profile = graph->AddProfile(task.profile);
    spec.kind = graph->AddKind(task.kind);
    spec.in = in;
    spec.out = out;
    spec.after = after;
    spec.place = {.source = 0, .line = static_cast<uint32_t>(graph->task_count()) + 1, .column = 1};
    graph->AddTask(spec);
  }
  if (const Status sealed = graph->Seal(); !sealed.ok()) abort();
}

inline graph::Graph TinyGraph(const std::vector<TinyTask>& tasks) {
  graph::Graph graph;
  graph.AddSource("tiny.toml");
  AddTiny(&graph, tasks);
  return graph;
}

inline run::StoredFlow TinyFlow(const std::vector<TinyTask>& tasks) {
  run::StoredFlow flow;
  flow.graph = TinyGraph(tasks);
  flow.settings.run_id = "run";
  flow.settings.flow_id = "run";
  flow.settings.order = order::Policy::kFifo;
  flow.settings.submit_dir = "/submit";
  flow.settings.sources = {"tiny.toml"};
  return flow;
}

}  // namespace harrow::test
