#pragma once

#include <string>
#include <string_view>

#include "config/run_options.h"
#include "formats/identity.h"
#include "formats/load.h"
#include "formats/statistics.h"
#include "fuzz/check_message.h"
#include "support/memory_file_system.h"

namespace harrow::fuzz {

/// Reads `text` as the flow `name`, and looks at all that came of it.
inline void LoadText(const char* name, std::string_view text) {
  test::MemoryFileSystem fs;
  for (const char* file : {"/d/raw/1.fits", "/d/raw/2.fits", "/d/a[1]"}) (void)fs.WriteWhole(file, "x");
  (void)fs.WriteWhole("/d/list", "one\ntwo words\n");
  formats::LoadOptions options;
  options.directory = "/d";
  options.max_tasks = 2000;
  options.need_commands = text.size() % 2 == 0;
  options.inputs_must_exist = text.size() % 3 == 0;
  options.check_setting = config::CheckSetting;
  graph::Graph graph;
  formats::Flow flow;
  const Status status = formats::Load(fs, {{name, false, std::string(text)}}, options, &graph, &flow);
  CheckMessage(status);
  if (!status.ok()) return;
  Require(graph.task_count() > 0, "a flow without tasks");
  const formats::Statistics s = formats::Summarise(graph);
  Require(s.tasks == graph.task_count() && s.levels > 0 && s.width > 0 && s.width <= s.tasks,
          "statistics that cannot be");
  Require(formats::Identities(graph).size() == s.tasks, "not one identity a task");
}

}  // namespace harrow::fuzz
