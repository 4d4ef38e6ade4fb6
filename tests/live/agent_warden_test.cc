// A real warden and agent, with a server by hand: what happens when one of them dies, and what is left then.
#include <csignal>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <utility>

#include "live/agent_fixture.h"
#include "os/event_loop.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"
#include "wire/rendezvous.h"
#include "wire/version.h"

extern char** environ;

namespace harrow::agent {
namespace {

using std::chrono::seconds;

/// Listens, greets agents, remembers what they say.
class HandServer {
 public:
  HandServer(std::string run_dir, uint64_t epoch) : run_dir_(std::move(run_dir)), epoch_(epoch) {
    const wire::Credentials credentials{.run_id = "run", .key = std::string(32, 'k')};
    auto listener =
        wire::Listen(loop_.get(), {"127.0.0.1"}, 0, credentials, {},
                     [this](std::shared_ptr<wire::Channel> channel) { return Greet(std::move(channel)); });
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(listener).value();
    EXPECT_TRUE(wire::WriteRendezvous(os::RealFileSystem(), run_dir_,
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
  void Start(uint32_t id, const std::string& shell_command) {
    pb::ToAgent message;
    pb::Profile* profile = message.add_profile();
    profile->set_id(1);
    profile->set_cores(1);
    pb::Task* task = message.add_start();
    task->set_id(id);
    task->set_attempt(1);
    task->set_profile(1);
    task->set_form(2);
    task->set_command(shell_command);
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
    welcome->set_kill_wait_ns(Duration(std::chrono::milliseconds(500)).count());
    pb::EnvVar* path = welcome->add_env();
    path->set_name("PATH");
    path->set_value("/usr/local/bin:/usr/bin:/bin");
    channel->Send(message.SerializeAsString());
    return {.on_message = [this](std::string_view bytes) { Take(bytes); }, .on_closed = [](const Status&) {}};
  }
  void Take(std::string_view bytes) {
    pb::FromAgent message;
    ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    if (message.has_heartbeat()) {
      pb::ToAgent answer;
      *answer.mutable_heartbeat() = message.heartbeat();
      channel_->Send(answer.SerializeAsString());
    }
    std::lock_guard lock(mutex_);
    if (message.has_hello()) hellos_.push_back(message);
    for (uint32_t task : message.started().task()) started_.insert(task);
    for (const pb::TasksEnded& ended : message.ended()) {
      last_sequence_ = std::max(last_sequence_, ended.sequence());
      for (const pb::Attempt& attempt : ended.attempt()) ended_[attempt.task()] = attempt;
    }
    changed_.notify_all();
  }

  const std::string run_dir_;
  const uint64_t epoch_;
  std::unique_ptr<os::EventLoop> loop_ = os::MakeEventLoop();
  std::unique_ptr<wire::Listener> listener_;
  std::shared_ptr<wire::Channel> channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<pb::FromAgent> hellos_;
  std::map<uint32_t, pb::Attempt> ended_;
  std::set<uint32_t> started_;
  uint64_t last_sequence_ = 0;
  std::thread thread_;
};

class WardenTest : public testing::Test {
 protected:
  WardenTest() {
    EXPECT_TRUE(os::BecomeSubreaper().ok());
    std::filesystem::create_directory(scratch_.path() + "/node-tmp");
    if (const char* tmp = getenv("TMPDIR")) tmp_before_ = tmp;
    setenv("TMPDIR", (scratch_.path() + "/node-tmp").c_str(), 1);
    server_.emplace(scratch_.path(), 1);
  }
  ~WardenTest() override {
    server_.reset();
    EXPECT_TRUE(os::EndDescendants(Duration(0)).ok());
    tmp_before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", tmp_before_.c_str(), 1);
  }

  /// With a text after it: as part of a shell command.
  void StartWarden(const std::string& shell_suffix = "") {
    const std::string command =
        std::string(HARROW_PROGRAM) + " agent --run-dir " + scratch_.path() + " --node-name n1 --slots 4";
    std::string text =
        "cd " + scratch_.path() + "; " + (shell_suffix.empty() ? "exec " : "") + command + " " + shell_suffix;
    char shell[] = "/bin/sh", option[] = "-c";
    char* argv[] = {shell, option, text.data(), nullptr};
    ASSERT_EQ(posix_spawn(&warden_, shell, nullptr, nullptr, argv, environ), 0);
  }
  /// The agent is the warden's child of that name.
  pid_t Agent() {
    pid_t agent = 0;
    EXPECT_TRUE(Eventually([&] {
      for (pid_t pid : os::Descendants(warden_)) {
        const Result<std::string> name = os::RealFileSystem().Read("/proc/" + std::to_string(pid) + "/comm");
        if (name.ok() && *name == "harrow-agent\n") agent = pid;
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
    return Eventually([pid] { return kill(pid, 0) != 0; });
  }

  std::string tmp_before_;
  ScratchDirectory scratch_;
  std::optional<HandServer> server_;
  pid_t warden_ = -1;
};

TEST_F(WardenTest, RunsTasksUntilTheServerSaysThatItIsOver) {
  StartWarden();
  const pb::FromAgent hello = server_->Hello(1);
  EXPECT_EQ(hello.hello().node().name(), "n1");
  EXPECT_EQ(hello.hello().node().slots(), 4u);
  server_->Start(1, "echo $TMPDIR; touch $TMPDIR/x");
  EXPECT_EQ(server_->Ended(1).end(), pb::Attempt::EXITED);
  EXPECT_EQ(server_->Ended(1).output().file(), hello.hello().output_file());
  server_->Start(2, Daemon("daemon") + "sleep 300");
  const pid_t daemon = ReadPid("daemon");
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
  EXPECT_TRUE(Gone(daemon));
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path() + "/node-tmp")) << "temporary directories are left";
}

TEST_F(WardenTest, ADeadAgentLeavesNothingAndIsStartedAgain) {
  StartWarden();
  const uint64_t first = server_->Hello(1).hello().incarnation();
  server_->Start(1, "echo $$ > task; " + Daemon("daemon") + "sleep 300 & wait");
  const pid_t daemon = ReadPid("daemon");
  const pid_t task = ReadPid("task");
  server_->WaitStarted(1);
  kill(Agent(), SIGKILL);
  const pb::FromAgent second = server_->Hello(2);
  EXPECT_NE(second.hello().incarnation(), first);
  EXPECT_NE(second.hello().output_file(), server_->Hello(1).hello().output_file());
  EXPECT_EQ(second.hello().running_size(), 0);
  // Everything was ended before the new agent began.
  EXPECT_NE(kill(daemon, 0), 0);
  EXPECT_NE(kill(task, 0), 0);
  server_->Start(2, "exit 5");
  EXPECT_EQ(server_->Ended(2).code(), 5);
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
}

TEST_F(WardenTest, AKilledWardenTakesAgentAndTasksWithIt) {
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "echo $$ > task; " + Daemon("daemon") + "sleep 300");
  const pid_t task = ReadPid("task");
  const pid_t daemon = ReadPid("daemon");
  const pid_t agent = Agent();
  kill(warden_, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(WaitForWarden()));
  // The dead agent is ours now, and its tasks too; we have to reap them.
  EXPECT_TRUE(os::EndDescendants(Duration(0)).ok());
  EXPECT_TRUE(Gone(agent));
  EXPECT_TRUE(Gone(task));
  EXPECT_TRUE(Gone(daemon));
}

TEST_F(WardenTest, TermEndsTasksInPeaceAndTellsTheServer) {
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "trap 'echo saved > saved; exit 7' TERM; echo $$ > task; while :; do sleep 0.05; done");
  ReadPid("task");
  server_->WaitStarted(1);
  kill(warden_, SIGTERM);
  const pb::Attempt ended = server_->Ended(1);
  EXPECT_EQ(ended.end(), pb::Attempt::INTERRUPTED);
  EXPECT_EQ(ended.code(), 7);
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/saved"));
  EXPECT_EQ(WaitForWarden(), 0);
}

TEST_F(WardenTest, TasksRunOnWhileTheServerIsAway) {
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "echo $$ > long; while [ ! -e go ]; do sleep 0.05; done; exit 3");
  server_->Start(2, "while [ ! -e away ]; do sleep 0.01; done; exit 4");
  ReadPid("long");
  server_->WaitStarted(1);
  server_->WaitStarted(2);
  server_.reset();
  std::filesystem::create_directory(scratch_.path() + "/away");
  // The second task ends while there is nobody to tell.
  server_.emplace(scratch_.path(), 2);
  const pb::FromAgent hello = server_->Hello(1);
  EXPECT_EQ(hello.hello().epoch_seen(), 1u);
  std::set<uint32_t> told;
  for (const pb::Attempt& attempt : hello.hello().running()) told.insert(attempt.task());
  for (const pb::TasksEnded& ended : hello.ended()) {
    for (const pb::Attempt& attempt : ended.attempt()) told.insert(attempt.task());
  }
  EXPECT_EQ(told, (std::set<uint32_t>{1, 2})) << "nothing is forgotten";
  EXPECT_EQ(server_->Ended(2).code(), 4);
  std::filesystem::create_directory(scratch_.path() + "/go");
  EXPECT_EQ(server_->Ended(1).code(), 3);
  server_->Commit(server_->last_sequence());
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
}

TEST_F(WardenTest, TheDeathOfTheWardensParentEndsEverything) {
  // The parent, a shell, starts the warden and waits for it; killed, it leaves the warden to us.
  StartWarden("& echo $! > warden; wait");
  server_->Hello(1);
  server_->Start(1, "echo $$ > task; " + Daemon("daemon") + "sleep 300");
  const pid_t task = ReadPid("task");
  const pid_t daemon = ReadPid("daemon");
  const pid_t shell = std::exchange(warden_, ReadPid("warden"));
  kill(shell, SIGKILL);
  EXPECT_EQ(waitpid(shell, nullptr, 0), shell);
  WaitForWarden();
  EXPECT_TRUE(Gone(task));
  EXPECT_TRUE(Gone(daemon));
}

TEST_F(WardenTest, TasksHaveNoTerminal) {
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "test $(ps -o sid= -p $$) != $(ps -o sid= -p " + std::to_string(getpid()) + ")");
  EXPECT_EQ(server_->Ended(1).code(), 0);
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
}

TEST_F(WardenTest, ARefusedAgentIsNotStartedAgain) {
  StartWarden();
  server_->Hello(1);
  server_->ShutDown(true);
  const int status = WaitForWarden();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(WardenTest, AnAgentThatDiesAgainAndAgainIsGivenUp) {
  StartWarden();
  for (size_t n = 1; n <= 5; ++n) {
    server_->Hello(n);
    kill(Agent(), SIGKILL);
  }
  const int status = WaitForWarden();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace harrow::agent
