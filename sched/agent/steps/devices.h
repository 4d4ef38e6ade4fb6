#pragma once

#include <string>
#include <vector>

#include "agent/steps/step.h"
#include "topology/machine.h"

namespace harrow::agent {

/// The devices that an attempt may see, by the variables that their libraries go by.
class Devices : public Step {
 public:
  explicit Devices(const std::vector<topology::Device>& devices) : devices_(devices) {}
  Status Prepare(Launch* launch, TaskResult* result) override;

 private:
  const std::vector<topology::Device>& devices_;  // of the node
  std::string cuda_, rocr_;
};

}  // namespace harrow::agent
