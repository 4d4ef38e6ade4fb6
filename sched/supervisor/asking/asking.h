#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "supervisor/asking/messages.h"

namespace harrow::supervisor {

/// A partition that may be asked, and what its nodes are like by its own word: what is granted may be other nodes.
struct PartitionFacts {
  std::string name = {};
  NodeCapacity node = {};  // of most of its nodes
  NodeCapacity most = {};  // of any of them, each figure for itself
  uint32_t most_nodes = 0;  // of a job
  Duration most_time{0};    // of a job; 0: no limit
  Duration default_time{0};  // of a job that does not say; 0: no limit, or not known
  // Only allocations of that many nodes are asked for; 0: as many as are of use.
  uint32_t nodes = 0;
};

struct AskingOptions {
  // Allocations at once, those that wait included.
  uint32_t most = 4;
  // That each is asked for; 0: the partition's default, or more where tasks need it.
  Duration time{0};
  // At the end of an allocation no task begins, and before its nodes are up none does.
  Duration margin = std::chrono::seconds(60);
  // What has had nothing to do for so long is given back.
  Duration idle = std::chrono::seconds(60);
  // After a refusal the partition is left alone for so long, and after so many in a row for good.
  Duration again = std::chrono::seconds(10);
  uint32_t refusals = 3;
  // An estimate is good for so long.
  Duration fresh = std::chrono::seconds(30);
  // No more nodes than the work lasts for so long on.
  Duration useful = std::chrono::seconds(60);
  // Without an answer nothing is asked for so long.
  Duration quiet = std::chrono::seconds(5);
  // A batch system that was away may not know its nodes yet: for so long after it has not answered no refusal counts.
  Duration settle = std::chrono::seconds(30);
};

/// Decides when a run asks the batch system for another allocation, and when one is given back. Deterministic, and
/// without a clock. It knows nothing that it cannot learn again from what is seen: any process can go on with it.
class Asking {
 public:
  Asking(const AskingOptions& options, std::vector<PartitionFacts> partitions);

  void Handle(Time now, const AskingEvent& event, std::vector<AskingAction>* actions);

  /// Nothing more is asked for: every partition has refused too often, or cannot give what was asked for from the start.
  bool stopped() const;
  /// Or there is no allocation, and none that could be asked for would run a task that waits.
  bool hopeless() const { return stopped() || nothing_fits_; }
  /// Which invariant is broken; empty: none. For tests.
  std::string FindBroken() const;

 private:
  struct Estimate {
    Request request;
    Duration begins_in{0};
    Time at{};
  };
  struct Partition {
    PartitionFacts facts;
    std::string impossible;     // why; empty: it can be asked
    uint32_t refused = 0;       // in a row
    uint32_t useless = 0;       // allocations in a row that ended no task
    bool stopped = false;
    Time again_at{};
    std::optional<Estimate> estimate{};
    Duration begins_in{0};      // by the last estimate, however old
    std::optional<uint32_t> slots{};  // a node's, by the last one that was granted
    std::string told;           // the last refusal
  };
  /// A job that was seen, or that was submitted and is to be seen.
  struct Job {
    std::string partition;
    uint32_t nodes = 1;
    bool served = false, given_back = false, never = false, over = false;
    uint64_t ended = 0;
    bool seen = false, ours = true;
    Time submitted{};
    std::optional<Time> needless_since{};
  };
  /// What waits and what there is for it, for tasks that such a request could run.
  struct Need {
    double ready_cores = 0, free_cores = 0;
    double slots = 0;               // of all that could run them when it begins
    std::optional<double> seconds{};  // of cores; none: nobody knows how long they take
    uint64_t tasks = 0;
    size_t lead = SIZE_MAX;  // index of the kind with most of the work
  };

  void On(Time now, const RunSeen& seen, std::vector<AskingAction>* actions);
  void On(Time now, const Estimated& estimated, std::vector<AskingAction>* actions);
  void On(Time now, const Submitted& submitted, std::vector<AskingAction>* actions);
  void On(Time now, const Refused& refused, std::vector<AskingAction>* actions);
  void On(Time now, const NoAnswer& none, std::vector<AskingAction>* actions);

  void LearnJobs(Time now, const RunSeen& seen, std::vector<AskingAction>* actions);
  void LearnTimes(Time now, const RunSeen& seen);
  void GiveBack(Time now, const RunSeen& seen, std::vector<AskingAction>* actions);
  void AskMore(Time now, const RunSeen& seen, std::vector<AskingAction>* actions);
  void CountRefusal(Time now, Partition* partition, const std::string& why, uint32_t* count, std::vector<AskingAction>* actions);
  Partition* Find(const std::string& name);

  Duration TimeOf(const Partition& partition, const WaitingTasks* lead) const;
  static bool CouldRun(const Partition& partition, uint32_t nodes, const WaitingTasks& tasks);
  bool InTime(Duration time, const WaitingTasks& tasks) const;
  uint32_t SlotsOf(const Partition& partition) const;
  bool IsOfUse(const AllocationSeen& allocation, const WaitingTasks& tasks) const;
  Need NeedOf(const Partition& partition, uint32_t nodes, Duration time, Duration begins_in, const RunSeen& seen) const;
  std::optional<Request> RequestTo(const Partition& partition, const RunSeen& seen) const;
  double CoresOf(const WaitingTasks& tasks, const Partition& partition) const;
  std::optional<double> SecondsOf(const WaitingTasks& tasks) const;

  const AskingOptions options_;
  std::vector<Partition> partitions_;
  std::map<std::string, Job> jobs_;
  std::map<Shape, Time> running_since_;  // shapes of which no task has ended yet
  Time now_{};
  std::optional<Request> under_way_;
  bool submits_ = false;  // under_way_ is to be submitted, not only estimated
  Time quiet_until_{};
  std::optional<Time> unanswered_at_{};  // last
  bool silent_ = false;  // and it was told
  bool told_stopped_ = false;
  bool nothing_fits_ = false;  // and it was told
};

}  // namespace harrow::supervisor
