#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/steps/environment.h"

namespace harrow::agent {

/// The file name that a pattern of a task's stdin, stdout or stderr stands for, absolute when the task's
/// directory is (environment.md lists the fields; a backslash in it switches them off, as with Slurm).
std::string ExpandFilePattern(std::string_view pattern, const TaskProfile& profile, uint32_t task_number);

}  // namespace harrow::agent
