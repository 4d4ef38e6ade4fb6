// Tasks of several whole nodes. They have a queue of their own. The first of them by the order starts when
// enough idle nodes are left after the others have taken what they can; so that it does not wait for ever,
// the cores started meanwhile are counted, and when they come to what the gang itself asks for, the nodes
// with the least to finish are kept for it until all of them are idle. One gang is gathered at a time: two
// could keep nodes from each other. One that asks for more nodes than are there, or for more time than is
// left, is not in the way of others.

#include <algorithm>

#include "core/impl.h"

namespace harrow::core {

/// Cores that may be started before nodes are kept for the gang.
uint64_t Scheduler::Impl::GangPatience() const {
  const uint64_t wanted = lanes[tasks[gathering.value].card.lane].nodes;
  return wanted * (open_slots / std::max(1u, open_nodes));
}

void Scheduler::Impl::CountForGang(uint32_t cores) {
  const uint64_t patience = GangPatience();
  if (gang_overtaken >= patience) return;
  gang_overtaken += cores;
  if (gang_overtaken >= patience) gang_look = true;
}

bool Scheduler::Impl::EnoughNodes(order::LaneId gang) const {
  uint32_t found = 0;
  for (uint32_t n = 0; n < nodes.size() && found < lanes[gang].nodes; ++n)
    found += MayQueueAt(NodeId(n), gang);
  return found == lanes[gang].nodes;
}

/// The first by the order of those that could start if all nodes were idle.
TaskId Scheduler::Impl::NextGang() {
  std::vector<order::LaneId> out_of_reach;
  for (order::LaneId lane = 0; lane < lanes.size(); ++lane) {
    if (!IsGang(lane) || lane_states[lane].ready == 0 || lanes.closed(lane) || EnoughNodes(lane)) continue;
    lanes.SetClosed(lane, true);
    out_of_reach.push_back(lane);
  }
  const order::Room any(lanes, {.slots = UINT32_MAX, .gpus = UINT32_MAX, .memory = 0},
                        {.slots = UINT32_MAX, .gpus = UINT32_MAX, .memory = 0, .idle = true});
  const TaskId next = gangs.Take(*order, cards(), any).task;
  for (order::LaneId lane : out_of_reach) lanes.SetClosed(lane, false);
  return next;
}

/// Nodes or time may have become too few for it meanwhile.
void Scheduler::Impl::CheckGathering() {
  if (!gathering) return;
  const order::LaneId lane = tasks[gathering.value].card.lane;
  if (lanes.closed(lane) || !EnoughNodes(lane)) GiveUpGang(true);
}

void Scheduler::Impl::StartGangs() {
  while (true) {
    if (!gathering) {
      gathering = NextGang();
      gang_overtaken = 0;
      if (!gathering) break;
    }
    const order::LaneId lane = tasks[gathering.value].card.lane;
    const size_t wanted = lanes[lane].nodes;
    std::vector<NodeId> chosen = gang_held;
    if (chosen.empty()) {
      for (uint32_t n = 0; n < nodes.size(); ++n) {
        if (MayQueueAt(NodeId(n), lane)) chosen.emplace_back(n);
      }
      const auto used = [this](NodeId id) { return nodes[id.value].used_slots; };
      std::stable_sort(chosen.begin(), chosen.end(), [&](NodeId a, NodeId b) { return used(a) < used(b); });
      chosen.resize(wanted);
    }
    const bool all_idle = std::all_of(chosen.begin(), chosen.end(), [this](NodeId id) {
      return nodes[id.value].occupants == 0 && nodes[id.value].ahead.empty();
    });
    if (!all_idle) {
      if (!gang_held.empty() || gang_overtaken < GangPatience()) break;
      for (NodeId id : chosen) {
        DropHold(id);
        nodes[id.value].gang = gathering;
        Touch(id);
        RecallAll(id);
      }
      gang_held = chosen;
      return;
    }
    std::sort(chosen.begin(), chosen.end());
    StartGang(gathering, std::move(chosen));
  }
  gang_look = false;
}

void Scheduler::Impl::StartGang(TaskId id, std::vector<NodeId> members) {
  for (NodeId member : gang_held) nodes[member.value].gang = TaskId();
  gang_held.clear();
  gathering = TaskId();
  const order::LaneId lane = tasks[id.value].card.lane;
  for (size_t i = 1; i < members.size(); ++i) {
    DropHold(members[i]);
    Occupy(nodes[members[i].value], lane);
    Touch(members[i]);
    actions->push_back(JoinGang{id, members[i]});
  }
  const NodeId lead = members.front();
  DropHold(lead);
  gang_members[id.value] = std::move(members);
  Start(id, lead, TakenFrom::kGang, false);
}

void Scheduler::Impl::EndGang(TaskId id) {
  const auto found = gang_members.find(id.value);
  for (NodeId member : found->second) {
    Release(nodes[member.value], tasks[id.value].card.lane);
    Touch(member);
  }
  gang_members.erase(found);
  gang_look = true;
}

/// Nothing is kept for it any more. `requeue`: it is still to run.
void Scheduler::Impl::GiveUpGang(bool requeue) {
  for (NodeId member : gang_held) {
    nodes[member.value].gang = TaskId();
    Touch(member);
  }
  gang_held.clear();
  const TaskId id = std::exchange(gathering, TaskId());
  gang_look = true;
  if (!requeue || !id) return;
  const order::Card& card = tasks[id.value].card;
  gangs.Leave(card, false);
  gangs.PutBack(id, card, cards());
}

}  // namespace harrow::core
