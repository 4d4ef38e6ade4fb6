// The socket by which a rank speaks PMI-1: the test has the rank's end.
#include "agent/steps/pmi_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace harrow::agent {
namespace {

class FakeServer : public TalkingRankServer {
 public:
  Result<std::vector<Variables>> Add(const Ranks&, const InVain&) override {
    return std::vector<Variables>();
  }
  std::optional<Seen> Ended(AttemptId, uint32_t, const InVain&) override { return std::nullopt; }
  void Drop(AttemptId) override {}
  bool Hear(AttemptId, uint32_t, std::string_view said) override {
    ++pieces;
    hung_up = hung_up || said.empty();
    if (says_more >= 0) (void)!write(says_more, said.data(), said.size());
    return pieces < 100'000;
  }
  std::string TakeAnswers(AttemptId, uint32_t) override {
    told += answer.size();
    return answer;
  }

  int pieces = 0;
  bool hung_up = false;
  int says_more = -1;  // the rank's end, by which it says all again as soon as it was heard
  std::string answer{};
  size_t told = 0;
};

class PmiSocketTest : public testing::Test {
 protected:
  PmiSocketTest() {
    servers_.pmi1 = &server_;
    const auto base = std::make_shared<BaseEnvironment>(
        EnvList{}, BaseEnvironment::Common{.submit_dir = "/submit", .node_name = "n1", .own_tmp = true});
    task_.profile = std::make_shared<TaskProfile>(ProfileSpec{.ranks = 2, .mpi = Mpi::kPmi1}, base);
    Launch launch{.task = task_, .given = given_};
    EXPECT_TRUE(socket_.Prepare(&launch, &result_).ok());
    rank_ = dup(launch.variables.pmi_fd);
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
  LocalTask task_;
  Core::Given given_;
  TaskResult result_;
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

}  // namespace
}  // namespace harrow::agent
