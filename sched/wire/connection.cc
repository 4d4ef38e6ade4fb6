// Sending: messages gather in `queue_`; one Flush, posted by the first of a turn, encrypts them together and
// hands them to the kernel in as few writes as it takes. Bytes of files are read there, just before they are
// encrypted, or go from file to socket by themselves (sendfile) where nothing is. Receiving: one recv of up
// to 256 KiB a wake-up. So the number of system calls follows the turns of the loop, not the messages.
//
// Closing: what is queued and TLS's close_notify go out, the sending side is shut, and what still arrives is
// read and dropped until the peer closes too (or kLinger is over). Closing at once with unread bytes would
// make the kernel send a reset, which can destroy the last messages on their way.
#include "wire/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>
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

// sendfile knows no MSG_NOSIGNAL: a SIGPIPE that it raises is taken away again, also one that
// comes with the last bytes that were sent.
ssize_t SendFileQuietly(int socket, const FilePiece& piece) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  off_t at = piece.offset;
  const ssize_t sent = sendfile(socket, piece.fd, &at, piece.length);
  const int error = errno;
  if (sent != static_cast<ssize_t>(piece.length) && !sigismember(&before, SIGPIPE)) {
    const timespec now{};
    sigtimedwait(&pipe, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return sent;
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
  void SendFile(std::string_view head, FilePiece piece) override;
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
  /// Where frames are appended to.
  std::string* Tail();
  void WantFlush();
  void Flush();
  /// Encrypts some of what is first in the queue, or sends it. False when the kernel takes no more now.
  bool SealSome(size_t* sealed);
  size_t SealFile(FilePiece* piece);
  void TellSent();
  void DropQueue();
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
  // Not yet encrypted: bytes from `begin` on, then a piece of a file.
  struct Queued {
    std::string bytes{};
    size_t begin = 0;
    FilePiece file{};
  };
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  bool tell_sent_ = false;
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

std::string* AsioConnection::Tail() {
  if (queue_.empty() || queue_.back().file.length > 0) queue_.emplace_back();
  return &queue_.back().bytes;
}

void AsioConnection::Send(std::string_view message) {
  if (state_ != State::kOpen || write_broken_) return;
  std::string* tail = Tail();
  const size_t before = tail->size();
  AppendFrame(message, tail);
  queued_bytes_ += tail->size() - before;
  WantFlush();
}

void AsioConnection::SendFile(std::string_view head, FilePiece piece) {
  if (state_ != State::kOpen || write_broken_) return;
  std::string* tail = Tail();
  const size_t before = tail->size();
  AppendFrameHead(static_cast<uint32_t>(head.size()) + piece.length, tail);
  tail->append(head);
  queued_bytes_ += tail->size() - before + piece.length;
  queue_.back().file = std::move(piece);
  WantFlush();
}

void AsioConnection::WantFlush() {
  tell_sent_ = true;
  if (flush_posted_ || awaiting_writable_) return;
  flush_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->Flush();
  });
}

size_t AsioConnection::unsent_bytes() const {
  return queued_bytes_ + engine_->output().size();
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
    if (write_broken_) return DropQueue();
    if (queued_bytes_ == 0) {
      DropQueue();
      if (state_ != State::kLingering) return TellSent();
      if (end_sealed_) {
        shutdown(socket_.native_handle(), SHUT_WR);
        return;
      }
      engine_->SealEnd();
      end_sealed_ = true;
      continue;
    }
    if (sealed >= kPerTurn || !SealSome(&sealed)) return AwaitWritable();
  }
}

bool AsioConnection::SealSome(size_t* sealed) {
  Queued& first = queue_.front();
  size_t n = 0;
  if (first.begin < first.bytes.size()) {
    n = std::min(kAtOnce, first.bytes.size() - first.begin);
    engine_->Seal(std::string_view(first.bytes).substr(first.begin, n));
    first.begin += n;
    if (first.begin >= kPerTurn) {  // more may be added to it for as long as the queue is never empty
      first.bytes.erase(0, first.begin);
      first.begin = 0;
    }
  } else {
    n = SealFile(&first.file);
    if (n == 0 && first.file.length > 0) return write_broken_;
  }
  queued_bytes_ -= n;
  *sealed += n;
  if (first.begin == first.bytes.size() && first.file.length == 0 && queue_.size() > 1) queue_.pop_front();
  return true;
}

// Returns 0 when the kernel takes no more now, or the connection is broken.
size_t AsioConnection::SealFile(FilePiece* piece) {
  size_t n = std::min<size_t>(kAtOnce, piece->length);
  bool sent = false;
  if (engine_->plain()) {
    const ssize_t m = SendFileQuietly(socket_.native_handle(), *piece);
    if (m < 0 && errno == EAGAIN) return 0;
    if (m < 0 && (errno == EPIPE || errno == ECONNRESET)) write_broken_ = true;
    if (write_broken_) return 0;
    if (m > 0) n = static_cast<size_t>(m);
    sent = m > 0;
  }
  if (!sent) {
    const ssize_t got = pread(piece->fd, Scratch(), n, piece->offset);
    const size_t here = got > 0 ? static_cast<size_t>(got) : 0;
    if (here > 0) n = here;
    if (here == 0) memset(Scratch(), 0, n);
    engine_->Seal(std::string_view(Scratch(), n));
  }
  piece->offset += static_cast<int64_t>(n);
  piece->length -= static_cast<uint32_t>(n);
  if (piece->length == 0) piece->owner = nullptr;
  return n;
}

void AsioConnection::TellSent() {
  if (!std::exchange(tell_sent_, false) || state_ != State::kOpen || !handler_.on_sent) return;
  in_handler_ = true;
  handler_.on_sent();
  in_handler_ = false;
  if (state_ != State::kOpen) handler_ = {};
}

// A buffer of ordinary size is used again.
void AsioConnection::DropQueue() {
  queued_bytes_ = 0;
  if (queue_.size() > 1 || (!queue_.empty() && queue_.front().bytes.capacity() > kPerTurn)) queue_.clear();
  if (queue_.empty()) return;
  queue_.front().bytes.clear();
  queue_.front().begin = 0;
  queue_.front().file = {};
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
