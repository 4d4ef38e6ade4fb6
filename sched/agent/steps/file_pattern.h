#pragma once

#include <string>
#include <string_view>

#include "agent/steps/task.h"

namespace harrow::agent {

/// The file name that a pattern of a task's stdin, stdout or stderr stands for, absolute when the task's
/// directory is (environment.md lists the fields; a backslash in it switches them off, as with Slurm).
std::string ExpandFilePattern(std::string_view pattern, const LocalTask& task, uint32_t rank = 0);

}  // namespace harrow::agent
