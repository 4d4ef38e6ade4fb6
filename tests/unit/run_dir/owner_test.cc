#include "run_dir/owner.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>
#include <unistd.h>

#include "support/memory_file_system.h"

namespace harrow::run_dir {
namespace {

Owner Dead() {
  Owner o = ThisProcess("");
  o.process_start += 1;  // another process that had our number
  return o;
}

TEST(Owner, FirstTakesAndSecondIsToldWhoHasIt) {
  test::MemoryFileSystem fs;
  Owner me = ThisProcess("77");
  ASSERT_TRUE(TakeOwnership(fs, "run", me).ok());
  EXPECT_TRUE(TakeOwnership(fs, "run", me).ok()) << "the owner itself, again";
  Owner other = Dead();
  Status second = TakeOwnership(fs, "run", other);
  EXPECT_EQ(second.code(), Code::kExists);
  EXPECT_NE(second.message().find(std::to_string(me.pid)), std::string::npos) << second.message();
  EXPECT_NE(second.message().find("77"), std::string::npos) << second.message();
}

TEST(Owner, ReleasedIsFree) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(TakeOwnership(fs, "run", ThisProcess("")).ok());
  ASSERT_TRUE(ReleaseOwnership(fs, "run").ok());
  EXPECT_EQ(fs.file_count(), 0u);
  // Not ours: left alone.
  ASSERT_TRUE(fs.WriteWhole("run/owner", "{}").ok());
  EXPECT_FALSE(ReleaseOwnership(fs, "run").ok());
  ASSERT_TRUE(fs.Remove("run/owner").ok());
  ASSERT_TRUE(TakeOwnership(fs, "run", Dead()).ok());
  EXPECT_TRUE(ReleaseOwnership(fs, "run").ok());
  EXPECT_TRUE(fs.Has("run/owner"));
}

TEST(Owner, DeadIsSuperseded) {
  Owner me = ThisProcess("");
  Owner other_start = Dead();
  Owner other_boot = me;
  other_boot.boot_id = "another boot";
  Owner no_such_process = me;
  no_such_process.pid = 1 << 30;
  for (const Owner& dead : {other_start, other_boot, no_such_process}) {
    test::MemoryFileSystem fs;
    ASSERT_TRUE(TakeOwnership(fs, "run", dead).ok());
    ASSERT_TRUE(TakeOwnership(fs, "run", me).ok());
    EXPECT_EQ(ParseOwner(fs.Content("run/owner"))->process_start, me.process_start);
    EXPECT_EQ(fs.file_count(), 1u) << "claims are removed";
  }
}

TEST(Owner, WhoCannotBeKnownToBeDeadKeepsIt) {
  Owner me = ThisProcess("2");
  Owner other_host = me;
  other_host.host = "another-host";
  other_host.job = "1";
  Owner other_container = Dead();
  other_container.pid_namespace += 1;
  for (const Owner& owner : {other_host, other_container}) {
    test::MemoryFileSystem fs;
    ASSERT_TRUE(TakeOwnership(fs, "run", owner).ok());
    EXPECT_EQ(TakeOwnership(fs, "run", me).code(), Code::kExists);
  }
  test::MemoryFileSystem fs;
  ASSERT_TRUE(TakeOwnership(fs, "run", other_host).ok());
  auto answer = [](std::optional<bool> alive) { return [alive](const std::string&) { return alive; }; };
  EXPECT_EQ(TakeOwnership(fs, "run", me, answer(true)).code(), Code::kExists);
  EXPECT_EQ(TakeOwnership(fs, "run", me, answer({})).code(), Code::kExists);
  EXPECT_TRUE(TakeOwnership(fs, "run", me, answer(false)).ok());
}

/// Dies, as its claimant does, before it can replace the owner or clean up.
class DyingFileSystem : public test::MemoryFileSystem {
 public:
  Status WriteWhole(const std::string& path, std::string_view data, uint32_t mode) override {
    if (dying && path == "run/owner") return Status(Code::kUnavailable, "died");
    return MemoryFileSystem::WriteWhole(path, data, mode);
  }
  Status Remove(const std::string& path) override {
    return dying ? Status() : MemoryFileSystem::Remove(path);
  }
  bool dying = false;
};

TEST(Owner, ClaimantsThatDiedOnTheWayAreSuperseded) {
  DyingFileSystem fs;
  Owner dead = Dead();
  ASSERT_TRUE(TakeOwnership(fs, "run", dead).ok());
  fs.dying = true;
  for (int i = 1; i <= 3; ++i) {
    dead.process_start += 1;
    ASSERT_FALSE(TakeOwnership(fs, "run", dead).ok());
    ASSERT_EQ(fs.file_count(), 1u + static_cast<size_t>(i)) << "one claim upon the other";
  }
  fs.dying = false;
  Owner me = ThisProcess("");
  ASSERT_TRUE(TakeOwnership(fs, "run", me).ok());
  EXPECT_EQ(fs.file_count(), 1u);
  EXPECT_EQ(ParseOwner(fs.Content("run/owner"))->process_start, me.process_start);
}

TEST(Owner, DamagedFileIsSaidAndKept) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.WriteWhole("run/owner", "{\"host\": ").ok());
  Status status = TakeOwnership(fs, "run", ThisProcess(""));
  EXPECT_EQ(status.code(), Code::kDamaged);
  EXPECT_NE(status.message().find("run/owner"), std::string::npos);
  EXPECT_EQ(fs.Content("run/owner"), "{\"host\": ");
}

TEST(Owner, FullDiskIsSaid) {
  test::MemoryFileSystem fs;
  fs.SetFree(10);
  EXPECT_EQ(TakeOwnership(fs, "run", ThisProcess("")).code(), Code::kExhausted);
}

/// Stops each starter at every file operation, so that two of them can be interleaved in every way.
class Stepped : public os::FileSystem {
 public:
  Stepped(os::FileSystem* fs, std::function<void()> step) : fs_(fs), step_(std::move(step)) {}
  Result<std::string> Read(const std::string& p, uint64_t n) override { return step_(), fs_->Read(p, n); }
  Result<std::string> ReadRange(const std::string& p, uint64_t o, uint64_t n) override {
    return step_(), fs_->ReadRange(p, o, n);
  }
  Result<std::string> ReadPrivate(const std::string& p, uint64_t n) override {
    return step_(), fs_->ReadPrivate(p, n);
  }
  Status WriteWhole(const std::string& p, std::string_view d, uint32_t m) override {
    return step_(), fs_->WriteWhole(p, d, m);
  }
  Status CreateWhole(const std::string& p, std::string_view d, uint32_t m) override {
    return step_(), fs_->CreateWhole(p, d, m);
  }
  Result<std::unique_ptr<os::AppendFile>> OpenAppend(const std::string& p, uint32_t m) override {
    return step_(), fs_->OpenAppend(p, m);
  }
  Result<os::FileInfo> Stat(const std::string& p) override { return step_(), fs_->Stat(p); }
  Result<std::string> Resolve(const std::string& p) override { return step_(), fs_->Resolve(p); }
  Result<std::vector<std::string>> List(const std::string& p) override { return step_(), fs_->List(p); }
  Status MakeDirectories(const std::string& p, uint32_t m) override {
    return step_(), fs_->MakeDirectories(p, m);
  }
  Status Rename(const std::string& a, const std::string& b) override { return step_(), fs_->Rename(a, b); }
  Status Remove(const std::string& p) override { return step_(), fs_->Remove(p); }
  Status RemoveTree(const std::string& p) override { return step_(), fs_->RemoveTree(p); }

 private:
  os::FileSystem* fs_;
  std::function<void()> step_;
};

/// Processes that are alive, this one first: the other ones are the oldest of the machine.
std::vector<Owner> AliveProcesses(size_t count) {
  std::vector<int64_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int64_t pid = atoll(entry.path().filename().c_str());
    if (pid > 0 && pid != getpid()) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  std::vector<Owner> owners = {ThisProcess("")};
  for (int64_t pid : pids) {
    if (owners.size() == count) break;
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.empty()) continue;
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
    Owner o = ThisProcess("");
    o.pid = pid;
    o.process_start = std::stoull(words.at(19));
    owners.push_back(o);
  }
  return owners;
}

TEST(Owner, OfSeveralStartersOneTakesOverHoweverTheyInterleave) {
  std::vector<Owner> starters = AliveProcesses(3);
  if (starters.size() < 3) GTEST_SKIP() << "three live processes (needs three processes)";
  // The first starter is stopped before one of its operations, and there the second does all of its own;
  // which in turn is stopped and overtaken by a third. Every pair of places is tried, upon a dead owner and
  // upon a dead claimant.
  constexpr int kSteps = 14;
  for (bool dead_claimant : {false, true}) {
    for (int outer = 0; outer < kSteps; ++outer) {
      for (int inner = 0; inner < kSteps; ++inner) {
        DyingFileSystem files;
        Owner dead = Dead();
        ASSERT_TRUE(TakeOwnership(files, "run", dead).ok());
        if (dead_claimant) {
          files.dying = true;
          dead.process_start += 1;
          ASSERT_FALSE(TakeOwnership(files, "run", dead).ok());
          files.dying = false;
        }
        std::vector<Status> results(3, Status(Code::kInternal, "did not start"));
        std::vector<int> steps(3);
        std::function<void(size_t)> start = [&](size_t i) {
          Stepped fs(&files, [&, i] {
            bool stop = i < 2 && steps[i]++ == (i == 0 ? outer : inner);
            if (stop) start(i + 1);
          });
          results[i] = TakeOwnership(fs, "run", starters[i]);
        };
        start(0);
        int owners = 0;
        for (size_t i = 0; i < 3; ++i) {
          if (!results[i].ok()) continue;
          ++owners;
          EXPECT_EQ(ParseOwner(files.Content("run/owner"))->pid, starters[i].pid) << outer << " " << inner;
        }
        EXPECT_EQ(owners, 1) << outer << " " << inner;
        EXPECT_EQ(files.file_count(), 1u) << outer << " " << inner;
      }
    }
  }
}

}  // namespace
}  // namespace harrow::run_dir
