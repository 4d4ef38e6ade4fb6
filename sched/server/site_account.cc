#include "server/site_account.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/log.h"

namespace harrow::server {
SiteAccount::SiteAccount(os::FileSystem& fs, std::string local, const run::RunSettings& settings,
                         const graph::Graph& graph, const journal::History& history)
    : fs_(fs), local_(std::move(local)) {
  const int64_t started = settings.started.time_since_epoch().count();
  // A job may begin a run and go on with it: two executions, two accounts.
  use_.run_id = StrCat(settings.run_id, ".", started);
  use_.name = settings.name;
  for (const journal::AttemptRecord& attempt : history.attempts) {
    if (attempt.end_ns >= started) continue;
    ++earlier_attempts_;
    earlier_core_seconds_ +=
        CoreSeconds(attempt.start_ns, attempt.end_ns, graph.profile(attempt.task).all_cores());
  }
}

void SiteAccount::Leave(const Figures& figures) {
  if (!wanted()) return;
  use_.tasks = figures.attempts - std::min(figures.attempts, earlier_attempts_);
  use_.core_seconds =
      static_cast<uint64_t>(std::max(0.0, figures.core_seconds - earlier_core_seconds_) + 0.5);
  if (const Status left = batch::LeaveRunAccount(fs_, local_, use_); !left.ok()) {
    os::LogWarning(StrCat("the site's account of this run: ", left.message()));
    local_.clear();
  }
}

}  // namespace harrow::server
