// A node's disk is shared by time: a byte that is read takes 1 / read_local_disk of a second of it, one that is written
// 1 / write. With write_back, files go to the node's memory at the rate of a write, and to its disk behind the tasks' back, as
// long as no more than that waits; else the writer waits for the disk. What comes from a page cache takes nothing of the disk. A remote read goes over the disk (unless cached)
// and the interface of the node that has the file, the hub, and the reader's interface; one from shared storage over its server,
// the hub and that interface.

#include "sim/storage.h"

#include <algorithm>

#include "order/draws.h"

namespace harrow::sim {
namespace {

constexpr double kUnlimited = 1e18;  // bytes a second

}  // namespace

void PageCache::Use(FileId file, uint64_t bytes) {
  Drop(file);
  if (bytes > room_) {
    Clear();
    return;
  }
  while (used_ + bytes > room_) Drop(order_.back());
  order_.push_front(file);
  entries_[file.value] = {order_.begin(), bytes};
  used_ += bytes;
}

void PageCache::Drop(FileId file) {
  const auto at = entries_.find(file.value);
  if (at == entries_.end()) return;
  used_ -= at->second.bytes;
  order_.erase(at->second.place);
  entries_.erase(at);
}

void PageCache::Clear() {
  order_.clear();
  entries_.clear();
  used_ = 0;
}

std::vector<std::pair<FileId, NodeId>> PlaceInputs(const graph::Graph& graph, formats::ClusterModel::Inputs how,
                                                   uint32_t nodes, uint64_t seed) {
  using Inputs = formats::ClusterModel::Inputs;
  std::vector<std::pair<FileId, NodeId>> placed;
  if (how == Inputs::kOutside) return placed;
  std::vector<FileId> files;
  for (uint32_t f = 0; f < graph.file_count(); ++f) {
    if (!graph.producer(FileId(f))) files.push_back(FileId(f));
  }
  order::SeededDraws draws(seed ^ 0x1F83D9ABFB41BD6Bull);
  if (how == Inputs::kSpread) {
    for (size_t i = files.size(); i > 1; --i) std::swap(files[i - 1], files[draws.Below(static_cast<uint32_t>(i))]);
  }
  for (uint32_t i = 0; i < files.size(); ++i)
    placed.emplace_back(files[i], NodeId(how == Inputs::kRandom ? draws.Below(nodes) : i % nodes));
  return placed;
}

Storage::Storage(const graph::Graph& graph, const formats::ClusterModel& cluster, Transfers* transfers, uint64_t seed,
                 bool local)
    : graph_(graph),
      cluster_(cluster),
      transfers_(transfers),
      on_nodes_(local || cluster.storage == formats::ClusterModel::Storage::kNodes),
      where_(graph.file_count()) {
  const bool disk = on_nodes_ && cluster.share_disks && (cluster.read_local_disk > 0 || cluster.write > 0);
  for (const formats::ClusterModel::Nodes& group : cluster.nodes) {
    for (uint32_t i = 0; i < group.count; ++i) {
      nodes_.push_back({PageCache(group.page_cache), disk ? transfers->AddLink(1) : kNone,
                        cluster.nic > 0 ? transfers->AddLink(cluster.nic) : kNone,
                        cluster.nic > 0 ? transfers->AddLink(cluster.nic) : kNone});
    }
  }
  if (cluster.hub > 0) hub_ = transfers->AddLink(cluster.hub, cluster.hub_loss);
  if ((local || !on_nodes_) && cluster.server > 0) server_ = transfers->AddLink(cluster.server);
  if (!on_nodes_ || local) return;
  inputs_ = PlaceInputs(graph, cluster.inputs, cluster.node_count(), seed);
  for (const auto& [file, node] : inputs_) where_[file.value] = node;
}

void Storage::Over(Access* access, uint32_t link, double per_byte) const {
  if (link == kNone || per_byte <= 0) return;
  access->uses[access->use_count++] = {link, per_byte};
}

void Storage::Finish(Access* access, double rate) const {
  access->most = rate > 0 ? rate : kUnlimited;
  access->at_once = access->bytes <= 0 || (rate <= 0 && access->use_count == 0);
}

Storage::Access Storage::Read(FileId file, NodeId node) const {
  const bool cached = nodes_[node.value].cache.Holds(file);
  return Fetch(file, on_nodes_ ? where_[file.value] : cached ? node : NodeId(), node);
}

Storage::Access Storage::Fetch(FileId file, NodeId holder, NodeId node) const {
  Access access;
  access.bytes = BytesOf(file);
  const Node& reader = nodes_[node.value];
  if (holder == node) {
    const bool cached = reader.cache.Holds(file);
    if (!cached && cluster_.read_local_disk > 0) Over(&access, reader.disk, 1 / cluster_.read_local_disk);
    Finish(&access, cached ? cluster_.read_local_cache : cluster_.read_local_disk);
    return access;
  }
  access.remote = true;
  bool cached = false;
  if (holder) {
    const Node& other = nodes_[holder.value];
    cached = other.cache.Holds(file);
    if (!cached && cluster_.read_local_disk > 0) Over(&access, other.disk, 1 / cluster_.read_local_disk);
    Over(&access, other.out);
  } else {
    Over(&access, server_);
  }
  Over(&access, hub_);
  Over(&access, reader.in);
  Finish(&access, cached ? cluster_.read_remote_cache : cluster_.read_remote_disk);
  return access;
}

Storage::Access Storage::Send(double bytes, NodeId from, NodeId to) const {
  Access access;
  access.bytes = bytes;
  access.remote = true;
  Over(&access, nodes_[from.value].out);
  Over(&access, hub_);
  Over(&access, nodes_[to.value].in);
  Finish(&access, 0);
  return access;
}

Storage::Access Storage::Write(FileId file, NodeId node) const {
  Access access;
  access.bytes = BytesOf(file);
  const Node& writer = nodes_[node.value];
  if (on_nodes_) {
    access.behind = writer.disk != kNone && cluster_.write > 0 && writer.dirty + access.bytes <= static_cast<double>(cluster_.write_back);
    if (cluster_.write > 0 && !access.behind) Over(&access, writer.disk, 1 / cluster_.write);
    Finish(&access, cluster_.write);
    return access;
  }
  return WriteBack(file, node);
}

Storage::Access Storage::WriteBack(FileId file, NodeId node) const {
  Access access;
  access.bytes = BytesOf(file);
  Over(&access, nodes_[node.value].out);
  Over(&access, hub_);
  Over(&access, server_);
  Finish(&access, cluster_.write);
  return access;
}

void Storage::HasRead(FileId file, NodeId node) {
  const NodeId holder = on_nodes_ ? where_[file.value] : node;
  if (holder) nodes_[holder.value].cache.Use(file, static_cast<uint64_t>(BytesOf(file)));
}

void Storage::Flush(uint32_t node, double now) {
  Node& writer = nodes_[node];
  writer.flushing = writer.dirty;
  const Transfers::Use use{writer.disk, 1 / cluster_.write};
  transfers_->Begin(now, kOwn | node, writer.flushing, cluster_.write, {&use, 1});
}

void Storage::OwnEnded(uint32_t who, double now) {
  Node& writer = nodes_[who & ~kOwn];
  writer.dirty = std::max(0.0, writer.dirty - writer.flushing);
  writer.flushing = 0;
  if (writer.dirty > 0) Flush(who & ~kOwn, now);
}

void Storage::HasWritten(FileId file, NodeId node, bool behind, double now) {
  where_[file.value] = node;
  if (behind && BytesOf(file) > 0) {
    nodes_[node.value].dirty += BytesOf(file);
    if (nodes_[node.value].flushing <= 0) Flush(node.value, now);
  }
  nodes_[node.value].cache.Use(file, static_cast<uint64_t>(BytesOf(file)));
}

}  // namespace harrow::sim
