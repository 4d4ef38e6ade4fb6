#include "place/replicas.h"

#include <algorithm>

namespace harrow::place {

void Replicas::Grow() {
  const size_t known = files_.size();
  files_.resize(graph_.file_count());
  for (size_t n = known; n < files_.size(); ++n)
    files_[n].size = graph_.file_size(FileId(static_cast<uint32_t>(n)));
  for (size_t n = known; n < files_.size() && below_directories_; ++n) {
    const FileId file(static_cast<uint32_t>(n));
    if (!graph_.below_output(file)) continue;
    const std::string_view name = graph_.file_name(file);
    for (FileId output : graph_.outputs(graph_.producer(file))) {
      const std::string_view directory = graph_.file_name(output);
      if (name.starts_with(directory) && name.size() > directory.size() && name[directory.size()] == '/')
        inside_[file] = output;
    }
  }
}

void Replicas::NodeJoined(NodeId node) {
  if (node.value >= holder_of_.size()) {
    holder_of_.resize(node.value + 1, kNobody);
    sums_.resize(node.value + 1, 0);
  }
  if (holder_of_[node.value] != kNobody) return;
  holder_of_[node.value] = static_cast<uint32_t>(node_of_.size());
  node_of_.push_back(node);
}

void Replicas::NodeLost(NodeId node) {
  if (node.value >= holder_of_.size() || holder_of_[node.value] == kNobody) return;
  node_of_[holder_of_[node.value]] = NodeId();
  holder_of_[node.value] = kNobody;
}

void Replicas::Add(FileId id, NodeId node) {
  if (node.value >= holder_of_.size() || holder_of_[node.value] == kNobody) return;
  const uint32_t holder = holder_of_[node.value];
  File& file = files_[id.value];
  if (file.holder == kNobody || !node_of_[file.holder]) {
    // The first place is empty, or held by a node that is gone.
    if (file.more != kNobody && std::erase(more_[file.more], holder) > 0 && more_[file.more].empty()) {
      free_more_.push_back(std::exchange(file.more, kNobody));
    }
    file.holder = holder;
    return;
  }
  if (file.holder == holder) return;
  if (file.more == kNobody) {
    if (free_more_.empty()) {
      file.more = static_cast<uint32_t>(more_.size());
      more_.emplace_back();
    } else {
      file.more = free_more_.back();
      free_more_.pop_back();
    }
  }
  std::vector<uint32_t>& more = more_[file.more];
  if (std::find(more.begin(), more.end(), holder) != more.end()) return;
  std::erase_if(more, [this](uint32_t h) { return !node_of_[h]; });
  more.push_back(holder);
}

void Replicas::SetOnly(FileId id, NodeId node) {
  File& file = files_[id.value];
  file.holder = node.value < holder_of_.size() ? holder_of_[node.value] : kNobody;
  if (file.more != kNobody) {
    more_[file.more].clear();
    free_more_.push_back(std::exchange(file.more, kNobody));
  }
}

void Replicas::Remove(FileId id, NodeId node) {
  if (node.value >= holder_of_.size() || holder_of_[node.value] == kNobody) return;
  const uint32_t holder = holder_of_[node.value];
  File& file = files_[id.value];
  if (file.more != kNobody) std::erase(more_[file.more], holder);
  if (file.holder == holder) {
    file.holder = kNobody;
    if (file.more != kNobody && !more_[file.more].empty()) {
      file.holder = more_[file.more].back();
      more_[file.more].pop_back();
    }
  }
  if (file.more != kNobody && more_[file.more].empty())
    free_more_.push_back(std::exchange(file.more, kNobody));
}

bool Replicas::Holds(FileId file, NodeId node) const {
  bool found = false;
  ForEachHolder(files_[file.value], [&](NodeId holder) { found |= holder == node; });
  return found;
}

bool Replicas::Any(FileId file) const {
  bool found = false;
  ForEachHolder(files_[file.value], [&](NodeId) { found = true; });
  return found;
}

void Replicas::SetHome(FileId file, NodeId node) {
  if (node.value >= holder_of_.size() || holder_of_[node.value] == kNobody) return;
  if (file.value >= home_of_.size()) home_of_.resize(files_.size(), kNobody);
  home_of_[file.value] = holder_of_[node.value];
}

int64_t Replicas::HomeBytes(TaskId task, NodeId node) const {
  int64_t bytes = 0;
  for (FileId id : graph_.inputs(task)) {
    if (Home(Held(id)) == node) bytes += std::max<int64_t>(0, files_[id.value].size);
  }
  return bytes;
}

std::vector<NodeId> Replicas::Holders(FileId file) const {
  std::vector<NodeId> nodes;
  if (file.value >= files_.size()) return nodes;  // before Grow
  ForEachHolder(files_[file.value], [&](NodeId holder) { nodes.push_back(holder); });
  return nodes;
}

template <class Each>
void Replicas::ForEachInput(TaskId task, const Each& each) const {
  const std::span<const FileId> inputs = graph_.inputs(task);
  int64_t known_bytes = 0, known = 0;
  for (FileId id : inputs) {
    if (const File& file = files_[id.value]; file.size >= 0) {
      known_bytes += file.size;
      ++known;
    }
  }
  const int64_t unknown_counts_as = known == 0 ? 1 : std::max<int64_t>(1, known_bytes / known);
  for (FileId id : inputs) {
    const File& file = files_[id.value];
    each(Held(id), file.size >= 0 ? file.size : unknown_counts_as);
  }
}

void Replicas::SumInputs(TaskId task) {
  touched_.clear();
  ForEachInput(task, [&](FileId held, int64_t bytes) {
    ForEachHolder(files_[held.value], [&](NodeId node) {
      if (sums_[node.value] == 0) touched_.push_back(node);
      sums_[node.value] += bytes;
    });
  });
}

/// Copies are where some other task wanted them. Were their nodes candidates like any other, the tasks of a
/// file would scatter: each that is taken elsewhere brings the file to one more node, which takes the next.
void Replicas::KeepHomes(TaskId task) {
  ForEachInput(task, [&](FileId held, int64_t bytes) {
    if (const NodeId home = Home(held)) sums_[home.value] += bytes;
  });
  int64_t largest = 0;
  for (NodeId node : candidates_) largest = std::max(largest, sums_[node.value]);
  if (largest > 0)
    std::erase_if(candidates_, [&](NodeId node) { return sums_[node.value] < largest - largest / 2; });
  ForEachInput(task, [&](FileId held, int64_t) {
    if (const NodeId home = Home(held)) sums_[home.value] = 0;
  });
}

InputBytes Replicas::BytesAt(TaskId task, NodeId node) const {
  InputBytes bytes;
  const uint32_t at = node.value < holder_of_.size() ? holder_of_[node.value] : kNobody;
  for (FileId id : graph_.inputs(task)) {
    if (files_[id.value].size <= 0) continue;
    const File& file = files_[Held(id).value];
    bool local = file.holder == at && at != kNobody;
    if (!local && file.more != kNobody) {
      const std::vector<uint32_t>& more = more_[file.more];
      local = std::find(more.begin(), more.end(), at) != more.end();
    }
    (local ? bytes.local : bytes.remote) += files_[id.value].size;
  }
  return bytes;
}

size_t Replicas::memory() const {
  size_t bytes = files_.capacity() * sizeof(File) + more_.capacity() * sizeof(more_[0]) +
                 free_more_.capacity() * sizeof(uint32_t) + node_of_.capacity() * sizeof(NodeId) +
                 (holder_of_.capacity() + home_of_.capacity()) * sizeof(uint32_t) +
                 sums_.capacity() * sizeof(int64_t);
  for (const std::vector<uint32_t>& more : more_) bytes += more.capacity() * sizeof(uint32_t);
  return bytes;
}

}  // namespace harrow::place
