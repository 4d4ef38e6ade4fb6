// The public ends of a Connection: handles, the listener and the dialler.
//
// A listener has at most max_handshakes unfinished ones. One more turns away the oldest: a peer with the key
// is through in milliseconds, so it is the silent ones that go, and they cannot keep others out.
#include "wire/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <random>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/asio_context.h"
#include "os/log.h"
#include "wire/address.h"
#include "wire/connection.h"
#include "wire/plain_engine.h"

namespace harrow::wire {
namespace {

class Handle : public Channel {
 public:
  explicit Handle(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Handle() override { connection_->Close(); }
  void Send(std::string_view message) override { connection_->Send(message); }
  void SendFile(std::string_view head, FilePiece piece) override {
    connection_->SendFile(head, std::move(piece));
  }
  size_t unsent_bytes() const override { return connection_->unsent_bytes(); }
  Duration unheard() const override { return connection_->unheard(); }
  Role role() const override { return connection_->role(); }
  std::string peer() const override { return connection_->peer(); }
  void Close() override { connection_->Close(); }

 private:
  std::shared_ptr<Connection> connection_;
};

// Neither inherited by tasks nor ever waited on.
int NewSocket(const Address& address) {
  return socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

// The kernel asks a silent peer's kernel whether it is there (Channel::unheard).
void SetOptions(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 10);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

class TlsListener : public Listener {
 public:
  TlsListener(os::EventLoop* loop, asio::io_context* context, std::shared_ptr<TlsContext> tls,
              const std::vector<Role>& roles, const Limits& limits, Accept accept)
      : loop_(loop),
        context_(context),
        tls_(std::move(tls)),
        roles_(roles),
        limits_(limits),
        accept_(std::move(accept)) {}

  ~TlsListener() override {
    for (int fd : sockets_) {
      loop_->UnwatchFd(fd);
      close(fd);
    }
    while (!pending_.empty()) pending_.front()->Abandon(Status(Code::kUnavailable, "the server ends"));
    loop_->CancelTimer(retry_timer_);
    loop_->CancelTimer(log_timer_);
  }

  // Begins anywhere in the range: several servers of a node seldom meet.
  Status Open(const std::string& host, PortRange ports) {
    const uint32_t count = uint32_t{ports.last} - ports.first + 1;
    const uint32_t begin = std::random_device()() % count;
    for (uint32_t i = 0;; ++i) {
      const auto port = static_cast<uint16_t>(ports.first + (begin + i) % count);
      int error = 0;
      const Status opened = OpenPort(host, port, &error);
      if (opened.ok() || error != EADDRINUSE || count == 1) return opened;
      if (i + 1 == count) {
        return Status(Code::kUnavailable, StrCat("cannot listen on ", host, ": all ports ", ports.first, "-",
                                                 ports.last, " that the site allows are in use"));
      }
    }
  }

  Status OpenPort(const std::string& host, uint16_t port, int* error) {
    Result<Address> address = Address::Of(host, port);
    if (!address.ok()) return Status(Code::kInvalid, StrCat("cannot listen: ", address.status().message()));
    int fd = NewSocket(*address);
    if (fd >= 0) SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (fd < 0 || bind(fd, address->get(), address->size) != 0 || listen(fd, SOMAXCONN) != 0) {
      *error = errno;
      Status why(Code::kUnavailable, StrCat("cannot listen on ", address->Text(), ": ", strerror(*error)));
      if (fd >= 0) close(fd);
      return why;
    }
    sockets_.push_back(fd);
    Watch(fd);
    return {};
  }

  std::vector<std::string> addresses() const override {
    std::vector<std::string> out;
    for (int fd : sockets_) {
      Address address;
      address.size = sizeof(address.storage);
      if (getsockname(fd, address.get(), &address.size) == 0) out.push_back(address.Text());
    }
    return out;
  }
  Refusals refusals() const override { return refusals_; }
  std::string ExpectPlain(Accept accept) override {
    std::string token(kTokenBytes, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(token.data()), static_cast<int>(token.size())) != 1) {
      os::LogError("the machine gives no random bytes");
      abort();
    }
    expected_.push_back({token, std::move(accept)});
    return token;
  }
  Status SetCredentials(const Credentials& credentials) override {
    Result<std::shared_ptr<TlsContext>> tls = MakeTlsServer(credentials, kBytesPerKey, roles_);
    if (tls.ok()) tls_ = *tls;
    return tls.status();
  }
  void Withdraw(const std::string& token) override {
    std::erase_if(expected_, [&](const Expected& e) { return e.token == token; });
  }

 private:
  static constexpr int kLogLines = 3;  // a second

  void Watch(int fd) {
    loop_->WatchFd(fd, [this, fd] { TakePeer(fd); });
  }

  void TakePeer(int listening) {
    Address from;
    from.size = sizeof(from.storage);
    int fd = accept4(listening, from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      SetOptions(fd);
      Begin(fd, from);
    } else if (errno != EAGAIN) {
      Rest();
    }
  }

  // Out of descriptors or memory: peers wait in the kernel's queue meanwhile.
  void Rest() {
    for (int fd : sockets_) loop_->UnwatchFd(fd);
    retry_timer_ = loop_->After(std::chrono::milliseconds(100), [this] {
      for (int fd : sockets_) Watch(fd);
    });
  }

  void Begin(int fd, const Address& from) {
    if (pending_.size() >= limits_.max_handshakes) {
      auto oldest = pending_.front();
      oldest->Abandon(Status(Code::kExhausted, "too many unfinished handshakes; this was the oldest"));
    }
    auto place = pending_.insert(pending_.end(), nullptr);
    std::string peer = from.Text();
    auto admitted = std::make_shared<Accept>();  // of a plain one
    auto established = [this, place, peer, admitted](std::shared_ptr<Connection> connection,
                                                     const Status& why) -> ChannelHandler {
      pending_.erase(place);
      const Accept& accept = *admitted ? *admitted : accept_;
      if (connection) return accept(std::make_shared<Handle>(std::move(connection)));
      ++(why.code() == Code::kRefused     ? refusals_.handshakes_failed
         : why.code() == Code::kExhausted ? refusals_.turned_away
                                          : refusals_.timed_out);
      LogRefusal(peer, why);
      return {};
    };
    std::unique_ptr<TlsEngine> engine = tls_->NewEngine();
    if (!expected_.empty()) {
      engine = MakePlainOrTlsServer(std::move(engine), [this, admitted](std::string_view token) {
        return Admit(token, admitted.get());
      });
    }
    *place =
        Connection::Make(context_, fd, from.ipv6(), peer, std::move(engine), limits_, std::move(established));
    (*place)->StartServer();
  }

  // As long for a token that is nearly right.
  bool Admit(std::string_view token, Accept* admitted) {
    for (auto e = expected_.begin(); e != expected_.end(); ++e) {
      if (token.size() != kTokenBytes || CRYPTO_memcmp(token.data(), e->token.data(), kTokenBytes) != 0)
        continue;
      *admitted = std::move(e->accept);
      expected_.erase(e);
      return true;
    }
    return false;
  }

  void LogRefusal(const std::string& peer, const Status& why) {
    if (log_lines_ == 0) {
      log_timer_ = loop_->After(std::chrono::seconds(1), [this] {
        if (log_lines_ > kLogLines)
          os::LogWarning(StrCat("refused ", log_lines_ - kLogLines, " more connections"));
        log_lines_ = 0;
      });
    }
    if (++log_lines_ <= kLogLines) {
      os::LogWarning(StrCat("refused a connection from ", peer, ": ", why.message()));
    }
  }

  os::EventLoop* const loop_;
  asio::io_context* const context_;
  std::shared_ptr<TlsContext> tls_;
  const std::vector<Role> roles_;
  const Limits limits_;
  const Accept accept_;
  std::vector<int> sockets_;
  std::list<std::shared_ptr<Connection>> pending_;  // unfinished handshakes, oldest first
  struct Expected {
    std::string token;
    Accept accept;
  };
  std::vector<Expected> expected_;  // plain channels
  Refusals refusals_;
  os::EventLoop::TimerId retry_timer_ = 0, log_timer_ = 0;
  int log_lines_ = 0;  // of this second, also those not written
};

}  // namespace

Result<std::unique_ptr<Listener>> Listen(os::EventLoop* loop, const std::vector<std::string>& hosts,
                                         PortRange ports, const Credentials& credentials,
                                         const Limits& limits, Listener::Accept accept,
                                         const std::vector<Role>& roles) {
  asio::io_context* context = os::IoContextOf(loop);
  if (context == nullptr) return Status(Code::kInternal, "this event loop has no sockets");
  Result<std::shared_ptr<TlsContext>> tls = MakeTlsServer(credentials, kBytesPerKey, roles);
  if (!tls.ok()) return tls.status();
  auto listener = std::make_unique<TlsListener>(loop, context, *tls, roles, limits, std::move(accept));
  for (const std::string& host : hosts) HARROW_RETURN_IF_ERROR(listener->Open(host, ports));
  return std::unique_ptr<Listener>(std::move(listener));
}

namespace {

using Done = std::function<ChannelHandler(Result<std::shared_ptr<Channel>>)>;
using MakeEngine = std::function<Result<std::unique_ptr<TlsEngine>>()>;

void DialWith(os::EventLoop* loop, const std::string& address, const Limits& limits, Done done,
              const MakeEngine& make_engine) {
  auto fail = [&](Status why) { loop->Post([done, why = std::move(why)] { done(why); }); };
  asio::io_context* context = os::IoContextOf(loop);
  if (context == nullptr) return fail(Status(Code::kInternal, "this event loop has no sockets"));
  Result<Address> to = Address::Parse(address);
  if (!to.ok()) return fail(to.status());
  Result<std::unique_ptr<TlsEngine>> engine = make_engine();
  if (!engine.ok()) return fail(engine.status());
  int fd = NewSocket(*to);
  if (fd < 0) return fail(Status(Code::kExhausted, StrCat("cannot make a socket: ", strerror(errno))));
  SetOptions(fd);
  auto established = [done = std::move(done), address](std::shared_ptr<Connection> ready,
                                                       const Status& why) -> ChannelHandler {
    if (ready) return done(std::shared_ptr<Channel>(std::make_shared<Handle>(std::move(ready))));
    return done(why.code() == Code::kRefused ? Status(Code::kRefused, StrCat(address, ": ", why.message()))
                                             : why);
  };
  Connection::Make(context, fd, to->ipv6(), address, *std::move(engine), limits, std::move(established))
      ->StartClient(to->get(), to->size);
}

}  // namespace

void Dial(os::EventLoop* loop, const std::string& address, Role role, const Credentials& credentials,
          const Limits& limits, Done done) {
  DialWith(loop, address, limits, std::move(done), [&]() -> Result<std::unique_ptr<TlsEngine>> {
    Result<std::shared_ptr<TlsContext>> tls = MakeTlsClient(credentials, role);
    if (!tls.ok()) return tls.status();
    return (*tls)->NewEngine();
  });
}

void DialPlain(os::EventLoop* loop, const std::string& address, const std::string& token,
               const Limits& limits, Done done) {
  DialWith(loop, address, limits, std::move(done), [&]() -> Result<std::unique_ptr<TlsEngine>> {
    if (token.size() != kTokenBytes) return Status(Code::kInvalid, "the token has not 32 bytes");
    return MakePlainClient(token);
  });
}

}  // namespace harrow::wire
