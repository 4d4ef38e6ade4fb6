#pragma once

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/core/core.h"

namespace harrow::agent {

inline AttemptId A(uint32_t task, uint32_t number = 1) {
  return {TaskId(task), number};
}

/// A node and what its core says, one word an action: "spawn 1", "term 0 cancelled".
class NodeTest : public testing::Test {
 protected:
  void Make(uint32_t slots, uint32_t devices = 0, uint64_t memory = 0) {
    core_.emplace(Core::Node{std::vector<uint32_t>(slots, 0), devices, memory});
    core_->SetKillWait(std::chrono::seconds(5));
  }
  void Send(uint32_t task, Needs needs = {}) { Tell(Sent{A(task), needs, task + 100}); }
  void Tell(const Event& event) {
    std::vector<Action> actions;
    core_->Handle(now_, event, &actions);
    EXPECT_EQ(core_->SanityCheck(), "");
    for (const Action& action : actions) std::visit([this](const auto& a) { Said(a); }, action);
  }
  /// What was said since the last time.
  std::vector<std::string> Said() { return std::exchange(said_, {}); }
  void After(Duration time) {
    now_ += time;
    Tell(TimeCame());
  }
  std::optional<uint32_t> TaskOf(uint32_t slot) {
    const Core::Given* given = core_->given(slot);
    return given != nullptr ? std::optional(given->attempt.task.value) : std::nullopt;
  }
  std::optional<Core::State> StateOf(uint32_t task) {
    for (const Core::Info& info : core_->All()) {
      if (info.attempt == A(task)) return info.state;
    }
    return std::nullopt;
  }

  Time now_{std::chrono::seconds(1000)};
  std::optional<Core> core_;
  std::optional<Time> alarm_;

 private:
  static std::string Name(End end) {
    static const char* const names[] = {"running", "exited",    "signaled",    "timed out",
                                        "memory",  "cancelled", "interrupted", "not started", "lost", "missing", "rewound", "checkpointed"};
    return names[static_cast<int>(end)];
  }
  void Said(const Spawn& a) { said_.push_back("spawn " + std::to_string(a.slot)); }
  void Said(const Signal& a) {
    said_.push_back((a.kill ? "kill " : "term ") + std::to_string(a.slot) + " " + Name(a.reason) +
                    (a.from_within ? " from within" : ""));
  }
  void Said(const AskCheckpoint& a) { said_.push_back((a.tell ? "ask " : "know ") + std::to_string(a.slot)); }
  void Said(const CheckpointLate& a) {
    EXPECT_EQ(a.tag, a.attempt.task.value + 100);
    said_.push_back("late " + std::to_string(a.attempt.task.value));
  }
  void Said(const Warn& a) { said_.push_back("warn " + std::to_string(a.slot)); }
  void Said(const Returned& a) {
    EXPECT_EQ(a.tag, a.attempt.task.value + 100);
    said_.push_back("returned " + std::to_string(a.attempt.task.value));
  }
  void Said(const Report& a) {
    EXPECT_EQ(a.tag, a.attempt.task.value + 100);
    static const char* const why[] = {"", " cores", " devices"};
    said_.push_back("report " + std::to_string(a.attempt.task.value) + " " + Name(a.end) +
                    why[static_cast<int>(a.why)]);
  }
  void Said(const WakeAt& a) { alarm_ = a.time; }

  std::vector<std::string> said_;
};

}  // namespace harrow::agent
