#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/core/core.h"
#include "order/draws.h"
#include "sim/gangs.h"
#include "sim/happenings.h"
#include "sim/run_ends.h"
#include "sim/simulation.h"
#include "sim/site.h"
#include "sim/storage.h"
#include "sim/stores.h"
#include "sim/streams.h"
#include "sim/transfers.h"

namespace harrow::sim {

/// A cluster in virtual time, and the run on it. Used once.
class SimulatedRun final : public Site, private Gangs::Host {
 public:
  SimulatedRun(const graph::Graph& graph, const std::vector<Work>& work, const Options& options);

  void Open(double now, bool elsewhere) override;
  double Next() const override;
  void Advance(double now) override;
  void Tell(double now, const std::vector<core::Event>& events) override;
  void Close(double now) override;
  const core::Scheduler& scheduler() const override { return scheduler_; }
  std::vector<TaskId> ShareOf(double part) override { return scheduler_.ShareOf(part); }
  bool complete() const override { return outcome_.complete; }
  std::vector<core::TaskSettled> TakeSettled() override { return std::exchange(settled_, {}); }
  RunTimes TimesOf(const Shape& shape) const override;
  Outcome Finish() override;

 private:
  using Kind = Happening::Kind;
  using Stage = Attempt::Stage;
  /// What must be known of an attempt beside its record where files are modelled or nodes fail.
  struct Live {
    uint32_t incarnation;  // of its node
    uint32_t file = 0;     // the one being read or written
    uint32_t transfer = UINT32_MAX;
    bool behind = false;  // the file being written goes to disk later
    double file_begin = 0;
    double run_ends = 0;  // where nodes change their speed
  };
  struct Node {
    NodeCapacity capacity;
    agent::Core core;  // its tags: indices of attempts
    uint32_t incarnation = 0;
    bool up = true;
    double speed = 1;
    double last_arrival = 0;
  };

  // --- the cluster, and what scheduler and nodes tell each other (simulation.cc)
  static agent::Core NewCore(const NodeCapacity& capacity);
  bool Delayed() const { return cluster_.latency > 0; }

  void JoinAll();

  void PlaceInStores();

  double Exponential(order::SeededDraws* draws, double mean) { return -mean * std::log1p(-draws->Next()); }
  void DrawFailure(uint32_t node);

  void Take(const Happening& what);

  Attempt& Record(uint32_t attempt) { return outcome_.attempts[attempt]; }
  bool Current(uint32_t attempt);

  /// Tells the scheduler what has happened, and does what it says; again while that makes something happen at
  /// once.
  void Tell();

  void Do(const core::StartTask& start);
  double StartArrival(NodeId node);
  /// When a message to that node arrives: none overtakes another.
  double Arrival(NodeId node);
  void Do(const core::TakeBack& back);
  void Do(const core::RunComplete&) { outcome_.complete = true; }
  void Do(const core::CancelTask& cancel);
  void SendCancel(AttemptId attempt, NodeId node, agent::End end) override;
  void Do(const core::TaskSettled& settled) {
    if (among_others_) settled_.push_back(settled);
  }
  void Do(const core::JoinGang& join) { joining_.push_back(join.node); }
  void Do(const core::NodePutAside&) {}
  void Do(const core::AskCheckpoint&) {}  // what runs goes on: the model knows no checkpoints
  void Do(const core::CopyFile& copy);
  void Do(const core::DropFile& drop);
  void Do(const core::AskOthers&) {}  // there are none
  void Do(const core::RefuseFile& refuse);
  void Do(const core::WakeAt& wake);
  void Do(const core::ReadFrom& read);
  // A writer goes on to its end, and what it wrote takes no room.
  void Do(const core::CloseOutput&) {}
  void Do(const core::DropWritten&) {}
  void Do(const core::StreamOpen&) {}

  KindTotals& KindOf(TaskId task);

  void StartArrived(uint32_t attempt);
  void PartArrived(uint32_t number);
  uint32_t SlotsOf(uint32_t number);
  /// How many of its inputs are not there yet.
  uint32_t AwaitInputs(uint32_t attempt);
  void Bring(const core::CopyFile& copy);
  void TellArrivals();
  void ReportArrival(const Stores::Arrival& arrival);
  /// What waits for the file there fails.
  void Refuse(FileId file, NodeId node);
  void NoteNoRoom(FileId file);
  agent::Needs NeedsOf(const Shape& shape) const;
  /// Tells a node's core what has happened, and does what it says: nothing of that makes more happen at once.
  void TellCore(NodeId id, const agent::Event& event) override;
  void Report(uint32_t attempt, agent::End end) override;
  void Begin(uint32_t attempt, uint32_t slot) override;
  /// It leaves its node without having begun.
  void Gone(uint32_t attempt);
  /// What the ends to come will read is asked of memory in steps, each some ends before the next.
  void PrefetchSoon() const;
  void PrefetchCore(uint32_t attempt, int step) const;

  // --- streams (attempts.cc)
  bool HasStreams() const { return !graph_.streams().empty(); }
  void BringStreams(uint32_t attempt);
  void StreamCame(uint32_t attempt);
  /// It reads streams, and does not end before all has come that is written to them.
  bool WaitsForStreams(uint32_t attempt);
  void TellWritten(uint32_t attempt);
  void Rewind(uint32_t attempt);
  void ChangeSpeed(uint32_t node, double speed);

  /// Reads what is left to read, then runs.
  void ReadOn(uint32_t attempt);
  double SpeedOf(uint32_t attempt);
  Storage::Access Read(FileId file, NodeId node) const;
  void HasRead(FileId file, NodeId node);
  void RunEnded(uint32_t attempt);
  void WriteOn(uint32_t attempt);
  bool IsWrittenBack(FileId file) const { return stores_->IsResult(file) || !stores_->IsKept(file); }
  double BytesOf(FileId file) const;
  void Move(uint32_t attempt, const Storage::Access& access);
  void TransferEnded(uint32_t attempt);

  /// Its outputs are whole, and are to be kept.
  void End(uint32_t attempt);
  /// It has ended by itself: its slots are free.
  void Settle(uint32_t attempt);
  bool MayKeepOutputs(uint32_t attempt);
  /// It was asked to end before it was done.
  void Signalled(uint32_t attempt, agent::End reason);
  void Stop(uint32_t attempt, bool lost) override;
  /// It is in the middle of something, and does not go on.
  void Stop(uint32_t attempt);
  /// It has ended, whichever way.
  void Over(uint32_t attempt, Stage stage);
  void SumUp();
  static core::Outcome OutcomeOf(agent::End end);
  void ReportEnd(uint32_t attempt, agent::End end);

  void NodeFails(uint32_t id, double repair);
  void LoseNode(uint32_t id);
  void NodeRepaired(uint32_t id);

  const graph::Graph& graph_;
  const std::vector<Work>& work_;
  const Options& options_;
  const formats::ClusterModel& cluster_;
  core::Scheduler scheduler_;
  order::SeededDraws jitter_draws_, failure_draws_;
  Transfers transfers_;
  std::optional<Storage> storage_;
  std::optional<Stores> stores_;  // with local files
  Streams streams_;
  std::optional<Storage> links_;  // of nodes, where files take no time and streams do
  std::unordered_map<uint32_t, uint32_t> stream_transfers_;  // by attempt
  std::vector<Node> nodes_;
  Gangs gangs_{this};
  std::vector<NodeId> joining_;  // the further nodes of the attempt that is sent next
  std::vector<Live> live_;       // by attempt, as outcome_.attempts; empty when none is needed
  static constexpr uint32_t kDrawn = UINT32_MAX;  // a failure that the cluster file does not list
  std::vector<std::pair<AttemptId, agent::End>> cancels_;
  std::vector<core::CopyFile> copies_;          // that were on their way to nodes
  std::vector<Stores::Arrival> told_arrivals_;  // and from them
  uint32_t expected_ = 0;                       // nodes that will be back
  RunEnds run_ends_;
  Happenings happenings_;  // all else
  const bool changes_speed_ = !cluster_.changes.empty();
  const bool may_fail_ = cluster_.mtbf > 0 || !cluster_.failures.empty() || cluster_.ends;
  bool among_others_ = false;  // the tasks are shared with other sites
  std::vector<core::TaskSettled> settled_;
  std::map<Shape, RunTimes> times_;
  double now_ = 0;
  double wake_ = Transfers::kNever;  // when the scheduler wants to be told the time
  double server_free_ = 0;
  std::vector<core::Event> others_, told_;
  std::vector<core::FileStored> stored_;
  std::vector<core::TaskEnded> ended_;
  std::vector<core::Action> actions_;
  std::vector<agent::Action> core_actions_;
  Outcome outcome_;
};

}  // namespace harrow::sim
