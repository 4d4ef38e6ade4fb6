#include "client/client.h"

#include <deque>
#include <gtest/gtest.h>

#include "base/text.h"
#include "run_dir/rendezvous.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "support/memory_file_system.h"
#include "wire/version.h"

namespace harrow::client {
namespace {

/// A server that greets and answers each question from a function of the test.
class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.dial = [this](os::EventLoop*, const std::string& address, const wire::Credentials& credentials,
                           std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)> done) {
      dialled_.push_back(StrCat(address, " ", credentials.run_id));
      loop_.Post([this, done = std::move(done)] {
        if (!refusals_.empty()) {
          Status refusal = refusals_.front();
          refusals_.pop_front();
          done(refusal);
          return;
        }
        auto [server, client] = test::FakeChannel::Pair(&loop_, wire::Role::kClient);
        server_ = server;
        server_->SetHandler(
            {.on_message = [this](std::string_view bytes) { OnQuestion(bytes); }, .on_closed = {}});
        client->SetHandler(done(std::shared_ptr<wire::Channel>(client)));
      });
    };
    Announce({"127.0.0.1:7"});
  }
  void Announce(std::vector<std::string> addresses) {
    run_dir::Rendezvous r;
    r.run_id = "run-1";
    r.epoch = 1;
    r.addresses = std::move(addresses);
    r.key = std::string(32, 'k');
    r.host = "here";
    r.pid = 4711;
    ASSERT_TRUE(run_dir::WriteRendezvous(fs_, "run", r).ok());
  }
  void OnQuestion(std::string_view bytes) {
    pb::FromClient question;
    ASSERT_TRUE(question.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    pb::ToClient reply;
    if (question.has_hello()) {
      EXPECT_EQ(question.hello().run_id(), "run-1");
      reply.mutable_hello()->set_version(version_);
    } else {
      answer_(question, &reply);
    }
    server_->Send(reply.SerializeAsString());
  }
  Result<std::unique_ptr<Client>> Connect() { return Client::Connect(&loop_, fs_, "run", options_); }

  test::FakeEventLoop loop_;
  test::MemoryFileSystem fs_;
  Options options_;
  std::shared_ptr<test::FakeChannel> server_;
  std::deque<Status> refusals_;
  std::vector<std::string> dialled_;
  uint32_t version_ = wire::kProtocolVersion;
  std::function<void(const pb::FromClient&, pb::ToClient*)> answer_;
};

TEST_F(ClientTest, AsksAndGetsAnswers) {
  auto client = Connect();
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_EQ(dialled_, std::vector<std::string>{"127.0.0.1:7 run-1"});
  answer_ = [](const pb::FromClient& question, pb::ToClient* reply) {
    EXPECT_TRUE(question.status().nodes());
    reply->mutable_progress()->set_done(5);
  };
  auto progress = (*client)->Progress(true);
  ASSERT_TRUE(progress.ok());
  EXPECT_EQ(progress->done(), 5u);
  answer_ = [](const pb::FromClient& question, pb::ToClient* reply) {
    EXPECT_EQ(question.explain().task(), "a");
    reply->mutable_answer()->set_text("it runs");
  };
  EXPECT_EQ((*client)->Explain("a")->text(), "it runs");
  answer_ = [](const pb::FromClient& question, pb::ToClient* reply) {
    EXPECT_EQ(question.cancel().task_size(), 2);
    EXPECT_FALSE(question.cancel().all());
    reply->mutable_answer()->set_ok(true);
  };
  EXPECT_TRUE((*client)->Cancel({"a", "b"}, false)->ok());
}

TEST_F(ClientTest, WhatWasNotAskedIsIgnored) {
  auto client = Connect();
  ASSERT_TRUE(client.ok());
  answer_ = [this](const pb::FromClient&, pb::ToClient* reply) {
    pb::ToClient other;
    other.mutable_answer()->set_text("of somebody else");
    server_->Send(other.SerializeAsString());
    reply->mutable_progress()->set_done(1);
  };
  EXPECT_EQ((*client)->Progress(false)->done(), 1u);
}

TEST_F(ClientTest, NoServerAnnounced) {
  ASSERT_TRUE(fs_.Remove("run/server").ok());
  EXPECT_EQ(Connect().status().code(), Code::kNotFound);
}

TEST_F(ClientTest, AnAnnouncementThatDoesNotReadMayDoSoLater) {
  ASSERT_TRUE(fs_.WriteWhole("run/server", "{", 0600).ok());
  loop_.After(std::chrono::milliseconds(250), [this] { Announce({"127.0.0.1:7"}); });
  EXPECT_TRUE(Connect().ok());
  ASSERT_TRUE(fs_.WriteWhole("run/server", "{", 0600).ok());
  EXPECT_EQ(Connect().status().code(), Code::kDamaged);
}

TEST_F(ClientTest, WaitsForAServerThatStartsAgain) {
  refusals_ = {Status(Code::kUnavailable, "connection refused"),
               Status(Code::kUnavailable, "connection refused")};
  auto client = Connect();
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_EQ(dialled_.size(), 3u);
}

TEST_F(ClientTest, GivesUp) {
  for (int i = 0; i < 100; ++i) refusals_.emplace_back(Code::kUnavailable, "connection refused");
  auto client = Connect();
  EXPECT_EQ(client.status().code(), Code::kUnavailable);
  EXPECT_EQ(client.status().message(),
            "the server of run (here, process 4711) does not answer: connection refused");
  EXPECT_GE(Seconds(loop_.Now().time_since_epoch()), 1.5);
  EXPECT_LT(Seconds(loop_.Now().time_since_epoch()), 2.0);
}

TEST_F(ClientTest, AllAddressesAreTried) {
  Announce({"10.0.0.1:7", "127.0.0.1:7"});
  refusals_ = {Status(Code::kUnavailable, "no route")};
  EXPECT_TRUE(Connect().ok());
  EXPECT_EQ(dialled_, (std::vector<std::string>{"10.0.0.1:7 run-1", "127.0.0.1:7 run-1"}));
}

TEST_F(ClientTest, ARefusalIsFinal) {
  refusals_ = {Status(Code::kRefused, "wrong key")};
  EXPECT_EQ(Connect().status().code(), Code::kRefused);
  EXPECT_EQ(dialled_.size(), 1u);
}

TEST_F(ClientTest, AnotherVersion) {
  version_ = wire::kProtocolVersion + 1;
  auto client = Connect();
  EXPECT_EQ(client.status().code(), Code::kRefused);
  EXPECT_NE(client.status().message().find("use the harrow that started the run"), std::string::npos);
}

TEST_F(ClientTest, ASilentServerIsNotWaitedForEver) {
  options_.dial = [](os::EventLoop*, const std::string&, const wire::Credentials&,
                     std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)>) {};
  EXPECT_EQ(Connect().status().code(), Code::kUnavailable);
}

TEST_F(ClientTest, LateConnectionFindsNobody) {
  std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)> late;
  options_.dial = [&](os::EventLoop*, const std::string&, const wire::Credentials&, auto done) {
    late = std::move(done);
  };
  EXPECT_FALSE(Connect().ok());
  const wire::ChannelHandler handler = late(Status(Code::kUnavailable, "timed out"));
  EXPECT_FALSE(handler.on_message);
}

TEST_F(ClientTest, ABrokenConnectionIsTold) {
  auto client = Connect();
  ASSERT_TRUE(client.ok());
  answer_ = [this](const pb::FromClient&, pb::ToClient*) {
    server_->Break(Status(Code::kUnavailable, "reset by peer"));
  };
  EXPECT_EQ((*client)->Progress(false).status().code(), Code::kUnavailable);
  EXPECT_EQ((*client)->Progress(false).status().code(), Code::kUnavailable);
}

TEST_F(ClientTest, GarbageIsTold) {
  auto client = Connect();
  ASSERT_TRUE(client.ok());
  answer_ = [this](const pb::FromClient&, pb::ToClient*) { server_->Send("\xff\xff\xff"); };
  EXPECT_EQ((*client)->Progress(false).status().code(), Code::kDamaged);
}

}  // namespace
}  // namespace harrow::client
