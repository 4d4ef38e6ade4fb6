// The plugin on a node whose disk answers nothing: every call of Slurm's comes back in its time, says why,
// and what comes later knows of it. All of them wait at once, each in a process of its own.
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/plugin_fixture.h"
#include "support/played_slurm.h"

namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr char kSlow[] = ": it takes longer; does the disk answer?\n";

class StuckDisk : public harrow::plugin::MountNamespaceTest {
 protected:
  void SetUp() override {
    MountNamespaceTest::SetUp();
    if (root_.empty()) return;
    server_ = SilentServer();
    if (server_ < 0) GTEST_SKIP() << "no /dev/fuse (needs fuse)";
    fs::create_directory(root_ + "/local");
    fs::create_directory(root_ + "/state");
    fs::permissions(root_ + "/state", fs::perms::owner_all);
  }
  void TearDown() override {
    if (server_ >= 0) close(server_);  // whoever waits for it goes on
    if (root_.empty()) return;
    umount2((root_ + "/local").c_str(), MNT_DETACH);
    MountNamespaceTest::TearDown();
  }
  // What Slurm does, in a process of its own. What it logs is in the file `name`.
  void Begin(const std::string& name, spank_context_t context, const std::function<void(Process*)>& calls) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      slurm_log.clear();
      Process process(context, {"local=" + root_ + "/local", "state=" + root_ + "/state", "epilog_time=5"});
      calls(&process);
      std::ofstream said(root_ + "/" + name);
      for (const std::string& line : slurm_log) said << line << '\n';
      if (process.spank.environment.contains("HARROW_LOCAL")) said << "HARROW_LOCAL is set\n";
      said.close();
      _exit(0);
    }
    running_[pid] = name;
  }
  // Seconds until each had come back.
  std::map<std::string, double> Wait() {
    std::map<std::string, double> seconds;
    const auto began = steady_clock::now();
    while (!running_.empty()) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, 0);
      EXPECT_EQ(status, 0) << running_[pid];
      seconds[running_[pid]] = std::chrono::duration<double>(steady_clock::now() - began).count();
      running_.erase(pid);
    }
    return seconds;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(root_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Note(const char* job, const char* text) const {
    std::ofstream(root_ + "/state/" + job + ".note") << text;
  }

  int server_ = -1;
  std::map<pid_t, std::string> running_;
};

TEST_F(StuckDisk, HoldsUpNobodyForLong) {
  MountSilent(server_, root_ + "/local");
  Note("13", "j");
  Note("14", "j");
  Begin("slurmd", S_CTX_SLURMD, [](Process* slurmd) { slurmd->Call("slurm_spank_init"); });
  Begin("first step", S_CTX_REMOTE, [](Process* step) { step->Step(true); });
  Begin("later step", S_CTX_REMOTE, [](Process* step) {
    step->spank.job = 13;
    step->Step(true);
  });
  Begin("epilog", S_CTX_JOB_SCRIPT, [](Process* epilog) {
    epilog->spank.job = 14;
    epilog->Call("slurm_spank_job_epilog");
  });
  Begin("task", S_CTX_REMOTE, [this](Process* task) {
    task->Call("slurm_spank_init");
    task->Option("harrow", nullptr);
    task->spank.environment["HARROW_LOCAL"] = root_ + "/local/harrow/15";
    task->Call("slurm_spank_task_init");
  });
  const std::map<std::string, double> seconds = Wait();
  const std::string harrow = root_ + "/local/harrow";
  EXPECT_EQ(Read("slurmd"), "error: harrow: " + harrow + " is not prepared, 10 s at most" + kSlow);
  EXPECT_EQ(Read("first step"),
            "error: harrow: no job directory: " + harrow + "/12 is not made, 20 s at most" + kSlow);
  EXPECT_EQ(Read("later step"),
            "error: harrow: no job directory: " + harrow + "/13 is not made, 20 s at most" + kSlow);
  EXPECT_EQ(Read("epilog"),
            "error: harrow: job 14: clearing up, 20 s at most: it takes longer; does the disk answer?; " +
                harrow + "/14 is left for the next job's end\n");
  EXPECT_EQ(Read("task"),
            "error: harrow: the job directory " + harrow + "/15 is not to be used here" + kSlow);
  for (const auto& [name, took] : seconds) {
    EXPECT_GE(took, name == "slurmd" ? 9 : 19) << name;
    EXPECT_LT(took, 100) << name;
  }
  EXPECT_EQ(Read("state/12.note"), "n") << "nothing of the job's is on the disk: its end does not look";
  EXPECT_EQ(Read("state/13.note"), "m") << "further steps of the job do not wait";
  EXPECT_EQ(Read("state/14.note"), "o") << "the job is over: what it left is removed by whoever comes by";
}

}  // namespace
