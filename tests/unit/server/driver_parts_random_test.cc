// RunDriver, attempts of several nodes: seeded random events. Agents begin and end parts in any order, are
// cut off, die, are lost and come back; servers follow one another.
#include <algorithm>

#include "order/draws.h"
#include "support/trail.h"
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

constexpr Duration kBeat = std::chrono::seconds(1);

/// An agent as far as the server can see it, with its tasks.
struct SimAgent {
  struct Job {
    pb::Task task;
    bool begun = false;
    pb::Attempt::End asked = pb::Attempt::RUNNING;  // to end
    bool killed = false;                            // it runs no more, though its agent has not told so
  };

  std::string name;
  uint64_t incarnation = 1;
  NodeId node{};
  std::shared_ptr<FakeChannel> channel{};  // null: it is cut off
  std::map<AttemptId, Job> jobs{};
  std::map<uint64_t, pb::TasksEnded> kept{};
  uint64_t sequence = 0;
  Time answered{};      // by a server, last
  bool stands = false;  // its tasks do, until a server has adopted it
};

class DriverPartsRandomTest : public DriverTest {
 protected:
  void Play(uint64_t seed) {
    draws_ = std::make_unique<order::SeededDraws>(seed);
    Forget();
    agents_.clear();
    time_ = kBeat;
    options_ = {};
    options_.join_ticks = options_.return_ticks = UINT32_MAX / 2;  // all are expected back
    told_in_vain_ = false;
    std::vector<TinyTask> tasks;
    for (uint32_t n = 0; n < kTasks; ++n) {
      TinyTask task{.name = "t" + std::to_string(n), .command = "x"};
      task.profile.shape.nodes = 2 + draws_->Below(2);
      if (draws_->Below(3) > 0) task.profile.ranks = task.profile.shape.nodes + draws_->Below(4);
      if (task.profile.ranks > 0)
        task.profile.shape.cores = RanksOn(task.profile.ranks, task.profile.shape.nodes, 0);
      tasks.push_back(task);
    }
    Make(tasks, kNodes);
    flow_.settings.retries = 1000;
    flow_.settings.max_losses = 250;
    flow_.settings.bad_node_failures = 0;
    Serve();
    for (uint32_t n = 0; n < kNodes; ++n) {
      SimAgent& agent = agents_.emplace_back();
      agent.name = "n" + std::to_string(n);
      Connect(agent);
    }
    for (int step = 0; step < 400 && !HasFatalFailure(); ++step) Step();
    for (int round = 0; round < 3000 && !driver_->complete() && !HasFatalFailure(); ++round) WindUp();
    ASSERT_TRUE(driver_->complete());
    WindUp();
    driver_->RecordEnd(Now());
    CheckRecords();
  }

 private:
  static constexpr uint32_t kTasks = 8, kNodes = 5;

  bool Connected(const SimAgent& agent) const { return agent.channel != nullptr; }
  SimAgent& Any() { return agents_[draws_->Below(kNodes)]; }

  void Step() {
    SimAgent& agent = Any();
    switch (draws_->Below(16)) {
      case 0:
        if (draws_->Below(3) == 0) CutOff(agent);
        break;
      case 1:
      case 2:
        if (!Connected(agent)) Connect(agent);
        break;
      case 3:
        if (draws_->Below(4) == 0) StartAgain(agent);
        break;
      case 4:
        if (draws_->Below(4) == 0) ReplaceServer();
        break;
      case 5:
      case 6:
        Pass(1);
        break;
      case 7:
        if (draws_->Below(6) == 0) Pass(40);
        break;
      case 8:
      case 9:
      case 10:
        BeginOne(agent);
        break;
      default:
        EndOne(agent, false);
    }
    driver_->Flush(Now());
    for (SimAgent& each : agents_) TakeIn(each);
    if (draws_->Below(3) == 0) Commit();
    driver_->scheduler().SanityCheck();
  }

  /// All goes well from now on.
  void WindUp() {
    for (SimAgent& agent : agents_) {
      if (!Connected(agent)) Connect(agent);
    }
    for (SimAgent& agent : agents_) {
      BeginOne(agent);
      EndOne(agent, true);
    }
    Pass(1);
    Commit();
  }

  void Commit() {
    driver_->Committed(journal_.sequence);
    driver_->FindSilent(Now());
    driver_->Flush(Now());
    for (SimAgent& each : agents_) TakeIn(each);
  }

  void Pass(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      time_ += kBeat;
      for (SimAgent& agent : agents_) {
        if (Connected(agent)) {
          driver_->Handle(Now(), agent.node, pb::FromAgent());
          agent.answered = Now().now;
        }
        agent.stands |= Now().now - agent.answered > flow_.settings.fence - 5 * kBeat;
        // By then what was asked to end has been killed.
        for (auto& [id, job] : agent.jobs) job.killed |= agent.stands && job.asked != pb::Attempt::RUNNING;
      }
      driver_->Tick(Now());
      for (int look = 0; look < 2; ++look) driver_->FindSilent(Now());
      driver_->Flush(Now());
      for (SimAgent& agent : agents_) TakeIn(agent);
    }
  }

  void CutOff(SimAgent& agent) {
    if (!Connected(agent)) return;
    driver_->Disconnected(Now(), agent.node, agent.channel.get());
    agent.channel.reset();  // with what is on its way
  }

  void Connect(SimAgent& agent) {
    if (agent.stands && draws_->Below(8) == 0) return StartAgain(agent);
    pb::FromAgent hello = Hello(agent.name, agent.incarnation, 4);
    for (const auto& [id, job] : agent.jobs) {
      const bool part = job.task.has_gang();
      if (!part && !job.begun) {
        wire::SetId(id, hello.mutable_hello()->add_queued());
        continue;
      }
      Runs(&hello, id.task.value, id.number);
      if (part) *hello.mutable_hello()->mutable_running()->rbegin()->mutable_gang() = job.task.gang();
    }
    for (const auto& [sequence, ended] : agent.kept) *hello.add_ended() = ended;
    agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined = Enter(agent.channel, hello);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    agent.node = *joined;
    agent.answered = Now().now;
    driver_->Flush(Now());
    for (SimAgent& each : agents_) TakeIn(each);
  }

  void StartAgain(SimAgent& agent) {
    CutOff(agent);
    agent.jobs.clear();
    agent.kept.clear();
    agent.sequence = 0;
    agent.stands = false;
    ++agent.incarnation;
    Connect(agent);
  }

  /// Agents that do not come back in time to one server, and come back to the next, may tell of attempts that
  /// neither knows: no more is looked at here than one.
  void ReplaceServer() {
    if (told_in_vain_) return;
    for (SimAgent& agent : agents_) agent.channel.reset();
    options_.restarted = true;
    Serve();
    told_in_vain_ = draws_->Below(4) == 0;
    if (told_in_vain_) return;
    for (SimAgent& agent : agents_) draws_->Below(6) == 0 ? StartAgain(agent) : Connect(agent);
  }

  void TakeIn(SimAgent& agent) {
    if (!Connected(agent)) return;
    for (const std::string& bytes : agent.channel->TakeSent()) {
      test::Trail::Say([&] { return bytes; });
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      pb::FromAgent answer;
      for (const pb::AttemptId& back : message.take_back()) {
        const auto job = agent.jobs.find(wire::IdOf(back));
        if (job == agent.jobs.end() || job->second.begun) continue;
        agent.jobs.erase(job);
        *answer.mutable_returned()->add_attempt() = back;
      }
      if (answer.has_returned()) driver_->Handle(Now(), agent.node, answer);
      const auto ask = [&](const auto& attempts, pb::Attempt::End how) {
        for (const pb::AttemptId& attempt : attempts) {
          const auto job = agent.jobs.find(wire::IdOf(attempt));
          if (job != agent.jobs.end() && job->second.asked == pb::Attempt::RUNNING) {
            job->second.asked = how;
            job->second.killed = agent.stands;
          }
        }
      };
      ask(message.cancel().attempt(), pb::Attempt::CANCELLED);
      ask(message.cancel().lost(), pb::Attempt::LOST);
      if (message.has_welcome()) agent.stands = false;
      for (const pb::Task& task : message.start()) {
        const AttemptId id{TaskId(task.id()), task.attempt()};
        ASSERT_FALSE(agent.jobs.contains(id)) << "sent twice";
        agent.jobs[id].task = task;
      }
      if (!message.has_committed()) continue;
      std::erase_if(agent.kept,
                    [&](const auto& kept) { return kept.first <= message.committed().sequence(); });
    }
    CheckThatNoneRunsTwice();
  }

  void BeginOne(SimAgent& agent) {
    for (auto& [id, job] : agent.jobs) {
      if (job.begun || agent.stands || job.asked != pb::Attempt::RUNNING) continue;
      job.begun = true;
      CheckThatNoneRunsTwice();
      if (!Connected(agent) || draws_->Below(4) == 0) return;  // it is told with its end
      pb::FromAgent started;
      wire::SetId(id, started.mutable_started()->add_attempt());
      started.mutable_started()->add_start_ns(Now().wall_ns());
      driver_->Handle(Now(), agent.node, started);
      return;
    }
  }

  void EndOne(SimAgent& agent, bool well) {
    if (agent.jobs.empty()) return;
    auto job = agent.jobs.begin();
    std::advance(job, draws_->Below(static_cast<uint32_t>(agent.jobs.size())));
    const bool asked = job->second.asked != pb::Attempt::RUNNING;
    const pb::Gang& gang = job->second.task.gang();
    const bool holds = gang.here() > 0 && gang.node(static_cast<int>(gang.here())).ranks() == 0;
    // Parts without processes go on until they are told.
    if (!asked && (!job->second.begun || agent.stands || (holds && (well || draws_->Below(5) > 0)))) return;
    pb::TasksEnded ended;
    ended.set_sequence(++agent.sequence);
    pb::Attempt* attempt = ended.add_attempt();
    attempt->set_task(job->first.task.value);
    attempt->set_attempt(job->first.number);
    if (job->second.task.has_gang()) *attempt->mutable_gang() = job->second.task.gang();
    attempt->set_end(pb::Attempt::EXITED);
    if (asked && draws_->Below(8) > 0) attempt->set_end(job->second.asked);
    if (!asked && !well) {
      const uint32_t how = draws_->Below(8);
      if (how == 0) attempt->set_code(1);
      if (how == 1) {
        attempt->set_end(pb::Attempt::LOST);
        attempt->set_message("its server died");
      }
    }
    if (job->second.begun) attempt->set_start_ns(Now().wall_ns() - 1000);
    attempt->set_end_ns(Now().wall_ns());
    agent.jobs.erase(job);
    agent.kept[ended.sequence()] = ended;
    if (!Connected(agent)) return;
    pb::FromAgent message;
    *message.add_ended() = ended;
    driver_->Handle(Now(), agent.node, message);
  }

  /// Of two attempts of a task only one has processes that may run.
  void CheckThatNoneRunsTwice() {
    std::map<uint32_t, uint32_t> runs;
    for (const SimAgent& agent : agents_) {
      if (agent.stands) continue;
      for (const auto& [id, job] : agent.jobs) {
        if (!job.begun || job.killed) continue;
        const auto [at, first] = runs.emplace(id.task.value, id.number);
        ASSERT_TRUE(first || at->second == id.number) << "task " << id.task.value;
      }
    }
  }

  void CheckRecords() {
    std::set<std::pair<uint32_t, uint32_t>> attempts;
    std::map<uint32_t, uint32_t> succeeded;
    std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> parts;
    for (const journal::PartRecord& part : journal_.history.parts) {
      const std::pair id(part.task.value, part.attempt);
      EXPECT_TRUE(parts[id].insert(part.part).second) << "a part twice";
    }
    for (const journal::AttemptRecord& record : journal_.history.attempts) {
      const std::pair id(record.task.value, record.attempt);
      EXPECT_TRUE(attempts.insert(id).second) << "an attempt twice";
      const uint32_t nodes = flow_.graph.profile(record.task).shape.nodes;
      EXPECT_EQ(parts[id].size(), nodes > 1 ? nodes : 0) << id.first << "." << id.second;
      succeeded[id.first] += record.end == journal::End::kExited && record.code == 0 ? 1 : 0;
    }
    for (const auto& [id, known] : parts) EXPECT_TRUE(attempts.contains(id)) << "parts of no attempt";
    for (uint32_t n = 0; n < kTasks; ++n) {
      EXPECT_EQ(succeeded[n], 1u) << "task " << n;
      EXPECT_EQ(Fates()[n], journal::TaskFate::kDone);
    }
    for (const SimAgent& agent : agents_) EXPECT_TRUE(agent.kept.empty()) << "not acknowledged";
  }

  std::vector<SimAgent> agents_;
  bool told_in_vain_ = false;  // some agents may not have come back to a server that followed
  std::unique_ptr<order::SeededDraws> draws_;
};

TEST_F(DriverPartsRandomTest, NoAttemptRunsBesideAnotherAndEachIsRecordedOnce) {
  test::Trail trail("server.parts");
  for (uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Play(seed);
  }
  trail.Compare();
}

}  // namespace
}  // namespace harrow::server
