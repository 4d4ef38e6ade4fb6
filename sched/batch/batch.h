#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace harrow::batch {

struct GrantedNode {
  std::string name;
  uint32_t cpus = 0;            // granted; 0: whatever the machine has
  uint64_t memory = 0;          // bytes; 0: unknown
  uint32_t devices = 0;
  std::string partition = {};   // empty: none
  std::vector<uint32_t> which =
      {};           // the CPUs granted, as the batch system numbers them; empty: all, or unknown
  uint32_t of = 0;  // how many CPUs it numbers there
};

/// The batch system of this allocation, or this machine alone. Used by the keeper and the server.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual std::string name() const = 0;     // "local", "slurm"
  virtual std::string job_id() const = 0;   // empty: none
  virtual std::string job_name() const { return ""; }
  virtual Result<std::vector<GrantedNode>> Nodes() = 0;
  /// When the allocation ends; none: never. Asked rarely.
  virtual std::optional<WallTime> EndTime() = 0;
  /// The nodes of the allocation that are drained: nothing new is to begin there. None: there is no such thing here. As rarely.
  virtual std::optional<std::vector<std::string>> DrainedNodes() { return std::nullopt; }
  /// The command lines that start the agents, each run and waited for by the keeper (local: one a node; Slurm: one srun).
  virtual Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) = 0;
  /// The same without nodes that are named; none: there is no such thing here, or no node would be left.
  virtual std::optional<std::vector<std::string>> AgentCommandWithout(
      const std::string& /*run_dir*/, const std::vector<std::string>& /*nodes*/) {
    return std::nullopt;
  }
  /// The nodes that the commands above said could not be reached, in what they have written; each once.
  virtual std::vector<std::string> UnreachableIn(std::string_view /*written*/) const { return {}; }
  /// The command line that starts an agent on a node that has lost its own; none where the commands above, run
  /// again, do that.
  virtual std::optional<std::vector<std::string>> AgentCommandOn(const std::string& /*run_dir*/,
                                                                 const std::string& /*node*/) {
    return std::nullopt;
  }
  /// Numeric addresses a server should listen on so that agents reach it.
  virtual std::vector<std::string> ListenHosts() = 0;
};

struct LocalOptions {
  std::string program;          // this harrow
  uint32_t nodes = 1;           // pretend nodes
  uint32_t slots = 0;           // a node; 0: all allowed cores (divided over the pretend nodes)
  bool pin = true;              // tasks to their cores
};
std::unique_ptr<Batch> MakeLocal(const LocalOptions& options);

}  // namespace harrow::batch
