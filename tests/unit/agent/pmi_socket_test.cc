// The socket by which a rank speaks PMI-1: the test has the rank's end.
#include "agent/steps/pmi_socket.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "agent/steps/gang.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

class FakeServer : public TalkingRankServer {
 public:
  Result<std::vector<Variables>> Add(const Ranks&, const InVain&) override {
    return std::vector<Variables>();
  }
  std::optional<Seen> Ended(AttemptId, uint32_t, const InVain&) override { return std::nullopt; }
  void Drop(AttemptId) override {}
  bool Hear(AttemptId attempt, uint32_t rank, std::string_view said) override {
    heard_of = {attempt, rank};
    ++pieces;
    hung_up = hung_up || said.empty();
    if (says_more >= 0) (void)!write(says_more, said.data(), said.size());
    return pieces < 100'000 && said != "nonsense";
  }
  std::string TakeAnswers(AttemptId attempt, uint32_t rank) override {
    EXPECT_EQ(std::pair(attempt, rank), heard_of);
    told += answer.size();
    return answer;
  }

  std::pair<AttemptId, uint32_t> heard_of;
  int pieces = 0;
  bool hung_up = false;
  int says_more = -1;  // the rank's end, by which it says all again as soon as it was heard
  std::string answer{};
  size_t told = 0;
};

class PmiSocketTest : public StepOnDisk {
 protected:
  PmiSocketTest() {
    servers_.pmi1 = &server_;
    task_.id = 4;
    task_.attempt = 2;
    given_.process = 1;
    SetProfile({.ranks = 2, .mpi = Mpi::kPmi1});
    Begin();
  }
  void Begin() {
    ASSERT_TRUE(Prepare(socket_).ok());
    EXPECT_EQ(launch_->request.kept_fd, launch_->variables.pmi_fd);
    CloseRank();
    rank_ = dup(launch_->variables.pmi_fd);
    fcntl(rank_, F_SETFD, FD_CLOEXEC);
    fcntl(rank_, F_SETFL, O_NONBLOCK);
    socket_.CloseRanksEnd();
  }
  ~PmiSocketTest() override { CloseRank(); }
  void CloseRank() {
    if (rank_ >= 0) close(std::exchange(rank_, -1));
  }
  bool Say(const std::string& text) {
    return write(rank_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  size_t ReadAll() {
    char buffer[65536];
    size_t all = 0;
    for (ssize_t n; (n = read(rank_, buffer, sizeof buffer)) > 0;) all += static_cast<size_t>(n);
    return all;
  }

  FakeServer server_;
  RankServers servers_;
  PmiSocket socket_{servers_};
  int rank_ = -1;
};

TEST_F(PmiSocketTest, ARankThatNeverStopsKeepsNobodyFromOtherThings) {
  server_.says_more = rank_;
  ASSERT_TRUE(Say(std::string(4096, '\n')));
  socket_.Talk();
  EXPECT_LT(server_.pieces, 1000);
  EXPECT_EQ(socket_.ToPoll().events, POLLIN) << "it is heard again";
}

TEST_F(PmiSocketTest, ARankThatTakesNoAnswersIsNotHeard) {
  server_.answer = std::string(4096, 'a');
  for (int i = 0; i < 2000; ++i) {
    (void)Say("x\n");
    if ((socket_.ToPoll().events & POLLIN) != 0) socket_.Talk();
  }
  EXPECT_LT(server_.told, 1u << 20);
  EXPECT_EQ(socket_.ToPoll().events, POLLOUT);
  const size_t told = server_.told;
  server_.answer.clear();
  size_t read = ReadAll();
  socket_.Talk();
  read += ReadAll();
  EXPECT_EQ(read, told) << "nothing of it is lost";
  const int pieces = server_.pieces;
  socket_.Talk();
  EXPECT_GT(server_.pieces, pieces) << "nor of what it has said meanwhile";
}

TEST_F(PmiSocketTest, TheLastWordsAreHeardWhateverItHasNotTaken) {
  server_.answer = std::string(1u << 20, 'a');
  ASSERT_TRUE(Say("x\n"));
  socket_.Talk();
  ASSERT_TRUE(Say("finalize\n"));
  socket_.Talk();
  EXPECT_EQ(server_.pieces, 1);
  socket_.HearLastWords();
  EXPECT_EQ(server_.pieces, 2);
}

TEST_F(PmiSocketTest, WhoIsGoneBeforeItHasItsAnswersHasHungUp) {
  server_.answer = std::string(1u << 20, 'a');
  ASSERT_TRUE(Say("x\n"));
  socket_.Talk();
  (void)ReadAll();
  CloseRank();
  socket_.Talk();
  socket_.Talk();
  EXPECT_TRUE(server_.hung_up);
  EXPECT_EQ(socket_.ToPoll().fd, -1);
}

TEST_F(PmiSocketTest, WhatARankSaysAndIsToldIsOfItsNumber) {
  ExpectNoDescriptorIsInherited();
  server_.answer = "told";
  ASSERT_TRUE(Say("x\n"));
  socket_.Talk();
  EXPECT_EQ(server_.heard_of, std::pair(task_.attempt_id(), 1u));
  EXPECT_EQ(ReadAll(), 4u);
  EXPECT_EQ(socket_.ToPoll().events, POLLIN);
  EXPECT_EQ(socket_.ToPoll().revents, 0);
  task_.gang = std::make_shared<Gang>(Gang{.nodes = {{.name = "n0", .ranks = 3}, {.name = "n1", .ranks = 2}}, .here = 1});
  SetProfile({.ranks = 5, .mpi = Mpi::kPmi1});
  socket_.Settle(task_, &result_);
  Begin();
  ASSERT_TRUE(Say("x\n"));
  socket_.Talk();
  EXPECT_EQ(server_.heard_of.second, 4u);
}

TEST_F(PmiSocketTest, WhoSaysWhatCannotBeIsHungUpOn) {
  server_.answer = "told";
  ASSERT_TRUE(Say("nonsense"));
  socket_.Talk();
  EXPECT_EQ(socket_.ToPoll().fd, -1);
  EXPECT_EQ(ReadAll(), 0u) << "it is not answered";
  EXPECT_FALSE(server_.hung_up);
  socket_.Talk();
  EXPECT_EQ(server_.pieces, 1);
}

TEST_F(PmiSocketTest, AnAttemptLeavesNothingToTheNext) {
  server_.answer = std::string(1u << 20, 'a');
  ASSERT_TRUE(Say("x\n"));
  socket_.Talk();
  EXPECT_EQ(socket_.ToPoll().events, POLLOUT);
  socket_.Settle(task_, &result_);
  EXPECT_EQ(socket_.ToPoll().fd, -1);
  server_.answer.clear();
  Begin();
  EXPECT_EQ(socket_.ToPoll().events, POLLIN);
  socket_.Talk();
  EXPECT_EQ(ReadAll(), 0u);
  Settle(socket_, End::kExited);
  CloseRank();
  ExpectNoDescriptorMore();
}

TEST_F(PmiSocketTest, OneThatIsNotStartedLeavesNeitherEnd) {
  Settle(socket_, End::kExited);
  CloseRank();
  ASSERT_TRUE(Prepare(socket_).ok());
  Settle(socket_, End::kNotStarted);
  ExpectNoDescriptorMore();
  {
    PmiSocket other(servers_);
    ASSERT_TRUE(Prepare(other).ok());
  }
  ExpectNoDescriptorMore();
}

TEST_F(PmiSocketTest, WithoutASocketItIsNotStarted) {
  Settle(socket_, End::kExited);
  CloseRank();
  Status status;
  {
    const FewDescriptors few(1);
    status = Prepare(socket_);
  }
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_EQ(status.message(), "no socket for its PMI: Too many open files");
  ExpectNoDescriptorMore();
}

TEST_F(PmiSocketTest, WhoDoesNotSpeakPmi1HasNone) {
  Settle(socket_, End::kExited);
  for (const ProfileSpec& spec : {ProfileSpec{.ranks = 2}, {.ranks = 2, .mpi = Mpi::kNone}, {.mpi = Mpi::kPmi1}}) {
    SetProfile(spec);
    ASSERT_TRUE(Prepare(socket_).ok());
    EXPECT_EQ(launch_->variables.pmi_fd, -1);
    EXPECT_EQ(launch_->request.kept_fd, os::SpawnRequest().kept_fd);
    EXPECT_EQ(socket_.ToPoll().fd, -1);
  }
  servers_.pmi1 = nullptr;
  SetProfile({.ranks = 2, .mpi = Mpi::kPmi1});
  ASSERT_TRUE(Prepare(socket_).ok());
  EXPECT_EQ(launch_->variables.pmi_fd, -1);
  CloseRank();
  ExpectNoDescriptorMore();
}

}  // namespace
}  // namespace harrow::agent
