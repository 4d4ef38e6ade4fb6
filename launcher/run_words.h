#pragma once

#include <string>
#include <vector>

#include "config/run_options.h"
#include "graph/graph.h"

namespace harrow::launcher {

/// What `harrow WORDS` (run, array) would run.
struct CheckedRun {
  std::vector<std::string> for_sbatch;  // given: the options of the job that it would run in
  graph::Graph graph;
  std::vector<bool> done;  // a flag a task: not to be run
  config::RunOptions options;
  std::string name;        // of the flow
  std::string run_dir;     // absolute; empty: named after the job
  bool resumed = false;
  // Of an array: its script, and how many of WORDS are the script's name and what follows it; 0: it is none of them.
  std::string script;
  size_t script_words = 0;
  std::string script_called;  // in messages
};

/// Reads and checks all that `harrow WORDS` would, the first of which is run or array, and begins nothing. What is wrong is printed; the exit
/// status.
int CheckRun(std::vector<std::string> words, CheckedRun* checked);

}  // namespace harrow::launcher
