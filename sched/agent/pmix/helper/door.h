#pragma once

#include "base/status.h"

namespace harrow::agent::pmix {

/// What stands between libpmix's port and libpmix (door.cc).
class Door {
 public:
  /// When libpmix listens: from now on whoever may come in does. Makes sure that libpmix takes connections
  /// through the door.
  static Status Open();
};

}  // namespace harrow::agent::pmix
