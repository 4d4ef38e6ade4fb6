#include "agent/steps/directory.h"

namespace harrow::agent {

Status Directory::Prepare(Launch* launch, TaskResult*) {
  const std::string& directory =
      launch->directory.empty() ? launch->task.profile->directory() : launch->directory;
  // The process has the agent's from the start: a call less.
  launch->request.directory = directory == current_ ? nullptr : directory.c_str();
  return {};
}

}  // namespace harrow::agent
