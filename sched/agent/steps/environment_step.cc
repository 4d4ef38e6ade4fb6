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
  const CheckpointVariables& checkpoint = launch->checkpoint;
  const std::pair<std::string_view, std::string_view> of_checkpoint[] = {{"HARROW_CHECKPOINT_DIR", checkpoint.directory},
                                                                         {"HARROW_RESTART", checkpoint.restart},
                                                                         {"HARROW_CHECKPOINT_REQUEST", checkpoint.request},
                                                                         {"HARROW_CHECKPOINT_SIGNAL", checkpoint.signal},
                                                                         {"HARROW_CHECKPOINT_STATUS", checkpoint.status}};
  variables.checkpoint = of_checkpoint;
  launch->request.envp = builder_.Build(*task.profile, variables);
  variables.checkpoint = {};
  return {};
}

}  // namespace harrow::agent
