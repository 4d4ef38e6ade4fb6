#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/resources.h"
#include "base/time.h"

namespace harrow::supervisor {

/// What one allocation does of a run, by its server: the owner of tasks. A part's directory has the same
/// number.
using PartId = Id<struct PartTag>;

/// A move for ever: of which supervisor, and its number among that one's, from 1.
struct MoveId {
  uint32_t epoch = 0;
  uint64_t number = 0;
  constexpr auto operator<=>(const MoveId&) const = default;
};

// --- what a server tells

/// A task that runs at a server, writes checkpoints, and is not to leave already.
struct Leaver {
  // It will run so long still where it is, as far as is known.
  Duration left{0};
  // For that long nothing of it runs when it goes on elsewhere: its checkpoint is made, and read again.
  Duration stands{0};
};

/// The tasks of one shape at a server, and what it can do for such tasks.
struct QueueState {
  Shape shape = {};
  // They wait for a slot only, and may be moved: the paper's qsize.
  uint64_t ready = 0;
  // They run, or were sent to where they will.
  uint64_t in_flight = 0;
  // So many of them run at once where nothing else does: the paper's nWorkers.
  uint32_t workers = 0;
  // The same, each worth its speed as far as the server knows it. With the speed that the supervisor measures
  // (Pace) it is the paper's mCap.
  double capacity = 0;
  // How long such a task takes there, on average; 0: not known yet.
  Duration mean{0};
  // It takes at least as long: one has run so long, and none has ended; 0: that is not known either.
  Duration mean_at_least{0};
  // For what would have to be copied for them, none of those that are ready goes for a move that saves less; 0: as far as is known, any does.
  Duration dear{0};
  // The kMostLeavers with the most left, by what is left, falling.
  std::vector<Leaver> leavers = {};
};
inline constexpr size_t kMostLeavers = 16;

/// How long tasks of a kind took at a server lately, whatever else its nodes did. Kinds are numbered alike by all
/// servers of a run.
struct Pace {
  uint32_t kind = 0;
  double count = 0;  // tasks, the older ones for less than one
  double seconds = 0;
};

/// What tasks of a kind compute, where tasks are placed by what they cost: as the model guesses it, which all servers of a run do alike.
struct KindWork {
  uint32_t kind = 0;
  double waiting = 0;  // of those that have not begun
  // Of those that have ended there, and what it was in seconds on a node of speed 1.
  double ended = 0, seconds = 0;
};

/// Tasks that a giver has named to a taker, which has not confirmed them: the giver starts none of them.
struct Offer {
  MoveId id = {};
  PartId to = {};
  Shape shape = {};
  uint64_t count = 0;
  bool waiting = false, running = false, shared = false;  // as it was asked for (MoveRequest)
};

/// What a server tells its supervisor each period. Of two the one with the larger (server_epoch, number) is
/// the newer, in whatever order they arrive.
struct Report {
  PartId part = {};
  // Of the server, which may have been started again.
  uint32_t server_epoch = 0;
  uint64_t number = 0;
  // The newest supervisor that it has heard of, and the largest number of a request of that one which it has
  // taken up: what it was asked by smaller numbers is carried out or never will be.
  uint32_t obeys = 0;
  uint64_t handled = 0;
  // One for each shape that tasks of the run have.
  std::vector<QueueState> queues = {};
  // One for each of the kinds that most tasks had.
  std::vector<Pace> paces = {};
  // Tasks of any shape that wait for other tasks.
  uint64_t waiting = 0;
  // Where tasks are placed by what they cost: one for each kind that any of its tasks have; and so much it does at once, slots times their
  // speed.
  std::optional<std::vector<KindWork>> works = {};
  double power = 0;
  // It is to give away all that has not begun.
  bool draining = false;
  // Until its allocation ends, where that is known.
  std::optional<Duration> ends_in = {};
  // One way, between it and the supervisor; the supervisor's driver measures it.
  Duration delay{0};
  // Under way from it, and those that were over before they could be told.
  std::vector<Offer> offers = {};
  // Moves that came to it lately: in each report until they are some seconds old.
  std::vector<MoveId> taken = {};
};

// --- what a supervisor asks of servers

/// What it saves that tasks begin elsewhere, before anything is copied for them.
struct Saving {
  // The last in the order of those that are ready at the giver would begin so much later there than at the taker; of each before it
  // that is `each` less.
  Duration last{0}, each{0};
  // So many of the tasks cannot begin at the giver before its end, and go whatever has to be copied.
  uint64_t late = 0;
};

/// `from` is to offer `to` so many of its ready tasks of the shape, but keep as many as `keep`: these begin
/// before the others could have come. It gives what it has, and of that what is copied sooner than the move saves (`saving`; none: all). `waiting`: tasks that wait for others instead,
/// of any shape. `running`: one that runs and writes checkpoints, with at least `least_left` left; it is under way (Offer) from when it is
/// asked for a checkpoint. `share` (above 0): tasks of any shape instead, whole groups that files and streams join, which are thought to
/// take that part of the time of all that have not begun.
struct MoveRequest {
  MoveId id = {};
  PartId from = {}, to = {};
  Shape shape = {};
  uint64_t count = 0;
  uint64_t keep = 0;
  std::optional<Saving> saving = {};
  bool waiting = false;
  bool running = false;
  Duration least_left{0};
  double share = 0;
};

struct Reported {
  Report report;
};
/// The part's tasks are nobody's to ask for any more: its allocation is over by the batch system's word, or
/// another server has taken it over and tells for itself.
struct PartEnded {
  PartId part = {};
  // Of the server that is no more; reports of a later one count.
  uint32_t server_epoch = 0;
};

using Event = std::variant<Reported, PartEnded>;
using Action = std::variant<MoveRequest>;

/// Which requests a server carries out: those of the newest supervisor, each once, in ascending order.
class Obedience {
 public:
  /// Whether to carry it out; no request is taken twice, and none after a later one.
  bool Take(const MoveId& id) {
    if (id.epoch < epoch_ || (id.epoch == epoch_ && id.number <= handled_)) return false;
    epoch_ = id.epoch;
    handled_ = id.number;
    return true;
  }
  /// A supervisor of that epoch is heard of.
  void Hear(uint32_t epoch) {
    if (epoch <= epoch_) return;
    epoch_ = epoch;
    handled_ = 0;
  }
  uint32_t epoch() const { return epoch_; }
  uint64_t handled() const { return handled_; }

 private:
  uint32_t epoch_ = 0;
  uint64_t handled_ = 0;
};

}  // namespace harrow::supervisor
