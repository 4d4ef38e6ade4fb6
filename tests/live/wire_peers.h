#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "os/event_loop.h"
#include "wire/channel.h"

namespace harrow::test {

using namespace std::chrono_literals;

/// Longer than anything here takes; a test that waits so long has failed.
inline constexpr auto kPatience = 60s;

inline wire::Credentials Key(std::string run_id = "run-1", char key = 'k') {
  return {std::move(run_id), std::string(32, key)};
}

/// An event loop on a thread of its own.
class LoopThread {
 public:
  LoopThread() : loop_(os::MakeEventLoop()), thread_([this] { loop_->Run(); }) {}
  ~LoopThread() { Join(); }
  os::EventLoop* loop() { return loop_.get(); }
  /// Runs `work` on the thread and waits for its answer.
  template <class F>
  auto Call(F work) -> decltype(work()) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto answer = task.get_future();
    loop_->Post([&task] { task(); });
    return answer.get();
  }
  void Join() {
    if (!thread_.joinable()) return;
    loop_->Stop();
    thread_.join();
  }

 private:
  std::unique_ptr<os::EventLoop> loop_;
  std::thread thread_;
};

/// A server that echoes, and keeps what it got.
class EchoServer {
 public:
  explicit EchoServer(const wire::Limits& limits, const wire::Credentials& key = Key()) {
    thread_.Call([&] {
      auto listener =
          wire::Listen(thread_.loop(), {"127.0.0.1"}, 0, key, limits,
                       [this](std::shared_ptr<wire::Channel> channel) { return Accept(std::move(channel)); });
      if (!listener.ok()) abort();
      listener_ = std::move(*listener);
    });
    address_ = listener_->addresses().at(0);
  }
  ~EchoServer() {
    thread_.Call([this] {
      channels_.clear();
      listener_.reset();
    });
    thread_.Join();
  }

  const std::string& address() const { return address_; }
  uint16_t port() const { return static_cast<uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1))); }
  wire::Listener::Refusals refusals() {
    return thread_.Call([this] { return listener_->refusals(); });
  }
  size_t received() {
    return thread_.Call([this] { return received_.size(); });
  }
  std::vector<std::string> messages() {
    return thread_.Call([this] { return received_; });
  }
  std::vector<std::string> ends() {
    return thread_.Call([this] { return ends_; });
  }
  size_t channels() {
    return thread_.Call([this] { return channels_.size(); });
  }
  LoopThread& thread() { return thread_; }
  /// On the loop's thread.
  wire::Channel* only_channel() { return channels_.begin()->first; }
  /// On the loop's thread: what to do instead of echoing.
  std::function<void(wire::Channel&, std::string_view)> on_message;

 private:
  wire::ChannelHandler Accept(std::shared_ptr<wire::Channel> channel) {
    auto* key = channel.get();
    channels_[key] = std::move(channel);
    wire::ChannelHandler handler;
    handler.on_message = [this, key](std::string_view message) {
      received_.emplace_back(message);
      if (on_message) return on_message(*key, message);
      key->Send(message);
    };
    handler.on_closed = [this, key](const Status& why) {
      ends_.push_back(why.message());
      channels_.erase(key);
    };
    return handler;
  }

  LoopThread thread_;
  std::unique_ptr<wire::Listener> listener_;
  std::map<wire::Channel*, std::shared_ptr<wire::Channel>> channels_;
  std::vector<std::string> received_, ends_;
  std::string address_;
};

/// A dialled channel whose messages can be waited for.
class Peer {
 public:
  Peer(const std::string& address, const wire::Credentials& key = Key(), wire::Role role = wire::Role::kAgent,
       wire::Limits limits = {}) {
    thread_.Call([&] {
      wire::Dial(thread_.loop(), address, role, key, limits,
                 [this](Result<std::shared_ptr<wire::Channel>> channel) { return Done(std::move(channel)); });
    });
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return done_; })) abort();
  }
  ~Peer() {
    thread_.Call([this] { channel_.reset(); });
    thread_.Join();
  }

  const Status& dialled() const { return dialled_; }
  void Send(std::string message) {
    thread_.Call([&] { channel_->Send(message); });
  }
  void SendAll(const std::vector<std::string>& messages) {
    thread_.Call([&] {
      for (const std::string& m : messages) channel_->Send(m);
    });
  }
  void Close() {
    thread_.Call([this] { channel_->Close(); });
  }
  /// False when the channel ended, or nothing came for too long.
  bool WaitFor(size_t messages) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return got_.size() >= messages || closed_; });
    return got_.size() >= messages;
  }
  Duration Unheard() {
    return thread_.Call([this] { return channel_->unheard(); });
  }
  bool WaitClosed() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return closed_; });
  }
  bool Echo(const std::string& text) {
    size_t before = got().size();
    Send(text);
    return WaitFor(before + 1) && got().back() == text;
  }
  std::vector<std::string> got() {
    std::lock_guard lock(mutex_);
    return got_;
  }
  Status end() {
    std::lock_guard lock(mutex_);
    return end_;
  }
  LoopThread& thread() { return thread_; }
  wire::Channel* channel() { return channel_.get(); }

 private:
  wire::ChannelHandler Done(Result<std::shared_ptr<wire::Channel>> channel) {
    std::lock_guard lock(mutex_);
    dialled_ = channel.status();
    if (channel.ok()) channel_ = *channel;
    done_ = true;
    changed_.notify_all();
    wire::ChannelHandler handler;
    handler.on_message = [this](std::string_view message) {
      std::lock_guard l(mutex_);
      got_.emplace_back(message);
      changed_.notify_all();
    };
    handler.on_closed = [this](const Status& why) {
      std::lock_guard l(mutex_);
      end_ = why;
      closed_ = true;
      changed_.notify_all();
    };
    return handler;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false, closed_ = false;
  Status dialled_, end_;
  std::vector<std::string> got_;
  std::shared_ptr<wire::Channel> channel_;
  LoopThread thread_;
};

/// A bare TCP connection, as somebody without Harrow would make.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) abort();
  }
  ~RawPeer() { close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  /// What comes until the other side closes. False when it does not close.
  bool ReadToEnd(std::string* got) {
    auto until = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < until) {
      pollfd p{fd_, POLLIN, 0};
      if (poll(&p, 1, 100) <= 0) continue;
      char buffer[4096];
      ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) return true;
      got->append(buffer, static_cast<size_t>(n));
    }
    return false;
  }
  /// Waits until something has come.
  std::string ReadSome() {
    pollfd p{fd_, POLLIN, 0};
    char buffer[65536];
    ssize_t n = poll(&p, 1, std::chrono::milliseconds(kPatience).count()) == 1
                    ? recv(fd_, buffer, sizeof(buffer), 0)
                    : 0;
    return std::string(buffer, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  }

 private:
  int fd_;
};

/// Stands between one peer and a server, relays, records both directions and may change what passes.
class Relay {
 public:
  explicit Relay(uint16_t server_port) : server_port_(server_port) {
    listen_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(any);
    if (bind(listen_, reinterpret_cast<sockaddr*>(&any), size) != 0 || listen(listen_, 5) != 0 ||
        getsockname(listen_, reinterpret_cast<sockaddr*>(&any), &size) != 0) {
      abort();
    }
    address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
    close(listen_);
  }
  const std::string& address() const { return address_; }
  std::string up() { return Locked(up_); }
  std::string down() { return Locked(down_); }
  /// Stops reading from the server while set: its sender meets a full socket.
  std::atomic<bool> stall_down{false};
  /// May change a piece on its way to the server; `offset` counts from the first byte.
  std::function<void(size_t offset, std::string* piece)> change_up;

 private:
  std::string Locked(const std::string& text) {
    std::lock_guard lock(mutex_);
    return text;
  }
  void Run() {
    pollfd p{listen_, POLLIN, 0};
    while (!stop_ && poll(&p, 1, 50) != 1) {
    }
    if (stop_) return;
    int client = accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(server, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) abort();
    bool open = true;
    while (open && !stop_) {
      pollfd both[2] = {{client, POLLIN, 0}, {stall_down ? -1 : server, POLLIN, 0}};
      if (poll(both, 2, 20) <= 0) continue;
      if (both[0].revents != 0) open = Pass(client, server, &up_, true);
      if (open && both[1].revents != 0) open = Pass(server, client, &down_, false);
    }
    close(client);
    close(server);
  }
  bool Pass(int from, int to, std::string* record, bool upwards) {
    std::string piece(65536, '\0');
    ssize_t n = recv(from, piece.data(), piece.size(), 0);
    if (n <= 0) return false;
    piece.resize(static_cast<size_t>(n));
    if (upwards && change_up) change_up(record->size(), &piece);
    {
      std::lock_guard lock(mutex_);
      record->append(piece);
    }
    std::string_view rest = piece;
    while (!rest.empty()) {
      ssize_t m = send(to, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (m <= 0) return false;
      rest.remove_prefix(static_cast<size_t>(m));
    }
    return true;
  }

  const uint16_t server_port_;
  int listen_ = -1;
  std::string address_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string up_, down_;
  std::thread thread_;
};

}  // namespace harrow::test
