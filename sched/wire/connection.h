#pragma once

#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wire/channel.h"
#include "wire/frame.h"
#include "wire/tls_engine.h"

namespace harrow::wire {

/// A socket with a TlsEngine and framing: from connecting over the handshake to the last byte. It is kept
/// alive by what it waits for; the user holds a handle (Channel) that closes it. Private to wire.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Called once, at the end of the handshake or at its failure (`connection` null).
  using Established =
      std::function<ChannelHandler(std::shared_ptr<Connection> connection, const Status& why)>;

  /// `socket`: non-blocking, connected or about to be.
  Connection(asio::ip::tcp::socket socket, std::string peer, std::unique_ptr<TlsEngine> engine,
             const Limits& limits, Established established);

  void StartServer();
  void StartClient(const asio::ip::tcp::endpoint& to);
  /// Ends an unfinished handshake; Established hears `why`.
  void Abandon(const Status& why);

  void Send(std::string_view message);
  size_t unsent_bytes() const;
  void Close();
  Role role() const { return engine_->role(); }
  const std::string& peer() const { return peer_; }

 private:
  enum class State { kConnecting, kHandshake, kOpen, kLingering, kClosed };

  void ArmDeadline(Duration after, std::string what);
  void AwaitReadable();
  void AwaitWritable();
  void OnReadable();
  void Take(std::string_view received);
  void Deliver();
  void Flush();
  /// Moves what the engine has to the kernel; false when the kernel takes no more now.
  bool Push();
  void Lost(const Status& why);
  void Shut();

  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  const std::string peer_;
  const std::unique_ptr<TlsEngine> engine_;
  FrameReader frames_;
  const Limits limits_;
  Established established_;
  ChannelHandler handler_;
  State state_ = State::kHandshake;
  bool in_handler_ = false;
  bool flush_posted_ = false;
  bool awaiting_writable_ = false;
  bool write_broken_ = false;
  bool end_sealed_ = false;
  std::string queued_;  // frames not yet encrypted, from queued_begin_ on
  size_t queued_begin_ = 0;
};

}  // namespace harrow::wire
