// What a client is answered.
#include "server/client_session.h"

#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

using ::testing::HasSubstr;

class ClientSessionTest : public DriverTest {
 protected:
  void SetUp() override {
    Serve({{"alpha", "x"}, {"beta", "x"}});
    Join(&agent_, Hello("n", 1, 1));
    ClientSession::Hooks hooks;
    hooks.now = [this] { return Now(); };
    hooks.submit = [this](pb::SubmitRequest, const Submissions::Told& told) { told(submitted_); };
    hooks.offer = [this](const run::BestValue& value, const Best::Told& told) { told(value.value < best_.value); };
    hooks.best = [this] { return best_.solution.empty() ? nullptr : &best_; };
    hooks.drain = [this](const std::function<void(Status)>& told) { told(drains_); };
    hooks.drain_node = [this](const std::string&) { return drains_; };
    hooks.move = [this](TaskId, const pb::MoveTask&, const std::function<void(Status)>& told) { told(moves_); };
    hooks.takes_tasks = [this] { return takes_tasks_; };
    hooks.cancel = [this](const std::vector<TaskId>& tasks) { cancelled_ = tasks; };
    hooks.allocation = [](pb::AllocationStatus* told) { told->set_part(7); };
    hooks.tell_load = [](pb::Progress* progress) { progress->set_running(99); };
    channel_ = std::make_shared<FakeChannel>(&loop_, wire::Role::kClient, "fake");
    session_ = std::make_unique<ClientSession>(channel_, &flow_, driver_.get(), std::move(hooks));
  }
  std::vector<pb::ToClient> Replies() {
    std::vector<pb::ToClient> replies;
    for (const std::string& bytes : channel_->TakeSent()) EXPECT_TRUE(replies.emplace_back().ParseFromString(bytes));
    return replies;
  }
  std::vector<pb::ToClient> Say(const pb::FromClient& message) {
    session_->OnMessage(message.SerializeAsString());
    return Replies();
  }
  /// What one message is answered by.
  pb::ToClient Ask(const pb::FromClient& message) {
    const std::vector<pb::ToClient> replies = Say(message);
    EXPECT_EQ(replies.size(), 1u);
    return replies.empty() ? pb::ToClient() : replies[0];
  }
  static pb::FromClient Greeting() {
    pb::FromClient message;
    message.mutable_hello()->set_version(wire::kProtocolVersion);
    message.mutable_hello()->set_run_id("run");
    return message;
  }
  void Greet() { Ask(Greeting()); }
  pb::Answer Cancel(const std::vector<std::string>& names) {
    pb::FromClient message;
    for (const std::string& name : names) message.mutable_cancel()->add_task(name);
    return Ask(message).answer();
  }

  Agent agent_;
  std::shared_ptr<FakeChannel> channel_;
  std::unique_ptr<ClientSession> session_;
  Result<pb::Submitted> submitted_ = pb::Submitted();
  run::BestValue best_ = {5, "the best"};
  Status drains_, moves_;
  bool takes_tasks_ = true;
  std::vector<TaskId> cancelled_;
};

TEST_F(ClientSessionTest, WhoFitsIsTold) {
  for (const bool takes : {true, false}) {
    takes_tasks_ = takes;
    const pb::ClientHello hello = Ask(Greeting()).hello();
    EXPECT_EQ(hello.run_id(), "run");
    EXPECT_EQ(hello.version(), wire::kProtocolVersion);
    EXPECT_EQ(hello.submit_dir(), "/submit");
    EXPECT_EQ(hello.passive(), !takes);
    EXPECT_FALSE(hello.local_files());
  }
  EXPECT_FALSE(channel_->closed());
}

TEST_F(ClientSessionTest, WhoIsOfAnotherVersionIsToldSo) {
  pb::FromClient hello = Greeting();
  hello.mutable_hello()->set_version(wire::kProtocolVersion + 1);
  const pb::Answer answer = Ask(hello).answer();
  EXPECT_FALSE(answer.ok());
  EXPECT_EQ(answer.code(), pb::Answer::CANNOT);
  EXPECT_THAT(answer.text(), HasSubstr("does not fit the server"));
  EXPECT_TRUE(channel_->closed());
}

TEST_F(ClientSessionTest, WhoIsOfAnotherRunIsToldSo) {
  pb::FromClient hello = Greeting();
  hello.mutable_hello()->set_run_id("another");
  EXPECT_FALSE(Ask(hello).answer().ok());
  EXPECT_TRUE(channel_->closed());
}

TEST_F(ClientSessionTest, WhoDoesNotGreetIsToldNothing) {
  pb::FromClient message;
  message.mutable_status();
  EXPECT_THAT(Say(message), IsEmpty());
  EXPECT_TRUE(channel_->closed());
}

TEST_F(ClientSessionTest, WhatIsNoMessageEndsIt) {
  Greet();
  session_->OnMessage("\xff\xff");
  EXPECT_TRUE(channel_->closed());
}

TEST_F(ClientSessionTest, StatusHasTheLoadForWhoAsks) {
  Greet();
  for (const bool load : {false, true}) {
    pb::FromClient message;
    message.mutable_status()->set_load(load);
    const pb::Progress progress = Ask(message).progress();
    EXPECT_EQ(progress.total(), 2u);
    EXPECT_EQ(progress.running() == 99, load);
    EXPECT_EQ(progress.allocation().part(), 7u);
  }
}

TEST_F(ClientSessionTest, TasksThatAreNotTakenAreAnsweredByWhy) {
  Greet();
  pb::FromClient message;
  message.mutable_submit()->set_id("mine");
  for (const auto& [code, told] : {std::pair(Code::kInvalid, pb::Answer::WRONG),
                                   {Code::kRefused, pb::Answer::FULL},
                                   {Code::kUnavailable, pb::Answer::CANNOT}}) {
    submitted_ = Status(code, "as it is");
    const pb::Answer answer = Ask(message).answer();
    EXPECT_FALSE(answer.ok());
    EXPECT_EQ(answer.code(), told);
    EXPECT_EQ(answer.text(), "as it is");
    EXPECT_EQ(answer.request(), "mine");
  }
  pb::Submitted taken;
  taken.add_task(17);
  submitted_ = taken;
  const pb::ToClient reply = Ask(message);
  EXPECT_FALSE(reply.has_answer());
  EXPECT_THAT(reply.submitted().task(), ElementsAre(17u));
  EXPECT_EQ(reply.submitted().request(), "mine");
}

TEST_F(ClientSessionTest, WhatHasEndedIsNotCancelled) {
  Greet();
  EXPECT_EQ(Cancel({"alpha", "beta"}).text(), "2 tasks cancelled");
  EXPECT_THAT(cancelled_, ElementsAre(TaskId(0), TaskId(1)));
  End(&agent_, {0});
  pb::Answer answer = Cancel({"alpha", "beta"});
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.code(), pb::Answer::DONE);
  EXPECT_EQ(answer.text(), "1 task cancelled; 1 had ended before");
  EXPECT_THAT(cancelled_, ElementsAre(TaskId(1)));
  answer = Cancel({"alpha"});
  EXPECT_FALSE(answer.ok());
  EXPECT_EQ(answer.code(), pb::Answer::NOTHING);
  EXPECT_EQ(answer.text(), "0 tasks cancelled; 1 had ended before");
  pb::FromClient message;
  message.mutable_cancel()->set_all(true);
  EXPECT_TRUE(Ask(message).answer().ok());
  EXPECT_THAT(cancelled_, ElementsAre(TaskId(1)));
}

TEST_F(ClientSessionTest, OfAnUnknownTaskNothingIsCancelled) {
  Greet();
  const pb::Answer answer = Cancel({"alpha", "betta"});
  EXPECT_FALSE(answer.ok());
  EXPECT_EQ(answer.code(), pb::Answer::WRONG);
  EXPECT_EQ(answer.text(), "no task 'betta' in this run; did you mean 'beta'?");
  EXPECT_THAT(cancelled_, IsEmpty());
  EXPECT_THAT(Cancel({"something else"}).text(), HasSubstr("#1 to #2"));
}

TEST_F(ClientSessionTest, ExplainsATask) {
  Greet();
  pb::FromClient message;
  message.mutable_explain()->set_task("beta");
  const pb::Answer answer = Ask(message).answer();
  EXPECT_TRUE(answer.ok());
  EXPECT_THAT(answer.text(), HasSubstr("task beta"));
}

TEST_F(ClientSessionTest, DrainsTheAllocationOrANode) {
  Greet();
  for (const std::string node : {"", "n"}) {
    pb::FromClient message;
    message.mutable_drain()->set_node(node);
    drains_ = {};
    pb::Answer answer = Ask(message).answer();
    EXPECT_TRUE(answer.ok());
    EXPECT_EQ(answer.code(), pb::Answer::DONE);
    EXPECT_THAT(answer.text(), HasSubstr(node.empty() ? "other allocations" : "nothing more is started there"));
    drains_ = Status(Code::kInvalid, "it is the last");
    answer = Ask(message).answer();
    EXPECT_FALSE(answer.ok());
    EXPECT_EQ(answer.code(), pb::Answer::WRONG);
    EXPECT_EQ(answer.text(), "it is the last");
  }
}

TEST_F(ClientSessionTest, ATaskThatRunsIsSaidToGoWhenItHasLeftACheckpoint) {
  Greet();
  Started(&agent_, {0});
  for (const auto& [task, text] : {std::pair("alpha", "it is asked for a checkpoint"), {"beta", "it goes there"}}) {
    pb::FromClient message;
    message.mutable_move()->set_task(task);
    moves_ = {};
    pb::Answer answer = Ask(message).answer();
    EXPECT_TRUE(answer.ok());
    EXPECT_EQ(answer.code(), pb::Answer::DONE);
    EXPECT_THAT(answer.text(), ::testing::StartsWith(text));
    for (const auto& [code, told] : {std::pair(Code::kInvalid, pb::Answer::WRONG),
                                     {Code::kNotFound, pb::Answer::NO_NODE},
                                     {Code::kUnavailable, pb::Answer::CANNOT}}) {
      moves_ = Status(code, "not so");
      answer = Ask(message).answer();
      EXPECT_FALSE(answer.ok());
      EXPECT_EQ(answer.code(), told);
      EXPECT_EQ(answer.text(), "not so");
    }
  }
}

TEST_F(ClientSessionTest, TheBestValueIsToldWithItsSolutionToWhoAsksForIt) {
  Greet();
  pb::FromClient message;
  message.mutable_best()->set_number(3);
  pb::BestAnswer answer = Ask(message).best();
  EXPECT_EQ(answer.number(), 3u);
  EXPECT_EQ(answer.best().value(), 5);
  EXPECT_EQ(answer.best().solution(), "");
  message.mutable_best()->set_solution(true);
  EXPECT_EQ(Ask(message).best().best().solution(), "the best");
  best_ = {};
  EXPECT_FALSE(Ask(message).best().has_best());
}

TEST_F(ClientSessionTest, AnOfferIsAnsweredByItsNumber) {
  Greet();
  for (const double value : {4.0, 6.0}) {
    pb::FromClient message;
    message.mutable_offer()->set_number(8);
    message.mutable_offer()->mutable_best()->set_value(value);
    const pb::BestAnswer answer = Ask(message).best();
    EXPECT_EQ(answer.number(), 8u);
    EXPECT_EQ(answer.better(), value < 5);
    EXPECT_EQ(answer.why(), "");
  }
}

}  // namespace
}  // namespace harrow::server
