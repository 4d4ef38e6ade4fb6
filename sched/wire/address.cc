#include "wire/address.h"

#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <netdb.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::wire {

std::string Address::Text() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (ipv6()) {
    sockaddr_in6 in;
    memcpy(&in, &storage, sizeof(in));
    inet_ntop(AF_INET6, &in.sin6_addr, host, sizeof(host));
    return StrCat("[", std::string_view(host), "]:", ntohs(in.sin6_port));
  }
  sockaddr_in in;
  memcpy(&in, &storage, sizeof(in));
  inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
  return StrCat(std::string_view(host), ":", ntohs(in.sin_port));
}

Result<Address> Address::Of(const std::string& host, uint16_t port) {
  Address address;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    address.size = sizeof(four);
    memcpy(&address.storage, &four, sizeof(four));
  } else if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    address.size = sizeof(six);
    memcpy(&address.storage, &six, sizeof(six));
  } else {
    return Status(Code::kInvalid, StrCat("\"", Printable(host), "\" is not a numeric address, as 10.0.0.1"));
  }
  return address;
}

Result<Address> Address::Parse(std::string_view text) {
  size_t colon = text.rfind(':');
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  uint16_t port = 0;
  std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  Result<Address> address = Of(host, port);
  if (!address.ok() || error != std::errc() || end != digits.data() + digits.size() || port == 0) {
    return Status(Code::kInvalid,
                  StrCat("\"", Printable(text), "\" is not a numeric address and port, as 10.0.0.1:4000"));
  }
  return address;
}

std::string HostTowards(const std::string& address) {
  const Result<Address> peer = Address::Parse(address);
  if (!peer.ok()) return {};
  // Connecting a datagram socket sends nothing; the kernel's routing gives it the local address.
  const int fd = socket(peer->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  Address own;
  own.size = sizeof own.storage;
  const bool found = connect(fd, peer->get(), peer->size) == 0 && getsockname(fd, own.get(), &own.size) == 0;
  close(fd);
  char host[INET6_ADDRSTRLEN] = "";
  if (found) getnameinfo(own.get(), own.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

}  // namespace harrow::wire
