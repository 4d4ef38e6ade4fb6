#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace harrow::test {

/// Stands between agents that dial it and one that listens: any number of connections, which it can cut,
/// change or hold up. What the listener sends is "down".
class TransferRelay {
 public:
  explicit TransferRelay(const std::string& to)
      : to_port_(static_cast<uint16_t>(std::stoi(to.substr(to.rfind(':') + 1)))),
        listen_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in any = Loopback(0);
    socklen_t size = sizeof(any);
    if (bind(listen_, reinterpret_cast<sockaddr*>(&any), size) != 0 || listen(listen_, 50) != 0 ||
        getsockname(listen_, reinterpret_cast<sockaddr*>(&any), &size) != 0) {
      abort();
    }
    address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~TransferRelay() {
    stop_ = true;
    thread_.join();
    close(listen_);
  }
  const std::string& address() const { return address_; }

  /// After so many more bytes down all connections are cut; or a bit of the next one is another.
  void CutAfter(int64_t bytes) { cut_in_ = bytes; }
  void FlipAfter(int64_t bytes) { flip_in_ = bytes; }
  bool cut() const { return cut_in_ < 0; }
  bool flipped() const { return flip_in_ < 0; }
  std::atomic<bool> hold{false};  // passes nothing
  std::atomic<int64_t> down_bytes{0};

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
  }
  struct Pair {
    int client, server;
  };

  void Run() {
    std::vector<Pair> pairs;
    std::string piece(65536, '\0');
    while (!stop_) {
      std::vector<pollfd> fds = {{listen_, POLLIN, 0}};
      for (const Pair& p : pairs) {
        fds.push_back({hold ? -1 : p.client, POLLIN, 0});
        fds.push_back({hold ? -1 : p.server, POLLIN, 0});
      }
      if (poll(fds.data(), fds.size(), 10) <= 0) continue;
      std::vector<Pair> left;
      for (size_t i = 0; i < pairs.size(); ++i) {
        bool open = true;
        if (fds[1 + 2 * i].revents != 0) open = Pass(pairs[i].client, pairs[i].server, &piece, false);
        if (open && fds[2 + 2 * i].revents != 0) open = Pass(pairs[i].server, pairs[i].client, &piece, true);
        if (open) {
          left.push_back(pairs[i]);
        } else {
          Close(pairs[i]);
        }
      }
      pairs.swap(left);
      if (cut_now_) {
        for (const Pair& p : pairs) Close(p);
        pairs.clear();
        cut_now_ = false;
      }
      if (fds[0].revents != 0) {
        const int client = accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC);
        const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in to = Loopback(to_port_);
        if (client >= 0 && connect(server, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
          pairs.push_back({client, server});
        } else {
          Close({client, server});
        }
      }
    }
    for (const Pair& p : pairs) Close(p);
  }
  static void Close(const Pair& p) {
    if (p.client >= 0) close(p.client);
    if (p.server >= 0) close(p.server);
  }
  bool Pass(int from, int to, std::string* piece, bool down) {
    ssize_t n = recv(from, piece->data(), piece->size(), 0);
    if (n <= 0) return false;
    if (down) {
      down_bytes += n;
      if (flip_in_ >= 0) {
        if (flip_in_ < n) (*piece)[static_cast<size_t>(flip_in_)] ^= 4;
        flip_in_ -= flip_in_ < n ? flip_in_ + 1 : n;
      }
      if (cut_in_ >= 0) {
        cut_now_ = cut_in_ < n;
        if (cut_now_) n = static_cast<ssize_t>(cut_in_);
        cut_in_ -= cut_now_ ? cut_in_ + 1 : n;
      }
    }
    for (ssize_t done = 0; done < n;) {
      const ssize_t m = send(to, piece->data() + done, static_cast<size_t>(n - done), MSG_NOSIGNAL);
      if (m <= 0) return false;
      done += m;
    }
    return true;
  }

  const uint16_t to_port_;
  const int listen_;
  std::string address_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> cut_in_{-1}, flip_in_{-1};
  bool cut_now_ = false;
  std::thread thread_;
};

}  // namespace harrow::test
