#pragma once

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <linux/capability.h>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "agent/steps/environment.h"
#include "agent/steps/step.h"
#include "support/own_directory.h"
#include "support/soft_limit.h"

namespace harrow::agent {

/// A directory on the disk that goes away with the test, in whose place it has another one.
class OnDisk : public testing::Test {
 protected:
  OnDisk() {
    CountDescriptors();
  }
  /// Nothing was opened since the test began, or they were counted last, that is not closed again.
  void ExpectNoDescriptorMore() const { EXPECT_EQ(Descriptors(), descriptors_); }
  /// And what was opened no other task inherits.
  void ExpectNoDescriptorIsInherited() const {
    for (const int fd : Descriptors()) {
      if (!descriptors_.contains(fd)) {
        EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC) << fd;
      }
    }
  }
  void CountDescriptors() { descriptors_ = Descriptors(); }

  std::string At(std::string_view name) const { return top_ + "/" + std::string(name); }
  std::string Write(std::string_view name, std::string_view text, mode_t mode = 0644) const {
    const std::string path = At(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  std::string Directory(std::string_view name, mode_t mode = 0700) const {
    std::filesystem::create_directories(At(name));
    chmod(At(name).c_str(), mode);
    return At(name);
  }
  static std::string TextAt(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return "(absent)";
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string Text(std::string_view name) const { return TextAt(At(name)); }
  bool Has(std::string_view name) const { return std::filesystem::exists(std::filesystem::symlink_status(At(name))); }
  static mode_t ModeOf(const std::string& path) {
    struct stat st {};
    return lstat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
  }

  const test::OwnDirectory own_;
  const std::string top_ = std::filesystem::canonical(own_.path()).string();

 private:
  static std::set<int> Descriptors() {
    std::set<int> all;
    for (const std::filesystem::directory_entry& e : std::filesystem::directory_iterator("/proc/self/fd"))
      all.insert(std::stoi(e.path().filename()));
    std::erase_if(all, [](int fd) { return fcntl(fd, F_GETFD) < 0; });  // by which they were listed
    return all;
  }
  std::set<int> descriptors_;
};

/// One step of attempts on the disk: a submit directory, and what other steps would have put together before.
class StepOnDisk : public OnDisk {
 protected:
  StepOnDisk() {
    Directory("submit");
    common_ = {.submit_dir = At("submit"), .node_name = "n1"};
  }
  std::string Submit(std::string_view name) const { return At("submit/" + std::string(name)); }
  void SetProfile(ProfileSpec spec, const EnvList& environment = {}) {
    task_.profile = std::make_shared<TaskProfile>(std::move(spec), std::make_shared<BaseEnvironment>(environment, common_));
  }
  /// Of the task as it is now.
  Status Prepare(Step& step) {
    if (!task_.profile) SetProfile({});
    result_ = {};
    result_.end = End::kRunning;
    launch_.emplace(Launch{.task = task_, .given = given_, .sandbox = sandbox_, .checkpoint = checkpoint_});
    return step.Prepare(&*launch_, &result_);
  }
  /// Its process has ended so.
  void Settle(Step& step, End end, int code = 0) {
    result_.end = end;
    result_.code = code;
    step.Settle(task_, &result_);
  }

  BaseEnvironment::Common common_;
  LocalTask task_;
  Core::Given given_;
  std::string sandbox_;
  CheckpointVariables checkpoint_;
  std::optional<Launch> launch_;
  TaskResult result_;
};

/// As long as it lives, modes and owners are for root as well.
class OrdinaryRights {
 public:
  OrdinaryRights() {
    Call(SYS_capget, &before_[0]);
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    for (const unsigned capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER})
      less[0].effective &= ~(1u << capability);
    Call(SYS_capset, less);
  }
  ~OrdinaryRights() { Call(SYS_capset, before_); }
  OrdinaryRights(const OrdinaryRights&) = delete;
  OrdinaryRights& operator=(const OrdinaryRights&) = delete;

 private:
  static void Call(long number, __user_cap_data_struct* data) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    if (syscall(number, &header, data) != 0) abort();
  }
  __user_cap_data_struct before_[2] = {};
};

using test::FewDescriptors;
using test::SmallFiles;

}  // namespace harrow::agent
