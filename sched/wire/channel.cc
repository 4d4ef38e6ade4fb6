// The public ends of a Connection: handles, the listener and the dialler.
//
// A listener has at most max_handshakes unfinished ones. One more turns away the oldest: a peer with the key
// is through in milliseconds, so it is the silent ones that go, and they cannot keep others out.
#include "wire/channel.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <list>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include <asio/post.hpp>

#include "base/text.h"
#include "os/asio_context.h"
#include "os/log.h"
#include "wire/connection.h"

namespace harrow::wire {
namespace {

using asio::ip::tcp;

class Handle : public Channel {
 public:
  explicit Handle(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Handle() override { connection_->Close(); }
  void Send(std::string_view message) override { connection_->Send(message); }
  size_t unsent_bytes() const override { return connection_->unsent_bytes(); }
  Role role() const override { return connection_->role(); }
  std::string peer() const override { return connection_->peer(); }
  void Close() override { connection_->Close(); }

 private:
  std::shared_ptr<Connection> connection_;
};

std::string Text(const tcp::endpoint& e) {
  return e.address().is_v6() ? StrCat("[", e.address().to_string(), "]:", e.port())
                             : StrCat(e.address().to_string(), ":", e.port());
}

void SetNoDelay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Result<tcp::endpoint> ParseEndpoint(std::string_view text) {
  size_t colon = text.rfind(':');
  std::string host(text.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  uint16_t port = 0;
  std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  asio::error_code error;
  asio::ip::address address = asio::ip::make_address(host, error);
  if (error || bad != std::errc() || end != digits.data() + digits.size() || port == 0) {
    return Status(Code::kInvalid,
                  StrCat("\"", Printable(text), "\" is not a numeric address and port, as 10.0.0.1:4000"));
  }
  return tcp::endpoint(address, port);
}

/// Says who was refused, in at most kLines lines a second.
class RefusalLog : public std::enable_shared_from_this<RefusalLog> {
 public:
  explicit RefusalLog(asio::io_context& context) : timer_(context) {}

  void Add(const std::string& peer, const Status& why) {
    if (lines_ == 0) Arm();
    if (++lines_ <= kLines) {
      os::LogWarning(StrCat("refused a connection from ", peer, ": ", why.message()));
    } else {
      ++silent_;
    }
  }

 private:
  static constexpr int kLines = 3;

  void Arm() {
    timer_.expires_after(std::chrono::seconds(1));
    timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
      auto self = weak.lock();
      if (error || !self) return;
      if (self->silent_ > 0) os::LogWarning(StrCat("refused ", self->silent_, " more connections"));
      self->lines_ = 0;
      self->silent_ = 0;
    });
  }

  asio::steady_timer timer_;
  int lines_ = 0;
  uint64_t silent_ = 0;
};

class TlsListener : public Listener {
 public:
  TlsListener(asio::io_context& context, std::shared_ptr<TlsContext> tls, const Limits& limits, Accept accept)
      : shared_(std::make_shared<Shared>(context, std::move(tls), limits, std::move(accept))) {}

  ~TlsListener() override {
    shared_->stopped = true;
    for (tcp::acceptor& acceptor : shared_->acceptors) {
      asio::error_code ignored;
      acceptor.close(ignored);
    }
    auto pending = std::move(shared_->pending);
    for (auto& connection : pending) connection->Abandon(Status(Code::kUnavailable, "the server ends"));
  }

  Status Open(const std::string& host, uint16_t port) {
    asio::error_code error;
    asio::ip::address address = asio::ip::make_address(host, error);
    if (error)
      return Status(Code::kInvalid, StrCat("cannot listen on \"", host, "\": not a numeric address"));
    tcp::endpoint endpoint(address, port);
    int fd = socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    int on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
      Status why(Code::kUnavailable, StrCat("cannot listen on ", Text(endpoint), ": ", strerror(errno)));
      if (fd >= 0) close(fd);
      return why;
    }
    tcp::acceptor& acceptor = shared_->acceptors.emplace_back(shared_->context);
    acceptor.assign(endpoint.protocol(), fd);
    Shared::AwaitPeer(shared_, &acceptor);
    return {};
  }

  std::vector<std::string> addresses() const override {
    std::vector<std::string> out;
    for (const tcp::acceptor& acceptor : shared_->acceptors) {
      asio::error_code error;
      tcp::endpoint endpoint = acceptor.local_endpoint(error);
      if (!error) out.push_back(Text(endpoint));
    }
    return out;
  }
  Refusals refusals() const override { return shared_->refusals; }

 private:
  /// What pending callbacks keep alive after the listener is gone.
  struct Shared {
    Shared(asio::io_context& c, std::shared_ptr<TlsContext> t, const Limits& l, Accept a)
        : context(c),
          tls(std::move(t)),
          limits(l),
          accept(std::move(a)),
          log(std::make_shared<RefusalLog>(c)),
          retry(c) {}

    static void AwaitPeer(const std::shared_ptr<Shared>& self, tcp::acceptor* acceptor) {
      acceptor->async_wait(tcp::acceptor::wait_read, [self, acceptor](const asio::error_code& error) {
        if (error || self->stopped) return;
        if (TakePeers(self, acceptor)) return AwaitPeer(self, acceptor);
        // Out of descriptors: the peers wait in the kernel's queue meanwhile.
        self->retry.expires_after(std::chrono::milliseconds(100));
        self->retry.async_wait([self, acceptor](const asio::error_code& e) {
          if (!e && !self->stopped) AwaitPeer(self, acceptor);
        });
      });
    }

    static bool TakePeers(const std::shared_ptr<Shared>& self, tcp::acceptor* acceptor) {
      for (uint32_t i = 0; i < self->limits.max_handshakes; ++i) {
        tcp::endpoint from;
        auto size = static_cast<socklen_t>(from.capacity());
        int fd = accept4(acceptor->native_handle(), from.data(), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
        from.resize(size);
        SetNoDelay(fd);
        tcp::socket socket(self->context);
        socket.assign(from.protocol(), fd);
        Begin(self, std::move(socket), Text(from));
        if (self->stopped) return true;
      }
      return true;
    }

    static void Begin(const std::shared_ptr<Shared>& self, tcp::socket socket, std::string peer) {
      if (self->pending.size() >= std::max(self->limits.max_handshakes, 1u)) {
        ++self->refusals.turned_away;
        self->turning_away = true;
        auto oldest = self->pending.front();
        oldest->Abandon(Status(Code::kUnavailable, "too many unfinished handshakes; this was the oldest"));
        self->turning_away = false;
      }
      auto place = self->pending.insert(self->pending.end(), nullptr);
      *place = std::make_shared<Connection>(
          std::move(socket), peer, self->tls->NewEngine(), self->limits,
          [self, place, peer](std::shared_ptr<Connection> connection, const Status& why) -> ChannelHandler {
            if (self->stopped) return {};
            self->pending.erase(place);
            if (connection) return self->accept(std::make_shared<Handle>(std::move(connection)));
            if (!self->turning_away) {
              ++(why.code() == Code::kRefused ? self->refusals.handshakes_failed : self->refusals.timed_out);
            }
            self->log->Add(peer, why);
            return {};
          });
      (*place)->StartServer();
    }

    asio::io_context& context;
    std::shared_ptr<TlsContext> tls;
    const Limits limits;
    Accept accept;
    std::shared_ptr<RefusalLog> log;
    asio::steady_timer retry;
    std::list<tcp::acceptor> acceptors;
    std::list<std::shared_ptr<Connection>> pending;  // unfinished handshakes, oldest first
    Refusals refusals;
    bool turning_away = false;
    bool stopped = false;
  };

  std::shared_ptr<Shared> shared_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listen(os::EventLoop* loop, const std::vector<std::string>& hosts,
                                         uint16_t port, const Credentials& credentials, const Limits& limits,
                                         Listener::Accept accept) {
  asio::io_context* context = os::IoContextOf(loop);
  if (context == nullptr) return Status(Code::kInternal, "this event loop has no sockets");
  Result<std::shared_ptr<TlsContext>> tls = MakeTlsServer(credentials);
  if (!tls.ok()) return tls.status();
  auto listener = std::make_unique<TlsListener>(*context, *tls, limits, std::move(accept));
  for (const std::string& host : hosts) HARROW_RETURN_IF_ERROR(listener->Open(host, port));
  return std::unique_ptr<Listener>(std::move(listener));
}

void Dial(os::EventLoop* loop, const std::string& address, Role role, const Credentials& credentials,
          const Limits& limits, std::function<ChannelHandler(Result<std::shared_ptr<Channel>>)> done) {
  auto fail = [&](Status why) { loop->Post([done, why = std::move(why)] { done(why); }); };
  asio::io_context* context = os::IoContextOf(loop);
  if (context == nullptr) return fail(Status(Code::kInternal, "this event loop has no sockets"));
  Result<tcp::endpoint> to = ParseEndpoint(address);
  if (!to.ok()) return fail(to.status());
  Result<std::shared_ptr<TlsContext>> tls = MakeTlsClient(credentials, role);
  if (!tls.ok()) return fail(tls.status());
  int fd = socket(to->protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (fd < 0) return fail(Status(Code::kExhausted, StrCat("cannot make a socket: ", strerror(errno))));
  SetNoDelay(fd);
  tcp::socket socket(*context);
  socket.assign(to->protocol(), fd);
  auto connection = std::make_shared<Connection>(
      std::move(socket), address, (*tls)->NewEngine(), limits,
      [done = std::move(done), address](std::shared_ptr<Connection> ready,
                                        const Status& why) -> ChannelHandler {
        if (ready) return done(std::shared_ptr<Channel>(std::make_shared<Handle>(std::move(ready))));
        return done(why.code() == Code::kRefused
                        ? Status(Code::kRefused, StrCat(address, ": ", why.message()))
                        : why);
      });
  connection->StartClient(*to);
}

}  // namespace harrow::wire
