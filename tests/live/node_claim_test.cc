// Which of several processes serves a node: they find each other by what they hold open.
#include "agent/node_claim.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/process.h"
#include "support/own_directory.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kLong = std::chrono::minutes(5);

/// What this process shows to others.
std::vector<std::string> Marks() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("/memfd:harrow-")) all.push_back(target.substr(7, target.find(' ') - 7));
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// No other process on this machine claims a node of that run.
const std::string& ThisRun() {
  static const std::string run = "/run-" + std::to_string(getpid());
  return run;
}

bool Leave() {
  return false;
}

class NodeClaimTest : public testing::Test {
 protected:
  NodeClaimTest() {
    NodeClaim claim(ThisRun(), "n1");
    EXPECT_TRUE(claim.Take(kLong, Leave));
    const std::vector<std::string> marks = Marks();
    EXPECT_EQ(marks.size(), 2u);
    if (marks.size() != 2) return;
    asks_ = marks[0];
    serves_ = marks[1];
  }
  ~NodeClaimTest() override { EndOther(); }
  /// Another process does that, which began after this one, and then stays.
  void StartOther(const std::function<void()>& what) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t self = getpid();
    other_ = fork();
    if (other_ == 0) {
      if (!os::DieWithParent(SIGKILL, self).ok()) _exit(1);
      what();
      if (write(ready[1], "", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ready[1]);
    char c = 0;
    EXPECT_EQ(read(ready[0], &c, 1), 1);
    close(ready[0]);
  }
  void StartOtherWith(const std::string& mark) {
    StartOther([&] { memfd_create(mark.c_str(), MFD_CLOEXEC); });
  }
  void EndOther() {
    if (other_ <= 0) return;
    kill(other_, SIGKILL);
    waitpid(other_, nullptr, 0);
    other_ = -1;
  }
  /// Of a process that began after this one: what `what` returns.
  static int InOther(const std::function<int()>& what) {
    const pid_t pid = fork();
    if (pid == 0) _exit(what());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string asks_, serves_;
  pid_t other_ = -1;
};

TEST_F(NodeClaimTest, WhoIsAloneServesAtOnceUntilItCloses) {
  EXPECT_THAT(Marks(), IsEmpty()) << "of one that is gone";
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  NodeClaim claim(ThisRun(), "n1");
  EXPECT_THAT(Marks(), IsEmpty());
  EXPECT_TRUE(claim.Take(kLong, Leave));
  EXPECT_EQ(descriptors(), before + 2);
  EXPECT_THAT(Marks(), ElementsAre(asks_, serves_));
  claim.Close();
  EXPECT_THAT(Marks(), IsEmpty());
  claim.Close();
  EXPECT_TRUE(claim.Take(kLong, Leave));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const int fd = std::stoi(entry.path().filename());
    if (std::filesystem::read_symlink(entry.path(), gone).string().starts_with("/memfd:harrow-")) {
      EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
  }
}

TEST_F(NodeClaimTest, WhileOneServesNobodyElseDoes) {
  StartOther([] {
    static NodeClaim claim(ThisRun(), "n1");
    if (!claim.Take(kLong, Leave)) _exit(1);
  });
  NodeClaim claim(ThisRun(), "n1");
  EXPECT_FALSE(claim.Take(kLong, Leave));
  EXPECT_THAT(Marks(), IsEmpty());
  EXPECT_FALSE(claim.Take(Duration(0), [] { return true; })) << "for longer than the limit";
  int asked = 0;
  EXPECT_TRUE(claim.Take(kLong, [&] {
    EXPECT_THAT(Marks(), IsEmpty()) << "so that it keeps nobody waiting meanwhile";
    if (++asked == 3) EndOther();
    return true;
  }));
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(Marks(), ElementsAre(asks_, serves_));
}

TEST_F(NodeClaimTest, AnotherRunsOrNodesServerIsNoOther) {
  StartOther([] {
    static NodeClaim claim(ThisRun(), "n1");
    if (!claim.Take(kLong, Leave)) _exit(1);
  });
  NodeClaim node(ThisRun(), "n2"), run(ThisRun() + "-2", "n1"), joined(ThisRun() + "\nn1", "");
  EXPECT_TRUE(node.Take(kLong, Leave));
  EXPECT_TRUE(run.Take(kLong, Leave));
  EXPECT_TRUE(joined.Take(kLong, Leave));
}

TEST_F(NodeClaimTest, AServersMarkAloneKeepsOthersAway) {
  StartOtherWith(serves_);
  NodeClaim claim(ThisRun(), "n1");
  EXPECT_FALSE(claim.Take(Duration(0), Leave));
  EXPECT_FALSE(claim.Take(kLong, Leave));
}

// Of several that ask the oldest goes on asking, and the others make way for it.
TEST_F(NodeClaimTest, WhoIsOlderAsksOnUntilTheYoungerHasMadeWay) {
  StartOtherWith(asks_);
  NodeClaim claim(ThisRun(), "n1");
  int asked = 0;
  EXPECT_TRUE(claim.Take(kLong, [&] {
    EXPECT_THAT(Marks(), ElementsAre(asks_));
    if (++asked == 2) EndOther();
    return true;
  }));
  EXPECT_EQ(asked, 2);
}

TEST_F(NodeClaimTest, WhoIsYoungerMakesWay) {
  const int mark = memfd_create(asks_.c_str(), MFD_CLOEXEC);
  EXPECT_EQ(InOther([&] {
              close(mark);
              NodeClaim claim(ThisRun(), "n1");
              bool shown = false;
              const bool taken = claim.Take(kLong, [&] {
                shown = !Marks().empty();
                return false;
              });
              return (taken ? 1 : 0) + (shown ? 2 : 0);
            }),
            0);
  close(mark);
}

// It has been stopped by somebody.
TEST_F(NodeClaimTest, WhoAsksForLongerThanTheLimitIsNotWaitedFor) {
  StartOtherWith(asks_);
  NodeClaim claim(ThisRun(), "n1");
  EXPECT_FALSE(claim.Take(kLong, Leave));
  EXPECT_TRUE(claim.Take(Duration(0), Leave));
  EXPECT_THAT(Marks(), ElementsAre(asks_, serves_));
}

TEST_F(NodeClaimTest, WhatAnotherUserShowsIsNoMark) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user (needs root)";
  StartOther([&] {
    if (setresuid(65534, 65534, 65534) != 0) _exit(1);
    memfd_create(serves_.c_str(), MFD_CLOEXEC);
  });
  NodeClaim claim(ThisRun(), "n1");
  EXPECT_TRUE(claim.Take(kLong, Leave));
}

TEST_F(NodeClaimTest, AFileOfThatNameIsNoMark) {
  const test::OwnDirectory own;
  const std::string file = own.path() + "/memfd:" + serves_;
  StartOther([&] {
    open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    unlink(file.c_str());
    memfd_create((serves_ + "-").c_str(), MFD_CLOEXEC);
  });
  NodeClaim claim(ThisRun(), "n1");
  EXPECT_TRUE(claim.Take(kLong, Leave));
}

}  // namespace
}  // namespace harrow::agent
