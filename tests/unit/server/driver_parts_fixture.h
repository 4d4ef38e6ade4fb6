#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "unit/server/driver_fixture.h"

namespace harrow::server {

using journal::End;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A task with so many ranks on `nodes` nodes; 0: without ranks.
inline TinyTask Wide(const std::string& name, uint32_t ranks = 4, uint32_t nodes = 2,
                     std::vector<std::string> out = {}) {
  TinyTask task{.name = name, .command = "x", .out = std::move(out)};
  task.profile.shape.nodes = nodes;
  task.profile.ranks = ranks;
  return task;
}

/// The agent of a node of that name.
struct NodeAgent : Agent {
  explicit NodeAgent(std::string its_name) : name(std::move(its_name)) {}
  std::string name;
  uint64_t incarnation = 1;
};

/// How a part ended, as its agent tells it.
struct How {
  pb::Attempt::End end = pb::Attempt::EXITED;
  int code = 0;
  int64_t end_ns = 2000;
  std::string message{};
  int64_t start_ns = 1000;
};
inline const How kWell{};
inline const How kAsked{.end = pb::Attempt::LOST, .end_ns = 2500};

inline How Exit(int code, int64_t end_ns = 2000, std::string message = "") {
  return {.end = pb::Attempt::EXITED, .code = code, .end_ns = end_ns, .message = std::move(message)};
}

class DriverPartsTest : public DriverTest {
 protected:
  using Agents = std::vector<NodeAgent*>;

  void ServeOn(std::vector<TinyTask> tasks, const Agents& agents) {
    Serve(std::move(tasks), static_cast<uint32_t>(agents.size()));
    for (NodeAgent* agent : agents) Join(agent, HelloOf(*agent));
    TurnAll(agents);
  }
  pb::FromAgent HelloOf(const NodeAgent& agent) { return Hello(agent.name, agent.incarnation, 2); }
  /// What follows at once, and at the next looks.
  void TurnAll(const Agents& agents) {
    for (int turn = 0; turn < 3; ++turn) {
      for (NodeAgent* agent : agents) Turn(agent);
    }
  }
  pb::FromAgent PartEnded(NodeAgent* agent, uint32_t task, const How& how) {
    const pb::Task sent = agent->tasks[task];
    pb::FromAgent message = Ended(agent, {task});
    pb::Attempt* attempt = message.mutable_ended(0)->mutable_attempt(0);
    *attempt->mutable_gang() = sent.gang();
    attempt->set_end(how.end);
    attempt->set_code(how.code);
    attempt->set_start_ns(how.start_ns);
    attempt->set_end_ns(how.end_ns);
    attempt->set_message(how.message);
    return message;
  }
  void EndPart(NodeAgent* agent, uint32_t task, const How& how = kWell) {
    driver_->Handle(Now(), agent->node, PartEnded(agent, task, how));
  }
  /// Its agent dials again, or the first time a server that follows, and tells that the part runs.
  pb::FromAgent RunsPart(NodeAgent* agent, uint32_t task) {
    pb::FromAgent hello = HelloOf(*agent);
    Runs(&hello, task, agent->tasks[task].attempt());
    *hello.mutable_hello()->mutable_running(0)->mutable_gang() = agent->tasks[task].gang();
    return hello;
  }
  void Restart() {
    options_.restarted = true;
    Serve();
  }
  void CommitAll() { driver_->Committed(journal_.sequence); }
  /// The agent's node is lost, as far as the server can know; it has an agent again if `again`.
  void LoseNode(NodeAgent* agent, const Agents& others) {
    driver_->Disconnected(Now(), agent->node, agent->channel.get());
    agent->tasks.clear();
    std::vector<Agent*> well(others.begin(), others.end());
    Watch(flow_.settings.fence + std::chrono::seconds(5), well);
    TurnAll(others);
  }
  const std::vector<journal::AttemptRecord>& Records() const { return journal_.history.attempts; }
  const std::vector<journal::PartRecord>& Parts() const { return journal_.history.parts; }

  NodeAgent one_{"n1"}, two_{"n2"}, three_{"n3"};
};

}  // namespace harrow::server
