// A file is read from the submit directory by one node: by one that may have it still, and answers at once,
// else node n reads file i where i mod n is its turn. Round robin that is all. Everywhere,
// reading is spread over the nodes in the same way, and what one has then goes on from each that has it or
// is just getting it, to two others at most from each: a tree, piece by piece, in which nobody sends a file
// more than twice at once. Only when a file has been read is it known what it is, so nobody is asked for it
// before.
//
// Queues hold what may have been settled since: it is looked at again when its turn comes. Sources form a
// forest: a node that begins to get a file sends it to nobody yet, and one that loses its source is given
// one that has all of it.
#include "server/staging.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace harrow::server {
namespace {

bool Has(const std::vector<NodeId>& nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

Staging::Staging(std::vector<FileId> files, bool everywhere, const Limits& limits)
    : everywhere_(everywhere), limits_(limits) {
  files_.reserve(files.size());
  for (const FileId file : files) {
    if (place_of_.emplace(file, static_cast<uint32_t>(files_.size())).second) files_.push_back({.id = file});
  }
}

// --- nodes

void Staging::Joined(NodeId id) {
  if (!nodes_.try_emplace(id).second || !begun_ || !everywhere_) return;
  Node& node = nodes_.at(id);
  for (uint32_t place = 0; place < files_.size(); ++place) {
    if (!files_[place].holders.empty()) node.to_fetch.push_back(place);
  }
}

void Staging::Begin(const std::vector<NodeId>& nodes) {
  if (std::exchange(begun_, true)) return;
  for (uint32_t place = 0; place < files_.size(); ++place) {
    if (!files_[place].holders.empty()) {
      WantEverywhere(place);
      continue;
    }
    auto node = nodes_.find(files_[place].likely);
    if (node == nodes_.end() && !nodes.empty()) node = nodes_.find(nodes[place % nodes.size()]);
    if (node == nodes_.end()) {
      homeless_.push_back(place);
      continue;
    }
    files_[place].reader = node->first;
    node->second.to_read.push_back(place);
    ++node->second.files;
  }
}

void Staging::Lost(NodeId id) {
  if (!nodes_.contains(id)) return;
  for (auto it = going_.begin(); it != going_.end();) {
    const auto going = it++;
    if (going->first.second == id) End(going);
  }
  nodes_.erase(id);
  for (uint32_t place = 0; place < files_.size(); ++place) {
    File& file = files_[place];
    std::erase(file.refused, id);
    LoseHolder(place, id);
    if (file.reader != id) continue;
    file.reader = {};
    if (IsOpen(place)) homeless_.push_back(place);
  }
}

/// Nobody has it, and it is not given up.
bool Staging::IsOpen(uint32_t place) const {
  const File& file = files_[place];
  return begun_ && file.holders.empty() && !file.reader && !file.unreadable;
}

void Staging::FindReader(uint32_t place) {
  File& file = files_[place];
  auto best = Has(file.refused, file.likely) ? nodes_.end() : nodes_.find(file.likely);
  const bool likely = best != nodes_.end();
  for (auto it = nodes_.begin(); it != nodes_.end() && !likely; ++it) {
    if (!Has(file.refused, it->first) && (best == nodes_.end() || it->second.files < best->second.files))
      best = it;
  }
  if (best == nodes_.end()) {
    if (!everywhere_) Tell(file, Why::kNoRoom, {});
    return;
  }
  file.reader = best->first;
  best->second.to_read.push_back(place);
  ++best->second.files;
}

// --- what nodes say

Staging::File* Staging::Find(FileId file, uint32_t* place) {
  const auto found = place_of_.find(file);
  if (found == place_of_.end()) return nullptr;
  *place = found->second;
  return &files_[found->second];
}

void Staging::Stored(FileId id, NodeId node) {
  uint32_t place = 0;
  File* const file = Find(id, &place);
  if (file == nullptr || !nodes_.contains(node)) return;
  if (const auto going = going_.find({place, node}); going != going_.end()) End(going);
  failures_.erase({place, node});
  std::erase(file->refused, node);
  if (Has(file->holders, node)) return;
  file->holders.push_back(node);
  if (file->reader != node) ++nodes_.at(node).files;
  file->reader = {};
  if (begun_ && file->holders.size() == 1) WantEverywhere(place);
}

void Staging::Likely(FileId id, NodeId node) {
  uint32_t place = 0;
  if (File* const file = Find(id, &place)) file->likely = node;
}

void Staging::Gone(FileId id, NodeId node) {
  uint32_t place = 0;
  if (Find(id, &place) == nullptr) return;
  LoseHolder(place, node);
  if (everywhere_ && begun_ && nodes_.contains(node)) nodes_.at(node).to_fetch.push_back(place);
}

void Staging::LoseHolder(uint32_t place, NodeId node) {
  File& file = files_[place];
  const bool held = std::erase(file.holders, node) > 0;
  LoseSource(place, node);
  if (!held) return;
  if (const auto found = nodes_.find(node); found != nodes_.end()) --found->second.files;
  if (IsOpen(place)) homeless_.push_back(place);
}

void Staging::Failed(FileId id, NodeId to, NodeId from, Why why) {
  uint32_t place = 0;
  File* const file = Find(id, &place);
  const auto going = going_.find({place, to});
  if (file == nullptr || going == going_.end() || going->second != from) return;
  End(going);
  if (file->reader == to) {
    file->reader = {};
    --nodes_.at(to).files;
  }
  LoseSource(place, to);
  Failures& failures = failures_[{place, to}];
  if (why == Why::kNoRoom) {
    file->refused.push_back(to);
    if (everywhere_) Tell(*file, why, to);
  } else if (why == Why::kUnreadable && file->holders.empty()) {
    file->unreadable = true;
    Tell(*file, why, {});
  } else if (why == Why::kUnreadable) {
    file->refused.push_back(to);
    Tell(*file, Why::kNotSent, to);
  } else if (++failures.count > limits_.retries) {
    Ask(place, to, {});
  } else {
    failures.last = from;
    nodes_.at(to).to_fetch.push_back(place);
  }
  if (IsOpen(place)) homeless_.push_back(place);
}

/// Those who got it from there get it from one that has it, or later.
void Staging::LoseSource(uint32_t place, NodeId source) {
  for (auto it = going_.lower_bound({place, NodeId(0)}); it != going_.end() && it->first.first == place;) {
    const auto going = it++;
    if (going->second != source) continue;
    const NodeId to = going->first.second;
    End(going);
    if (files_[place].holders.empty()) {
      nodes_.at(to).to_fetch.push_back(place);
      LoseSource(place, to);  // it is to be asked for anew, and may get it from one of these
      it = going_.lower_bound({place, NodeId(0)});
    } else {
      Ask(place, to, SourceOf(place, to, true));
    }
  }
}

void Staging::Tell(const File& file, Why why, NodeId node) {
  ++failed_;
  troubles_.push_back({.file = file.id, .why = why, .node = node});
}

// --- copies

void Staging::WantEverywhere(uint32_t place) {
  if (!everywhere_) return;
  for (auto& [id, node] : nodes_) {
    if (!Has(files_[place].holders, id)) node.to_fetch.push_back(place);
  }
}

/// None: nobody. `whole`: of those that have all of it.
NodeId Staging::SourceOf(uint32_t place, NodeId to, bool whole) const {
  const File& file = files_[place];
  std::map<NodeId, size_t> served;
  std::vector<NodeId> getting;
  for (auto it = going_.lower_bound({place, NodeId(0)}); it != going_.end() && it->first.first == place;
       ++it) {
    if (!it->second) continue;
    ++served[it->second];
    getting.push_back(it->first.second);
  }
  const auto failed = failures_.find({place, to});
  const NodeId avoided = failed == failures_.end() ? NodeId() : failed->second.last;
  std::optional<std::tuple<bool, bool, bool, size_t, NodeId>> best;
  const auto consider = [&](NodeId node, bool has_all) {
    const auto found = nodes_.find(node);
    if (node == to || found == nodes_.end()) return;
    const std::tuple rank(node == avoided, served[node] >= limits_.serves, !has_all, found->second.serves,
                          node);
    if (!best || rank < *best) best = rank;
  };
  for (const NodeId holder : file.holders) consider(holder, true);
  if (!whole) {
    for (const NodeId node : getting) consider(node, false);
  }
  return best ? std::get<NodeId>(*best) : NodeId();
}

void Staging::Ask(uint32_t place, NodeId to, NodeId from) {
  going_[{place, to}] = from;
  unsent_.insert({place, to});
  Node& node = nodes_.at(to);
  ++(from ? node.fetches : node.reads);
  if (from) ++nodes_.at(from).serves;
}

void Staging::End(std::map<Place, NodeId>::iterator going) {
  Node& node = nodes_.at(going->first.second);
  --(going->second ? node.fetches : node.reads);
  if (const auto source = nodes_.find(going->second); source != nodes_.end()) --source->second.serves;
  unsent_.erase(going->first);
  going_.erase(going);
}

void Staging::TakeReads(NodeId id, Node* node) {
  while (node->reads < limits_.reads && !node->to_read.empty()) {
    const uint32_t place = node->to_read.front();
    node->to_read.pop_front();
    if (files_[place].reader == id && !going_.contains({place, id})) Ask(place, id, {});
  }
}

void Staging::TakeFetches(NodeId id, Node* node) {
  while (node->fetches < limits_.fetches && !node->to_fetch.empty()) {
    const uint32_t place = node->to_fetch.front();
    node->to_fetch.pop_front();
    const File& file = files_[place];
    if (file.holders.empty() || Has(file.holders, id) || Has(file.refused, id)) continue;
    if (going_.contains({place, id})) continue;
    if (const NodeId from = SourceOf(place, id, false)) Ask(place, id, from);
  }
}

std::vector<Staging::Copy> Staging::TakeCopies() {
  if (!begun_) return {};
  if (!nodes_.empty()) {
    for (const uint32_t place : std::exchange(homeless_, {})) {
      if (IsOpen(place)) FindReader(place);
    }
  }
  for (auto& [id, node] : nodes_) {
    TakeFetches(id, &node);
    TakeReads(id, &node);
  }
  std::vector<Copy> copies;
  copies.reserve(unsent_.size());
  for (const Place& place : std::exchange(unsent_, {}))
    copies.push_back({.file = files_[place.first].id, .to = place.second, .from = going_.at(place)});
  return copies;
}

// --- how it stands

bool Staging::complete() const {
  return begun_ && going_.empty() && homeless_.empty() &&
         std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
           return node.second.to_read.empty() && node.second.to_fetch.empty();
         });
}

bool Staging::Holds(FileId file, NodeId node) const {
  const auto found = place_of_.find(file);
  return found != place_of_.end() && Has(files_[found->second].holders, node);
}

bool Staging::IsStaged(FileId file) const {
  const auto found = place_of_.find(file);
  if (found == place_of_.end()) return false;
  const size_t holders = files_[found->second].holders.size();
  return holders > 0 && (!everywhere_ || holders == nodes_.size());
}

}  // namespace harrow::server
