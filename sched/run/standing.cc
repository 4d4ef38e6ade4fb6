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
  return standing;
}

}  // namespace harrow::run
