#pragma once

#include <csignal>
#include <fcntl.h>
#include <memory>
#include <sys/wait.h>
#include <utility>

#include "live/pmix_fixture.h"
#include "wire/frame.h"

namespace harrow::agent {

/// A process whose standard input and output the test has; killed with it.
class Program {
 public:
  /// `input`: becomes its standard input. `first`: what it does before it is the program.
  Program(std::vector<std::string> words, std::vector<std::string> environment, int input,
          const std::string& errors, void (*first)() = nullptr) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    const int err = open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& entry : environment) envp.push_back(entry.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      if (dup2(input, STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(126);
      if (first) first();
      execve(argv[0], argv.data(), envp.data());
      _exit(127);
    }
    close(err);
    close(out[1]);
    out_ = out[0];
  }
  ~Program() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    (void)Wait();
    close(out_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// The exit status, or -1.
  int Wait() {
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, 0) == pid_) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    pid_ = -1;
    return status_;
  }
  /// Its next line, or what it has said without one.
  std::string Line() {
    std::string line;
    char byte;
    pollfd set = {out_, POLLIN, 0};
    while (poll(&set, 1, 60'000) > 0 && read(out_, &byte, 1) == 1 && byte != '\n') line += byte;
    return line;
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> all;
    for (std::string line; !(line = Line()).empty();) all.push_back(line);
    return all;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1, status_ = -1;
};

/// A helper of its own, whose agent the test is.
class PmixHelperFixture : public testing::Test {
 protected:
  ~PmixHelperFixture() override {
    ranks_.clear();
    HangUp();
    helper_.reset();
  }
  void SetUp() override {
    if (std::string(HARROW_PMIX).empty()) GTEST_SKIP() << "harrow-pmix was not built (needs libpmix)";
    Start();
  }
  static std::vector<std::string> Environment() {
    std::vector<std::string> all;
    for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
    return all;
  }
  void Start(const std::vector<std::string>& more = {}, void (*first)() = nullptr) {
    HangUp();
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    std::vector<std::string> environment = Environment();
    environment.insert(environment.end(), more.begin(), more.end());
    helper_ = std::make_unique<Program>(std::vector<std::string>{HARROW_PMIX, root_, "node1"}, environment,
                                        ends[1], root_ + "/errors", first);
    close(ends[1]);
    fd_ = ends[0];
    reader_.emplace(64u << 20);
  }
  void HangUp() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void SayBytes(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void Say(const pb::ToPmix& message) {
    std::string frame;
    wire::AppendFrame(message.SerializeAsString(), &frame);
    SayBytes(frame);
  }
  /// None: it has hung up.
  std::optional<pb::FromPmix> Hear() {
    std::string_view frame;
    while (!reader_->Next(&frame)) {
      char buffer[65536];
      pollfd set = {fd_, POLLIN, 0};
      const ssize_t n = poll(&set, 1, 60'000) > 0 ? recv(fd_, buffer, sizeof buffer, 0) : -1;
      if (n <= 0) return std::nullopt;
      reader_->buffer()->append(buffer, static_cast<size_t>(n));
    }
    pb::FromPmix message;
    EXPECT_TRUE(message.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
    return message;
  }
  pb::FromPmix Answer(const pb::ToPmix& message) {
    Say(message);
    auto answer = Hear();
    EXPECT_TRUE(answer);
    return answer ? *answer : pb::FromPmix();
  }
  bool Lives() {
    pb::ToPmix ping;
    ping.set_ping(++pings_);
    return Answer(ping).pong() == pings_;
  }
  /// Of nodes with so many ranks.
  static pb::ToPmix Team(uint64_t number, const std::vector<uint32_t>& ranks, uint32_t here) {
    pb::ToPmix message;
    pb::RankTeam* const team = message.add_add();
    team->set_team(number);
    team->set_space("space-" + std::to_string(number));
    team->set_directory("/of/team");
    team->set_here(here);
    for (size_t i = 0; i < ranks.size(); ++i) {
      pb::RankNode* const node = team->add_node();
      node->set_name(i == here ? "node1" : "other" + std::to_string(i));
      node->set_ranks(ranks[i]);
    }
    return message;
  }
  void Add(uint64_t number, const std::vector<uint32_t>& ranks, uint32_t here) {
    const pb::FromPmix answer = Answer(Team(number, ranks, here));
    ASSERT_EQ(answer.added_size(), 1);
    EXPECT_EQ(answer.added(0).team(), number);
    EXPECT_EQ(answer.added(0).why(), "");
    ASSERT_EQ(static_cast<uint32_t>(answer.added(0).rank_size()), ranks[here]);
    variables_.clear();
    for (const pb::RankVariables& rank : answer.added(0).rank()) {
      RankServer::Variables& own = variables_.emplace_back();
      for (const pb::EnvVar& variable : rank.variable())
        own.push_back(variable.name() + "=" + variable.value());
    }
  }
  /// The i-th rank of the team that was added last. `input`: it waits for that.
  Program& Rank(size_t i, std::vector<std::string> what, int input = -1) {
    what.insert(what.begin(), HARROW_PMIX_RANK);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    Program& rank = *ranks_.emplace_back(
        std::make_unique<Program>(what, variables_[i], input >= 0 ? input : null, root_ + "/of_ranks"));
    close(null);
    return rank;
  }
  pb::RankSeen Ended(uint64_t team, uint32_t rank) {
    pb::ToPmix message;
    pb::RankAsked* const asked = message.add_ended();
    asked->set_team(team);
    asked->set_rank(rank);
    const pb::FromPmix answer = Answer(message);
    EXPECT_EQ(answer.seen_size(), 1);
    if (answer.seen_size() != 1) return {};
    EXPECT_EQ(answer.seen(0).team(), team);
    EXPECT_EQ(answer.seen(0).rank(), rank);
    return answer.seen(0);
  }
  void Drop(uint64_t team) {
    pb::ToPmix message;
    message.add_drop(team);
    Say(message);
  }
  /// As the helper of another node.
  pb::PmixAnswer Question(uint64_t team, const pb::PmixQuestion& question, uint64_t number = 5) {
    pb::ToPmix message;
    pb::TeamQuestion* const asked = message.add_question();
    asked->set_team(team);
    asked->set_number(number);
    asked->set_text(question.SerializeAsString());
    const pb::FromPmix answer = Answer(message);
    EXPECT_EQ(answer.answer_size(), 1);
    pb::PmixAnswer told;
    if (answer.answer_size() != 1) return told;
    EXPECT_EQ(answer.answer(0).team(), team);
    EXPECT_EQ(answer.answer(0).number(), number);
    EXPECT_TRUE(told.ParseFromString(answer.answer(0).data()));
    return told;
  }
  std::string TextOf(const std::string& name) {
    std::ifstream file(root_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const test::OwnDirectory own_;
  const std::string& root_ = own_.path();
  int fd_ = -1;
  std::optional<wire::FrameReader> reader_;
  std::unique_ptr<Program> helper_;
  uint64_t pings_ = 0;
  std::vector<RankServer::Variables> variables_;
  std::vector<std::unique_ptr<Program>> ranks_;
};

}  // namespace harrow::agent
