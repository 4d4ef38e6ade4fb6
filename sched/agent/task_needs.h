#pragma once

#include "agent/core/attempt.h"
#include "agent/steps/task.h"

namespace harrow::agent {

/// What an attempt asks of this node: of a task of several nodes its part here. Needs::inputs are not known yet.
Needs NeedsOf(const LocalTask& task);

}  // namespace harrow::agent
