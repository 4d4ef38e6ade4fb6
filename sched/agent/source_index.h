#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "os/file_system.h"
#include "store/store.h"

namespace harrow::agent {

/// What tells the content of a regular file from any other that was or will be at its path, as far as its
/// inode does: size, times, number. Empty: it is no regular file, or was written a moment ago and may be once
/// more without a sign of it. `now_ns`: calendar time; 0: as it is.
std::string SourceOf(const std::string& path, int64_t now_ns = 0);

/// Which files of the submit directory a store holds: by path and source (SourceOf) the object. In a file, a
/// line a file, so that the next who opens the store finds them. From any thread.
class SourceIndex {
 public:
  struct Entry {
    std::string path, source;
    store::Object object{};
  };
  /// Reads the file, where it is and can be read, and leaves in it what `store` holds. One that cannot be
  /// written is left as it is. `store` is asked in this call and in ForgetGone.
  static std::unique_ptr<SourceIndex> Open(os::FileSystem& fs, const std::string& file,
                                           const store::Store& store);

  /// `object` is what is at `path`. A file that cannot be written is left as it is.
  void Note(const std::string& path, const std::string& source, const store::Object& object);
  /// What `store` does not hold is not known any more.
  void ForgetGone(const store::Store& store);
  std::optional<store::Object> Find(const std::string& path, const std::string& source) const;
  /// Some path is said to hold that.
  bool Names(const store::ObjectId& object) const;
  std::vector<Entry> Entries() const;

 private:
  struct Known {
    std::string source;
    store::Object object{};
  };
  void Add(const Entry& entry);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Known> known_;             // by path
  std::unordered_map<store::ObjectId, uint32_t> of_object_;  // how many paths
  std::unique_ptr<os::AppendFile> file_;
};

/// Which objects of a store the files of a session of a run are, so that an agent that is started again finds
/// them. A line each in a file, the last one counts. From any thread.
class HeldLog {
 public:
  using Held = std::vector<std::pair<FileId, store::Object>>;
  /// `held`: what the store still holds of that session: another one of its run may have other files, or
  /// others of their names. The file is of this session from now on; one that cannot be written is left.
  static std::unique_ptr<HeldLog> Open(os::FileSystem& fs, const std::string& file,
                                       const std::string& session, const store::Store& store, Held* held);
  void Note(FileId file, const store::Object& object);

 private:
  std::mutex mutex_;
  std::unique_ptr<os::AppendFile> file_;
};

}  // namespace harrow::agent
