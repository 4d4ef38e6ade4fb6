#include "topology/slots.h"

#include <algorithm>

#include "base/text.h"

namespace harrow::topology {

namespace {

/// The cores of `machine` that are left with what was granted of it; none when the numbers do not fit it.
std::vector<Core> CoresOf(const Grant& grant, const Machine& machine, uint32_t pus) {
  const bool by_core = grant.of == machine.cores.size();
  if (!by_core && grant.of != pus) return {};
  std::vector<Core> cores;
  uint32_t place = 0;
  const auto granted = [&] { return std::binary_search(grant.which.begin(), grant.which.end(), place); };
  for (const Core& core : machine.cores) {
    Core left{.pus = {}, .numa = core.numa};
    for (const uint32_t pu : core.pus) {
      if (granted()) left.pus.push_back(pu);
      if (!by_core) ++place;
    }
    if (by_core) ++place;
    if (!left.pus.empty()) cores.push_back(std::move(left));
  }
  return cores;
}

}  // namespace

Machine GrantedPart(const Machine& machine, const Grant& grant, uint32_t* unpinned, std::string* notice) {
  *unpinned = 0;
  const auto cores = static_cast<uint32_t>(machine.cores.size());
  uint32_t pus = 0;
  for (const Core& core : machine.cores) pus += static_cast<uint32_t>(core.pus.size());
  const bool constrained = pus < grant.online;
  if (!grant.which.empty() && !constrained) {
    Machine part = machine;
    part.cores = CoresOf(grant, machine, pus);
    if (!part.cores.empty()) return part;
  }
  if (grant.cpus == 0 || (grant.cpus >= cores && grant.cpus <= pus)) return machine;
  if (grant.cpus > pus && constrained) {
    *notice = StrCat("only ", cores, cores == 1 ? " core is" : " cores are", " used: ", grant.cpus,
                     " CPUs were granted, but this process is bound to ", pus);
    return machine;
  }
  if (grant.cpus > pus) {
    *unpinned = grant.cpus;
    *notice = StrCat("tasks are not pinned: the batch system granted ", grant.cpus,
                     " CPUs, and the machine has ", pus);
    return machine;
  }
  *unpinned = grant.cpus;
  *notice = StrCat("tasks are not pinned: ", grant.cpus, " of ", pus,
                   " CPUs were granted, and it is not known which");
  return machine;
}

SlotPlan PlanSlots(const Machine& machine, uint32_t wanted, Share share) {
  const auto cores = static_cast<uint32_t>(machine.cores.size());
  const uint32_t of_share = cores / share.of;
  const auto timed = static_cast<uint32_t>(std::max(machine.cpu_time, 1.0));
  const bool limited = machine.cpu_time > 0 && timed < cores;
  SlotPlan plan;
  if (limited) {
    plan.pinned = false;
    plan.notice = StrCat("tasks are not pinned: the control group allows the time of ", timed,
                         timed == 1 ? " CPU" : " CPUs", " on ", cores, " cores");
  } else if (cores % share.of != 0) {
    plan.pinned = false;
    plan.notice = StrCat("tasks are not pinned: ", cores, cores == 1 ? " core does" : " cores do",
                         " not divide among ", share.of, " nodes");
  } else if (wanted > of_share) {
    plan.pinned = false;
    plan.notice =
        StrCat("tasks are not pinned: ", wanted, " slots are more than the ", of_share,
               of_share == 1 ? " core" : " cores", share.of > 1 ? " of this node's share" : " allowed");
  }
  const uint32_t count = wanted > 0 ? wanted : std::max<uint32_t>(1, limited ? timed / share.of : of_share);
  plan.slots.resize(count);
  if (!plan.pinned) return plan;
  for (uint32_t i = 0; i < count; ++i) {
    const Core& core = machine.cores[share.index * of_share + i];
    plan.slots[i] = {.pus = core.pus, .numa = core.numa};
  }
  return plan;
}

}  // namespace harrow::topology
