#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "journal/journal.h"
#include "made/record.h"
#include "run/best.h"
#include "run/flow_store.h"
#include "server/awaiting.h"
#include "server/driver.h"
#include "server/file_search.h"
#include "server/moves.h"
#include "supervisor/core/supervisor.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// What the journal of a part that is over tells the servers that go on.
struct OverPart {
  Holdings holdings;
  std::vector<std::pair<TaskId, journal::TaskFate>> fates;  // of the tasks that it was the owner of
  made::Attempts made;                                      // by attempts of tasks that are open
  std::vector<TaskEnding> endings{};                        // of tasks that have failed
  std::vector<std::string> lists{};                         // names in the exchange
  std::vector<std::string> results{};                       // files that it has brought to the submit directory
};

/// What a server does with the other servers of its run: gives and takes tasks, tells how its own ended, reports to the
/// supervisor, and is that one where it has the lowest part of those that are connected. Has no clock, file or connection;
/// of the server's thread.
class OtherServers {
 public:
  struct Options {
    uint32_t part = 0;
    uint64_t epoch = 1;
    supervisor::Options supervisor = {};
    bool via_supervisor = false;  // offers and their answers go through it, for comparisons

    static Options Of(const run::RunSettings& settings, uint32_t part, uint64_t epoch);
  };
  struct Hooks {
    /// To a server that is connected.
    std::function<void(uint32_t part, const pb::BetweenServers&)> send;
    std::function<Moment()> now;
    std::function<uint64_t(journal::MoveRecord)> record;
    /// The run has at least so many tasks: those that are not in the graph yet are to be read. May be empty.
    std::function<Status(uint32_t tasks)> grow{};
    /// How the last attempt of a task ended, of this server; and of another one. May be empty.
    std::function<std::optional<TaskEnding>(TaskId)> ending{};
    std::function<void(const TaskEnding&)> ended{};
    /// The best value that is known, null where none is; and one that another server tells. May be empty.
    std::function<const run::BestValue*()> best{};
    std::function<void(run::BestValue)> learn{};
    /// What clients of another server have submitted, and what became of what was passed on to another one. May be empty.
    std::function<void(uint32_t part, const pb::PassedSubmission&)> submit{};
    std::function<void(const pb::SubmissionAnswered&)> submitted{};
    /// Who is connected has changed. May be empty.
    std::function<void()> connections_changed{};
  };
  OtherServers(const graph::Graph& graph, const Options& options, RunDriver* driver, Hooks hooks);

  void Restore(Holdings holdings);
  void Connected(uint32_t part, uint64_t epoch);
  void Disconnected(uint32_t part);
  /// kInvalid: no server of the run says that.
  Status Take(uint32_t part, const pb::BetweenServers& message);
  /// A part is over and sealed. Again, where its journal says more since.
  void PartOver(uint32_t part, const OverPart& what);
  /// By the run directory other parts are not over, connected or not. Until it is told: as the journal makes likely.
  void SetAlive(bool alive);
  /// Somebody has cancelled these tasks, which may be any server's.
  void Cancel(const std::vector<TaskId>& tasks);
  /// Who is connected is told the best value.
  void TellBest();
  /// To a server that is connected.
  void SendSubmission(uint32_t part, const pb::PassedSubmission& passed);
  void AnswerSubmission(uint32_t part, const pb::SubmissionAnswered& answer);
  /// Each report period.
  void Tick();
  /// A task of this server goes to another, as soon as nothing of it is at a node. kNotFound: another server has it.
  Status MoveTo(TaskId task, uint32_t part);
  /// It stays, though somebody has said otherwise before.
  void Keep(TaskId task) { moving_.erase(task); }
  /// What the scheduler has done since may let them go.
  void GoOnMoving();
  /// What the driver asks for, and what it has for others (RunDriver::Hooks).
  void Search(TaskId task, const std::vector<FileId>& files, bool again);
  void Published(TaskId task, const MadeFiles* made);
  /// The graph has tasks that were submitted to this server, or are from now on.
  void TellOfTasks();
  void Decided(TaskId task, journal::TaskFate fate, uint64_t sequence);
  void AttemptEnded(const journal::AttemptRecord& record);
  /// The journal has all up to `sequence` on disk.
  void Committed(uint64_t sequence);

  /// What a client is told that asks for more allocations: Progress.load and .ready.
  void TellLoad(pb::Progress* progress) const;

  const std::set<uint32_t>& connected() const { return connected_; }
  /// Another one goes on with the run, as far as is known.
  bool there() const { return alive_ || !connected_.empty(); }
  /// Nothing of this server's is under way to or from another one.
  bool idle() const { return moves_.idle() && askers_.empty(); }
  /// Sent to and received from other servers since this one started.
  uint64_t messages() const { return messages_; }
  /// Tasks that others have taken of this server.
  uint64_t gave() const { return moves_.gave(); }
  /// What it has to do with the others.
  void Snapshot(pb::AllocationStatus* status) const;
  bool is_supervisor() const { return supervisor_ != nullptr; }

 private:
  struct Following {
    supervisor::MoveId move;
    uint32_t to = 0;
    Shape shape;
    uint64_t count = 0;
    bool waiting = false, running = false, shared = false;
  };
  /// A task that goes to that part as soon as nothing of it is at a node: by somebody's word, or as the supervisor asked.
  struct Moving {
    uint32_t part = 0;
    std::optional<supervisor::MoveRequest> advice;
  };
  /// A task that runs, and what the supervisor is told of it.
  struct Leaving {
    TaskId task;
    Shape shape;
    supervisor::Leaver leaver;
  };
  struct Decision {
    uint64_t sequence;
    TaskId task;
    journal::TaskFate fate;
  };

  void Send(uint32_t part, const pb::BetweenServers& message);
  void SendBest(uint32_t part);
  /// Something about a move: the way that they go.
  void SendOfMove(uint32_t part, const pb::BetweenServers& message);
  Status TakePassed(uint32_t part, const pb::Passed& passed);
  void SendAllDecided(uint32_t part);
  void AddEnded(TaskId task, journal::TaskFate fate, pb::EndedTasks* out) const;
  void AskForFiles(uint32_t part, TaskId task, const std::vector<FileId>& files, bool make, bool again);
  Status TakeOfFiles(uint32_t part, const pb::BetweenServers& message);
  void ChooseSupervisor();
  void AddQueues(supervisor::Report* report) const;
  void AddWorks(supervisor::Report* report) const;
  supervisor::Report ReportNow();
  std::vector<supervisor::Pace> PacesNow();
  void Advise(const supervisor::Event& event);
  void Follow(const supervisor::MoveRequest& request);
  void GiveReady(const supervisor::MoveRequest& request);
  Duration DearOf(const Shape& shape) const;
  void SendRunning(const supervisor::MoveRequest& request);
  void Give(const supervisor::MoveRequest& request, const std::vector<TaskId>& wanted);
  std::vector<Leaving> Leavers() const;
  void Take(uint32_t part, const pb::ServerReport& message);
  Status CheckTasks(const pb::BetweenServers& message);

  const graph::Graph& graph_;
  const Options options_;
  RunDriver& driver_;
  const Hooks hooks_;
  Moves moves_;
  FileSearch search_;
  supervisor::Obedience obedience_;
  std::unique_ptr<supervisor::Supervisor> supervisor_;
  std::set<uint32_t> connected_;
  bool alive_ = false;
  bool tells_of_tasks_ = false;  // this server takes what is submitted
  std::map<uint32_t, Duration> delays_;  // one way
  std::map<uint32_t, uint64_t> epochs_;  // of other servers
  std::map<TaskId, Moving> moving_;
  std::map<uint64_t, Following> following_;  // by the number of the offer
  std::set<uint64_t> by_hand_;               // numbers of offers that follow somebody's word
  std::vector<std::pair<Time, supervisor::MoveId>> taken_;
  std::map<OfferId, supervisor::MoveId> coming_;  // offers that are not taken yet
  std::deque<Decision> decided_;                  // not on disk yet
  std::map<TaskId, std::set<uint32_t>> askers_;    // servers that wait for what these tasks made
  std::unordered_map<uint32_t, uint32_t> done_at_;  // tasks, with local files: the part that told that they are done
  std::map<Shape, std::pair<uint64_t, double>> times_;  // of attempts that succeeded: their number and seconds
  std::map<uint32_t, supervisor::Pace> paces_;  // by kind
  struct Dear {
    Time until;
    Duration saves;
  };
  std::map<Shape, Dear> dear_;  // some stayed for their files: until when is not looked again for a move that saves less
  uint64_t reports_ = 0;
  uint64_t messages_ = 0;
};

}  // namespace harrow::server
