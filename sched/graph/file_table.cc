#include "graph/file_table.h"

#include <algorithm>

namespace harrow::graph {
std::string_view NormalFileName(std::string_view name, std::string* buffer) {
  bool normal = !name.empty() && name.back() != '/';
  bool component_start = true;
  for (size_t i = 0; normal && i < name.size(); ++i) {
    if (component_start && (name[i] == '.' || (name[i] == '/' && i > 0))) normal = false;
    component_start = name[i] == '/';
  }
  if (normal) return name;

  const bool absolute = !name.empty() && name.front() == '/';
  std::vector<std::string_view> kept;
  for (size_t at = 0; at < name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, slash - at);
    at = slash + 1;
    if (part.empty() || part == ".") continue;
    if (part == ".." && !kept.empty() && kept.back() != "..") {
      kept.pop_back();
    } else if (part != ".." || !absolute) {
      kept.push_back(part);
    }
  }
  buffer->assign(absolute ? "/" : "");
  for (size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) buffer->push_back('/');
    buffer->append(kept[i]);
  }
  if (buffer->empty()) buffer->assign(".");
  return *buffer;
}

FileId FileTable::Add(std::string_view name, TextArena* text) {
  std::string buffer;
  const std::string_view normal = NormalFileName(name, &buffer);
  const size_t hash = Hash(normal);
  if (std::optional<FileId> known = FindNormal(normal, hash)) return *known;
  const FileId file(static_cast<uint32_t>(records_.size()));
  const std::string_view copy = text->Copy(normal);
  records_.push_back(
      {copy.data(), static_cast<uint32_t>(copy.size()) & 0x3FFFFFFF, false, false, TaskId(), -1});
  index_.Insert(hash, file.value);
  return file;
}

std::optional<FileId> FileTable::Find(std::string_view name) const {
  std::string buffer;
  return FindNormal(NormalFileName(name, &buffer));
}

std::optional<FileId> FileTable::FindNormal(std::string_view normal_name, size_t hash) const {
  const std::optional<uint32_t> found =
      index_.Find(hash, [&](uint32_t n) { return name(FileId(n)) == normal_name; });
  if (!found) return std::nullopt;
  return FileId(*found);
}

}  // namespace harrow::graph
