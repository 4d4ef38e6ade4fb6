// A link that all of its transfers at their largest rates do not fill binds nobody: rates are found again only among the
// transfers that are joined to what has changed by links that are wanted more than they offer. In a cluster without a
// bottleneck in the middle that is a handful, however large the cluster is.

#include "sim/transfers.h"

#include <algorithm>
#include <utility>

namespace harrow::sim {

uint32_t Transfers::AddLink(double capacity, double loss) {
  Link link;
  link.capacity = capacity;
  link.loss = loss;
  links_.push_back(std::move(link));
  return static_cast<uint32_t>(links_.size() - 1);
}

uint32_t Transfers::Begin(double now, uint32_t who, double bytes, double most, std::span<const Use> uses) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(transfers_.size()));
    transfers_.emplace_back();
  }
  const uint32_t id = free_.back();
  free_.pop_back();
  Transfer& t = transfers_[id];
  t = Transfer();
  t.left = bytes;
  t.most = most;
  t.since = now;
  t.who = who;
  for (const Use& use : uses) {
    Link& link = links_[use.link];
    t.place[t.use_count] = static_cast<uint32_t>(link.transfers.size());
    t.uses[t.use_count++] = use;
    link.transfers.push_back(id);
    link.demand += link.Wish(most, use.per_byte);
    Change(use.link);
  }
  t.heap_at = static_cast<uint32_t>(heap_.size());
  heap_.push_back(id);
  begun_.push_back(id);
  return id;
}

void Transfers::Change(uint32_t link) {
  if (!std::exchange(links_[link].changed, true)) changed_.push_back(link);
}

void Transfers::Leave(uint32_t id) {
  Transfer& t = transfers_[id];
  for (uint32_t u = 0; u < t.use_count; ++u) {
    Link& link = links_[t.uses[u].link];
    const uint32_t last = link.transfers.back();
    link.transfers[t.place[u]] = last;
    link.transfers.pop_back();
    for (uint32_t v = 0; v < transfers_[last].use_count; ++v) {
      if (transfers_[last].uses[v].link == t.uses[u].link) transfers_[last].place[v] = t.place[u];
    }
    link.demand = link.transfers.empty() ? 0 : link.demand - link.Wish(t.most, t.uses[u].per_byte);
    Change(t.uses[u].link);
  }
  HeapErase(id);
  std::erase(begun_, id);
  free_.push_back(id);
}

void Transfers::Cancel(uint32_t transfer) { Leave(transfer); }

uint32_t Transfers::Pop() {
  const uint32_t id = heap_.front();
  const uint32_t who = transfers_[id].who;
  Leave(id);
  return who;
}

void Transfers::Seek(uint32_t id) {
  if (std::exchange(transfers_[id].sought, true)) return;
  sought_.push_back(id);
}
void Transfers::SeekLink(uint32_t id) {
  if (std::exchange(links_[id].sought, true)) return;
  sought_links_.push_back(id);
}

void Transfers::Settle(double now) {
  for (uint32_t link : changed_) {
    links_[link].changed = false;
    if (links_[link].full || links_[link].wanted()) SeekLink(link);
  }
  for (uint32_t id : begun_) Seek(id);
  changed_.clear();
  begun_.clear();
  for (size_t i = 0, l = 0; i < sought_.size() || l < sought_links_.size();) {
    if (l < sought_links_.size()) {
      for (uint32_t id : links_[sought_links_[l]].transfers) Seek(id);
      ++l;
      continue;
    }
    const Transfer& t = transfers_[sought_[i++]];
    for (uint32_t u = 0; u < t.use_count; ++u) {
      if (links_[t.uses[u].link].wanted()) SeekLink(t.uses[u].link);
    }
  }
  if (sought_.empty() && sought_links_.empty()) return;
  Fill();
  for (uint32_t id : sought_) {
    Transfer& t = transfers_[id];
    t.sought = false;
    if (t.found == t.rate) continue;
    t.left = std::max(0.0, t.left - t.rate * (now - t.since));
    t.since = now;
    t.rate = t.found;
    t.end = now + t.left / t.rate;
    HeapMove(t.heap_at);
  }
  for (uint32_t id : sought_links_) {
    links_[id].sought = false;
    links_[id].full = links_[id].wanted();
  }
  sought_.clear();
  sought_links_.clear();
}

void Transfers::Fill() {
  for (uint32_t id : sought_links_) {
    Link& link = links_[id];
    link.left = link.offers();
    link.weight = 0;
    link.open = static_cast<uint32_t>(link.transfers.size());
    for (uint32_t t : link.transfers) {
      for (uint32_t u = 0; u < transfers_[t].use_count; ++u) {
        if (transfers_[t].uses[u].link == id) link.weight += transfers_[t].uses[u].per_byte;
      }
    }
  }
  std::vector<uint32_t> open = sought_;
  std::sort(open.begin(), open.end(), [this](uint32_t a, uint32_t b) {
    return transfers_[a].most != transfers_[b].most ? transfers_[a].most < transfers_[b].most : a < b;
  });
  for (uint32_t id : open) transfers_[id].found = 0;
  const auto fix = [this](uint32_t id, double rate) {
    Transfer& t = transfers_[id];
    t.found = rate;
    for (uint32_t u = 0; u < t.use_count; ++u) {
      Link& link = links_[t.uses[u].link];
      if (!link.sought) continue;
      link.left = std::max(0.0, link.left - rate * t.uses[u].per_byte);
      link.weight -= t.uses[u].per_byte;
      --link.open;
    }
  };
  for (size_t first = 0; first < open.size();) {
    if (transfers_[open[first]].found > 0) {
      ++first;
      continue;
    }
    double level = kNever;
    uint32_t narrowest = UINT32_MAX;
    for (uint32_t id : sought_links_) {
      const Link& link = links_[id];
      if (link.open == 0) continue;
      const double fair = link.weight > 0 ? link.left / link.weight : 0;
      if (fair < level) {
        level = fair;
        narrowest = id;
      }
    }
    if (transfers_[open[first]].most <= level) {
      for (size_t i = first; i < open.size() && transfers_[open[i]].most <= level; ++i) {
        if (transfers_[open[i]].found == 0) fix(open[i], transfers_[open[i]].most);
      }
      continue;
    }
    // Rounding may leave next to nothing of a link: nobody stands still for that.
    const double rate = std::max(level, links_[narrowest].offers() * 1e-12);
    for (uint32_t t : links_[narrowest].transfers) {
      if (transfers_[t].found == 0) fix(t, rate);
    }
  }
}

void Transfers::HeapMove(uint32_t at) {
  const uint32_t id = heap_[at];
  while (at > 0 && Earlier(id, heap_[(at - 1) / 2])) {
    heap_[at] = heap_[(at - 1) / 2];
    transfers_[heap_[at]].heap_at = at;
    at = (at - 1) / 2;
  }
  for (;;) {
    size_t child = size_t{at} * 2 + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && Earlier(heap_[child + 1], heap_[child])) ++child;
    if (!Earlier(heap_[child], id)) break;
    heap_[at] = heap_[child];
    transfers_[heap_[at]].heap_at = at;
    at = static_cast<uint32_t>(child);
  }
  heap_[at] = id;
  transfers_[id].heap_at = at;
}

void Transfers::HeapErase(uint32_t id) {
  const uint32_t at = transfers_[id].heap_at;
  const uint32_t last = heap_.back();
  heap_.pop_back();
  if (last == id) return;
  heap_[at] = last;
  transfers_[last].heap_at = at;
  HeapMove(at);
}

}  // namespace harrow::sim
