// The end of a run as an agent sees it that has connected and not yet greeted: a real run, with another real agent.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "live/eventually.h"
#include "live/wire_peers.h"
#include "os/file_system.h"
#include "run_dir/rendezvous.h"
#include "wire/decode.h"
#include "wire/harrow.pb.h"
#include "wire/version.h"

namespace harrow {
namespace {

namespace fs = std::filesystem;
using test::Eventually;
using std::chrono::steady_clock;

std::string TextOf(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class EndOfRun : public testing::Test {
 protected:
  EndOfRun() {
    char name[] = "/tmp/harrow-end-XXXXXX";
    directory_ = mkdtemp(name);
    EXPECT_EQ(mkfifo((directory_ / "gate").c_str(), 0600), 0);
    std::ofstream(directory_ / "flow.toml") << "[[task]]\nname = \"last\"\ncommand = \"cat gate\"\n";
    pid_ = fork();
    if (pid_ == 0) {
      if (chdir(directory_.c_str()) != 0) _exit(126);
      execl(HARROW_PROGRAM, "harrow", "run", "--run-dir", "r", "flow.toml", nullptr);
      _exit(127);
    }
  }
  ~EndOfRun() override {
    if (pid_ > 0) {
      kill(pid_, SIGTERM);
      waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  /// Anything in the logs of agents.
  bool AgentsSay(const std::string& what) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory_ / "r/0/log", none)) {
      if (entry.path().filename().string().starts_with("agent") &&
          TextOf(entry.path()).find(what) != std::string::npos)
        return true;
    }
    return false;
  }
  /// The exit status of the run.
  int Wait() {
    int status = 0;
    if (waitpid(std::exchange(pid_, -1), &status, 0) < 0) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path directory_;
  pid_t pid_ = -1;
};

TEST_F(EndOfRun, WhoGreetsWhenAllIsDoneIsToldToLeaveAndNotWaitedFor) {
  ASSERT_TRUE(Eventually([&] { return AgentsSay("joined the server"); }));
  const auto server = run_dir::ReadRendezvous(os::RealFileSystem(), directory_ / "r/0");
  ASSERT_TRUE(server.ok()) << server.status().message();
  test::Peer late(server->addresses.front(), {server->run_id, server->key});
  ASSERT_TRUE(late.dialled().ok()) << late.dialled().message();
  std::ofstream(directory_ / "gate") << "go\n";
  ASSERT_TRUE(Eventually([&] { return AgentsSay("over: the run is over"); }));

  const auto greeted = steady_clock::now();
  pb::FromAgent hello;
  hello.mutable_hello()->set_version(wire::kProtocolVersion);
  hello.mutable_hello()->set_run_id(server->run_id);
  hello.mutable_hello()->set_incarnation(1);
  hello.mutable_hello()->mutable_node()->set_name("late");
  hello.mutable_hello()->mutable_node()->set_slots(1);
  late.Send(hello.SerializeAsString());
  ASSERT_TRUE(late.WaitFor(1)) << late.end().message();
  pb::ToAgent answer;
  ASSERT_TRUE(wire::Decode(late.got().front(), &answer).ok());
  EXPECT_EQ(answer.shutdown().reason(), "the run is over");
  EXPECT_FALSE(answer.shutdown().refused()) << "its keeper would start it again";
  EXPECT_EQ(Wait(), 0);
  EXPECT_LT(steady_clock::now() - greeted, std::chrono::seconds(8)) << "the server waits 10 s for agents";
}

}  // namespace
}  // namespace harrow
