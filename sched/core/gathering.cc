// Tasks of several nodes (gangs). A gang is sent when enough nodes have room for its part, after the others
// have taken what they can. The nodes that have its input go first, then those where the least is left: so
// little is broken up.
//
// Where one ends, its cores get free together, and are given to those that wait for them before others take
// them one by one: to those that room is kept for, else to the next, where nothing that is ready is of a
// higher priority or lower bound, or level where levels count. Gangs so come after gangs, and little has to be gathered; and
// tasks of one node are left for the end, when they can fill what is free. What gangs are given so is in
// advance of their turn, and made up for: the next has to wait for as much more before room is kept for it.
// One that is larger than what ended does not: it gains nothing by it.
//
// So that it does not wait for ever, the first of them by the order is set apart, and the cores given to
// others from then on (tasks of one node, and gangs behind it) are counted; those behind it may go before it,
// where they fit. When what was given comes to what the gang itself asks for, nodes are chosen for it, and
// each keeps room for its part: those that have its input, then those that are expected to have the room
// first. It is sent as soon as all of them have it, or others. Room is chosen and kept for all its parts at
// once, and a node keeps no more than it has: so several gangs may gather side by side, and none of them can
// wait for what another one keeps. On a node that keeps room for several the one that was set apart earlier
// comes first.
//
// A gang so waits for the longest of the tasks that ran when its nodes were chosen, at most. What its nodes
// have free until then is lent to tasks that will have ended by the time at which it is expected to begin:
// those with a time limit by that, others by the mean run time of what has run of their level and lane. That
// mean says, too, when those end that run now; one that has run for longer, or of which nothing is known, is
// expected to go on for an eighth of the time that it has run, so that little can be lent beside what is new
// and much beside what takes long. That is looked at again when half of the time has gone.
//
// A node of which something is kept is sent nothing ahead: its agent would begin it in the free room. When
// one of the nodes goes, is closed or silent, nothing is kept by the others either, and all are chosen anew;
// the gang keeps its place. One that asks for more nodes than are there, or for more time than is left, is
// not in the way of others.

#include "core/gathering.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace harrow::core {
namespace {

constexpr size_t kMostGathered = 16;
// Where there are more nodes, so many are looked at when it is chosen which keep room, or more for a gang of
// many nodes.
constexpr uint32_t kLookedAt = 256;
// Of the slots of all nodes: so often as many cores gangs may be given in advance.
constexpr uint64_t kWavesAhead = 4;
constexpr int kOverrun = 8;
constexpr Duration kSoonest = std::chrono::milliseconds(10);

}  // namespace

void Gathering::CheckGathering() {
  const std::vector<TaskId> apart = queues.apart();
  for (TaskId id : apart) {
    const order::LaneId lane = tasks[id].lane();
    if (lanes.barred(lane) || !EnoughNodes(lane)) GiveUpGang(id);
  }
}

// --- which is next

/// Gangs of that lane are not taken until LetIn().
void Gathering::LeaveOut(order::LaneId lane) {
  lanes.SetBarred(lane, true);
  left_out_.push_back(lane);
}

void Gathering::LetIn() {
  for (order::LaneId lane : left_out_) lanes.SetBarred(lane, false);
  left_out_.clear();
}

/// The first by the order of lanes that are not left out, set apart. Lanes that ask for more nodes than are
/// there are left out from then on.
TaskId Gathering::TakeNext() {
  for (;;) {
    const order::Room any(lanes.table(), {.slots = UINT32_MAX, .devices = UINT32_MAX, .memory = 0},
                          {.slots = UINT32_MAX, .devices = UINT32_MAX, .memory = 0, .idle = true});
    const TaskId id = queues.TakeGang(any).task;
    if (!id) return {};
    if (EnoughNodes(tasks[id].lane())) {
      queues.SetApart(id);
      return id;
    }
    queues.Return(id);
    LeaveOut(tasks[id].lane());
  }
}

void Gathering::FindFirst() {
  gangs.SetFirst(TakeNext());
  LetIn();
}

// --- sending

bool Gathering::SendGangs() {
  for (NodeId id : nodes.touched()) UpdateFree(id);
  bool some = false;
  while (!full()) {
    if (SendGathered()) {
      some = true;
      continue;
    }
    if (!gangs.first()) FindFirst();
    if (!gangs.first()) {
      gangs.Looked();
      return some;
    }
    if (SendNext()) {
      some = true;
      continue;
    }
    if (!gangs.impatient(GangPatience()) || !MayGather()) {
      gangs.Looked();
      return some;
    }
    gangs.GatherFirst();
    some |= KeepRoom(gangs.gathered().size() - 1);
  }
  return some;
}

void Gathering::SendSuccessors() {
  uint64_t let_go = gangs.TakeLetGo();
  if (let_go == 0) return;
  for (NodeId id : nodes.touched()) UpdateFree(id);
  while (!full()) {
    if (SendGathered()) continue;
    if (!gangs.first()) FindFirst();
    const TaskId id = gangs.first();
    if (!id || let_go == 0) return;
    const uint64_t cores = GangPatience();
    if (cores > let_go) return gangs.ForgetAdvance();
    if (gangs.advance() + cores > kWavesAhead * nodes.open_slots()) return;
    std::vector<NodeId> members = ChooseMembers(id);
    if (members.empty() || OthersFirst(id, members)) return;
    let_go -= cores;
    gangs.Advance(cores);
    SendGang(id, std::move(members));
  }
}

/// Whether a task that those nodes could be given is more urgent, or comes before it by its level.
bool Gathering::OthersFirst(TaskId id, const std::vector<NodeId>& members) const {
  const order::Urgency urgency = tasks.cards().urgency(id);
  const Level level = tasks[id].level();
  const bool by_level = queues.order().by_level();
  const auto has_one = [&](const order::ReadyQueue& queue) {
    return std::any_of(queue.buckets().begin(), queue.buckets().end(), [&](const order::Bucket& bucket) {
      return bucket.live > 0 && (bucket.urgency > urgency ||
                                 (bucket.urgency == urgency && by_level && bucket.level > level));
    });
  };
  return has_one(queues.remote()) || std::any_of(members.begin(), members.end(),
                                                 [&](NodeId node) { return has_one(queues.of_node(node)); });
}

/// One that room is kept for. Those whose nodes are to be chosen anew get others.
bool Gathering::SendGathered() {
  for (size_t which = 0; which < gangs.gathered().size(); ++which) {
    const TaskId id = gangs.gathered()[which].task;
    if (std::vector<NodeId> members = ChooseMembers(id); !members.empty()) {
      SendGang(id, std::move(members));
      return true;
    }
    if (gangs.gathered()[which].nodes.empty() && KeepRoom(which)) return true;
  }
  return false;
}

/// The next, or one behind it that fits where that does not.
bool Gathering::SendNext() {
  bool sent = false;
  for (TaskId id = gangs.first(); id && !sent; id = TakeNext()) {
    std::vector<NodeId> members = ChooseMembers(id);
    sent = !members.empty();
    if (sent) {
      const bool first = id == gangs.first();
      SendGang(id, std::move(members));
      if (!first) gangs.CountOvertaken(graph.profile(id).all_cores(), GangPatience());
      break;
    }
    if (id != gangs.first()) queues.Return(id);
    LeaveOut(tasks[id].lane());
  }
  LetIn();
  return sent;
}

/// All that is kept is not too much of what is there, but for one.
bool Gathering::MayGather() const {
  const std::vector<Gangs::Gathered>& gathered = gangs.gathered();
  if (gathered.empty()) return true;
  const bool to_be_chosen =
      std::any_of(gathered.begin(), gathered.end(), [](const auto& gang) { return gang.nodes.empty(); });
  return !to_be_chosen && gathered.size() < kMostGathered &&
         gangs.kept_slots() + GangPatience() <= nodes.open_slots() / 2;
}

bool Gathering::KeepRoom(size_t which) {
  std::vector<NodeId> chosen = ChooseToKeep(gangs.gathered()[which].task);
  if (chosen.empty()) return false;
  KeepForGang(which, std::move(chosen));
  ExpectAll(which);
  return true;
}

// --- choosing nodes

/// What of a node a gang may have (`own`; null: one that is not gathered): all that is free but what is kept
/// for gangs that come before it. What these need only when it will have ended, at `until`, is lent to it.
order::Room::Free Gathering::LeftFor(NodeId id, const Gangs::Gathered* own, Time until) const {
  order::Room::Free left = nodes[id].left();
  if (!gangs.Keeps(id)) return left;
  for (const Gangs::Gathered& gang : gangs.gathered()) {
    if (&gang == own) break;
    const size_t at = gang.Find(id);
    if (at == gang.nodes.size()) continue;
    if (until > gang.begins) Gangs::Deduct(gang.parts[at], &left);
  }
  return left;
}

/// Ascending.
std::vector<NodeId> Gathering::NodesWithRoom(TaskId id) const {
  const order::Lane& lane = lanes[tasks[id].lane()];
  const Gangs::Gathered* const own = gangs.Find(id);
  const Duration longest = Longest(id);
  const Time until = longest == Duration::max() ? Time::max() : now + longest;
  const place::FreeNodes& free = nodes.free();
  std::vector<NodeId> found;
  for (uint32_t slots = free.largest(); slots >= lane.cores; --slots) {
    for (NodeId node : free.With(slots)) {
      if (gangs.keeps() && gangs.Keeps(node)) continue;
      if (order::Room::FitsFree(lane, nodes[node].total(), nodes[node].left())) found.push_back(node);
    }
  }
  for (const Gangs::Gathered& gang : gangs.gathered()) {
    for (NodeId node : gang.nodes) {
      const bool kept = &gang == own ? suspects.Waits(node) : Kept(node);
      if (!kept && order::Room::FitsFree(lane, nodes[node].total(), LeftFor(node, own, until)))
        found.push_back(node);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// Notes which of the nodes have most of its input.
void Gathering::ByInput(TaskId id, const std::vector<NodeId>& among) {
  with_input_.clear();
  if (!options.locality || graph.inputs(id).empty()) return;
  const std::span<const NodeId> have = replicas.Candidates(
      id, [&](NodeId node) { return std::binary_search(among.begin(), among.end(), node); });
  with_input_.assign(have.begin(), have.end());
  std::sort(with_input_.begin(), with_input_.end());
}

bool Gathering::HasInput(NodeId id) const {
  return std::binary_search(with_input_.begin(), with_input_.end(), id);
}

/// The lead node first: one that has its input, else the lowest. The others ascend.
std::vector<NodeId> Gathering::ChooseMembers(TaskId id) {
  const uint32_t wanted = lanes[tasks[id].lane()].nodes;
  std::vector<NodeId> found = NodesWithRoom(id);
  if (found.size() < wanted) return {};
  ByInput(id, found);
  const Gangs::Gathered* const own = gangs.Find(id);
  const auto key = [&](NodeId node) {
    return std::tuple(!HasInput(node), own == nullptr || !own->Has(node), FreeForAll(node), node);
  };
  std::partial_sort(found.begin(), found.begin() + wanted, found.end(),
                    [&](NodeId a, NodeId b) { return key(a) < key(b); });
  found.resize(wanted);
  std::sort(found.begin(), found.end(),
            [&](NodeId a, NodeId b) { return std::tuple(!HasInput(a), a) < std::tuple(!HasInput(b), b); });
  std::sort(found.begin() + 1, found.end());
  return found;
}

std::vector<NodeId> Gathering::ChooseToKeep(TaskId id) {
  struct Choice {
    bool no_input, in_the_way;
    Time free_at;
    uint32_t used;
    NodeId node;
    auto operator<=>(const Choice&) const = default;
  };
  const order::LaneId lane = tasks[id].lane();
  const uint32_t wanted = lanes[lane].nodes;
  const size_t most = std::max<size_t>(kLookedAt, size_t{4} * wanted);
  std::vector<NodeId> able;
  for (uint32_t i = 0; i < nodes.size() && able.size() < most; ++i) {
    const NodeId node((first_looked_at_ + i) % nodes.size());
    if (lanes.FitsOpen(lane, nodes[node]) && FitsBesideKept(lane, node)) able.push_back(node);
  }
  if (able.size() < wanted) return {};
  if (able.size() == most) first_looked_at_ = able.back().value + 1;
  std::sort(able.begin(), able.end());
  ByInput(id, able);
  std::vector<Choice> choices;
  for (NodeId node : able) {
    NodeCapacity needed = NodeTable::PartOf(lanes[lane], nodes[node].total());
    needed += gangs.kept(node);
    const order::LaneId hold = holds.lane(node);
    const bool in_the_way =
        suspects.Waits(node) || (hold != order::kNoLane && !FitsBesideKept(hold, node, needed));
    choices.push_back({!HasInput(node), in_the_way, FreeAt(node, needed), nodes[node].used_slots(), node});
  }
  std::partial_sort(choices.begin(), choices.begin() + wanted, choices.end());
  std::vector<NodeId> chosen;
  for (uint32_t i = 0; i < wanted; ++i) chosen.push_back(choices[i].node);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// --- when

Time Gathering::ExpectedEnd(TaskId id) const {
  const order::LaneId lane = tasks[id].lane();
  const Time since = run_times.since(id);
  const Duration so_far = now - since;
  const Duration mean = run_times.Mean(tasks[id].level(), lane).value_or(Duration(0));
  const Duration expected = mean > so_far ? mean : so_far + so_far / kOverrun;
  const Duration limit = lanes[lane].time_limit;
  return since + (limit.count() > 0 ? std::min(expected, limit) : expected);
}

Duration Gathering::Longest(TaskId id) const {
  const order::LaneId lane = tasks[id].lane();
  if (lanes[lane].time_limit.count() > 0) return lanes[lane].time_limit;
  return run_times.Mean(tasks[id].level(), lane).value_or(Duration::max());
}

/// When the node is expected to have so much free; Time::min(): it has.
Time Gathering::FreeAt(NodeId id, const NodeCapacity& wanted) const {
  const Node& node = nodes[id];
  NodeCapacity used = node.used();
  if (node.total().HasRoom(used, wanted)) return Time::min();
  std::vector<std::pair<Time, order::LaneId>> ends;
  for (TaskId task : node.in_flight()) {
    if (!tasks[task].ahead()) ends.emplace_back(ExpectedEnd(task), tasks[task].lane());
  }
  for (TaskId task : gangs.followers(id)) ends.emplace_back(ExpectedEnd(task), tasks[task].lane());
  std::sort(ends.begin(), ends.end());
  for (const auto& [end, lane] : ends) {
    used -= NodeTable::PartOf(lanes[lane], node.total());
    if (node.total().HasRoom(used, wanted)) return end;
  }
  return now;  // it holds more than what is known to run there
}

void Gathering::ExpectAll(size_t which) {
  const Gangs::Gathered& gang = gangs.gathered()[which];
  for (size_t i = 0; i < gang.nodes.size(); ++i)
    gangs.Expect(which, i, FreeAt(gang.nodes[i], gangs.kept(gang.nodes[i])));
  gangs.SumUp(which);
  gangs.SetAgain(which, now + (gang.begins > now ? std::max(kSoonest, (gang.begins - now) / 2) : kSoonest));
}

void Gathering::ExpectParts() {
  for (size_t which = 0; which < gangs.gathered().size(); ++which) {
    const Gangs::Gathered& gang = gangs.gathered()[which];
    if (gang.nodes.empty()) continue;
    const Time before = gang.begins;
    if (now >= gang.again) {
      ExpectAll(which);
    } else {
      bool some = false;
      for (NodeId id : nodes.touched()) {
        const size_t at = gang.Find(id);
        if (at == gang.nodes.size()) continue;
        gangs.Expect(which, at, FreeAt(id, gangs.kept(id)));
        some = true;
      }
      if (some) gangs.SumUp(which);
    }
    // More may be lent.
    for (size_t i = 0; gang.begins > before && i < gang.nodes.size(); ++i) nodes.Touch(gang.nodes[i]);
  }
}

order::Pick Gathering::TakeForGap(NodeId id, TakenFrom* from) {
  std::vector<Time> untils;
  for (const Gangs::Gathered& gang : gangs.gathered()) {
    if (gang.begins > now && gang.Has(id)) untils.push_back(gang.begins);
  }
  // The longest gap first: in the others there is more room.
  std::sort(untils.rbegin(), untils.rend());
  untils.erase(std::unique(untils.begin(), untils.end()), untils.end());
  for (const Time until : untils) {
    const order::Room::Free left = LeftFor(id, nullptr, until);
    if (left.slots == 0) continue;
    uint64_t in_time = 0;
    const size_t count = std::min<size_t>(lanes.size(), order::LaneTable::kInSets);
    for (size_t n = 0; n < count; ++n) {
      const auto lane = static_cast<order::LaneId>(n);
      if (lanes.gang(lane) || !queues.Reachable(lane, id) || lanes[lane].time_limit > until - now) continue;
      in_time |= uint64_t{1} << n;
    }
    while (in_time != 0) {
      order::Room room(lanes.table(), nodes[id].total(), left);
      room.Only(in_time);
      NodeId at = id;
      *from = TakenFrom::kNodeQueue;
      order::Pick pick = queues.TakeFromNode(id, room);
      if (!pick.task) {
        at = NodeId();
        *from = TakenFrom::kRemoteQueue;
        pick = queues.TakeFromRemote(room);
      }
      if (!pick.task && options.steal) {
        *from = TakenFrom::kSteal;
        pick = queues.Steal(id, room, &at);
      }
      if (!pick.task) break;
      if (Longest(pick.task) <= until - now) return {pick.task, order::kNoLane};
      queues.Return(pick.task, at);
      in_time &= ~(uint64_t{1} << tasks[pick.task].lane());
    }
  }
  return {};
}

}  // namespace harrow::core
