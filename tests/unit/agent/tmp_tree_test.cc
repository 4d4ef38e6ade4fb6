// Directories on a node's disk: which are made, which are still the ones that were made, and what is removed.
#include "agent/steps/tmp_tree.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <gmock/gmock.h>

#include "base/text.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::StartsWith;

/// The run's directory, and one that temporary directories may lie in.
class TmpTreeTest : public OnDisk {
 protected:
  TmpTreeTest() {
    run_ = *run_dir::RunDir::Make(At("run"));
    EXPECT_TRUE(run_->MakeDirectories(At("run/log")).ok());
    Directory("base");
    if (const char* set = getenv("TMPDIR")) before_ = set;
    CountDescriptors();
  }
  ~TmpTreeTest() override { SetTmpdir(before_); }
  static void SetTmpdir(const std::optional<std::string>& path) {
    if (path) {
      setenv("TMPDIR", path->c_str(), 1);
    } else {
      unsetenv("TMPDIR");
    }
  }
  TmpRoot Make() { return MakeTmpRoot(*run_, "n1", {.asked = At("base")}); }
  static std::string Recorded(const TmpRoot& root) { return StrCat(root.device, " ", root.inode, " ", root.path, "\n"); }
  static std::string SharedMemoryOf(const TmpRoot& root) { return "/dev/shm/ranks-" + fs::path(root.path).filename().string(); }
  /// A directory that cannot be emptied by just removing what is in it.
  void Fill(const std::string& path) const {
    std::ofstream(path + "/file") << "x";
    fs::create_directories(path + "/deep/er");
    std::ofstream(path + "/deep/er/file") << "x";
    fs::create_directory_symlink(At("kept"), path + "/deep/link");
    fs::create_symlink("nowhere", path + "/dangling");
  }
  void MakeKept() const { Write("kept/file", "kept"); }
  bool Empty(const std::string& path, std::string_view keep = {}) const {
    const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
    const bool empty = EmptyDirectory(fd, keep);
    close(fd);
    return empty;
  }

  static constexpr const char* kRecord = "run/log/agent-n1.tmp";
  std::shared_ptr<run_dir::RunDir> run_;
  std::optional<std::string> before_;
};

TEST_F(TmpTreeTest, WhereOneIsAskedForItIsMadeThereAndOnRecord) {
  const TmpRoot root = Make();
  EXPECT_THAT(root.path, StartsWith(At("base/harrow-")));
  EXPECT_EQ(ModeOf(root.path), 0700u);
  const TmpRoot now = TmpRootAt(root.path);
  EXPECT_EQ(root.device, now.device);
  EXPECT_EQ(root.inode, now.inode);
  EXPECT_EQ(Text(kRecord), Recorded(root));
  EXPECT_EQ(ModeOf(At(kRecord)), 0600u);
  const TmpRoot other = MakeTmpRoot(*run_, "n2", {.asked = At("base")});
  EXPECT_EQ(Text("run/log/agent-n2.tmp"), Recorded(other));
  EXPECT_TRUE(fs::exists(root.path)) << "it is another node's";
}

TEST_F(TmpTreeTest, WhereNothingIsSafeThereNoneIsMade) {
  chmod(At("base").c_str(), 0777);
  SetTmpdir(Directory("safe"));
  EXPECT_TRUE(MakeTmpRoot(*run_, "n1", {.asked = At("base"), .job = At("safe")}).empty());
  EXPECT_TRUE(fs::is_empty(At("base")));
  EXPECT_TRUE(fs::is_empty(At("safe"))) << "it was asked for the other one";
  EXPECT_FALSE(Has(kRecord));
}

TEST_F(TmpTreeTest, WhereNobodyAsksTheJobsDirectoryIsTheFirstChoice) {
  SetTmpdir(Directory("inherited"));
  EXPECT_THAT(MakeTmpRoot(*run_, "n1", {.job = At("base")}).path, StartsWith(At("base/harrow-")));
  EXPECT_THAT(MakeTmpRoot(*run_, "n1", {}).path, StartsWith(At("inherited/harrow-")));
  EXPECT_THAT(MakeTmpRoot(*run_, "n1", {.job = At("nowhere")}).path, StartsWith(At("inherited/harrow-")));
  for (const std::optional<std::string>& unusable : {std::optional<std::string>("relative"), std::optional<std::string>()}) {
    SetTmpdir(unusable);
    const TmpRoot last = MakeTmpRoot(*run_, "n1", {});
    EXPECT_THAT(last.path, StartsWith("/tmp/harrow-"));
    RemoveTmpRoot(*run_, "n1", last);
    EXPECT_FALSE(fs::exists(last.path));
  }
}

TEST_F(TmpTreeTest, OnlyWhereNobodyElseCouldReplaceItADirectoryIsMade) {
  EXPECT_TRUE(IsSafeBase(Directory("d", 0700)));
  EXPECT_TRUE(IsSafeBase(Directory("d", 0755)));
  EXPECT_TRUE(IsSafeBase(Directory("d", 01777)));
  EXPECT_TRUE(IsSafeBase(Directory("d", 01770)));
  EXPECT_FALSE(IsSafeBase(Directory("d", 0770)));
  EXPECT_FALSE(IsSafeBase(Directory("d", 0702)));
  EXPECT_TRUE(IsSafeBase("/")) << "root's";
  EXPECT_FALSE(IsSafeBase(Write("file", "", 0700)));
  EXPECT_FALSE(IsSafeBase(At("nowhere")));
  const fs::path here = fs::current_path();
  fs::current_path(top_);
  Directory("d", 0700);
  EXPECT_FALSE(IsSafeBase("d")) << "whose would it be for a task?";
  fs::current_path(here);
  if (chown(At("d").c_str(), 65534, 65534) == 0) {
    EXPECT_FALSE(IsSafeBase(At("d"))) << "another user's";
  }
}

TEST_F(TmpTreeTest, WhatAKilledWardenLeftIsRemovedByTheNextOne) {
  MakeKept();
  const TmpRoot first = Make();
  Fill(first.path);
  const TmpRoot shared = MakeSharedMemoryRoot(first);
  Fill(shared.path);
  const TmpRoot second = Make();
  EXPECT_FALSE(fs::exists(first.path));
  EXPECT_FALSE(fs::exists(shared.path));
  EXPECT_TRUE(fs::exists(second.path));
  EXPECT_EQ(Text(kRecord), Recorded(second));
  EXPECT_EQ(Text("kept/file"), "kept");
  RemoveLeftTmpRoots(*run_);
  EXPECT_FALSE(fs::exists(second.path));
  EXPECT_FALSE(Has(kRecord));
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, WhatBearsTheNameOfARecordedDirectoryStays) {
  const TmpRoot root = Make();
  fs::rename(root.path, At("away"));
  fs::create_directory(root.path);
  std::ofstream(root.path + "/file") << "another's";
  RemoveLeftTmpRoots(*run_);
  EXPECT_EQ(TextAt(root.path + "/file"), "another's");
  EXPECT_TRUE(Has(kRecord)) << "the directory may be on another node";
  fs::remove_all(root.path);
  fs::create_directory_symlink(At("away"), root.path);
  RemoveLeftTmpRoots(*run_);
  EXPECT_TRUE(fs::is_symlink(root.path));
  EXPECT_TRUE(Has("away"));
  fs::remove(root.path);
  RemoveLeftTmpRoots(*run_);
  EXPECT_TRUE(Has(kRecord));
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, ARecordThatDoesNotReadAsItWasWrittenLeadsNowhere) {
  const TmpRoot root = Make();
  const std::string whole = Text(kRecord);
  const std::string cut = whole.substr(0, whole.size() - 1), one_word = cut.substr(0, whole.find(' ')) + "\n";
  for (const std::string& text : {std::string(), std::string("\n"), cut, one_word, "1 2" + one_word, "1" + whole, whole + "\n"}) {
    Write(kRecord, text, 0600);
    RemoveLeftTmpRoots(*run_);
    EXPECT_TRUE(fs::exists(root.path)) << text;
    EXPECT_TRUE(Has(kRecord)) << text;
  }
  Write(kRecord, whole, 0600);
  fs::rename(At(kRecord), At("run/log/other.tmp"));
  RemoveLeftTmpRoots(*run_);
  EXPECT_TRUE(fs::exists(root.path)) << "a file of another name is no record";
  fs::rename(At("run/log/other.tmp"), At(kRecord));
  RemoveLeftTmpRoots(*run_);
  EXPECT_FALSE(fs::exists(root.path));
}

TEST_F(TmpTreeTest, ADirectoryThatIsRemovedGoesWithItsRecordAndItsPartInSharedMemory) {
  MakeKept();
  const TmpRoot root = Make();
  Fill(root.path);
  const TmpRoot shared = MakeSharedMemoryRoot(root);
  EXPECT_EQ(shared.path, SharedMemoryOf(root));
  EXPECT_EQ(ModeOf(shared.path), 0700u);
  Fill(shared.path);
  RemoveTmpRoot(*run_, "n1", root);
  EXPECT_FALSE(fs::exists(root.path));
  EXPECT_FALSE(fs::exists(shared.path));
  EXPECT_FALSE(Has(kRecord));
  EXPECT_EQ(Text("kept/file"), "kept");
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, OneThatAnotherHasTakenThePlaceOfStaysOnRecord) {
  const TmpRoot root = Make();
  fs::rename(root.path, At("away"));
  Directory("base/other");
  Write("base/other/file", "another's");
  fs::rename(At("base/other"), root.path);
  RemoveTmpRoot(*run_, "n1", root);
  EXPECT_EQ(TextAt(root.path + "/file"), "another's");
  EXPECT_TRUE(Has(kRecord));
  EXPECT_FALSE(OpenTmpRoot(root).ok());
  EXPECT_FALSE(EmptyTmpRoot(root));
  EXPECT_EQ(MakeTextFile(root, "text", "x"), "");
  EXPECT_FALSE(fs::exists(root.path + "/text"));
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, SharedMemoryBeginsAnewAndWithoutItTheDirectoryItselfWillDo) {
  const TmpRoot root = Make();
  Fill(MakeSharedMemoryRoot(root).path);
  const TmpRoot again = MakeSharedMemoryRoot(root);
  EXPECT_EQ(again.path, SharedMemoryOf(root));
  EXPECT_TRUE(fs::is_empty(again.path));
  EXPECT_EQ(again.inode, TmpRootAt(again.path).inode);
  fs::remove(again.path);
  std::ofstream(again.path) << "x";  // as another user's directory would be
  EXPECT_EQ(MakeSharedMemoryRoot(root).path, root.path);
  EXPECT_EQ(TextAt(again.path), "x");
  fs::remove(again.path);
  EXPECT_TRUE(MakeSharedMemoryRoot({}).empty());
  fs::create_directory(again.path);
  if (chown(again.path.c_str(), 65534, 65534) == 0) {
    std::ofstream(again.path + "/file") << "another user's";
    EXPECT_EQ(MakeSharedMemoryRoot(root).path, root.path);
    EXPECT_EQ(TextAt(again.path + "/file"), "another user's");
  }
  fs::remove_all(again.path);
  RemoveTmpRoot(*run_, "n1", root);
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, OnlyADirectoryOfOursIsARoot) {
  const TmpRoot root = TmpRootAt(At("base"));
  EXPECT_FALSE(root.empty());
  EXPECT_EQ(root.path, At("base"));
  fs::create_directory_symlink(At("base"), At("link"));
  EXPECT_TRUE(TmpRootAt(At("link")).empty());
  EXPECT_TRUE(TmpRootAt(Write("file", "")).empty());
  EXPECT_TRUE(TmpRootAt(At("nowhere")).empty());
  if (chown(At("base").c_str(), 65534, 65534) == 0) {
    EXPECT_TRUE(TmpRootAt(At("base")).empty()) << "another user's";
  }
}

TEST_F(TmpTreeTest, EmptyingRemovesWhateverIsThereButWhatIsToBeKept) {
  MakeKept();
  Fill(Directory("d"));
  Write("d/keep", "x");
  Write("d/deep/keep", "x");
  EXPECT_TRUE(Empty(At("d"), "keep"));
  EXPECT_EQ(Text("d/keep"), "x");
  EXPECT_FALSE(Has("d/deep")) << "only the name in the directory itself";
  const TmpRoot root = TmpRootAt(At("d"));
  Fill(root.path);
  EXPECT_TRUE(EmptyTmpRoot(root, "keep"));
  EXPECT_TRUE(Has("d/keep"));
  EXPECT_FALSE(Has("d/file"));
  EXPECT_TRUE(EmptyTmpRoot(root));
  EXPECT_TRUE(fs::is_empty(root.path));
  EXPECT_EQ(Text("kept/file"), "kept");
  EXPECT_FALSE(EmptyDirectory(-1));
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, WhatItsMakerHasClosedToHimselfIsRemovedAllTheSame) {
  const OrdinaryRights rights;
  for (const mode_t closed : {0u, 0400u, 0500u, 0100u}) {
    Fill(Directory("d"));
    for (const char* name : {"d/deep/er", "d/deep", "d"}) chmod(At(name).c_str(), closed);
    EXPECT_TRUE(Empty(At("d"))) << closed;
    EXPECT_TRUE(fs::is_empty(At("d"))) << closed;
  }
  const int fd = open(Directory("d", 0755).c_str(), O_PATH | O_CLOEXEC);
  OpenToUs(fd);
  close(fd);
  EXPECT_EQ(ModeOf(At("d")), 0700u);
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, WhatAnotherUserHasThereStaysAndIsToldOf) {
  Fill(Directory("d"));
  Directory("d/theirs");
  Write("d/theirs/file", "x");
  Write("d/zzz", "x");
  if (chown(At("d/theirs").c_str(), 65534, 65534) != 0) return;  // only root can make another's
  const OrdinaryRights rights;
  EXPECT_FALSE(Empty(At("d")));
  EXPECT_FALSE(Has("d/deep"));
  EXPECT_FALSE(Has("d/zzz")) << "all but that";
  fs::rename(At("d"), At("base/d"));
  TmpRoot root = TmpRootAt(At("base/d"));
  Write("run/log/agent-n1.tmp", Recorded(root), 0600);
  RemoveTmpRoot(*run_, "n1", root);
  RemoveLeftTmpRoots(*run_);
  EXPECT_TRUE(Has("base/d/theirs"));
  EXPECT_TRUE(Has(kRecord)) << "so that somebody tries it again";
  ExpectNoDescriptorMore();
}

TEST_F(TmpTreeTest, ATextIsWrittenWholeOrNotAtAll) {
  const TmpRoot root = TmpRootAt(At("base"));
  EXPECT_EQ(MakeTextFile(root, "text", "some text"), At("base/text"));
  EXPECT_EQ(Text("base/text"), "some text");
  EXPECT_EQ(ModeOf(At("base/text")), 0600u);
  EXPECT_EQ(MakeTextFile(root, "text", "other"), "");
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(Text("base/text"), "some text");
  EXPECT_EQ(MakeTextFile(root, "empty", ""), At("base/empty"));
  for (const auto& [limit, error] : {std::pair(rlim_t{4}, ENOSPC), {rlim_t{0}, EFBIG}}) {
    const SmallFiles small(limit);
    EXPECT_EQ(MakeTextFile(root, "large", "more than that"), "");
    EXPECT_EQ(errno, error);
    EXPECT_FALSE(Has("base/large"));
  }
  EXPECT_EQ(MakeTextFile({.path = At("nowhere")}, "text", "x"), "");
  EXPECT_EQ(MakeLinesFile(root, "lines", "n1", 3), At("base/lines"));
  EXPECT_EQ(Text("base/lines"), "n1\nn1\nn1\n");
  ExpectNoDescriptorMore();
}

}  // namespace
}  // namespace harrow::agent
