// Submitting and awaiting over servers that come, die and are replaced.
#include "client/session.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "base/text.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "support/memory_file_system.h"
#include "wire/version.h"

namespace harrow::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// A run whose server takes tasks, by the requests' ids each once, and settles them when it is told to.
class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    run_dir::Rendezvous r{.run_id = "run-1", .epoch = 1, .addresses = {"127.0.0.1:7"}, .key = std::string(32, 'k'), .host = "here", .pid = 1};
    ASSERT_TRUE(run_dir::WriteRendezvous(fs_, "run/0", r).ok());
    setup_.link.dial = [this](os::EventLoop*, const std::string& address, const wire::Credentials&, auto done) {
      loop_.Post([this, address, done = std::move(done)] {
        if (!alive_ || dead_.contains(address)) {
          done(Status(Code::kUnavailable, "connection refused"));
          return;
        }
        auto [server, client] = test::FakeChannel::Pair(&loop_, wire::Role::kClient);
        server_ = server;
        client_ = client;
        asked_.clear();
        server_->SetHandler({.on_message = [this](std::string_view bytes) { OnQuestion(bytes); }, .on_closed = {}});
        client->SetHandler(done(std::shared_ptr<wire::Channel>(client)));
      });
    };
    Open();
  }
  void Open() {
    session_.emplace(&loop_, fs_, "run", "run/0", setup_,
                     Session::Hooks{.greeted = [this](const pb::ClientHello& hello) { greeted_ += hello.submit_dir(); },
                                    .taken = [this](uint64_t handle, uint32_t id) { told_[handle] += StrCat("#", id); },
                                    .refused = [this](uint64_t handle, const Status& why) { told_[handle] += why.message(); },
                                    .settled =
                                        [this](uint64_t handle, const pb::SettledTask& task) {
                                          settled_[handle] += StrCat(task.fate(), "/", static_cast<int>(task.end()), "/", task.code());
                                        },
                                    .over = [this](const Status& why) { over_ += why.message(); }});
    session_->Start();
    loop_.RunPosted();
  }
  void OnQuestion(std::string_view bytes) {
    pb::FromClient question;
    ASSERT_TRUE(question.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    if (question.has_hello()) {
      pb::ToClient reply;
      reply.mutable_hello()->set_version(wire::kProtocolVersion);
      reply.mutable_hello()->set_session(run_session_);
      reply.mutable_hello()->set_submit_dir("/submit");
      reply.mutable_hello()->set_passive(passive_);
      server_->Send(reply.SerializeAsString());
    }
    if (question.has_submit()) {
      std::vector<uint32_t>& ids = known_[question.submit().id()];
      if (ids.empty()) {
        for (const pb::SubmittedTask& task : question.submit().task()) {
          EXPECT_FALSE(task.command().empty());
          ids.push_back(next_id_++);
        }
      }
      ++requests_;
      if (silent_) return;
      pb::ToClient reply;
      reply.mutable_submitted()->mutable_task()->Add(ids.begin(), ids.end());
      reply.mutable_submitted()->set_request(question.submit().id());
      server_->Send(reply.SerializeAsString());
    }
    for (const uint32_t id : question.await().task()) {
      EXPECT_TRUE(asked_.insert(id).second) << "asked twice for " << id;
      Tell(id);
    }
  }
  void Tell(uint32_t id) {
    if (!fates_.contains(id) || !asked_.contains(id)) return;
    pb::ToClient reply;
    if (fates_[id] == 0) {
      reply.mutable_settled()->add_done(id);
    } else {
      pb::SettledTask& other = *reply.mutable_settled()->add_other();
      other.set_task(id);
      other.set_fate(2);
      other.set_end(pb::Attempt::EXITED);
      other.set_code(fates_[id]);
    }
    server_->Send(reply.SerializeAsString());
  }
  void End(uint32_t id, int code) {
    fates_[id] = code;
    if (alive_) Tell(id);
    loop_.RunPosted();
  }
  void Kill() {
    alive_ = false;
    server_->Break(Status(Code::kUnavailable, "reset by peer"));
    loop_.RunPosted();
  }
  void Return() {
    alive_ = true;
    loop_.Advance(std::chrono::milliseconds(200));
  }
  uint64_t Submit(std::vector<uint64_t> after = {}) {
    NewTask task;
    task.task->set_command("true");
    task.after = std::move(after);
    task.profile = profile_;
    return session_->Submit(std::move(task));
  }

  test::FakeEventLoop loop_;
  test::MemoryFileSystem fs_;
  Session::Setup setup_;
  std::shared_ptr<const pb::Profile> profile_ = std::make_shared<pb::Profile>();
  std::optional<Session> session_;
  std::shared_ptr<test::FakeChannel> server_, client_;
  bool alive_ = true, silent_ = false, passive_ = false;
  std::set<std::string> dead_;  // addresses where nobody answers
  int64_t run_session_ = 1;
  uint32_t next_id_ = 0;
  int requests_ = 0;
  std::map<std::string, std::vector<uint32_t>> known_;
  std::map<uint32_t, int> fates_;
  std::set<uint32_t> asked_;
  std::map<uint64_t, std::string> told_, settled_;
  std::string greeted_, over_;
};

/// A run directory on disk, for its other parts.
class OtherPart {
 public:
  OtherPart() {
    char name[] = "/tmp/harrow-session-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    path_ = name;
    const auto run = run_dir::RunDir::Open(path_);
    EXPECT_TRUE(run.ok());
    part_ = *run_dir::MakePart(*run, "1");
  }
  ~OtherPart() { std::filesystem::remove_all(path_); }
  void Announce(const std::string& address) {
    const run_dir::Rendezvous r{.run_id = "run-1", .epoch = 1, .addresses = {address}, .key = std::string(32, 'k'), .host = "here", .pid = 1};
    EXPECT_TRUE(run_dir::WriteRendezvous(*part_.dir, part_.dir->path(), r).ok());
  }
  const run_dir::Part& part() const { return part_; }

 private:
  std::string path_;
  run_dir::Part part_;
};

/// The allocation in which the run began has been killed; who goes on takes what is submitted when that is known.
TEST_F(SessionTest, WhereTheFirstServerIsGoneAnotherOneTakesItsPlace) {
  OtherPart other;
  other.Announce("127.0.0.1:8");
  setup_.link.others = [&other] { return std::vector<run_dir::Part>{other.part()}; };
  Open();
  const uint64_t early = Submit();
  loop_.RunPosted();
  EXPECT_EQ(told_[early], "#0");
  silent_ = true;  // the next request's answer is lost
  const uint64_t open = Submit();
  loop_.RunPosted();
  dead_.insert("127.0.0.1:7");
  passive_ = true;
  server_->Break(Status(Code::kUnavailable, "reset by peer"));
  loop_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(over_, "") << "the run goes on, for longer than anybody who does not answer is waited for";
  EXPECT_EQ(told_[open], "");
  passive_ = silent_ = false;
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(told_[open], "#1");
  const uint64_t late = Submit();
  loop_.RunPosted();
  EXPECT_EQ(told_[late], "#2");
  EXPECT_EQ(next_id_, 3u);
}

TEST_F(SessionTest, ARunThatAllServersHaveLeftIsOver) {
  OtherPart other;
  other.Announce("127.0.0.1:8");
  setup_.link.others = [&other] { return std::vector<run_dir::Part>{other.part()}; };
  ASSERT_TRUE(fs_.Remove("run/0/server").ok());
  Open();
  EXPECT_EQ(greeted_, "/submit/submit") << "the second one is asked where the first is not there";
  ASSERT_TRUE(other.part().dir->Remove(other.part().dir->path() + "/server").ok());
  server_->Break(Status(Code::kUnavailable, "reset by peer"));
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_THAT(over_, HasSubstr("is over"));
}

/// Somebody that never becomes the one is not waited for without end.
TEST_F(SessionTest, OfPassiveServersAloneNothingIsExpectedForEver) {
  passive_ = true;
  greeted_.clear();
  Open();
  loop_.Advance(std::chrono::minutes(9));
  EXPECT_EQ(over_, "");
  loop_.Advance(std::chrono::minutes(2));
  EXPECT_NE(over_, "");
  EXPECT_EQ(greeted_, "");
}

TEST_F(SessionTest, TasksOfOneTurnAreOneRequest) {
  EXPECT_EQ(greeted_, "/submit");
  for (int i = 0; i < 3; ++i) Submit();
  EXPECT_THAT(told_, IsEmpty()) << "no hook is called by Submit";
  loop_.RunPosted();
  EXPECT_EQ(requests_, 1);
  EXPECT_THAT(told_, ElementsAre(std::pair(0, "#0"), std::pair(1, "#1"), std::pair(2, "#2")));
  EXPECT_EQ(session_->unanswered(), 0u);
}

TEST_F(SessionTest, WhatHasNoAnswerIsSentToTheNextServerAndTakenOnce) {
  silent_ = true;
  Submit();
  Submit();
  loop_.RunPosted();
  EXPECT_EQ(next_id_, 2u);
  Kill();
  Submit();
  loop_.RunPosted();
  EXPECT_THAT(told_, IsEmpty());
  silent_ = false;
  Return();
  EXPECT_EQ(greeted_, "/submit") << "once";
  EXPECT_THAT(told_, ElementsAre(std::pair(0, "#0"), std::pair(1, "#1"), std::pair(2, "#2")));
  EXPECT_EQ(next_id_, 3u);
}

TEST_F(SessionTest, ResultsAreToldOnceAlsoThoseOfTheTimeWithoutAServer) {
  const uint64_t a = Submit(), b = Submit();
  loop_.RunPosted();
  End(0, 3);
  EXPECT_THAT(settled_, IsEmpty()) << "nobody asked";
  session_->AwaitAll();
  loop_.RunPosted();
  EXPECT_EQ(settled_[a], "2/1/3");
  EXPECT_EQ(session_->unsettled(), 1u);
  Kill();
  End(1, 0);
  const uint64_t c = Submit();
  Return();
  EXPECT_EQ(settled_[b], "1/1/0");
  EXPECT_EQ(settled_[a], "2/1/3");
  End(2, 0);
  EXPECT_EQ(settled_[c], "1/1/0");
  EXPECT_EQ(session_->unsettled(), 0u);
}

TEST_F(SessionTest, OneTaskUnderTwoHandles) {
  session_->AwaitAll();
  Submit();
  loop_.RunPosted();
  next_id_ = 0;  // the same task, by name
  asked_.clear();
  Submit();
  loop_.RunPosted();
  End(0, 0);
  EXPECT_THAT(settled_, ElementsAre(std::pair(0, "1/1/0"), std::pair(1, "1/1/0")));
}

TEST_F(SessionTest, InAnotherSessionOfTheRunNothingIsSent) {
  silent_ = true;
  Submit();
  loop_.RunPosted();
  Kill();
  Submit();
  run_session_ = 2;
  requests_ = 0;
  Return();
  EXPECT_EQ(requests_, 0);
  EXPECT_THAT(told_[0], HasSubstr("resumed since, and it is not known whether the tasks were taken"));
  EXPECT_THAT(told_[1], HasSubstr("open it again"));
  EXPECT_THAT(over_, HasSubstr("has been resumed since"));
  Submit();
  loop_.Advance(std::chrono::seconds(60));
  EXPECT_THAT(told_[2], HasSubstr("open it again"));
  EXPECT_EQ(requests_, 0);
}

TEST_F(SessionTest, TheRunEnds) {
  Submit();
  loop_.RunPosted();
  ASSERT_TRUE(fs_.Remove("run/0/server").ok());
  silent_ = true;
  Submit();
  loop_.RunPosted();
  Kill();
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(over_, "the run in run is over, and takes no more tasks");
  EXPECT_EQ(told_[0], "#0");
  EXPECT_EQ(told_[1], "the run in run has ended, and it is not known whether the tasks were taken");
  EXPECT_EQ(session_->unanswered(), 0u);
}

TEST_F(SessionTest, NoServerAnswersForHalfAMinute) {
  Kill();
  Submit();
  loop_.Advance(std::chrono::seconds(25));
  EXPECT_EQ(over_, "");
  loop_.Advance(std::chrono::seconds(10));
  EXPECT_THAT(over_, StartsWith("the server of run/0 (here, process 1) does not answer"));
  EXPECT_EQ(told_[0], over_);
}

TEST_F(SessionTest, AMachineThatIsNotHeardOfIsLeft) {
  silent_ = true;
  Submit();
  loop_.RunPosted();
  client_->silence = std::chrono::seconds(30);
  silent_ = false;
  loop_.Advance(std::chrono::seconds(6));
  EXPECT_EQ(told_[0], "#0");
  EXPECT_EQ(requests_, 2);
}

TEST_F(SessionTest, AServerThatDoesNotKnowWhatWasTaken) {
  Submit();
  session_->AwaitAll();
  loop_.RunPosted();
  pb::ToClient reply;
  reply.mutable_settled()->add_unknown(0);
  server_->Send(reply.SerializeAsString());
  loop_.RunPosted();
  EXPECT_THAT(over_, HasSubstr("does not know tasks that it has taken"));
}

TEST_F(SessionTest, ItCanEndAtAnyMoment) {
  Submit();
  session_->AwaitAll();
  session_.reset();
  loop_.Advance(std::chrono::seconds(1));
  Open();
  Submit();
  loop_.RunPosted();
  session_.reset();
  loop_.Advance(std::chrono::seconds(1));
}

}  // namespace
}  // namespace harrow::client
