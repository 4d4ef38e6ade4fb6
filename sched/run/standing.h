#pragma once

#include <cstdint>

#include "journal/journal.h"

namespace harrow::run {

/// How far a run is.
struct Standing {
  uint64_t ended = 0, open = 0;   // tasks
  bool last_session_did = false;  // ended a task
  uint32_t barren = 0;            // sessions, up to the last one, in which no task began

  /// Would another session do as little as the last one? One in which no task began may have been late at its
  /// start; a second one in a row was not, and what was interrupted before it had ended would be again.
  bool hopeless() const { return !last_session_did && barren != 1; }
};
Standing StandingOf(const journal::History& history);

}  // namespace harrow::run
