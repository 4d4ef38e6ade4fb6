#pragma once

#include <string>

#include "agent/steps/step.h"

namespace harrow::agent {

/// Where a task begins: its profile's directory.
class Directory : public Step {
 public:
  /// `current`: the agent's own.
  explicit Directory(const std::string& current) : current_(current) {}
  Status Prepare(Launch* launch, TaskResult* result) override;

 private:
  const std::string& current_;
};

}  // namespace harrow::agent
