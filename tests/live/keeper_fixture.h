// A keeper and what it starts: shell scripts play the server and who starts agents. Time goes faster
// for it than for them, so that what it waits for minutes takes seconds.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "batch/batch.h"
#include "keeper/keeper.h"
#include "os/event_loop.h"

namespace harrow::keeper {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The loop that it wraps, in a time that goes so many times as fast while `flies` holds. It stands still
/// while this process does: a machine that stalls lets nothing pass at once.
class FastLoop final : public os::EventLoop {
 public:
  FastLoop(int times, std::function<bool()> flies) : times_(times), flies_(std::move(flies)) { Tick(); }
  Time Now() const override { return now_; }
  void Post(Callback work) override { inner_->Post(std::move(work)); }
  TimerId After(Duration delay, Callback work) override {
    timers_[{now_ + delay, ++last_}] = std::move(work);
    return last_;
  }
  void CancelTimer(TimerId timer) override {
    std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
  }
  void WatchFd(int fd, Callback ready) override { inner_->WatchFd(fd, std::move(ready)); }
  void UnwatchFd(int fd) override { inner_->UnwatchFd(fd); }
  void Run() override { inner_->Run(); }
  void Stop() override { inner_->Stop(); }
  /// In real time.
  void Limit(Duration limit, Callback over) { inner_->After(limit, std::move(over)); }

 private:
  static constexpr Duration kTick = milliseconds(2);

  void Tick() {
    const Time to = now_ + kTick * (flies_() ? times_ : 1);
    while (!timers_.empty() && timers_.begin()->first.first <= to) {
      auto timer = timers_.extract(timers_.begin());
      now_ = std::max(now_, timer.key().first);
      timer.mapped()();
    }
    now_ = to;
    inner_->After(kTick, [this] { Tick(); });
  }

  const int times_;
  const std::function<bool()> flies_;
  Time now_{};
  TimerId last_ = 0;
  std::map<std::pair<Time, TimerId>, Callback> timers_;
  std::unique_ptr<os::EventLoop> inner_ = os::MakeEventLoop();
};

struct Rescue {
  std::string node;
  Time at;
};

/// Scripts in place of agents.
class Scripts final : public batch::Batch {
 public:
  std::string name() const override { return "scripts"; }
  std::string job_id() const override { return ""; }
  Result<std::vector<batch::GrantedNode>> Nodes() override { return std::vector<batch::GrantedNode>(); }
  std::optional<WallTime> EndTime() override { return std::nullopt; }
  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) override {
    EXPECT_EQ(run_dir, run);
    if (!broken.empty()) return Status(Code::kUnavailable, broken);
    std::vector<std::vector<std::string>> commands;
    for (const std::string& script : wardens) commands.push_back({shell, "-c", script});
    return commands;
  }
  std::optional<std::vector<std::string>> AgentCommandOn(const std::string& run_dir,
                                                         const std::string& node) override {
    EXPECT_EQ(run_dir, run);
    if (node.empty()) return rescue.empty() ? std::nullopt : std::optional(std::vector<std::string>());
    rescues.push_back({node, loop->Now()});
    if (rescue.empty() || rescue == "none") return std::nullopt;
    return std::vector<std::string>{shell, "-c", rescue, node};
  }
  std::optional<std::vector<std::string>> AgentCommandWithout(const std::string& run_dir,
                                                              const std::vector<std::string>& nodes) override {
    EXPECT_EQ(run_dir, run);
    without.push_back(nodes);
    if (others.empty()) return std::nullopt;
    return std::vector<std::string>{"/bin/sh", "-c", others};
  }
  std::vector<std::string> UnreachableIn(std::string_view written) const override {
    std::istringstream words{std::string(written)};
    std::vector<std::string> nodes;
    for (std::string word; words >> word;) {
      if (word.starts_with("node")) nodes.push_back(word);
    }
    return nodes;
  }
  std::vector<std::string> ListenHosts() override { return {}; }

  os::EventLoop* loop = nullptr;
  std::string run, broken, shell = "/bin/sh";
  std::vector<std::string> wardens = {"exec sleep 1000"};
  std::string rescue;  // of a node; empty: there are no rescues, "none": not of this one
  std::string others;  // without nodes that cannot be reached; empty: none would be left
  std::vector<Rescue> rescues;
  std::vector<std::vector<std::string>> without;
};

class KeeperTest : public testing::Test {
 protected:
  KeeperTest() {
    std::string path = (fs::temp_directory_path() / "harrow-keeper-XXXXXX").string();
    top_ = mkdtemp(path.data());
    batch_.run = top_ + "/run";
  }
  ~KeeperTest() override { fs::remove_all(top_); }

  /// `script`: the server, where $n is how many there have been; `say NAME` tells the figures NAME.
  KeeperEnd Keep(const std::string& script, int times_as_fast = 1) {
    if (HasFailure()) return {};  // of an earlier one: each would take its time
    Write("program",
          "#!/bin/sh\ncd " + top_ +
              "\nn=$(($(cat servers) + 1)); echo $n >servers; echo $$ >server.pid; echo \"$*\" >arguments\n"
              "say() { cat said.$1; }\n" +
              script + "\n");
    Write("servers", "0");
    chmod((top_ + "/program").c_str(), 0700);
    heard_at_ = Time();
    loop_ = std::make_unique<FastLoop>(times_as_fast, flies_);
    batch_.loop = loop_.get();
    KeeperOptions options;
    options.program = top_ + "/program";
    const run_dir::Part part = run_dir::MakePart(run_dir::RunDir::Make(batch_.run).value()).value();
    options.part = part;
    options.progress = [this](const pb::Progress& progress) {
      figures_.push_back(progress.done());
      heard_at_ = loop_->Now();
    };
    options.say = [this](const std::string& line) { said_.push_back(line); };
    fs::create_directory(Part("log"));
    for (const auto& work : at_once_) loop_->Post(work);
    loop_->Limit(seconds(100), [this] {
      ADD_FAILURE() << "the run does not end";
      loop_->Stop();
    });
    const long open_before = OpenFiles();
    KeeperEnd end = Keeper(loop_.get(), &batch_, std::move(options)).Run();
    EXPECT_EQ(OpenFiles(), open_before) << "descriptors are left";
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
    return end;
  }
  /// Of a server that says something all the time: nothing passes that it could not say on a slow machine.
  void ItTalks() {
    flies_ = [this] { return loop_ != nullptr && loop_->Now() < heard_at_ + seconds(1); };
  }
  /// Does `work` once `is` holds, while the keeper runs.
  void When(std::function<bool()> is, std::function<void()> work) {
    auto look = std::make_shared<std::function<void()>>();
    *look = [this, is = std::move(is), work = std::move(work), look] {
      is() ? work() : (void)loop_->After(milliseconds(5), *look);
    };
    at_once_.push_back(*look);
  }
  void SignalUs(int signal) { kill(getpid(), signal); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(top_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(top_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static long OpenFiles() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  }
  bool There(const std::string& name) const { return fs::exists(top_ + "/" + name); }
  int Servers() const { return atoi(Read("servers").c_str()); }
  /// What `say NAME` of a server tells; several times: one after the other.
  void Figures(const std::string& name, const pb::Progress& progress) const {
    const std::string text = progress.SerializeAsString();
    const auto size = static_cast<uint32_t>(text.size());
    std::ofstream(top_ + "/said." + name, std::ios::app)
        << std::string_view(reinterpret_cast<const char*>(&size), sizeof size) << text;
  }
  static pb::Progress Done(uint64_t done, uint64_t total = 9) {
    pb::Progress progress;
    progress.set_total(total);
    progress.set_done(done);
    return progress;
  }
  static pb::Progress Absent(const std::vector<std::string>& nodes, uint32_t slots = 1) {
    pb::Progress progress = Done(1);
    progress.set_slots(slots);
    for (const std::string& node : nodes) progress.add_absent(node);
    return progress;
  }
  std::string Part(const std::string& below) const { return batch_.run + "/0/" + below; }

  std::string top_;
  Scripts batch_;
  std::unique_ptr<FastLoop> loop_;
  std::function<bool()> flies_ = [] { return true; };
  Time heard_at_{};
  std::vector<std::function<void()>> at_once_;
  std::vector<uint64_t> figures_;
  std::vector<std::string> said_;
};

}  // namespace harrow::keeper
