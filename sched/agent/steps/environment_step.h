#pragma once

#include <string>

#include "agent/steps/environment.h"
#include "agent/steps/step.h"

namespace harrow::agent {

/// A task's variables (environment.md): those of its profile, and those that the steps before this one found.
class Environment : public Step {
 public:
  Status Prepare(Launch* launch, TaskResult* result) override;

 private:
  EnvironmentBuilder builder_;
  std::string number_;
};

}  // namespace harrow::agent
