#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "journal/journal.h"

namespace harrow::journal {

/// One execution of a run, from `harrow run` or `--resume` until nothing was left to do or the run was ended.
struct Session {
  int64_t start_ns = 0,
          end_ns = 0;  // calendar time; the end of one that goes on or was killed: its last record's
  std::map<uint32_t, uint32_t> slots_of;  // nodes that joined in it
  uint32_t slots = 0;                     // of these nodes together

  Duration length() const { return Duration(end_ns - start_ns); }
};

/// A run's sessions, the first one first, none overlapping the next; those in which no attempt began are left out where
/// there are others. Empty: nothing has begun.
std::vector<Session> SessionsOf(const History& history);

}  // namespace harrow::journal
