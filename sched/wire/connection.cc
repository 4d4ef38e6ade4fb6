// Sending: messages gather in `queued_`; one Flush, posted by the first of a turn, encrypts them together and
// hands them to the kernel in as few writes as it takes. Receiving: one recv of up to 256 KiB a wake-up. So
// the number of system calls follows the turns of the loop, not the messages.
//
// Closing: what is queued and TLS's close_notify go out, the sending side is shut, and what still arrives is
// read and dropped until the peer closes too (or kLinger is over). Closing at once with unread bytes would
// make the kernel send a reset, which can destroy the last messages on their way.
#include "wire/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "base/text.h"
#include "wire/frame.h"

namespace harrow::wire {
namespace {

constexpr size_t kAtOnce = 256u << 10;  // read from the kernel, or sealed before it is written
constexpr size_t kPerTurn = 4u << 20;   // then others get their turn
constexpr Duration kLinger = std::chrono::seconds(2);

char* Scratch() {
  thread_local std::unique_ptr<char[]> scratch(new char[kAtOnce]);
  return scratch.get();
}

Status Gone(std::string_view why) {
  return Status(Code::kUnavailable, std::string(why));
}

class AsioConnection : public Connection, public std::enable_shared_from_this<AsioConnection> {
 public:
  AsioConnection(asio::ip::tcp::socket socket, std::string peer, std::unique_ptr<TlsEngine> engine,
                 const Limits& limits, Established established);

  void StartServer() override;
  void StartClient(const sockaddr* to, socklen_t size) override;
  void Abandon(const Status& why) override;
  void Send(std::string_view message) override;
  size_t unsent_bytes() const override;
  Duration unheard() const override;
  void Close() override;
  Role role() const override { return engine_->role(); }
  const std::string& peer() const override { return peer_; }

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

AsioConnection::AsioConnection(asio::ip::tcp::socket socket, std::string peer,
                               std::unique_ptr<TlsEngine> engine, const Limits& limits,
                               Established established)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      peer_(std::move(peer)),
      engine_(std::move(engine)),
      frames_(limits.max_message),
      limits_(limits),
      established_(std::move(established)) {}

void AsioConnection::StartServer() {
  ArmDeadline(limits_.handshake_time, "it said nothing, or not enough, in the time of a handshake");
  AwaitReadable();
}

void AsioConnection::StartClient(const sockaddr* to, socklen_t size) {
  state_ = State::kConnecting;
  ArmDeadline(limits_.handshake_time, StrCat("no answer from ", peer_));
  if (connect(socket_.native_handle(), to, size) != 0 && errno != EINPROGRESS) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), error = errno] {
      self->Lost(Gone(StrCat("cannot connect to ", self->peer_, ": ", strerror(error))));
    });
    return;
  }
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code&) {
    if (self->state_ != State::kConnecting) return;
    int result = 0;
    socklen_t result_size = sizeof(result);
    getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &result, &result_size);
    if (result != 0)
      return self->Lost(Gone(StrCat("cannot connect to ", self->peer_, ": ", strerror(result))));
    self->state_ = State::kHandshake;
    self->Take({});
    self->AwaitReadable();
  });
}

void AsioConnection::Abandon(const Status& why) {
  if (state_ == State::kConnecting || state_ == State::kHandshake) Lost(why);
}

void AsioConnection::ArmDeadline(Duration after, std::string what) {
  deadline_.expires_after(after);
  deadline_.async_wait([weak = weak_from_this(), what = std::move(what)](const asio::error_code& error) {
    auto self = weak.lock();
    if (error || !self) return;
    if (self->state_ == State::kLingering) {
      self->Shut();
    } else {
      self->Abandon(Gone(what));
    }
  });
}

void AsioConnection::AwaitReadable() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       if (!error) self->OnReadable();
                     });
}

void AsioConnection::AwaitWritable() {
  if (awaiting_writable_) return;
  awaiting_writable_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const asio::error_code& error) {
                       self->awaiting_writable_ = false;
                       if (!error) self->Flush();
                     });
}

void AsioConnection::OnReadable() {
  ssize_t n = recv(socket_.native_handle(), Scratch(), kAtOnce, 0);
  if (n > 0) {
    if (state_ != State::kLingering) Take(std::string_view(Scratch(), static_cast<size_t>(n)));
  } else if (n == 0) {
    return Lost(Gone(state_ == State::kHandshake ? "the connection was closed during the handshake"
                                                 : "the connection was cut"));
  } else if (errno != EAGAIN) {
    return Lost(Gone(StrCat("the connection broke: ", strerror(errno))));
  }
  AwaitReadable();
}

void AsioConnection::Take(std::string_view received) {
  bool was_open = state_ == State::kOpen;
  TlsEngine::State tls = engine_->Receive(received, frames_.buffer());
  if (!engine_->output().empty()) Push();  // handshake, or an alert that tells the peer why
  if (!was_open && (tls == TlsEngine::State::kOpen || tls == TlsEngine::State::kClosedByPeer)) {
    state_ = State::kOpen;
    auto established = std::exchange(established_, nullptr);
    in_handler_ = true;
    ChannelHandler handler = established(shared_from_this(), Status());
    in_handler_ = false;
    if (state_ != State::kOpen) return;
    handler_ = std::move(handler);
  }
  if (state_ == State::kOpen) Deliver();
  if (state_ != State::kOpen && state_ != State::kHandshake) return;
  if (tls == TlsEngine::State::kFailed) return Lost(engine_->failure());
  if (tls == TlsEngine::State::kClosedByPeer) return Lost(Gone("the peer closed the connection"));
  if (!frames_.status().ok()) return Lost(frames_.status());
}

void AsioConnection::Deliver() {
  std::string_view message;
  in_handler_ = true;
  while (state_ == State::kOpen && frames_.Next(&message)) {
    if (handler_.on_message) handler_.on_message(message);
  }
  in_handler_ = false;
  if (state_ != State::kOpen) handler_ = {};
}

void AsioConnection::Send(std::string_view message) {
  if (state_ != State::kOpen || write_broken_) return;
  AppendFrame(message, &queued_);
  if (flush_posted_ || awaiting_writable_) return;
  flush_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->Flush();
  });
}

size_t AsioConnection::unsent_bytes() const {
  return queued_.size() - queued_begin_ + engine_->output().size();
}

Duration AsioConnection::unheard() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  auto& socket = const_cast<asio::ip::tcp::socket&>(socket_);
  if (state_ == State::kClosed ||
      getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return Duration::max();
  return std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
}

bool AsioConnection::Push() {
  while (!engine_->output().empty() && !write_broken_) {
    std::string_view out = engine_->output();
    ssize_t n = send(socket_.native_handle(), out.data(), out.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      engine_->ConsumeOutput(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      AwaitWritable();
      return false;
    } else {
      // The reading side reports the end, after what the peer had still to say.
      write_broken_ = true;
    }
  }
  return true;
}

void AsioConnection::Flush() {
  if (awaiting_writable_) return;
  size_t sealed = 0;
  while (Push()) {
    if (write_broken_) {
      queued_.clear();
      queued_begin_ = 0;
      return;
    }
    if (queued_begin_ == queued_.size()) {
      queued_.clear();
      queued_begin_ = 0;
      if (queued_.capacity() > kPerTurn) queued_.shrink_to_fit();
      if (state_ != State::kLingering) return;
      if (end_sealed_) {
        shutdown(socket_.native_handle(), SHUT_WR);
        return;
      }
      engine_->SealEnd();
      end_sealed_ = true;
      continue;
    }
    if (sealed >= kPerTurn) return AwaitWritable();
    size_t n = std::min(kAtOnce, queued_.size() - queued_begin_);
    engine_->Seal(std::string_view(queued_).substr(queued_begin_, n));
    queued_begin_ += n;
    sealed += n;
  }
}

void AsioConnection::Close() {
  if (state_ != State::kOpen) return Abandon(Gone("closed"));
  state_ = State::kLingering;
  if (!in_handler_) handler_ = {};
  ArmDeadline(kLinger, "");
  Flush();
}

void AsioConnection::Lost(const Status& why) {
  if (state_ == State::kClosed) return;
  State was = state_;
  auto keep = shared_from_this();
  Shut();
  ChannelHandler handler = std::exchange(handler_, {});
  auto established = std::exchange(established_, nullptr);
  if (was == State::kOpen && handler.on_closed) handler.on_closed(why);
  if (was != State::kOpen && established) established(nullptr, why);
}

// What is still posted or awaited finds no descriptor (-1), and fails without harm.
void AsioConnection::Shut() {
  state_ = State::kClosed;
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace

std::shared_ptr<Connection> Connection::Make(asio::io_context* context, int fd, bool ipv6, std::string peer,
                                             std::unique_ptr<TlsEngine> engine, const Limits& limits,
                                             Established established) {
  asio::ip::tcp::socket socket(*context);
  socket.assign(ipv6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), fd);
  return std::make_shared<AsioConnection>(std::move(socket), std::move(peer), std::move(engine), limits,
                                          std::move(established));
}

}  // namespace harrow::wire
