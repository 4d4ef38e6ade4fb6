#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/status.h"
#include "wire/channel.h"
#include "wire/tls_engine.h"

namespace asio {
class io_context;
}

namespace harrow::wire {

/// A socket with a TlsEngine and framing: from connecting over the handshake to the last byte. It is kept
/// alive by what it waits for; the user holds a handle (Channel) that closes it. Private to wire.
class Connection {
 public:
  /// Called once, at the end of the handshake or at its failure (`connection` null).
  using Established =
      std::function<ChannelHandler(std::shared_ptr<Connection> connection, const Status& why)>;

  /// Takes `fd`, a non-blocking TCP socket that is connected or about to be.
  static std::shared_ptr<Connection> Make(asio::io_context* context, int fd, bool ipv6, std::string peer,
                                          std::unique_ptr<TlsEngine> engine, const Limits& limits,
                                          Established established);
  virtual ~Connection() = default;

  virtual void StartServer() = 0;
  virtual void StartClient(const sockaddr* to, socklen_t size) = 0;
  /// Ends an unfinished handshake; Established hears `why`.
  virtual void Abandon(const Status& why) = 0;

  virtual void Send(std::string_view message) = 0;
  virtual void SendFile(std::string_view head, FilePiece piece) = 0;
  virtual size_t unsent_bytes() const = 0;
  virtual Duration unheard() const = 0;
  virtual void Close() = 0;
  virtual Role role() const = 0;
  virtual const std::string& peer() const = 0;
};

}  // namespace harrow::wire
