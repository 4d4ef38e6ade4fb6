#include "agent/steps/environment_step.h"

#include "base/text.h"

namespace harrow::agent {

Status Environment::Prepare(Launch* launch, TaskResult*) {
  const LocalTask& task = launch->task;
  TaskVariables& variables = launch->variables;
  variables.number = task.id + 1;
  variables.name = task.name;
  if (task.name.empty()) variables.name = number_ = StrCat("#", task.id + 1);
  variables.attempt = task.attempt;
  variables.cores = static_cast<uint32_t>(launch->given.slots.size());
  launch->request.envp = builder_.Build(*task.profile, variables);
  return {};
}

}  // namespace harrow::agent
