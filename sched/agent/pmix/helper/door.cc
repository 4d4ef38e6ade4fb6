// Every user of the node may connect to libpmix's port (TCP on the loopback interface). Libpmix believes them
// who they say they are, waits for their first message with the thread that serves all, and takes whoever
// calls himself a tool for one. So the program has an accept() of its own, which libpmix finds before the C
// library's. It hands libpmix a connection only
// - from a process of this user's, by what the kernel says of the socket at its other end;
// - whose first message is here as a whole: a rank that is stopped between connect and send holds up nobody;
// - which says that it is a rank.
// All others are closed.
//
// The thread that calls accept() may be the one that serves all: it does not wait there. Connections whose
// message has not come are watched by a thread of ours. When one is ready, that thread connects to the port
// itself, so that libpmix calls accept(), which then returns the one that is ready.
#include "agent/pmix/helper/door.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/text.h"

namespace harrow::agent::pmix {
namespace {

constexpr int kAtOnce = 1;                // ms; most messages come right after their connections
constexpr int kPause = 100;               // ms, where there is no descriptor left
constexpr int kAgain = 100;               // ms, until libpmix is called again
constexpr size_t kMostWaiting = 256;      // connections
constexpr uint32_t kMostBytes = 1 << 15;  // of a first message, which has some hundred
constexpr size_t kEstablished = 1;        // TCP's state, as the kernel numbers it
constexpr std::chrono::seconds kPatience{10};

/// What a first message begins with. It goes on with the name of a way to prove who one is and an empty byte,
/// the length of such a proof (big-endian), the proof, and what the sender is.
struct Header {
  int32_t peer = 0;
  uint32_t tag = 0;
  uint32_t bytes = 0;  // that follow
  uint32_t padding = 0;
};
constexpr uint8_t kRank = 0;

/// The user to whom the socket at the other end belongs, if it is one of this machine's that is open.
std::optional<uid_t> PeerByNetlink(const sockaddr_in& peer, const sockaddr_in& own) {
  static const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  struct {
    nlmsghdr header;
    inet_diag_req_v2 asked;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.asked.sdiag_family = AF_INET;
  message.asked.sdiag_protocol = IPPROTO_TCP;
  message.asked.idiag_states = ~0u;
  message.asked.id.idiag_sport = peer.sin_port;
  message.asked.id.idiag_dport = own.sin_port;
  message.asked.id.idiag_src[0] = peer.sin_addr.s_addr;
  message.asked.id.idiag_dst[0] = own.sin_addr.s_addr;
  message.asked.id.idiag_cookie[0] = message.asked.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (fd < 0 || send(fd, &message, sizeof message, 0) != sizeof message) return std::nullopt;
  alignas(nlmsghdr) char answer[4096];
  const ssize_t n = recv(fd, answer, sizeof answer, 0);
  nlmsghdr header;
  inet_diag_msg said;
  if (n < static_cast<ssize_t>(NLMSG_LENGTH(sizeof said))) return std::nullopt;
  std::memcpy(&header, answer, sizeof header);
  std::memcpy(&said, answer + NLMSG_HDRLEN, sizeof said);
  const bool same = header.nlmsg_type == SOCK_DIAG_BY_FAMILY && said.id.idiag_sport == peer.sin_port &&
                    said.id.idiag_dport == own.sin_port;
  // One that its process has closed belongs to nobody: to 0.
  if (!same || said.idiag_state != kEstablished) return std::nullopt;
  return said.idiag_uid;
}

/// The same of kernels that do not answer such questions.
std::optional<uid_t> PeerByTable(const sockaddr_in& peer, const sockaddr_in& own) {
  std::FILE* const table = std::fopen("/proc/thread-self/net/tcp", "re");
  if (table == nullptr) return std::nullopt;
  std::optional<uid_t> found;
  char line[512];
  while (!found && std::fgets(line, sizeof line, table) != nullptr) {
    unsigned local, local_port, remote, remote_port, state;
    uid_t user;
    if (std::sscanf(line, " %*u: %8X:%4X %8X:%4X %2X %*x:%*x %*x:%*x %*x %u", &local, &local_port, &remote,
                    &remote_port, &state, &user) != 6)
      continue;
    if (local == peer.sin_addr.s_addr && local_port == ntohs(peer.sin_port) &&
        remote == own.sin_addr.s_addr && remote_port == ntohs(own.sin_port) && state == kEstablished)
      found = user;
  }
  std::fclose(table);
  return found;
}

bool IsOurs(int fd) {
  sockaddr_in peer{}, own{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET)
    return false;
  size = sizeof own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  std::optional<uid_t> user = PeerByNetlink(peer, own);
  if (!user) user = PeerByTable(peer, own);
  return user == geteuid();
}

/// So that poll tells of it when so much is there, or it has ended.
void WaitFor(int fd, int bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

enum class Hello { kMore, kOfRank, kOther };

Hello Look(int fd) {
  std::vector<char> text(sizeof(Header) + kMostBytes);
  const ssize_t n = recv(fd, text.data(), text.size(), MSG_PEEK | MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Hello::kMore : Hello::kOther;
  if (n == 0) return Hello::kOther;
  const auto have = static_cast<size_t>(n);
  Header header;
  if (have >= sizeof header) {
    std::memcpy(&header, text.data(), sizeof header);
    if (header.bytes > kMostBytes) return Hello::kOther;
    if (have < sizeof header + header.bytes) WaitFor(fd, static_cast<int>(sizeof header + header.bytes));
  }
  if (have < sizeof header || have < sizeof header + header.bytes) {
    // Is there an end before the message's?
    pollfd hung_up = {fd, POLLRDHUP, 0};
    return poll(&hung_up, 1, 0) > 0 ? Hello::kOther : Hello::kMore;
  }
  const char* at = text.data() + sizeof header;
  const char* const end = at + header.bytes;
  const void* const name_end = std::memchr(at, 0, header.bytes);
  uint32_t proof = 0;
  if (name_end == nullptr) return Hello::kOther;
  at = static_cast<const char*>(name_end) + 1;
  if (end - at < static_cast<ptrdiff_t>(sizeof proof)) return Hello::kOther;
  std::memcpy(&proof, at, sizeof proof);
  at += sizeof proof;
  if (end - at <= static_cast<ptrdiff_t>(ntohl(proof))) return Hello::kOther;
  return static_cast<uint8_t>(at[ntohl(proof)]) == kRank ? Hello::kOfRank : Hello::kOther;
}

/// What calls of accept(), the watching thread and Check() share.
struct Lobby {
  std::mutex mutex;
  std::condition_variable changed;
  sockaddr_in tried{};              // the other end of the one by which Open() tries the door
  std::optional<bool> tried_ours;   // whether that was found to be ours; none: it has not come
  std::vector<int> waiting, ready;  // for their messages; to be handed over
  sockaddr_in port{};
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);  // something waits

  void Watch();
  void Ring() const;
  /// Is it the connection by which Open() tries the door? It waits for that.
  bool NoteTried(int fd, bool is_ours);
};

Lobby& TheLobby() {
  static Lobby* const lobby = new Lobby;  // libpmix's threads end with the process only
  return *lobby;
}

/// Makes libpmix call accept().
void Lobby::Ring() const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&port), sizeof port);
  close(fd);
}

void Lobby::Watch() {
  std::unique_lock lock(mutex);
  while (true) {
    std::vector<pollfd> set = {{wake, POLLIN, 0}};
    for (const int fd : waiting) set.push_back({fd, POLLIN, 0});
    const bool again = !ready.empty();
    lock.unlock();
    if (again) Ring();
    poll(set.data(), set.size(), again ? kAgain : -1);
    uint64_t count;
    [[maybe_unused]] const ssize_t n = read(wake, &count, sizeof count);
    lock.lock();
    for (size_t i = 1; i < set.size(); ++i) {
      const int fd = set[i].fd;
      const auto at = std::find(waiting.begin(), waiting.end(), fd);
      if (set[i].revents == 0 || at == waiting.end()) continue;
      const Hello hello = Look(fd);
      if (hello == Hello::kMore) continue;
      waiting.erase(at);
      if (hello == Hello::kOfRank) {
        ready.push_back(fd);
      } else {
        close(fd);
      }
    }
  }
}

bool Lobby::NoteTried(int fd, bool is_ours) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  std::lock_guard lock(mutex);
  if (tried_ours || tried.sin_port == 0 || peer.sin_port != tried.sin_port ||
      peer.sin_addr.s_addr != tried.sin_addr.s_addr)
    return false;
  tried_ours = is_ours;
  changed.notify_all();
  return true;
}

/// -1: there is none to be handed over.
int Take(int listener) {
  Lobby& lobby = TheLobby();
  {
    std::lock_guard lock(lobby.mutex);
    if (!lobby.ready.empty()) {
      const int fd = lobby.ready.front();
      lobby.ready.erase(lobby.ready.begin());
      return fd;
    }
  }
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) {
    // Whatever is wrong, libpmix would never accept again.
    if (errno != EAGAIN && errno != EINTR) poll(nullptr, 0, kPause);
    return -1;
  }
  const bool ours = IsOurs(fd);
  if (lobby.NoteTried(fd, ours)) {
    close(fd);
    return -1;
  }
  Hello hello = Hello::kOther;
  if (ours) {
    WaitFor(fd, sizeof(Header));
    pollfd set = {fd, POLLIN, 0};
    poll(&set, 1, kAtOnce);
    hello = Look(fd);
  }
  std::lock_guard lock(lobby.mutex);
  if (hello == Hello::kOfRank) return fd;
  if (hello == Hello::kOther || lobby.waiting.size() == kMostWaiting) {
    close(fd);
    return -1;
  }
  lobby.waiting.push_back(fd);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(lobby.wake, &one, sizeof one);
  return -1;
}

bool Listens(int fd, sockaddr_in* address) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return false;
  size = sizeof *address;
  return getsockname(fd, reinterpret_cast<sockaddr*>(address), &size) == 0 && address->sin_family == AF_INET;
}

}  // namespace

Status Door::Open() {
  constexpr int kHighest = 256;  // it was opened before this program had many
  Lobby& lobby = TheLobby();
  int listener = 0;
  while (listener < kHighest && !Listens(listener, &lobby.port)) ++listener;
  if (listener == kHighest)
    return Status(Code::kUnavailable, "libpmix has no port on the loopback interface");
  std::thread([&lobby] { lobby.Watch(); }).detach();
  // Others may come before and beside it.
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Status(Code::kExhausted, StrCat("no socket: ", strerror(errno)));
  std::unique_lock lock(lobby.mutex);
  lobby.tried.sin_family = AF_INET;
  lobby.tried.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof lobby.tried;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&lobby.tried), size) == 0)
    (void)getsockname(fd, reinterpret_cast<sockaddr*>(&lobby.tried), &size);
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&lobby.port), sizeof lobby.port);
  const bool came = lobby.changed.wait_for(lock, kPatience, [&] { return lobby.tried_ours.has_value(); });
  close(fd);
  if (!came)
    return Status(Code::kUnavailable,
                  "this libpmix takes connections in a way that Harrow does not know and cannot guard");
  if (!*lobby.tried_ours)
    return Status(Code::kUnavailable,
                  "the kernel does not say to whom a connection belongs (sock_diag, /proc/net/tcp)");
  return {};
}

}  // namespace harrow::agent::pmix

extern "C" __attribute__((visibility("default"))) int accept(int listener, sockaddr* peer, socklen_t* size) {
  using namespace harrow::agent::pmix;
  const int fd = Take(listener);
  if (fd < 0) {
    errno = EAGAIN;
    return -1;
  }
  WaitFor(fd, 1);
  if (peer != nullptr) getpeername(fd, peer, size);
  return fd;
}
