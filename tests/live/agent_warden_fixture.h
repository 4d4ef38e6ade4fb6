#pragma once

#include <atomic>
#include <csignal>
#include <future>
#include <optional>
#include <set>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <utility>

#include "agent/steps/tmp_tree.h"
#include "live/agent_fixture.h"
#include "os/event_loop.h"
#include "run_dir/rendezvous.h"
#include "run_dir/run_dir.h"
#include "wire/attempt_id.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"
#include "wire/version.h"

extern char** environ;

namespace harrow::agent {

/// Listens, greets agents, remembers what they say.
class HandServer {
 public:
  /// What it tells agents when it welcomes them.
  struct Greeting {
    Duration fence{0};
    Duration kill_wait = std::chrono::seconds(6);
    uint64_t output_limit = 0;  // bytes; 0: none
    std::set<uint32_t> cancelled{};  // first attempts of tasks
  };

  HandServer(std::string run_dir, uint64_t epoch) : HandServer(std::move(run_dir), epoch, {}) {}
  HandServer(std::string run_dir, uint64_t epoch, Greeting greeting)
      : run_dir_(std::move(run_dir)), epoch_(epoch), greeting_(std::move(greeting)) {
    const wire::Credentials credentials{.run_id = "run", .key = std::string(32, 'k')};
    auto listener =
        wire::Listen(loop_.get(), {"127.0.0.1"}, 0, credentials, {},
                     [this](std::shared_ptr<wire::Channel> channel) { return Greet(std::move(channel)); });
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(listener).value();
    EXPECT_TRUE(run_dir::WriteRendezvous(os::RealFileSystem(), run_dir_ + "/0",
                                         {.version = 1,
                                          .run_id = "run",
                                          .epoch = epoch_,
                                          .addresses = listener_->addresses(),
                                          .key = credentials.key,
                                          .host = "here",
                                          .pid = getpid()})
                    .ok());
    thread_ = std::thread([this] { loop_->Run(); });
  }
  ~HandServer() {
    std::promise<void> closed;
    loop_->Post([&] {
      listener_.reset();
      channel_.reset();
      loop_->Stop();
      closed.set_value();
    });
    closed.get_future().wait();
    thread_.join();
  }

  void Send(const pb::ToAgent& message) {
    loop_->Post([this, bytes = message.SerializeAsString()] {
      if (channel_) channel_->Send(bytes);
    });
  }
  /// Answers nothing any more, or again.
  void SetSilent(bool silent) { silent_ = silent; }
  void Start(uint32_t id, const std::string& shell_command, Duration time_limit = Duration(0),
             const std::string& output = "") {
    pb::ToAgent message;
    pb::Profile* profile = message.add_profile();
    profile->set_id(1);
    profile->set_time_limit_ns(time_limit.count());
    profile->set_cores(1);
    pb::Task* task = message.add_start();
    task->set_id(id);
    task->set_attempt(1);
    task->set_profile(1);
    task->set_form(2);
    task->set_command(shell_command);
    if (!output.empty()) task->add_outputs(output);
    Send(message);
  }
  void Commit(uint64_t sequence) {
    pb::ToAgent message;
    message.mutable_committed()->set_sequence(sequence);
    Send(message);
  }
  void ShutDown(bool refused = false) {
    pb::ToAgent message;
    message.mutable_shutdown()->set_reason("the test is over");
    message.mutable_shutdown()->set_refused(refused);
    Send(message);
  }

  bool WaitFor(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kGenerous, condition);
  }
  /// The n-th agent's hello, from 1.
  pb::FromAgent Hello(size_t n) {
    EXPECT_TRUE(WaitFor([&] { return hellos_.size() >= n; }));
    std::lock_guard lock(mutex_);
    return hellos_.size() >= n ? hellos_[n - 1] : pb::FromAgent();
  }
  pb::Attempt Ended(uint32_t task) {
    EXPECT_TRUE(WaitFor([&] { return ended_.contains(task); })) << "task " << task;
    std::lock_guard lock(mutex_);
    return ended_[task];
  }
  void WaitStarted(uint32_t task) {
    EXPECT_TRUE(WaitFor([&] { return started_.contains(task); })) << "task " << task;
  }
  size_t hellos() {
    std::lock_guard lock(mutex_);
    return hellos_.size();
  }
  std::vector<std::string> problems() {
    std::lock_guard lock(mutex_);
    return problems_;
  }
  uint64_t last_sequence() {
    std::lock_guard lock(mutex_);
    return last_sequence_;
  }

 private:
  wire::ChannelHandler Greet(std::shared_ptr<wire::Channel> channel) {
    channel_ = channel;
    pb::ToAgent message;
    pb::Welcome* welcome = message.mutable_welcome();
    welcome->set_version(wire::kProtocolVersion);
    welcome->set_epoch(epoch_);
    welcome->set_submit_dir(run_dir_);
    welcome->set_kill_wait_ns(greeting_.kill_wait.count());
    welcome->set_output_limit(greeting_.output_limit);
    welcome->set_fence_ns(greeting_.fence.count());
    for (const uint32_t task : greeting_.cancelled)
      wire::SetId({TaskId(task), 1}, message.mutable_cancel()->add_attempt());
    pb::EnvVar* path = welcome->add_env();
    path->set_name("PATH");
    path->set_value("/usr/local/bin:/usr/bin:/bin");
    channel->Send(message.SerializeAsString());
    return {.on_message = [this](std::string_view bytes) { Take(bytes); }, .on_closed = [](const Status&) {}};
  }
  void Take(std::string_view bytes) {
    pb::FromAgent message;
    ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    if (message.has_heartbeat() && !silent_) {
      pb::ToAgent answer;
      *answer.mutable_heartbeat() = message.heartbeat();
      channel_->Send(answer.SerializeAsString());
    }
    std::lock_guard lock(mutex_);
    if (message.has_hello()) hellos_.push_back(message);
    if (message.has_problem()) problems_.push_back(message.problem().text());
    for (const pb::AttemptId& attempt : message.started().attempt()) started_.insert(attempt.task());
    for (const pb::TasksEnded& ended : message.ended()) {
      last_sequence_ = std::max(last_sequence_, ended.sequence());
      for (const pb::Attempt& attempt : ended.attempt()) ended_[attempt.task()] = attempt;
    }
    changed_.notify_all();
  }

  const std::string run_dir_;
  const uint64_t epoch_;
  const Greeting greeting_;
  std::atomic<bool> silent_{false};
  std::unique_ptr<os::EventLoop> loop_ = os::MakeEventLoop();
  std::unique_ptr<wire::Listener> listener_;
  std::shared_ptr<wire::Channel> channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<pb::FromAgent> hellos_;
  std::map<uint32_t, pb::Attempt> ended_;
  std::set<uint32_t> started_;
  std::vector<std::string> problems_;
  uint64_t last_sequence_ = 0;
  std::thread thread_;
};

/// A real warden and agent (HARROW_PROGRAM), with a server by hand.
class WardenTest : public testing::Test {
 protected:
  WardenTest() {
    EXPECT_TRUE(os::BecomeSubreaper().ok());
    std::filesystem::create_directory(scratch_.path() + "/0");
    std::filesystem::create_directory(scratch_.path() + "/node-tmp");
    if (const char* tmp = getenv("TMPDIR")) tmp_before_ = tmp;
    setenv("TMPDIR", (scratch_.path() + "/node-tmp").c_str(), 1);
    server_.emplace(scratch_.path(), 1);
  }
  ~WardenTest() override {
    server_.reset();
    EXPECT_TRUE(os::EndDescendants(Duration(0)).ok());
    // Of one that was killed: not all of it lies in the scratch directory.
    if (const auto part = run_dir::RunDir::Open(scratch_.path() + "/0"); part.ok())
      RemoveLeftTmpRoots(**part);
    tmp_before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", tmp_before_.c_str(), 1);
  }

  /// With a text after it: as part of a shell command.
  void StartWarden(const std::string& shell_suffix = "", bool alone = false) {
    const std::string node = alone ? "" : " --node-name n1";
    const std::string command = std::string(alone ? "env SLURMD_NODENAME=n1 " : "") + HARROW_PROGRAM +
                                " agent --run-dir " + scratch_.path() + node + " --slots " + std::to_string(slots_);
    // Not from the submit directory, which tasks are to run in.
    std::string text = std::string("cd /; ") + (shell_suffix.empty() ? "exec " : "") + command + " " + shell_suffix;
    char shell[] = "/bin/sh", option[] = "-c";
    char* argv[] = {shell, option, text.data(), nullptr};
    ASSERT_EQ(posix_spawn(&warden_, shell, nullptr, nullptr, argv, environ), 0);
  }
  /// The agent is the warden's child of that name.
  pid_t Agent() {
    pid_t agent = 0;
    EXPECT_TRUE(Eventually([&] {
      for (const os::Process& process : os::Descendants(warden_)) {
        const Result<std::string> name =
            os::RealFileSystem().Read("/proc/" + std::to_string(process.pid) + "/comm");
        if (name.ok() && *name == "harrow-agent\n") agent = process.pid;
      }
      return agent != 0;
    }));
    return agent;
  }
  int WaitForWarden() {
    int status = -1;
    EXPECT_TRUE(Eventually([&] { return waitpid(warden_, &status, WNOHANG) == warden_; }));
    return status;
  }
  /// Writes its number to NAME and stays, in a session of its own, after two forks.
  std::string Daemon(const std::string& name) const {
    return "setsid sh -c '(setsid sh -c \"echo \\$\\$ > " + name + ".tmp; mv " + name + ".tmp " + name +
           "; exec sleep 300\" &) ; exit' </dev/null >/dev/null 2>&1 & ";
  }
  pid_t ReadPid(const std::string& name) {
    const std::string path = scratch_.path() + "/" + name;
    std::string text;  // a file is there before its line is
    EXPECT_TRUE(Eventually([&] {
      const Result<std::string> read = os::RealFileSystem().Read(path);
      text = read.ok() ? *read : "";
      return text.ends_with('\n');
    })) << name;
    return text.ends_with('\n') ? std::stoi(text) : 0;
  }
  static bool Gone(pid_t pid) {
    return Eventually([pid] { return !Alive(pid); });
  }

  std::string tmp_before_;
  test::OwnDirectory scratch_;
  std::optional<HandServer> server_;
  pid_t warden_ = -1;
  uint32_t slots_ = 4;
};

}  // namespace harrow::agent
