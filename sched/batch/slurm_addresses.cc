#include "batch/slurm_addresses.h"

#include <algorithm>
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <map>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// Which of a node's addresses do the others reach? The kernel's routing knows: connecting a datagram socket
// to a peer sends nothing and gives the socket the local address that packets to that peer would carry.

namespace harrow::batch {
namespace {

std::string Numeric(const sockaddr* address, socklen_t length) {
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
  if (getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

// With its interface a link-local address means nothing on another node.
bool IsUsable(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    auto* in = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(in->sin_addr.s_addr) >> 24) != 127;
  }
  if (address->sa_family != AF_INET6) return false;
  auto* in = reinterpret_cast<const sockaddr_in6*>(address);
  return !IN6_IS_ADDR_LOOPBACK(&in->sin6_addr) && !IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr);
}

std::string LocalAddressTowards(const addrinfo& peer) {
  int fd = socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage local = {};
  socklen_t length = sizeof local;
  std::string out;
  if (connect(fd, peer.ai_addr, peer.ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
      IsUsable(reinterpret_cast<sockaddr*>(&local))) {
    out = Numeric(reinterpret_cast<sockaddr*>(&local), length);
  }
  close(fd);
  return out;
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return out;
  for (ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || (a->ifa_flags & IFF_UP) == 0 || !IsUsable(a->ifa_addr)) continue;
    socklen_t length = a->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    out.push_back(Numeric(a->ifa_addr, length));
  }
  freeifaddrs(all);
  return out;
}

}  // namespace

std::vector<std::string> AddressesTowards(const std::vector<std::string>& peers) {
  std::map<std::string, int> uses;
  for (const std::string& peer : peers) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(peer.c_str(), "9", &hints, &found) != 0) continue;
    for (addrinfo* a = found; a != nullptr; a = a->ai_next) {
      if (std::string local = LocalAddressTowards(*a); !local.empty()) ++uses[local];
    }
    freeaddrinfo(found);
  }
  std::vector<std::string> out;
  for (const auto& [address, n] : uses) out.push_back(address);
  std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) { return uses[a] > uses[b]; });
  if (out.empty()) out = OwnAddresses();
  if (out.empty()) out.push_back("127.0.0.1");
  return out;
}

}  // namespace harrow::batch
