#include "batch/follow_on.h"

#include <algorithm>

#include "base/text.h"
#include "batch/slurm_query.h"

namespace harrow::batch {
namespace {

constexpr Duration kEarly = std::chrono::seconds(2);  // before the limit, Slurm may send its signal

/// "afternotok:17(unfulfilled)" waits for 17, and not for 1.
bool WaitsFor(std::string_view dependency, std::string_view job) {
  const std::string wanted = StrCat("afternotok:", job);
  for (size_t at = 0; (at = dependency.find(wanted, at)) != std::string_view::npos;) {
    at += wanted.size();
    if (at == dependency.size() || dependency[at] < '0' || dependency[at] > '9') return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> FollowOnWords(const std::vector<std::string>& first, const std::string& after,
                                       const std::string& run_dir, const std::string& directory) {
  std::vector<std::string> words = first;
  // It is not waited for, as it waits for the job that submits it. That the first job was held says nothing
  // of this one, which nobody would release.
  std::erase_if(words, [](const std::string& word) {
    return word == "--wait" || word == "-W" || word == "--parsable" || word == "--hold" || word == "-H";
  });
  // The last of an option holds. When the job that it follows ends well Slurm takes the follow-on away by
  // itself.
  words.insert(words.end(),
               {StrCat("--dependency=afternotok:", after), "--kill-on-invalid-dep=yes", "--begin=now",
                "--open-mode=append", StrCat("--comment=", kFollowOnComment, run_dir),
                StrCat("--chdir=", directory), "--parsable"});
  return words;
}

std::vector<std::string> FollowOnsOf(std::string_view squeue, std::string_view job) {
  std::vector<std::string> found;
  while (!squeue.empty()) {
    const std::string_view line = squeue.substr(0, squeue.find('\n'));
    squeue.remove_prefix(std::min(squeue.size(), line.size() + 1));
    const size_t bar = line.find('|');
    if (bar == std::string_view::npos) continue;
    const size_t second = line.find('|', bar + 1);
    if (second == std::string_view::npos || !line.substr(second + 1).starts_with(kFollowOnComment)) continue;
    if (WaitsFor(line.substr(bar + 1, second - bar - 1), job)) found.emplace_back(line.substr(0, bar));
  }
  return found;
}

std::optional<bool> HadAllItsTime(std::string_view squeue) {
  const std::string_view line = squeue.substr(0, squeue.find('\n'));
  const size_t bar = line.find('|');
  if (bar == std::string_view::npos) return std::nullopt;
  const auto limit = ParseTimeLeft(line.substr(0, bar), WallTime());
  const auto used = ParseTimeLeft(line.substr(bar + 1), WallTime());
  if (!used) return std::nullopt;
  return limit && *used + kEarly >= *limit;
}

}  // namespace harrow::batch
