#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "multiview/control.h"
#include "multiview/layout.h"
#include "multiview/memory.h"
#include "multiview/plan.h"

namespace harrow::multiview {

/// What all processes agree on in one step: flags of anyone, the sum of everyone's count.
struct Vote {
  std::uint64_t flags = 0;
  std::int64_t sum = 0;
};

namespace internal {

/// The processes of a World: communicators, agreement, direct reads within a node, memory, cached plans and communicators.
class Team : public std::enable_shared_from_this<Team> {
 public:
  static Result<std::shared_ptr<Team>> Create(MPI_Comm comm, const WorldOptions& options);
  ~Team();

  MPI_Comm comm() const { return comm_; }  // the library's own
  int rank() const { return rank_; }
  int size() const { return size_; }
  const WorldOptions& options() const { return options_; }
  Statistics& statistics() { return statistics_; }
  MemoryPool& memory() { return *memory_; }

  /// Everyone's flags or-ed, everyone's sums added. Collective; nobody returns before all have called.
  Vote Agree(Vote mine);
  /// The error of the lowest rank that has one, on every process; ok if none has. Collective.
  Status AgreeOn(const Status& mine);
  /// The same where a vote has already told that someone failed.
  Status FirstError(const Status& mine);

  /// Ok if this process reads what it needs of its node's others directly; else its message tells why not.
  const Status& direct_reads() const { return direct_reads_; }
  /// Whether this process may read that one's memory.
  bool CanRead(int process) const { return readable_ && node_ranks_.contains(process); }
  /// Offers this process's array to its node's readers until the next Agree; each call counts one offer.
  void Offer(const Segment* array);
  /// Reads from what `process` offers in its offer of the same number as our latest; waits for it.
  /// Fills `local` in order with the bytes of `remote`, whose bases are offsets in the partner's array.
  Status Read(int process, std::vector<iovec>& remote, std::vector<iovec>& local);

  std::shared_ptr<const Plan> PlanOf(const std::shared_ptr<const Layout>& from, const std::shared_ptr<const Layout>& to);

  /// `to`, with its roles given to processes so that the least moves.
  std::shared_ptr<const Layout> LeastMoved(const std::shared_ptr<const Layout>& from, const Grid& to);

  /// A communicator of these ranks (ascending, this process among them), made at first use and kept under `owner`, a number
  /// that is the same on all of them.
  Result<MPI_Comm> CommOf(std::int64_t owner, const std::vector<int>& ranks);
  void FreeComms(std::int64_t owner);
  /// The number under which communicators of tasks of this layout and view are kept; the least recently used ones are freed.
  std::int64_t CommOwner(const std::shared_ptr<const Layout>& layout, const Grid& view);
  std::int64_t NewCommOwner() { return next_owner_++; }
  std::uint64_t NextExchange() { return exchanges_++; }

  /// Set while a task or load function runs: no collective call may be made then.
  bool in_task = false;

 private:
  Team() = default;
  Status SetUp(MPI_Comm comm);
  Status SetUpNode();
  void TryReading();
  int Probe();

  WorldOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL, node_ = MPI_COMM_NULL, leaders_ = MPI_COMM_NULL;
  MPI_Errhandler user_errors_ = MPI_ERRHANDLER_NULL;
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1;
  std::unordered_map<int, int> node_ranks_;  // of the processes of this node
  std::unique_ptr<Control> control_;         // null: the node is this process alone
  bool readable_ = false;
  Status direct_reads_;
  Control::Secret secret_ = {};  // see Control::Identity
  bool opened_ = false;           // other processes are allowed to read this one because we asked for it
  std::uint32_t offers_ = 0;
  std::uint32_t agreements_ = 0;
  Statistics statistics_;
  std::shared_ptr<MemoryPool> memory_;

  struct CachedPlan {
    std::shared_ptr<const Layout> from, to;
    std::shared_ptr<const Plan> plan;
  };
  std::list<CachedPlan> plans_;  // most recently used first
  struct CachedRoles {
    std::shared_ptr<const Layout> from, to;
  };
  std::list<CachedRoles> roles_;
  struct CachedOwner {
    std::shared_ptr<const Layout> layout;
    Grid view;
    std::int64_t owner;
  };
  std::list<CachedOwner> owners_;
  std::int64_t next_owner_ = 0;
  std::uint64_t exchanges_ = 0;
  std::map<std::int64_t, std::map<std::vector<int>, MPI_Comm>> comms_;
};

}  // namespace internal
}  // namespace harrow::multiview
