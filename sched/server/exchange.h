#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace harrow::pb {
class MadeFiles;
}

namespace harrow::server {

/// A file that a task has made, as others than those who hold it can have it.
struct OutFile {
  FileId file;
  std::string object{};  // bytes of a store::ObjectId
  int64_t bytes = 0;
  bool in_submit_dir = false;  // as a result, maybe of an unknown object; else in the exchange

  /// Its task is done, and did not make it.
  bool absent() const { return object.empty() && !in_submit_dir; }
  bool in_exchange() const { return !object.empty() && !in_submit_dir; }
  /// There: FILE-OBJECT-BYTES.
  std::string Name() const;
  bool operator==(const OutFile&) const = default;
};

/// Some of what one execution of a task has made.
struct MadeFiles {
  TaskId task;
  std::vector<OutFile> files;  // by number

  const OutFile* Find(FileId file) const;
  /// Files that are in `other` alone.
  void Add(const MadeFiles& other);
  void Write(pb::MadeFiles* out) const;
  static MadeFiles Of(const pb::MadeFiles& message);
  /// kDamaged: it is nothing of the kind.
  static Result<MadeFiles> Parse(std::string_view bytes);
  bool operator==(const MadeFiles&) const = default;
};

/// The name of a list in the exchange, which holds a pb::MadeFiles: made-TASK-UNIQUE.
std::string ListName(TaskId task, std::string_view unique);
/// None: it is no list.
std::optional<TaskId> TaskOfList(std::string_view name);

}  // namespace harrow::server
