#include "server/file_catalogue.h"

namespace harrow::server {

const FileCatalogue::Object* FileCatalogue::Find(FileId file) const {
  const auto found = objects_.find(file);
  return found == objects_.end() ? nullptr : &found->second;
}

bool FileCatalogue::IsKept(FileId file) const {
  const std::string_view name = graph_.file_name(file);
  return !name.starts_with('/') && name != ".." && !name.starts_with("../") && name != ".";
}

void FileCatalogue::SetAbsent(FileId file, bool absent) {
  if (absent) {
    absent_[file] = true;
  } else {
    absent_.erase(file);
  }
}

TaskId FileCatalogue::ReaderOf(FileId file, NodeId to) const {
  const auto found = copies_.find({file, to});
  return found == copies_.end() ? TaskId() : found->second.reader;
}

std::optional<FileCatalogue::Copy> FileCatalogue::Answered(FileId file, NodeId to) {
  const auto found = copies_.find({file, to});
  if (found == copies_.end()) return std::nullopt;
  const Copy copy = found->second;
  copies_.erase(found);
  return copy;
}

void FileCatalogue::ForgetNode(NodeId node) {
  std::erase_if(copies_, [&](const auto& each) { return each.first.second == node; });
  std::erase_if(refused_, [&](const Place& each) { return each.second == node; });
}

std::vector<FileId> FileCatalogue::RefusedAt(NodeId node) const {
  std::vector<FileId> files;
  for (const auto& [file, at] : refused_) {
    if (at == node) files.push_back(file);
  }
  return files;
}

std::vector<std::pair<FileId, FileCatalogue::Copy>> FileCatalogue::CopiesTo(NodeId node) const {
  std::vector<std::pair<FileId, Copy>> copies;
  for (const auto& [place, copy] : copies_) {
    if (place.second == node) copies.emplace_back(place.first, copy);
  }
  return copies;
}

std::vector<NodeId> FileCatalogue::Waiting(FileId file) const {
  std::vector<NodeId> nodes;
  for (auto it = copies_.lower_bound({file, NodeId(0)}); it != copies_.end() && it->first.first == file;
       ++it) {
    if (!it->second.sent) nodes.push_back(it->first.second);
  }
  return nodes;
}

}  // namespace harrow::server
