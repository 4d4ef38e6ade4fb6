#include "topology/machine.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <hwloc.h>
#include <map>
#include <memory>
#include <unistd.h>

#include "base/text.h"
#include "topology/cpu_limit.h"

namespace harrow::topology {
namespace {

struct TopologyDelete {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyPtr = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDelete>;

struct BitmapDelete {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using BitmapPtr = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, BitmapDelete>;

Status Failed(const std::string& what) {
  return Status(Code::kInvalid,
                StrCat("cannot read the machine's topology from ", what, ": ", strerror(errno)));
}

/// GPUs by PCI vendor and class, in the order of their bus addresses. On this machine only those with a
/// driver.
std::vector<Device> FindDevices(hwloc_topology_t topology, bool this_machine) {
  constexpr unsigned kVendorNvidia = 0x10de;
  constexpr unsigned kVendorAmd = 0x1002;
  std::vector<Device> devices;
  uint32_t nvidia = 0;
  uint32_t amd = 0;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_pcidev(topology, object)) != nullptr;) {
    const auto& pci = object->attr->pcidev;
    const unsigned major_class = pci.class_id >> 8;
    if (major_class != 0x03 && major_class != 0x12) continue;  // display, accelerator
    if (pci.vendor_id == kVendorNvidia && (!this_machine || access("/proc/driver/nvidia", F_OK) == 0)) {
      devices.push_back({.kind = DeviceKind::kNvidia, .id = StrCat(nvidia++)});
    } else if (pci.vendor_id == kVendorAmd && (!this_machine || access("/dev/kfd", F_OK) == 0)) {
      devices.push_back({.kind = DeviceKind::kAmd, .id = StrCat(amd++)});
    }
  }
  return devices;
}

std::vector<uint32_t> Numbers(hwloc_const_bitmap_t bitmap) {
  std::vector<uint32_t> numbers;
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i))
    numbers.push_back(static_cast<uint32_t>(i));
  return numbers;
}

std::string Summary(const Machine& machine) {
  size_t pus = 0;
  for (const Core& core : machine.cores) pus += core.pus.size();
  std::string text = StrCat(machine.cores.size(), machine.cores.size() == 1 ? " core" : " cores");
  if (pus != machine.cores.size()) text += StrCat(" of ", pus, " PUs");
  if (machine.numa_nodes > 1) text += StrCat(", ", machine.numa_nodes, " NUMA nodes");
  if (machine.memory > 0) text += ", " + FormatBytes(machine.memory);
  if (!machine.devices.empty())
    text += StrCat(", ", machine.devices.size(), " GPU", machine.devices.size() == 1 ? "" : "s");
  return text;
}

std::vector<std::string> SplitList(const std::string& list) {
  std::vector<std::string> ids;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) ids.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return ids;
}

/// Slurm names each GPU in the variables of all kinds that it knows where gres.conf does not tell the kind: the
/// devices of which kind there are then. None: as far as is seen there are of both.
std::optional<DeviceKind> OnlyKind(const Machine& machine) {
  const auto has = [&](DeviceKind kind) {
    return std::any_of(machine.devices.begin(), machine.devices.end(),
                       [kind](const Device& device) { return device.kind == kind; });
  };
  const bool nvidia = has(DeviceKind::kNvidia), amd = has(DeviceKind::kAmd);
  if (nvidia && amd) return std::nullopt;
  return amd || (!nvidia && access("/dev/kfd", F_OK) == 0) ? DeviceKind::kAmd : DeviceKind::kNvidia;
}

}  // namespace

Result<Machine> ReadMachine(const MachineSource& source) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Failed("hwloc");
  const TopologyPtr topology(raw);
  std::string what = "this machine";
  if (!source.xml_file.empty()) {
    what = source.xml_file;
    if (hwloc_topology_set_xml(raw, source.xml_file.c_str()) != 0) return Failed(what);
  } else if (!source.synthetic.empty()) {
    what = StrCat("'", source.synthetic, "'");
    if (hwloc_topology_set_synthetic(raw, source.synthetic.c_str()) != 0) return Failed(what);
  } else if (const char* xml = getenv("HWLOC_XMLFILE")) {
    what = StrCat(xml, " (HWLOC_XMLFILE)");
  }
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) return Failed(what);

  const bool this_machine = hwloc_topology_is_thissystem(raw) != 0;
  const BitmapPtr allowed(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(raw)));
  if (this_machine) {
    const BitmapPtr bound(hwloc_bitmap_alloc());
    if (hwloc_get_cpubind(raw, bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
      hwloc_bitmap_and(allowed.get(), allowed.get(), bound.get());
  }

  Machine machine;
  std::map<int, uint32_t> numa_of;  // by OS number; memory-only nodes have no core
  const int core_count = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE);
  // A machine description without cores (some virtual machines) has PUs still.
  const hwloc_obj_type_t type = core_count > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  const BitmapPtr usable(hwloc_bitmap_alloc());
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(raw, type, object)) != nullptr;) {
    hwloc_bitmap_and(usable.get(), object->cpuset, allowed.get());
    if (hwloc_bitmap_iszero(usable.get())) continue;
    const int numa = object->nodeset != nullptr ? hwloc_bitmap_first(object->nodeset) : 0;
    const uint32_t index = numa_of.try_emplace(numa, static_cast<uint32_t>(numa_of.size())).first->second;
    machine.cores.push_back({.pus = Numbers(usable.get()), .numa = index});
  }
  if (machine.cores.empty()) return Status(Code::kInvalid, StrCat("no usable core found in ", what));
  machine.numa_nodes = std::max<uint32_t>(1, static_cast<uint32_t>(numa_of.size()));
  machine.memory = hwloc_get_root_obj(raw)->total_memory;
  if (this_machine) {
    // Where a virtual machine is given memory as it runs, its NUMA nodes tell of a part of it.
    const auto pages = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
    machine.memory = std::max(machine.memory, pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    machine.cpu_time = CpuTimeLimit().value_or(0);
  }
  machine.devices = FindDevices(raw, this_machine);
  machine.summary = Summary(machine);
  return machine;
}

void KeepVisibleDevices(const std::optional<std::string>& cuda_visible_devices,
                        const std::optional<std::string>& rocr_visible_devices, Machine* machine) {
  const std::optional<DeviceKind> only =
      cuda_visible_devices == rocr_visible_devices ? OnlyKind(*machine) : std::nullopt;
  const auto keep = [machine, only](DeviceKind kind, const std::optional<std::string>& list) {
    if (!list) return;
    std::erase_if(machine->devices, [kind](const Device& device) { return device.kind == kind; });
    if (*list == "NoDevFiles" || *list == "-1" || *list == "none" || (only && kind != *only)) return;
    for (std::string& id : SplitList(*list)) machine->devices.push_back({.kind = kind, .id = std::move(id)});
  };
  keep(DeviceKind::kNvidia, cuda_visible_devices);
  keep(DeviceKind::kAmd, rocr_visible_devices);
  machine->summary = Summary(*machine);
}

}  // namespace harrow::topology
