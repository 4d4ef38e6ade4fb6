#pragma once

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <future>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <utility>

#include "live/pmix_fixture.h"
#include "wire/frame.h"

namespace harrow::agent {

/// Stands until it is told otherwise.
class PlayedClock : public os::Clock {
 public:
  WallTime Now() const override { return WallTime(Steady()); }
  Duration Steady() const override { return Duration(now_.load()); }
  void Advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<int64_t> now_{1'000'000'000};
};

/// Keeps what it is told. From any thread.
class ToldGangs : public Gangs {
 public:
  struct Meets {
    AttemptId attempt;
    std::vector<uint32_t> ranks;
    std::string data;
    Met met;
  };
  struct Asks {
    AttemptId attempt;
    uint32_t node;
    std::string text;
    std::function<void(std::string)> answered;
  };
  void Join(AttemptId, std::shared_ptr<const Gang>) override {}
  void Leave(AttemptId) override {}
  void Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
            Met met) override {
    EXPECT_EQ(meeting, Meeting::kRanks);
    std::lock_guard lock(mutex_);
    meetings_.push_back({attempt, std::move(ranks), std::move(data), std::move(met)});
  }
  void Ask(AttemptId attempt, uint32_t node, std::string question,
           std::function<void(std::string)> answered) override {
    std::lock_guard lock(mutex_);
    questions_.push_back({attempt, node, std::move(question), std::move(answered)});
  }
  std::vector<Meets> meetings() {
    std::lock_guard lock(mutex_);
    return meetings_;
  }
  std::vector<Asks> questions() {
    std::lock_guard lock(mutex_);
    return questions_;
  }

 private:
  std::mutex mutex_;
  std::vector<Meets> meetings_;
  std::vector<Asks> questions_;
};

/// The helper's end of the pair of sockets.
class Played {
 public:
  explicit Played(pid_t pid) : pid_(pid) {
    const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    fd_ = static_cast<int>(syscall(SYS_pidfd_getfd, process, STDIN_FILENO, 0));
    close(process);
    EXPECT_GE(fd_, 0);
  }
  ~Played() { close(fd_); }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;

  /// None: it is hung up, or silent for a minute.
  std::optional<pb::ToPmix> Hear() {
    std::string_view frame;
    while (!reader_.Next(&frame)) {
      char buffer[65536];
      pollfd set = {fd_, POLLIN, 0};
      const ssize_t n = poll(&set, 1, 60'000) > 0 ? recv(fd_, buffer, sizeof buffer, 0) : -1;
      if (n <= 0) return std::nullopt;
      reader_.buffer()->append(buffer, static_cast<size_t>(n));
    }
    pb::ToPmix message;
    EXPECT_TRUE(message.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
    return message;
  }
  bool IsSilent() {
    pollfd set = {fd_, POLLIN, 0};
    return poll(&set, 1, 0) == 0;
  }
  void SayBytes(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      sent += static_cast<size_t>(n);
    }
  }
  void Say(const pb::FromPmix& message) {
    std::string frame;
    wire::AppendFrame(message.SerializeAsString(), &frame);
    SayBytes(frame);
  }
  void HangUp() { shutdown(fd_, SHUT_RDWR); }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
  int fd_ = -1;
  wire::FrameReader reader_{64u << 20};
};

/// It has ended, and nobody has waited for it.
inline bool IsOver(pid_t pid) {
  siginfo_t about{};
  return waitid(P_PID, static_cast<id_t>(pid), &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         about.si_pid == pid;
}

/// A port whose helpers are such processes.
class PlayedHelpersFixture : public PmixPortFixture {
 protected:
  PlayedHelpersFixture() {
    program_ = scratch_.path() + "/helper";
    std::ofstream(program_) << "#!/bin/sh\necho \"$1 $2\" > $0.told\nexec cat $0.end\n";
    chmod(program_.c_str(), 0700);
    EXPECT_EQ(mkfifo((program_ + ".end").c_str(), 0600), 0);
    end_ = open((program_ + ".end").c_str(), O_RDWR | O_CLOEXEC);
  }
  ~PlayedHelpersFixture() override {
    port_.reset();
    EndHelpers();
  }

  void Open(Gangs* gangs = nullptr, uint32_t most_ranks = 100) {
    PmixPort::Hooks hooks = Hooks();
    hooks.may_run = [this] {
      ++turns_;
      return may_run_.load();
    };
    hooks.lost = [this, lost = hooks.lost](const std::vector<AttemptId>& attempts, const std::string& why) {
      lost(attempts, why);
      if (when_lost_) when_lost_();
    };
    port_.emplace(PmixPort::Options{.program = program_,
                                    .node = "node1",
                                    .root = TmpRootAt(root_),
                                    .gangs = gangs,
                                    .most_ranks = most_ranks,
                                    .ping_every = std::chrono::seconds(5),
                                    .patience = std::chrono::seconds(3)},
                  clock_, std::move(hooks));
  }
  /// It has come to where it does nothing.
  bool Stands(pid_t pid) const {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    if (name != "cat") return false;
    std::error_code gone;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
      if (std::filesystem::read_symlink(entry.path(), gone) == program_ + ".end") return true;
    }
    return false;
  }
  /// A helper that is not one of those already known.
  std::unique_ptr<Played> Next() {
    pid_t next = -1;
    WaitUntil([&] {
      for (const pid_t pid : Helpers()) {
        if (!known_.contains(pid) && Stands(pid)) next = pid;
      }
      return next >= 0;
    });
    known_.insert(next);
    return std::make_unique<Played>(next);
  }
  /// All that are there, with 0.
  void EndHelpers() {
    if (end_ >= 0) close(std::exchange(end_, -1));
  }
  using Added = std::future<Result<std::vector<RankServer::Variables>>>;
  Added Begin(uint32_t task, uint32_t ranks, std::shared_ptr<const Gang> gang = nullptr) {
    return std::async(std::launch::async, [=, this] {
      return port_->Add({.attempt = Attempt(task), .count = ranks, .directory = "/x", .gang = gang}, never_);
    });
  }
  static pb::FromPmix IsAdded(uint64_t team) {
    pb::FromPmix said;
    said.add_added()->set_team(team);
    return said;
  }
  /// A team that is served.
  std::unique_ptr<Played> Serve(uint32_t task, uint32_t ranks) {
    Added added = Begin(task, ranks);
    auto helper = Next();
    const auto heard = helper->Hear();
    EXPECT_TRUE(heard && heard->add_size() == 1);
    if (heard && heard->add_size() == 1) helper->Say(IsAdded(heard->add(0).team()));
    EXPECT_TRUE(added.get().ok());
    return helper;
  }
  /// One more by the same helper.
  void ServeBy(Played* helper, uint32_t task, uint32_t ranks) {
    Added added = Begin(task, ranks);
    const auto heard = helper->Hear();
    ASSERT_TRUE(heard && heard->add_size() == 1);
    helper->Say(IsAdded(heard->add(0).team()));
    EXPECT_TRUE(added.get().ok());
  }
  /// Lets the port look at the clock: hears a question of that task's, before which comes `first`, if
  /// anything.
  void Turn(Played* helper, uint32_t task, const std::function<void(const pb::ToPmix&)>& first = {}) {
    port_->Ask(Attempt(task), "turn", [](const std::string&) {});
    auto heard = helper->Hear();
    while (heard && heard->question_size() == 0) {
      EXPECT_TRUE(first) << "it says something else before";
      if (first) first(*heard);
      heard = helper->Hear();
    }
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->question(0).text(), "turn");
  }
  std::string Told() {
    std::string told;
    std::getline(std::ifstream(program_ + ".told"), told);
    return told;
  }

  const test::OwnDirectory scratch_;
  std::string program_;
  int end_ = -1;  // of a pipe from which helpers read nothing until it is closed
  PlayedClock clock_;
  std::atomic<bool> may_run_{true};
  std::function<void()> when_lost_{};  // on the port's thread; set before it is there
  std::atomic<int> turns_{0};          // of the port's thread
  std::set<pid_t> known_;
};

}  // namespace harrow::agent
