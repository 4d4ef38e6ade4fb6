#include "made/copies.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "run_dir/names.h"

namespace harrow::made {
namespace {

namespace fs = std::filesystem;

class CopiesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-copies-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = name;
    fs::create_directories(run_dir::OutputDirectory(top_));
  }
  void TearDown() override { fs::remove_all(top_); }
  std::string Write(const std::string& name) {
    std::ofstream(top_ + "/" + name) << "x";
    return top_ + "/" + name;
  }
  void RemoveLeft() { RemoveLeftCopies(os::RealFileSystem(), top_); }
  std::string top_;
};

TEST_F(CopiesTest, WhatAKilledAgentLeftIsRemovedAndNothingElse) {
  const std::string list = run_dir::CopiesPath(top_, 7);
  const std::string left = Write("new\nline .harrow"), odd = Write(".harrow-x.tmp"), result = Write("result");
  const std::string copy = Write(".harrow-123.tmp"), other = Write(".harrow-9.tmp");
  {
    Copies copies;
    copies.Add(copy);  // not known where to write it yet
    copies.Set(list);
    EXPECT_FALSE(fs::exists(list));
    for (const std::string& path :
         {left, odd, result, top_ + "/.harrow-1.tmp", copy, std::string(".harrow-9.tmp")})
      copies.Add(path);
  }                                             // killed
  std::ofstream(list, std::ios::app) << other;  // half a path may be another's
  RemoveLeft();
  EXPECT_FALSE(fs::exists(copy));
  for (const std::string& path : {left, odd, result, other}) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_FALSE(fs::exists(list));
  RemoveLeft();
}

TEST_F(CopiesTest, OfALongListTheNewestAreLookedFor) {
  const std::string list = run_dir::CopiesPath(top_, 7);
  const std::string old = Write(".harrow-1.tmp"), first = Write(".harrow-2.tmp"), last = Write(".harrow-3.tmp");
  {
    Copies copies;
    copies.Set(list);
    copies.Add(old);
    copies.Add(first);
    for (int i = 0; i < 19'998; ++i) copies.Add("/nowhere/.harrow-1.tmp");
    copies.Add(last);
  }
  RemoveLeft();
  EXPECT_TRUE(fs::exists(old));
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(last));
}

TEST_F(CopiesTest, AnAgentThatEndsLeavesNoList) {
  const std::string list = run_dir::CopiesPath(top_, 7);
  Copies copies;
  copies.Remove();
  copies.Set(list);
  copies.Add("/a/.harrow-1.tmp");
  EXPECT_TRUE(fs::exists(list));
  copies.Remove();
  EXPECT_FALSE(fs::exists(list));
}

}  // namespace
}  // namespace harrow::made
