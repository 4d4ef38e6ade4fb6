#include "server/node_table.h"

#include <algorithm>
#include <utility>

namespace harrow::server {

Node& NodeTable::Named(const std::string& name) {
  const auto [found, added] = by_name_.try_emplace(name, NodeId(static_cast<uint32_t>(nodes_.size())));
  if (added) {
    nodes_.push_back(std::make_unique<Node>());
    nodes_.back()->id = found->second;
    nodes_.back()->name = name;
  }
  return *nodes_[found->second.value];
}

const Node* NodeTable::FindNamed(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : nodes_[found->second.value].get();
}

pb::ToAgent& NodeTable::Outbox(Node& node) {
  if (!node.outbox_used) {
    node.outbox_used = true;
    used_.push_back(node.id);
  }
  return node.outbox;
}

void NodeTable::SendAll(uint64_t on_disk) {
  size_t waiting = 0;
  for (const NodeId id : used_) {
    Node& node = *nodes_[id.value];
    if (node.channel != nullptr && !node.MayBeTold(on_disk)) {
      used_[waiting++] = id;
      continue;
    }
    node.outbox_used = false;
    if (node.acknowledged > 0)
      node.outbox.mutable_committed()->set_sequence(std::exchange(node.acknowledged, 0));
    if (node.channel != nullptr) {
      node.outbox.SerializeToString(&buffer_);
      node.channel->Send(buffer_);
    }
    node.outbox.Clear();
  }
  used_.resize(waiting);
}

bool NodeTable::MaySendMore(uint64_t on_disk) const {
  return std::any_of(used_.begin(), used_.end(), [&](NodeId id) { return nodes_[id.value]->MayBeTold(on_disk); });
}

bool NodeTable::SendAcknowledgements() {
  bool any = false;
  for (const auto& node : nodes_) {
    if (node->acknowledged == 0) continue;
    Outbox(*node);
    any = true;
  }
  return any;
}

size_t NodeTable::connected_count() const {
  return static_cast<size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->channel != nullptr; }));
}

size_t NodeTable::joined_count() const {
  return static_cast<size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->joined; }));
}

uint32_t NodeTable::joined_slots() const {
  uint32_t slots = 0;
  for (const auto& node : nodes_) slots += node->joined ? node->capacity.slots : 0;
  return slots;
}

}  // namespace harrow::server
