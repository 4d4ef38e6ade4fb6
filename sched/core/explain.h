#pragma once

#include "core/parts.h"

namespace harrow::core {

/// Why a task waits, or why it ran where it did, for people.
Explanation Explain(const Parts& parts, TaskId id);

}  // namespace harrow::core
