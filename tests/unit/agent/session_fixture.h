#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/session.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "wire/attempt_id.h"
#include "wire/harrow.pb.h"
#include "wire/version.h"

namespace harrow::agent {

class FakeTasks : public TaskHost {
 public:
  void Push(std::vector<LocalTask> tasks) override {
    ++calls;
    for (LocalTask& task : tasks) pushed.push_back(std::move(task));
  }
  std::vector<AttemptId> TakeBack(const std::vector<AttemptId>& attempts) override {
    ++calls;
    std::vector<AttemptId> taken;
    for (const AttemptId attempt : attempts) {
      if (std::erase(snapshot.queued, attempt) > 0) taken.push_back(attempt);
    }
    return taken;
  }
  void AskForCheckpoints(const std::vector<AttemptId>& attempts) override {
    ++calls;
    asked.insert(asked.end(), attempts.begin(), attempts.end());
  }
  std::vector<AttemptId> asked;
  void EndTasks(const std::vector<AttemptId>& attempts, End reason) override {
    for (const AttemptId attempt : attempts) ended.emplace_back(attempt, reason);
  }
  void Close(End) override {}
  Snapshot TakeSnapshot() override { return snapshot; }
  bool Idle() override { return true; }

  int calls = 0;                         // to push, to take back or to ask
  std::vector<size_t> ended_when_asked;  // how many had been ended, each time that tasks were to be let run
  std::vector<LocalTask> pushed;
  std::vector<std::pair<AttemptId, End>> ended;
  Snapshot snapshot;
};

/// A server by hand: what the agent says comes out of Take(), Tell() answers.
class SessionTest : public testing::Test {
 protected:
  static NodeInfo Node() {
    return {.name = "n1", .slots = 2, .devices = 1, .memory = 4096, .topology = "2 sockets", .incarnation = 77, .output_file = 5};
  }
  Session::Dial Dialing() {
    return [this](Session::OnDialed done) {
      ++dials_;
      if (hold_) {
        held_ = std::move(done);
      } else if (!server_up_) {
        done(Status(Code::kUnavailable, "connection refused"));
      } else {
        Connects(done);
      }
    };
  }
  void Connects(const Session::OnDialed& done) {
    channel_ = std::make_shared<test::FakeChannel>(&loop_, wire::Role::kAgent, "server");
    handlers_.push_back(done(Session::Connection{.channel = channel_, .run_id = run_id_}));
    channel_->SetHandler(handlers_.back());
  }
  Session::Hooks Hooks() {
    return {.over = [this](Session::Over how, const std::string&) { over_.push_back(how); },
            .welcomed = [this](const pb::Welcome&) { ++welcomed_; },
            .job_ends = [this](WallTime end) { job_ends_.push_back(end); },
            .may_run_until =
                [this](std::optional<Time> until) {
                  host_.ended_when_asked.push_back(host_.ended.size());
                  if (refuse_ > 0) return --refuse_, false;
                  may_run_until_ = until;
                  return true;
                },
            .files = [this](const pb::ToAgent&) { ++of_files_; },
            .streams =
                [this](const pb::ToAgent& message) {
                  EXPECT_EQ(host_.pushed.size(), pushed_before_streams_);
                  of_streams_.push_back(message);
                },
            .held = [](pb::AgentHello* hello) { wire::SetId({TaskId(8), 3}, hello->add_written()); }};
  }

  std::vector<pb::FromAgent> Take() {
    std::vector<pb::FromAgent> messages;
    for (const std::string& bytes : channel_->TakeSent()) {
      EXPECT_TRUE(messages.emplace_back().ParseFromString(bytes));
    }
    return messages;
  }
  void Tell(const pb::ToAgent& message) { channel_->Deliver(message.SerializeAsString()); }
  void Welcome(uint64_t epoch) {
    pb::ToAgent message;
    message.mutable_welcome()->set_version(wire::kProtocolVersion);
    message.mutable_welcome()->set_epoch(epoch);
    message.mutable_welcome()->set_submit_dir("/sub");
    message.mutable_welcome()->set_lease_ns(lease_.count());
    message.mutable_welcome()->set_heartbeat_ns(heartbeat_.count());
    message.mutable_welcome()->set_fence_ns(fence_.count());
    for (const AttemptId attempt : cancel_) wire::SetId(attempt, message.mutable_cancel()->add_attempt());
    Tell(message);
  }
  /// What was said since the last call; its last heartbeat is answered now.
  void Answer() {
    pb::ToAgent answer;
    for (const pb::FromAgent& message : Take()) {
      if (message.has_heartbeat()) *answer.mutable_heartbeat() = message.heartbeat();
    }
    ASSERT_TRUE(answer.has_heartbeat());
    Tell(answer);
  }
  bool TasksRun() const { return !may_run_until_ || loop_.Now() < *may_run_until_; }
  /// Starts, and is welcomed by a server.
  void Join(uint64_t epoch = 1) {
    session_.Start();
    Welcome(epoch);
    Take();
  }
  void Break() {
    channel_->Break(Status(Code::kUnavailable, "connection reset"));
    loop_.RunPosted();
  }
  static Batch Ended(std::vector<uint32_t> tasks) {
    Batch batch;
    for (uint32_t task : tasks) {
      TaskResult result;
      result.id = task;
      result.end = End::kExited;
      result.output_offset = 16;
      batch.ended.push_back(std::move(result));
    }
    return batch;
  }

  test::FakeEventLoop loop_;
  FakeTasks host_;
  bool server_up_ = true;
  bool hold_ = false;  // who dials waits
  Session::OnDialed held_{};
  std::vector<wire::ChannelHandler> handlers_;  // of each connection
  std::string run_id_ = "run";
  std::shared_ptr<test::FakeChannel> channel_;
  size_t pushed_before_streams_ = 0;
  std::vector<pb::ToAgent> of_streams_;
  Duration fence_{0}, lease_ = std::chrono::seconds(300), heartbeat_{0};  // as the welcome says
  std::vector<AttemptId> cancel_;  // with the welcome
  std::vector<WallTime> job_ends_;
  std::optional<Time> may_run_until_ = Time(Duration(-1));  // what the session said last
  int refuse_ = 0;                                          // so many times, what is being ended still lives
  int dials_ = 0, welcomed_ = 0, of_files_ = 0;
  std::vector<Session::Over> over_;
  Session session_{loop_, host_, Node(), Dialing(), Hooks()};
};

}  // namespace harrow::agent
