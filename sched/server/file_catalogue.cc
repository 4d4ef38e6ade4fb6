#include "server/file_catalogue.h"

namespace harrow::server {

const FileCatalogue::Object* FileCatalogue::Find(FileId file) const {
  return file.value < objects_.size() && objects_[file.value].known_ ? &objects_[file.value] : nullptr;
}

FileCatalogue::Object& FileCatalogue::At(FileId file) {
  if (file.value >= objects_.size()) objects_.resize(graph_.file_count());
  return objects_[file.value];
}

void FileCatalogue::Set(FileId file, std::string_view id, int64_t bytes) {
  Object& object = At(file);
  object.known_ = true;
  object.id_ = {};
  id.copy(object.id_.data(), object.id_.size());
  object.bytes_ = bytes;
}

std::vector<FileId> FileCatalogue::SameAs(FileId file) const {
  std::vector<FileId> same;
  const Object* const object = Find(file);
  for (uint32_t n = 0; object != nullptr && n < objects_.size(); ++n) {
    if (FileId(n) != file && objects_[n].known_ && objects_[n].id_ == object->id_) same.emplace_back(n);
  }
  return same;
}

bool FileCatalogue::IsKept(FileId file) const {
  const std::string_view name = graph_.file_name(file);
  return !name.starts_with('/') && name != ".." && !name.starts_with("../") && name != ".";
}

void FileCatalogue::SetAbsent(FileId file, bool absent) {
  if (absent || this->absent(file)) At(file).absent_ = absent;
}

void FileCatalogue::Ask(FileId file, NodeId to, Copy copy) {
  (void)Answered(file, to);  // one that was asked for before, and may wait
  Node& node = At(to);
  node.copies[file] = copy;
  node.refused.erase(file);
  if (!copy.sent) waiting_.insert({file, to});
}

void FileCatalogue::Refuse(FileId file, NodeId to) {
  (void)Answered(file, to);
  At(to).refused.insert(file);
}

TaskId FileCatalogue::ReaderOf(FileId file, NodeId to) const {
  if (to.value >= nodes_.size()) return {};
  const auto found = nodes_[to.value].copies.find(file);
  return found == nodes_[to.value].copies.end() ? TaskId() : found->second.reader;
}

std::optional<FileCatalogue::Copy> FileCatalogue::Answered(FileId file, NodeId to) {
  std::map<FileId, Copy>& copies = At(to).copies;
  const auto found = copies.find(file);
  if (found == copies.end()) return std::nullopt;
  const Copy copy = found->second;
  copies.erase(found);
  if (!copy.sent) waiting_.erase({file, to});
  return copy;
}

void FileCatalogue::ForgetNode(NodeId node) {
  At(node) = {};
  std::erase_if(waiting_, [&](const auto& each) { return each.second == node; });
}

std::vector<FileId> FileCatalogue::RefusedAt(NodeId node) const {
  if (node.value >= nodes_.size()) return {};
  return {nodes_[node.value].refused.begin(), nodes_[node.value].refused.end()};
}

std::vector<std::pair<FileId, FileCatalogue::Copy>> FileCatalogue::CopiesTo(NodeId node) const {
  if (node.value >= nodes_.size()) return {};
  return {nodes_[node.value].copies.begin(), nodes_[node.value].copies.end()};
}

std::vector<NodeId> FileCatalogue::Waiting(FileId file) const {
  std::vector<NodeId> nodes;
  for (auto it = waiting_.lower_bound({file, NodeId(0)}); it != waiting_.end() && it->first == file; ++it)
    nodes.push_back(it->second);
  return nodes;
}

}  // namespace harrow::server
