#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "os/event_loop.h"

namespace harrow::wire {

/// kPeer: an agent that speaks to another agent. kServer: a server that speaks to another one of the run. kBulk: an
/// unencrypted channel beside a peer's (DialPlain).
enum class Role : uint8_t { kAgent, kClient, kPeer, kServer, kBulk };

/// What both ends must share. The PSK of a connection is derived from key, run id and role, so that an
/// agent's connection cannot be taken for a client's or for another run's.
struct Credentials {
  std::string run_id;
  std::string key;  // 32 bytes, secret
};

/// A stretch of a file. It is read when the kernel can take it, so what waits to be sent costs no memory.
/// Where the file has become shorter than that, zeros are sent.
struct FilePiece {
  std::shared_ptr<const void> owner{};  // keeps `fd` open
  int fd = -1;
  int64_t offset = 0;
  uint32_t length = 0;
};

/// An authenticated, encrypted, ordered stream of messages (TLS 1.3, external pre-shared key). Of its loop's
/// thread; channels and listeners are destroyed before their loop.
class Channel {
 public:
  virtual ~Channel() = default;  // closes
  /// Queues one message; what one turn of the loop queues leaves together.
  virtual void Send(std::string_view message) = 0;
  /// Queues one message: `head`, and then `piece`.
  virtual void SendFile(std::string_view head, FilePiece piece) = 0;
  /// Bytes queued that the kernel has not taken: a sender that can wait should, above some MiB.
  virtual size_t unsent_bytes() const = 0;
  /// Since when the peer's machine has sent nothing at all, not even the acknowledgements that its kernel
  /// sends for a process that is busy or stopped. One that lives is heard of every 2 to 3 seconds.
  virtual Duration unheard() const = 0;
  virtual Role role() const = 0;
  /// Who is there, for logs: "127.0.0.1:40112".
  virtual std::string peer() const = 0;
  /// Sends what is queued, then closes; on_closed is not called after this.
  virtual void Close() = 0;
};

struct ChannelHandler {
  std::function<void(std::string_view message)> on_message;
  std::function<void(const Status& why)> on_closed;  // once; the channel may be destroyed in it
  std::function<void()> on_sent{};  // the kernel has taken all that was queued; never in a call of Send
};

struct Limits {
  uint32_t max_message = 64u << 20;
  Duration handshake_time = std::chrono::seconds(5);
  uint32_t max_handshakes = 64;  // unfinished at once, 1 or more; one more turns away the oldest
};

/// Accepts peers that hold the key. Others are refused, logged (not more than a few lines a second) and cost
/// nothing else.
class Listener {
 public:
  virtual ~Listener() = default;
  /// "host:port" for each address listened on.
  virtual std::vector<std::string> addresses() const = 0;
  /// Returns the handler of a new, authenticated channel.
  using Accept = std::function<ChannelHandler(std::shared_ptr<Channel>)>;
  struct Refusals {
    uint64_t handshakes_failed = 0, timed_out = 0, turned_away = 0;
  };
  virtual Refusals refusals() const = 0;
  /// Accepts one unencrypted channel (kBulk) of whoever presents the token that is returned: 32 random bytes,
  /// to be told to that peer over a channel that is encrypted. It serves once.
  virtual std::string ExpectPlain(Accept accept) = 0;
  /// Who comes from now on has to hold this key; channels that are open stay.
  virtual Status SetCredentials(const Credentials& credentials) = 0;
  /// The token serves no more.
  virtual void Withdraw(const std::string& token) = 0;
};

/// Ports of which a listener takes a free one for each address; 0: any.
struct PortRange {
  PortRange(uint16_t one) : first(one), last(one) {}  // NOLINT(google-explicit-constructor)
  PortRange(uint16_t from, uint16_t to) : first(from), last(to) {}
  uint16_t first, last;
};

/// Addresses are numeric ("127.0.0.1"). kUnavailable: no port of the range is free. Who comes in another role
/// than one of `roles` is refused as one without the key is.
Result<std::unique_ptr<Listener>> Listen(os::EventLoop* loop, const std::vector<std::string>& hosts,
                                         PortRange ports, const Credentials& credentials,
                                         const Limits& limits, Listener::Accept accept,
                                         const std::vector<Role>& roles = {Role::kAgent, Role::kClient});

/// Connects and authenticates; `done` is called once with the channel or the reason.
void Dial(os::EventLoop* loop, const std::string& address, Role role, const Credentials& credentials,
          const Limits& limits, std::function<ChannelHandler(Result<std::shared_ptr<Channel>>)> done);

/// Connects without encryption to a listener that has given out `token` (Listener::ExpectPlain). Who may do
/// what to such a channel: wire_format.md.
void DialPlain(os::EventLoop* loop, const std::string& address, const std::string& token,
               const Limits& limits, std::function<ChannelHandler(Result<std::shared_ptr<Channel>>)> done);

}  // namespace harrow::wire
