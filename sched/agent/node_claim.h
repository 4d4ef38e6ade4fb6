#pragma once

#include <functional>
#include <string>

#include "base/time.h"
#include "os/posix_files.h"

namespace harrow::agent {

/// That this process serves a node for a run, and no other process of this user on the node does (how:
/// node_claim.cc). Held until the end of the object or of the process; a child that is forked closes it. Of
/// one thread.
class NodeClaim {
 public:
  NodeClaim(const std::string& run_dir, const std::string& node);

  /// True once it is ours, also where the kernel has no means to tell others. False when another serves for
  /// longer than `limit`, or `pause`, which waits a little, says that it is to leave.
  bool Take(Duration limit, const std::function<bool()>& pause);
  void Close() {
    asks_fd_ = os::Fd();
    serves_fd_ = os::Fd();
  }

 private:
  struct Others {
    bool any = false, older = false, serving = false;
  };
  Others LookAround() const;

  std::string asks_, serves_;  // names of the two marks
  os::Fd asks_fd_, serves_fd_;
};

}  // namespace harrow::agent
