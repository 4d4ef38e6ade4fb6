// The agent's end of harrow-pmix, with real helpers and no ranks.
#include "agent/pmix/pmix_port.h"

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "live/pmix_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PmixPortTest : public PmixPortFixture {
 protected:
  void SetUp() override {
    if (std::string(HARROW_PMIX).empty()) GTEST_SKIP() << "harrow-pmix was not built (needs libpmix)";
  }
  void Open(const std::string& program, uint32_t most_ranks = 100,
            Duration patience = std::chrono::seconds(2), Duration ping_every = milliseconds(20)) {
    port_.emplace(PmixPort::Options{.program = program,
                                    .node = "node1",
                                    .root = TmpRootAt(root_),
                                    .most_ranks = most_ranks,
                                    .ping_every = ping_every,
                                    .patience = patience},
                  os::RealClock(), Hooks());
  }
};

TEST_F(PmixPortTest, WhoSaysNothingHoldsUpNobody) {
  Open(HARROW_PMIX);
  const auto team = Add(1, 1);
  ASSERT_TRUE(team.ok());
  const sockaddr_in address = AddressOf((*team)[0]);
  Client silent(address), halting(address);
  const std::string space = ValueOf((*team)[0], "PMIX_NAMESPACE");
  halting.Say(Hello(0, space, 0).substr(0, 30));
  {
    Client rank(address);
    rank.Say(Hello(0, space, 0));
    EXPECT_EQ(rank.Hear(8).size(), 8u) << "it is let in";
    EXPECT_TRUE(Ended(1, 0)->connected);
  }
  halting.Say(Hello(0, space, 0).substr(30));
  EXPECT_EQ(halting.Hear(8).size(), 8u) << "so late";
  std::lock_guard lock(mutex_);
  EXPECT_THAT(lost_, IsEmpty());
}

/// Also where the helper hears of both at once.
TEST_F(PmixPortTest, WhoIsLostIsKnownWhenHisEndIs) {
  constexpr uint32_t kRanks = 12;
  Open(HARROW_PMIX, 100, std::chrono::hours(1));
  const auto team = Add(1, kRanks);
  ASSERT_TRUE(team.ok());
  const std::string space = ValueOf((*team)[0], "PMIX_NAMESPACE");
  const pid_t helper = *Helpers().begin();
  std::array<std::optional<Client>, kRanks> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks[rank].emplace(AddressOf((*team)[0])).Say(Hello(0, space, rank));
    EXPECT_EQ(ranks[rank]->Hear(8).size(), 8u);
  }
  uint32_t turn = 0;
  for (uint32_t rank = kRanks; rank-- > 0;) {
    kill(helper, SIGSTOP);
    ranks[rank].reset();
    int looks = 0;
    const auto go_on = [&] {  // what was asked has been sent by then
      if (++looks == 2) kill(helper, SIGCONT);
      return false;
    };
    EXPECT_EQ(port_->Ended(Attempt(1), rank, go_on)->turn, ++turn);
  }
}

TEST_F(PmixPortTest, WhoNeverBeganIsToldWhetherOthersHave) {
  Open(HARROW_PMIX);
  const auto team = Add(1, 2);
  ASSERT_TRUE(team.ok());
  EXPECT_FALSE(Ended(1, 1)->others_speak);
  {
    Client rank(AddressOf((*team)[0]));
    rank.Say(Hello(0, ValueOf((*team)[0], "PMIX_NAMESPACE"), 0));
    EXPECT_EQ(rank.Hear(8).size(), 8u);
    EXPECT_TRUE(Ended(1, 1)->others_speak);
  }
  EXPECT_EQ(Ended(1, 0)->turn, 1u);
  EXPECT_FALSE(Ended(1, 1)->others_speak);
}

TEST_F(PmixPortTest, WhatIsAskedOfATeamThatNobodyServesIsAnsweredByNothing) {
  Open(HARROW_PMIX);
  std::string answer;
  const auto ask = [&] {
    answer = "none yet";
    port_->Ask(Attempt(1), "", [&](std::string text) { answer = std::move(text); });
    return answer;
  };
  EXPECT_EQ(ask(), "") << "it is not here";
  ASSERT_TRUE(Add(1, 1).ok());
  kill(*Helpers().begin(), SIGKILL);
  WaitForLoss(1);
  EXPECT_EQ(ask(), "");
}

/// How often the thread of that number has waited.
uint64_t TimesWaited(pid_t thread) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  uint64_t times = 0;
  for (std::string line; std::getline(status, line);)
    std::sscanf(line.c_str(), "voluntary_ctxt_switches: %ju", &times);
  return times;
}

TEST_F(PmixPortTest, WhoHasNothingToDoWaits) {
  Open(HARROW_PMIX, 100, std::chrono::hours(1), std::chrono::hours(1));
  ASSERT_TRUE(Add(1, 1).ok());
  const pid_t helper = *Helpers().begin();
  const uint64_t times = TimesWaited(helper);
  const clock_t worked = std::clock();
  usleep(2'500'000);  // who waits tells nobody: two turns of what would look each second
  EXPECT_LE(TimesWaited(helper) - times, 1u) << "after its last answer";
  EXPECT_LT(std::clock() - worked, CLOCKS_PER_SEC / 3) << "of this process";
}

TEST_F(PmixPortTest, WhoIsNoRankIsRefused) {
  Open(HARROW_PMIX);
  const auto team = Add(1, 1);
  ASSERT_TRUE(team.ok());
  const sockaddr_in address = AddressOf((*team)[0]);
  for (const int kind : {1, 3, 4, 5, 8, 9, 200}) {
    Client tool(address);
    tool.Say(Hello(static_cast<uint8_t>(kind), "stranger", 0));
    EXPECT_EQ(tool.Hear(4), "") << kind;
  }
  Client noise(address);
  noise.Say(std::string(4000, '\xff'));
  EXPECT_EQ(noise.Hear(1), "");
  Client stranger(address);
  stranger.Say(Hello(0, "another space", 0));
  EXPECT_EQ(stranger.Hear(8), "");
  EXPECT_TRUE(Ended(1, 0)) << "it lives";
}

TEST_F(PmixPortTest, OtherUsersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "who is not root cannot be another (needs root)";
  Open(HARROW_PMIX);
  const auto team = Add(1, 1);
  ASSERT_TRUE(team.ok());
  const sockaddr_in address = AddressOf((*team)[0]);
  const std::string hello = Hello(0, ValueOf((*team)[0], "PMIX_NAMESPACE"), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    bool refused = setresuid(65534, 65534, 65534) == 0;
    for (int i = 0; i < 10; ++i) {
      Client client(address);
      if (i % 2 == 0) client.Say(hello);
      refused = refused && client.Hear(1).empty();
    }
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(Ended(1, 0)->connected);
}

/// A process that holds each new helper of this one's where it has just got a port, and connects to that as
/// somebody else before the helper goes on.
class Stranger {
 public:
  Stranger() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::set<pid_t> known = {getpid()};
    while (true) {
      for (const pid_t helper : Children(getppid())) {
        if (known.insert(helper).second) GoBefore(helper);
      }
    }
  }
  ~Stranger() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  pid_t pid() const { return pid_; }

 private:
  /// Of the loopback interface, where somebody listens.
  static std::set<unsigned> Ports() {
    std::set<unsigned> all;
    std::ifstream table("/proc/net/tcp");
    for (std::string line; std::getline(table, line);) {
      unsigned port, state;
      if (std::sscanf(line.c_str(), " %*u: 0100007F:%4X %*8X:%*4X %2X", &port, &state) == 2 && state == 10)
        all.insert(port);
    }
    return all;
  }
  static void GoBefore(pid_t helper) {
    const std::set<unsigned> before = Ports();
    if (ptrace(PTRACE_SEIZE, helper, 0, PTRACE_O_TRACESYSGOOD) != 0) return;
    ptrace(PTRACE_INTERRUPT, helper, 0, 0);
    bool listens = false;
    for (int status; waitpid(helper, &status, __WALL) == helper && WIFSTOPPED(status);) {
      __ptrace_syscall_info call{};
      if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
        ptrace(PTRACE_GET_SYSCALL_INFO, helper, sizeof call, &call);
        if (call.op == PTRACE_SYSCALL_INFO_EXIT && listens) break;
        listens = call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_listen;
      }
      ptrace(PTRACE_SYSCALL, helper, 0, 0);
    }
    [[maybe_unused]] const int other = seteuid(65534);
    for (const unsigned port : Ports()) {
      if (before.contains(port)) continue;
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(port));
      for (int i = 0; i < 20; ++i)
        (void)connect(socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<const sockaddr*>(&address),
                      sizeof address);
    }
    [[maybe_unused]] const int again = seteuid(0);
    ptrace(PTRACE_DETACH, helper, 0, 0);
  }

  const pid_t pid_;
};

TEST_F(PmixPortTest, WhoComesFirstIsNotTakenForOurselves) {
  if (geteuid() != 0) GTEST_SKIP() << "who is not root cannot be another (needs root)";
  const Stranger stranger;
  for (uint32_t round = 1; round <= 3; ++round) {
    Open(HARROW_PMIX);
    const auto team = Add(round, 1);
    ASSERT_TRUE(team.ok()) << team.status().message();
    Client rank(AddressOf((*team)[0]));
    rank.Say(Hello(0, ValueOf((*team)[0], "PMIX_NAMESPACE"), 0));
    EXPECT_EQ(rank.Hear(8).size(), 8u) << "it is let in";
    port_.reset();
    EXPECT_THAT(Helpers(), ElementsAre(stranger.pid()));
  }
}

/// As a service manager hands on.
TEST_F(PmixPortTest, APortThatWasInheritedIsNotTakenForItsOwn) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(listen(listener, 8), 0);
  Open(HARROW_PMIX);
  const auto team = Add(1, 1);
  EXPECT_TRUE(team.ok()) << team.status().message();
  close(listener);
}

TEST_F(PmixPortTest, EachRankIsToldWhoItIs) {
  Open(HARROW_PMIX);
  const auto first = Add(1, 2), second = Add(2, 1);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status().message();
  ASSERT_EQ(first->size(), 2u);
  EXPECT_EQ(ValueOf((*first)[0], "PMIX_RANK"), "0");
  EXPECT_EQ(ValueOf((*first)[1], "PMIX_RANK"), "1");
  const std::string space = ValueOf((*first)[0], "PMIX_NAMESPACE");
  EXPECT_EQ(space, ValueOf((*first)[1], "PMIX_NAMESPACE"));
  EXPECT_EQ(space.size(), std::string("harrow-").size() + 32) << "nobody can guess it";
  EXPECT_NE(space, ValueOf((*second)[0], "PMIX_NAMESPACE"));
  EXPECT_THAT(ValueOf((*first)[0], "PMIX_SERVER_URI4"), HasSubstr("127.0.0.1"));
  const auto seen = Ended(1, 1);
  ASSERT_TRUE(seen);
  EXPECT_FALSE(seen->connected || seen->finalized || seen->aborted);
  EXPECT_EQ(Helpers().size(), 1u);
  port_->Drop(Attempt(1));
  EXPECT_FALSE(Ended(1, 1)) << "it is not here any more";
}

/// Of hwloc's plugins one asks the machine's X servers, :0 to :9, and waits for their answers.
TEST_F(PmixPortTest, WhoSaysThatHeIsADisplayIsNotAsked) {
  std::vector<int> displays;
  for (int number = 0; number < 10; ++number) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = "/tmp/.X11-unix/X" + std::to_string(number);
    path.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // a name that is not a file's
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 && listen(fd, 8) == 0) {
      displays.push_back(fd);
    } else {
      close(fd);
    }
  }
  Open(HARROW_PMIX);
  const auto team = Add(1, 1);
  EXPECT_TRUE(team.ok()) << team.status().message();
  for (const int fd : displays) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    // Other programs of MPI on this machine may have come.
    for (int peer = 0; (peer = accept(fd, nullptr, nullptr)) >= 0; close(peer)) {
      ucred who{};
      socklen_t size = sizeof who;
      ASSERT_EQ(getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size), 0);
      EXPECT_THAT(Helpers(), testing::Not(testing::Contains(who.pid))) << "the helper came";
    }
    close(fd);
  }
}

TEST_F(PmixPortTest, AHelperThatHasServedMuchEndsWithItsLastTeam) {
  Open(HARROW_PMIX, 2);
  ASSERT_TRUE(Add(1, 2).ok());
  const std::set<pid_t> first = Helpers();
  ASSERT_TRUE(Add(2, 1).ok());
  EXPECT_EQ(Helpers().size(), 2u);
  EXPECT_TRUE(Ended(1, 0)) << "it keeps those that it has";
  port_->Drop(Attempt(1));
  WaitUntil([&] { return Helpers().size() == 1 && !Helpers().contains(*first.begin()); });
  EXPECT_TRUE(Ended(2, 0));
  std::lock_guard lock(mutex_);
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(PmixPortTest, WhatADeadHelperServedIsLostAndAnotherServesTheNext) {
  Open(HARROW_PMIX);
  ASSERT_TRUE(Add(1, 1).ok());
  kill(*Helpers().begin(), SIGKILL);
  WaitForLoss(1);
  EXPECT_FALSE(Ended(1, 0));
  EXPECT_THAT(why_, HasSubstr("signal 9"));
  ASSERT_TRUE(port_->LossOf(Attempt(1)));
  EXPECT_EQ(port_->LossOf(Attempt(1))->why, why_);
  EXPECT_GT(port_->LossOf(Attempt(1))->when, WallTime());
  EXPECT_FALSE(port_->LossOf(Attempt(2)));
  port_->Drop(Attempt(1));
  EXPECT_TRUE(Add(2, 1).ok());
}

TEST_F(PmixPortTest, AHelperThatDoesNotAnswerIsEnded) {
  Open(HARROW_PMIX);
  ASSERT_TRUE(Add(1, 1).ok());
  kill(*Helpers().begin(), SIGSTOP);
  EXPECT_FALSE(Ended(1, 0)) << "waits until it is given up";
  WaitForLoss(1);
  EXPECT_THAT(why_, HasSubstr("did not answer"));
  port_->Drop(Attempt(1));
  EXPECT_TRUE(Add(2, 1).ok());
}

TEST_F(PmixPortTest, NobodyWaitsInVain) {
  Open(HARROW_PMIX, 100, std::chrono::hours(1));
  ASSERT_TRUE(Add(1, 1).ok());
  kill(*Helpers().begin(), SIGSTOP);
  int asked = 0;
  const auto soon = [&] { return ++asked == 2; };
  EXPECT_FALSE(port_->Ended(Attempt(1), 0, soon));
  EXPECT_EQ(asked, 2);
  asked = 0;
  EXPECT_EQ(port_->Add({.attempt = Attempt(2), .count = 1, .directory = root_}, soon).status().code(),
            Code::kUnavailable);
  kill(*Helpers().begin(), SIGCONT);
  EXPECT_TRUE(Ended(1, 0));
  EXPECT_TRUE(Add(2, 1).ok());
}

TEST_F(PmixPortTest, AfterItsEndNobodyIsToldAnything) {
  Open(HARROW_PMIX, 100, std::chrono::hours(1));
  ASSERT_TRUE(Add(1, 1).ok());
  kill(*Helpers().begin(), SIGSTOP);
  std::atomic<bool> waits{false};
  const auto look = [&] {
    waits = true;
    return false;
  };
  std::thread ended([&] { EXPECT_FALSE(port_->Ended(Attempt(1), 0, look)); });
  std::thread added([&] {
    EXPECT_EQ(port_->Add({.attempt = Attempt(2), .count = 1, .directory = root_}, look).status().code(),
              Code::kUnavailable);
  });
  WaitUntil([&] { return waits.load(); });
  port_->Stop();
  ended.join();
  added.join();
  EXPECT_EQ(Add(3, 1).status().code(), Code::kUnavailable);
  EXPECT_FALSE(Ended(1, 0));
  port_->Drop(Attempt(1));
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(PmixPortTest, WhatCannotBeStartedIsSaid) {
  Open("/nowhere/harrow-pmix");
  EXPECT_EQ(Add(1, 1).status().code(), Code::kInvalid);
  EXPECT_THAT(Add(1, 1).status().message(), HasSubstr("cannot start /nowhere/harrow-pmix"));
  Open("/bin/false");
  EXPECT_EQ(Add(1, 1).status().code(), Code::kInvalid);
  EXPECT_THAT(Add(1, 1).status().message(), HasSubstr("is libpmix installed on node1?"));
}

}  // namespace
}  // namespace harrow::agent
