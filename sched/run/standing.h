#pragma once

#include <cstdint>

#include "journal/journal.h"

namespace harrow::run {

/// How far a run is.
struct Standing {
  uint64_t ended = 0, open = 0;   // tasks
  bool last_session_did = false;  // ended a task
};
Standing StandingOf(const journal::History& history);

}  // namespace harrow::run
