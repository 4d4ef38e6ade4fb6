#pragma once

#include <string>
#include <string_view>

#include "keeper/keeper.h"
#include "run_dir/part.h"

namespace harrow::launcher {

/// How the names of its run directories begin.
inline constexpr std::string_view kExecDirectories = ".harrow-exec-";

/// What the task of `harrow exec` has come to.
struct ExecEnd {
  int code = 0;         // exit status
  std::string words{};  // lines for the user; empty: it is done
};
/// By the run's journal, and by how its keeper saw it end.
ExecEnd EndOfExec(const run_dir::Part& part, const keeper::KeeperEnd& end);

}  // namespace harrow::launcher
