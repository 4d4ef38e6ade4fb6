#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"
#include "server/other_servers.h"

namespace harrow::server {

/// Looks at what lies in a run directory of the run's other parts: which of them have a server, and which are over. Of
/// those that are over it sees to it that their journals tell whose their tasks are (moves.h). Takes its time; of one
/// thread at a time.
class PartWatch {
 public:
  struct Options {
    run_dir::Part part;      // this server's
    std::string run_id, flow_id;
    WallTime session;        // parts of earlier sessions of the run are let lie
    std::string job{};       // of this process, with restarts; empty: none
    Duration fence{0};       // so long may tasks of a part run on whose keeper died
    run_dir::JobAlive job_alive{};
    bool sync_journal = true;
    bool local_files = false;
  };
  explicit PartWatch(Options options) : options_(std::move(options)) {}

  /// Tasks that read streams: that an attempt has succeeded does not make them done. Not while it looks.
  void SetReaders(std::set<uint32_t> readers) { readers_ = std::move(readers); }

  struct Seen {
    struct Server {
      uint32_t part = 0;
      run_dir::Rendezvous at;
    };
    std::vector<Server> servers;                       // that can be reached, as far as files tell
    std::vector<std::pair<uint32_t, OverPart>> over;   // that are over, where anything is new of them
    bool others = false;                               // there are other parts of this session
    bool lowest = false;                               // those with lower numbers are over, and sealed
    uint32_t alive = 0;                                // of them, those that are not over
    std::string trouble;                               // what does not read, for the log; empty: nothing
  };
  /// `connected`: parts that are known to live. `first_owners`: of the run's tasks.
  Seen Look(const std::set<uint32_t>& connected, const run::FirstOwners& first_owners, Time now);

 private:
  struct Known {
    bool of_session = false;
    std::optional<Time> gone_since;
    // When the journal had been changed that was read last, and that was told last.
    std::optional<WallTime> read, told;
  };
  struct OverJournal {
    journal::History history;
    Holdings holdings;
  };

  bool OfSession(const run_dir::Part& part, Known* known);
  bool IsOver(const run_dir::Part& part, Known* known, Time now);
  Result<OverJournal> ReadJournal(const run_dir::Part& part, const run::FirstOwners& first_owners) const;
  Status Seal(const run_dir::Part& part, const run::FirstOwners& first_owners);

  const Options options_;
  std::set<uint32_t> readers_;
  std::map<uint32_t, Known> known_;
  std::map<uint32_t, OverJournal> sealed_;  // by the last look
};

}  // namespace harrow::server
