#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>

#include "server/driver.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "unit/run/test_flow.h"
#include "unit/server/fake_journal.h"
#include "wire/attempt_id.h"
#include "wire/version.h"

namespace harrow::server {

using test::FakeChannel;
using test::FakeJournal;
using test::TinyFlow;
using test::TinyTask;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// The agent of a node, by hand: keeps what it was told until the test lets it happen.
struct Agent {
  std::shared_ptr<FakeChannel> channel;
  NodeId node;
  uint64_t sequence = 0;
  std::map<uint32_t, pb::Task> tasks;  // sent here and not ended
  std::vector<uint32_t> taken_back, cancelled, superseded, starts, asked;
  std::vector<uint32_t> profiles;
  std::set<std::string> peers;  // where it was told that other agents are
  std::vector<pb::SourceChanged> sources;
  std::vector<AttemptId> unread, not_wanted;  // whose output is closed, and whose is dropped
  uint64_t committed = 0;
  uint32_t messages = 0;
  bool welcomed = false, shut_down = false;
  int64_t job_ends_ns = 0;
};

class DriverTest : public ::testing::Test {
 protected:
  void Make(std::vector<TinyTask> tasks, uint32_t nodes = 1) {
    flow_ = TinyFlow(tasks);
    options_.nodes_expected = nodes;
    Remake();
  }
  /// A server after the one before was killed.
  void Remake() {
    const journal::History history = journal_.history;
    if (driver_) ++options_.epoch;
    RunDriver::Hooks hooks;
    hooks.wake = [this] { ++woken_; };
    hooks.drop_agent = [this](const wire::Channel* channel) { dropped_.push_back(channel); };
    hooks.tell = [this](const std::string& line) { told_.push_back(line); };
    hooks.secret = [this] { return std::string(16, static_cast<char>(++secrets_)); };
    hooks.made_of = [this](uint32_t file) { return made_of_[file]; };
    hooks.modified = [this](const std::string&) { return modified_; };
    driver_ = std::make_unique<RunDriver>(flow_, options_, &journal_, std::move(hooks));
    made::Attempts made;
    for (const auto& [file, attempts] : made_of_) made.insert(attempts.begin(), attempts.end());
    ASSERT_TRUE(driver_->Restore(history, made).ok());
  }
  /// The same, and it begins.
  void Serve() {
    Remake();
    driver_->Begin(Now());
  }
  void Serve(std::vector<TinyTask> tasks, uint32_t nodes = 1) {
    Make(std::move(tasks), nodes);
    driver_->Begin(Now());
  }
  /// Its files are on the nodes' own disks.
  void ServeLocal(std::vector<TinyTask> tasks, uint32_t nodes = 1) {
    flow_ = TinyFlow(tasks);
    flow_.settings.files = config::Files::kLocal;
    options_.nodes_expected = nodes;
    Serve();
  }
  /// Another run begins, of which nothing is recorded.
  void Forget() {
    journal_ = {};
    driver_.reset();
    options_.epoch = 1;
  }
  /// Agents that the server before knew do not come back; this one does.
  void GatherInVain(Agent* agent) {
    for (uint32_t i = 0; i < options_.gather_ticks; ++i) {
      driver_->Handle(Now(), agent->node, {});
      driver_->Tick(Now());
    }
    Turn(agent);
  }
  Moment Now() { return {Time(time_), WallTime(time_ + std::chrono::hours(1))}; }
  pb::FromAgent Hello(const std::string& name, uint64_t incarnation, uint32_t slots) {
    pb::FromAgent message;
    message.mutable_hello()->set_version(wire::kProtocolVersion);
    message.mutable_hello()->set_run_id("run");
    message.mutable_hello()->set_incarnation(incarnation);
    message.mutable_hello()->mutable_node()->set_name(name);
    message.mutable_hello()->mutable_node()->set_slots(slots);
    return message;
  }
  /// An agent's number is on disk at once.
  Result<NodeId> Enter(const std::shared_ptr<FakeChannel>& channel, const pb::FromAgent& hello) {
    Result<NodeId> node = driver_->Join(Now(), channel, hello);
    driver_->Committed(journal_.sequence);
    return node;
  }
  /// By a new channel; it has taken nothing of it yet.
  void Connect(Agent* agent, const pb::FromAgent& hello) {
    agent->channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined = Enter(agent->channel, hello);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    agent->node = *joined;
  }
  void Join(Agent* agent, const pb::FromAgent& hello) {
    ASSERT_NO_FATAL_FAILURE(Connect(agent, hello));
    Turn(agent);
  }
  /// One flush; the agent takes what it was sent.
  void Turn(Agent* agent) {
    driver_->Flush(Now());
    for (const std::string& bytes : agent->channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      ++agent->messages;
      agent->welcomed |= message.has_welcome();
      agent->shut_down |= message.has_shutdown();
      if (message.end_time_ns() > 0) agent->job_ends_ns = message.end_time_ns();
      for (const pb::Profile& profile : message.profile()) agent->profiles.push_back(profile.id());
      for (const pb::Task& task : message.start()) {
        agent->tasks[task.id()] = task;
        agent->starts.push_back(task.id());
      }
      for (const pb::AttemptId& attempt : message.take_back()) agent->taken_back.push_back(attempt.task());
      for (const pb::AttemptId& attempt : message.checkpoint()) agent->asked.push_back(attempt.task());
      for (const pb::AttemptId& attempt : message.cancel().attempt())
        agent->cancelled.push_back(attempt.task());
      for (const pb::AttemptId& attempt : message.cancel().lost())
        agent->superseded.push_back(attempt.task());
      for (const pb::Peer& peer : message.peer())
        agent->peers.insert(peer.address().begin(), peer.address().end());
      agent->sources.insert(agent->sources.end(), message.source().begin(), message.source().end());
      for (const pb::AttemptId& attempt : message.unread()) agent->unread.push_back(wire::IdOf(attempt));
      for (const pb::AttemptId& attempt : message.drop_written()) agent->not_wanted.push_back(wire::IdOf(attempt));
      if (message.has_committed()) agent->committed = message.committed().sequence();
    }
  }
  pb::FromAgent Ended(Agent* agent, std::vector<uint32_t> tasks, pb::Attempt::End end = pb::Attempt::EXITED,
                      int code = 0) {
    pb::FromAgent message;
    pb::TasksEnded* ended = message.add_ended();
    ended->set_sequence(++agent->sequence);
    for (const uint32_t task : tasks) {
      pb::Attempt* attempt = ended->add_attempt();
      attempt->set_task(task);
      attempt->set_attempt(agent->tasks[task].attempt());
      attempt->set_end(end);
      attempt->set_code(code);
      attempt->set_start_ns(1000);
      attempt->set_end_ns(2000);
      agent->tasks.erase(task);
    }
    return message;
  }
  void End(Agent* agent, std::vector<uint32_t> tasks, pb::Attempt::End end = pb::Attempt::EXITED,
           int code = 0) {
    driver_->Handle(Now(), agent->node, Ended(agent, std::move(tasks), end, code));
    Turn(agent);
  }
  /// Nothing is heard of an agent for a while; `machine`: nor of its machine. Of `others` all is well.
  void Silence(Agent* agent, Duration how_long, bool machine = true, std::vector<Agent*> others = {}) {
    time_ += how_long;
    if (machine) agent->channel->silence = how_long;
    for (Agent* other : others) driver_->Handle(Now(), other->node, pb::FromAgent());
    for (int look = 0; look < 2; ++look) driver_->FindSilent(Now());
  }
  /// Looks some times a second, as the server does.
  void Watch(Duration how_long, std::vector<Agent*> well = {}) {
    for (const Duration end = time_ + how_long; time_ < end;) {
      time_ += std::chrono::milliseconds(250);
      for (Agent* agent : well) driver_->Handle(Now(), agent->node, pb::FromAgent());
      driver_->FindSilent(Now());
    }
    for (Agent* agent : well) Turn(agent);
  }
  static void Runs(pb::FromAgent* hello, uint32_t task, uint32_t attempt) {
    pb::Attempt* running = hello->mutable_hello()->add_running();
    running->set_task(task);
    running->set_attempt(attempt);
    running->set_start_ns(1000);
  }
  /// The hello of an agent that runs that attempt, and of one that has kept what has ended.
  pb::FromAgent Running(const std::string& name, uint64_t incarnation, uint32_t slots, uint32_t task,
                        uint32_t attempt) {
    pb::FromAgent hello = Hello(name, incarnation, slots);
    Runs(&hello, task, attempt);
    return hello;
  }
  pb::FromAgent Kept(const std::string& name, uint64_t incarnation, uint32_t slots,
                     const pb::FromAgent& ended) {
    pb::FromAgent hello = Hello(name, incarnation, slots);
    *hello.add_ended() = ended.ended(0);
    return hello;
  }
  void Started(Agent* agent, std::vector<uint32_t> tasks) {
    pb::FromAgent message;
    for (const uint32_t task : tasks) {
      wire::SetId({TaskId(task), agent->tasks[task].attempt()}, message.mutable_started()->add_attempt());
      message.mutable_started()->add_start_ns(1000);
    }
    driver_->Handle(Now(), agent->node, message);
    Turn(agent);
  }
  static std::set<uint32_t> Tasks(const Agent& agent) {
    std::set<uint32_t> tasks;
    for (const auto& [id, task] : agent.tasks) tasks.insert(id);
    return tasks;
  }
  std::vector<std::pair<uint32_t, uint32_t>> Attempts() {
    std::vector<std::pair<uint32_t, uint32_t>> out;
    for (const journal::AttemptRecord& record : journal_.history.attempts)
      out.emplace_back(record.task.value, record.attempt);
    return out;
  }
  std::map<uint32_t, journal::TaskFate> Fates() {
    std::map<uint32_t, journal::TaskFate> fates;
    for (const journal::FateRecord& record : journal_.history.fates) fates[record.task.value] = record.fate;
    return fates;
  }

  test::FakeEventLoop loop_;
  FakeJournal journal_;
  run::StoredFlow flow_;
  DriverOptions options_;
  Duration time_{std::chrono::seconds(1)};
  std::unique_ptr<RunDriver> driver_;
  std::vector<const wire::Channel*> dropped_;
  std::vector<std::string> told_;
  uint32_t woken_ = 0;
  std::map<uint32_t, made::Attempts> made_of_;  // by output file
  std::optional<WallTime> modified_;            // whatever lies in the submit directory
  uint8_t secrets_ = 0;
};

}  // namespace harrow::server
