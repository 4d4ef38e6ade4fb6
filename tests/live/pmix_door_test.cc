// Who is let in by harrow-pmix, and what becomes of the others.
#include <array>
#include <cstddef>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "live/eventually.h"
#include "live/pmix_helper_fixture.h"

namespace harrow::agent {
namespace {

using test::Eventually;
using testing::ElementsAre;

/// As on a kernel that has no such sockets.
void RefuseSockDiag() {
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_SOCK_DIAG, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(125);
}

class PmixDoorTest : public PmixHelperFixture {
 protected:
  void Serve() {
    Add(1, {4}, 0);
    address_ = AddressOf(variables_[0]);
    // Whoever came before this one, as the helper itself does, has been heard; and nothing of it has to be
    // waited for.
    kill(helper_->pid(), SIGSTOP);
    siginfo_t stopped{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(helper_->pid()), &stopped, WSTOPPED), 0);
    first_.emplace(address_).Say(Hello(0, "space-1", 3));
    kill(helper_->pid(), SIGCONT);
    EXPECT_EQ(first_->Hear(8).size(), 8u);
  }
  /// That the helper has.
  size_t Descriptors() const {
    std::error_code gone;
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(helper_->pid()) + "/fd", gone);
    return static_cast<size_t>(std::distance(all, {}));
  }
  bool IsLetIn(uint32_t rank) {
    Client client(address_);
    client.Say(Hello(0, "space-1", rank));
    return client.Hear(8).size() == 8;
  }
  /// With what comes after the header.
  static std::string Message(const std::string& text) {
    const uint32_t header[4] = {0, 0, static_cast<uint32_t>(text.size()), 0};
    return std::string(reinterpret_cast<const char*>(header), sizeof header) + text;
  }
  /// Whether nobody of another user's is let in.
  void ExpectOthersAreRefused() {
    const pid_t pid = fork();
    if (pid == 0) {
      bool refused = setresuid(65534, 65534, 65534) == 0;
      for (int i = 0; i < 4; ++i) {
        Client client(address_);
        if (i % 2 == 0) client.Say(Hello(0, "space-1", 0));
        refused = refused && client.Hear(1).empty();
      }
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }

  sockaddr_in address_{};
  std::optional<Client> first_;
};

TEST_F(PmixDoorTest, WhoIsNoRankIsHungUpOnAndForgotten) {
  Serve();
  const size_t before = Descriptors();
  const std::string name("native\0", 7);
  const std::pair<const char*, std::string> cases[] = {
      {"nothing", Message("")},
      {"a name without end", Message(std::string(40, 'n'))},
      {"no proof", Message(name)},
      {"no whole length of a proof", Message(name + std::string(3, '\0'))},
      {"no kind", Message(name + BigEndian(0))},
      {"a proof that is cut short", Message(name + BigEndian(9) + std::string(8, '\0'))},
      {"a proof to the end", Message(name + BigEndian(8) + std::string(8, '\0'))},
      {"a long proof", Message(name + BigEndian(~0u) + std::string(8, '\0'))},
      {"a tool", Hello(1, "space-1", 0)},
      {"a message that is too long", Message(std::string((1 << 15) + 1, '\0')).substr(0, 16)},
      {"the longest", Message(std::string(1 << 15, 'n'))}};
  for (const auto& [what, text] : cases) {
    Client client(address_);
    client.Say(text);
    EXPECT_TRUE(client.IsHungUpOn()) << what;
  }
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before; }));
  EXPECT_TRUE(IsLetIn(0));
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before; }));
}

TEST_F(PmixDoorTest, AMessageMayComeInPieces) {
  Serve();
  const std::string hello = Hello(0, "space-1", 0);
  std::array<std::optional<Client>, 3> ranks;
  const std::array<std::vector<size_t>, 3> ends = {{{1}, {16}, {10, 20, hello.size() - 1}}};
  const size_t before = Descriptors();
  std::array<size_t, 3> said{};
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].emplace(address_);
  for (size_t piece = 0; piece < 3; ++piece) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (piece >= ends[i].size()) continue;
      ranks[i]->Say(Hello(0, "space-1", static_cast<uint32_t>(i)).substr(said[i], ends[i][piece] - said[i]));
      said[i] = ends[i][piece];
    }
    EXPECT_TRUE(Eventually([&] { return Descriptors() == before + 3; }));
    EXPECT_TRUE(Lives());
  }
  EXPECT_TRUE(IsLetIn(3)) << "libpmix would wait for the rest of those";
  for (size_t i = ranks.size(); i-- > 0;) {
    ranks[i]->Say(Hello(0, "space-1", static_cast<uint32_t>(i)).substr(said[i]));
    EXPECT_EQ(ranks[i]->Hear(8).size(), 8u) << i;
  }
}

TEST_F(PmixDoorTest, WhoGoesBeforeHeHasSaidAllIsForgotten) {
  Serve();
  const size_t before = Descriptors();
  const std::string hello = Hello(0, "space-1", 0);
  {
    std::array<std::optional<Client>, 4> clients;
    for (size_t i = 0; i < clients.size(); ++i)
      clients[i].emplace(address_).Say(hello.substr(0, std::array<size_t, 4>{0, 10, 16, 30}[i]));
    EXPECT_TRUE(Eventually([&] { return Descriptors() == before + 4; }));
  }
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before; }));
  {
    Client client(address_);
    client.Say(hello.substr(0, 30));
  }
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before; })) << "who is gone at once";
  EXPECT_TRUE(IsLetIn(0));
}

TEST_F(PmixDoorTest, SoManyMayWait) {
  Serve();
  const size_t before = Descriptors();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 256; ++i) clients.push_back(std::make_unique<Client>(address_));
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before + 256; }));
  EXPECT_TRUE(Client(address_).IsHungUpOn()) << "one more";
  clients[7]->Say(Hello(0, "space-1", 0));
  EXPECT_EQ(clients[7]->Hear(8).size(), 8u);
  EXPECT_TRUE(IsLetIn(1)) << "there is a place again";
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return Descriptors() == before; }));
}

TEST_F(PmixDoorTest, ManyComeAtOnce) {
  Serve();
  kill(helper_->pid(), SIGSTOP);
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<Client>(address_));
    if (i % 3 != 0) continue;
    clients.back()->Say(i % 2 == 0 ? Hello(0, "space-1", 0) : Hello(4, "tool", 0));
  }
  kill(helper_->pid(), SIGCONT);
  for (uint32_t i = 0; i < 30; i += 3) {
    if (i % 2 == 0) {
      EXPECT_EQ(clients[i]->Hear(8).size(), 8u) << i;
    } else {
      EXPECT_TRUE(clients[i]->IsHungUpOn()) << i;
    }
  }
}

TEST_F(PmixDoorTest, WhoseAConnectionIsTheKernelsTableTellsToo) {
  Start({}, RefuseSockDiag);
  Serve();
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(IsLetIn(rank));
  EXPECT_THAT(Rank(0, {"publish,a,one", "lookup,a"}).Lines(),
              ElementsAre("publish: SUCCESS", "lookup: SUCCESS a=one@0"));
  if (geteuid() == 0) ExpectOthersAreRefused();
  EXPECT_TRUE(IsLetIn(1));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which read in /proc

/// No table of connections is there.
void HideProc() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
    _exit(125);
}

bool CanHideProc() {
  const pid_t pid = fork();
  if (pid == 0) {
    HideProc();
    _exit(0);
  }
  int status = -1;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

TEST_F(PmixDoorTest, WhoseAConnectionIsTheKernelSaysWhenItIsAsked) {
  if (!CanHideProc()) GTEST_SKIP() << "/proc cannot be hidden (needs mounting)";
  Start({}, HideProc);
  Serve();
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(IsLetIn(rank));
  ExpectOthersAreRefused();
  EXPECT_TRUE(IsLetIn(1));
}

TEST_F(PmixDoorTest, WhereNothingSaysWhoseAConnectionIsNobodyIsServed) {
  if (!CanHideProc()) GTEST_SKIP() << "/proc cannot be hidden (needs mounting)";
  Start({}, [] {
    HideProc();
    RefuseSockDiag();
  });
  const auto said = Hear();
  ASSERT_TRUE(said);
  EXPECT_EQ(said->unusable(),
            "the kernel does not say to whom a connection belongs (sock_diag, /proc/net/tcp)");
  EXPECT_EQ(helper_->Wait(), 1);
}

#endif

}  // namespace
}  // namespace harrow::agent
