#pragma once

#include <memory>
#include <vector>

#include "base/resources.h"
#include "core/scheduler.h"
#include "sim/simulation.h"

namespace harrow::sim {

/// The nodes of one allocation in virtual time, with the scheduler of its server. Whoever drives it goes from
/// one time at which something happens to the next.
class Site {
 public:
  struct RunTimes {
    uint64_t count = 0;
    double seconds = 0;
  };
  virtual ~Site() = default;

  /// Its nodes are there from now on, and it has the graph's tasks. `elsewhere`: others have them, and others
  /// may have what fits none of these nodes.
  virtual void Open(double now, bool elsewhere) = 0;
  /// Infinity: nothing is to come by itself.
  virtual double Next() const = 0;
  /// All that happens at that time, which is not before Next().
  virtual void Advance(double now) = 0;
  /// Tells its scheduler as well.
  virtual void Tell(double now, const std::vector<core::Event>& events) = 0;
  /// Its nodes are gone; what ran there is lost, and its scheduler has it again.
  virtual void Close(double now) = 0;

  virtual const core::Scheduler& scheduler() const = 0;
  /// As of its scheduler.
  virtual std::vector<TaskId> ShareOf(double part) = 0;
  virtual bool complete() const = 0;
  /// The tasks whose fate was decided since this was asked for last; of a site that was opened with
  /// `elsewhere` told.
  virtual std::vector<core::TaskSettled> TakeSettled() = 0;
  /// Of the attempts of tasks of that shape that were done.
  virtual RunTimes TimesOf(const Shape& shape) const = 0;
  /// What has happened, once it is over.
  virtual Outcome Finish() = 0;
};

/// All arguments must outlive it.
std::unique_ptr<Site> MakeSite(const graph::Graph& graph, const std::vector<Work>& work,
                               const Options& options);

}  // namespace harrow::sim
