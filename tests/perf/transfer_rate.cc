// The ends of transfers that tests/perf/transfer measures.
//   perf_transfer serve STORE HOST plain|tls FILE...     tells its address and its objects, and gives them to
//   node 2 until
//                                                        its standard input ends
//   perf_transfer fetch STORE HOST plain|tls ADDRESS     fetches the objects of its standard input from node
//   1 and makes them
//                                                        durable: prints the seconds without that, and with it
//   perf_transfer spread DIRECTORY plain|tls chain|tree MIB RATE
//                                                        8 nodes want a file of so many MiB, of which the
//                                                        first holder, like every other node, can send RATE
//                                                        MiB a second: prints the seconds, those of one copy,
//                                                        and the copies that the first sent
#include <arpa/inet.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "live/transfer_nodes.h"

namespace {

using harrow::FileId;
using harrow::NodeId;
using harrow::agent::Transfers;
using harrow::test::Outcomes;
using harrow::test::TransferNode;
using Clock = std::chrono::steady_clock;

double Since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "perf_transfer: %s\n", why.c_str());
  std::exit(1);
}

Transfers::Options At(const std::string& host) {
  Transfers::Options options;
  options.peers.hosts = {host};
  return options;
}

/// Without removing the store's many files, which tests/perf/transfer does at its end: ext4 looks long for an
/// inode where many were freed just now, and that would be measured next.
void LeaveMany(size_t files) {
  if (files <= 1) return;
  std::fflush(stdout);
  _exit(0);
}

int Serve(const std::vector<std::string>& args) {
  TransferNode node(1, args.at(1), At(args.at(2)), args.at(3) == "tls");
  for (size_t i = 4; i < args.size(); ++i) {
    auto object = node.store().CopyIn(args[i]);
    if (!object.ok()) Fail(object.status().message());
    std::printf("%s %lld\n", object->id.Text().c_str(), static_cast<long long>(object->bytes));
  }
  std::printf("%s\n", node.transfers().addresses().front().c_str());
  std::fflush(stdout);
  // It is told nothing of the other: who dials is named here.
  node.transfers().Know(NodeId(2), {}, 1002);
  for (std::string line; std::getline(std::cin, line);) {
  }
  LeaveMany(args.size() - 4);
  return 0;
}

int Fetch(const std::vector<std::string>& args) {
  TransferNode node(2, args.at(1), At(args.at(2)), args.at(3) == "tls");
  std::vector<harrow::store::Object> objects;
  std::string id;
  for (int64_t bytes = 0; std::cin >> id >> bytes;) {
    objects.push_back({.id = *harrow::store::ObjectId::FromText(id), .bytes = bytes});
  }
  Outcomes outcomes;
  const auto began = Clock::now();
  node.transfers().Know(NodeId(1), {args.at(4)}, 1001);
  for (uint32_t i = 0; i < objects.size(); ++i) node.Fetch(objects[i], NodeId(1), &outcomes, i);
  if (!outcomes.Wait()) Fail("the transfer does not end");
  const double here = Since(began);
  if (objects.size() == 1) {
    auto reader = node.store().Read(objects[0].id);
    if (!reader.ok() || fdatasync((*reader)->fd()) != 0) Fail("fdatasync fails");
  } else {
    const int directory = open(args.at(1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0 || syncfs(directory) != 0) Fail("syncfs fails");
    close(directory);
  }
  const double seconds = Since(began);
  for (const Transfers::Outcome& outcome : outcomes.Take()) {
    if (!outcome.status.ok()) Fail(outcome.status.message());
  }
  std::printf("%.6f %.6f\n", here, seconds);
  LeaveMany(objects.size());
  return 0;
}

/// What a node can send, all connections together: a relay before its listener that passes so many bytes a
/// second.
class Uplink {
 public:
  Uplink(const std::string& to, double bytes_per_second)
      : to_(Loopback(static_cast<uint16_t>(std::stoi(to.substr(to.rfind(':') + 1))))),
        rate_(bytes_per_second) {
    listen_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any = Loopback(0);
    socklen_t size = sizeof(any);
    if (bind(listen_, reinterpret_cast<sockaddr*>(&any), size) != 0 || listen(listen_, 50) != 0 ||
        getsockname(listen_, reinterpret_cast<sockaddr*>(&any), &size) != 0)
      Fail("the relay cannot listen");
    address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~Uplink() {
    stop_ = true;
    thread_.join();
    close(listen_);
  }
  const std::string& address() const { return address_; }

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
  }
  void Run() {
    std::vector<std::pair<int, int>> pairs;
    std::string piece(128 << 10, '\0');
    auto began = Clock::now();
    while (!stop_) {
      // At most 20 ms of the rate may gather unused.
      const double ahead = static_cast<double>(down_) / rate_ - Since(began);
      if (ahead < -0.02)
        began += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-ahead - 0.02));
      std::vector<pollfd> fds = {{listen_, POLLIN, 0}};
      for (const auto& [client, server] : pairs) {
        fds.push_back({client, POLLIN, 0});
        fds.push_back({ahead > 0 ? -1 : server, POLLIN, 0});
      }
      const int wait = ahead > 0 ? std::max(1, static_cast<int>(ahead * 1000)) : 10;
      if (poll(fds.data(), fds.size(), std::min(wait, 10)) <= 0) continue;
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (fds[1 + 2 * i].revents != 0) Pass(pairs[i].first, pairs[i].second, &piece, nullptr);
        if (fds[2 + 2 * i].revents != 0) Pass(pairs[i].second, pairs[i].first, &piece, &down_);
      }
      if (fds[0].revents == 0) continue;
      const int client = accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC);
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (client < 0 || connect(server, reinterpret_cast<sockaddr*>(&to_), sizeof(to_)) != 0)
        Fail("the relay cannot connect");
      pairs.emplace_back(client, server);
    }
    for (const auto& [client, server] : pairs) {
      close(client);
      close(server);
    }
  }
  static void Pass(int from, int to, std::string* piece, std::atomic<int64_t>* count) {
    const ssize_t n = recv(from, piece->data(), piece->size(), MSG_DONTWAIT);
    if (n <= 0) return;
    if (count != nullptr) *count += n;
    for (ssize_t done = 0; done < n;) {
      const ssize_t m = send(to, piece->data() + done, static_cast<size_t>(n - done), MSG_NOSIGNAL);
      if (m <= 0) return;
      done += m;
    }
  }

  sockaddr_in to_;
  const double rate_;
  int listen_ = -1;
  std::string address_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> down_{0};
  std::thread thread_;
};

int Spread(const std::vector<std::string>& args) {
  constexpr uint32_t kNodes = 9;
  const bool chain = args.at(3) == "chain";
  const int64_t size = std::stoll(args.at(4)) << 20;
  const double rate = std::stod(args.at(5)) * (1 << 20);
  const std::string file = args.at(1) + "/file";
  {
    FILE* out = std::fopen(file.c_str(), "w");
    const std::string block = harrow::test::RandomBytes(1 << 20, 1);
    for (int64_t at = 0; at < size; at += 1 << 20) std::fwrite(block.data(), 1, block.size(), out);
    std::fclose(out);
  }
  std::vector<std::unique_ptr<TransferNode>> nodes;
  std::vector<std::unique_ptr<Uplink>> uplinks;
  for (uint32_t i = 0; i < kNodes; ++i) {
    nodes.push_back(std::make_unique<TransferNode>(i, args.at(1) + "/store" + std::to_string(i),
                                                   At("127.0.0.1"), args.at(2) == "tls"));
    uplinks.push_back(std::make_unique<Uplink>(nodes.back()->transfers().addresses().front(), rate));
  }
  const auto source = [chain](uint32_t i) { return chain ? i - 1 : (i - 1) / 2; };
  for (uint32_t i = 1; i < kNodes; ++i) nodes[i]->Meet(*nodes[source(i)], uplinks[source(i)]->address());
  const auto object = nodes[0]->store().CopyIn(file);
  if (!object.ok()) Fail(object.status().message());
  Outcomes outcomes;
  const auto began = Clock::now();
  for (uint32_t i = 1; i < kNodes; ++i) nodes[i]->Fetch(*object, NodeId(source(i)), &outcomes, i);
  if (!outcomes.Wait()) Fail("the file does not come");
  const double seconds = Since(began);
  for (const Transfers::Outcome& outcome : outcomes.Take()) {
    if (!outcome.status.ok()) Fail(outcome.status.message());
  }
  std::printf("%.6f %.6f %.6f\n", seconds, static_cast<double>(size) / rate,
              static_cast<double>(nodes[0]->transfers().figures().served_bytes) / static_cast<double>(size));
  for (auto& node : nodes) node->EndTransfers();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const std::string what = args.empty() ? "" : args[0];
  if (what == "serve" && args.size() > 4) return Serve(args);
  if (what == "fetch" && args.size() == 5) return Fetch(args);
  if (what == "spread" && args.size() == 6) return Spread(args);
  Fail("serve, fetch or spread: see the top of its source");
}
