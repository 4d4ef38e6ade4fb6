#include "migrate/alike.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <latch>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/own_directory.h"

namespace harrow::migrate {
namespace {

namespace fs = std::filesystem;

class AlikeImagesTest : public testing::Test {
 protected:
  using Turn = AlikeImages::Turn;

  static Sample From(uint64_t first, uint64_t count) {
    Sample sample(count);
    std::iota(sample.begin(), sample.end(), first);
    return sample;
  }
  /// Without waiting; who would have waited for another image is one more in waited_.
  Turn Take(const Sample& sample) {
    bool waited = false;
    Turn turn = images_.Take(sample, [&] { return waited = true; });
    waited_ += waited;
    return turn;
  }
  void Keep(const Sample& sample, const std::string& directory) { Take(sample).Done(directory); }

  using Directories = std::vector<std::string>;
  AlikeImages images_;
  int waited_ = 0;
};

TEST_F(AlikeImagesTest, TheFirstHasNoneBeforeItAndTheNextHasIt) {
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories());
  Keep(From(0, 100), "a");
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories{"a"});
  EXPECT_EQ(Take(From(99, 100)).earlier(), Directories{"a"}) << "of one content, too";
  EXPECT_EQ(Take(From(100, 100)).earlier(), Directories());
  EXPECT_EQ(Take({}).earlier(), Directories());
  EXPECT_EQ(waited_, 0);
}

TEST_F(AlikeImagesTest, OneIsWaitedForThatHasAQuarterOfIt) {
  const Turn turn = Take(From(0, 100));
  EXPECT_EQ(Take(From(76, 100)).earlier(), Directories());
  EXPECT_EQ(waited_, 0) << "24 of 100";
  Take(From(75, 100));
  EXPECT_EQ(waited_, 1) << "25 of 100";
  Take(From(90, 10));
  EXPECT_EQ(waited_, 2) << "all of a small one";
  Take({});
  EXPECT_EQ(waited_, 2);
}

TEST_F(AlikeImagesTest, WhatIsThereIsNotWaitedFor) {
  Keep(From(0, 90), "base");
  const Turn turn = Take(From(0, 100));
  Take(From(0, 100));
  EXPECT_EQ(waited_, 0);
  const Turn other = Take(From(0, 100 + 80));
  EXPECT_EQ(waited_, 0);
  Take(From(50, 130));
  EXPECT_EQ(waited_, 1) << "of which the base has 40, and one that is being kept all";
}

TEST_F(AlikeImagesTest, WhoEndsWithoutBeingWholeIsNobodysBase) {
  { const Turn turn = Take(From(0, 100)); }
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories());
  {
    Turn turn = Take(From(0, 100));
    const Turn moved = std::move(turn);
    Take(From(0, 100));
    EXPECT_EQ(waited_, 1);
  }
  Take(From(0, 100));
  EXPECT_EQ(waited_, 1);
}

TEST_F(AlikeImagesTest, TheClosestComeFirstAndOfEqualsTheNewest) {
  Keep(From(0, 50), "half");
  Keep(From(0, 100), "old");
  Keep(From(0, 100), "new");
  EXPECT_EQ(Take(From(0, 100)).earlier(), (Directories{"new", "old"}));
  EXPECT_EQ(Take(From(0, 50)).earlier(), (Directories{"new", "old"}));
  Keep(From(200, 10), "other");
  EXPECT_EQ(Take(From(89, 120)).earlier(), (Directories{"new", "old"})) << "9 of the newest, and 11";
  EXPECT_EQ(Take(From(90, 120)).earlier(), (Directories{"other", "new"})) << "each 10";
}

TEST_F(AlikeImagesTest, SoManyAreRemembered) {
  Keep(From(0, 100), "first");
  for (size_t i = 1; i < AlikeImages::kKept; ++i) Keep(From(1000 * i, 1), "another");
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories{"first"});
  Keep(From(7, 1), "last");
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories{"last"});
}

/// Of eight that come at once one is written without any other, and those after it have one.
TEST_F(AlikeImagesTest, ThoseThatComeAtOnceTakeTurns) {
  std::vector<size_t> earlier(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < earlier.size(); ++i) {
    threads.emplace_back([&, i] {
      Turn turn = images_.Take(From(0, 100), {});
      earlier[i] = turn.earlier().size();
      turn.Done(std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(earlier.begin(), earlier.end(), 0u), 1);
}

/// Nodes that tell each other of their images by files.
class AlikeFilesTest : public testing::Test {
 protected:
  AlikeFiles::Place Of(const std::string& task) const { return {top_ + "/alike", task}; }
  /// An image's directory, as far as it matters here.
  std::string Kept(const std::string& task, const std::string& number = "1") const {
    const std::string directory = top_ + "/" + task + "/" + number;
    fs::create_directories(directory);
    std::ofstream(directory + "/index") << "x";
    return directory;
  }
  static Sample From(uint64_t first, uint64_t count) {
    Sample sample(count);
    std::iota(sample.begin(), sample.end(), first);
    return sample;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(top_ + "/alike")) names.push_back(file.path().filename().string().substr(21));
    std::sort(names.begin(), names.end());
    return names;
  }
  /// As AlikeImagesTest has it.
  AlikeImages::Turn Take(AlikeImages* node, const std::string& task, const Sample& sample) {
    bool waited = false;
    AlikeImages::Turn turn = node->Take(sample, [&] { return waited = true; }, Of(task));
    waited_ += waited;
    return turn;
  }
  using Directories = std::vector<std::string>;
  using Strings = std::vector<std::string>;

  const test::OwnDirectory scratch_;
  const std::string top_ = scratch_.path() + "/checkpoints";
  AlikeImages one_, two_;
  int waited_ = 0;
};

TEST_F(AlikeFilesTest, WhatAnotherNodeKeepsIsWaitedForAndUsed) {
  {
    AlikeImages::Turn turn = Take(&one_, "a", From(0, 100));
    EXPECT_EQ(Names(), Strings{"a.turn"});
    EXPECT_EQ(Take(&two_, "b", From(75, 100)).earlier(), Directories());
    EXPECT_EQ(waited_, 1);
    Take(&two_, "b", From(76, 100));
    EXPECT_EQ(waited_, 1) << "it has too little of it";
    EXPECT_EQ(Names(), Strings{"a.turn"}) << "what comes to nothing is not told";
    turn.Done(Kept("a"));
  }
  EXPECT_EQ(Names(), Strings{"a.1"});
  EXPECT_EQ(Take(&two_, "b", From(50, 100)).earlier(), Directories{top_ + "/a/1"});
  EXPECT_EQ(Take(&two_, "b", From(100, 100)).earlier(), Directories());
  EXPECT_EQ(Take(&one_, "c", From(0, 100)).earlier(), Directories{top_ + "/a/1"}) << "which it knows twice";
  EXPECT_EQ(Take(&two_, "a", From(0, 100)).earlier(), Directories()) << "the task's own are looked at anyway";
  fs::remove_all(top_ + "/a");
  EXPECT_EQ(Take(&two_, "b", From(0, 100)).earlier(), Directories()) << "it is gone";
  EXPECT_EQ(waited_, 1);
}

TEST_F(AlikeFilesTest, OfTwoTheLaterWaitsForTheEarlierOnly) {
  AlikeFiles::Known known;
  AlikeFiles first(Of("a"), From(0, 10), &known), second(Of("b"), From(0, 10), &known);
  EXPECT_TRUE(first.Others().empty());
  ASSERT_EQ(second.Others().size(), 1u);
  EXPECT_TRUE(second.Others().front().comes);
  EXPECT_EQ(second.Others().front().directory, "");
  // As its node stands, or has died.
  const auto age = [&](int seconds) {
    for (const auto& file : fs::directory_iterator(top_ + "/alike")) {
      if (file.path().extension() == ".turn" && file.path().string().find(".a.") != std::string::npos)
        fs::last_write_time(file.path(), fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
    }
  };
  age(20);
  EXPECT_EQ(second.Others().size(), 1u);
  age(40);
  EXPECT_TRUE(second.Others().empty());
  first.Beat();
  EXPECT_TRUE(second.Others().empty()) << "it touches its file once a second at most";
  first.Beat(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  EXPECT_EQ(second.Others().size(), 1u) << "it goes on";
  first.Done("3");
  ASSERT_EQ(second.Others().size(), 1u);
  EXPECT_FALSE(second.Others().front().comes);
  EXPECT_EQ(second.Others().front().directory, top_ + "/a/3");
}

TEST_F(AlikeFilesTest, LargeSamplesAreThinnedAndComparedAsTheyAre) {
  AlikeFiles::Known known, other;
  AlikeFiles large(Of("a"), From(0, 200'000), &known), small(Of("b"), From(0, 2048), &known), asking(Of("c"), From(0, 1), &other);
  for (const auto& file : fs::directory_iterator(top_ + "/alike")) EXPECT_LT(file.file_size(), 8 * 2048 + 100u);
  const auto others = asking.Others();
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(others[0].one_of, 1u);
  EXPECT_EQ(others[0].digests.size(), 2048u);
  EXPECT_EQ(others[1].one_of, 128u);
  EXPECT_EQ(others[1].InCommon(From(100'096, 200'000)), 99'968u);
  EXPECT_EQ(others[1].InCommon(From(200'000, 100'000)), 0u);
  EXPECT_EQ(others[0].InCommon(From(2047, 9)), 1u);
}

TEST_F(AlikeFilesTest, WhatDoesNotReadAsItWasWrittenIsNoImage) {
  AlikeFiles::Known known;
  const std::string path = [&] {
    AlikeFiles(Of("a"), From(0, 10), &known).Done("1");
    return fs::directory_iterator(top_ + "/alike")->path().string();
  }();
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto reads = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    AlikeFiles::Known fresh;
    return AlikeFiles(Of("b"), From(0, 10), &fresh).Others().size();
  };
  EXPECT_EQ(reads(whole), 1u);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 4;
    EXPECT_EQ(reads(damaged), 0u) << i;
    EXPECT_EQ(reads(whole.substr(0, i)), 0u) << i;
  }
  fs::rename(path, top_ + "/alike/strange");
  EXPECT_EQ(AlikeFiles(Of("b"), From(0, 10), &known).Others().size(), 0u);
}

TEST_F(AlikeFilesTest, WhatIsForgottenIsNotTold) {
  AlikeFiles::Known known;
  for (const std::string task : {"a", "b"}) {
    for (const std::string number : {"1", "2"}) AlikeFiles(Of(task), From(0, 10), &known).Done(number);
  }
  AlikeFiles turn(Of("a"), From(0, 10), &known);
  EXPECT_EQ(Names(), (Strings{"a.1", "a.2", "a.turn", "b.1", "b.2"}));
  AlikeFiles::Forget(Of("a"), "1");
  EXPECT_EQ(Names(), (Strings{"a.2", "a.turn", "b.1", "b.2"}));
  AlikeFiles::Forget(Of("a"), AlikeFiles::kTurn);
  EXPECT_EQ(Names(), (Strings{"a.2", "b.1", "b.2"}));
  turn.Done("3");
  EXPECT_EQ(Names(), (Strings{"a.2", "b.1", "b.2"})) << "another attempt has it";
  AlikeFiles::Forget(Of("a"), {});
  EXPECT_EQ(Names(), (Strings{"b.1", "b.2"}));
  AlikeFiles::Forget(Of("b"), {});
  EXPECT_FALSE(fs::exists(top_ + "/alike"));
}

TEST_F(AlikeFilesTest, TheNewestAreRead) {
  AlikeFiles::Known known;
  for (size_t i = 0; i < AlikeFiles::kRead + 2; ++i) AlikeFiles(Of("t" + std::to_string(i)), From(i, 1), &known).Done("1");
  const auto others = AlikeFiles(Of("b"), From(0, 10), &known).Others();
  ASSERT_EQ(others.size(), AlikeFiles::kRead);
  EXPECT_EQ(others.front().digests, From(AlikeFiles::kRead + 1, 1));
  EXPECT_EQ(others.back().digests, From(2, 1));
}

/// Seven nodes wait for the first image, and not for one another.
TEST_F(AlikeFilesTest, NodesWaitForTheFirstAndThenAllGoOn) {
  std::optional<AlikeImages::Turn> first(one_.Take(From(0, 100), {}, Of("first")));
  std::vector<std::unique_ptr<AlikeImages>> nodes;
  for (int i = 0; i < 7; ++i) nodes.push_back(std::make_unique<AlikeImages>());
  std::vector<Directories> earlier(7);
  std::atomic<int> have_turns = 0;
  // Each has looked so often that a look at the others' files was among them.
  constexpr int kLooks = 3;
  std::latch all_have_turns(7), all_have_looked(7);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < earlier.size(); ++i) {
    threads.emplace_back([&, i] {
      int looks = 0;
      const auto stop = [&] {
        if (++looks == kLooks) all_have_looked.count_down();
        return false;
      };
      const AlikeImages::Turn turn = nodes[i]->Take(From(i, 100), stop, Of("t" + std::to_string(i)));
      if (looks < kLooks) all_have_looked.count_down();
      earlier[i] = turn.earlier();
      ++have_turns;
      all_have_turns.arrive_and_wait();
    });
  }
  all_have_looked.wait();
  EXPECT_EQ(have_turns, 0);
  first->Done(Kept("first"));
  first.reset();
  for (std::thread& thread : threads) thread.join();
  for (const Directories& each : earlier) EXPECT_EQ(each, Directories{top_ + "/first/1"});
}

}  // namespace
}  // namespace harrow::migrate
