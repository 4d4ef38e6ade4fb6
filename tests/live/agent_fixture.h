#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/slot_pool.h"
#include "live/eventually.h"
#include "os/file_system.h"
#include "os/process.h"
#include "support/own_directory.h"

namespace harrow::agent {

constexpr auto kGenerous = std::chrono::seconds(120);

using test::Eventually;

/// How late this machine is to run what is ready to: the worst case since this was made.
class Lateness {
 public:
  Lateness() : thread_([this] { Watch(); }) {}
  ~Lateness() {
    ended_ = true;
    thread_.join();
  }
  /// What happens within `quiet` on a quiet machine happens within this, by a chain of a few processes.
  Duration Within(Duration quiet) const { return quiet + 5 * Duration(worst_.load()); }

 private:
  void Watch() {
    constexpr Duration kPause = std::chrono::milliseconds(10);
    while (!ended_) {
      const Duration began = os::RealClock().Steady();
      std::this_thread::sleep_for(kPause);
      worst_ = std::max(worst_.load(), (os::RealClock().Steady() - began - kPause).count());
    }
  }

  std::atomic<bool> ended_{false};
  std::atomic<int64_t> worst_{0};
  std::thread thread_;
};

/// This process is from now on to the tasks that it starts what an agent is: signals come by descriptor, and
/// standard input is empty.
inline void BeAsAgent() {
  static const bool taken = [] {
    os::TakeSignals();
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    close(null);
    return true;
  }();
  EXPECT_TRUE(taken);
}

/// False of one, too, that is dead and that init, which may take its time, has not yet waited for.
inline bool Alive(pid_t pid) {
  os::Process process;
  return os::ReadProcess(pid, &process);
}

/// The slots of a node with real processes, output in a scratch directory; results are looked up by task.
class SlotPoolTest : public testing::Test {
 protected:
  SlotPoolTest() {
    BeAsAgent();
    SetSlots(2);
  }
  ~SlotPoolTest() override { Stop(); }

  void SetSlots(size_t slots) {
    Stop();
    node_.slots.assign(slots, {});
    Restart();
  }
  void Restart() {
    std::filesystem::create_directories(scratch_.path() + "/tmp");
    node_.tmp_root = TmpRootAt(scratch_.path() + "/tmp");
    node_.kill_wait_ns = Duration(std::chrono::milliseconds(200)).count();
    auto writer = output::Writer::Create(os::RealFileSystem(), scratch_.path(), ++output_file_);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    collector_ = std::make_unique<Collector>(
        std::move(writer).value(), os::RealClock(),
        [this](Batch batch) {
          std::lock_guard lock(mutex_);
          for (const StartedTask& task : batch.started) started_.push_back(task.id);
          for (TaskResult& result : batch.ended) {
            order_.push_back(result.id);
            results_[result.id] = std::move(result);
          }
          changed_.notify_all();
          arrival_->Arrived();
        },
        [](const std::string& problem) { ADD_FAILURE() << problem; });
    arrival_ = collector_.get();
    pool_ = std::make_unique<SlotPool>(node_, os::RealClock(), *collector_);
  }
  void Stop() {
    pool_.reset();
    collector_.reset();
  }

  /// A shell command.
  LocalTask Shell(const std::string& text, ProfileSpec spec = {}) {
    LocalTask task = Words(text, std::move(spec));
    task.form = CommandForm::kShell;
    return task;
  }
  LocalTask Words(const std::string& text, ProfileSpec spec = {}) {
    EnvList env;
    for (const char* name : {"PATH", "HOME"}) {
      if (const char* value = getenv(name)) env.emplace_back(name, value);
    }
    const auto base = std::make_shared<BaseEnvironment>(
        env, BaseEnvironment::Common{.submit_dir = scratch_.path(),
                                     .node_name = "test",
                                     .has_devices = !node_.devices.empty(),
                                     .own_tmp = true});
    LocalTask task;
    task.id = next_id_++;
    task.command = text;
    task.profile = std::make_shared<TaskProfile>(std::move(spec), base);
    return task;
  }

  /// The first attempt of a task.
  static AttemptId First(uint32_t task) { return {TaskId(task), 1}; }
  uint32_t Push(LocalTask task) {
    const uint32_t id = task.id;
    std::vector<LocalTask> tasks;
    tasks.push_back(std::move(task));
    pool_->Push(std::move(tasks));
    return id;
  }
  TaskResult Wait(uint32_t id) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kGenerous, [&] { return results_.contains(id); })) << "task " << id;
    return results_[id];
  }
  TaskResult Run(LocalTask task) { return Wait(Push(std::move(task))); }
  void WaitStarted(uint32_t id) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kGenerous, [&] {
      return std::find(started_.begin(), started_.end(), id) != started_.end() || results_.contains(id);
    }));
  }
  /// What a task wrote to a stream.
  std::string Output(const TaskResult& result, output::Stream stream = output::Stream::kStdout) {
    std::string text;
    if (result.output_offset == 0) return text;
    auto reader = std::move(output::Reader::Open(os::RealFileSystem(), scratch_.path())).value();
    const Status status = reader->ReadAttempt(output_file_, result.output_offset, TaskId(result.id),
                                              result.attempt, [&](const output::Piece& piece) {
                                                if (piece.stream == stream) text += piece.data;
                                              });
    EXPECT_TRUE(status.ok()) << status.message();
    return text;
  }
  std::string File(const std::string& name) {
    return os::RealFileSystem().Read(scratch_.path() + "/" + name).ok()
               ? *os::RealFileSystem().Read(scratch_.path() + "/" + name)
               : "";
  }
  test::OwnDirectory scratch_;
  NodeContext node_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, TaskResult> results_;
  std::vector<uint32_t> order_, started_;
  uint32_t next_id_ = 0;
  uint32_t output_file_ = 0;
  std::unique_ptr<Collector> collector_;
  Collector* arrival_ = nullptr;  // also while collector_ is being destroyed
  std::unique_ptr<SlotPool> pool_;
};

}  // namespace harrow::agent
