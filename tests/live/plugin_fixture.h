#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <unistd.h>

namespace harrow::plugin {

/// A program whose mounts nobody else sees, and an empty directory for each test. Needs root; a fixture made
/// of it sees by `root_`, which is empty then, that its test is skipped.
class MountNamespaceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (getuid() != 0) return;
    ASSERT_EQ(unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }
  void SetUp() override {
    if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
    char name[] = "/tmp/harrow-mounts-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override {
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }
  /// The server of a file system that takes no request: whoever looks at what is mounted waits until it is
  /// closed. -1: there is no FUSE here.
  static int SilentServer() { return open("/dev/fuse", O_RDWR | O_CLOEXEC); }
  static void MountSilent(int server, const std::string& where) {
    const std::string options = "fd=" + std::to_string(server) + ",rootmode=40000,user_id=0,group_id=0";
    ASSERT_EQ(mount("silent", where.c_str(), "fuse", 0, options.c_str()), 0) << strerror(errno);
  }

  std::string root_;
};

}  // namespace harrow::plugin
