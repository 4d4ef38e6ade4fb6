#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace harrow::launcher {

/// sbatch with a script on its standard input; its exit status, or that of Fail. What it prints is printed;
/// `hear` is given it as well, while sbatch still runs (--wait).
int CallSbatch(const std::vector<std::string>& words, const std::string& script,
               const std::function<void(std::string_view)>& hear = {});

/// A job that goes on with a run when another has been ended by its time limit (link.cc).
struct FollowOn {
  std::string directory;            // that the jobs run in
  std::string run_dir;              // empty: named after the first job
  std::vector<std::string> sbatch;  // the options of the first job
};
/// The command line of a link of a chain, without what it runs. `after`: the job that it follows; empty: the
/// first link.
std::vector<std::string> LinkCommand(const FollowOn& chain, const std::string& after);
/// Submits the follow-on of job `after`; says so on standard error, or why it could not be. False: there is
/// none.
bool SubmitFollowOn(const FollowOn& chain, const std::string& after);

}  // namespace harrow::launcher
