#include "agent/node_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using topology::DeviceKind;

/// Of so many cores with one PU each, and three devices.
topology::Machine Machine(uint32_t cores) {
  topology::Machine machine{.memory = 1000, .summary = "a machine"};
  for (uint32_t i = 0; i < cores; ++i) machine.cores.push_back({.pus = {10 + i}});
  machine.devices = {{DeviceKind::kNvidia, "0"}, {DeviceKind::kNvidia, "1"}, {DeviceKind::kAmd, "0"}};
  return machine;
}

/// The PUs of the slots, one each; 0: it is not pinned.
std::vector<uint32_t> Pus(const NodePlan& plan) {
  std::vector<uint32_t> pus;
  for (const topology::Slot& slot : plan.slots) pus.push_back(slot.pus.empty() ? 0 : slot.pus[0]);
  return pus;
}

TEST(NodePlanTest, AllOfAMachineIsGiven) {
  const NodePlan plan = PlanNode({}, Machine(3));
  EXPECT_THAT(Pus(plan), ElementsAre(10, 11, 12));
  EXPECT_EQ(plan.devices, Machine(3).devices);
  EXPECT_EQ(plan.memory, 1000u);
  EXPECT_EQ(plan.summary, "a machine");
  EXPECT_EQ(plan.notice, "");
}

TEST(NodePlanTest, SlotsAreAsManyAsAreWanted) {
  EXPECT_THAT(Pus(PlanNode({.slots = 2}, Machine(3))), ElementsAre(10, 11));
  const NodePlan more = PlanNode({.slots = 4}, Machine(3));
  EXPECT_THAT(Pus(more), ElementsAre(0, 0, 0, 0));
  EXPECT_NE(more.notice, "") << "why they are not pinned";
}

TEST(NodePlanTest, TasksArePinnedUnlessNobodyWantsIt) {
  EXPECT_THAT(Pus(PlanNode({.pin = false}, Machine(2))), ElementsAre(0, 0));
}

TEST(NodePlanTest, ASitesLimitOfTasksIsOneOfSlots) {
  const NodePlan fewer = PlanNode({.most_tasks = 2}, Machine(3));
  EXPECT_THAT(Pus(fewer), ElementsAre(10, 11));
  EXPECT_EQ(fewer.notice, "") << "nobody asked for more";
  EXPECT_THAT(Pus(PlanNode({.most_tasks = 4}, Machine(3))), ElementsAre(10, 11, 12));
  EXPECT_EQ(PlanNode({.slots = 3, .most_tasks = 2}, Machine(3)).notice, "2 slots, not 3: more the site does not allow");
  EXPECT_THAT(Pus(PlanNode({.slots = 3, .most_tasks = 2}, Machine(3))), ElementsAre(10, 11));
  EXPECT_EQ(PlanNode({.slots = 2, .most_tasks = 2}, Machine(3)).notice, "");
  EXPECT_EQ(PlanNode({.slots = 2, .most_tasks = 1}, Machine(3)).notice, "1 slot, not 2: more the site does not allow");
}

TEST(NodePlanTest, PretendNodesDivideTheirMachine) {
  const TmpRoot tmp{.path = "/tmp/x"};
  AgentOptions options{.share = {.index = 1, .of = 2}, .most_tasks = 3, .local_limit = 500, .tmp_root = tmp};
  const NodePlan plan = PlanNode(options, Machine(4));
  EXPECT_THAT(Pus(plan), ElementsAre(12)) << "half of what the site allows";
  EXPECT_THAT(plan.devices, ElementsAre(Machine(4).devices[1]));
  EXPECT_EQ(plan.memory, 500u);
  EXPECT_EQ(plan.local_limit, 250u);
  options.share.index = 0;
  EXPECT_THAT(PlanNode(options, Machine(4)).devices, ElementsAre(Machine(4).devices[0], Machine(4).devices[2]));
  options.most_tasks = 1;
  EXPECT_THAT(Pus(PlanNode(options, Machine(4))), ElementsAre(10)) << "but never none";
}

TEST(NodePlanTest, WithoutADirectoryOfItsOwnThereIsNothingToLimit) {
  EXPECT_EQ(PlanNode({.local_limit = 500}, Machine(1)).local_limit, 0u);
}

TEST(NodePlanTest, WhatABatchSystemGrantedAndDoesNotNameIsANumberOfSlots) {
  // 2 of 3 CPUs, and nobody knows which.
  const NodePlan plan = PlanNode({.grant = {.cpus = 2}}, Machine(3));
  EXPECT_THAT(Pus(plan), ElementsAre(0, 0));
  EXPECT_THAT(plan.notice, HasSubstr("tasks are not pinned"));
  EXPECT_THAT(Pus(PlanNode({.slots = 1, .grant = {.cpus = 2}}, Machine(3))), ElementsAre(0));
  EXPECT_THAT(Pus(PlanNode({.grant = {.cpus = 2, .which = {0, 2}, .of = 3}}, Machine(3))), ElementsAre(10, 12));
}

}  // namespace
}  // namespace harrow::agent
