#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "run_dir/run_dir.h"

namespace harrow::server {

/// What the name of a file in RUN/exchange/FLOW_ID tells (run_dir_format.md). There the allocations of a run with local files leave for each other what
/// their tasks made.
struct Exchanged {
  FileId file;
  std::string object{};  // bytes of a store::ObjectId; empty: its task is done, and did not make it
  int64_t bytes = 0;

  bool absent() const { return object.empty(); }
  std::string Name() const;
  /// None: it is not whole, or nothing of an exchange.
  static std::optional<Exchanged> Of(std::string_view name);
  bool operator==(const Exchanged&) const = default;
};

/// All that lies there whole, of files by their numbers under `flow_id`; nothing where there is no such directory.
Result<std::vector<Exchanged>> ReadExchange(run_dir::RunDir& run, std::string_view flow_id);

}  // namespace harrow::server
