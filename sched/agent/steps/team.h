#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/steps/environment.h"
#include "agent/steps/rank_server.h"
#include "agent/steps/step.h"
#include "agent/steps/task.h"
#include "base/status.h"

namespace harrow::agent {

/// How one process of an attempt of several has ended.
struct RankEnd {
  TaskResult result;
  End asked = End::kRunning;  // else it had been asked to end, for this reason
  bool served = false;        // a RankServer knows it, or should
  std::optional<RankServer::Seen> seen{};
  bool needed = false;        // has ended with 0 without a word to that, and others wait for it
  Duration stood{0};  // FencePage::stood() when its process ended
};

/// Has it failed by itself? Then the others are ended.
bool FailedByItself(const RankEnd& end);

/// Which of a task's ranks the processes of an attempt are.
struct RankPart {
  uint32_t first = 0;
  uint32_t of = 0;     // all ranks of the task; 0: as many as there are
  std::string node{};  // of a task of several nodes: the name of this one
  Mpi mpi = Mpi::kPmix;
};

/// The result of an attempt, or of this node's part of it, of those of its processes, in their order: what
/// the first that failed by itself says, else why all were ended.
TaskResult JoinEnds(std::vector<RankEnd> ends, const RankPart& part = {});

/// Where the threads meet that start, and look after, the processes of one attempt: the first prepares what
/// is for all, none starts before all can, and the first gathers how they ended. Each thread makes each of
/// the calls that are for it once, in this order; none returns before those it waits for have made theirs.
class Team {
 public:
  explicit Team(uint32_t size) : ends_(size) {}
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }

  /// What is there for all processes.
  struct Ground {
    Status status{};
    std::string sandbox{}, directory{}, tmp_dir{};   // as in Launch
    CheckpointVariables checkpoint{};
    std::vector<RankServer::Variables> variables{};  // a process
  };
  /// Process 0 has prepared it, or has failed to.
  void Lay(Ground ground);
  /// The others.
  const Ground& AwaitGround();
  /// Each: whether all others are ready, too.
  bool AreAllReady(bool ready);
  /// One that has ended and may be needed still: until `needed`, which is asked now and then, says that it is, or
  /// none that could need it is left here, or `to_end`, which comes first. Returns whether it is.
  bool AwaitNeed(uint32_t process, const std::function<bool()>& needed, const std::function<bool()>& to_end);
  /// Each, at last.
  void Ended(uint32_t process, RankEnd end);
  /// Process 0, after its own. As long as others run, `beat` is called so often; none: it is not.
  std::vector<RankEnd> AwaitEnds(std::optional<Duration> every, const std::function<void()>& beat);

  /// True once: to whoever is first to tell that the attempt runs.
  bool FirstToTell();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;  // of mutex_
  std::optional<Ground> ground_;     // does not change any more
  uint32_t arrived_ = 0;
  bool all_ready_ = true;
  std::vector<std::optional<RankEnd>> ends_;
  uint32_t ended_ = 0;
  std::set<uint32_t> over_;  // processes that need no other one any more
  bool told_ = false;
};

}  // namespace harrow::agent
