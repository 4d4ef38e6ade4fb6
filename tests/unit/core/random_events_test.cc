// Random sequences of events, those that no agent would send among them: late, twice, of nodes long gone. After every
// few of them all invariants are checked; what the scheduler asks for is held against what it was told.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "order/draws.h"

namespace harrow::core {
namespace {

class Chaos {
 public:
  explicit Chaos(uint64_t seed) : random_(seed), options_(RandomOptions(seed)), scheduler_(graph_, options_) {
    AddProfiles();
    Grow(20);
  }

  void Run(int events) {
    for (int i = 0; i < events; ++i) {
      const Event event = NextEvent();
      past_.push_back(event);
      if (past_.size() > 500) past_.erase(past_.begin(), past_.begin() + 250);
      if (Chance(10)) {
        std::vector<Event> batch = {event};
        while (!Chance(3)) batch.push_back(NextEvent());
        past_.insert(past_.end(), batch.begin() + 1, batch.end());
        for (const Event& each : batch) Expect(each);
        scheduler_.HandleAll(now_, batch, &actions_);
      } else {
        Expect(event);
        scheduler_.Handle(now_, event, &actions_);
      }
      TakeActions();
      last_ = event;
      if (i % 13 == 0 || i < 300 || std::getenv("HARROW_EACH") != nullptr) scheduler_.SanityCheck();
      if (::testing::Test::HasFailure()) return;
      now_ += std::chrono::microseconds(Below(2000));
    }
    Settle();
  }

 private:
  struct Sent {
    TaskId task;
    NodeId node;
    uint32_t attempt;
    bool begun = false;
    bool asked_back = false;
    bool cancelled = false;
  };

  uint32_t Below(uint32_t n) { return random_.Below(n); }
  bool Chance(uint32_t one_in) { return Below(one_in) == 0; }

  static Options RandomOptions(uint64_t seed) {
    order::SeededDraws r(seed * 7 + 1);
    Options o;
    o.policy = static_cast<order::Policy>(r.Below(5));
    o.locality = r.Below(3) > 0;
    o.steal = r.Below(3) > 0;
    o.seed = seed;
    o.retries = static_cast<int32_t>(r.Below(4));
    o.max_losses = 1 + r.Below(6);
    o.max_failures = r.Below(8) == 0 ? 200 + r.Below(200) : 0;
    o.fail_fast = r.Below(40) == 0;
    o.bad_node_failures = r.Below(2) * 4;
    o.shared_files = r.Below(2) == 0;
    o.max_ahead = 1 + r.Below(8);
    return o;
  }

  void AddProfiles() {
    for (int i = 0; i < 20; ++i) profiles_.push_back(graph_.AddProfile({}));
    graph::Profile p;
    p.shape.cores = 2;
    profiles_.push_back(graph_.AddProfile(p));
    p.shape.cores = 4;
    p.priority = 3;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.memory = 3000;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.gpus = 1;
    p.retries = 1;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.whole_node = true;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.nodes = 2;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.time_limit = std::chrono::milliseconds(200);
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.cores = 64;  // no node has that many
    odd_profile_ = graph_.AddProfile(p);
  }

  /// Tasks that need some of the latest ones, by file or otherwise; some make what an old task reads.
  void Grow(uint32_t count) {
    const auto first = static_cast<uint32_t>(graph_.task_count());
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t number = first + i;
      std::vector<TaskId> after;
      std::vector<FileId> in, out;
      for (uint32_t k = Chance(2) ? 0 : Below(4); k > 0 && number > 0; --k) {
        const TaskId before(number - 1 - Below(std::min(number, 30u)));
        if (Chance(2)) {
          after.push_back(before);
        } else {
          for (FileId file : graph_.outputs(before)) in.push_back(file);
        }
      }
      if (Chance(8)) in.push_back(graph_.AddFile("late" + std::to_string(number)));
      if (Chance(8)) in.push_back(graph_.AddFile("given" + std::to_string(Below(50))));
      if (Chance(10) && number > 40) {
        after.clear();
        in.clear();
        const FileId late = graph_.AddFile("late" + std::to_string(number - 1 - Below(40)));
        if (!graph_.producer(late)) out.push_back(late);
      }
      for (uint32_t k = Below(3); k > 0; --k) {
        out.push_back(graph_.AddFile("f" + std::to_string(number) + "." + std::to_string(k)));
        if (!Chance(4)) graph_.SetFileSize(out.back(), Below(3) * 500);
      }
      const ProfileId profile = Chance(400) ? odd_profile_ : profiles_[Below(static_cast<uint32_t>(profiles_.size()))];
      graph::TaskSpec spec;
      spec.profile = profile;
      spec.in = in;
      spec.out = out;
      spec.after = after;
      graph_.AddTask(spec);
    }
    const Status sealed = graph_.Seal();
    ASSERT_TRUE(sealed.ok()) << sealed.message();
    settled_.resize(graph_.task_count(), false);
    done_.resize(graph_.task_count(), false);
    std::vector<Event> events = {TasksAdded{TaskId(first), count}};
    if (Chance(10)) {
      const TaskId restored(first + Below(count));
      const auto as = static_cast<TaskRestored::As>(Below(5));
      events.push_back(TaskRestored{restored, as, Below(3), Below(2)});
      if (as != TaskRestored::As::kOpen && graph_.predecessors(restored).empty()) {
        // Others may have been skipped before, then nothing is restored: take the answer from the scheduler below.
        maybe_restored_.push_back(restored);
      }
      maybe_restored_.push_back(restored);
    }
    scheduler_.HandleAll(now_, events, &actions_);
    for (TaskId id : maybe_restored_) {
      const TaskState state = scheduler_.state(id);
      if (state >= TaskState::kDone) settled_[id.value] = true;
      if (state == TaskState::kDone) done_[id.value] = true;
    }
    // A restored task is settled without an action; its dependents are not.
    TakeActions(&maybe_restored_);
    maybe_restored_.clear();
  }

  TaskId AnyTask() { return TaskId(Below(static_cast<uint32_t>(graph_.task_count()) + (Chance(50) ? 5 : 0))); }
  NodeId AnyNode() { return NodeId(Below(9)); }

  Event NextEvent() {
    const uint32_t what = Below(1000);
    if (what < 8) return RandomJoin();
    if (what < 11) return NodeLost{AnyNode()};
    if (what < 12) return NodeClosed{AnyNode()};
    if (what < 15) return CancelRequested{AnyTask()};
    if (what < 25) return FileStored{AnyFile(), AnyNode(), Chance(3) ? -1 : static_cast<int64_t>(Below(2000))};
    if (what < 30) return FileLost{AnyFile(), AnyNode()};
    if (what < 50) return RoundTripMeasured{AnyNode(), std::chrono::microseconds(Below(3) * 1000)};
    if (what < 52) return EndTimeKnown{now_ + std::chrono::milliseconds(Below(1000))};
    if (what < 54) return EndTimeKnown{Time::max()};
    if (what < 55) return AllNodesJoined{};
    if (what < 58) return TaskStarted{AnyTask(), AnyNode(), Below(3)};
    if (what < 61) return RandomEnd(AnyTask(), AnyNode(), Below(4));
    if (what < 63) return TaskReturned{AnyTask(), AnyNode()};
    if (what < 80 && !past_.empty()) return past_[Below(static_cast<uint32_t>(past_.size()))];
    if (sent_.empty()) {
      if (graph_.task_count() < 12000 && Chance(4)) Grow(1 + Below(40));
      return Chance(3) ? Event(RandomJoin()) : Event(RoundTripMeasured{AnyNode(), Duration(0)});
    }
    if (what < 120 && graph_.task_count() < 15000) Grow(1 + Below(Chance(20) ? 150 : 4));
    if (sent_.empty()) return RandomJoin();
    Sent& sent = sent_[Below(static_cast<uint32_t>(sent_.size()))];
    if (sent.asked_back && !sent.begun && !Chance(3)) return TaskReturned{sent.task, sent.node};
    if (!sent.begun && Chance(2)) {
      sent.begun = true;
      return TaskStarted{sent.task, sent.node, Chance(2) ? sent.attempt : 0};
    }
    if (sent.cancelled && !Chance(3)) return TaskEnded{sent.task, sent.node, Cancelled{}, Duration(5), 0};
    return RandomEnd(sent.task, sent.node, Chance(2) ? sent.attempt : 0);
  }
  FileId AnyFile() { return FileId(Below(static_cast<uint32_t>(graph_.file_count()) + 2)); }
  NodeJoined RandomJoin() {
    return {AnyNode(), {1 + Below(6), Below(3), Chance(2) ? 0 : 4000u + Below(4000)}};
  }
  TaskEnded RandomEnd(TaskId task, NodeId node, uint32_t attempt) {
    Outcome outcome = Done{};
    const uint32_t how = Below(100);
    if (how < 10) outcome = Failed{static_cast<int32_t>(1 + Below(3)), !Chance(4)};
    if (how == 10) outcome = Lost{};
    if (how == 11 && Chance(10)) outcome = Interrupted{};
    return {task, node, outcome, std::chrono::microseconds(1 + Below(3000)), attempt};
  }

  /// What the scheduler will know when it has handled the event.
  void Expect(const Event& event) {
    if (const auto* join = std::get_if<NodeJoined>(&event)) joined_.at(join->node.value) = true;
    if (const auto* lost = std::get_if<NodeLost>(&event)) {
      joined_.at(lost->node.value) = false;
      std::erase_if(sent_, [&](const Sent& s) { return s.node == lost->node; });
    }
    const auto forget = [this](TaskId task, NodeId node) {
      std::erase_if(sent_, [&](const Sent& s) { return s.task == task && s.node == node; });
    };
    if (const auto* end = std::get_if<TaskEnded>(&event)) forget(end->task, end->node);
    if (const auto* back = std::get_if<TaskReturned>(&event)) {
      // A stray one of a task that has begun is ignored, and it runs on.
      if (back->task.value < graph_.task_count() && scheduler_.state(back->task) != TaskState::kRunning) {
        forget(back->task, back->node);
      }
    }
  }

  void TakeActions(const std::vector<TaskId>* restored = nullptr) {
    for (const Action& action : actions_) {
      if (const auto* start = std::get_if<StartTask>(&action)) {
        EXPECT_FALSE(settled_[start->task.value]) << "started after its fate was decided: " << start->task.value;
        EXPECT_TRUE(joined_.at(start->node.value)) << "started on a node that is gone";
        EXPECT_GT(start->attempt, 0u);
        aheads_ += start->ahead;
        for (TaskId before : graph_.predecessors(start->task)) {
          EXPECT_EQ(scheduler_.state(before), TaskState::kDone) << "started before what it needs";
        }
        std::erase_if(sent_, [&](const Sent& s) { return s.task == start->task && s.node == start->node; });
        sent_.push_back({start->task, start->node, start->attempt});
      } else if (const auto* settled = std::get_if<TaskSettled>(&action)) {
        const bool was_restored = restored != nullptr && std::find(restored->begin(), restored->end(), settled->task) != restored->end();
        EXPECT_TRUE(was_restored || !settled_[settled->task.value]) << "decided twice: " << settled->task.value;
        settled_[settled->task.value] = true;
        done_[settled->task.value] = settled->state == FinalState::kDone;
      } else if (const auto* back = std::get_if<TakeBack>(&action)) {
        ++backs_;
        for (Sent& s : sent_) s.asked_back |= s.task == back->task && s.node == back->node;
      } else if (const auto* cancel = std::get_if<CancelTask>(&action)) {
        for (Sent& s : sent_) s.cancelled |= s.task == cancel->task && s.node == cancel->node;
      } else if (std::holds_alternative<JoinGang>(action)) {
        ++gangs_;
      } else if (std::holds_alternative<RunComplete>(action)) {
        const Counts& c = scheduler_.counts();
        EXPECT_EQ(c.waiting + c.ready + c.sent + c.running, 0u);
        ++completions_;
      }
    }
    actions_.clear();
  }

  /// From here on all goes well: everything comes to an end.
  void Settle() {
    const auto tell = [this](const Event& event) {
      Expect(event);
      scheduler_.Handle(now_, event, &actions_);
      TakeActions();
    };
    tell(EndTimeKnown{Time::max()});
    for (uint32_t n = 0; n < 9; ++n) tell(NodeLost{NodeId(n)});
    for (uint32_t n = 0; n < 9; ++n) tell(NodeJoined{NodeId(n), {6, 2, 8000}});
    tell(AllNodesJoined{});
    scheduler_.SanityCheck();
    // Tasks that were given up here may have been adopted since: ask the scheduler what it has in flight.
    for (int round = 0; round < 1'000'000 && !sent_.empty(); ++round) {
      const Sent sent = sent_.front();
      if (sent.asked_back && !sent.begun) {
        tell(TaskReturned{sent.task, sent.node});
        if (scheduler_.state(sent.task) == TaskState::kRunning) sent_.erase(sent_.begin());
      } else {
        tell(TaskEnded{sent.task, sent.node, Done{}, std::chrono::microseconds(50), 0});
      }
      if (round % 31 == 0) scheduler_.SanityCheck();
      if (::testing::Test::HasFailure()) return;
    }
    scheduler_.SanityCheck();
    const Counts& c = scheduler_.counts();
    EXPECT_EQ(c.waiting, 0u);
    EXPECT_EQ(c.ready, 0u);
    EXPECT_EQ(c.sent + c.running, 0u);
    EXPECT_EQ(c.done + c.failed + c.skipped + c.cancelled, graph_.task_count());
    EXPECT_GE(completions_, 1);
    std::fprintf(stderr, "  %s: %llu tasks, %llu attempts, %llu done, %llu failed, %llu skipped, %llu cancelled, %llu lost, %llu stolen, "
                 "%llu ahead, %llu asked back, %llu gangs\n", std::string(order::PolicyName(options_.policy)).c_str(), (unsigned long long)c.total, (unsigned long long)c.attempts,
                 (unsigned long long)c.done, (unsigned long long)c.failed, (unsigned long long)c.skipped, (unsigned long long)c.cancelled, (unsigned long long)c.losses,
                 (unsigned long long)c.stolen, (unsigned long long)aheads_, (unsigned long long)backs_, (unsigned long long)gangs_);
    for (uint32_t n = 0; n < graph_.task_count(); ++n) EXPECT_TRUE(settled_[n]) << "without an answer: " << n;
  }

  order::SeededDraws random_;
  Options options_;
  graph::Graph graph_;
  Scheduler scheduler_;
  std::vector<ProfileId> profiles_;
  ProfileId odd_profile_;
  Time now_{};
  std::vector<Action> actions_;
  std::vector<Event> past_;
  std::vector<Sent> sent_;
  std::vector<bool> settled_, done_;
  std::vector<bool> joined_ = std::vector<bool>(9, false);
  std::vector<TaskId> maybe_restored_;
  Event last_;
  int completions_ = 0;
  uint64_t aheads_ = 0, backs_ = 0, gangs_ = 0;
};

/// HARROW_SEEDS and HARROW_EVENTS make it longer; HARROW_SEED runs one again.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Scheduler, RandomEvents) {
  const uint64_t one = FromEnvironment("HARROW_SEED", 0);
  const uint64_t seeds = one > 0 ? 1 : FromEnvironment("HARROW_SEEDS", 12);
  const int events = static_cast<int>(FromEnvironment("HARROW_EVENTS", 20'000));
  for (uint64_t i = 0; i < seeds; ++i) {
    const uint64_t seed = one > 0 ? one : i + 1;
    SCOPED_TRACE("HARROW_SEED=" + std::to_string(seed));
    // Also when an invariant ends the process.
    ::testing::Test::RecordProperty("seed", std::to_string(seed));
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    Chaos(seed).Run(events);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace harrow::core
