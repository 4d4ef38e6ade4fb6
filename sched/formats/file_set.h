#pragma once

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/ids.h"

namespace harrow::formats {

/// The files of a task, to ask for: a few are compared, many are hashed. The vector has to live as long.
class FileSet {
 public:
  explicit FileSet(const std::vector<FileId>& files) : files_(files) {
    if (files.size() > kFew) many_.insert(files.begin(), files.end());
  }
  bool contains(FileId file) const {
    return many_.empty() ? std::find(files_.begin(), files_.end(), file) != files_.end() : many_.contains(file);
  }

 private:
  static constexpr size_t kFew = 8;
  const std::vector<FileId>& files_;
  std::unordered_set<FileId> many_;
};

/// Repeated files keep their first place.
inline void RemoveRepeated(std::vector<FileId>* files) {
  constexpr size_t kFew = 8;
  if (files->size() > kFew) {
    std::unordered_set<FileId> seen;
    std::erase_if(*files, [&](FileId file) { return !seen.insert(file).second; });
    return;
  }
  auto kept = files->begin();
  for (const FileId file : *files) {
    if (std::find(files->begin(), kept, file) == kept) *kept++ = file;
  }
  files->erase(kept, files->end());
}

}  // namespace harrow::formats
