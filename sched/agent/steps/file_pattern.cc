#include "agent/steps/file_pattern.h"

#include <algorithm>
#include <unistd.h>

#include "agent/steps/command.h"
#include "agent/steps/environment.h"
#include "agent/steps/gang.h"
#include "base/text.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

std::string FirstOf(std::string_view first, std::string_view second, std::string_view otherwise) {
  if (!first.empty()) return std::string(first);
  return std::string(!second.empty() ? second : otherwise);
}

/// False when `field` is not one of ours.
bool Expand(char field, const LocalTask& task, uint32_t rank, std::string* out) {
  const TaskProfile& profile = *task.profile;
  const uint32_t task_number = task.id + 1;
  const auto variable = [&](std::string_view name) {
    const std::string_view assigned = AssignedValue(task, name);
    return assigned.empty() ? profile.Variable(name) : assigned;
  };
  switch (field) {
    case '%':
      *out = "%";
      return true;
    case 'A':
      *out = FirstOf(variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_JOB_ID"), "0");
      return true;
    case 'a':
      *out = FirstOf(variable("SLURM_ARRAY_TASK_ID"), {}, StrCat(task_number));
      return true;
    case 'b': {
      const std::string number = FirstOf(variable("SLURM_ARRAY_TASK_ID"), {}, StrCat(task_number));
      *out = number.substr(number.size() - 1);
      return true;
    }
    case 'j':
      *out = FirstOf(variable("SLURM_JOB_ID"), {}, "0");
      return true;
    case 'J':
      *out = StrCat(FirstOf(variable("SLURM_JOB_ID"), {}, "0"), ".", task_number);
      return true;
    case 'N':
      *out = profile.base().common().node_name;
      return true;
    case 'n':
      *out = StrCat(task.gang ? task.gang->here : 0);
      return true;
    case 't':
      *out = StrCat(rank);
      return true;
    case 's':
      *out = "batch";  // as of a job's script
      return true;
    case 'u':
      *out = FirstOf(os::UserName(getuid()), variable("USER"), StrCat(getuid()));
      return true;
    case 'x':
      *out = FirstOf(variable("SLURM_JOB_NAME"), {}, "harrow");
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string ExpandFilePattern(std::string_view pattern, const LocalTask& task, uint32_t rank) {
  std::string path;
  if (pattern.find('\\') != std::string_view::npos) {
    std::copy_if(pattern.begin(), pattern.end(), std::back_inserter(path), [](char c) { return c != '\\'; });
  } else {
    for (size_t at = 0; at < pattern.size(); ++at) {
      if (pattern[at] != '%') {
        path += pattern[at];
        continue;
      }
      size_t field = at + 1;
      size_t width = 0;
      // Slurm takes at most 10 digits.
      for (; field < pattern.size() && pattern[field] >= '0' && pattern[field] <= '9'; ++field)
        width = std::min<size_t>(10, width * 10 + static_cast<size_t>(pattern[field] - '0'));
      std::string text;
      if (field >= pattern.size() || !Expand(pattern[field], task, rank, &text)) {
        path += '%';
        continue;
      }
      const bool numeric = text.find_first_not_of("0123456789") == std::string::npos;
      if (numeric && text.size() < width) path.append(width - text.size(), '0');
      path += text;
      at = field;
    }
  }
  if (path.empty() || path.front() == '/') return path;
  return task.profile->directory() + "/" + path;
}

}  // namespace harrow::agent
