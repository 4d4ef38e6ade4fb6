#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace harrow::migrate {

/// What Pack has done.
struct Packed {
  uint64_t files = 0;
  int64_t bytes = 0;    // of the files
  int64_t written = 0;  // of these, compressed: what the packs of earlier images did not have
};

/// Keeps the files below `from` in the directory `to`, by the contents of their 4 KiB pages: zeros not at all, each content once, and
/// those not anew that `earlier` has, the directory of a former call on the same file system (empty: there is none). `to` does not
/// need `earlier` afterwards. What is in `to` is on disk then. `stop`: whether nobody waits for it any more.
/// kExhausted: there is no room; kUnavailable.
Result<Packed> Pack(const std::string& from, const std::string& to, const std::string& earlier, const std::function<bool()>& stop);

/// The files as they were, below `to`. kDamaged: what was kept is not what was written; kExhausted, kUnavailable.
Status Unpack(const std::string& from, const std::string& to, const std::function<bool()>& stop);

}  // namespace harrow::migrate
