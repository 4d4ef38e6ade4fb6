#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "topology/machine.h"
#include "topology/slots.h"

namespace harrow::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Machine Synthetic(const std::string& description) {
  Result<Machine> machine = ReadMachine({.synthetic = description});
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  return machine.ok() ? *machine : Machine();
}

TEST(MachineTest, TwoNumaNodesOfHyperthreadedCores) {
  const Machine machine = Synthetic("numa:2(memory=8GB) core:2 pu:2");
  ASSERT_EQ(machine.cores.size(), 4u);
  EXPECT_EQ(machine.cores[0], (Core{.pus = {0, 1}, .numa = 0}));
  EXPECT_EQ(machine.cores[1], (Core{.pus = {2, 3}, .numa = 0}));
  EXPECT_EQ(machine.cores[2], (Core{.pus = {4, 5}, .numa = 1}));
  EXPECT_EQ(machine.cores[3], (Core{.pus = {6, 7}, .numa = 1}));
  EXPECT_EQ(machine.numa_nodes, 2u);
  EXPECT_GE(machine.memory, 16'000'000'000u);
  EXPECT_THAT(machine.summary, HasSubstr("4 cores of 8 PUs, 2 NUMA nodes"));
}

TEST(MachineTest, OsNumbersMayInterleave) {
  // As most Linux machines count: first one thread of every core, then the other.
  const Machine machine = Synthetic("core:4 pu:2(indexes=0,4,1,5,2,6,3,7)");
  ASSERT_EQ(machine.cores.size(), 4u);
  EXPECT_THAT(machine.cores[1].pus, ElementsAre(1, 5));
}

TEST(MachineTest, CachesAndPackagesDoNotMatter) {
  const Machine machine = Synthetic("pack:2 l3:2 l2:1 core:3 pu:1");
  EXPECT_EQ(machine.cores.size(), 12u);
  EXPECT_EQ(machine.numa_nodes, 1u);
}

TEST(MachineTest, APuWithoutACoreIsACore) {
  EXPECT_EQ(Synthetic("pack:1 pu:3").cores.size(), 3u);
}

TEST(MachineTest, ABadDescriptionIsAnError) {
  Result<Machine> machine = ReadMachine({.synthetic = "core:two"});
  EXPECT_EQ(machine.status().code(), Code::kInvalid);
  EXPECT_THAT(machine.status().message(), HasSubstr("core:two"));
  machine = ReadMachine({.xml_file = "no/such/file.xml"});
  EXPECT_FALSE(machine.ok());
  EXPECT_THAT(machine.status().message(), HasSubstr("no/such/file.xml"));
}

TEST(MachineTest, ARecordedMachineWithDisallowedCoresAndGpus) {
  Result<Machine> machine =
      ReadMachine({.xml_file = std::string(HARROW_SOURCE_DIR) + "/tests/data/topology/gpu-node.xml"});
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  ASSERT_EQ(machine->cores.size(), 3u) << "core 0 is not in the allowed cpuset";
  EXPECT_THAT(machine->cores[0].pus, ElementsAre(1));
  EXPECT_EQ(machine->cores[2].numa, 1u);
  EXPECT_THAT(machine->devices,
              ElementsAre(Device{DeviceKind::kNvidia, "0"}, Device{DeviceKind::kNvidia, "1"}));
}

TEST(MachineTest, ThisMachineHasACore) {
  Result<Machine> machine = ReadMachine();
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_GE(machine->cores.size(), 1u);
}

TEST(MachineTest, GrantedDevicesReplaceFoundOnes) {
  Machine machine;
  machine.devices = {{DeviceKind::kNvidia, "0"}, {DeviceKind::kNvidia, "1"}, {DeviceKind::kAmd, "0"}};
  KeepVisibleDevices("GPU-1a2b,3", std::nullopt, &machine);
  EXPECT_THAT(machine.devices,
              ElementsAre(Device{DeviceKind::kAmd, "0"}, Device{DeviceKind::kNvidia, "GPU-1a2b"},
                          Device{DeviceKind::kNvidia, "3"}));
  KeepVisibleDevices("NoDevFiles", "", &machine);
  EXPECT_THAT(machine.devices, IsEmpty());
}

TEST(MachineTest, DevicesThatBothVariablesNameAreOneEach) {
  const auto kept = [](std::vector<Device> found) {
    Machine machine;
    machine.devices = std::move(found);
    KeepVisibleDevices("1,2", "1,2", &machine);
    return machine.devices;
  };
  const Device nvidia{DeviceKind::kNvidia, "1"}, amd{DeviceKind::kAmd, "1"};
  EXPECT_THAT(kept({nvidia}), ElementsAre(nvidia, Device{DeviceKind::kNvidia, "2"}));
  EXPECT_THAT(kept({amd}), ElementsAre(amd, Device{DeviceKind::kAmd, "2"}));
  EXPECT_EQ(kept({}).size(), 2u);
  EXPECT_EQ(kept({nvidia, amd}).size(), 4u);
}

TEST(SlotPlanTest, EveryCoreIsASlotUnlessFewerAreWanted) {
  const Machine machine = Synthetic("numa:2 core:2 pu:2");
  const SlotPlan all = PlanSlots(machine, 0);
  ASSERT_EQ(all.slots.size(), 4u);
  EXPECT_TRUE(all.pinned);
  EXPECT_THAT(all.slots[3].pus, ElementsAre(6, 7));
  EXPECT_EQ(all.slots[3].numa, 1u);
  EXPECT_EQ(PlanSlots(machine, 3).slots.size(), 3u);
  EXPECT_TRUE(PlanSlots(machine, 3).pinned);
}

TEST(SlotPlanTest, MoreSlotsThanCoresAreNotPinned) {
  const SlotPlan plan = PlanSlots(Synthetic("core:2 pu:1"), 125);
  EXPECT_EQ(plan.slots.size(), 125u);
  EXPECT_FALSE(plan.pinned);
  EXPECT_THAT(plan.slots[7].pus, IsEmpty());
  EXPECT_EQ(plan.notice, "tasks are not pinned: 125 slots are more than the 2 cores allowed");
}

TEST(SlotPlanTest, PretendNodesDivideTheCores) {
  const Machine machine = Synthetic("core:4 pu:1");
  const SlotPlan second = PlanSlots(machine, 0, {.index = 1, .of = 2});
  ASSERT_EQ(second.slots.size(), 2u);
  EXPECT_TRUE(second.pinned);
  EXPECT_THAT(second.slots[0].pus, ElementsAre(2));
  EXPECT_THAT(second.slots[1].pus, ElementsAre(3));
  const SlotPlan uneven = PlanSlots(machine, 0, {.index = 0, .of = 3});
  EXPECT_EQ(uneven.slots.size(), 1u);
  EXPECT_FALSE(uneven.pinned);
  const SlotPlan crowded = PlanSlots(machine, 0, {.index = 7, .of = 8});
  EXPECT_EQ(crowded.slots.size(), 1u);
  EXPECT_FALSE(crowded.pinned);
  EXPECT_FALSE(PlanSlots(machine, 3, {.index = 0, .of = 2}).pinned);
}

TEST(GrantTest, LeavesWhatWasGranted) {
  const Machine machine = Synthetic("numa:2 core:2 pu:2");
  uint32_t unpinned = 1;
  std::string notice;
  for (const uint32_t all : {0u, 4u, 8u}) {  // counted as cores or as PUs
    EXPECT_EQ(GrantedPart(machine, {.cpus = all}, &unpinned, &notice).cores, machine.cores);
    EXPECT_EQ(unpinned, 0u);
  }
  const Machine part = GrantedPart(machine, {.cpus = 3, .which = {2, 3, 6}, .of = 8}, &unpinned, &notice);
  ASSERT_EQ(part.cores.size(), 2u);
  EXPECT_THAT(part.cores[0].pus, ElementsAre(2, 3));
  EXPECT_THAT(part.cores[1].pus, ElementsAre(6));
  EXPECT_EQ(unpinned, 0u);
  EXPECT_EQ(notice, "");
}

TEST(GrantTest, CpusMayBeCores) {
  const Machine machine = Synthetic("core:4 pu:2");
  uint32_t unpinned = 0;
  std::string notice;
  const Machine part =
      GrantedPart(machine, {.cpus = 2, .online = 8, .which = {1, 2}, .of = 4}, &unpinned, &notice);
  ASSERT_EQ(part.cores.size(), 2u);
  EXPECT_EQ(part.cores[0].pus, machine.cores[1].pus);
  EXPECT_EQ(part.cores[1].pus, machine.cores[2].pus);
  EXPECT_EQ(notice, "");
  // As many CPUs as there are cores, and only half of the cores.
  EXPECT_EQ(
      GrantedPart(machine, {.cpus = 4, .which = {0, 1, 2, 3}, .of = 8}, &unpinned, &notice).cores.size(), 2u);
}

TEST(GrantTest, WhichCpusIsNoMatterWhereSomethingConstrains) {
  const Machine machine = Synthetic("core:4 pu:1");
  uint32_t unpinned = 0;
  std::string notice;
  const Grant grant{.cpus = 4, .online = 8, .which = {4, 5, 6, 7}, .of = 8};
  EXPECT_EQ(GrantedPart(machine, grant, &unpinned, &notice).cores, machine.cores);
  EXPECT_EQ(unpinned, 0u);
}

TEST(GrantTest, UnpinnedWhereTheGrantCannotBePlaced) {
  const Machine machine = Synthetic("core:4 pu:1");
  uint32_t unpinned = 0;
  std::string notice;
  EXPECT_EQ(GrantedPart(machine, {.cpus = 3}, &unpinned, &notice).cores.size(), 4u);
  EXPECT_EQ(unpinned, 3u);
  EXPECT_EQ(notice, "tasks are not pinned: 3 of 4 CPUs were granted, and it is not known which");
  const Grant of_another{.cpus = 3, .which = {0, 1, 2}, .of = 6};
  EXPECT_EQ(GrantedPart(machine, of_another, &unpinned, &notice).cores.size(), 4u);
  EXPECT_EQ(unpinned, 3u);
  EXPECT_EQ(GrantedPart(machine, {.cpus = 6, .online = 8}, &unpinned, &notice).cores.size(), 4u);
  EXPECT_EQ(unpinned, 0u);
  EXPECT_EQ(notice, "only 4 cores are used: 6 CPUs were granted, but this process is bound to 4");
  GrantedPart(machine, {.cpus = 6, .online = 4}, &unpinned, &notice);
  EXPECT_EQ(unpinned, 6u);
  EXPECT_EQ(notice, "tasks are not pinned: the batch system granted 6 CPUs, and the machine has 4");
}

}  // namespace
}  // namespace harrow::topology
