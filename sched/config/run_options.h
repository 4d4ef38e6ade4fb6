#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "cost/placement.h"
#include "cost/placer.h"
#include "formats/load.h"
#include "order/policy.h"
#include "os/file_system.h"

namespace harrow::config {

enum class Files : uint8_t { kShared, kLocal };
enum class Moves : uint8_t { kDirect, kViaSupervisor };
/// What Open MPI's ranks are told of the machine.
enum class MpiProfile : uint8_t { kNone, kNoFabric };
enum class MoveTrigger : uint8_t { kEmpty, kLow, kAlways };
enum class MoveAmount : uint8_t { kCapacity, kWorkers };
enum class Progress : uint8_t { kAuto, kPlain, kNone };

/// How a run is to go, all sources considered. Each member is a setting of the same name with '-' for '_'
/// (`harrow.conf`, [flow], HARROW_MAX_FAILURES, --max-failures). A new one is a member here, with its
/// default, and a line of the table in run_options.cc: it is read, shown, checked and stored with a run by
/// that.
struct RunOptions {
  std::string name;  // of the run; empty: the flow's
  order::Policy order = order::Policy::kAuto;
  bool steal = true;
  bool locality = true;
  cost::Place place = cost::Place::kFiles;
  // With a placement by costs (cost::Limits); 0: cost::DefaultLimits.
  double tg_max = 0, ct_max = 0;
  Files files = Files::kShared;
  bool transfer_encryption = true;  // of what files and streams hold, between nodes
  bool save =
      false;  // with files = local: what open tasks read comes to the submit directory before a run stops
  std::string criu = "criu";  // the program that dumps tasks with checkpoint = "criu"
  MpiProfile mpi_profile = MpiProfile::kNone;
  std::string local_dir;  // on each node's disk, for TMPDIRs and stores; empty: HARROW_LOCAL, TMPDIR, /tmp
  uint64_t seed = 1;      // of the orders that draw
  int32_t retries = 0;
  Duration retry_delay{0};  // before a task that has failed is tried again
  // A task is pruned when its bound is not by more than this part of the best value below it (graph::TaskSpec::bound).
  double stop_gap = 0;
  bool fail_fast = false;
  uint32_t max_failures = 0;        // 0: no limit
  uint32_t max_running = 0;         // tasks at once, on all nodes together; 0: as many as fit
  uint32_t max_losses = 5;          // of one task, by lost nodes and agents
  uint32_t bad_node_failures = 10;  // so many failures in a row within a second put a node aside; 0: never
  uint64_t output_limit = uint64_t{64}
                          << 20;  // bytes kept of a task's stdout, and of its stderr; 0: no limit
  std::string shell = "/bin/sh";  // for commands that need one
  uint32_t slots = 0;             // a node; 0: its allowed cores
  uint32_t local_nodes = 1;       // pretend nodes of a run on one machine
  bool pin = true;
  Duration lease = std::chrono::minutes(5);   // an agent that hears of no server for so long ends
  Duration fence = std::chrono::seconds(30);  // of a node unheard of for so long tasks start again elsewhere
  Duration end_margin = std::chrono::seconds(30);  // kept free before the allocation's end
  std::string node_setup, node_teardown;  // commands of each node, before its first task and after its last
  Duration node_limit = std::chrono::minutes(5);  // of each of these two
  std::string on_end;                             // a command at the run's end
  Duration on_end_limit = std::chrono::minutes(5);
  // Between the allocations of a run (supervisor/core).
  Moves moves = Moves::kDirect;
  MoveTrigger move_trigger = MoveTrigger::kAlways;
  MoveAmount move_amount = MoveAmount::kCapacity;
  uint32_t move_alpha = 50;  // percent, of MoveTrigger::kLow
  bool move_all = false;     // also what saves no time
  Duration report_period = std::chrono::milliseconds(100);
  Progress progress = Progress::kAuto;
  std::string run_dir;  // empty: harrow-<job or date>

  std::string costs_from;  // a run; empty: none
  // What it tells; found once, by who begins the run.
  std::vector<cost::Known> known_costs;

  /// What of them is for a placement by costs.
  cost::PlacerOptions placer() const {
    cost::PlacerOptions options;
    options.how = place;
    options.groups = tg_max;
    options.stream = ct_max;
    options.known = known_costs;
    return options;
  }
};

/// A setting as somebody wrote it.
struct Setting {
  std::string key, value;
  std::string place;  // "FILE:LINE:COLUMN", "HARROW_ORDER", "--order": begins messages
};

/// Is it a setting of a [flow] table, and well-formed? kInvalid: what is wrong; what would be right.
Status CheckSetting(std::string_view key, std::string_view value);
/// Applies settings in order: later ones win. kInvalid with one line a problem.
Status Apply(const std::vector<Setting>& settings, RunOptions* options);
/// What is stored with a run: applied to RunOptions() it gives these options again, but for what is a matter
/// of one command only (progress, run_dir).
std::vector<Setting> ToStore(const RunOptions& options);
std::vector<Setting> FromFlow(const formats::Flow& flow);

/// Settings of the site (HARROW_SITE_<KEY>, as its Slurm plugin gives it; then /etc/harrow/harrow.conf, or
/// the file HARROW_CONF names; TOML), the user (~/.config/harrow/harrow.conf) and the environment
/// (HARROW_<KEY>), in rising precedence. `environment`: "NAME=value" each. A missing file is no error, except
/// HARROW_CONF's. HARROW_ variables that are no settings are left alone (a task's own environment has some).
Result<std::vector<Setting>> ReadSettings(os::FileSystem& fs, const std::vector<std::string>& environment);

/// One line a setting, for help and `harrow doctor`.
struct SettingInfo {
  std::string_view key, values, help;
  std::string current;  // of the options given
  std::string place;    // that of the setting that says so; empty: the default
};
std::vector<SettingInfo> DescribeSettings(const RunOptions& options);
/// `settings`: what `options` were made of, the strongest last.
std::vector<SettingInfo> DescribeSettings(const RunOptions& options, const std::vector<Setting>& settings);

}  // namespace harrow::config
