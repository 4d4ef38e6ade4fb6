#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "journal/journal.h"
#include "run/first_owners.h"

namespace harrow::server {

/// What the next owner of a task has to know of the attempts that were made of it.
struct Tried {
  TaskId task;
  uint32_t attempts = 0;  // as far as they count against its retries, those that were lost included
  uint32_t losses = 0;
  uint32_t last = 0;  // the highest number that one had
  bool operator==(const Tried&) const = default;
};

/// For ever: whose offer, and which of its offers.
struct OfferId {
  uint32_t giver = 0;
  uint64_t number = 0;
  auto operator<=>(const OfferId&) const = default;
};

/// Tasks that a server offers to another one.
struct TaskOffer {
  OfferId id;
  uint32_t taker = 0;
  std::vector<TaskId> tasks;  // they rise
  std::vector<Tried> tried;   // of those of them that were tried
  bool operator==(const TaskOffer&) const = default;
};

/// Which tasks of a run are a part's own, by its journal.
struct Holdings {
  std::vector<bool> own;
  std::map<uint64_t, TaskOffer> pending;         // its offers of which it does not know what became, by number
  std::set<OfferId> taken;                       // offers of others
  std::unordered_map<uint32_t, Tried> tried;     // of tasks that came from others
  uint64_t last_number = 0;                      // of its offers
  uint64_t gave = 0, took = 0;                   // tasks: that others have taken, that it took from others
};
/// kDamaged: the records contradict each other, or name tasks that are not there.
Result<Holdings> HoldingsOf(uint32_t part, const run::FirstOwners& first_owners, const std::vector<journal::MoveRecord>& records);

/// Calls `use` for each task of which the session that began then has attempts in the history, with what was tried of it in
/// all: those that were made after it came from another part (`tried`) are counted with these.
void AddTried(const journal::History& history, int64_t session_start_ns, const std::unordered_map<uint32_t, Tried>& tried,
              const std::function<void(const Tried&)>& use);

/// What is to be written into the journal of a part that is over, so that `taker` gets what is open of it; nothing: nothing
/// is. `over`: the holdings of a part that is over as well (and sealed, as this one will be by these records), or null:
/// it goes on, and takes what was offered to it by itself. What was offered to such a part and never taken by it is still
/// the giver's. Repeated after a crash it finds its own work done.
std::vector<journal::MoveRecord> SealRecords(uint32_t part, const Holdings& holdings, const std::vector<bool>& settled,
                                             const std::unordered_map<uint32_t, Tried>& tried, uint32_t taker,
                                             const std::function<const Holdings*(uint32_t part)>& over,
                                             int64_t time_ns);

/// Gives and takes tasks so that at every moment one server of a run has each of them, whatever dies. Has no clock, file
/// or connection.
class Moves {
 public:
  struct Hooks {
    /// Hands a record to the journal, and tells the number by which it is known when it is on disk.
    std::function<uint64_t(journal::MoveRecord)> record;
    std::function<void(const TaskOffer&)> offer;  // to its taker, where that is connected
    std::function<void(const OfferId&, bool taken)> answer;
    /// They are this server's from now on, and may be started.
    std::function<void(const std::vector<TaskId>&, const std::vector<Tried>&)> own;
    std::function<int64_t()> now;  // calendar time
  };
  Moves(uint32_t part, Hooks hooks) : part_(part), hooks_(std::move(hooks)) {}

  /// What the journal says; the tasks that are its own are known from there.
  void Restore(Holdings holdings);

  /// Tasks that nobody starts here any more go to another server. The number of the offer.
  uint64_t Give(uint32_t taker, std::vector<TaskId> tasks, std::vector<Tried> tried);
  /// An offer to this server has come, maybe again. With `refuse` it is not taken, unless it was before.
  void Offered(const TaskOffer& offer, bool refuse);
  /// What became of an offer of this server.
  void Answered(const OfferId& id, bool taken);
  /// All up to this record is on disk.
  void Committed(uint64_t sequence);
  /// A connection to that server is there: what it has not answered is offered again.
  void Connected(uint32_t part);
  /// That part is over, sealed, and its journal says this: what was offered to it comes back where it did not take it, and
  /// what it had offered here is taken.
  void PartOver(uint32_t part, const Holdings& holdings);

  /// It is this server's, and on disk.
  bool has_taken(const OfferId& id) const {
    const auto found = taken_.find(id);
    return found != taken_.end() && found->second;
  }
  /// Nothing is under way from here, or not on disk yet.
  bool idle() const { return out_.empty() && waiting_.empty(); }
  struct Out {
    TaskOffer offer;
    bool on_disk = false;
    bool ended = false;  // what became of it is known, and not on disk yet
  };
  const std::map<uint64_t, Out>& out() const { return out_; }
  /// Tasks that others have taken of this server, and that it has taken of others, since the session began; one that comes
  /// and goes counts each time.
  uint64_t gave() const { return gave_; }
  uint64_t took() const { return took_; }

 private:
  struct Waiting {
    uint64_t sequence;
    std::function<void()> then;
  };
  void Record(journal::MoveRecord record, std::function<void()> then);
  void Take(const TaskOffer& offer);
  void Settle(uint64_t number, const std::set<OfferId>& taken);
  void Return(uint64_t number);
  void Confirm(uint64_t number);

  const uint32_t part_;
  const Hooks hooks_;
  std::map<uint64_t, Out> out_;
  std::map<OfferId, bool> taken_;  // and whether that is on disk
  std::map<uint32_t, std::set<OfferId>> over_;  // parts that are over, and what they had taken
  std::deque<Waiting> waiting_;    // for the disk, by sequence
  uint64_t last_number_ = 0;
  uint64_t gave_ = 0, took_ = 0;
};

}  // namespace harrow::server
