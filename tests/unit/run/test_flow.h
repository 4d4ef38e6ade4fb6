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
};

inline graph::Graph TinyGraph(const std::vector<TinyTask>& tasks) {
  graph::Graph graph;
  graph.AddSource("tiny.toml");
  const KindId kind = graph.AddKind("kind");
  uint32_t line = 0;
  for (const TinyTask& task : tasks) {
    std::vector<FileId> in, out;
    for (const std::string& name : task.in) in.push_back(graph.AddFile(name));
    for (const std::string& name : task.out) out.push_back(graph.AddFile(name));
    graph::TaskSpec spec;
    spec.name = task.name;
    spec.command = task.command;
    spec.profile = graph.AddProfile(task.profile);
    spec.kind = kind;
    spec.in = in;
    spec.out = out;
    spec.place = {.source = 0, .line = ++line, .column = 1};
    graph.AddTask(spec);
  }
  if (const Status sealed = graph.Seal(); !sealed.ok()) abort();
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
