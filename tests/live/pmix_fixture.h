#pragma once

#include <arpa/inet.h>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "agent/pmix/pmix_port.h"
#include "live/eventually.h"
#include "os/clock.h"
#include "support/own_directory.h"

namespace harrow::agent {

inline std::set<pid_t> Children(pid_t parent) {
  std::set<pid_t> all;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task", gone)) {
    std::ifstream children(entry.path() / "children");
    for (pid_t pid; children >> pid;) all.insert(pid);
  }
  return all;
}

/// A port, whose helpers are children of this process.
class PmixPortFixture : public testing::Test {
 protected:
  ~PmixPortFixture() override {
    port_.reset();
    EXPECT_THAT(Helpers(), testing::IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(root_)) << root_;
  }

  PmixPort::Hooks Hooks() {
    return {.lost =
                [this](const std::vector<AttemptId>& attempts, const std::string& why) {
                  std::lock_guard lock(mutex_);
                  for (const AttemptId& attempt : attempts) lost_.insert(attempt.task.value);
                  why_ = why;
                  changed_.notify_all();
                },
            .may_run = [] { return true; }};
  }
  static AttemptId Attempt(uint32_t task) { return {TaskId(task), 1}; }
  Result<std::vector<RankServer::Variables>> Add(uint32_t task, uint32_t ranks) {
    return port_->Add({.attempt = Attempt(task), .count = ranks, .directory = root_ + "/x"}, never_);
  }
  std::optional<RankServer::Seen> Ended(uint32_t task, uint32_t rank) {
    return port_->Ended(Attempt(task), rank, never_);
  }
  /// Of this process's children.
  static std::set<pid_t> Helpers() { return Children(getpid()); }
  template <class F>
  void WaitUntil(F holds) {
    EXPECT_TRUE(test::Eventually(holds));
  }
  void WaitForLoss(uint32_t task) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return lost_.contains(task); }));
  }

  const RankServer::InVain never_ = [] { return false; };
  const test::OwnDirectory own_;
  const std::string& root_ = own_.path();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint32_t> lost_;
  std::string why_;
  std::optional<PmixPort> port_;
};

inline std::string ValueOf(const RankServer::Variables& variables, const std::string& name) {
  for (const std::string& entry : variables) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

/// Where the ranks of a team connect.
inline sockaddr_in AddressOf(const RankServer::Variables& variables) {
  const std::string url = ValueOf(variables, "PMIX_SERVER_URI4");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  return address;
}

/// A connection, closed with it.
class Client {
 public:
  explicit Client(const sockaddr_in& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Say(const std::string& text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// Up to so many bytes; fewer: it was hung up.
  std::string Hear(size_t bytes) {
    std::string text;
    char byte;
    pollfd set = {fd_, POLLIN, 0};
    while (text.size() < bytes && poll(&set, 1, 60'000) > 0 && recv(fd_, &byte, 1, 0) == 1) text += byte;
    return text;
  }
  /// Whether it is hung up on, and nothing was said before.
  bool IsHungUpOn() {
    char byte;
    pollfd set = {fd_, POLLIN, 0};
    return poll(&set, 1, 60'000) > 0 && recv(fd_, &byte, 1, 0) <= 0;
  }

 private:
  const int fd_;
};

inline std::string BigEndian(uint32_t number) {
  number = htonl(number);
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

/// The first message of somebody who connects: `kind` 0 is a rank, 4 a tool that brings its name along.
inline std::string Hello(uint8_t kind, const std::string& space, uint32_t rank) {
  const auto words = [](const std::string& text) { return text + std::string(1, '\0'); };
  std::string text = words("native") + BigEndian(8) + std::string(8, '\0') + static_cast<char>(kind);
  const uint32_t uid = getuid(), gid = getgid();
  std::memcpy(text.data() + words("native").size() + 4, &uid, sizeof uid);
  std::memcpy(text.data() + words("native").size() + 8, &gid, sizeof gid);
  if (kind != 0) text += BigEndian(uid) + BigEndian(gid);
  text +=
      words(space) + BigEndian(rank) + words("4.2.2") + words("v41") + std::string(1, '\2') + words("hash");
  const uint32_t header[4] = {0, 0, static_cast<uint32_t>(text.size()), 0};
  return std::string(reinterpret_cast<const char*>(header), sizeof header) + text;
}

}  // namespace harrow::agent
