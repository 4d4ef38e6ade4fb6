#include "migrate/checkpoints.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <random>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

#include "base/text.h"

namespace harrow::migrate {
namespace {

namespace fs = std::filesystem;

class CheckpointsTest : public testing::Test {
 protected:
  CheckpointsTest() {
    std::string path = (fs::temp_directory_path() / "harrow-checkpoints-XXXXXX").string();
    top_ = mkdtemp(path.data());
  }
  ~CheckpointsTest() override { fs::remove_all(top_); }

  std::string Task() const { return top_ + "/all/task"; }
  Checkpoints Of(std::vector<std::string> files = {}, bool by_itself = false) const {
    return Checkpoints(Task(), {.files = std::move(files), .by_itself = by_itself});
  }
  /// Below the task's directory.
  void Write(const std::string& name, const std::string& text) const {
    const fs::path path = Task() + "/" + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// Of a file that was written `seconds` before the file system's present.
  void Age(const std::string& name, int64_t seconds) const {
    const std::string path = Task() + "/" + name;
    struct stat st {};
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    timespec times[] = {st.st_mtim, st.st_mtim};
    times[1].tv_sec -= seconds;
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Task() + "/" + name);
    return {(std::istreambuf_iterator<char>(file)), {}};
  }
  bool Has(const std::string& name) const { return fs::exists(Task() + "/" + name); }
  std::string Begin(Checkpoints checkpoints, std::string* trouble = nullptr) const {
    const auto begun = checkpoints.Begin();
    if (!begun.ok()) return begun.status().message();
    if (trouble != nullptr) *trouble = begun->trouble;
    return begun->restart.empty() ? "" : begun->restart.substr(Task().size());
  }
  /// An attempt that leaves this.
  void Leave(const std::string& text) const {
    Write("files/state", text);
    const auto kept = Of().Keep();
    ASSERT_TRUE(kept.ok()) << kept.status().message();
  }

  std::string top_;
};

TEST_F(CheckpointsTest, TheFirstAttemptBeginsAnewInAnEmptyDirectory) {
  EXPECT_EQ(Begin(Of()), "");
  EXPECT_TRUE(fs::is_empty(Task() + "/files"));
  EXPECT_EQ(Of().Restart(), "");
}

TEST_F(CheckpointsTest, TheNextGoesOnFromACopyOfWhatWasLeft) {
  EXPECT_EQ(Begin(Of()), "");
  Write("files/deep/er", "below");
  Leave("one");
  EXPECT_FALSE(Has("files"));
  EXPECT_EQ(Begin(Of()), "/files");
  EXPECT_EQ(Read("files/state"), "one");
  EXPECT_EQ(Read("files/deep/er"), "below");
  Write("files/state", "in the midst of being written over");
  EXPECT_EQ(Begin(Of()), "/files") << "that attempt was lost";
  EXPECT_EQ(Read("files/state"), "one");
  EXPECT_EQ(Of().Restart(), Task() + "/files");
}

TEST_F(CheckpointsTest, KeptTellsHowMuch) {
  Begin(Of());
  Write("files/a", "12345");
  Write("files/b", "678");
  const auto kept = Of().Keep();
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->files, 2u);
  EXPECT_EQ(kept->bytes, 8);
  EXPECT_TRUE(kept->news);
}

TEST_F(CheckpointsTest, TwoAreKept) {
  for (const char* text : {"one", "two", "three"}) {
    Begin(Of());
    Leave(text);
  }
  EXPECT_FALSE(Has("1") || Has("1.sums"));
  EXPECT_EQ(Read("2/state"), "two");
  EXPECT_EQ(Read("3/state"), "three");
}

TEST_F(CheckpointsTest, OneThatDiffersFromItsSumsIsNotUsedAndIsRemoved) {
  for (const char* text : {"one", "two"}) {
    Begin(Of());
    Leave(text);
  }
  Write("2/state", "twx");
  std::string trouble;
  EXPECT_EQ(Begin(Of(), &trouble), "/files");
  EXPECT_EQ(Read("files/state"), "one");
  EXPECT_NE(trouble.find("2/state is not what was written (its digest differs): it goes on from the checkpoint before"), std::string::npos) << trouble;
  EXPECT_FALSE(Has("2") || Has("2.sums"));
  fs::remove(Task() + "/1/state");
  EXPECT_EQ(Begin(Of(), &trouble), "");
  EXPECT_TRUE(fs::is_empty(Task() + "/files"));
  EXPECT_NE(trouble.find("is gone: it begins anew"), std::string::npos) << trouble;
  Begin(Of(), &trouble);
  EXPECT_EQ(trouble, "");
  Leave("after");
  EXPECT_EQ(Begin(Of()), "/files");
  EXPECT_EQ(Read("files/state"), "after");
}

TEST_F(CheckpointsTest, AShorterOrLongerFileIsDamage) {
  for (const char* text : {"", "onemore"}) {
    Begin(Of());
    Leave("one");
    for (const auto& entry : fs::directory_iterator(Task())) {
      if (entry.is_directory() && entry.path().filename() != "files") std::ofstream(entry.path() / "state") << text;
    }
    EXPECT_EQ(Begin(Of()), "") << text;
  }
}

TEST_F(CheckpointsTest, SumsThatDoNotReadMakeNoCheckpoint) {
  Begin(Of());
  Write("files/odd %0A\nname", "x");
  Leave("one");
  const std::string sums = Read("1.sums");
  EXPECT_EQ(Begin(Of()), "/files");
  EXPECT_EQ(Read("files/odd %0A\nname"), "x");
  for (size_t length = 0; length < sums.size(); ++length) {
    Write("1/state", "one");
    Write("1/odd %0A\nname", "x");
    Write("1.sums", sums.substr(0, length));
    EXPECT_EQ(Begin(Of()), "") << length;
    EXPECT_FALSE(Has("1") || Has("1.sums"));
  }
  for (size_t at = 0; at < sums.size(); ++at) {
    Write("1/state", "one");
    Write("1/odd %0A\nname", "x");
    std::string flipped = sums;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    Write("1.sums", flipped);
    EXPECT_EQ(Begin(Of()), "") << at;
  }
}

TEST_F(CheckpointsTest, WhoseServerDiedBeforeTheSumsWereThereLeftNone) {
  Begin(Of());
  Leave("one");
  Write("2/state", "two");
  Write("2.sums.new", "harrow-checkpoint 1 5\n");
  EXPECT_EQ(Begin(Of()), "/files");
  EXPECT_EQ(Read("files/state"), "one");
  EXPECT_FALSE(Has("2") || Has("2.sums.new"));
}

TEST_F(CheckpointsTest, WithoutFilesThereIsNone) {
  Begin(Of());
  EXPECT_EQ(Of().Keep().status().code(), Code::kNotFound);
  Write("files/state", "x");
  const Status missing = Of({"state", "other.*"}).Keep().status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.message(), "left no other.* in HARROW_CHECKPOINT_DIR, which checkpoint_files names");
  Write("files/other.3", "y");
  EXPECT_TRUE(Of({"state", "other.*"}).Keep().ok());
  EXPECT_EQ(Begin(Of({"other.*", "state"})), "/files/other.3") << "that of the first pattern";
  EXPECT_EQ(Of({"other.*", "state"}).Restart(), Task() + "/files/other.3");
}

TEST_F(CheckpointsTest, TheQuestionIsGoneWhenTheNextAttemptBegins) {
  Begin(Of());
  EXPECT_TRUE(Of().Ask().ok());
  EXPECT_TRUE(Has("asked"));
  Begin(Of());
  EXPECT_FALSE(Has("asked"));
}

TEST_F(CheckpointsTest, RemovedWithTheDirectoryThatHeldThemWhereThatHasNoOther) {
  Begin(Of());
  Leave("one");
  Checkpoints other(top_ + "/all/other", {});
  ASSERT_TRUE(other.Begin().ok());
  EXPECT_TRUE(Of().Remove().ok());
  EXPECT_FALSE(Has(""));
  EXPECT_TRUE(fs::exists(top_ + "/all/other/files"));
  EXPECT_TRUE(other.Remove().ok());
  EXPECT_FALSE(fs::exists(top_ + "/all"));
}

/// An agent that stood while another one began the next attempt.
TEST_F(CheckpointsTest, WhoHasBeenReplacedChangesNothing) {
  Checkpoints late = Of(), next = Of();
  ASSERT_TRUE(late.Begin().ok());
  Write("files/state", "late");
  ASSERT_TRUE(next.Begin().ok());
  EXPECT_FALSE(Has("files/state"));
  Write("files/state", "next");
  EXPECT_EQ(late.Keep().status().code(), Code::kRefused);
  EXPECT_EQ(late.Remove().code(), Code::kRefused);
  EXPECT_EQ(late.CountFailure().status().code(), Code::kRefused);
  EXPECT_EQ(late.Ask().code(), Code::kRefused);
  late.Beat();
  EXPECT_FALSE(Has("asked") || Has("alive"));
  ASSERT_TRUE(next.Keep().ok());
  EXPECT_EQ(Read("1/state"), "next");
  EXPECT_EQ(late.Remove().code(), Code::kRefused);
  EXPECT_TRUE(next.Remove().ok());
  EXPECT_FALSE(Has(""));
  EXPECT_EQ(late.Remove().code(), Code::kRefused) << "nothing is there";
}

TEST_F(CheckpointsTest, WhoIsToEndCopiesNoFurther) {
  Begin(Of());
  Leave("one");
  Checkpoints stopped(Task(), {}, [] { return true; });
  EXPECT_EQ(stopped.Begin().status().code(), Code::kUnavailable);
  EXPECT_EQ(Begin(Of()), "/files") << "and nothing is lost by that";
}

// --- programs that write by themselves

TEST_F(CheckpointsTest, TheNewestSetThatWasLeftAloneCounts) {
  const auto of = [this] { return Of({"a.*", "b.*", "fixed"}, true); };
  Begin(of());
  for (const char* name : {"a.1", "b.1", "a.2", "b.2", "a.3"}) {
    Write(StrCat("files/", name), name);
    Age(StrCat("files/", name), 10 - (name[2] - '0'));
  }
  Write("files/fixed", "fixed");
  Age("files/fixed", 20);
  EXPECT_EQ(of().Keep().status().message(), "");
  EXPECT_EQ(Read("1/a.2") + Read("1/b.2") + Read("1/fixed"), "a.2b.2fixed") << "of 3 something is missing";
  EXPECT_FALSE(Has("1/a.1") || Has("1/a.3"));
  EXPECT_EQ(Begin(of()), "/files/a.2");
  EXPECT_TRUE(Has("files/fixed") && Has("files/b.2") && !Has("files/a.1"));
}

TEST_F(CheckpointsTest, WhatWasBeingWrittenDoesNotCount) {
  const auto of = [this] { return Of({"state.*"}, true); };
  Begin(of());
  Write("files/state.1", "old");
  Age("files/state.1", 5);
  Write("files/state.2", "ha");
  ASSERT_TRUE(of().Keep().ok());
  EXPECT_EQ(Read("1/state.1"), "old");
  EXPECT_EQ(Begin(of()), "/files/state.1");
  EXPECT_FALSE(Has("files/state.2"));
}

/// Within one tick of the file system's clock.
TEST_F(CheckpointsTest, OfTwoThatAreEquallyNewNoneCounts) {
  Checkpoints one(Task(), {.files = {"state.*"}, .by_itself = true});
  ASSERT_TRUE(one.Begin().ok());
  for (const char* name : {"files/state.1", "files/state.2"}) {
    Write(name, name);
    const timespec times[] = {{.tv_sec = 4'000'000'000, .tv_nsec = 0}, {.tv_sec = 4'000'000'000, .tv_nsec = 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (Task() + "/" + name).c_str(), times, 0), 0);
  }
  EXPECT_EQ(one.Keep().status().code(), Code::kNotFound);
}

/// Nobody has left a file alone while he was stopped.
TEST_F(CheckpointsTest, WhatWasBeingWrittenAsItWasStoppedDoesNotCount) {
  const auto of = [this] { return Checkpoints(Task(), {.files = {"state.*"}, .by_itself = true}); };
  for (const bool ran : {false, true}) {
    Begin(of());
    of().Beat();
    Write("files/state.1", "whole");
    Age("files/state.1", 9);
    Write("files/state.2", "half");
    Age("files/state.2", 4);
    Age("alive", 4);
    ASSERT_TRUE(of().Keep(ran).ok());
    EXPECT_EQ(Has(ran ? "2/state.2" : "1/state.1"), true) << ran;
    EXPECT_FALSE(Has("1/state.2"));
  }
}

TEST_F(CheckpointsTest, NothingNewIsNoNewCheckpoint) {
  const auto of = [this] { return Of({"state.[ab]"}, true); };
  Begin(of());
  EXPECT_EQ(of().Keep().status().code(), Code::kNotFound);
  Write("files/state.a", "12");
  Age("files/state.a", 5);
  EXPECT_TRUE(of().Keep()->news);
  Begin(of());
  const auto again = of().Keep();
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->news);
  EXPECT_EQ(again->bytes, 2);
  EXPECT_FALSE(Has("2"));
}

TEST_F(CheckpointsTest, WhatALostAttemptLeftIsKeptWhenTheNextBegins) {
  const auto of = [this] { return Of({"state.*"}, true); };
  Begin(of());
  of().Beat();
  Write("files/state.1", "one");
  Age("files/state.1", 2);
  EXPECT_EQ(Begin(of()), "/files/state.1") << "it lived for 2 s after that";
  of().Beat();
  Age("alive", 10);
  Write("files/state.2", "two");
  Age("files/state.2", 1);
  EXPECT_EQ(Begin(of()), "/files/state.1") << "nobody knows whether it was whole";
}

TEST(MatchesNameTest, WildcardsDoNotCrossDirectoriesAndTellWhatTheyStandFor) {
  std::string shown;
  EXPECT_TRUE(MatchesName("a.*.b", "a.12.b", &shown));
  EXPECT_EQ(shown, "12\n");
  EXPECT_TRUE(MatchesName("*", "", &shown));
  EXPECT_FALSE(MatchesName("*", "a/b", &shown));
  EXPECT_TRUE(MatchesName("*/b", "a/b", &shown));
  EXPECT_TRUE(MatchesName("x?z", "xyz", &shown));
  EXPECT_EQ(shown, "y\n");
  EXPECT_FALSE(MatchesName("x?z", "x/z", &shown));
  EXPECT_TRUE(MatchesName("s.[a-c1]", "s.b", &shown));
  EXPECT_TRUE(MatchesName("s.[a-c1]", "s.1", &shown));
  EXPECT_FALSE(MatchesName("s.[a-c1]", "s.d", &shown));
  EXPECT_TRUE(MatchesName("s.[!a]", "s.b", &shown));
  EXPECT_FALSE(MatchesName("s.[!a]", "s.a", &shown));
  EXPECT_FALSE(MatchesName("s.[a", "s.a", &shown));
  EXPECT_TRUE(MatchesName("*a*b", "xaayb", &shown));
  EXPECT_FALSE(MatchesName("abc", "ab", &shown));
  EXPECT_FALSE(MatchesName("ab", "abc", &shown));
}

/// Those whose files lie on a node's disk, and are kept packed.
class PackedCheckpointsTest : public CheckpointsTest {
 protected:
  Checkpoints Here() const { return Checkpoints(Task(), {.unpacked = top_ + "/node"}); }
  void LeaveHere(const std::string& text, int64_t* written = nullptr) const {
    EXPECT_EQ(Here().files_directory(), top_ + "/node/written");
    std::ofstream(top_ + "/node/written/state") << text;
    const auto kept = Here().Keep();
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    EXPECT_EQ(kept->bytes, static_cast<int64_t>(text.size()));
    EXPECT_EQ(kept->files, 1u);
    if (written != nullptr) *written = kept->written;
  }
  /// What an attempt finds; "": it begins anew.
  std::string Found(std::string* trouble = nullptr) const {
    const auto begun = Here().Begin();
    if (!begun.ok()) return begun.status().message();
    if (trouble != nullptr) *trouble = begun->trouble;
    if (begun->restart.empty()) return "";
    EXPECT_EQ(Here().Restart(), begun->restart);
    std::ifstream in(begun->restart + "/state", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(PackedCheckpointsTest, GoOnFromTheNewestThatIsWhole) {
  EXPECT_EQ(Found(), "");
  EXPECT_EQ(Here().Keep().status().code(), Code::kNotFound);
  LeaveHere("one");
  EXPECT_EQ(Found(), "one");
  EXPECT_FALSE(fs::exists(top_ + "/node/written/state"));
  LeaveHere("two");
  EXPECT_EQ(Found(), "two");
  // A byte of a block.
  for (const auto& file : fs::directory_iterator(Task() + "/2")) {
    if (file.path().extension() != ".pages" || file.hard_link_count() > 1) continue;
    std::fstream pack(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    pack.seekp(2);
    pack.put('~');
  }
  std::string trouble;
  EXPECT_EQ(Found(&trouble), "one");
  EXPECT_NE(trouble.find("it goes on from the checkpoint before"), std::string::npos) << trouble;
  Here().Clear();
  EXPECT_FALSE(fs::exists(top_ + "/node"));
  ASSERT_TRUE(Here().Remove().ok());
  EXPECT_FALSE(fs::exists(Task()));
}

TEST_F(PackedCheckpointsTest, OnlyWhatChangedIsWrittenAndOldOnesCanGo) {
  std::string text(1 << 20, '\0');
  uint64_t number = 88172645463325252ull;
  const auto next = [&] {
    number ^= number << 13;
    number ^= number >> 7;
    return number ^= number << 17;
  };
  for (char& c : text) c = static_cast<char>(next());
  Found();
  int64_t first = 0;
  LeaveHere(text, &first);
  EXPECT_GE(first, 1 << 20);
  int64_t all_written = 0;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(Found(), text) << i;
    for (int page = 0; page < 20; ++page) text[next() % text.size()] ^= 0x55;
    int64_t written = 0;
    LeaveHere(text, &written);
    all_written += written;
    uint64_t all = 0;  // of the newest: it is not to gather what nobody reads any more
    for (const auto& file : fs::directory_iterator(StrCat(Task(), "/", i + 2))) all += file.file_size();
    EXPECT_LT(all, 2 * text.size() + (64 << 10)) << i;
  }
  // Twelve times some twenty pages of 256, and now and then what is left of an old pack.
  EXPECT_LT(all_written, 3 << 20);
  EXPECT_FALSE(Has("11"));
  EXPECT_EQ(Found(), text);
}

TEST_F(PackedCheckpointsTest, WhatAnotherTasksImageHasIsNotWrittenAgain) {
  AlikeImages images;
  std::mt19937_64 draw(7);
  std::string common(400 * 4096, '\0');
  for (char& byte : common) byte = static_cast<char>(draw());
  const auto of = [&](const std::string& task) { return Checkpoints(top_ + "/all/" + task, {.unpacked = top_ + "/node-" + task, .alike = &images}); };
  std::map<std::string, int64_t> written;
  for (const std::string task : {"one", "two", "three"}) {
    Checkpoints checkpoints = of(task);
    ASSERT_TRUE(checkpoints.Begin().ok());
    std::ofstream(checkpoints.files_directory() + "/state") << task << std::string(4096 - task.size(), '.') << common;
    const auto kept = checkpoints.Keep();
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    written[task] = kept->written;
  }
  EXPECT_GT(written["one"], 400 * 4096);
  EXPECT_LT(written["two"], 8192);
  EXPECT_LT(written["three"], 8192);
  const auto found = [&](const std::string& task) {
    const auto begun = of(task).Begin();
    std::ifstream in(begun.ok() ? begun->restart + "/state" : "", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}}.substr(0, 4096 + common.size());
  };
  // Each is whole by itself.
  ASSERT_TRUE(of("one").Remove().ok());
  EXPECT_EQ(found("two").substr(4096), common);
  // What one is damaged by all have lost, and nobody goes on from it.
  ASSERT_TRUE(of("two").Remove().ok());
  EXPECT_EQ(found("three").substr(0, 6), "three.");
  for (const auto& file : fs::directory_iterator(top_ + "/all/three/1")) {
    if (file.path().extension() != ".pages" || file.file_size() < 100'000) continue;
    std::fstream pack(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    pack.seekp(50'000);
    pack << "damage";
  }
  const auto begun = of("three").Begin();
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->restart, "");
}

/// Of nodes that know nothing of each other but what lies on the shared file system; and nothing of it stays.
TEST_F(PackedCheckpointsTest, WhatAnotherNodesImageHasIsNotWrittenAgain) {
  AlikeImages nodes[3];
  std::mt19937_64 draw(7);
  std::string common(400 * 4096, '\0');
  for (char& byte : common) byte = static_cast<char>(draw());
  const auto of = [&](int node) {
    const std::string task = "task" + std::to_string(node);
    return Checkpoints(top_ + "/all/" + task, {.unpacked = top_ + "/node-" + task, .alike = &nodes[node]});
  };
  const auto leave = [&](int node, const std::string& what) {
    Checkpoints checkpoints = of(node);
    EXPECT_TRUE(checkpoints.Begin().ok());
    std::ofstream(checkpoints.files_directory() + "/state") << what << std::string(4096 - what.size(), '.') << common;
    const auto kept = checkpoints.Keep();
    EXPECT_TRUE(kept.ok()) << kept.status().message();
    return kept.ok() ? kept->written : -1;
  };
  EXPECT_GT(leave(0, "one"), 400 * 4096);
  EXPECT_LT(leave(1, "two"), 8192);
  ASSERT_TRUE(of(0).Remove().ok());
  EXPECT_LT(leave(2, "three"), 8192) << "of the second, which has all by itself";
  const auto told = [&] {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(top_ + "/all/alike")) names.push_back(file.path().filename().string().substr(21));
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(told(), (std::vector<std::string>{"task1.1", "task2.1"}));
  for (int i = 0; i < 3; ++i) leave(1, std::to_string(i));
  EXPECT_EQ(told(), (std::vector<std::string>{"task1.3", "task1.4", "task2.1"})) << "what is dropped is not told";
  {
    std::ofstream(top_ + "/all/alike/00000000000000000001.task2.turn") << "left by a killed agent";
    std::ofstream(top_ + "/all/alike/00000000000000000001.task1.turn") << "not its own";
    ASSERT_TRUE(of(2).Begin().ok());
    EXPECT_EQ(told(), (std::vector<std::string>{"task1.3", "task1.4", "task1.turn", "task2.1"}));
  }
  ASSERT_TRUE(of(2).Remove().ok());
  ASSERT_TRUE(of(1).Remove().ok());
  EXPECT_FALSE(fs::exists(top_ + "/all"));
}

TEST_F(PackedCheckpointsTest, OneThatCannotBeGoneOnFromIsDroppedAfterThreeTries) {
  EXPECT_EQ(Here().CountFailure().status().code(), Code::kNotFound);
  Found();
  LeaveHere("one");
  Found();
  LeaveHere("two");
  for (int i = 1; i < Checkpoints::kMostFailures; ++i) {
    EXPECT_EQ(Found(), "two");
    const Result<bool> dropped = Here().CountFailure();
    ASSERT_TRUE(dropped.ok());
    EXPECT_FALSE(*dropped);
  }
  EXPECT_EQ(Found(), "two");
  EXPECT_TRUE(*Here().CountFailure());
  EXPECT_EQ(Found(), "one");
  EXPECT_FALSE(*Here().CountFailure()) << "each is counted by itself";
  EXPECT_EQ(Found(), "one");
}

TEST_F(PackedCheckpointsTest, WhoIsReplacedWhileItDigestsKeepsNothing) {
  bool replaced = true;
  Checkpoints late(Task(), {.unpacked = top_ + "/node"}, [&] {
    if (!std::exchange(replaced, true)) {
      EXPECT_TRUE(Checkpoints(Task(), {.unpacked = top_ + "/other"}).Begin().ok());
    }
    return false;
  });
  ASSERT_TRUE(late.Begin().ok());
  std::ofstream(late.files_directory() + "/pages") << std::string(100'000, 'x');
  replaced = false;
  EXPECT_FALSE(late.Keep().ok());
  EXPECT_TRUE(replaced);
  EXPECT_TRUE(Has("files") && Has("begun"));
  EXPECT_FALSE(Has("1") || Has("1.sums"));
}

}  // namespace
}  // namespace harrow::migrate
