// With files on the nodes' own disks: whether tasks go to another server, by what would have to be copied for them (server/to_copy.h).

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

/// A makes a file for each of 20 tasks that read it.
std::vector<TinyTask> ReadersOfTheirOwn(const graph::Profile& profile = {}) {
  std::vector<TinyTask> tasks = {{"a", "a"}};
  for (int i = 0; i < 20; ++i) {
    tasks[0].out.push_back("f" + std::to_string(i));
    tasks.push_back({"r" + std::to_string(i), "r", {tasks[0].out.back()}, {}, profile});
  }
  return tasks;
}

/// A makes a file; some tasks read nothing, and later ones that file.
std::vector<TinyTask> ReadersOfOne(int nothing, int readers, const graph::Profile& profile = {}) {
  std::vector<TinyTask> tasks = {{"a", "a", {}, {"f"}}};
  for (int i = 0; i < nothing; ++i) tasks.push_back({"n" + std::to_string(i), "n"});
  for (int i = 0; i < readers; ++i) tasks.push_back({"r" + std::to_string(i), "r", {"f"}, {}, profile});
  return tasks;
}

graph::Profile OfAnotherShape() {
  graph::Profile profile;
  profile.shape.cores = 1;
  profile.shape.memory = 1;
  return profile;
}

/// A, the first task, is done at the first server.
void MakeFiles(Several& run, int64_t bytes) {
  run.bytes_of_files = bytes;
  run.ConnectAll();
  run.Settle();
  run.End(0, 0);
  run.Settle();
}

uint64_t Ready(Several& run) {
  return run[0].driver->scheduler().counts().ready;
}

/// The supervisor asks the first server for all that is ready there.
void AskToGive(Several& run, Duration saves, uint64_t late = 0, uint64_t count = 100, Duration each = Duration(1)) {
  static uint64_t number = 0;
  pb::BetweenServers message;
  pb::MoveAsked* const asked = message.add_asked();
  asked->mutable_id()->set_epoch(9);
  asked->mutable_id()->set_number(++number);
  asked->set_to(1);
  asked->mutable_shape()->set_cores(1);
  asked->mutable_shape()->set_nodes(1);
  asked->set_count(count);
  asked->mutable_saving()->set_last_ns(saves.count());
  asked->mutable_saving()->set_each_ns(each.count());
  asked->mutable_saving()->set_late(late);
  ASSERT_TRUE(run[0].others->Take(1, message).ok());
  run.Turn(0);
  run.Settle();
}

/// A move costs what its files take: those that only nodes here have, each once, as fast as files were copied lately.
TEST(FilesWorth, WhatComesAlongCountsInWhetherTasksGo) {
  using std::chrono::seconds;
  Several run({{"a", "a", {}, {"f", "g"}}, {"r", "r", {"f"}}, {"s", "s", {"f"}}, {"t", "t", {"f"}}, {"u", "u", {"f"}}, {"v", "v", {"f", "g"}}}, {1, 1}, false, true);
  MakeFiles(run, 300'000'000);
  const auto there = [&] { return run[1].driver->scheduler().counts().total - run[1].driver->scheduler().counts().elsewhere; };
  const uint64_t all = Ready(run), before = there();
  ASSERT_GE(all, 3u);
  AskToGive(run, seconds(2));
  EXPECT_EQ(Ready(run), all) << "f alone would take 3 s";
  AskToGive(run, seconds(2), 1);
  EXPECT_EQ(Ready(run), all - 1) << "one would not begin before the end";
  EXPECT_EQ(there(), before + 1);
  // What one of them reads the others have there, too.
  AskToGive(run, seconds(4));
  EXPECT_EQ(Ready(run), 1u) << "but g is more than is saved";
  run.put_takes = seconds(60);
  run.SettlePuts(0);
  ASSERT_FALSE(run.exchange.empty());
  AskToGive(run, seconds(4));
  EXPECT_EQ(Ready(run), 1u) << "5 MB/s were seen, and g is 300 MB";
  AskToGive(run, seconds(6));
  EXPECT_EQ(Ready(run), 1u);
  run.Pass(0, std::chrono::minutes(20));
  AskToGive(run, seconds(6));
  EXPECT_EQ(Ready(run), 0u) << "that was long ago";
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

/// As long as none has ended it is known how long they have run.
TEST(FilesWorth, TasksOfANewKindGoWhenTheyAreSeenToTakeLong) {
  Several run(ReadersOfTheirOwn(OfAnotherShape()), {1, 1}, false, true);
  MakeFiles(run, 200'000'000);
  ASSERT_EQ(run[0].runs.size(), 1u);
  run.Begins(0, run[0].runs.begin()->first);
  ASSERT_EQ(Ready(run), 19u);
  run.Pass(0, std::chrono::milliseconds(10));
  run.Report();
  run.Settle();
  EXPECT_EQ(Ready(run), 19u) << "they may be over at once, and each file takes 2 s";
  run.Pass(0, std::chrono::seconds(20));
  run.Report();
  run.Settle();
  EXPECT_LE(Ready(run), 12u);
}

TEST(FilesWorth, NothingIsCopiedForTasksOfWhichNothingIsKnown) {
  Several run(ReadersOfOne(0, 20, OfAnotherShape()), {1, 1}, false, true);
  MakeFiles(run, 200'000'000);
  run.Report();
  run.Settle();
  EXPECT_EQ(Ready(run), 19u) << "one is sent, and not known to have begun";
}

/// However many stay for their files.
TEST(FilesWorth, OlderOnesForWhichNothingIsCopiedGo) {
  Several run(ReadersOfOne(5, 600), {1, 1}, false, true);
  MakeFiles(run, int64_t{1} << 50);
  const uint64_t all = Ready(run);
  ASSERT_GE(all, 604u);
  AskToGive(run, std::chrono::hours(1), 0, 3);
  EXPECT_EQ(Ready(run), all - 3);
}

TEST(FilesWorth, WhatOthersCanReadAlreadyCostsNothing) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}}, {"c", "c", {"f"}}, {"d", "d", {"f"}}}, {1, 1}, false, true);
  MakeFiles(run, int64_t{1} << 50);
  ASSERT_EQ(Ready(run), 2u);
  AskToGive(run, std::chrono::hours(1));
  EXPECT_EQ(Ready(run), 2u);
  run.Move(3, 1);
  run.SettlePuts(0);
  ASSERT_EQ(Ready(run), 1u);
  // Of the same saving it has just said that it is too little.
  AskToGive(run, std::chrono::hours(1));
  EXPECT_EQ(Ready(run), 1u);
  run.Pass(0, std::chrono::seconds(3));
  AskToGive(run, std::chrono::hours(1));
  EXPECT_EQ(Ready(run), 0u) << "it lies in the exchange";
}

/// The files of those that went are to be copied first, whenever somebody asks.
TEST(FilesWorth, TheSameTimeIsSavedOnce) {
  Several run(ReadersOfTheirOwn(), {1, 1}, false, true);
  MakeFiles(run, 150'000'000);
  ASSERT_EQ(Ready(run), 19u);
  for (int i = 0; i < 30; ++i) {
    run.Pass(0, std::chrono::milliseconds(500));
    AskToGive(run, std::chrono::seconds(4));
  }
  EXPECT_EQ(Ready(run), 17u) << "1.5 s each";
  run.SettlePuts(0);
  run.Pass(0, std::chrono::seconds(3));
  AskToGive(run, std::chrono::seconds(4));
  EXPECT_EQ(Ready(run), 15u) << "they have been copied";
}

TEST(FilesWorth, WhatComesLaterInTheOrderDoesNotKeepOthers) {
  Several run(ReadersOfOne(5, 4), {1, 1}, false, true);
  MakeFiles(run, int64_t{1} << 55);
  const uint64_t all = Ready(run);
  ASSERT_GE(all, 8u);
  AskToGive(run, std::chrono::hours(1), 0, 3);
  EXPECT_EQ(Ready(run), all - 3);
}

TEST(FilesWorth, WhatAServerBeforeHasPutThereCostsNothing) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}}, {"c", "c", {"f"}}, {"d", "d", {"f"}}}, {1, 1}, false, true);
  MakeFiles(run, int64_t{1} << 50);
  run.Move(3, 1);
  run.SettlePuts(0);
  run.Start(0);
  run.ConnectAll();
  run.Settle();
  ASSERT_EQ(Ready(run), 1u);
  AskToGive(run, std::chrono::hours(1));
  EXPECT_EQ(Ready(run), 0u);
}

/// As an agent may tell, and a server.
TEST(FilesWorth, WrongNumbersKeepNothingAndLetNothingThrough) {
  for (const int64_t bytes : {int64_t{1} << 55, int64_t{0}}) {
    Several run({{"a", "a", {}, {"f", "g"}}, {"b", "b", {"f", "g"}}, {"c", "c", {"f", "g"}}, {"d", "d"}}, {1, 1}, false, true);
    run.put_takes = Duration::max();
    MakeFiles(run, bytes);
    AskToGive(run, Duration::max(), 0, 100, Duration::max());
    AskToGive(run, Duration::min(), 0, 100, Duration::min());
    run.Pass(0, std::chrono::minutes(1));
    AskToGive(run, Duration::max(), 0, 100, Duration(1));
    run.SettlePuts(0);
    run.Report();
    run.Settle();
    EXPECT_LE(Ready(run), 2u);
  }
}

}  // namespace
}  // namespace harrow::server
