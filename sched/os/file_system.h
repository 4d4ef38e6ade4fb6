#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace harrow::os {

struct FileInfo {
  bool is_directory = false;
  uint64_t size = 0;
  WallTime modified;
};

/// An open file that is only appended to.
class AppendFile {
 public:
  virtual ~AppendFile() = default;
  virtual Status Append(std::string_view data) = 0;  // straight to the kernel, whole or an error
  virtual Status Sync() = 0;
  virtual uint64_t size() const = 0;
};

/// The file system as the rest of Harrow sees it: the real one, or in memory with faults (tests/support).
/// Errors name the path and the reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::string> Read(const std::string& path, uint64_t limit = UINT64_MAX) = 0;
  virtual Result<std::string> ReadRange(const std::string& path, uint64_t offset, uint64_t length) = 0;
  /// A secret: refused (kPermission) when it is a link, not this user's, or open to anybody else.
  virtual Result<std::string> ReadPrivate(const std::string& path, uint64_t limit) = 0;
  /// Under a temporary name in the same directory, synced, then renamed into place.
  virtual Status WriteWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) = 0;
  /// As WriteWhole, but kExists when there is something of that name; of several who try, one succeeds.
  virtual Status CreateWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) = 0;
  virtual Result<std::unique_ptr<AppendFile>> OpenAppend(const std::string& path, uint32_t mode = 0644) = 0;
  virtual Result<FileInfo> Stat(const std::string& path) = 0;      // kNotFound when absent
  /// Absolute, and without links, "." and ".."; kNotFound when there is nothing.
  virtual Result<std::string> Resolve(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;  // names, sorted
  virtual Status MakeDirectories(const std::string& path, uint32_t mode = 0755) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;              // a file or an empty directory
  virtual Status RemoveTree(const std::string& path) = 0;          // follows no link
};

FileSystem& RealFileSystem();

}  // namespace harrow::os
