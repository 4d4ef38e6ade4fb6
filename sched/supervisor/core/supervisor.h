#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "supervisor/core/amounts.h"
#include "supervisor/core/messages.h"

namespace harrow::supervisor {

struct Options {
  Trigger trigger = Trigger::kAlways;
  Amount amount = Amount::kCapacity;
  // Of Trigger::kLow.
  double alpha = 0.5;
  // Beyond the paper: only what saves more time than its move costs, and nothing that would begin before; and
  // what runs counts as well, so that slots that have nothing come first.
  bool worth_only = true;
  // Servers are looked at together when all have reported since the last time, when a new one has, or that
  // long after the first of them has.
  Duration period = std::chrono::milliseconds(100);
  // Who has not reported for so long neither gives nor gets.
  Duration silence = std::chrono::seconds(3);
  // Of a move of which nobody has told for so long nothing is expected any more.
  Duration forget = std::chrono::seconds(10);

  /// Servers report so often; who is silent is known by that.
  void SetPeriod(Duration each) {
    period = each;
    silence = std::max(silence, 10 * each);
    forget = std::max(forget, 30 * each);
  }
};

/// Watches over the servers of a run and asks them to move tasks: reports in, requests out. Deterministic,
/// and without a clock. It knows nothing that it cannot learn again from a report of each server: any
/// server's process can take its part, with a higher epoch. What it asks for is advice; what owns a task is
/// the servers' to agree upon.
class Supervisor {
 public:
  Supervisor(const Options& options, uint32_t epoch) : options_(options), epoch_(epoch) {}

  void Handle(Time now, const Event& event, std::vector<Action>* actions);

  uint32_t epoch() const { return epoch_; }
  /// A server obeys a newer one: this one asks for nothing more.
  bool superseded() const { return superseded_; }
  /// Tasks of the shape that the part has or is to have, by what is known.
  int64_t Expected(PartId part, const Shape& shape) const;
  /// Moves that were asked for, and those of which nobody told, and that were forgotten.
  uint64_t asked_moves() const { return asked_moves_; }
  uint64_t forgotten() const { return forgotten_; }
  size_t open_moves() const { return moves_.size(); }

  /// Checks every invariant; ends the process with a message when one is broken. For tests.
  void SanityCheck() const;

 private:
  struct Part {
    Report report;
    Time heard{};
    bool fresh = false;          // reported since servers were looked at last
    double speed = 1;            // measured, against the others'
    std::vector<MoveId> giving;  // of the open moves
  };
  struct Move {
    PartId from, to;
    Shape shape;
    uint64_t count = 0;
    bool waiting = false;
    bool running = false;
    bool shared = false;
    bool offered = false;  // the giver has told of it: `count` tasks are on their way
    Time told{};           // when anybody told of it, or it was asked for
  };

  void On(Time now, const Reported& event);
  void On(Time now, const PartEnded& event);
  void Learn(Time now, const Report& report);
  bool IsAnothers(const MoveId& id) const;
  void Forget(Time now);
  void Balance(Time now, std::vector<Action>* actions);
  /// Tasks that are placed by what they cost: returns whether all are. `busy`: more is not to be asked for now.
  bool BalanceWork(Time now, const std::vector<PartId>& present, bool* busy, std::vector<Action>* actions);
  static uint64_t IdleOf(const Report& report);
  /// What a second of the model has turned out to be.
  struct Factors {
    std::map<uint32_t, double> of_kind;
    double of_others = 1;
  };
  Factors FactorsOf(const std::vector<PartId>& present) const;
  void MeasureSpeeds(const std::vector<PartId>& present);
  double CapacityOf(const Part& part, const QueueState& queue) const { return queue.capacity * part.speed; }
  /// `by_costs`: only what has a slot at once.
  bool IsTooDear(const Part& part, const Shape& shape) const;
  void BalanceShape(Time now, const Shape& shape, std::vector<PartId> present, bool by_costs,
                    std::vector<Action>* actions);
  /// Who gives or gets how many; those who get may want more than others give.
  std::vector<int64_t> AmountsOf(const Shape& shape, const std::vector<PartId>& present,
                                 std::span<const Side> sides) const;
  /// What runs goes to a faster server where that pays and slots have nothing.
  void GiveRunning(Time now, const Shape& shape, const std::vector<PartId>& present, std::vector<Action>* actions);
  /// Whether it would be over so much sooner there that its checkpoint is worth it.
  bool Pays(const Part& from, const Part& to, const Shape& shape, const Leaver& leaver) const;
  void GiveWaiting(Time now, const std::vector<PartId>& present, std::vector<Action>* actions);
  void Ask(Time now, MoveRequest request, std::vector<Action>* actions);
  double RateAt(const Part& part, const QueueState& queue) const;
  Side SideOf(const Part& part, const Shape& shape) const;
  Duration MoveTime(const Part& from, const Part& to) const;
  std::optional<Saving> SavingOf(const Part& from, const Part& to, const Shape& shape, double left, double at_taker) const;
  bool RoundIsOver(Time now) const;
  void Open(const MoveId& id, const Move& move);
  void Close(const MoveId& id);
  void Count(const Move& move, int sign);
  std::string FindBroken() const;

  const Options options_;
  const uint32_t epoch_;
  bool superseded_ = false;
  std::map<PartId, Part> parts_;
  std::map<MoveId, Move> moves_;
  // Of all of moves_, by part and shape: what is on its way to it, less what it was asked to give and has
  // not.
  std::map<PartId, std::map<Shape, int64_t>> expected_;
  // The server of an ended part that was heard of last: what it said still comes in, late.
  std::map<PartId, uint32_t> ended_;
  std::optional<Time> began_, looked_, shared_;
  size_t shared_by_ = 0;  // servers that were there then
  // So many have reported since servers were looked at, and so many were there then.
  size_t fresh_ = 0, awaited_ = 0;
  Time round_began_{};     // when the first of them did
  bool newcomer_ = false;  // one of them for the first time
  uint64_t next_ = 1;
  uint64_t asked_moves_ = 0, forgotten_ = 0;
};

}  // namespace harrow::supervisor
