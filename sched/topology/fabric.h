#pragma once

#include <string>

namespace harrow::topology {

/// The network that this machine has for MPI beside TCP (InfiniBand, RoCE and EFA by verbs, Omni-Path, Slingshot,
/// Aries), by a device of it; empty: none. Where that cannot be found out there is taken to be one. `root`: where /sys and
/// /dev lie.
std::string Fabric(const std::string& root = "");

}  // namespace harrow::topology
