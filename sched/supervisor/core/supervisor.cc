// What a supervisor believes of a queue is what its server has told, corrected by the moves that the server
// could not know of when it told. A move is open from the request until the taker tells that it has the
// tasks, or the giver that it gave none:
//
//     asked      the giver has not told that it has taken the request up: its queue holds tasks that will go,
//                and the taker's will grow by as many
//     offered    the giver has told how many are on their way: they are in no queue that is told
//     over       the taker has told the move as taken, or the giver has taken the request up and offers
//                nothing for it, or one of both has ended
//
// Reports come late, twice and in any order. Queues are taken from the newest of a server only; that it has
// taken a move is true whenever it was said. A move that nobody speaks of is forgotten after a while: that
// makes numbers wrong for one report, and no task is in danger, as what is owned by whom does not depend on
// what is believed here.
//
// Servers are looked at together, once a round, each shape of tasks for itself: what each server should have
// is by Desired(), who gives to whom by PairUp(). Beyond the paper a pair then moves only as many as begin
// sooner than they would where they are. A giver with L ready tasks begins R of them in a second, so that the
// last comes after L / R; at the taker one begins when it has come, and when those before it have begun
// there. What each should have is then of all that it has, running tasks included: of two servers with no
// ready task the one with idle slots comes first. Each task that goes lets the giver's last one begin 1 / R
// sooner, and takes the time of its files. Which tasks go, and what would have to be copied for these, the giver alone knows: it is told
// what their move saves (Saving), and gives those of which that is more.
//
// Where tasks are placed by what they cost, each server models what it has, and tells what that is by the model, and what it turned out to be of
// tasks that have ended: what any of them has learnt of a kind counts for all. Whoever has much less of it than its nodes could do gets whole
// groups (MoveRequest::share), all servers that have too little at once; no single task is moved then but to a slot that has nothing, as it
// would be cut from what it reads. A task may have a slot for much longer than it computes: slots that have nothing are not told to be
// worth a move by the model alone.
//
// Beyond the paper, too: where a server has slots without tasks and nothing ready comes to it, what runs at a slower one and writes checkpoints goes
// there, if that pays. It pays when the task would be over sooner by more than the time for which it stands, and by a tenth of what is
// left: what is left is a guess, and a task is not to go to and fro. One task a request, as each leaves its node at a time of its own.

#include "supervisor/core/supervisor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/text.h"

namespace harrow::supervisor {
namespace {

const QueueState* QueueOf(const Report& report, const Shape& shape) {
  for (const QueueState& queue : report.queues) {
    if (queue.shape == shape) return &queue;
  }
  return nullptr;
}

/// Tasks that a server begins in a second; 0: it is not known.
double RateOf(const QueueState& queue) {
  return queue.mean > Duration(0) ? queue.workers / Seconds(queue.mean) : 0;
}

/// So many begin sooner elsewhere.
uint64_t WorthMoving(const Saving& saving) {
  return saving.last > Duration(0) ? static_cast<uint64_t>(saving.last / std::max(saving.each, Duration(1))) : 0;
}

bool Newer(const Report& a, const Report& b) {
  return std::pair(a.server_epoch, a.number) > std::pair(b.server_epoch, b.number);
}

bool Contains(const std::vector<MoveId>& ids, const MoveId& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

[[noreturn]] void Raise(const std::string& text) {
  throw std::logic_error(text);
}

}  // namespace

void Supervisor::Handle(Time now, const Event& event, std::vector<Action>* actions) {
  if (!began_) began_ = now;
  std::visit([&](const auto& e) { On(now, e); }, event);
  if (superseded_ || !RoundIsOver(now)) return;
  Forget(now);
  Balance(now, actions);
}

void Supervisor::On(Time now, const Reported& event) {
  const Report& report = event.report;
  if (report.obeys > epoch_ || IsAnothers({report.obeys, report.handled})) superseded_ = true;
  for (const MoveId& id : report.taken) Close(id);
  const auto ended = ended_.find(report.part);
  if (ended != ended_.end() && report.server_epoch <= ended->second) return;
  Part& part = parts_[report.part];
  if (part.report.part && !Newer(report, part.report)) return;
  newcomer_ |= !part.report.part;
  if (!part.fresh && fresh_++ == 0) round_began_ = now;
  part.report = report;
  part.heard = now;
  part.fresh = true;
  Learn(now, report);
}

/// One before it had its epoch, and died before that was known: others obey no number again, and open moves could have the same.
bool Supervisor::IsAnothers(const MoveId& id) const {
  return id.epoch == epoch_ && id.number >= next_;
}

void Supervisor::Learn(Time now, const Report& report) {
  std::set<MoveId> offered;
  for (const Offer& offer : report.offers) {
    offered.insert(offer.id);
    if (IsAnothers(offer.id)) {
      superseded_ = true;
      continue;
    }
    const auto taker = parts_.find(offer.to);
    if (taker != parts_.end() && Contains(taker->second.report.taken, offer.id)) continue;
    if (ended_.contains(offer.to) && taker == parts_.end()) continue;
    if (offer.to == report.part) continue;
    Open(offer.id, {report.part, offer.to, offer.shape, offer.count, offer.waiting, offer.running, offer.shared, true, now});
  }
  if (report.obeys != epoch_) return;
  for (const MoveId& id : std::vector<MoveId>(parts_.at(report.part).giving)) {
    if (id.epoch == epoch_ && id.number <= report.handled && !moves_.at(id).offered && !offered.contains(id))
      Close(id);
  }
}

void Supervisor::On(Time, const PartEnded& event) {
  const auto part = parts_.find(event.part);
  uint32_t& ended = ended_[event.part];
  ended = std::max(ended, event.server_epoch);
  if (part != parts_.end()) ended = std::max(ended, part->second.report.server_epoch);
  std::vector<MoveId> over;
  for (const auto& [id, move] : moves_) {
    if (move.from == event.part || move.to == event.part) over.push_back(id);
  }
  for (const MoveId& id : over) Close(id);
  if (part == parts_.end()) return;
  fresh_ -= part->second.fresh ? 1 : 0;
  if (part->second.report.part && awaited_ > 0) --awaited_;
  parts_.erase(part);
  expected_.erase(event.part);
}

void Supervisor::Count(const Move& move, int sign) {
  if (move.waiting || move.running || move.shared) return;
  const auto count = sign * static_cast<int64_t>(move.count);
  expected_[move.to][move.shape] += count;
  if (!move.offered) expected_[move.from][move.shape] -= count;
}

void Supervisor::Open(const MoveId& id, const Move& move) {
  Close(id);
  moves_[id] = move;
  parts_[move.from].giving.push_back(id);
  Count(move, 1);
}

void Supervisor::Close(const MoveId& id) {
  const auto found = moves_.find(id);
  if (found == moves_.end()) return;
  Count(found->second, -1);
  std::erase(parts_[found->second.from].giving, id);
  moves_.erase(found);
}

void Supervisor::Forget(Time now) {
  std::vector<MoveId> old;
  for (const auto& [id, move] : moves_) {
    if (now - move.told > options_.forget) old.push_back(id);
  }
  forgotten_ += old.size();
  for (const MoveId& id : old) Close(id);
}

bool Supervisor::RoundIsOver(Time now) const {
  return fresh_ > 0 && (newcomer_ || fresh_ >= awaited_ || now - round_began_ >= options_.period);
}

/// Tasks that it begins in a second: measured, else as another one by their capacities, else no more than that; 0: nobody knows.
double Supervisor::RateAt(const Part& part, const QueueState& queue) const {
  if (RateOf(queue) > 0) return RateOf(queue);
  for (const auto& [id, other] : parts_) {
    const QueueState* known = QueueOf(other.report, queue.shape);
    if (known != nullptr && RateOf(*known) > 0 && known->capacity > 0 && id != part.report.part)
      return RateOf(*known) * CapacityOf(part, queue) / CapacityOf(other, *known);
  }
  return queue.mean_at_least > Duration(0) ? queue.workers / Seconds(queue.mean_at_least) : 0;
}

Side Supervisor::SideOf(const Part& part, const Shape& shape) const {
  Side side;
  const QueueState* queue = QueueOf(part.report, shape);
  const int64_t ready =
      static_cast<int64_t>(queue == nullptr ? 0 : queue->ready) + Expected(part.report.part, shape);
  side.ready = static_cast<uint64_t>(std::max<int64_t>(0, ready));
  if (queue == nullptr || part.report.draining) return side;
  side.capacity = CapacityOf(part, *queue);
  side.workers = queue->workers;
  if (options_.worth_only && part.report.ends_in) {
    const double rate = RateAt(part, *queue);
    // What begins too late to end in time counts as much as what does not begin; the report is old already.
    if (rate > 0)
      side.most = std::max(0.0, (Seconds(*part.report.ends_in - 2 * part.report.delay)) * rate - queue->workers);
  }
  return side;
}

int64_t Supervisor::Expected(PartId part, const Shape& shape) const {
  const auto of_part = expected_.find(part);
  if (of_part == expected_.end()) return 0;
  const auto of_shape = of_part->second.find(shape);
  return of_shape == of_part->second.end() ? 0 : of_shape->second;
}

/// From now until its tasks have come: the request, and the offer.
Duration Supervisor::MoveTime(const Part& from, const Part& to) const {
  return 2 * from.report.delay + to.report.delay;
}

/// `left`: ready at the giver; `at_taker`: that are there, or come before these. None: nothing is known of it, and all may go.
std::optional<Saving> Supervisor::SavingOf(const Part& from, const Part& to, const Shape& shape, double left, double at_taker) const {
  const QueueState* giver = QueueOf(from.report, shape);
  const QueueState* taker = QueueOf(to.report, shape);
  if (giver == nullptr || taker == nullptr || from.report.draining || RateAt(from, *giver) <= 0 ||
      taker->workers == 0)
    return {};
  const double rate = RateAt(from, *giver);
  const double there = RateAt(to, *taker);
  const double come = Seconds(MoveTime(from, to));
  const double begins = there > 0 ? std::max(come, at_taker / there) : come;
  constexpr double kMost = 1e9;
  return Saving{.last = FromSeconds(std::clamp(left / rate - begins, -kMost, kMost)), .each = FromSeconds(std::min(1 / rate, kMost))};
}

void Supervisor::Balance(Time now, std::vector<Action>* actions) {
  looked_ = now;
  fresh_ = awaited_ = 0;
  newcomer_ = false;
  std::vector<PartId> present;
  std::set<Shape> shapes;
  for (auto& [id, part] : parts_) {
    part.fresh = false;
    if (!part.report.part || now - part.heard > options_.silence) continue;
    present.push_back(id);
    ++awaited_;
    for (const QueueState& queue : part.report.queues) shapes.insert(queue.shape);
  }
  if (present.size() < 2) return;
  MeasureSpeeds(present);
  bool busy = false;
  const bool by_costs = BalanceWork(now, present, &busy, actions);
  for (const Shape& shape : shapes) {
    if (!busy) BalanceShape(now, shape, present, by_costs, actions);
  }
  if (options_.worth_only) {
    for (const Shape& shape : shapes) GiveRunning(now, shape, present, actions);
  }
  GiveWaiting(now, present, actions);
}

/// The time that a server's tasks would have taken at the average server, against the time that they took: kinds that one alone
/// has had tell nothing, and a mixture of long and short ones makes nobody slow.
void Supervisor::MeasureSpeeds(const std::vector<PartId>& present) {
  constexpr double kEnough = 30;  // tasks
  std::map<uint32_t, Pace> all;
  for (const PartId id : present) {
    for (const Pace& pace : parts_.at(id).report.paces) {
      Pace& sum = all[pace.kind];
      sum.count += pace.count;
      sum.seconds += pace.seconds;
    }
  }
  for (const PartId id : present) {
    Part& part = parts_.at(id);
    double count = 0, took = 0, average = 0;
    for (const Pace& pace : part.report.paces) {
      count += pace.count;
      took += pace.seconds;
      const Pace& sum = all.at(pace.kind);
      if (sum.count > 0) average += pace.count * sum.seconds / sum.count;
    }
    part.speed = count >= kEnough && took > 0 && average > 0 ? average / took : 1;
  }
}

/// Slots with nothing.
uint64_t Supervisor::IdleOf(const Report& report) {
  uint64_t busy = 0, workers = 0;
  for (const QueueState& queue : report.queues) {
    busy += queue.in_flight + queue.ready;
    workers = std::max<uint64_t>(workers, queue.workers);
  }
  return workers - std::min(busy, workers);
}

/// At all of them together. A kind of which none has ended anywhere is as far from its model as others, on average (their geometric mean).
Supervisor::Factors Supervisor::FactorsOf(const std::vector<PartId>& present) const {
  std::map<uint32_t, KindWork> all;
  for (const PartId id : present) {
    const Report& report = parts_.at(id).report;
    if (!report.works) continue;
    for (const KindWork& work : *report.works) {
      all[work.kind].ended += work.ended;
      all[work.kind].seconds += work.seconds;
    }
  }
  Factors factors;
  double logs = 0;
  for (const auto& [kind, work] : all) {
    if (!(work.ended > 0) || !(work.seconds > 0)) continue;
    factors.of_kind[kind] = work.seconds / work.ended;
    logs += std::log(work.seconds / work.ended);
  }
  if (!factors.of_kind.empty()) factors.of_others = std::exp(logs / static_cast<double>(factors.of_kind.size()));
  return factors;
}

bool Supervisor::BalanceWork(Time now, const std::vector<PartId>& present, bool* busy, std::vector<Action>* actions) {
  constexpr double kLow = 0.5;    // of what it should have
  constexpr double kIdle = 0.9;   // the same of one that has slots with nothing
  constexpr double kLeast = 0.02; // of what all have: less is not worth a look
  struct Working {
    PartId id;
    double work = 0, should = 0;  // seconds of nodes of the same speed
    double most = std::numeric_limits<double>::infinity();  // what it can begin before its end
  };
  const Factors factors = FactorsOf(present);
  const auto seconds_of = [&](const std::vector<KindWork>& works) {
    double seconds = 0;
    for (const KindWork& each : works) {
      const auto factor = factors.of_kind.find(each.kind);
      seconds += each.waiting * (factor == factors.of_kind.end() ? factors.of_others : factor->second);
    }
    return seconds;
  };
  std::vector<Working> all;
  double work = 0, power = 0;
  for (const PartId id : present) {
    const Part& part = parts_.at(id);
    const bool has_nodes = std::any_of(part.report.queues.begin(), part.report.queues.end(), [](const QueueState& queue) { return queue.workers > 0; });
    if (!part.report.works && !has_nodes) continue;
    if (!part.report.works) return false;
    if (part.report.draining) continue;
    all.push_back({id, seconds_of(*part.report.works), part.report.power * part.speed});
    if (part.report.ends_in)
      all.back().most = all.back().should * std::max(0.0, Seconds(*part.report.ends_in - 2 * part.report.delay));
    work += all.back().work;
    power += all.back().should;
  }
  // One that is silent holds up nobody else.
  const auto is_present = [&](PartId id) { return std::find(present.begin(), present.end(), id) != present.end(); };
  const auto open = std::any_of(moves_.begin(), moves_.end(), [&](const auto& each) {
    return each.second.shared && is_present(each.second.from) && is_present(each.second.to);
  });
  if (open) *busy = true;
  // One that has come meanwhile is not made to wait.
  const Duration pause = 20 * options_.period;
  const bool pauses = shared_ && now - *shared_ < pause && all.size() <= shared_by_;
  if (open || all.size() < 2 || !(work > 0) || !(power > 0) || pauses) return true;
  // The last of what is ready begins so late where it is, by what such tasks have taken.
  double longest = 0;
  for (const Working& each : all) {
    for (const QueueState& queue : parts_.at(each.id).report.queues) {
      if (RateOf(queue) > 0) longest = std::max(longest, static_cast<double>(queue.ready) / RateOf(queue));
    }
  }
  bool fires = false;
  for (Working& each : all) {
    each.should *= work / power;
    const Part& part = parts_.at(each.id);
    const double late = (each.should - each.work) / (part.report.power * part.speed);
    const bool idle = IdleOf(part.report) > 0;
    const double waits = idle ? std::max(late, longest) : late;
    const bool worth = part.report.power > 0 && waits > 4 * Seconds(part.report.delay);
    fires |= worth && each.work < each.most && each.work < (idle ? kIdle : kLow) * each.should;
  }
  if (!fires) return true;
  const auto excess = [](const Working& each) { return each.work - each.should; };
  const auto less = [&](const Working& a, const Working& b) { return excess(a) < excess(b); };
  const auto takes_less = [&](const Working& a, const Working& b) {
    return std::max(excess(a), a.work - a.most) < std::max(excess(b), b.work - b.most);
  };
  for (size_t pairs = 1; pairs < all.size(); ++pairs) {
    Working& to = *std::min_element(all.begin(), all.end(), takes_less);
    Working& from = *std::max_element(all.begin(), all.end(), less);
    const double seconds = std::min({excess(from), -excess(to), to.most - to.work});
    if (!(seconds > kLeast * work / static_cast<double>(all.size()))) break;
    Ask(now, {.from = from.id, .to = to.id, .count = 1, .share = seconds / from.work}, actions);
    from.work -= seconds;
    to.work += seconds;
    shared_ = now;
    shared_by_ = all.size();
    *busy = true;
  }
  return true;
}

/// What is ready there, and would begin last, saves too little for what would have to be copied, wherever it went.
bool Supervisor::IsTooDear(const Part& part, const Shape& shape) const {
  const QueueState* const queue = QueueOf(part.report, shape);
  if (queue == nullptr || queue->dear <= Duration(0) || part.report.draining) return false;
  const Side side = SideOf(part, shape);
  const double rate = RateAt(part, *queue);
  const auto ready = static_cast<double>(side.ready);
  return ready > 0 && rate > 0 && ready / rate < Seconds(queue->dear) && ready <= side.most;
}

void Supervisor::BalanceShape(Time now, const Shape& shape, std::vector<PartId> present, bool by_costs,
                              std::vector<Action>* actions) {
  // Who gives none has what it needs, and others are asked.
  if (options_.worth_only) std::erase_if(present, [&](PartId id) { return IsTooDear(parts_.at(id), shape); });
  std::vector<Side> sides;
  std::vector<uint64_t> idle;
  bool drains = false;
  for (const PartId id : present) {
    sides.push_back(SideOf(parts_.at(id), shape));
    drains |= parts_.at(id).report.draining && sides.back().ready > 0;
    const QueueState* queue = QueueOf(parts_.at(id).report, shape);
    const uint64_t has = sides.back().ready + (queue == nullptr ? 0 : queue->in_flight);
    idle.push_back(std::min(IdleOf(parts_.at(id).report), sides.back().workers - std::min<uint64_t>(has, sides.back().workers)));
  }
  if (by_costs && !drains && std::all_of(idle.begin(), idle.end(), [](uint64_t each) { return each == 0; })) return;
  if (!drains && !Fires(sides, options_.trigger, options_.alpha)) return;
  for (const Pair& pair : PairUp(AmountsOf(shape, present, sides))) {
    const Part& from = parts_.at(present[pair.from]);
    const Part& to = parts_.at(present[pair.to]);
    MoveRequest request = {
        .from = present[pair.from], .to = present[pair.to], .shape = shape, .count = pair.count};
    if (options_.worth_only) {
      request.saving = SavingOf(from, to, shape, static_cast<double>(sides[pair.from].ready), static_cast<double>(sides[pair.to].ready));
      if (request.saving) {
        // What it cannot begin before its end is better off anywhere.
        const double late = static_cast<double>(sides[pair.from].ready) - sides[pair.from].most;
        request.saving->late = late > 0 ? static_cast<uint64_t>(late) : 0;
        request.count = std::min(request.count, std::max(WorthMoving(*request.saving), request.saving->late));
      } else if (!from.report.draining) {
        request.saving = Saving{};  // nobody knows: those go for which nothing is copied
      }
      const QueueState* giver = QueueOf(from.report, shape);
      if (giver != nullptr && !from.report.draining)
        request.keep = static_cast<uint64_t>(RateOf(*giver) * Seconds(from.report.delay + to.report.delay));
    }
    if (by_costs && !from.report.draining) {
      request.count = std::min(request.count, idle[pair.to]);
      idle[pair.to] -= request.count;
    }
    if (request.count == 0) continue;
    sides[pair.from].ready -= std::min(sides[pair.from].ready, request.count);
    sides[pair.to].ready += request.count;
    Ask(now, request, actions);
  }
}

std::vector<int64_t> Supervisor::AmountsOf(const Shape& shape, const std::vector<PartId>& present,
                                           std::span<const Side> sides) const {
  if (!options_.worth_only) return Amounts(sides, options_.amount);
  std::vector<Side> whole(sides.begin(), sides.end());
  for (size_t i = 0; i < sides.size(); ++i) {
    const Part& part = parts_.at(present[i]);
    const QueueState* queue = QueueOf(part.report, shape);
    if (queue == nullptr || part.report.draining) continue;
    whole[i].ready += queue->in_flight;
    whole[i].most += static_cast<double>(queue->in_flight);
  }
  std::vector<int64_t> amounts = Amounts(whole, options_.amount);
  for (size_t i = 0; i < sides.size(); ++i)
    amounts[i] = std::min(amounts[i], static_cast<int64_t>(sides[i].ready));
  return amounts;
}

bool Supervisor::Pays(const Part& from, const Part& to, const Shape& shape, const Leaver& leaver) const {
  constexpr double kLeast = 0.1;  // of what is left
  const QueueState& giver = *QueueOf(from.report, shape);
  const QueueState& taker = *QueueOf(to.report, shape);
  if (giver.workers == 0 || taker.workers == 0) return false;
  const double here = CapacityOf(from, giver) / giver.workers, there = CapacityOf(to, taker) / taker.workers;
  if (here <= 0 || there <= 0) return false;
  const double left = Seconds(leaver.left), stands = Seconds(leaver.stands + MoveTime(from, to));
  const double over = left * here / there + stands;
  if (to.report.ends_in && over >= Seconds(*to.report.ends_in)) return false;
  return left - over > std::max(stands, kLeast * left);
}

void Supervisor::GiveRunning(Time now, const Shape& shape, const std::vector<PartId>& present, std::vector<Action>* actions) {
  struct Giver {
    const Part* part;
    std::span<const Leaver> leavers;  // that were not asked for in this round
  };
  std::vector<Giver> givers;
  for (const PartId id : present) {
    const Part& part = parts_.at(id);
    const QueueState* const queue = QueueOf(part.report, shape);
    if (queue == nullptr || queue->leavers.empty()) continue;
    // Those that were asked for before are not told as such before the next report.
    const bool asked = std::any_of(part.giving.begin(), part.giving.end(), [&](const MoveId& open) {
      return moves_.at(open).running && !moves_.at(open).offered;
    });
    if (!asked) givers.push_back({&part, queue->leavers});
  }
  if (givers.empty()) return;
  for (const PartId id : present) {
    const Part& to = parts_.at(id);
    const QueueState* const taker = QueueOf(to.report, shape);
    if (taker == nullptr || to.report.draining || taker->ready > 0) continue;
    const auto come = std::count_if(moves_.begin(), moves_.end(), [&](const auto& each) {
      return each.second.running && each.second.to == id && each.second.shape == shape;
    });
    int64_t idle = static_cast<int64_t>(taker->workers) - static_cast<int64_t>(taker->in_flight) - come - std::max<int64_t>(0, Expected(id, shape));
    for (; idle > 0; --idle) {
      Giver* most = nullptr;
      for (Giver& giver : givers) {
        if (giver.part == &to || giver.leavers.empty() || !Pays(*giver.part, to, shape, giver.leavers.front())) continue;
        if (most == nullptr || giver.leavers.front().left > most->leavers.front().left) most = &giver;
      }
      if (most == nullptr) break;
      Ask(now,
          {.from = most->part->report.part, .to = id, .shape = shape, .count = 1, .running = true, .least_left = most->leavers.front().left / 2},
          actions);
      most->leavers = most->leavers.subspan(1);
    }
  }
}

/// What waits for others at a server that is to be empty goes to the largest of those that stay.
void Supervisor::GiveWaiting(Time now, const std::vector<PartId>& present, std::vector<Action>* actions) {
  const auto capacity_of = [&](PartId id) {
    double capacity = 0;
    for (const QueueState& queue : parts_.at(id).report.queues) capacity += CapacityOf(parts_.at(id), queue);
    return capacity;
  };
  PartId largest;
  for (const PartId id : present) {
    if (!parts_.at(id).report.draining && (!largest || capacity_of(id) > capacity_of(largest))) largest = id;
  }
  if (!largest) return;
  for (const PartId id : present) {
    const Part& part = parts_.at(id);
    if (!part.report.draining || part.report.waiting == 0) continue;
    if (std::any_of(part.giving.begin(), part.giving.end(),
                    [&](const MoveId& open) { return moves_.at(open).waiting; }))
      continue;
    Ask(now, {.from = id, .to = largest, .count = part.report.waiting, .waiting = true}, actions);
  }
}

void Supervisor::Ask(Time now, MoveRequest request, std::vector<Action>* actions) {
  request.id = {epoch_, next_++};
  Open(request.id, {request.from, request.to, request.shape, request.count, request.waiting, request.running, request.share > 0, false, now});
  ++asked_moves_;
  actions->push_back(request);
}

std::string Supervisor::FindBroken() const {
  std::map<PartId, std::map<Shape, int64_t>> expected;
  std::map<PartId, size_t> giving;
  for (const auto& [id, move] : moves_) {
    if (move.from == move.to) return StrCat("move ", id.number, " goes nowhere");
    if (id.epoch > epoch_) return StrCat("move ", id.number, " is of a supervisor to come");
    if (id.epoch == epoch_ && id.number >= next_) return StrCat("move ", id.number, " was not asked for");
    if (ended_.contains(move.to) && !parts_.contains(move.to))
      return StrCat("move ", id.number, " goes to a part that has ended");
    const auto from = parts_.find(move.from);
    if (from == parts_.end() || !Contains(from->second.giving, id))
      return StrCat("move ", id.number, " has no giver");
    ++giving[move.from];
    if (move.waiting || move.running || move.shared) continue;
    expected[move.to][move.shape] += static_cast<int64_t>(move.count);
    if (!move.offered) expected[move.from][move.shape] -= static_cast<int64_t>(move.count);
  }
  size_t fresh = 0;
  for (const auto& [id, part] : parts_) {
    fresh += part.fresh ? 1 : 0;
    if (part.report.part != id) return StrCat("part ", id.value, " has not reported");
    if (part.giving.size() != giving[id]) return StrCat("part ", id.value, " gives what nobody knows of");
  }
  if (fresh != fresh_) return "how many have reported";
  for (const auto& [id, of_part] : expected) {
    for (const auto& [shape, count] : of_part) {
      if (Expected(id, shape) != count) return StrCat("part ", id.value, ": what is on its way");
    }
  }
  for (const auto& [id, of_part] : expected_) {
    for (const auto& [shape, count] : of_part) {
      if (count != 0 && expected[id][shape] != count)
        return StrCat("part ", id.value, ": what is said to be on its way");
    }
  }
  return {};
}

void Supervisor::SanityCheck() const {
  // Nothing is meant to catch it: an exception that leaves the lambda ends the process with this text.
  [this]() noexcept {
    if (const std::string broken = FindBroken(); !broken.empty()) Raise("supervisor: " + broken);
  }();
}

}  // namespace harrow::supervisor
