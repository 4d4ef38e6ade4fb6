#include "agent/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "agent/environment.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<const TaskProfile> Profile(ProfileSpec spec) {
  static const auto base = std::make_shared<BaseEnvironment>(EnvList(), BaseEnvironment::Common());
  return std::make_shared<TaskProfile>(std::move(spec), base);
}

LocalTask Task(uint32_t id, uint32_t cores = 1, uint32_t gpus = 0) {
  LocalTask task;
  task.id = id;
  task.profile = Profile({.cores = cores, .gpus = gpus});
  return task;
}

std::vector<uint32_t> Dispatch(Dispatcher& dispatcher, std::optional<uint32_t> caller = std::nullopt) {
  std::vector<uint32_t> given;
  dispatcher.Dispatch(caller, &given);
  return given;
}

TEST(DispatcherTest, TasksStartInTheOrderOfSending) {
  Dispatcher dispatcher({0, 0}, 0);
  for (uint32_t id : {10u, 11u, 12u}) dispatcher.Push(Task(id));
  EXPECT_THAT(Dispatch(dispatcher), ElementsAre(0, 1));
  EXPECT_EQ(dispatcher.assignment(0)->task.id, 10u);
  EXPECT_EQ(dispatcher.assignment(1)->task.id, 11u);
  dispatcher.Release(1);
  EXPECT_THAT(Dispatch(dispatcher, 1), ElementsAre(1)) << "the slot that is awake takes the next";
  EXPECT_EQ(dispatcher.assignment(1)->task.id, 12u);
  EXPECT_EQ(dispatcher.busy_slots(), 2u);
}

TEST(DispatcherTest, ATaskOfSeveralCoresHoldsTheirSlots) {
  Dispatcher dispatcher({0, 0, 1, 1}, 0);
  dispatcher.Push(Task(1));
  dispatcher.Push(Task(2, 2));
  dispatcher.Push(Task(3));
  dispatcher.Push(Task(4));
  EXPECT_THAT(Dispatch(dispatcher), ElementsAre(0, 2, 1));
  EXPECT_THAT(dispatcher.assignment(2)->slots, ElementsAre(2, 3));
  EXPECT_EQ(dispatcher.assignment(3), nullptr);
  dispatcher.Release(2);
  EXPECT_THAT(Dispatch(dispatcher, 2), ElementsAre(2));
  EXPECT_EQ(dispatcher.assignment(2)->task.id, 4u);
}

TEST(DispatcherTest, OneThatDoesNotFitYetHoldsUpThoseBehind) {
  Dispatcher dispatcher({0, 0}, 0);
  dispatcher.Push(Task(1));
  dispatcher.Push(Task(2, 2));
  dispatcher.Push(Task(3));
  EXPECT_THAT(Dispatch(dispatcher), ElementsAre(0));
  EXPECT_THAT(Dispatch(dispatcher), IsEmpty());
  EXPECT_TRUE(dispatcher.Remove({TaskId(2), 1}));
  EXPECT_THAT(Dispatch(dispatcher), ElementsAre(1));
  EXPECT_EQ(dispatcher.assignment(1)->task.id, 3u);
}

TEST(DispatcherTest, TheCallerRunsATaskOfItsOwnCores) {
  Dispatcher dispatcher({0, 0, 0}, 0);
  dispatcher.Push(Task(1, 3));
  EXPECT_THAT(Dispatch(dispatcher, 2), ElementsAre(2));
  EXPECT_THAT(dispatcher.assignment(2)->slots, ElementsAre(0, 1, 2));
}

TEST(DispatcherTest, AWholeNodeIsAllSlots) {
  Dispatcher dispatcher({0, 0, 0}, 0);
  LocalTask task;
  task.profile = Profile({.whole_node = true});
  dispatcher.Push(std::move(task));
  Dispatch(dispatcher);
  EXPECT_EQ(dispatcher.busy_slots(), 3u);
}

TEST(DispatcherTest, DevicesAreGivenOnce) {
  Dispatcher dispatcher({0, 0, 0, 0}, 3);
  dispatcher.Push(Task(1, 1, 2));
  dispatcher.Push(Task(2, 1, 1));
  dispatcher.Push(Task(3, 1, 1));
  EXPECT_THAT(Dispatch(dispatcher), ElementsAre(0, 1));
  EXPECT_THAT(dispatcher.assignment(0)->gpus, ElementsAre(0, 1));
  EXPECT_THAT(dispatcher.assignment(1)->gpus, ElementsAre(2));
  dispatcher.Release(0);
  EXPECT_THAT(Dispatch(dispatcher, 0), ElementsAre(0));
  EXPECT_THAT(dispatcher.assignment(0)->gpus, ElementsAre(0));
}

TEST(DispatcherTest, ATaskThatHasStartedCannotBeTakenBack) {
  Dispatcher dispatcher({0}, 0);
  dispatcher.Push(Task(1));
  dispatcher.Push(Task(2));
  Dispatch(dispatcher);
  EXPECT_FALSE(dispatcher.Remove({TaskId(1), 1}));
  EXPECT_TRUE(dispatcher.Remove({TaskId(2), 1}));
  EXPECT_FALSE(dispatcher.Remove({TaskId(2), 1}));
}

TEST(DispatcherTest, WhatCanNeverRunSaysWhy) {
  const Dispatcher dispatcher({0, 0}, 1);
  EXPECT_EQ(dispatcher.WhyNever(Task(1, 2, 1)), "");
  EXPECT_EQ(dispatcher.WhyNever(Task(1, 3)), "the task asks for 3 cores, this node has 2");
  EXPECT_EQ(dispatcher.WhyNever(Task(1, 1, 2)), "the task asks for 2 GPUs, this node has 1");
  LocalTask mpi;
  mpi.profile = Profile({.ranks = 4});
  EXPECT_THAT(dispatcher.WhyNever(mpi), HasSubstr("MPI"));
}

TEST(DispatcherTest, RandomUseKeepsSlotsAndDevicesApart) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr uint32_t kSlots = 12, kGpus = 3;
  std::vector<uint32_t> numa(kSlots);
  for (uint32_t i = 0; i < kSlots; ++i) numa[i] = i / 4;
  Dispatcher dispatcher(numa, kGpus);
  std::set<uint32_t> waiting, running, owners;
  uint32_t next = 0;
  for (int step = 0; step < 20'000; ++step) {
    std::vector<uint32_t> given;
    switch (random() % 4) {
      case 0:
      case 1:
        waiting.insert(next);
        dispatcher.Push(Task(next++, random() % 3 == 0 ? static_cast<uint32_t>(1 + random() % kSlots) : 1,
                             static_cast<uint32_t>(random() % 8 == 0 ? random() % (kGpus + 1) : 0)));
        break;
      case 2:
        if (owners.empty()) break;
        {
          const uint32_t owner = *std::next(owners.begin(), static_cast<long>(random() % owners.size()));
          running.erase(dispatcher.assignment(owner)->task.id);
          owners.erase(owner);
          dispatcher.Release(owner);
          dispatcher.Dispatch(owner, &given);
        }
        break;
      case 3:
        if (waiting.empty()) break;
        {
          const uint32_t task = *std::next(waiting.begin(), static_cast<long>(random() % waiting.size()));
          ASSERT_TRUE(dispatcher.Remove({TaskId(task), 1}));
          waiting.erase(task);
        }
        break;
    }
    dispatcher.Dispatch(std::nullopt, &given);
    for (uint32_t owner : given) {
      ASSERT_TRUE(owners.insert(owner).second) << "a busy slot was given a task";
      ASSERT_EQ(waiting.erase(dispatcher.assignment(owner)->task.id), 1u);
      running.insert(dispatcher.assignment(owner)->task.id);
    }
    std::set<uint32_t> slots, gpus;
    for (uint32_t owner : owners) {
      const Assignment& assignment = *dispatcher.assignment(owner);
      ASSERT_THAT(assignment.slots, testing::Contains(owner));
      for (uint32_t slot : assignment.slots) ASSERT_TRUE(slots.insert(slot).second);
      for (uint32_t gpu : assignment.gpus) ASSERT_TRUE(gpus.insert(gpu).second);
    }
    ASSERT_EQ(dispatcher.busy_slots(), slots.size());
    ASSERT_EQ(dispatcher.queue().size(), waiting.size());
    ASSERT_TRUE(!owners.empty() || waiting.empty()) << "an idle node leaves tasks waiting";
  }
}

}  // namespace
}  // namespace harrow::agent
