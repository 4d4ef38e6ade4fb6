#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "os/file_system.h"

namespace harrow::test {

/// Files in memory, with the faults that durable code has to stand: a crash drops what was not synced, the
/// disk fills up, files are cut and bits flip. Of one thread. Paths are compared as they are written.
class MemoryFileSystem : public os::FileSystem {
 public:
  // --- faults
  /// What a machine's crash leaves: of every file, what was synced.
  void Crash() {
    for (auto& [path, file] : files_) file->data.resize(std::min(file->data.size(), file->synced));
  }
  /// Bytes that fit on the disk from now on.
  void SetFree(uint64_t bytes) { free_ = bytes; }
  void SetReadOnly(bool read_only) { read_only_ = read_only; }
  void Truncate(const std::string& path, size_t size) { files_.at(path)->data.resize(size); }
  void FlipBit(const std::string& path, size_t bit) {
    files_.at(path)->data.at(bit / 8) =
        static_cast<char>(files_.at(path)->data.at(bit / 8) ^ (1 << (bit % 8)));
  }
  /// Every later operation that names this path fails so, until cleared with an ok Status.
  void Fail(const std::string& path, Status why) { failures_[path] = std::move(why); }
  void SetMode(const std::string& path, uint32_t mode) { files_.at(path)->mode = mode; }
  void SetForeign(const std::string& path) { files_.at(path)->foreign = true; }
  void SetNow(WallTime now) { now_ = now; }
  /// What Resolve makes of a path; others are no links.
  void SetLink(const std::string& path, const std::string& target) { links_[path] = target; }

  // --- looking
  bool Has(const std::string& path) const { return files_.contains(path); }
  std::string Content(const std::string& path) const { return files_.at(path)->data; }
  uint32_t Mode(const std::string& path) const { return files_.at(path)->mode; }
  size_t file_count() const { return files_.size(); }

  // --- FileSystem
  Result<std::string> Read(const std::string& path, uint64_t limit = UINT64_MAX) override {
    return ReadRange(path, 0, limit);
  }
  Result<std::string> ReadRange(const std::string& path, uint64_t offset, uint64_t length) override {
    HARROW_RETURN_IF_ERROR(Failure(path));
    auto it = files_.find(path);
    if (it == files_.end()) return NoSuch(path);
    const std::string& data = it->second->data;
    if (offset >= data.size()) return std::string();
    return data.substr(offset, std::min<uint64_t>(length, data.size() - offset));
  }
  Result<std::string> ReadPrivate(const std::string& path, uint64_t limit) override {
    HARROW_RETURN_IF_ERROR(Failure(path));
    auto it = files_.find(path);
    if (it == files_.end()) return NoSuch(path);
    if ((it->second->mode & 077) != 0 || it->second->foreign) {
      return Status(Code::kPermission, StrCat(path, " is open to others or not yours"));
    }
    return Read(path, limit);
  }
  Status WriteWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) override {
    HARROW_RETURN_IF_ERROR(MayWrite(path, data.size()));
    auto file = std::make_shared<File>();
    file->data = data;
    file->synced = data.size();
    file->mode = mode;
    file->modified = now_;
    files_[path] = std::move(file);
    return {};
  }
  Status CreateWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) override {
    HARROW_RETURN_IF_ERROR(Failure(path));
    if (files_.contains(path) || directories_.contains(path)) {
      return Status(Code::kExists, StrCat("cannot create ", path, ": it exists"));
    }
    return WriteWhole(path, data, mode);
  }
  Result<std::unique_ptr<os::AppendFile>> OpenAppend(const std::string& path, uint32_t mode = 0644) override {
    HARROW_RETURN_IF_ERROR(MayWrite(path, 0));
    auto& file = files_[path];
    if (!file) {
      file = std::make_shared<File>();
      file->mode = mode;
      file->modified = now_;
    }
    return std::unique_ptr<os::AppendFile>(std::make_unique<Appender>(this, path, file));
  }
  Result<os::FileInfo> Stat(const std::string& path) override {
    HARROW_RETURN_IF_ERROR(Failure(path));
    os::FileInfo info;
    if (auto it = files_.find(path); it != files_.end()) {
      info.size = it->second->data.size();
      info.modified = it->second->modified;
      return info;
    }
    if (!directories_.contains(path) && List(path)->empty()) return NoSuch(path);
    info.is_directory = true;
    return info;
  }
  Result<std::string> Resolve(const std::string& path) override {
    HARROW_RETURN_IF_ERROR(Failure(path));
    if (const auto link = links_.find(path); link != links_.end()) return link->second;
    return path.starts_with('/') ? path : path == "." ? "/" : "/" + path;
  }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    HARROW_RETURN_IF_ERROR(Failure(directory));
    std::set<std::string> names;
    std::string prefix = directory + "/";
    auto add = [&](const std::string& path) {
      if (!path.starts_with(prefix)) return;
      names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
    };
    for (const auto& [path, file] : files_) add(path);
    for (const std::string& path : directories_) add(path);
    return std::vector<std::string>(names.begin(), names.end());
  }
  Status MakeDirectories(const std::string& path, uint32_t = 0755) override {
    HARROW_RETURN_IF_ERROR(MayWrite(path, 0));
    directories_.insert(path);
    return {};
  }
  Status Rename(const std::string& from, const std::string& to) override {
    HARROW_RETURN_IF_ERROR(MayWrite(from, 0));
    HARROW_RETURN_IF_ERROR(MayWrite(to, 0));
    auto it = files_.find(from);
    if (it == files_.end()) return NoSuch(from);
    files_[to] = it->second;
    files_.erase(from);
    return {};
  }
  Status Remove(const std::string& path) override {
    HARROW_RETURN_IF_ERROR(MayWrite(path, 0));
    if (files_.erase(path) + directories_.erase(path) == 0) return NoSuch(path);
    return {};
  }
  Status RemoveTree(const std::string& path) override {
    HARROW_RETURN_IF_ERROR(MayWrite(path, 0));
    auto below = [&](const std::string& p) { return p == path || p.starts_with(path + "/"); };
    size_t gone = std::erase_if(files_, [&](const auto& f) { return below(f.first); });
    gone += std::erase_if(directories_, below);
    return gone == 0 ? NoSuch(path) : Status();
  }

 private:
  struct File {
    std::string data;
    size_t synced = 0;
    uint32_t mode = 0644;
    bool foreign = false;
    WallTime modified;
  };
  class Appender : public os::AppendFile {
   public:
    Appender(MemoryFileSystem* fs, std::string path, std::shared_ptr<File> file)
        : fs_(fs), path_(std::move(path)), file_(std::move(file)) {}
    Status Append(std::string_view data) override {
      HARROW_RETURN_IF_ERROR(fs_->MayWrite(path_, data.size()));
      file_->data.append(data);
      file_->modified = fs_->now_;
      return {};
    }
    Status Sync() override {
      HARROW_RETURN_IF_ERROR(fs_->Failure(path_));
      file_->synced = file_->data.size();
      return {};
    }
    uint64_t size() const override { return file_->data.size(); }

   private:
    MemoryFileSystem* fs_;
    std::string path_;
    std::shared_ptr<File> file_;
  };

  static Status NoSuch(const std::string& path) {
    return Status(Code::kNotFound, StrCat("cannot read ", path, ": No such file or directory"));
  }
  Status Failure(const std::string& path) const {
    auto it = failures_.find(path);
    return it == failures_.end() ? Status() : it->second;
  }
  Status MayWrite(const std::string& path, uint64_t bytes) {
    HARROW_RETURN_IF_ERROR(Failure(path));
    if (read_only_)
      return Status(Code::kPermission, StrCat("cannot write ", path, ": Read-only file system"));
    if (bytes > free_)
      return Status(Code::kExhausted, StrCat("cannot write ", path, ": No space left on device"));
    if (free_ != UINT64_MAX) free_ -= bytes;
    return {};
  }

  std::map<std::string, std::shared_ptr<File>> files_;
  std::set<std::string> directories_;
  std::map<std::string, Status> failures_;
  std::map<std::string, std::string> links_;
  uint64_t free_ = UINT64_MAX;
  bool read_only_ = false;
  WallTime now_{};
};

}  // namespace harrow::test
