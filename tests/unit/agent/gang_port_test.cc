// The way from slots and rank servers to the parts on other nodes: whose threads do what, and from when on.
#include "agent/gang_port.h"

#include <condition_variable>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "support/fake_event_loop.h"
#include "support/fake_peers.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr AttemptId kOfTwoNodes{TaskId(8), 3};

/// Knows what other threads post.
class AwaitedLoop : public test::FakeEventLoop {
 public:
  void Post(Callback work) override {
    FakeEventLoop::Post(std::move(work));
    if (std::this_thread::get_id() == owner_) return;
    std::lock_guard lock(mutex_);
    ++posted_;
    changed_.notify_all();
  }
  /// One more than before was posted by another thread; runs all.
  void RunNext() {
    {
      std::unique_lock lock(mutex_);
      ++awaited_;
      ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [this] { return posted_ >= awaited_; }));
    }
    RunPosted();
  }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  int posted_ = 0, awaited_ = 0;
};

class NotedPeers : public test::FakePeers {
 public:
  NotedPeers(os::EventLoop* loop, NodeId self, std::vector<std::string>* said)
      : FakePeers(loop, self), said_(said) {}
  std::vector<std::string> addresses() const override { return {"here:1"}; }
  void Know(NodeId node, std::vector<std::string> addresses, uint64_t incarnation) override {
    said_->push_back("know " + std::to_string(node.value) + " " + addresses.at(0) + " " +
                     std::to_string(incarnation));
  }
  void Forget(NodeId node) override { said_->push_back("forget " + std::to_string(node.value)); }
  Status SetCredentials(const wire::Credentials& credentials) override {
    said_->push_back("key " + credentials.key);
    return {};
  }

 private:
  std::vector<std::string>* const said_;
};

class GangPortTest : public testing::Test {
 protected:
  struct Node {
    std::vector<std::string> said;  // to its peers
    NotedPeers* peers = nullptr;    // once it is open
    Status refused{};               // why it does not open
    int opened = 0;
    std::vector<std::string> told, asked, problems;
    std::function<void(std::string)> answer;
    std::unique_ptr<GangPort> port;
  };
  GangPortTest() {
    for (const uint32_t i : {0u, 1u}) {
      Node& node = nodes_[i];
      node.port = std::make_unique<GangPort>(
          &loop_,
          GangPort::Hooks{
              .open = [this, i, &node]() -> Result<std::unique_ptr<Peers>> {
                ++node.opened;
                if (!node.refused.ok()) return node.refused;
                auto peers = std::make_unique<NotedPeers>(&loop_, NodeId(100 + i), &node.said);
                node.peers = peers.get();
                Node& other = nodes_[1 - i];
                if (other.peers != nullptr) test::FakePeers::Link(node.peers, other.peers);
                return std::unique_ptr<Peers>(std::move(peers));
              },
              .addresses =
                  [&node](const std::vector<std::string>& all) {
                    node.told.insert(node.told.end(), all.begin(), all.end());
                  },
              .asked =
                  [&node](AttemptId attempt, std::string question, std::function<void(std::string)> answer) {
                    EXPECT_EQ(attempt, kOfTwoNodes);
                    node.asked.push_back(std::move(question));
                    node.answer = std::move(answer);
                  },
              .problem = [&node](const std::string& text) { node.problems.push_back(text); }});
    }
  }
  GangPort& At(uint32_t node) { return *nodes_[node].port; }
  void Join(uint32_t node) {
    At(node).Join(
        kOfTwoNodes,
        std::make_shared<Gang>(Gang{
            .nodes = {{NodeId(100), "a", 1}, {NodeId(101), "b", 1}}, .here = node, .space = "of two nodes"}));
    loop_.RunNext();
  }
  void JoinBoth() {
    Join(0);
    Join(1);
  }
  void Meet(uint32_t node, std::vector<uint32_t> ranks = {}) {
    At(node).Meet(kOfTwoNodes, Meeting::kRanks, std::move(ranks), "of " + std::to_string(node) + " ",
                  [this, node](const Result<std::string>& all) {
                    met_[node].push_back(all.ok() ? *all : all.status().message());
                    code_ = all.status().code();
                  });
    loop_.RunNext();
    loop_.Advance(std::chrono::seconds(1));
  }

  AwaitedLoop loop_;
  std::map<uint32_t, std::vector<std::string>> met_;
  Code code_ = Code::kOk;
  std::array<Node, 2> nodes_;
};

TEST_F(GangPortTest, OpensWithTheFirstPartAndThenTellsWhereItIs) {
  At(0).TellAddresses();
  At(0).SetCredentials({.run_id = "run", .key = "early"});
  At(0).Know(NodeId(7), {"old:1"}, 3);
  At(0).Know(NodeId(7), {"there:1"}, 4);
  At(0).Know(NodeId(8), {"gone:1"}, 1);
  At(0).Forget(NodeId(8));
  EXPECT_EQ(nodes_[0].opened, 0);
  EXPECT_THAT(nodes_[0].told, IsEmpty());
  Join(0);
  EXPECT_EQ(nodes_[0].opened, 1);
  EXPECT_THAT(nodes_[0].said, ElementsAre("know 7 there:1 4"));
  EXPECT_THAT(nodes_[0].told, ElementsAre("here:1"));
  EXPECT_EQ(At(0).OpenForAll(), nodes_[0].peers);
  EXPECT_EQ(nodes_[0].opened, 1);
  At(0).Know(NodeId(9), {"new:1"}, 2);
  At(0).Forget(NodeId(7));
  At(0).SetCredentials({.run_id = "run", .key = "late"});
  EXPECT_THAT(nodes_[0].said, ElementsAre("know 7 there:1 4", "know 9 new:1 2", "forget 7", "key late"));
  EXPECT_THAT(nodes_[0].told, ElementsAre("here:1"));
  At(0).TellAddresses();
  EXPECT_THAT(nodes_[0].told, ElementsAre("here:1", "here:1"));
}

TEST_F(GangPortTest, OpensForOthersWithoutAPart) {
  At(0).Know(NodeId(7), {"there:1"}, 4);
  EXPECT_NE(At(0).OpenForAll(), nullptr);
  EXPECT_THAT(nodes_[0].said, ElementsAre("know 7 there:1 4"));
  EXPECT_THAT(nodes_[0].told, ElementsAre("here:1"));
}

TEST_F(GangPortTest, PartsMeetAndLeave) {
  JoinBoth();
  Meet(0, {0, 1});
  EXPECT_THAT(met_[0], IsEmpty());
  Meet(1, {0, 1});
  EXPECT_THAT(met_[0], ElementsAre("of 0 of 1 "));
  EXPECT_THAT(met_[1], ElementsAre("of 0 of 1 "));
  Meet(0);
  At(0).Leave(kOfTwoNodes);
  loop_.RunNext();
  Meet(1);
  EXPECT_THAT(met_[0], ElementsAre("of 0 of 1 ")) << "it has left";
}

TEST_F(GangPortTest, PartsAskEachOther) {
  JoinBoth();
  std::vector<std::string> answers;
  At(0).Ask(kOfTwoNodes, 1, "what?", [&](std::string answer) { answers.push_back(std::move(answer)); });
  loop_.RunNext();
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_THAT(nodes_[0].asked, IsEmpty());
  ASSERT_THAT(nodes_[1].asked, ElementsAre("what?"));
  std::thread([&] { nodes_[1].answer("that"); }).join();
  EXPECT_THAT(answers, IsEmpty()) << "not on that thread";
  loop_.RunNext();
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_THAT(answers, ElementsAre("that"));
}

TEST_F(GangPortTest, WhereNobodyCanReachItPartsHearWhy) {
  nodes_[0].refused = Status(Code::kExhausted, "no port is free");
  Join(0);
  Meet(0);
  EXPECT_THAT(met_[0], ElementsAre("cannot be reached by the other nodes of the task: no port is free"));
  EXPECT_EQ(code_, Code::kExhausted);
  At(0).Ask(kOfTwoNodes, 1, "what?", [](const std::string&) { FAIL(); });
  loop_.RunNext();
  At(0).Leave(kOfTwoNodes);
  loop_.RunNext();
  EXPECT_EQ(At(0).OpenForAll(), nullptr);
  EXPECT_THAT(nodes_[0].told, IsEmpty());
  // Another time there is one.
  nodes_[0].refused = {};
  JoinBoth();
  Meet(1);
  Meet(0);
  EXPECT_THAT(met_[1], ElementsAre("of 0 of 1 "));
}

TEST_F(GangPortTest, WhatComesAfterItsEndIsNotDone) {
  At(0).Join(kOfTwoNodes, std::make_shared<Gang>());
  At(0).Leave(kOfTwoNodes);
  nodes_[0].port.reset();
  loop_.RunPosted();
  EXPECT_EQ(nodes_[0].opened, 0);
}

TEST_F(GangPortTest, ANodeThatIsGoneIsAProblem) {
  JoinBoth();
  nodes_[0].peers->stalled[NodeId(101)] = true;
  At(0).Ask(kOfTwoNodes, 1, "what?", [](const std::string&) { FAIL(); });
  loop_.RunNext();
  test::FakePeers::Break(nodes_[0].peers, nodes_[1].peers, "nobody answers");
  loop_.RunPosted();
  EXPECT_THAT(nodes_[0].problems, ElementsAre("task 9 waits for node b: nobody answers"));
}

}  // namespace
}  // namespace harrow::agent
