#pragma once

#include <functional>
#include <string>

#include "base/time.h"

namespace harrow::agent {

/// That this process serves a node for a run, and no other process of this user on the node does (how:
/// node_claim.cc). Held until the end of the object or of the process; a child that is forked closes it. Of
/// one thread.
class NodeClaim {
 public:
  NodeClaim(const std::string& run_dir, const std::string& node);
  ~NodeClaim() { Close(); }
  NodeClaim(const NodeClaim&) = delete;
  NodeClaim& operator=(const NodeClaim&) = delete;

  /// True once it is ours, also where the kernel has no means to tell others. False when another serves for
  /// longer than `limit`, or `pause`, which waits a little, says that it is to leave.
  bool Take(Duration limit, const std::function<bool()>& pause);
  void Close();

 private:
  struct Others {
    bool any = false, older = false, serving = false;
  };
  Others LookAround() const;

  std::string asks_, serves_;  // names of the two marks
  int asks_fd_ = -1, serves_fd_ = -1;
};

}  // namespace harrow::agent
