#include "multiview/files.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "multiview/memory.h"

namespace {

using namespace harrow::multiview;
using testing::Test;

class Files : public Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(name_), nullptr);
    space_ = std::make_shared<FileSpace>(name_);
  }
  void TearDown() override { EXPECT_EQ(rmdir(name_), 0) << "files have no names"; }

  char name_[32] = "/tmp/harrow-multiview-XXXXXX";
  std::shared_ptr<FileSpace> space_;
};

std::size_t Descriptors() {
  DIR* dir = opendir("/proc/self/fd");
  std::size_t n = 0;
  while (readdir(dir)) ++n;
  closedir(dir);
  return n;
}

std::size_t DiskBytes(int descriptor) {
  struct stat s;
  fstat(descriptor, &s);
  return static_cast<std::size_t>(s.st_blocks) * 512;
}

TEST_F(Files, AreTheirUsersAlone) {
  auto s = Segment::File(5000, space_);
  ASSERT_TRUE(s.ok());
  struct stat file;
  ASSERT_EQ(fstat((*s)->file(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(Files, ThousandsOfSegmentsShareADescriptor) {
  const std::size_t before = Descriptors();
  std::vector<std::unique_ptr<Segment>> segments;
  for (int i = 0; i < 1200; ++i) {
    auto s = Segment::File(5000, space_);
    ASSERT_TRUE(s.ok()) << s.status().message();
    (*s)->data()[4999] = static_cast<std::byte>(i);
    segments.push_back(std::move(*s));
  }
  EXPECT_EQ(Descriptors(), before + 1);
  for (int i = 0; i < 1200; ++i) ASSERT_EQ(segments[static_cast<std::size_t>(i)]->data()[4999], static_cast<std::byte>(i));
  segments.clear();
  EXPECT_EQ(Descriptors(), before) << "an empty file is closed";
}

// Extents never overlap, what is given back is used again, and its disk space is free in between.
TEST_F(Files, ExtentsAreApartAndUsedAgain) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<FileSpace::Extent> taken;
  std::size_t longest = 0, live = 0, most = 0;
  for (int i = 0; i < 1500; ++i) {
    if (taken.empty() || random() % 2) {
      auto e = space_->Take(1 + random() % 40'000);
      ASSERT_TRUE(e.ok()) << e.status().message();
      EXPECT_EQ(e->offset % 4096, 0u);
      for (const auto& other : taken) {
        ASSERT_TRUE(other.offset >= e->offset + e->bytes || e->offset >= other.offset + other.bytes) << i;
      }
      taken.push_back(*e);
      live += e->bytes;
    } else {
      const std::size_t k = random() % taken.size();
      live -= taken[k].bytes;
      space_->Give(taken[k]);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(k));
    }
    if (!taken.empty()) longest = std::max(longest, taken.front().file->length);
    most = std::max(most, live);
  }
  EXPECT_EQ(space_->files(), taken.empty() ? 0u : 1u);
  EXPECT_LE(longest, 4 * most);
  if (!taken.empty()) {
    EXPECT_LE(DiskBytes(taken.front().file->descriptor), live + (1 << 20));
  }
  while (!taken.empty()) space_->Give(taken.back()), taken.pop_back();
  EXPECT_EQ(space_->files(), 0u);
}

TEST_F(Files, TheLimitOfAFilesLengthIsAnErrorAndNotASignal) {
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{256 << 10, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto first = space_->Take(200 << 10), second = space_->Take(200 << 10), exact = space_->Take(256 << 10);
  auto large = space_->Take((256 << 10) + 1), huge = space_->Take(SIZE_MAX - 5);
  setrlimit(RLIMIT_FSIZE, &old);
  ASSERT_TRUE(first.ok() && second.ok() && exact.ok());
  EXPECT_EQ(space_->files(), 3u) << "where one may not become longer there is another";
  for (const auto& refused : {large, huge}) {
    EXPECT_EQ(refused.status().code(), Code::kStorage);
    EXPECT_NE(refused.status().message().find("ulimit -f"), std::string::npos) << refused.status().message();
  }
  for (const auto& e : {first, second, exact}) space_->Give(*e);
  EXPECT_EQ(space_->files(), 0u);
}

TEST_F(Files, WhatDoesNotFitOnTheDiskTakesNothing) {
  auto some = space_->Take(4096);
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(space_->Take(std::size_t{1} << 60).status().code(), Code::kStorage);
  auto more = space_->Take(4096);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->offset, 4096u);
  EXPECT_EQ(more->file, some->file);
  space_->Give(*some);
  space_->Give(*more);
}

TEST(FilesElsewhere, ADirectoryThatIsNotThereIsNamed) {
  FileSpace space("/nonexistent");
  EXPECT_NE(space.Take(1).status().message().find("/nonexistent"), std::string::npos);
}

}  // namespace
