#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>

#include "agent/slot_pool.h"
#include "store/store.h"

namespace harrow::agent {

/// Bytes on disk of all below the directory `path`, on its file system. Follows no link; what vanishes
/// meanwhile does not count, a file of several names counts for each.
uint64_t DiskUse(const std::string& path);

/// Keeps what the tasks of a node hold in their TMPDIRs, and the store beside them, within
/// NodeContext::local_limit: the store is told what the tasks hold, at least an eighth of it, and takes no
/// more than the rest; while both together are more, the task that holds the most is killed. A thread of its
/// own; a disk fills between two looks, so this is no quota.
class LocalWatch {
 public:
  LocalWatch(const NodeContext& node, const os::Clock& clock, SlotPool& pool);
  /// The node has a store, which outlives this.
  void Share(store::Store* store);

 private:
  void Run(const std::stop_token& stop);
  void Look();
  uint64_t Reserved() const;

  const NodeContext& node_;
  const os::Clock& clock_;
  SlotPool& pool_;
  std::atomic<store::Store*> store_ = nullptr;
  std::jthread thread_;
};

}  // namespace harrow::agent
