// A real warden and agent, with a server by hand: how an agent begins, what it says of its node, what it makes of a welcome.
#include <algorithm>
#include <csignal>
#include <gmock/gmock.h>
#include <initializer_list>
#include <sstream>

#include "live/agent_warden_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Lt;

/// Set until its end.
class SetVariable {
 public:
  SetVariable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~SetVariable() { unsetenv(name_); }

 private:
  const char* const name_;
};

class AgentBegins : public WardenTest {
 protected:
  /// All ends as a run does.
  void End() {
    server_->ShutDown();
    EXPECT_EQ(WaitForWarden(), 0);
  }
  std::string Log() { return os::RealFileSystem().Read(scratch_.path() + "/0/log/agent-n1.log").value(); }
};

TEST_F(AgentBegins, ItSaysWhatItsNodeHas) {
  StartWarden();
  const pb::AgentHello hello = server_->Hello(1).hello();
  const pb::NodeDescription& node = hello.node();
  EXPECT_EQ(node.name(), "n1");
  EXPECT_EQ(node.slots(), 4u);
  EXPECT_NE(hello.incarnation(), 0u);
  EXPECT_NE(hello.output_file(), 0u);
  const std::string root = std::filesystem::directory_iterator(scratch_.path() + "/node-tmp")->path();
  EXPECT_FALSE(std::filesystem::exists(root + "/hosts")) << "which is for srun";
  server_->Start(1, "echo $HARROW_RUN $HARROW_PART > told; pwd > where");
  EXPECT_EQ(server_->Ended(1).code(), 0);
  const std::string run = std::filesystem::canonical(scratch_.path());
  EXPECT_EQ(os::RealFileSystem().Read(scratch_.path() + "/told").value(), run + " 0\n");
  EXPECT_EQ(os::RealFileSystem().Read(scratch_.path() + "/where").value(), run + "\n") << "the submit directory";
  EXPECT_THAT(Log(), HasSubstr("agent of node n1: 4 slots, " + node.topology()));
  End();
}

TEST_F(AgentBegins, ItTellsOnceWhatIsNotAsWanted) {
  slots_ = std::thread::hardware_concurrency() + 1;
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "true");
  EXPECT_EQ(server_->Ended(1).code(), 0);
  EXPECT_THAT(server_->problems(), ElementsAre(HasSubstr("tasks are not pinned")));
  // Another server, that knows of it from the one before.
  server_.reset();
  server_.emplace(scratch_.path(), 2);
  server_->Hello(1);
  server_->Start(2, "true");
  EXPECT_EQ(server_->Ended(2).code(), 0);
  EXPECT_THAT(server_->problems(), IsEmpty());
  End();
}

// One that asks srun for more processes than there are slots is rather refused by srun than for want of a line.
TEST_F(AgentBegins, OfAJobItMakesAListOfItsNodeForSrun) {
  const SetVariable job("SLURM_JOB_ID", "7");
  for (const auto& [slots, lines] : {std::pair(4u, 64u), {33u, 66u}}) {
    slots_ = slots;
    StartWarden();
    server_->Hello(server_->hellos() + 1);
    const std::string root = std::filesystem::directory_iterator(scratch_.path() + "/node-tmp")->path();
    const Result<std::string> list = os::RealFileSystem().Read(root + "/hosts");
    ASSERT_TRUE(list.ok());
    std::string expected;
    for (uint32_t line = 0; line < lines; ++line) expected += "n1\n";
    EXPECT_EQ(*list, expected);
    End();
    EXPECT_TRUE(std::filesystem::is_empty(scratch_.path() + "/node-tmp"));
  }
}

TEST_F(AgentBegins, OfAServersAddressesItTriesAll) {
  const std::string dir = scratch_.path() + "/0";
  run_dir::Rendezvous server = run_dir::ReadRendezvous(os::RealFileSystem(), dir).value();
  // Nobody listens at port 1.
  server.addresses.insert(server.addresses.begin(), {"127.0.0.1:1", "127.0.0.1:1"});
  ASSERT_TRUE(run_dir::WriteRendezvous(os::RealFileSystem(), dir, server).ok());
  StartWarden();
  EXPECT_EQ(server_->Hello(1).hello().node().name(), "n1");
  End();
}

TEST_F(AgentBegins, AServerWithoutAnAddressIsWaitedFor) {
  const std::string dir = scratch_.path() + "/0";
  const run_dir::Rendezvous server = run_dir::ReadRendezvous(os::RealFileSystem(), dir).value();
  run_dir::Rendezvous nowhere = server;
  nowhere.addresses.clear();
  ASSERT_TRUE(run_dir::WriteRendezvous(os::RealFileSystem(), dir, nowhere).ok());
  StartWarden();
  EXPECT_TRUE(Eventually([&] { return os::RealFileSystem().Read(scratch_.path() + "/0/log/agent-n1.log").ok() &&
                                      Log().find("agent of node") != std::string::npos; }));
  ASSERT_TRUE(run_dir::WriteRendezvous(os::RealFileSystem(), dir, server).ok());
  server_->Hello(1);
  End();
}

TEST_F(AgentBegins, ItEndsTasksAsTheWelcomeSays) {
  const Lateness lateness;
  server_.reset();
  server_.emplace(scratch_.path(), 2, HandServer::Greeting{.kill_wait = milliseconds(300)});
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "trap '' TERM; echo $$ > task; while :; do sleep 0.02; done");
  ReadPid("task");
  const Duration began = os::RealClock().Steady();
  pb::ToAgent cancel;
  wire::SetId({TaskId(1), 1}, cancel.mutable_cancel()->add_attempt());
  server_->Send(cancel);
  EXPECT_EQ(server_->Ended(1).end(), pb::Attempt::CANCELLED);
  const Duration took = os::RealClock().Steady() - began;
  EXPECT_THAT(took, AllOf(Ge(milliseconds(300)), Lt(lateness.Within(seconds(3)))));
  End();
}

TEST_F(AgentBegins, ItKeepsSoMuchOutputAsTheWelcomeSays) {
  server_.reset();
  server_.emplace(scratch_.path(), 2, HandServer::Greeting{.output_limit = 1000});
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "head -c 5000 /dev/zero");
  EXPECT_EQ(server_->Ended(1).output().stdout_bytes(), 1000u);
  EXPECT_TRUE(server_->Ended(1).output().truncated());
  End();
}

TEST_F(AgentBegins, EachSignalThatAsksForItEndsIt) {
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGTERM}) {
    StartWarden();
    server_->Hello(server_->hellos() + 1);
    kill(warden_, signal);
    const int status = WaitForWarden();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << signal;
  }
}

// Also where the agent alone gets it, as of a step that Slurm ends.
TEST_F(AgentBegins, AnAgentThatIsAskedToEndIsNotStartedAgain) {
  for (const int signal : {SIGINT, SIGHUP, SIGTERM}) {
    StartWarden();
    server_->Hello(server_->hellos() + 1);
    kill(Agent(), signal);
    const int status = WaitForWarden();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << signal;
  }
}

}  // namespace
}  // namespace harrow::agent
