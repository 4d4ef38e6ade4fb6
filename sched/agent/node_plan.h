#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "topology/machine.h"
#include "topology/slots.h"

namespace harrow::agent {

/// What an agent has to give of its machine.
struct NodePlan {
  std::vector<topology::Slot> slots{};  // without PUs: their tasks are not pinned
  std::vector<topology::Device> devices{};
  uint64_t memory = 0;       // bytes; 0: not known
  uint64_t local_limit = 0;  // bytes that its tasks may hold below AgentOptions::tmp_root; 0: no limit
  std::string summary{};     // of the machine, one line for people
  std::string notice{};      // what is not as it was asked for; empty: nothing
};

/// `machine`: with the devices that this process may see.
NodePlan PlanNode(const AgentOptions& options, const topology::Machine& machine);

}  // namespace harrow::agent
