#include "agent/steps/gang.h"

#include "base/text.h"

namespace harrow::agent {

uint32_t Gang::ranks() const {
  uint32_t all = 0;
  for (const Node& node : nodes) all += node.ranks;
  return all;
}

uint32_t Gang::first_rank() const {
  uint32_t first = 0;
  for (uint32_t i = 0; i < here; ++i) first += nodes[i].ranks;
  return first;
}

uint32_t Gang::NodeOf(uint32_t rank) const {
  uint32_t node = 0;
  for (uint32_t first = 0; node < nodes.size() && rank - first >= nodes[node].ranks; ++node)
    first += nodes[node].ranks;
  return node;
}

std::vector<uint32_t> Gang::NodesOf(const std::vector<uint32_t>& ranks) const {
  std::vector<uint32_t> all;
  if (ranks.empty()) {
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (i == 0 || nodes[i].ranks > 0) all.push_back(i);
    }
    return all;
  }
  for (const uint32_t rank : ranks) {
    const uint32_t node = NodeOf(rank);
    if (node < nodes.size() && (all.empty() || all.back() != node)) all.push_back(node);
  }
  return all;
}

std::string Gang::Names(std::string_view between) const {
  std::string all;
  for (const Node& node : nodes) all += StrCat(all.empty() ? "" : between, node.name);
  return all;
}

}  // namespace harrow::agent
