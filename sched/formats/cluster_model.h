#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/resources.h"
#include "base/status.h"

namespace harrow::formats {

/// A cluster for harrow sim. Rates are bytes a second, 0 where something takes no time; times are seconds.
struct ClusterModel {
  struct Nodes {
    uint32_t count = 1;
    NodeCapacity capacity;
    uint64_t page_cache = 0;  // bytes
    double speed = 1;         // a task's run time is divided by it
    uint32_t line = 0;        // where it is told
  };
  /// Where files lie: on the disk of the node that wrote them (as with Gfarm), or on a shared file system whose files
  /// nodes keep in their page caches.
  enum class Storage : uint8_t { kNodes, kShared };
  /// Where files that no task makes lie at the start, of storage on nodes: shuffled, each node has as many; drawn for each
  /// file; by number; on none of the nodes.
  enum class Inputs : uint8_t { kSpread, kRandom, kRoundRobin, kOutside };
  struct Failure {
    uint32_t node = 0;  // from 0
    double at = 0;
    double repair = 0;  // 0: never
  };

  /// From then on a node is so fast.
  struct Change {
    uint32_t node = 0;  // from 0
    double at = 0;
    double speed = 1;
  };
  /// A node that is not there from the start.
  struct Late {
    uint32_t node = 0;
    double at = 0;
  };

  /// Nodes that a run has from begin to end: the first allocation the first ones in the order of `nodes`, and so on.
  /// Each has a server of its own.
  struct Allocation {
    std::string name;
    uint32_t nodes = 0;
    double speed = 1;  // that of its nodes is multiplied by it
    double begin = 0;
    double end = 0;    // 0: it stays
    double delay = 0;  // of a message between it and the middle, where the supervisor is: between two, both delays
  };

  std::string name;
  std::vector<Nodes> nodes;
  std::vector<Allocation> allocations;  // none: all nodes are one, from the start
  bool ends = false;                    // the nodes go away while the run goes on

  Storage storage = Storage::kNodes;
  Inputs inputs = Inputs::kSpread;
  double read_local_disk = 0, read_local_cache = 0, read_remote_disk = 0, read_remote_cache = 0, write = 0;
  bool share_disks = true;  // what reads and writes a node's disk at once shares it
  uint64_t write_back = 0;  // bytes a node may have written that its disk has not yet; 0: none
  double server = 0;   // of the shared file system, in all

  double nic = 0;      // of a node, each way
  double hub = 0;      // all that nodes exchange
  double hub_loss = 0; // n transfers at once leave hub / (1 + hub_loss (n - 1)) between them

  double latency = 0;  // of a message between server and agent, one way
  double jitter = 0;   // mean of what is added to each start, exponentially distributed
  double overhead = 0; // of each task beside its run: starting a process
  double rate = 0;     // starts a second that the server can send

  double mtbf = 0;     // of a node, exponentially distributed; 0: it never fails
  double repair = 0;   // after which it is back; 0: never
  std::vector<Failure> failures;
  std::vector<Change> changes;
  std::vector<Late> late;

  /// The nodes of one of the allocations, as a cluster without any.
  ClusterModel OfAllocation(size_t index) const;
  uint32_t node_count() const;
  uint64_t slot_count() const;
  /// Slots, each worth its node's speed.
  double power() const;
};

/// Reads a cluster file (harrow-cluster(5)). kInvalid: a line "FILE:LINE:COLUMN: what is wrong; what would be right" a
/// problem.
Result<ClusterModel> ReadClusterModel(std::string_view file_name, std::string_view text);

}  // namespace harrow::formats
