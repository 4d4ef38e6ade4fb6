#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "harrow/multiview.hpp"

namespace harrow::multiview {

/// Room in files without names in one directory. All of a process's segments share a file as long as it may grow, so that
/// descriptors do not run out; a further one is made where RLIMIT_FSIZE or the file system ends it. Owned by the segments.
class FileSpace {
 public:
  struct File {
    int descriptor = -1;
    std::size_t length = 0;
    std::map<std::size_t, std::size_t> free;  // offset, bytes; never two that touch, nor one at the end
    ~File();
  };
  struct Extent {
    File* file = nullptr;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  explicit FileSpace(std::string directory) : directory_(std::move(directory)) {}
  /// At least `bytes`, whose disk space is taken: writing to it cannot fail for want of space. kStorage.
  Result<Extent> Take(std::size_t bytes);
  /// Gives the extent's disk space back.
  void Give(const Extent& extent);
  const std::string& directory() const { return directory_; }
  std::size_t files() const { return files_.size(); }

 private:
  Result<File*> Open();
  int TakeFrom(File* file, std::size_t bytes, std::size_t longest, Extent* extent);

  std::string directory_;
  std::list<File> files_;
};

}  // namespace harrow::multiview
