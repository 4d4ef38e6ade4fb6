#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/machine.h"

namespace harrow::topology {

/// One of `of` equal pretend nodes of a machine.
struct Share {
  uint32_t index = 0;
  uint32_t of = 1;
};

struct Slot {
  std::vector<uint32_t> pus{};  // what its tasks are pinned to; empty when unpinned
  uint32_t numa = 0;
};

struct SlotPlan {
  std::vector<Slot> slots;
  bool pinned = true;
  std::string notice;  // why tasks are not pinned; empty when they are
};

/// What a batch system granted of a machine. It may take a machine's cores for its CPUs, or its PUs.
struct Grant {
  uint32_t cpus = 0;              // PUs or cores, as its administrator counts; 0: all
  uint32_t online = 0;            // PUs of the whole machine, also those this process may not use; 0: unknown
  std::vector<uint32_t> which{};  // the CPUs, by their place in the machine's order; empty: all, or unknown
  uint32_t of = 0;                // how many there are, which tells whether they are PUs or cores
};

/// The part of a machine that a grant leaves. Where nothing keeps this process to what was granted, only the
/// granted PUs stay; `*notice` tells when they are not known, or are more than there are: then there are as
/// many slots as were granted, and nothing is pinned (`*unpinned`, else 0); and when this process may use
/// less than was granted.
Machine GrantedPart(const Machine& machine, const Grant& grant, uint32_t* unpinned, std::string* notice);

/// `wanted` slots (0: one a core, or as many as there is CPU time for) of a machine's share: the first cores of the share, each one slot. When the
/// machine does not divide into the shares, or the share has fewer cores than wanted, slots are a number only
/// and nothing is pinned.
SlotPlan PlanSlots(const Machine& machine, uint32_t wanted, Share share = {});

}  // namespace harrow::topology
