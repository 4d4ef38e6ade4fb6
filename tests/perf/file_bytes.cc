// The difference of two heaps: of tasks in chains of a hundred, where each reads what the one before it made, and
// of as many in the same chains without files. Every file lies on the node where it was made or read first,
// and on one more.

#include "file_bytes.h"

#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/scheduler.h"
#include "server/file_catalogue.h"

namespace harrow::perf {
namespace {

constexpr uint32_t kNodes = 1000, kSlots = 16, kChain = 100;

size_t Heap() {
  const struct mallinfo2 held = mallinfo2();
  return held.uordblks + held.hblkhd;
}

struct Held {
  size_t bytes = 0, names = 0, files = 0;
};

Held Hold(uint32_t tasks, bool files) {
  const size_t before = Heap();
  graph::Graph graph;
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile({});
  spec.command = "true";
  size_t names = 0;
  const auto file_named = [&](const std::string& name) {
    names += name.size();
    return graph.AddFile(name);
  };
  FileId made;
  for (uint32_t i = 0; i < tasks; ++i) {
    FileId in = made, out;
    const TaskId last(i - 1);
    const bool first = i % kChain == 0;
    if (files) {
      if (first) in = file_named(StrCat("in/", i));
      made = out = file_named(StrCat("made/", i));
      spec.in = {&in, 1};
      spec.out = {&out, 1};
    } else if (!first) {
      spec.after = {&last, 1};
    } else {
      spec.after = {};
    }
    graph.AddTask(spec);
  }
  if (const Status sealed = graph.Seal(); !sealed.ok()) {
    std::fprintf(stderr, "perf_server: %s\n", sealed.message().c_str());
    std::exit(1);
  }
  core::Options options;
  options.local_files = true;
  core::Scheduler scheduler(graph, options);
  server::FileCatalogue catalogue(graph);
  {
    std::vector<core::Event> events;
    std::vector<core::Action> actions;
    for (uint32_t n = 0; n < kNodes; ++n) events.push_back(core::NodeJoined{NodeId(n), {kSlots, 0, 0}});
    events.push_back(core::TasksAdded{TaskId(0), tasks});
    for (uint32_t n = 0; n < graph.file_count(); ++n) {
      catalogue.Set(FileId(n), std::string(17, 'x'), 1 << 20);
      for (const uint32_t node : {n, n * 7 + 1})
        events.push_back(core::FileStored{FileId(n), NodeId(node % kNodes), 1 << 20});
    }
    scheduler.HandleAll(Time(), events, &actions);
  }
  return {.bytes = Heap() - before, .names = names, .files = graph.file_count()};
}

}  // namespace

double BytesAFile(uint32_t files) {
  const uint32_t tasks = files / (kChain + 1) * kChain;
  const Held with = Hold(tasks, true), without = Hold(tasks, false);
  return (static_cast<double>(with.bytes) - static_cast<double>(without.bytes) -
          static_cast<double>(with.names)) /
         static_cast<double>(with.files);
}

}  // namespace harrow::perf
