#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "cost/cluster.h"
#include "cost/placement.h"
#include "cost/task_costs.h"
#include "graph/graph.h"

namespace harrow::cost {

/// How tasks are placed by what they will cost.
struct PlacerOptions {
  Place how = Place::kFiles;  // MakePlacer: not so
  // TG_MAX and CT_MAX of paper 001, 6.2.1; 0: DefaultLimits.
  double groups = 0, stream = 0;
  // Bytes a second that a node sends, and gets, over its link to others.
  double link = 1e9;
  // Tasks that may be predicted for one placement (Refine).
  uint64_t budget = 600'000;
  // Until tasks of a program have ended: what a unit of its compute takes, and how many bytes one of its
  // output is.
  double seconds_a_unit = 1e-6, bytes_a_unit = 1;
  // Of nodes of which it is known; what is learnt is beside that. Of others 1.
  std::vector<double> speeds = {};
  // What the tasks of other runs turned out to cost.
  std::vector<Known> known = {};
};

/// What tasks of one kind compute, in seconds on a node of speed 1 by the model alone (PlacerOptions::seconds_a_unit), whatever was
/// learnt since: all servers of a run guess alike.
struct Work {
  double waiting = 0;
  // Of those that have ended, and the seconds that it was.
  double ended = 0, seconds = 0;
};

/// Where tasks are to run, and in which order on each node, as the scheduler asks for it. Its caller tells it
/// what nodes there are and how tasks end, and asks for a placement of all that waits. Deterministic.
class Placer {
 public:
  enum class State : uint8_t {
    kWaiting,
    kRunning,  // at a node, begun or not
    kDone,     // without a node: elsewhere, or by an earlier server
    kGone,     // settled as something else
    kElsewhere,  // another server's
  };
  /// How far a task has come.
  struct Standing {
    State state = State::kWaiting;
    NodeId node;       // where it runs, or was done
    double since = 0;  // seconds; of one that runs
  };
  using Look = std::function<Standing(TaskId)>;

  virtual ~Placer() = default;
  /// The graph has more tasks than it had; they wait for the next Place().
  virtual void Grow() = 0;
  /// The node may be given tasks, so many at once; 0: none any more.
  virtual void SetSlots(NodeId node, uint32_t slots) = 0;
  /// A task was done after it had computed so many seconds, and written so many bytes to each of its streams;
  /// of either below 0: that is not known. Returns whether by what is known now what waits had better be
  /// placed again.
  virtual bool Learn(TaskId task, NodeId node, double seconds, double bytes) = 0;
  /// Places all that waits. Not without a node.
  virtual void Place(double now, const Look& look) = 0;
  /// A task that was done, gone or elsewhere waits again: it is placed by the next Place().
  virtual void Reopen(TaskId task) = 0;
  /// So many tasks have come from another server, or gone to one: those of others are no part of the model, which is made
  /// anew when they are many. Until then those that have come are in no model.
  virtual void Exchange(size_t) {}
  /// The task has gone to another server, and is in no model any more.
  virtual void Gone(TaskId) {}
  /// The next Place() makes the model anew.
  virtual bool stale() const { return true; }
  /// False: the model has no value, so that nobody is placed.
  virtual bool works() const { return true; }
  /// It has a slot, and waits no more (work_by_kind).
  virtual void Begins(TaskId) {}
  virtual bool models(TaskId) const { return false; }
  /// By kind, one more than its number; first those of none: what waits, as far as was known when it was placed, and what has ended so far.
  virtual std::vector<Work> work_by_kind() const { return {}; }
  /// Tasks that wait, whole groups of them, that take so much (0 to 1) of the time of all that do: they are to
  /// go to another server (cost/sites.h). `movable`: which of them may.
  virtual std::vector<TaskId> Share(double, const Look&, const std::function<bool(TaskId)>&) { return {}; }
  /// None: it was not placed.
  virtual NodeId node(TaskId task) const = 0;
  /// Its place among the tasks of its node: the lower first.
  virtual uint32_t order(TaskId task) const = 0;
  virtual size_t memory() const { return 0; }
};

/// Places by the cost model of the graph (paper 001, 5 and 6), as far as this server has it: of tasks that are
/// elsewhere nothing is modelled. Where the model has no value nobody is placed.
std::unique_ptr<Placer> MakePlacer(const graph::Graph& graph, const PlacerOptions& options);

}  // namespace harrow::cost
