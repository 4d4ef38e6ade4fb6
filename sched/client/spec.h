#pragma once

#include <string>

#include <harrow/harrow.h>

#include "base/status.h"
#include "client/submit_queue.h"

namespace harrow::client {

struct Described {
  NewTask task;  // without profile
  pb::Profile profile;
};

/// What a caller describes. `directory`: where tasks run that name none, unless it is the run's `submit_directory`; that is
/// empty where tasks run in directories of their own. kInvalid: what is wrong by itself.
Result<Described> Describe(const harrow_spec* spec, const std::string& directory, const std::string& submit_directory);

}  // namespace harrow::client
