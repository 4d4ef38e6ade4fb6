#pragma once

#include <cstdint>
#include <string>

#include "base/figures.h"
#include "batch/slurm_site.h"
#include "graph/graph.h"
#include "journal/journal.h"
#include "os/file_system.h"
#include "run/flow_store.h"

namespace harrow::server {

/// What one `harrow run` has used, left where the site's plugin looks for it at the job's end
/// (plugin/run_account_format.md). What earlier jobs did in the same run directory does not count again; what
/// an earlier server of this one did, does.
class SiteAccount {
 public:
  /// `local`: SitePolicy::local; empty: nobody wants an account. `history`: the journal when the server
  /// started.
  SiteAccount(os::FileSystem& fs, std::string local, const run::RunSettings& settings,
              const graph::Graph& graph, const journal::History& history);

  bool wanted() const { return !local_.empty(); }
  /// A failure is logged, once.
  void Leave(const Figures& figures);

 private:
  os::FileSystem& fs_;
  std::string local_;
  batch::RunUse use_;
  uint64_t earlier_attempts_ = 0;
  double earlier_core_seconds_ = 0;
};

}  // namespace harrow::server
