#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "os/event_loop.h"
#include "wire/channel.h"

namespace harrow::agent {

/// What agents talk about: the first byte of a message between them (wire_format.md). 0 is Peers' own.
enum class Service : uint8_t { kTransfers = 1, kRanks = 2, kStreams = 3 };
inline constexpr size_t kServices = 4;

/// All talk between this agent and the agents of other nodes: one channel a pair, made when one of both has
/// something to say. Of its loop's thread.
class Peers {
 public:
  struct Handler {
    /// `sealed`: over TLS. What is not may come from anybody on the network (wire_format.md).
    std::function<void(NodeId from, std::string_view message, bool sealed)> on_message{};
    /// The channel has ended, nobody could be reached, or the node is forgotten: what was sent may have been
    /// lost, what was not has been dropped. Never in a call of Send.
    std::function<void(NodeId, const Status& why)> on_gone{};
    /// The kernel has taken all that was sent.
    std::function<void(NodeId)> on_sent{};
  };

  virtual ~Peers() = default;
  /// "host:port" where others find this agent.
  virtual std::vector<std::string> addresses() const = 0;
  /// Who speaks for a service; before the first message of it.
  virtual void Serve(Service service, Handler handler) = 0;

  /// The server says where a node's agent listens. Another incarnation than before is another agent.
  virtual void Know(NodeId node, std::vector<std::string> addresses, uint64_t incarnation) = 0;
  virtual void Forget(NodeId node) = 0;
  /// A server with another epoch has another key. Channels that are open stay.
  virtual Status SetCredentials(const wire::Credentials& credentials) = 0;

  /// To a node that is not known yet it waits until it is.
  virtual void Send(NodeId to, Service service, std::string_view message) = 0;
  /// Contents of files, `head` and then `piece`: without encryption where the run says so.
  virtual void SendBulk(NodeId to, Service service, std::string_view head, wire::FilePiece piece) = 0;
  /// What is queued for it: a sender that can wait should, above some MiB.
  virtual size_t unsent_bytes(NodeId to) const = 0;
  /// It sent what cannot be, or nothing for too long: its channel ends.
  virtual void HangUp(NodeId node, const Status& why) = 0;
};

struct PeersOptions {
  NodeId self{};
  uint64_t incarnation = 0;
  wire::Credentials credentials{};
  std::vector<std::string> hosts{};                // to listen on (batch::Batch::ListenHosts)
  wire::PortRange ports = 0;                       // that the site allows
  bool encrypt = true;                             // contents of files, too; the same on all nodes of a run
  Duration hello_time = std::chrono::seconds(20);  // for the other end's word, once it is connected
  Duration first_pause = std::chrono::milliseconds(100);  // between dials; it doubles
  Duration longest_pause = std::chrono::seconds(5);
  Duration give_up = std::chrono::seconds(10);  // who cannot be reached for so long is gone
};

/// The network below it, for tests.
struct PeerNet {
  using Done = std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)>;
  std::function<Result<std::unique_ptr<wire::Listener>>(wire::Listener::Accept)> listen;
  std::function<void(const std::string& address, const wire::Credentials&, Done)> dial;
  std::function<void(const std::string& address, const std::string& token, Done)> dial_plain;
};

Result<std::unique_ptr<Peers>> MakePeers(os::EventLoop* loop, const PeersOptions& options);
Result<std::unique_ptr<Peers>> MakePeers(os::EventLoop* loop, const PeersOptions& options, PeerNet net);

}  // namespace harrow::agent
