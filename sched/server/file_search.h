#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace harrow::server {

/// Looks for what tasks have made at the other servers of the run (driver_exchange.cc). They are asked one after the other, those that are connected before those that
/// are away: first who has it, or, as its task's owner, makes it; then, where no node here can make it, who else can. Has no clock or connection.
class FileSearch {
 public:
  struct Hooks {
    /// To a server that is connected. `make`: it is to make it again where it has not got it.
    std::function<void(uint32_t part, TaskId, const std::vector<FileId>& files, bool make, bool again)> ask;
    /// Nodes here can.
    std::function<bool(TaskId)> can_make;
    /// Nobody has it, and, where nobody here can make it either, can.
    std::function<void(TaskId)> not_found;
  };
  explicit FileSearch(Hooks hooks) : hooks_(std::move(hooks)) {}

  /// `first`: who is asked before the others. `again`: what it told before cannot be read.
  void Begin(TaskId task, std::vector<FileId> files, std::optional<uint32_t> first, bool again);
  /// No answer is waited for any more.
  void End(TaskId task) { searches_.erase(task); }
  void Connected(uint32_t part);
  /// It may come back: who is waited for is asked once more then.
  void Disconnected(uint32_t part);
  /// It will not.
  void Over(uint32_t part);
  void NotHad(uint32_t part, TaskId task);
  /// Where nodes here can make it, who is away is waited for no longer than a minute.
  void Look(Time now);
  bool Searches(TaskId task) const { return searches_.contains(task); }

 private:
  struct Search {
    std::vector<FileId> files;
    std::optional<uint32_t> first;
    bool again = false, make = false;
    std::optional<uint32_t> asked;  // whose answer is waited for; or who is asked when it is connected
    std::set<uint32_t> tried;
    std::optional<Time> away_since;
  };
  void Next(TaskId task);
  std::optional<uint32_t> Choose(const Search& search) const;
  void Ask(TaskId task, const Search& search);

  const Hooks hooks_;
  std::set<uint32_t> parts_, connected_;  // that have been connected and are not over; and are
  std::map<TaskId, Search> searches_;
};

}  // namespace harrow::server
