#include "run/standing.h"

#include <algorithm>
#include <vector>

namespace harrow::run {

Standing StandingOf(const journal::History& history) {
  Standing standing;
  std::vector<uint8_t> ended(history.tasks.size());
  for (const journal::FateRecord& fate : history.fates) {
    if (fate.fate != journal::TaskFate::kOpen && fate.task.value < ended.size()) ended[fate.task.value] = 1;
  }
  standing.ended = static_cast<uint64_t>(std::count(ended.begin(), ended.end(), 1));
  standing.open = ended.size() - standing.ended;
  if (history.sessions.empty()) return standing;
  const int64_t began = history.sessions.back().started_ns;
  standing.last_session_did = std::any_of(
      history.attempts.begin(), history.attempts.end(), [&](const journal::AttemptRecord& attempt) {
        return attempt.end_ns >= began && attempt.task.value < ended.size() && ended[attempt.task.value] != 0;
      });
  int64_t last_start = 0;
  for (const journal::AttemptRecord& attempt : history.attempts)
    last_start = std::max(last_start, attempt.start_ns);
  standing.barren = static_cast<uint32_t>(
      std::count_if(history.sessions.begin(), history.sessions.end(),
                    [&](const journal::SessionRecord& session) { return session.started_ns > last_start; }));
  return standing;
}

}  // namespace harrow::run
