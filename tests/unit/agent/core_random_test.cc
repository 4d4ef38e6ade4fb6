// The agent's core under random sequences of events.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "agent/core/core.h"
#include "support/trail.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct ActionLine {
  static std::string Of(AttemptId id, uint32_t tag) { return StrCat(id.task.value, "/", id.number, " ", tag); }
  std::string operator()(const Spawn& a) const { return StrCat("spawn ", a.slot); }
  std::string operator()(const Signal& a) const {
    return StrCat(a.kill ? "kill " : "term ", a.slot, " ", static_cast<int>(a.reason), a.from_within ? " from within" : "");
  }
  std::string operator()(const Warn& a) const { return StrCat("warn ", a.slot); }
  std::string operator()(const AskCheckpoint& a) const { return StrCat("ask ", a.slot, a.tell ? " told" : ""); }
  std::string operator()(const CheckpointLate& a) const { return StrCat("late ", Of(a.attempt, a.tag), " ", a.refused.value_or(UINT32_MAX)); }
  std::string operator()(const Returned& a) const { return StrCat("returned ", Of(a.attempt, a.tag)); }
  std::string operator()(const Report& a) const {
    return StrCat("report ", Of(a.attempt, a.tag), " ", static_cast<int>(a.end), " ", static_cast<int>(a.why));
  }
  std::string operator()(const WakeAt& a) const { return StrCat("wake ", a.time.time_since_epoch().count()); }
};

/// Plays server, threads and clock against a core, and knows what must come of each attempt: it is told
/// exactly once that it is over, one way or another, and begins in the order of sending.
class RandomNode {
 public:
  explicit RandomNode(uint32_t seed) : random_(seed) {
    const uint32_t slots = 1 + Below(12);
    Core::Node node;
    for (uint32_t i = 0; i < slots; ++i) node.numa_of_slot.push_back(i * (1 + Below(2)) / 6);
    std::sort(node.numa_of_slot.begin(), node.numa_of_slot.end());
    node.devices = Below(4);
    node.memory = Below(2) * 1000;
    slots_ = slots;
    core_.emplace(std::move(node));
  }

  void Step() {
    now_ += milliseconds(Below(100) * (Below(50) == 0 ? 100 : 1));
    switch (Below(13)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Send();
      case 4:
        return Tell(InputArrived{SomeAttempt()});
      case 5:
        return Tell(TakenBack{SomeAttempt()});
      case 6:
        if (Below(4) == 0) Tell(Cancelled{SomeAttempt(), End::kCancelled});
        return;
      case 7:
        return Tell(ProcessStarted{Below(slots_), now_ - milliseconds(20)});
      case 8:
        return EndProcess(Below(3) == 0);
      case 9:
        return SettleSome();
      case 10:
        return Tell(MemorySeen{Below(slots_), Below(1200)});
      case 11:
        if (Below(20) == 0) {
          // Stands, or goes on.
          const bool stands = now_ >= until_;
          if (stands) stood_ += now_ - until_;
          until_ = Below(3) == 0 ? now_ - milliseconds(1) : now_ + seconds(Below(20));
          Tell(RunUntil{until_, stood_});
        }
        return;
      default:
        Tell(DiskLimitReached{SomeAttempt()});
        Tell(TimeCame());
    }
  }
  /// Everything ends.
  void Finish() {
    until_ = Time::max();
    Tell(RunUntil{until_, stood_});
    Tell(Closed{End::kInterrupted});
    for (int round = 0; round < 10'000 && !core_->idle(); ++round) {
      now_ += milliseconds(100);
      Tell(TimeCame());
      SettleSome();
    }
    EXPECT_TRUE(core_->idle());
    EXPECT_EQ(core_->free_slots(), slots_);
    for (const auto& [attempt, ends] : over_) EXPECT_EQ(ends, 1) << "task " << attempt.task.value;
    EXPECT_EQ(over_.size(), sent_);
  }
  bool failed() const { return testing::Test::HasFailure(); }

 private:
  uint32_t Below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  AttemptId SomeAttempt() { return {TaskId(sent_ - std::min(sent_, Below(20))), 1}; }

  void Send() {
    Needs needs;
    if (Below(4) == 0) needs.cores = 1 + Below(slots_);
    if (Below(6) == 0) needs.processes = 1 + Below(4);
    if (Below(6) == 0) needs.devices = Below(3);
    if (Below(3) == 0) needs.memory = Below(1100);
    if (Below(20) == 0) needs = {.whole_node = true};
    if (Below(5) == 0) needs.inputs = Below(3);
    if (Below(3) == 0) needs.time_limit = seconds(1 + Below(10));
    if (Below(3) == 0) needs.warn_before = milliseconds(Below(3000));
    if (Below(5) == 0) {
      needs.checkpoint = Below(2) == 0 ? Needs::Asked::kByEnd : Needs::Asked::kByQuestion;
      needs.checkpoint_every = seconds(Below(4));
      needs.checkpoint_time = seconds(1 + Below(3));
    }
    needs_[{TaskId(sent_), 1}] = needs;
    Tell(Sent{{TaskId(sent_), 1}, needs, sent_++});
  }
  std::optional<uint32_t> BusySlot() {
    for (uint32_t i = 0, slot = Below(slots_); i < slots_; ++i, slot = (slot + 1) % slots_) {
      if (core_->given(slot) != nullptr) return slot;
    }
    return std::nullopt;
  }
  void EndProcess(bool failed) {
    if (const auto slot = BusySlot()) Tell(ProcessEnded{*slot, failed});
  }
  void SettleSome() {
    for (uint32_t n = 1 + Below(3); n > 0; --n) {
      const auto slot = BusySlot();
      if (!slot) return;
      const AttemptId attempt = core_->given(*slot)->attempt;
      if (++settled_[attempt] == needs_[attempt].processes) ++over_[attempt];
      Tell(Settled{*slot});
    }
  }
  void Tell(const Event& event) {
    actions_.clear();
    core_->Handle(now_, event, &actions_);
    ASSERT_EQ(core_->SanityCheck(), "") << "after event " << event.index();
    std::set<AttemptId> begun;
    for (const Action& action : actions_) {
      test::Trail::Say([&] { return std::visit(ActionLine(), action); });
      if (const auto* spawn = std::get_if<Spawn>(&action)) {
        const Core::Given* given = core_->given(spawn->slot);
        ASSERT_NE(given, nullptr);
        ASSERT_TRUE(now_ < until_) << "begun while tasks stand";
        begun.insert(given->attempt);
        if (given->process == 0 && needs_[given->attempt].inputs == 0) {
          ASSERT_GE(given->tag + 1, last_begun_) << "out of order";
          last_begun_ = given->tag + 1;
        }
      } else if (const auto* returned = std::get_if<Returned>(&action)) {
        ++over_[returned->attempt];
        ASSERT_EQ(settled_.count(returned->attempt), 0u);
      } else if (const auto* report = std::get_if<Report>(&action)) {
        ++over_[report->attempt];
        ASSERT_EQ(settled_.count(report->attempt), 0u);
      } else if (const auto* signal = std::get_if<Signal>(&action)) {
        ASSERT_NE(core_->given(signal->slot), nullptr) << "nobody is there to be signalled";
        ASSERT_TRUE(signal->kill || now_ < until_) << "who stands hears nothing";
      }
    }
  }

  std::mt19937 random_;
  uint32_t slots_ = 0;
  std::optional<Core> core_;
  Time now_{seconds(100)}, until_ = Time::max();
  Duration stood_{0};
  uint32_t sent_ = 0, last_begun_ = 0;
  std::map<AttemptId, Needs> needs_;
  std::map<AttemptId, int> over_;
  std::map<AttemptId, uint32_t> settled_;
  std::vector<Action> actions_;
};

TEST(AgentCoreRandomTest, DecidesAsBefore) {
  test::Trail trail("agent.core");
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomNode node(seed);
    for (uint32_t step = 0; step < 2'000 && !node.failed(); ++step) node.Step();
    if (node.failed()) return;
    node.Finish();
  }
  trail.Compare();
}

TEST(AgentCoreRandomTest, EveryAttemptIsOverOnceWhateverComes) {
  const char* given = std::getenv("HARROW_SEED");
  const uint32_t first = given != nullptr ? static_cast<uint32_t>(std::atol(given)) : std::random_device()();
  const char* events = std::getenv("HARROW_EVENTS");
  const uint32_t steps = events != nullptr ? static_cast<uint32_t>(std::atol(events)) : 2'000;
  for (uint32_t seed = first; seed < first + 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "HARROW_SEED=" << seed);
    RandomNode node(seed);
    for (uint32_t step = 0; step < steps && !node.failed(); ++step) node.Step();
    if (node.failed()) return;
    node.Finish();
    if (node.failed()) return;
  }
}

}  // namespace
}  // namespace harrow::agent
