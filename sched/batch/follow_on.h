#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace harrow::batch {

/// What a follow-on's comment begins with, so that it is found among a user's jobs.
inline constexpr std::string_view kFollowOnComment = "harrow: goes on with ";

/// The words for sbatch of a job that goes on with the run in `run_dir` where job `after` does not end well.
/// `first`: those of the first job of the chain.
std::vector<std::string> FollowOnWords(const std::vector<std::string>& first, const std::string& after,
                                       const std::string& run_dir, const std::string& directory);

/// The follow-ons of a job, as `squeue` with that format lists a user's jobs.
inline constexpr const char* kFollowOnFormat = "%i|%E|%k";
std::vector<std::string> FollowOnsOf(std::string_view squeue, std::string_view job);

/// Has a job had all of its time, as `squeue` with that format tells of it? None: it does not say.
inline constexpr const char* kTimeFormat = "%l|%M";
std::optional<bool> HadAllItsTime(std::string_view squeue);

}  // namespace harrow::batch
