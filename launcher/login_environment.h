#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace harrow::launcher {

/// What the user finds in the environment after a login on this machine, by the login shell: without what was
/// made for the asking, and what says which job or run this is. kUnavailable: it does not tell.
Result<std::vector<std::pair<std::string, std::string>>> LoginEnvironment();

}  // namespace harrow::launcher
