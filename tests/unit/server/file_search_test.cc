// Whom a server asks for what tasks have made, and in which order.

#include "server/file_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace harrow::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TaskId kTask(7);

class FileSearchTest : public ::testing::Test {
 protected:
  std::vector<std::string> Told() { return std::exchange(told_, {}); }
  void Connect(std::initializer_list<uint32_t> parts) {
    for (const uint32_t part : parts) search_.Connected(part);
  }
  void Begin(std::optional<uint32_t> first = {}, bool again = false) { search_.Begin(kTask, {FileId(1)}, first, again); }

  bool can_make_ = true;
  std::vector<std::string> told_;
  FileSearch search_{{.ask =
                          [this](uint32_t part, TaskId task, const std::vector<FileId>& files, bool make, bool again) {
                            EXPECT_EQ(task, kTask);
                            EXPECT_THAT(files, ElementsAre(FileId(1)));
                            told_.push_back((make ? "make " : again ? "again " : "ask ") + std::to_string(part));
                          },
                      .can_make = [this](TaskId) { return can_make_; },
                      .not_found = [this](TaskId) { told_.push_back("none"); }}};
};

TEST_F(FileSearchTest, WhereNobodyElseIsNobodyHasIt) {
  Begin();
  EXPECT_THAT(Told(), ElementsAre("none"));
  EXPECT_FALSE(search_.Searches(kTask));
}

TEST_F(FileSearchTest, OneAfterTheOtherIsAskedFirstWhoToldOfTheTask) {
  Connect({1, 2, 3});
  Begin(2);
  EXPECT_THAT(Told(), ElementsAre("ask 2"));
  search_.NotHad(1, kTask);
  EXPECT_THAT(Told(), IsEmpty()) << "it was not asked";
  search_.NotHad(2, kTask);
  EXPECT_THAT(Told(), ElementsAre("ask 1"));
  search_.NotHad(2, kTask);
  EXPECT_THAT(Told(), IsEmpty()) << "twice";
  search_.NotHad(1, kTask);
  EXPECT_THAT(Told(), ElementsAre("ask 3"));
  search_.NotHad(3, kTask);
  EXPECT_THAT(Told(), ElementsAre("none")) << "it can be made here";
  search_.NotHad(3, kTask);
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(FileSearchTest, WhatCannotBeMadeHereOthersAreAskedToMake) {
  can_make_ = false;
  Connect({1, 2});
  Begin({}, true);
  search_.NotHad(1, kTask);
  EXPECT_THAT(Told(), ElementsAre("again 1", "again 2"));
  search_.NotHad(2, kTask);
  EXPECT_THAT(Told(), ElementsAre("make 1"));
  search_.NotHad(1, kTask);
  search_.NotHad(2, kTask);
  EXPECT_THAT(Told(), ElementsAre("make 2", "none"));
}

TEST_F(FileSearchTest, WhoIsAwayIsWaitedForAndAskedAgain) {
  Connect({1, 2});
  Begin();
  search_.Disconnected(1);
  search_.Disconnected(2);
  EXPECT_THAT(Told(), ElementsAre("ask 1"));
  Connect({2});
  EXPECT_THAT(Told(), IsEmpty());
  Connect({1});
  EXPECT_THAT(Told(), ElementsAre("ask 1"));
  search_.Disconnected(2);
  search_.NotHad(1, kTask);
  EXPECT_THAT(Told(), IsEmpty()) << "2 may have it";
  search_.Over(2);
  EXPECT_THAT(Told(), ElementsAre("none"));
}

TEST_F(FileSearchTest, WhoIsOverIsNotAskedAnyMore) {
  Connect({1, 2, 3});
  search_.Over(3);
  Begin();
  search_.Over(1);
  EXPECT_THAT(Told(), ElementsAre("ask 1", "ask 2"));
  search_.Over(2);
  EXPECT_THAT(Told(), ElementsAre("none"));
}

TEST_F(FileSearchTest, AnAnswerEndsIt) {
  Connect({1, 2});
  Begin();
  search_.End(kTask);
  search_.NotHad(1, kTask);
  search_.Over(1);
  EXPECT_THAT(Told(), ElementsAre("ask 1"));
}

}  // namespace
}  // namespace harrow::server
