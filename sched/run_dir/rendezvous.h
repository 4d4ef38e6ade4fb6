#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/file_system.h"

namespace harrow::run_dir {

/// PART/server (0600, renamed into place): how to reach the server of a run. JSON, so that a person can read it.
struct Rendezvous {
  uint32_t version = 1;
  std::string run_id;
  uint64_t epoch = 0;
  std::vector<std::string> addresses;
  std::string key;              // 32 bytes; hexadecimal in the file
  std::string host;
  int64_t pid = 0;
};

Status WriteRendezvous(os::FileSystem& fs, const std::string& run_dir, const Rendezvous& r);
/// kNotFound: no server yet, or the run is over. kPermission when the file is readable by others.
Result<Rendezvous> ReadRendezvous(os::FileSystem& fs, const std::string& run_dir);
/// What such a file says: kDamaged, or kRefused for a version not known here.
Result<Rendezvous> ParseRendezvous(std::string_view text);

/// 32 bytes from the system's random source.
std::string NewKey();

}  // namespace harrow::run_dir
