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
  SlotPlan plan;
  if (cores % share.of != 0) {
    plan.pinned = false;
    plan.notice = StrCat("tasks are not pinned: ", cores, cores == 1 ? " core does" : " cores do",
                         " not divide among ", share.of, " nodes");
  } else if (wanted > of_share) {
    plan.pinned = false;
    plan.notice =
        StrCat("tasks are not pinned: ", wanted, " slots are more than the ", of_share,
               of_share == 1 ? " core" : " cores", share.of > 1 ? " of this node's share" : " allowed");
  }
  const uint32_t count = wanted > 0 ? wanted : std::max<uint32_t>(1, of_share);
  plan.slots.resize(count);
  if (!plan.pinned) return plan;
  for (uint32_t i = 0; i < count; ++i) {
    const Core& core = machine.cores[share.index * of_share + i];
    plan.slots[i] = {.pus = core.pus, .numa = core.numa};
  }
  return plan;
}

CoreAllocator::CoreAllocator(const std::vector<uint32_t>& numa_of_slot)
    : free_(numa_of_slot.size(), true), node_of_slot_(numa_of_slot), free_count_(numa_of_slot.size()) {
  for (uint32_t slot = 0; slot < numa_of_slot.size(); ++slot) {
    const uint32_t node = numa_of_slot[slot];
    if (slots_of_node_.size() <= node) {
      slots_of_node_.resize(node + 1);
      free_of_node_.resize(node + 1);
    }
    slots_of_node_[node].push_back(slot);
    ++free_of_node_[node];
  }
}

void CoreAllocator::TakeSlot(uint32_t slot) {
  free_[slot] = false;
  --free_of_node_[node_of_slot_[slot]];
  --free_count_;
}

void CoreAllocator::Free(uint32_t slot) {
  free_[slot] = true;
  ++free_of_node_[node_of_slot_[slot]];
  ++free_count_;
}

void CoreAllocator::TakeFromNode(uint32_t node, uint32_t count, std::vector<uint32_t>* taken) {
  const std::vector<uint32_t>& slots = slots_of_node_[node];
  // The shortest run of free neighbours that is long enough; without one, the first that are free.
  size_t best = slots.size();
  size_t best_length = slots.size() + 1;
  for (size_t begin = 0; begin < slots.size();) {
    size_t end = begin;
    while (end < slots.size() && free_[slots[end]]) ++end;
    if (end - begin >= count && end - begin < best_length) {
      best = begin;
      best_length = end - begin;
    }
    begin = end + 1;
  }
  uint32_t left = count;
  for (size_t i = best < slots.size() ? best : 0; i < slots.size() && left > 0; ++i) {
    if (!free_[slots[i]]) continue;
    TakeSlot(slots[i]);
    taken->push_back(slots[i]);
    --left;
  }
}

std::optional<std::vector<uint32_t>> CoreAllocator::Take(uint32_t count) {
  if (count == 0 || count > free_count_) return std::nullopt;
  std::vector<uint32_t> taken;
  const auto nodes = static_cast<uint32_t>(slots_of_node_.size());
  uint32_t fit = nodes;
  for (uint32_t node = 0; node < nodes; ++node) {
    if (free_of_node_[node] >= count && (fit == nodes || free_of_node_[node] < free_of_node_[fit]))
      fit = node;
  }
  if (fit < nodes) {
    TakeFromNode(fit, count, &taken);
    return taken;
  }
  while (taken.size() < count) {
    const auto fullest = std::max_element(free_of_node_.begin(), free_of_node_.end());
    const auto left = static_cast<uint32_t>(count - taken.size());
    TakeFromNode(static_cast<uint32_t>(fullest - free_of_node_.begin()), std::min(*fullest, left), &taken);
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

}  // namespace harrow::topology
