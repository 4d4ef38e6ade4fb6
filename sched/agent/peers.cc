// A pair of agents has one channel. Whoever wants to speak first dials; both say hello, the dialler first,
// and then messages go both ways. Where both dial at once, the channel that the node with the lower number
// has dialled stays:
//   - a hello from a node that we are dialling ourselves is refused if our number is lower, and else ours is
//   given up;
//   - a hello from a node with which we have a channel means that it has lost that one.
// A hello of an agent that the server has not told of, or of another incarnation than it told, waits: the
// server will tell, or the dialler hangs up and tries again.
//
// Without encryption the listening end's hello brings a token, the dialling end opens a plain channel with it
// (wire_format.md), and the pair is up when both are; both end together.
//
// A dial that fails is tried again while something is to be said, with pauses that double. Who cannot be
// reached for `give_up` is gone: what is queued is dropped and the services are told. The pauses stay until a
// dial succeeds or the server tells of the node again, so that a service that tries on does not hammer.
#include "agent/peers.h"

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "os/log.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::agent {
namespace {

constexpr uint32_t kMaxMessage = 4u << 20;
constexpr char kHello = 0;
constexpr size_t kMostEarly = 64;      // messages
constexpr size_t kMostArrived = 4096;  // that wait to be known

wire::Limits PeerLimits() {
  wire::Limits limits;
  limits.max_message = kMaxMessage;
  return limits;
}

class PeersImpl : public Peers {
 public:
  PeersImpl(os::EventLoop* loop, PeersOptions options, PeerNet net)
      : loop_(loop), options_(std::move(options)), net_(std::move(net)) {}
  ~PeersImpl() override {
    for (auto& [id, node] : nodes_) {
      CancelTimers(*node);
      CloseChannels(*node);  // whose handlers hold it
    }
    for (Arrived& arrived : arrived_) loop_->CancelTimer(arrived.timer);
  }

  Status Open() {
    auto listener =
        net_.listen([this](std::shared_ptr<wire::Channel> channel) { return Accept(std::move(channel)); });
    if (!listener.ok()) return listener.status();
    listener_ = std::move(*listener);
    return {};
  }

  std::vector<std::string> addresses() const override { return listener_->addresses(); }
  void Serve(Service service, Handler handler) override {
    handlers_[static_cast<size_t>(service)] = std::move(handler);
  }
  void Know(NodeId id, std::vector<std::string> addresses, uint64_t incarnation) override;
  void Forget(NodeId id) override;
  Status SetCredentials(const wire::Credentials& credentials) override {
    options_.credentials = credentials;
    return listener_->SetCredentials(credentials);
  }
  void Send(NodeId to, Service service, std::string_view message) override;
  void SendBulk(NodeId to, Service service, std::string_view head, wire::FilePiece piece) override;
  size_t unsent_bytes(NodeId to) const override;
  void HangUp(NodeId id, const Status& why) override;

 private:
  struct Queued {
    std::string bytes{};
    bool bulk = false;
    wire::FilePiece piece{};
  };
  struct Node {
    NodeId id;
    bool known = false;
    std::vector<std::string> addresses{};
    uint64_t incarnation = 0;
    // The channel: none, being dialled (ours), waiting for a hello or a plain channel, up.
    std::shared_ptr<wire::Channel> channel{}, plain{};
    std::string address{};  // dialled
    bool dialling = false, ours = false, up = false;
    // Of one that we have dialled: the hello has come, and what came since, while the plain channel is
    // dialled.
    bool answered = false;
    std::vector<std::string> early{};
    uint64_t generation = 0;  // of the channel: what older ones still say is not heard
    std::string token{};      // given to the other end, not used yet
    os::EventLoop::TimerId hello_timer = 0, redial_timer = 0;
    // Dials that failed.
    size_t dials = 0;
    uint32_t failures = 0;
    std::optional<Time> failing_since{};
    Time not_before{};
    std::deque<Queued> queue{};  // until it is up
    size_t queued_bytes = 0;
  };
  using NodePtr = std::shared_ptr<Node>;
  /// A channel that was accepted, before it is a node's.
  struct Arrived {
    std::shared_ptr<wire::Channel> channel;
    std::optional<pb::PeerHello> hello{};
    os::EventLoop::TimerId timer = 0;
    // For its handler: whose it has become.
    struct Owner {
      NodePtr node{};
      uint64_t generation = 0;
    };
    std::shared_ptr<Owner> owner = std::make_shared<Owner>();
  };

  NodePtr Of(NodeId id) {
    NodePtr& node = nodes_[id];
    if (!node) {
      node = std::make_shared<Node>();
      node->id = id;
    }
    return node;
  }
  static void Put(Node& node, Queued message) {
    if (!message.bulk) return node.channel->Send(message.bytes);
    wire::Channel& channel = node.plain ? *node.plain : *node.channel;
    if (message.piece.length == 0) return channel.Send(message.bytes);
    channel.SendFile(message.bytes, std::move(message.piece));
  }
  void Queue(NodeId to, Queued message);
  std::string HelloTo(NodeId to, const std::string& token) const;

  // --- dialling
  void Want(const NodePtr& node);
  void Dial(const NodePtr& node);
  wire::ChannelHandler Dialled(const NodePtr& node, std::shared_ptr<wire::Channel> channel);
  void Failed(const NodePtr& node, const Status& why);
  void HearAnswer(const NodePtr& node, std::string_view bytes);
  // --- accepting
  wire::ChannelHandler Accept(std::shared_ptr<wire::Channel> channel);
  std::list<Arrived>::iterator Find(const wire::Channel* key);
  void Consider(std::list<Arrived>::iterator arrived);
  void Drop(std::list<Arrived>::iterator arrived, std::string_view why);
  std::optional<std::string> WhatIsWrong(const pb::PeerHello& hello) const;

  wire::ChannelHandler Handlers(const NodePtr& node, bool sealed);
  void Hear(const NodePtr& node, std::string_view bytes, bool sealed);
  void AwaitHello(const NodePtr& node);
  void Up(const NodePtr& node);
  void Lost(const NodePtr& node, const Status& why);
  void TellSent(const Node& node);
  void TellGone(NodeId id, const Status& why);
  void CloseChannels(Node& node);
  void CancelTimers(Node& node);

  os::EventLoop* const loop_;
  PeersOptions options_;
  PeerNet net_;
  std::unique_ptr<wire::Listener> listener_;
  std::array<Handler, kServices> handlers_;
  std::unordered_map<NodeId, NodePtr> nodes_;
  std::list<Arrived> arrived_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for dials that end later than this
};

std::string PeersImpl::HelloTo(NodeId to, const std::string& token) const {
  pb::PeerHello hello;
  hello.set_version(wire::kProtocolVersion);
  hello.set_run_id(options_.credentials.run_id);
  hello.set_node(options_.self.value);
  hello.set_incarnation(options_.incarnation);
  hello.set_to(to.value);
  hello.set_token(token);
  return std::string(1, kHello) + hello.SerializeAsString();
}

// --- what the server says

void PeersImpl::Know(NodeId id, std::vector<std::string> addresses, uint64_t incarnation) {
  if (id == options_.self) return;
  const NodePtr node = Of(id);
  const bool another = node->known && node->incarnation != incarnation;
  node->known = true;
  node->addresses = std::move(addresses);
  node->incarnation = incarnation;
  node->failures = 0;
  node->failing_since.reset();
  node->not_before = {};
  loop_->CancelTimer(node->redial_timer);
  node->redial_timer = 0;
  if (another)
    Lost(node, Status(Code::kUnavailable, StrCat("the agent of node ", id.value, " was started again")));
  for (auto arrived = arrived_.begin(); arrived != arrived_.end();) {
    const auto next = std::next(arrived);
    if (arrived->hello && arrived->hello->node() == id.value) Consider(arrived);
    arrived = next;
  }
  if (!node->queue.empty()) Want(node);
}

void PeersImpl::Forget(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const NodePtr node = found->second;
  nodes_.erase(found);
  const bool told = node->up || !node->queue.empty();
  CancelTimers(*node);
  CloseChannels(*node);
  node->queue.clear();
  if (told) TellGone(id, Status(Code::kUnavailable, StrCat("node ", id.value, " has left the run")));
}

// --- sending

void PeersImpl::Queue(NodeId to, Queued message) {
  if (to == options_.self) return;
  const NodePtr node = Of(to);
  if (node->up) return Put(*node, std::move(message));
  node->queued_bytes += message.bytes.size() + message.piece.length;
  node->queue.push_back(std::move(message));
  Want(node);
}

void PeersImpl::Send(NodeId to, Service service, std::string_view message) {
  std::string bytes(1, static_cast<char>(service));
  bytes += message;
  Queue(to, {.bytes = std::move(bytes)});
}

void PeersImpl::SendBulk(NodeId to, Service service, std::string_view head, wire::FilePiece piece) {
  std::string bytes(1, static_cast<char>(service));
  bytes += head;
  Queue(to, {.bytes = std::move(bytes), .bulk = true, .piece = std::move(piece)});
}

size_t PeersImpl::unsent_bytes(NodeId to) const {
  const auto found = nodes_.find(to);
  if (found == nodes_.end()) return 0;
  const Node& node = *found->second;
  return node.queued_bytes + (node.channel ? node.channel->unsent_bytes() : 0) +
         (node.plain ? node.plain->unsent_bytes() : 0);
}

void PeersImpl::HangUp(NodeId id, const Status& why) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  os::LogWarning(StrCat("the agent of node ", id.value, ": ", why.message()));
  Lost(NodePtr(found->second), why);
}

// --- dialling

void PeersImpl::Want(const NodePtr& node) {
  if (!node->known || node->addresses.empty() || node->channel || node->dialling || node->redial_timer != 0)
    return;
  const Duration wait = node->not_before - loop_->Now();
  if (wait <= Duration(0)) return Dial(node);
  node->redial_timer = loop_->After(wait, [this, node] {
    node->redial_timer = 0;
    Want(node);
  });
}

void PeersImpl::Dial(const NodePtr& node) {
  node->dialling = true;
  node->address = node->addresses[node->dials++ % node->addresses.size()];
  const uint64_t generation = ++node->generation;
  net_.dial(node->address, options_.credentials,
            [this, node, generation,
             alive = std::weak_ptr(alive_)](Result<std::shared_ptr<wire::Channel>> channel) {
              if (alive.expired() || node->generation != generation) return wire::ChannelHandler();
              node->dialling = false;
              if (channel.ok()) return Dialled(node, *std::move(channel));
              Failed(node, channel.status());
              return wire::ChannelHandler();
            });
}

wire::ChannelHandler PeersImpl::Dialled(const NodePtr& node, std::shared_ptr<wire::Channel> channel) {
  node->channel = std::move(channel);
  node->ours = true;
  node->channel->Send(HelloTo(node->id, {}));
  AwaitHello(node);
  return Handlers(node, true);
}

void PeersImpl::AwaitHello(const NodePtr& node) {
  node->hello_timer = loop_->After(options_.hello_time, [this, node] {
    Lost(node, Status(Code::kUnavailable, StrCat("the agent of node ", node->id.value, " does not answer")));
  });
}

// The first message of a channel that we have dialled.
void PeersImpl::HearAnswer(const NodePtr& node, std::string_view bytes) {
  pb::PeerHello hello;
  if (bytes.empty() || bytes.front() != kHello || !wire::Decode(bytes.substr(1), &hello).ok())
    return Lost(node, Status(Code::kDamaged, StrCat(node->address, " does not say hello")));
  if (const auto wrong = WhatIsWrong(hello)) return Lost(node, Status(Code::kRefused, *wrong));
  if (hello.node() != node->id.value || hello.incarnation() != node->incarnation)
    return Lost(node, Status(Code::kUnavailable, StrCat("another agent than that of node ", node->id.value,
                                                        " answers at ", node->address)));
  if (hello.token().empty()) return Up(node);
  if (options_.encrypt)
    return Lost(node, Status(Code::kRefused,
                             StrCat(node->address, " would not encrypt what this run wants encrypted")));
  node->answered = true;
  const uint64_t generation = node->generation;
  net_.dial_plain(
      node->address, hello.token(),
      [this, node, generation, alive = std::weak_ptr(alive_)](Result<std::shared_ptr<wire::Channel>> plain) {
        if (alive.expired() || node->generation != generation) return wire::ChannelHandler();
        if (!plain.ok()) {
          Lost(node, plain.status());
          return wire::ChannelHandler();
        }
        node->plain = *std::move(plain);
        // Not in the call: the channel has no handler before it returns.
        loop_->Post([this, node, generation, alive_too = alive] {
          if (!alive_too.expired() && node->generation == generation && node->plain) Up(node);
        });
        return Handlers(node, false);
      });
}

void PeersImpl::Failed(const NodePtr& node, const Status& why) {
  const Time now = loop_->Now();
  const Duration pause = std::min(
      options_.longest_pause, options_.first_pause * (int64_t{1} << std::min<uint32_t>(node->failures, 16)));
  ++node->failures;
  if (!node->failing_since) node->failing_since = now;
  node->not_before = now + pause;
  if (now - *node->failing_since >= options_.give_up) {
    node->failing_since.reset();
    node->queue.clear();
    node->queued_bytes = 0;
    return TellGone(node->id, Status(Code::kUnavailable, StrCat("the agent of node ", node->id.value,
                                                                " cannot be reached: ", why.message())));
  }
  if (!node->queue.empty()) Want(node);
}

// --- accepting

wire::ChannelHandler PeersImpl::Accept(std::shared_ptr<wire::Channel> channel) {
  if (arrived_.size() >= kMostArrived) Drop(arrived_.begin(), "too many agents that nobody has told of");
  const auto arrived = arrived_.insert(arrived_.end(), {.channel = std::move(channel)});
  const wire::Channel* key = arrived->channel.get();
  arrived->timer = loop_->After(options_.hello_time, [this, key] {
    const auto it = std::find_if(arrived_.begin(), arrived_.end(),
                                 [&](const Arrived& a) { return a.channel.get() == key; });
    if (it == arrived_.end()) return;
    Drop(it, it->hello ? "the server has not told of it" : "it says nothing");
  });
  wire::ChannelHandler handler;
  handler.on_message = [this, key, owner = arrived->owner](std::string_view bytes) {
    if (owner->node) {
      if (owner->node->generation == owner->generation) Hear(NodePtr(owner->node), bytes, true);
      return;
    }
    const auto it = Find(key);
    if (it == arrived_.end()) return;
    pb::PeerHello hello;
    if (it->hello || bytes.empty() || bytes.front() != kHello || !wire::Decode(bytes.substr(1), &hello).ok())
      return Drop(it, "it does not say hello");
    if (const auto wrong = WhatIsWrong(hello)) return Drop(it, *wrong);
    it->hello = std::move(hello);
    Consider(it);
  };
  handler.on_closed = [this, key, owner = arrived->owner](const Status& why) {
    if (owner->node) {
      if (owner->node->generation == owner->generation) Lost(NodePtr(owner->node), why);
      return;
    }
    const auto it = Find(key);
    if (it == arrived_.end()) return;
    loop_->CancelTimer(it->timer);
    arrived_.erase(it);
  };
  handler.on_sent = [this, owner = arrived->owner] {
    if (owner->node && owner->node->generation == owner->generation) TellSent(*owner->node);
  };
  return handler;
}

std::list<PeersImpl::Arrived>::iterator PeersImpl::Find(const wire::Channel* key) {
  return std::find_if(arrived_.begin(), arrived_.end(),
                      [key](const Arrived& a) { return a.channel.get() == key; });
}

void PeersImpl::TellSent(const Node& node) {
  if (!node.up) return;
  const NodeId id = node.id;
  for (const Handler& service : handlers_) {
    if (service.on_sent) service.on_sent(id);
  }
}

std::optional<std::string> PeersImpl::WhatIsWrong(const pb::PeerHello& hello) const {
  if (hello.version() != wire::kProtocolVersion)
    return StrCat("it speaks version ", hello.version(), ", this agent ", wire::kProtocolVersion);
  if (hello.run_id() != options_.credentials.run_id)
    return StrCat("it is of run ", Printable(hello.run_id()));
  if (hello.to() != options_.self.value || hello.node() == options_.self.value)
    return StrCat("it takes this node for node ", hello.to());
  return {};
}

void PeersImpl::Drop(std::list<Arrived>::iterator arrived, std::string_view why) {
  os::LogWarning(StrCat("refused an agent at ", arrived->channel->peer(), ": ", why));
  loop_->CancelTimer(arrived->timer);
  arrived_.erase(arrived);
}

void PeersImpl::Consider(std::list<Arrived>::iterator arrived) {
  const NodeId id(arrived->hello->node());
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || !found->second->known) return;
  const NodePtr node = found->second;
  if (node->incarnation != arrived->hello->incarnation()) return;
  const bool we_dial = node->dialling || (node->channel && !node->up && node->ours);
  if (we_dial && options_.self < id) {
    loop_->CancelTimer(arrived->timer);
    arrived_.erase(arrived);
    return;
  }
  const std::shared_ptr<wire::Channel> channel = std::move(arrived->channel);
  const std::shared_ptr<Arrived::Owner> owner = arrived->owner;
  loop_->CancelTimer(arrived->timer);
  arrived_.erase(arrived);
  const bool was_up = node->up;
  CancelTimers(*node);
  CloseChannels(*node);
  if (was_up)
    TellGone(id, Status(Code::kUnavailable, StrCat("the agent of node ", id.value, " has connected again")));

  node->channel = channel;
  owner->node = node;
  owner->generation = node->generation;
  if (options_.encrypt) {
    channel->Send(HelloTo(id, {}));
    return Up(node);
  }
  const uint64_t generation = node->generation;
  node->token = listener_->ExpectPlain([this, node, generation](std::shared_ptr<wire::Channel> plain) {
    if (node->generation != generation) return wire::ChannelHandler();
    node->token.clear();
    node->plain = std::move(plain);
    loop_->Post([this, node, generation, alive = std::weak_ptr(alive_)] {
      if (!alive.expired() && node->generation == generation && node->plain) Up(node);
    });
    return Handlers(node, false);
  });
  channel->Send(HelloTo(id, node->token));
  AwaitHello(node);
}

// --- a channel that is a node's

wire::ChannelHandler PeersImpl::Handlers(const NodePtr& node, bool sealed) {
  const uint64_t generation = node->generation;
  wire::ChannelHandler handler;
  handler.on_message = [this, node, generation, sealed](std::string_view bytes) {
    if (node->generation == generation) Hear(node, bytes, sealed);
  };
  handler.on_closed = [this, node, generation](const Status& why) {
    if (node->generation == generation) Lost(node, why);
  };
  handler.on_sent = [this, node, generation] {
    if (node->generation == generation) TellSent(*node);
  };
  return handler;
}

void PeersImpl::Hear(const NodePtr& node, std::string_view bytes, bool sealed) {
  // The plain channel may be up at the other end, and in use, before this end has heard of it.
  if (!node->up && node->plain) Up(node);
  if (!node->up) {
    if (node->ours && sealed && !node->answered) return HearAnswer(node, bytes);
    // The other end is up as soon as it has the plain channel.
    if (node->answered && sealed && node->early.size() < kMostEarly) {
      node->early.emplace_back(bytes);
      return;
    }
    return Lost(node, Status(Code::kDamaged, "a message before its time"));
  }
  const size_t service = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front());
  if (service == 0 || service >= kServices || !handlers_[service].on_message) {
    if (sealed) Lost(node, Status(Code::kDamaged, StrCat("a message of service ", service)));
    return;
  }
  handlers_[service].on_message(node->id, bytes.substr(1), sealed);
}

void PeersImpl::Up(const NodePtr& node) {
  if (node->up) return;
  loop_->CancelTimer(node->hello_timer);
  node->hello_timer = 0;
  node->up = true;
  node->failures = 0;
  node->failing_since.reset();
  node->not_before = {};
  node->queued_bytes = 0;
  for (Queued& message : std::exchange(node->queue, {})) Put(*node, std::move(message));
  for (const std::string& message : std::exchange(node->early, {})) {
    if (node->up) Hear(node, message, true);
  }
}

void PeersImpl::Lost(const NodePtr& node, const Status& why) {
  const bool was_up = node->up;
  const bool had_one = node->channel != nullptr || node->dialling;
  CancelTimers(*node);
  CloseChannels(*node);
  if (was_up) return TellGone(node->id, why);
  if (had_one) Failed(node, why);
}

void PeersImpl::TellGone(NodeId id, const Status& why) {
  loop_->Post([this, id, why, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    for (const Handler& service : handlers_) {
      if (service.on_gone) service.on_gone(id, why);
    }
  });
}

void PeersImpl::CloseChannels(Node& node) {
  ++node.generation;
  node.dialling = node.up = node.ours = node.answered = false;
  node.early.clear();
  if (!node.token.empty()) listener_->Withdraw(std::exchange(node.token, {}));
  node.channel.reset();
  node.plain.reset();
}

void PeersImpl::CancelTimers(Node& node) {
  loop_->CancelTimer(std::exchange(node.hello_timer, 0));
  loop_->CancelTimer(std::exchange(node.redial_timer, 0));
}

}  // namespace

Result<std::unique_ptr<Peers>> MakePeers(os::EventLoop* loop, const PeersOptions& options, PeerNet net) {
  auto peers = std::make_unique<PeersImpl>(loop, options, std::move(net));
  HARROW_RETURN_IF_ERROR(peers->Open());
  return std::unique_ptr<Peers>(std::move(peers));
}

Result<std::unique_ptr<Peers>> MakePeers(os::EventLoop* loop, const PeersOptions& options) {
  PeerNet net;
  net.listen = [loop, options](wire::Listener::Accept accept) {
    return wire::Listen(loop, options.hosts, options.ports, options.credentials, PeerLimits(),
                        std::move(accept), {wire::Role::kPeer});
  };
  net.dial = [loop](const std::string& address, const wire::Credentials& credentials, PeerNet::Done done) {
    wire::Dial(loop, address, wire::Role::kPeer, credentials, PeerLimits(), std::move(done));
  };
  net.dial_plain = [loop](const std::string& address, const std::string& token, PeerNet::Done done) {
    wire::DialPlain(loop, address, token, PeerLimits(), std::move(done));
  };
  return MakePeers(loop, options, std::move(net));
}

}  // namespace harrow::agent
