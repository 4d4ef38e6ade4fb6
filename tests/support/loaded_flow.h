#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/command_form.h"
#include "formats/load.h"
#include "graph/graph.h"
#include "support/memory_file_system.h"

namespace harrow::test {

/// A flow read from a text, in a directory "/d" in memory.
struct LoadedFlow {
  MemoryFileSystem fs;
  formats::LoadOptions options;
  graph::Graph graph;
  formats::Flow flow;
  Status status;

  LoadedFlow() { options.directory = "/d"; }
  explicit LoadedFlow(std::string_view name, std::string_view text) : LoadedFlow() { Load(name, text); }
  void Load(std::string_view name, std::string_view text) {
    graph = graph::Graph();
    flow = {};
    status = formats::Load(fs, {{std::string(name), false, std::string(text)}}, options, &graph, &flow);
  }
  TaskId Task(std::string_view name) const { return graph.FindTask(name).value_or(TaskId()); }
  std::string Command(std::string_view name) const {
    return formats::CommandText(graph.command(Task(name)), graph.form(Task(name)));
  }
  std::vector<std::string> Names(std::span<const FileId> files) const {
    std::vector<std::string> names;
    for (FileId file : files) names.emplace_back(graph.file_name(file));
    return names;
  }
  std::vector<std::string> In(std::string_view name) const { return Names(graph.inputs(Task(name))); }
  std::vector<std::string> Out(std::string_view name) const { return Names(graph.outputs(Task(name))); }
  std::vector<std::string> Before(std::string_view name) const {
    std::vector<std::string> names;
    for (TaskId task : graph.predecessors(Task(name))) names.push_back(graph.TaskName(task));
    return names;
  }
};

}  // namespace harrow::test
