#pragma once

#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/status.h"

namespace harrow::wire {

/// A numeric IPv4 or IPv6 address with a port.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool ipv6() const { return storage.ss_family == AF_INET6; }
  /// "10.0.0.1:4000", "[fd00::1]:4000".
  std::string Text() const;

  /// kInvalid when `host` is not numeric.
  static Result<Address> Of(const std::string& host, uint16_t port);
  /// As Text() writes it.
  static Result<Address> Parse(std::string_view text);
};

/// The numeric address of this machine by which it reaches `address`; empty: by none.
std::string HostTowards(const std::string& address);

}  // namespace harrow::wire
