#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/fence_page.h"
#include "agent/steps/tmp_tree.h"
#include "base/time.h"
#include "run_dir/run_dir.h"
#include "topology/slots.h"
#include "wire/channel.h"

namespace harrow::agent {

/// What a run does to each node besides its tasks (agent/node_commands.cc).
struct NodeCommands {
  std::string setup, teardown;  // for the shell; empty: none
  std::string shell;
  std::string directory;  // the submit directory
  std::vector<std::pair<std::string, std::string>> env;
  Duration limit = std::chrono::minutes(5);  // of each
};

struct AgentOptions {
  std::shared_ptr<run_dir::RunDir> dir{};  // of its part of the run
  std::string node_name{};
  uint32_t slots = 0;        // 0: one a core
  bool pin = true;           // tasks to their slots' cores
  topology::Share share{};   // of this machine, for pretend nodes
  std::string local_dir{};   // where temporary files go, and nowhere else; empty: `local`, TMPDIR or /tmp
  std::string local{};       // the job's directory on this node's disk, made by the batch system; empty: none
  uint32_t most_tasks = 0;   // at a time, by the site's leave; 0: no limit
  uint64_t local_limit = 0;  // bytes that tasks may hold there; 0: no limit
  wire::PortRange ports = 0;  // for other agents, by the site's leave
  topology::Grant grant{};    // of the batch system
  std::string run_dir{};       // of the run, as tasks are told (HARROW_RUN)
  uint32_t part = 0;           // its number there (HARROW_PART)
  bool alone = false;         // wait for, and give way to, another warden of this run and node
  NodeCommands commands{};    // of the run, for this node
  // How the run's files lie on the node (agent/store_home.h).
  enum class Files : uint8_t { kShared, kLocal, kStage, kDrop } files = Files::kShared;
  std::string session{};       // of the run
  std::string unfit{};         // why no task may run here; found out by the warden
  TmpRoot tmp_root{};          // made by the warden, where tasks' temporary directories go; empty: none
  std::string mpi_helper{};    // harrow-pmix, the program; empty: it is not installed
  bool no_fabric = false;      // ranks of Open MPI are to look for none, if this node has none
  std::string criu{};          // the program, and ...
  std::string harrow{};        // ... what holds a task for it (harrow hold)
  FencePage* fence = nullptr;  // made by the warden, which looks at it too
};

/// How an agent or its warden ends. Others than these (a signal, an abort) mean that it may be started again.
enum AgentExit : int {
  kAgentDone = 0,        // the server said so, or a signal did
  kAgentCannotGoOn = 3,  // refused, lease over, or no way to begin
};

/// The agent proper: runs tasks until the server says that it is over. In a process of its own with one
/// thread, whose signals have been taken (os::TakeSignals).
int RunAgent(const AgentOptions& options);

/// The small parent of an agent: whatever the agent leaves is ended, and a dead agent is started again.
/// Forks.
int RunWarden(AgentOptions options);

}  // namespace harrow::agent
