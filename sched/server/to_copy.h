#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "supervisor/core/messages.h"

namespace harrow::server {

/// How fast files come from a node's disk to another allocation's nodes, as far as it was seen lately.
class CopySpeed {
 public:
  /// So many bytes took a node so long to write where others read them.
  void Add(Time now, int64_t bytes, Duration took);
  /// Bytes a second, above 0: they are written, and read again.
  double At(Time now) const;

 private:
  double bytes_ = 0, seconds_ = 0;  // what is older counts for less
  Time last_{};
};

/// A file that only nodes here can give, and the one that would copy it.
struct ToCopy {
  FileId file;
  NodeId node;
  int64_t bytes = 0;
};
using FilesOf = std::function<std::vector<ToCopy>(TaskId)>;

/// Each file once; nodes copy at the same time.
Duration TimeToCopy(std::span<const ToCopy> files, double bytes_per_second);

struct Movable {
  std::vector<TaskId> tasks;  // they rise
  // Others stay, as the time to copy what they read is more than they save: one of them would go if the last saved so much.
  std::optional<Duration> dear = {};
};
/// Up to `count` of these, which come in the order in which they would begin: those for which least is copied, of them from the last on; each that
/// begins sooner when all is copied that it reads, those that go before it, and those that have gone already (`coming`).
Movable WorthCopying(std::span<const TaskId> in_order, std::span<const ToCopy> coming, uint64_t count, const std::optional<supervisor::Saving>& saving,
                     double bytes_per_second, const FilesOf& files_of);

}  // namespace harrow::server
