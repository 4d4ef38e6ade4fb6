#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace harrow::topology {

struct Core {
  std::vector<uint32_t> pus;  // OS numbers of its allowed hardware threads, ascending, never empty
  uint32_t numa = 0;          // index of its NUMA node, from 0
  bool operator==(const Core&) const = default;
};

enum class DeviceKind : uint8_t { kNvidia, kAmd };

struct Device {
  DeviceKind kind = DeviceKind::kNvidia;
  std::string id;  // as CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES takes it
  bool operator==(const Device&) const = default;
};

/// What this process may use of a machine.
struct Machine {
  std::vector<Core> cores{};  // in the machine's order: neighbours share caches
  uint32_t numa_nodes = 1;
  uint64_t memory = 0;  // bytes; 0: unknown
  double cpu_time = 0;  // CPUs whose time may be used, on whichever cores; 0: all
  std::vector<Device> devices{};
  std::string summary{};  // one line for people
};

/// Where a machine is described. All empty: this machine, and then what hwloc's own variables say
/// (HWLOC_XMLFILE, HWLOC_SYNTHETIC).
struct MachineSource {
  std::string xml_file{};
  std::string synthetic{};  // "numa:2 core:4 pu:2"
};

Result<Machine> ReadMachine(const MachineSource& source = {});

/// Keeps to the devices that the variables name, when set: they are what a batch system has granted. What both
/// name alike is counted once, where the machine has not devices of both kinds.
void KeepVisibleDevices(const std::optional<std::string>& cuda_visible_devices,
                        const std::optional<std::string>& rocr_visible_devices, Machine* machine);

}  // namespace harrow::topology
