#include "server/exchange.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "wire/harrow.pb.h"

namespace harrow::server {
namespace {

TEST(Exchange, AListIsReadAsItWasWritten) {
  const MadeFiles made{.task = TaskId(7),
                       .files = {{.file = FileId(0), .object = std::string(17, '\0'), .bytes = 0},
                                 {.file = FileId(3)},
                                 {.file = FileId(4), .in_submit_dir = true},
                                 {.file = FileId(4'000'000'000), .object = std::string(17, 'z'), .bytes = INT64_MAX}}};
  pb::MadeFiles message;
  made.Write(&message);
  const Result<MadeFiles> read = MadeFiles::Parse(message.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, made);
  EXPECT_EQ(read->Find(FileId(3)), &read->files[1]);
  EXPECT_EQ(read->Find(FileId(2)), nullptr);
  EXPECT_EQ(read->Find(FileId(4'000'000'001)), nullptr);
  EXPECT_TRUE(read->files[0].in_exchange() && read->files[1].absent() && read->files[2].in_submit_dir);
  EXPECT_EQ(read->files[0].Name(), "0-" + std::string(34, '0') + "-0");
}

TEST(Exchange, WhatIsNoListIsNone) {
  const auto parses = [](const std::vector<OutFile>& files) {
    pb::MadeFiles message;
    MadeFiles{.task = TaskId(7), .files = files}.Write(&message);
    return MadeFiles::Parse(message.SerializeAsString()).ok();
  };
  EXPECT_TRUE(parses({}));
  EXPECT_FALSE(parses({{.file = FileId(2)}, {.file = FileId(2)}}));
  EXPECT_FALSE(parses({{.file = FileId(2)}, {.file = FileId(1)}}));
  EXPECT_FALSE(parses({{.file = FileId(2), .object = std::string(16, 'a')}}));
  EXPECT_FALSE(parses({{.file = FileId(2), .object = std::string(17, 'a'), .bytes = -1}}));
  EXPECT_FALSE(MadeFiles::Parse("no list").ok());
}

TEST(Exchange, NamesOfListsAreToldFromOthers) {
  EXPECT_EQ(TaskOfList(ListName(TaskId(12), "0-1-2")), TaskId(12));
  EXPECT_EQ(TaskOfList("made-4294967294-x"), TaskId(4294967294));
  for (const char* name : {"", "made-", "made-12", "made-x-1", "made-4294967296-1", "12-00-5", "made-12-1.half-0123", "made-12-1.tmp"})
    EXPECT_FALSE(TaskOfList(name)) << name;
}

}  // namespace
}  // namespace harrow::server
