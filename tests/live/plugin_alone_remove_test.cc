// The removal of a tree that a user has shaped, and on which others have mounted.
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/plugin_fixture.h"
#include "plugin/fd.h"
#include "plugin/remove_tree.h"

namespace harrow::plugin {
namespace {

namespace fs = std::filesystem;

// `top` is what is removed, `outside` what must stay.
class RemoveTreeTest : public MountNamespaceTest {
 protected:
  void SetUp() override {
    MountNamespaceTest::SetUp();
    if (root_.empty()) return;
    fs::create_directories(outside("sub"));
    Write(outside("precious"));
    Write(outside("sub/precious"));
    parent_ = root_ + "/parent";
    fs::create_directories(top());
    fs::create_directories(parent_ + "/sibling");
  }
  void TearDown() override {
    if (root_.empty()) return;
    for (const std::string& file : {outside("precious"), outside("sub/precious")})
      EXPECT_TRUE(fs::exists(file)) << file;
    if (!own_file_system_) {
      EXPECT_TRUE(fs::is_directory(parent_ + "/sibling"));
    }
    std::ifstream mounts("/proc/self/mountinfo");
    std::string line;
    while (std::getline(mounts, line)) EXPECT_EQ(line.find(" " + top()), std::string::npos) << line;
    umount2((root_ + "/image").c_str(), MNT_DETACH);
    MountNamespaceTest::TearDown();
  }
  static void Write(const std::string& file) { std::ofstream(file) << "x"; }
  std::string top(const std::string& below = "") const {
    return parent_ + "/top" + (below.empty() ? "" : "/" + below);
  }
  std::string outside(const std::string& below) const { return root_ + "/outside/" + below; }
  void Bind(const std::string& what, const std::string& where) {
    ASSERT_EQ(mount(what.c_str(), where.c_str(), nullptr, MS_BIND, nullptr), 0) << strerror(errno);
  }
  void MountTmpfs(const std::string& where) {
    ASSERT_EQ(mount("none", where.c_str(), "tmpfs", 0, nullptr), 0) << strerror(errno);
  }
  Removal Remove(unsigned seconds = 60) {
    Fd parent(open(parent_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return RemoveTree(parent, "top", seconds);
  }
  void ExpectAllIsGone() {
    const Removal removal = Remove();
    EXPECT_TRUE(removal.complete);
    EXPECT_EQ(removal.error, 0) << strerror(removal.error);
    EXPECT_FALSE(fs::exists(fs::symlink_status(top())));
  }
  static bool Shell(const std::string& command) {
    return system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0;
  }
  // Makes `top` on a new file system of a kind; false: there are no tools for it.
  bool OnFileSystem(const std::string& kind, unsigned megabytes) {
    const std::string image = root_ + "/file", where = root_ + "/image";
    if (!Shell("command -v mkfs." + kind)) return false;
    own_file_system_ = true;
    fs::create_directory(where);
    EXPECT_TRUE(Shell("truncate -s " + std::to_string(megabytes) + "M " + image + " && mkfs." + kind +
                      " -q " + image + " && mount -o loop " + image + " " + where));
    parent_ = where;
    fs::create_directory(top());
    return true;
  }

  std::string parent_;
  bool own_file_system_ = false;
};

TEST_F(RemoveTreeTest, WhatIsMountedInsideIsDetachedNotEmptied) {
  fs::create_directories(top("directory"));
  fs::create_directories(top("a/b/deep/er"));
  fs::create_directories(top("twice"));
  fs::create_directories(top("with/tmpfs"));
  const std::string longest(NAME_MAX, 'n');
  fs::create_directories(top(longest));
  Write(top("file"));
  Write(top("a/file"));
  Bind(root_ + "/outside", top("directory"));
  Bind(outside("sub"), top("a/b/deep"));
  Bind(outside("precious"), top("file"));
  Bind(outside("sub/precious"), top("a/file"));
  Bind(root_ + "/outside", top("twice"));
  Bind(outside("sub"), top("twice"));
  MountTmpfs(top("with/tmpfs"));
  MountTmpfs(top(longest));
  Write(top("with/tmpfs/x"));
  fs::create_directory(top("with/tmpfs/below"));
  MountTmpfs(top("with/tmpfs/below"));
  ExpectAllIsGone();
}

TEST_F(RemoveTreeTest, WhatIsMountedOnItIsDetached) {
  Write(top("file"));
  Bind(root_ + "/outside", top());
  MountTmpfs(top());
  ExpectAllIsGone();
}

TEST_F(RemoveTreeTest, OpensNothingOfAnotherMount) {
  fs::create_directories(top("mounted"));
  MountTmpfs(top("mounted"));
  Write(top("mounted/file"));
  Fd directory(open(top().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(OpenOnThisMount(directory, "mounted", O_RDONLY | O_DIRECTORY), -1);
  EXPECT_EQ(errno, EXDEV);
  DetachMounts(directory, "mounted");
  Fd open_now(OpenOnThisMount(directory, "mounted", O_RDONLY | O_DIRECTORY));
  EXPECT_GE(open_now, 0);
  fs::create_symlink(root_ + "/outside", top("link"));
  EXPECT_EQ(OpenOnThisMount(directory, "link", O_RDONLY), -1);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_EQ(OpenOnThisMount(directory, "none", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  ExpectAllIsGone();
}

TEST_F(RemoveTreeTest, WhatMayNotBeDetachedIsTold) {
  fs::create_directories(top("a/b"));
  fs::create_directories(top("c"));
  for (const char* mounted : {"a/b", "c"}) {
    ASSERT_TRUE(Shell("chmod 755 " + root_ + "; chown -R 65534:65534 " + parent_));
    Bind(root_ + "/outside", top(mounted));
    const pid_t user = fork();
    if (user == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(200);
      const Removal removal = Remove();
      _exit(removal.complete ? 0 : removal.error);
    }
    int status = 0;
    EXPECT_EQ(waitpid(user, &status, 0), user);
    EXPECT_EQ(WEXITSTATUS(status), EBUSY) << mounted;
    ExpectAllIsGone();
    fs::create_directories(top("c"));
  }
}

// Then nobody knows what is mounted where, and everything is taken for another mount.
TEST_F(RemoveTreeTest, OpensNothingWhereMountsCannotBeTold) {
  fs::create_directories(top("plain"));
  const pid_t without = fork();
  if (without == 0) {
    Fd directory(open(top().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/proc", "tmpfs", 0, nullptr) != 0) _exit(9);
    const int opened = OpenOnThisMount(directory, "plain", O_RDONLY | O_DIRECTORY);
    _exit(opened != -1 ? 1 : errno != EXDEV ? 2 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(without, &status, 0), without);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ExpectAllIsGone();
}

// As many as may be in the way of what is moved up.
TEST_F(RemoveTreeTest, DirectoriesThatAreCalledByNumbers) {
  fs::create_directories(top("x/y/z"));
  for (int i = 0; i < 1500; ++i) fs::create_directories(top(std::to_string(i) + "/in"));
  ExpectAllIsGone();
}

TEST_F(RemoveTreeTest, AFileSystemThatNeverAnswersIsNotAsked) {
  fs::create_directories(top("fuse"));
  const int server = SilentServer();
  if (server < 0) GTEST_SKIP() << "no /dev/fuse (needs fuse)";
  MountSilent(server, top("fuse"));
  ExpectAllIsGone();
  close(server);
}

TEST_F(RemoveTreeTest, OtherProjectsDirectories) {
  if (!OnFileSystem("xfs", 300)) GTEST_SKIP() << "no disk of that kind (needs xfs)";
  fs::create_directories(top("a/b/c/d/e"));
  Write(top("a/b/c/d/e/file"));
  fs::create_directories(top("plain/x/y"));
  // One in another, more often than is gone down: all but the first are moved up.
  ASSERT_TRUE(
      Shell("d=" + top("deep") +
            "; for i in $(seq 40); do mkdir $d && chattr -p $((7 + i % 2)) $d || exit 1; d=$d/x; done"));
  ASSERT_TRUE(Shell("chattr -p 7 " + top("a") + " " + top("a/b") + "; chattr -p 8 " + top("a/b/c") +
                    "; chattr -p 9 " + top() + "; chattr +P " + top() + " " + top("a") + " " + top("a/b/c")));
  ExpectAllIsGone();
}

TEST_F(RemoveTreeTest, Subvolumes) {
  if (!OnFileSystem("btrfs", 200)) GTEST_SKIP() << "no disk of that kind (needs btrfs)";
  fs::create_directory(top("d"));
  ASSERT_TRUE(Shell("btrfs subvolume create " + top("d/s") + " && btrfs subvolume create " + top("d/s/t")));
  fs::create_directories(top("d/s/u/v/w"));
  fs::create_directories(top("d/s/t/x/y"));
  Write(top("d/s/u/v/w/file"));
  Write(top("d/s/t/x/y/file"));
  ASSERT_TRUE(Shell("chattr +i " + top("d/s/t/x/y/file")));
  EXPECT_EQ(Remove().error, EPERM) << "why, and not only that something is left";
  ASSERT_TRUE(Shell("find " + top() + " -name file -exec chattr -i '{}' ';'"));
  ExpectAllIsGone();
  fs::create_directory(top());
  ASSERT_TRUE(Shell("btrfs subvolume create " + top("s") + " && btrfs subvolume create " + top("s/t")));
  fs::create_directory(top("s/d"));
  Write(top("s/d/file"));
  Write(top("s/t/file"));
  EXPECT_EQ(Remove().removed, 5u) << "two subvolumes, a directory and two files";
}

TEST_F(RemoveTreeTest, CountsAndTellsWhatItLeaves) {
  fs::create_directories(top("a/b"));
  Write(top("a/b/fixed"));
  Write(top("file"));
  ASSERT_TRUE(Shell("chattr +i " + top("a/b/fixed")));
  const Removal left = Remove();
  EXPECT_FALSE(left.complete);
  EXPECT_EQ(left.error, EPERM);
  EXPECT_FALSE(fs::exists(top("file")));
  ASSERT_TRUE(Shell("find " + top() + " -name fixed -exec chattr -i '{}' ';'"));
  ExpectAllIsGone();
  fs::create_directories(top("fixed"));
  ASSERT_TRUE(Shell("chattr +i " + top("fixed")));
  EXPECT_EQ(Remove().error, EPERM) << "also of a directory with nothing in it";
  ASSERT_TRUE(Shell("chattr -i " + top("fixed")));
  ExpectAllIsGone();
  fs::create_directories(top("empty"));
  fs::create_directories(top("too"));
  Write(top("file"));
  const auto all = Remove().removed;
  fs::create_directories(top());
  EXPECT_EQ(all - Remove().removed, 3u) << "two directories and a file";
  const Removal none = Remove();
  EXPECT_TRUE(none.complete);
  EXPECT_EQ(none.removed, 0u);
}

TEST_F(RemoveTreeTest, WithoutDescriptorsItTellsWhatItCouldNot) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  bool left = false, gone = false;
  for (rlim_t more = 1; more < 12; ++more) {
    fs::create_directories(top("a/b"));
    Write(top("a/b/file"));
    const int next = dup(0);
    close(next);
    const rlimit few = {static_cast<rlim_t>(next) + more, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const Removal removal = Remove();
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(removal.complete, removal.error == 0) << more << " more: " << strerror(removal.error);
    EXPECT_EQ(removal.complete, !fs::exists(top())) << more;
    (removal.complete ? gone : left) = true;
  }
  EXPECT_TRUE(left && gone);
}

// An ordinary user's slurmd: directories that the user has shut are opened first.
TEST_F(RemoveTreeTest, ShutDirectoriesOfTheSameOrdinaryUser) {
  fs::create_directories(top("shut/in/deep"));
  Write(top("shut/in/deep/file"));
  fs::create_directories(top("empty"));
  for (const char* mode : {"100", "200", "300", "400", "500", "600"}) {
    fs::create_directories(top("shut/" + std::string(mode) + "/in"));
    Write(top("shut/" + std::string(mode) + "/in/file"));
    ASSERT_TRUE(Shell("chmod " + std::string(mode) + " " + top("shut/" + std::string(mode)) + "/in " +
                      top("shut/" + std::string(mode))));
  }
  ASSERT_TRUE(Shell("chmod 755 " + root_ + "; chown -R 65534:65534 " + parent_ + "; chmod 000 " +
                    top("shut/in/deep") + " " + top("shut/in") + " " + top("shut") + " " + top("empty") +
                    " " + top()));
  const pid_t user = fork();
  if (user == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
    const Removal removal = Remove();
    _exit(removal.complete ? 0 : removal.error);
  }
  int status = 0;
  EXPECT_EQ(waitpid(user, &status, 0), user);
  EXPECT_EQ(status, 0) << strerror(WEXITSTATUS(status));
  EXPECT_FALSE(fs::exists(top()));
}

}  // namespace
}  // namespace harrow::plugin
