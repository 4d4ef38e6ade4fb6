#include "plugin/job_directory.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdarg.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "plugin/log.h"
#include "plugin/remove_tree.h"

namespace harrow::plugin {
namespace {

std::vector<std::string> logged;

std::string Line(const char* format, va_list arguments) {
  char line[1024];
  vsnprintf(line, sizeof line, format, arguments);
  return line;
}

}  // namespace

void LogError(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  logged.push_back("error: " + Line(format, arguments));
  va_end(arguments);
}
void LogNotice(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  logged.push_back("notice: " + Line(format, arguments));
  va_end(arguments);
}

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Directory : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-plugin-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    local_ = root_ + "/local";
    fs::create_directory(local_);
    logged.clear();
  }
  void TearDown() override {
    fs::permissions(local_, fs::perms::owner_all);
    fs::remove_all(root_);
  }
  Made Make(uint32_t id = 12) { return MakeJobDirectory(local_.c_str(), JobOf(id)); }
  void Remove(uint32_t id = 12, unsigned seconds = 60) {
    RemoveJobDirectory(local_.c_str(), JobOf(id), seconds);
  }
  static Job JobOf(uint32_t id) { return {.id = id, .leader = id, .uid = getuid(), .gid = getgid()}; }
  std::string path(const std::string& below) const { return local_ + "/harrow" + below; }
  static void Write(const std::string& file, const std::string& text = "x") { std::ofstream(file) << text; }
  bool IsEmptyBase() const { return fs::is_empty(path("")); }

  std::string root_, local_;
};

TEST_F(Directory, IsPrivateAndGoneAfterwards) {
  umask(077);
  EXPECT_EQ(Make(), Made::kNow);
  umask(022);
  EXPECT_EQ(Make(), Made::kBefore);
  struct stat info;
  ASSERT_EQ(stat(path("/12").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  ASSERT_EQ(stat(path("").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  Write(path("/12/file"));
  Remove();
  EXPECT_TRUE(IsEmptyBase());
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, OnlyTheJobsOwn) {
  Make(12);
  Make(1);
  Make(123);
  Remove(12);
  EXPECT_TRUE(fs::exists(path("/1")));
  EXPECT_TRUE(fs::exists(path("/123.job")));
  Remove(77);
  EXPECT_TRUE(fs::exists(path("/1")));
}

TEST_F(Directory, WithoutAMarkerNothingIsTouched) {
  Make();
  fs::remove(path("/12.job"));
  Remove();
  EXPECT_TRUE(fs::exists(path("/12")));
}

TEST_F(Directory, AMarkerOfSomebodyElseOrALinkIsNone) {
  Make();
  fs::remove(path("/12.job"));
  Write(root_ + "/elsewhere", "harrow-job 1\nboot x\nuid 0\nleader 12\n");
  fs::create_symlink(root_ + "/elsewhere", path("/12.job"));
  Remove();
  EXPECT_TRUE(fs::exists(path("/12")));
  if (getuid() == 0) {
    fs::remove(path("/12.job"));
    Write(path("/12.job"), "harrow-job 1\nboot x\nuid 0\nleader 12\n");
    ASSERT_EQ(chown(path("/12.job").c_str(), 65534, 65534), 0);
    Remove();
    EXPECT_TRUE(fs::exists(path("/12")));
  }
}

TEST_F(Directory, AnUnsafeBaseIsRefused) {
  fs::create_directory(root_ + "/target");
  fs::create_symlink(root_ + "/target", path(""));
  EXPECT_EQ(Make(), Made::kNot);
  EXPECT_TRUE(fs::is_empty(root_ + "/target"));
  fs::remove(path(""));
  Write(path(""));
  EXPECT_EQ(Make(), Made::kNot);
  fs::remove(path(""));
  fs::create_directory(path(""));
  fs::permissions(path(""), fs::perms::all);
  EXPECT_EQ(Make(), Made::kNot);
  Remove();
  EXPECT_EQ(logged.size(), 4u);
  for (const std::string& line : logged) EXPECT_THAT(line, HasSubstr("only slurmd's user"));
  if (getuid() == 0) {
    fs::permissions(path(""), fs::perms::owner_all);
    ASSERT_EQ(chown(path("").c_str(), 65534, 65534), 0);
    EXPECT_EQ(Make(), Made::kNot);
  }
}

TEST_F(Directory, AMissingLocalIsOneLine) {
  EXPECT_EQ(MakeJobDirectory((root_ + "/none").c_str(), JobOf(5)), Made::kNot);
  EXPECT_THAT(logged, ElementsAre(HasSubstr("No such file")));
  RemoveJobDirectory((root_ + "/none").c_str(), JobOf(5), 60);
  EXPECT_EQ(logged.size(), 1u);
}

TEST_F(Directory, AJobThatRanBeforeTheNodeWentDownStartsEmpty) {
  Make();
  Write(path("/12/old"));
  Write(path("/12.job"), "harrow-job 1\nboot another.1\nuid 0\nleader 12\n");
  EXPECT_NE(Make(), Made::kNot);
  EXPECT_FALSE(fs::exists(path("/12/old")));
  EXPECT_TRUE(fs::is_directory(path("/12")));
}

TEST_F(Directory, SweepTakesWhatIsOfAnotherBootAlone) {
  for (uint32_t id : {1u, 2u, 3u, 4u}) Make(id);
  Write(path("/2/file"));
  Write(path("/2.job"), "harrow-job 1\nboot another.1\nuid 0\nleader 2\n");
  Write(path("/3.job"), "");                                          // a full disk
  Write(path("/4.job"), "harrow-job 1\nboot another.1\nuid 0\nlea");  // lost power
  Write(path("/notes.job"));
  SweepOldDirectories(local_.c_str(), 60);
  EXPECT_TRUE(fs::exists(path("/1")));
  EXPECT_FALSE(fs::exists(path("/2")));
  EXPECT_FALSE(fs::exists(path("/2.job")));
  EXPECT_TRUE(fs::exists(path("/3")));
  EXPECT_TRUE(fs::exists(path("/4")));
  EXPECT_TRUE(fs::exists(path("/notes.job")));
  EXPECT_THAT(logged, ElementsAre(HasSubstr("harrow/2: its job ran when the node went down")));
}

// What takes too long is left, and goes at the end of another job or when slurmd starts.
TEST_F(Directory, ARemovalThatTakesTooLongIsGoneOnWith) {
  for (const bool by_slurmd : {false, true}) {
    logged.clear();
    Make();
    Write(path("/12/file"));
    Remove(12, 0);
    EXPECT_TRUE(fs::exists(path("/12/file")));
    EXPECT_TRUE(fs::exists(path("/12.over")));
    EXPECT_FALSE(fs::exists(path("/12.job")));
    EXPECT_THAT(logged, ElementsAre(HasSubstr("harrow/12 is not wholly removed: Timer expired")));
    if (by_slurmd) {
      SweepOldDirectories(local_.c_str(), 60);
    } else {
      Make(13);
      Remove(13);
    }
    EXPECT_TRUE(IsEmptyBase());
    EXPECT_THAT(logged.back(), HasSubstr("removed " + path("/12")));
  }
}

TEST_F(Directory, AJobThatStartsAgainOverItsRemainsStartsEmpty) {
  Make();
  Write(path("/12/old"));
  Remove(12, 0);
  EXPECT_EQ(Make(), Made::kNow);
  EXPECT_TRUE(fs::is_empty(path("/12")));
  EXPECT_FALSE(fs::exists(path("/12.over")));
}

TEST_F(Directory, SweepTouchesNoJobThatRuns) {
  Make();
  Write(path("/12/file"));
  Write(path("/12.over"), "harrow-job 1\nboot another.1\nuid 0\nleader 12\n");
  SweepOldDirectories(local_.c_str(), 60);
  EXPECT_TRUE(fs::exists(path("/12/file")));
}

TEST_F(Directory, HostileContents) {
  Make();
  const std::string outside = root_ + "/outside";
  fs::create_directories(outside + "/sub");
  Write(outside + "/sub/precious");
  const std::string top = path("/12");
  fs::create_symlink(outside, top + "/link");
  fs::create_symlink(outside + "/sub/precious", top + "/file-link");
  fs::create_symlink(top, top + "/loop");
  fs::create_hard_link(outside + "/sub/precious", top + "/hard");
  fs::create_directories(top + "/a/b/c");
  fs::create_symlink(outside, top + "/a/b/link");
  for (const char* name :
       {"\\040 mount", "new\nline", "-rf", "*", "0", "1", "2", "...", "proc", "\xff\xfe"}) {
    fs::create_directories(top + "/" + name + "/0/1");
    Write(top + "/" + name + "/0/1/file");
  }
  ASSERT_EQ(mkfifo((top + "/fifo").c_str(), 0600), 0);
  fs::permissions(top + "/a/b", fs::perms::none);
  fs::permissions(top, fs::perms::none);
  Remove();
  EXPECT_TRUE(IsEmptyBase());
  EXPECT_TRUE(fs::exists(outside + "/sub/precious"));
  EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Directory, ADeepTree) {
  Make();
  int fd = open(path("/12").c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ(mkdirat(fd, "deeper", 0700), 0);
    int next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY);
    close(fd);
    fd = next;
  }
  close(fd);
  Remove();
  EXPECT_TRUE(IsEmptyBase());
}

TEST_F(Directory, ALinkInPlaceOfTheDirectoryIsNotFollowed) {
  Make();
  fs::create_directory(root_ + "/outside");
  Write(root_ + "/outside/precious");
  fs::remove(path("/12"));
  fs::create_symlink(root_ + "/outside", path("/12"));
  Remove();
  EXPECT_TRUE(IsEmptyBase());
  EXPECT_TRUE(fs::exists(root_ + "/outside/precious"));
}

}  // namespace
}  // namespace harrow::plugin
