// Which tasks go to another allocation, where what they read has to be copied for them.

#include "server/to_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace harrow::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kSpeed = 100e6;  // bytes a second
constexpr int64_t kOneSecond = 100'000'000;  // bytes

/// Files of kOneSecond bytes; task, what it reads.
class Reading {
 public:
  Reading(std::map<uint32_t, std::vector<uint32_t>> reads, std::map<uint32_t, uint32_t> node_of = {}) : reads_(std::move(reads)), node_of_(std::move(node_of)) {
    for (const auto& [task, files] : reads_) tasks_.emplace_back(task);
  }
  std::vector<uint32_t> Go(uint64_t count, const std::optional<supervisor::Saving>& saving) {
    const Movable found = WorthCopying(tasks_, coming_, count, saving, kSpeed, files_of_);
    dear = found.dear.has_value();
    costs = found.dear.value_or(Duration(0));
    std::vector<uint32_t> go;
    for (const TaskId task : found.tasks) go.push_back(task.value);
    return go;
  }
  void Gone(uint32_t task) {
    std::erase(tasks_, TaskId(task));
    const std::vector<ToCopy> files = files_of_(TaskId(task));
    coming_.insert(coming_.end(), files.begin(), files.end());
  }
  Duration Time() const {
    std::vector<ToCopy> all;
    for (const TaskId task : tasks_) {
      const std::vector<ToCopy> files = files_of_(task);
      all.insert(all.end(), files.begin(), files.end());
    }
    return TimeToCopy(all, kSpeed);
  }
  bool dear = false;
  Duration costs{0};

 private:
  const std::map<uint32_t, std::vector<uint32_t>> reads_;
  const std::map<uint32_t, uint32_t> node_of_;
  std::vector<TaskId> tasks_;
  std::vector<ToCopy> coming_;
  const FilesOf files_of_ = [this](TaskId task) {
    std::vector<ToCopy> files;
    for (const uint32_t file : reads_.at(task.value)) {
      const auto at = node_of_.find(file);
      files.push_back({FileId(file), NodeId(at == node_of_.end() ? 0 : at->second), kOneSecond});
    }
    return files;
  };
};

TEST(ToCopy, WhatReadsNothingGoesFromTheLastOn) {
  Reading all({{0, {}}, {1, {}}, {2, {}}});
  EXPECT_THAT(all.Go(2, supervisor::Saving{.last = seconds(1), .each = milliseconds(1)}), ElementsAre(1, 2));
  EXPECT_FALSE(all.dear);
}

TEST(ToCopy, TheLastGoAsLongAsTheySaveMoreThanTheirFilesTake) {
  Reading each({{0, {0}}, {1, {1}}, {2, {2}}, {3, {3}}, {4, {4}}});
  // The third would save 3.3 - 0.3, and begin after 3 s; the fourth would have to wait for 4.
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = milliseconds(3300), .each = milliseconds(100)}), ElementsAre(2, 3, 4));
  EXPECT_TRUE(each.dear);
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = milliseconds(3299), .each = milliseconds(100)}), ElementsAre(3, 4));
  EXPECT_THAT(each.Go(2, supervisor::Saving{.last = seconds(9), .each = milliseconds(100)}), ElementsAre(3, 4));
  EXPECT_FALSE(each.dear) << "no more were asked for";
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = milliseconds(900), .each = milliseconds(1)}), IsEmpty());
  EXPECT_THAT(each.Go(9, {}), ElementsAre(0, 1, 2, 3, 4)) << "all are to go";
}

TEST(ToCopy, WhatManyReadIsCopiedOnce) {
  Reading one({{0, {7}}, {1, {7}}, {2, {7, 7}}, {3, {7}}});
  EXPECT_THAT(one.Go(9, supervisor::Saving{.last = milliseconds(1500), .each = milliseconds(100)}), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(one.Time(), seconds(1));
}

TEST(ToCopy, OneWithTooMuchStaysAndOthersGo) {
  Reading some({{0, {}}, {1, {1}}, {2, {2, 3, 4}}, {3, {3}}});
  EXPECT_THAT(some.Go(9, supervisor::Saving{.last = milliseconds(2500), .each = milliseconds(1)}), ElementsAre(0, 1, 3));
  EXPECT_TRUE(some.dear);
}

TEST(ToCopy, OneOfThoseThatStayWouldGoForWhatIsTold) {
  Reading each({{0, {0, 5}}, {1, {1}}, {2, {2}}});
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = milliseconds(500), .each = milliseconds(100)}), IsEmpty());
  EXPECT_EQ(each.costs, milliseconds(1100));
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = each.costs, .each = milliseconds(100)}), ElementsAre(2));
  // When that one has gone.
  EXPECT_EQ(each.costs, milliseconds(2100));
  each.Gone(2);
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = milliseconds(2099), .each = milliseconds(100)}), IsEmpty());
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = milliseconds(2100), .each = milliseconds(100)}), ElementsAre(1));
}

TEST(ToCopy, ThoseForWhichLessIsCopiedGoFirst) {
  Reading some({{0, {}}, {1, {1}}, {2, {2, 3}}, {3, {4}}, {4, {}}});
  const supervisor::Saving much{.last = seconds(100), .each = milliseconds(1)};
  EXPECT_THAT(some.Go(1, much), ElementsAre(4));
  EXPECT_THAT(some.Go(3, much), ElementsAre(0, 3, 4));
  EXPECT_THAT(some.Go(4, {}), ElementsAre(0, 1, 3, 4)) << "also when all may go";
}

TEST(ToCopy, WhatOtherNodesCopyKeepsNone) {
  Reading some({{0, {}}, {1, {1}}, {2, {2}}, {3, {3, 4, 5, 6, 7, 8}}}, {{2, 1}});
  some.Gone(3);
  EXPECT_THAT(some.Go(9, supervisor::Saving{.last = milliseconds(1500), .each = milliseconds(1)}), ElementsAre(0, 2));
}

TEST(ToCopy, NodesCopyAtTheSameTime) {
  const std::map<uint32_t, std::vector<uint32_t>> reads = {{0, {0, 4}}, {1, {1}}, {2, {2}}, {3, {3}}};
  const supervisor::Saving saving{.last = milliseconds(1500), .each = milliseconds(1)};
  Reading one_node(reads);
  EXPECT_THAT(one_node.Go(9, saving), ElementsAre(3));
  EXPECT_EQ(one_node.Time(), seconds(5));
  Reading four(reads, {{1, 1}, {2, 2}, {3, 3}, {4, 4}});
  EXPECT_THAT(four.Go(9, saving), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(four.Time(), seconds(1));
  Reading two(reads, {{1, 1}, {2, 1}});
  EXPECT_EQ(two.Time(), seconds(3));
}

TEST(ToCopy, WhatHasGoneIsCopiedFirst) {
  Reading some({{0, {0}}, {1, {1}}, {2, {2, 3}}, {3, {}}});
  some.Gone(2);
  EXPECT_THAT(some.Go(9, supervisor::Saving{.last = milliseconds(2900), .each = milliseconds(1)}), ElementsAre(3)) << "which waits for nothing";
  EXPECT_THAT(some.Go(9, supervisor::Saving{.last = milliseconds(3900), .each = milliseconds(1)}), ElementsAre(1, 3));
  Reading same({{0, {2}}, {1, {2}}, {2, {2, 3}}});
  same.Gone(2);
  EXPECT_THAT(same.Go(9, supervisor::Saving{.last = milliseconds(2900), .each = milliseconds(1)}), ElementsAre(0, 1)) << "it is copied already";
}

TEST(ToCopy, WhatCannotBeginBeforeTheEndGoesWhateverItReads) {
  Reading each({{0, {0}}, {1, {1}}, {2, {2}}});
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = seconds(0), .each = milliseconds(1), .late = 2}), ElementsAre(1, 2));
  EXPECT_THAT(each.Go(9, supervisor::Saving{.last = seconds(-5), .each = milliseconds(1), .late = 9}), ElementsAre(0, 1, 2));
}

TEST(CopySpeed, WhatWasSeenLatelyCounts) {
  CopySpeed speed;
  const Time begin{seconds(100)};
  const double thought = speed.At(begin);
  EXPECT_GT(thought, 10e6);
  for (int i = 0; i < 100; ++i) speed.Add(begin, 10'000, seconds(1));
  EXPECT_EQ(speed.At(begin), thought) << "of files so small nothing is learnt";
  speed.Add(begin, kOneSecond, Duration(0));
  EXPECT_EQ(speed.At(begin), thought) << "it was there";
  speed.Add(begin, 20 * kOneSecond, seconds(200));
  EXPECT_NEAR(speed.At(begin), 5e6, 0.5e6) << "10 MB/s, and they are read again";
  EXPECT_GT(speed.At(begin + seconds(3600)), thought * 0.8) << "it is forgotten";
  EXPECT_GT(speed.At(begin + seconds(300)), speed.At(begin));
  EXPECT_NEAR(speed.At(begin + std::chrono::hours(1000)), thought, 1);
  // What is newer counts for more.
  const double before = speed.At(begin);
  speed.Add(begin + seconds(600), 20 * kOneSecond, seconds(4));
  EXPECT_GT(speed.At(begin + seconds(600)), 4 * before);
}

TEST(CopySpeed, WhatIsThoughtCountsAs64MiB) {
  CopySpeed speed;
  const Time begin{seconds(100)};
  EXPECT_DOUBLE_EQ(speed.At(begin), 100e6);
  const double thought = 64 << 20, takes = thought / 200e6;
  speed.Add(begin, kOneSecond, seconds(1));
  EXPECT_NEAR(speed.At(begin), (thought + 1e8) / (takes + 1) / 2, 1);
  EXPECT_NEAR(speed.At(begin + seconds(300)), (thought + 0.5e8) / (takes + 0.5) / 2, 1);
  speed.Add(begin + seconds(300), 2 * kOneSecond, seconds(4));
  EXPECT_NEAR(speed.At(begin + seconds(300)), (thought + 2.5e8) / (takes + 4.5) / 2, 1);
}

}  // namespace
}  // namespace harrow::server
