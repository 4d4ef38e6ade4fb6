#include "agent/node_plan.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace harrow::agent {

NodePlan PlanNode(const AgentOptions& options, const topology::Machine& machine) {
  NodePlan out;
  const topology::Share& share = options.share;
  uint32_t unpinned = 0;
  const topology::Machine granted = topology::GrantedPart(machine, options.grant, &unpinned, &out.notice);
  const uint32_t wanted = options.slots > 0 ? options.slots : unpinned;
  const uint32_t most =
      options.most_tasks > 0 ? std::max<uint32_t>(1, options.most_tasks / share.of) : UINT32_MAX;
  topology::SlotPlan plan = topology::PlanSlots(granted, std::min(wanted, most), share);
  if (plan.slots.size() > most) plan.slots.resize(most);
  if (options.slots > most)
    out.notice = StrCat(most, most == 1 ? " slot" : " slots", ", not ", options.slots,
                        ": more the site does not allow");
  if (out.notice.empty()) out.notice = std::move(plan.notice);
  out.slots = std::move(plan.slots);
  if (unpinned > 0 || !options.pin) {
    for (topology::Slot& slot : out.slots) slot.pus.clear();
  }
  // Pretend nodes of one machine have no device in common.
  for (size_t i = share.index; i < granted.devices.size(); i += share.of) out.devices.push_back(granted.devices[i]);
  out.memory = granted.memory / share.of;
  out.local_limit = options.tmp_root.empty() ? 0 : options.local_limit / share.of;
  out.summary = granted.summary;
  return out;
}

}  // namespace harrow::agent
