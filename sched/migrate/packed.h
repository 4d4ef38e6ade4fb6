#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "migrate/alike.h"

namespace harrow::migrate {

/// What Pack has done.
struct Packed {
  uint64_t files = 0;
  int64_t bytes = 0;    // of the files
  int64_t written = 0;  // of these, compressed: what the packs of earlier images did not have
};

/// Directories of former calls on the same file system that may have contents of an image with such a sample. Packs of the first keep
/// their names.
using FindEarlier = std::function<std::vector<std::string>(const Sample& sample)>;

/// Keeps the files below `from` in the directory `to`, by the contents of their 4 KiB pages: zeros not at all, each content once, and
/// those not anew that are found in what `earlier` tells (empty: nothing is). `to` does not need these directories afterwards; one that is
/// gone, or damaged, is passed over. What is in `to` is on disk then. `stop`: whether nobody waits for it any more.
/// kExhausted: there is no room; kUnavailable.
Result<Packed> Pack(const std::string& from, const std::string& to, const FindEarlier& earlier, const std::function<bool()>& stop);

/// The files as they were, below `to`. kDamaged: what was kept is not what was written; kExhausted, kUnavailable.
Status Unpack(const std::string& from, const std::string& to, const std::function<bool()>& stop);

}  // namespace harrow::migrate
