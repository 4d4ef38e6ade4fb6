// A real warden and agent, with a server by hand: what happens when one of them dies, and what is left then.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "live/agent_warden_fixture.h"

namespace harrow::agent {
namespace {

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

// A new agent's temporary directory: it has an empty one for streams.
bool IsAsBegun(const std::filesystem::path& root) {
  const auto entries = std::filesystem::directory_iterator(root);
  return std::all_of(begin(entries), end(entries), [](const auto& entry) {
    return entry.path().filename() == "streams" && std::filesystem::is_empty(entry.path());
  });
}

// Its successor removes what it left; also when somebody else's directory has been recorded, that stays.
TEST_F(WardenTest, WhatAKilledWardenLeftIsRemovedByTheNext) {
  const std::string tmp = scratch_.path() + "/node-tmp", record = scratch_.path() + "/0/log/agent-n1.tmp";
  StartWarden();
  server_->Hello(1);
  server_->Start(1,
                 "echo x > $TMPDIR/x; mkdir $TMPDIR/closed; echo > $TMPDIR/closed/y; chmod 0 $TMPDIR/closed; "
                 "ln -s " +
                     scratch_.path() + "/keep $TMPDIR/link; echo $$ > task; sleep 300");
  std::filesystem::create_directory(scratch_.path() + "/keep");
  std::ofstream(scratch_.path() + "/keep/precious") << "x";
  ReadPid("task");
  kill(warden_, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(WaitForWarden()));
  EXPECT_TRUE(os::EndDescendants(Duration(0)).ok());
  ASSERT_FALSE(std::filesystem::is_empty(tmp)) << "a killed warden removes nothing";
  ASSERT_TRUE(std::filesystem::exists(record));
  const std::string of_ranks =
      "/dev/shm/ranks-" + std::filesystem::directory_iterator(tmp)->path().filename().string();
  EXPECT_TRUE(std::filesystem::exists(of_ranks) || !IsSafeBase("/dev/shm"));
  StartWarden();
  server_->Hello(2);
  size_t roots = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tmp)) {
    ++roots;
    EXPECT_TRUE(IsAsBegun(entry.path()));
  }
  EXPECT_EQ(roots, 1u) << "its own";
  EXPECT_FALSE(std::filesystem::exists(of_ranks));
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(tmp));
  EXPECT_FALSE(std::filesystem::exists(record));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/keep/precious")) << "a link was followed";

  // The path leads to another directory by now: it has another inode.
  std::filesystem::create_directory(tmp + "/harrow-abcdef");
  std::ofstream(tmp + "/harrow-abcdef/precious") << "x";
  std::ofstream(record) << "1 1 " << tmp << "/harrow-abcdef\n";
  chmod(record.c_str(), 0600);
  StartWarden();
  server_->Hello(3);
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
  EXPECT_TRUE(std::filesystem::exists(tmp + "/harrow-abcdef/precious")) << "a recorded path is not enough";
}

TEST_F(WardenTest, WhatADeadAgentsTasksLeftIsGoneBeforeTheNext) {
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "echo x > $TMPDIR/x; dirname $TMPDIR > root; echo $$ > task; sleep 300");
  ReadPid("task");
  kill(Agent(), SIGKILL);
  server_->Hello(2);
  const std::string root = os::RealFileSystem().Read(scratch_.path() + "/root").value();
  EXPECT_TRUE(IsAsBegun(root.substr(0, root.size() - 1)));
  server_->Start(2, "test -z \"$(ls -A $TMPDIR)\"");
  EXPECT_EQ(server_->Ended(2).code(), 0);
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
}

TEST_F(WardenTest, TemporaryFilesDoNotGoWhereOthersCouldReplaceThem) {
  const std::string tmp = scratch_.path() + "/node-tmp";
  chmod(tmp.c_str(), 0777);
  StartWarden();
  server_->Hello(1);
  server_->Start(1, "echo $TMPDIR > where; echo $$ > task");
  ReadPid("task");
  const std::string where = os::RealFileSystem().Read(scratch_.path() + "/where").value();
  EXPECT_TRUE(where.starts_with("/tmp/harrow-")) << where;
  EXPECT_TRUE(std::filesystem::is_empty(tmp));
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
}

// As in Slurm, where a node may be given a second one.
TEST_F(WardenTest, OfTwoWardensOfANodeOneServes) {
  StartWarden("", /*alone=*/true);
  server_->Hello(1);
  const pid_t first = warden_;
  StartWarden("", true);
  EXPECT_EQ(WaitForWarden(), 0) << "the second leaves";
  EXPECT_EQ(server_->hellos(), 1u);
  // A third waits for the first to leave, and serves then.
  StartWarden("", true);
  kill(first, SIGTERM);
  server_->Hello(2);
  EXPECT_EQ(waitpid(first, nullptr, 0), first);
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
}

TEST_F(WardenTest, OfManyThatStartAtOnceOneServes) {
  std::vector<pid_t> all;
  for (int i = 0; i < 5; ++i) {
    StartWarden("", true);
    all.push_back(warden_);
  }
  server_->Hello(1);
  size_t left = 0;
  EXPECT_TRUE(Eventually([&] {
    for (pid_t& pid : all) {
      if (pid > 0 && waitpid(pid, nullptr, WNOHANG) == pid) {
        pid = -1;
        ++left;
      }
    }
    return left == all.size() - 1;
  }));
  EXPECT_EQ(server_->hellos(), 1u);
  server_->ShutDown();
  for (pid_t pid : all) {
    if (pid > 0) {
      EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    }
  }
}

// A name that all users share can be bound by any of them. There is none any more: this is the one that was.
TEST_F(WardenTest, ASquattedNameMakesNoAgentLeave) {
  if (getuid() != 0) GTEST_SKIP() << "only root can play another user (needs root)";
  const std::string run_dir = std::filesystem::canonical(scratch_.path());
  const std::string name = "harrow-warden-0-" + std::to_string(std::hash<std::string>()(run_dir + "/0\nn1"));
  const pid_t squatter = fork();
  if (squatter == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name.data(), name.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setresuid(65534, 65534, 65534) != 0 ||
        bind(fd, reinterpret_cast<sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) != 0)
      _exit(1);
    const int mark = memfd_create(("harrow-" + name.substr(16) + "-serves").c_str(), 0);
    memfd_create(("harrow-" + name.substr(16) + "-asks").c_str(), 0);
    close(open((scratch_.path() + "/never").c_str(), O_RDONLY));
    if (mark >= 0) pause();
    _exit(1);
  }
  ASSERT_TRUE(Eventually([&] {
    const auto names = os::RealFileSystem().Read("/proc/net/unix");
    return names.ok() && names->find(name) != std::string::npos;
  }));
  StartWarden("", true);
  server_->Hello(1);
  server_->ShutDown();
  EXPECT_EQ(WaitForWarden(), 0);
  kill(squatter, SIGKILL);
  EXPECT_EQ(waitpid(squatter, nullptr, 0), squatter);
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
  server_->Commit(server_->last_sequence());
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
  StartWarden("& echo $! > " + scratch_.path() + "/warden; wait");
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
