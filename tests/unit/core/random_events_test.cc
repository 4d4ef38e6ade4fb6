// Random sequences of events, those that no agent would send among them: late, twice, of nodes long gone, of
// attempts that were given up. After every few of them all invariants are checked; what the scheduler asks
// for is held against what it was told: nothing starts before what it needs, on a node that is gone or full,
// or when its fate is decided.
//
// HARROW_SEEDS and HARROW_EVENTS make it longer (HARROW_LONG=1: 10^5 events, 100 seeds); HARROW_SEED runs one
// again.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "order/draws.h"
#include "support/action_lines.h"
#include "support/trail.h"

namespace harrow::core {
namespace {

/// What happened in all runs: so that nothing is left untried without notice.
struct Seen {
  uint64_t further_attempts = 0, lost = 0, stolen = 0, ahead = 0, asked_back = 0, gangs = 0, whole_nodes = 0;
  uint64_t devices = 0, memory = 0, several_cores = 0, reservations = 0, drains = 0, cancelled = 0,
           failed = 0, skipped = 0;
  uint64_t nodes_back = 0, nodes_aside = 0, late = 0, grown = 0, adopted = 0, delayed = 0, heard_again = 0,
           after_a_failure = 0, capped = 0;
  uint64_t copies = 0, backups = 0, handed_on = 0, failed_copies = 0, drops = 0, remade = 0, asked_others = 0, found = 0;
  uint64_t spread = 0, gathered = 0, gangs_adopted = 0, taken = 0, asked = 0;
};

class Chaos {
 public:
  Chaos(uint64_t seed, Seen* seen)
      : random_(seed), seen_(*seen), options_(RandomOptions(seed)), scheduler_(graph_, options_) {
    AddProfiles();
    Grow(20);
  }

  void Run(int events) {
    const int drain_at =
        Chance(4) ? events - 1 - static_cast<int>(Below(static_cast<uint32_t>(events / 4))) : -1;
    for (int i = 0; i < events; ++i) {
      if (i == drain_at) {
        scheduler_.Handle(now_, DrainRequested{}, &actions_);
        TakeActions();
        ++seen_.drains;
      }
      const Event event = NextEvent();
      past_.push_back(event);
      if (past_.size() > 500) past_.erase(past_.begin(), past_.begin() + 250);
      if (Chance(10)) {
        std::vector<Event> batch = {event};
        while (!Chance(3)) batch.push_back(NextEvent());
        past_.insert(past_.end(), batch.begin() + 1, batch.end());
        for (const Event& each : batch) Expect(each);
        in_batch_ = true;
        scheduler_.HandleAll(now_, batch, &actions_);
      } else if (const std::vector<Event> made = MadeBy(event); !made.empty()) {
        Expect(event);
        scheduler_.HandleAll(now_, made, &actions_);
      } else {
        Expect(event);
        scheduler_.Handle(now_, event, &actions_);
        if (const auto* started = std::get_if<TaskStarted>(&event)) {
          seen_.adopted += scheduler_.Explain(started->attempt.task).taken_from == TakenFrom::kAdopted;
        } else if (const auto* restored = std::get_if<GangRestored>(&event)) {
          const TaskId task = restored->attempt.task;
          seen_.gangs_adopted += task.value < graph_.task_count() && graph_.profile(task).shape.nodes > 1 &&
                                 scheduler_.Explain(task).taken_from == TakenFrom::kAdopted;
        }
      }
      TakeActions();
      in_batch_ = false;
      // It looks at every task: not after each event of a large graph.
      if (i % static_cast<int>(13 + graph_.task_count() / 100) == 0 || i < 300) Check();
      if (::testing::Test::HasFailure()) return;
      now_ += std::chrono::microseconds(Below(2000));
    }
    Settle();
  }

 private:
  void Check() {
    scheduler_.SanityCheck();
    const TaskId some = AnyTask();
    const Explanation is = scheduler_.Explain(some);
    EXPECT_FALSE(is.text.empty());
    test::Trail::Say([&] { return is.text; });
    seen_.reservations += is.text.find("keeps what gets free") != std::string::npos;
    seen_.gathered += is.text.find("Room is kept for it") != std::string::npos;
  }

  /// Where files are local: what the attempt made comes before its end.
  std::vector<Event> MadeBy(const Event& event) {
    const auto* end = std::get_if<TaskEnded>(&event);
    if (!options_.local_files || end == nullptr || !std::holds_alternative<Done>(end->outcome)) return {};
    if (end->attempt.task.value >= graph_.task_count()) return {};
    std::vector<Event> made;
    for (FileId file : graph_.outputs(end->attempt.task)) {
      if (Chance(20)) {
        made.push_back(FileAbsent{file});
      } else {
        made.push_back(FileStored{file, end->node, static_cast<int64_t>(Below(2000))});
      }
      if (Chance(20)) made.push_back(FileShared{file});
    }
    made.push_back(event);
    return made;
  }
  Event AnswerCopy() {
    const size_t which = Below(static_cast<uint32_t>(copies_.size()));
    const CopyFile copy = copies_[which];
    copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(which));
    if (!Chance(4)) return FileStored{copy.file, copy.to, static_cast<int64_t>(Below(2000))};
    ++seen_.failed_copies;
    using Why = CopyFailed::Why;
    const Why why = Chance(3) ? Why::kNoRoom : !copy.from ? Why::kUnreadable : static_cast<Why>(Below(3));
    return CopyFailed{copy.file, copy.to, copy.from, why};
  }

  struct Sent {
    AttemptId attempt;
    NodeId node;
    bool begun = false;
    bool asked_back = false;
    bool cancelled = false;
    // Its nodes, the lead node first; those that are lost are none of them any more.
    std::vector<NodeId> members = {node};
    // How many there were.
    uint32_t parts = 1;
  };

  uint32_t Below(uint32_t n) { return random_.Below(n); }
  bool Chance(uint32_t one_in) { return Below(one_in) == 0; }

  static Options RandomOptions(uint64_t seed) {
    order::SeededDraws r(seed * 7 + 1);
    Options o;
    o.policy = static_cast<order::Policy>(r.Below(7));
    o.locality = r.Below(3) > 0;
    o.steal = r.Below(3) > 0;
    o.seed = seed;
    o.retries = static_cast<int32_t>(r.Below(4));
    o.retry_delay = std::chrono::seconds(r.Below(3));
    o.max_losses = 1 + r.Below(6);
    o.max_failures = r.Below(8) == 0 ? 200 + r.Below(200) : 0;
    o.fail_fast = r.Below(40) == 0;
    o.max_running = r.Below(4) == 0 ? 1 + r.Below(12) : 0;
    o.bad_node_failures = r.Below(2) * 4;
    o.shared_files = r.Below(2) == 0;
    o.max_ahead = 1 + r.Below(8);
    o.local_files = r.Below(3) == 0;
    if (o.local_files) o.shared_files = false;
    o.ask_others = o.local_files && r.Below(2) == 0;
    if (r.Below(3) == 0) o.costs.how = static_cast<cost::Place>(1 + r.Below(2));
    o.costs.budget = 2000;
    return o;
  }

  void AddProfiles() {
    graph::Profile p;
    for (uint32_t i = 0; i < 20; ++i) {
      p.replicas = 1 + i % 2;
      profiles_.push_back(graph_.AddProfile(p));
    }
    p = {};
    p.shape.cores = 2;
    profiles_.push_back(graph_.AddProfile(p));
    p.replicas = 2;
    p.shape.cores = 4;
    p.priority = 3;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.memory = 3000;
    p.replicas = 2;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.devices = 1;
    p.retries = 1;
    p.replicas = 3;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.whole_node = true;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.nodes = 2;
    profiles_.push_back(graph_.AddProfile(p));
    p.shape.nodes = 5;
    p.shape.cores = 2;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.ranks = 5;
    p.shape = {.cores = 3, .nodes = 2};
    profiles_.push_back(graph_.AddProfile(p));
    p.ranks = 3;
    p.shape = {.cores = 2, .devices = 1, .nodes = 3, .memory = 1000};
    p.priority = 1;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.ranks = 4;
    p.shape = {.cores = 2, .nodes = 2};
    p.time_limit = std::chrono::milliseconds(100);
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.ranks = 8;  // more than a node has
    p.shape.cores = 8;
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.time_limit = std::chrono::milliseconds(200);
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.checkpoint.by = graph::Checkpointing::By::kApp;
    p.checkpoint.time = std::chrono::milliseconds(50);
    for (uint32_t cores = 1; cores <= 3; ++cores) {
      p.shape.cores = cores;
      profiles_.push_back(graph_.AddProfile(p));
    }
    p.shape = {.cores = 1, .nodes = 2};
    profiles_.push_back(graph_.AddProfile(p));
    p = {};
    p.shape.cores = 64;  // no node has that many
    odd_profile_ = graph_.AddProfile(p);
  }

  /// Tasks that need some of the latest ones, by file or otherwise; some make what an old task reads.
  void Grow(uint32_t count) {
    const auto first = static_cast<uint32_t>(graph_.task_count());
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t number = first + i;
      std::vector<TaskId> after, after_any;
      std::vector<FileId> in, out;
      for (uint32_t k = Chance(2) ? 0 : Below(4); k > 0 && number > 0; --k) {
        const TaskId before(number - 1 - Below(std::min(number, 30u)));
        if (Chance(3)) {
          after_any.push_back(before);
        } else if (Chance(2)) {
          after.push_back(before);
        } else {
          for (FileId file : graph_.outputs(before)) in.push_back(file);
        }
      }
      if (Chance(8)) in.push_back(graph_.AddFile("late" + std::to_string(number)));
      if (Chance(8)) in.push_back(graph_.AddFile("given" + std::to_string(Below(50))));
      if (Chance(10) && number > 40) {
        after.clear();
        after_any.clear();
        in.clear();
        const FileId late = graph_.AddFile("late" + std::to_string(number - 1 - Below(40)));
        if (!graph_.producer(late)) out.push_back(late);
      }
      for (uint32_t k = Below(3); k > 0; --k) {
        out.push_back(graph_.AddFile("f" + std::to_string(number) + "." + std::to_string(k)));
        if (!Chance(4)) graph_.SetFileSize(out.back(), Below(3) * 500);
      }
      const ProfileId profile =
          Chance(400) ? odd_profile_ : profiles_[Below(static_cast<uint32_t>(profiles_.size()))];
      graph::TaskSpec spec;
      spec.profile = profile;
      spec.in = in;
      spec.out = out;
      spec.after = after;
      spec.after_any = after_any;
      if (Chance(4)) spec.bound = Below(1000);
      graph_.AddTask(spec);
    }
    const Status sealed = graph_.Seal();
    ASSERT_TRUE(sealed.ok()) << sealed.message();
    settled_.resize(graph_.task_count(), false);
    done_.resize(graph_.task_count(), false);
    std::vector<Event> events = {TasksAdded{TaskId(first), count}};
    if (first > 0) ++seen_.grown;
    if (Chance(10)) {
      const TaskId restored(first + Below(count));
      const auto as = static_cast<TaskRestored::As>(Below(6));
      events.push_back(TaskRestored{restored, as, Below(3), Below(2), Below(5)});
      if (as == TaskRestored::As::kDone) restored_done_.insert(restored);
      if (as != TaskRestored::As::kOpen && graph_.predecessors(restored).empty()) {
        // Others may have been skipped before, then nothing is restored: take the answer from the scheduler
        // below.
        maybe_restored_.push_back(restored);
      }
      maybe_restored_.push_back(restored);
    }
    scheduler_.HandleAll(now_, events, &actions_);
    for (TaskId id : maybe_restored_) {
      const TaskState state = scheduler_.state(id);
      if (IsSettled(state)) settled_[id.value] = true;
      if (state == TaskState::kDone) done_[id.value] = true;
    }
    // A restored task is settled without an action; its dependents are not.
    TakeActions(&maybe_restored_);
    maybe_restored_.clear();
  }

  TaskId AnyTask() {
    return TaskId(Below(static_cast<uint32_t>(graph_.task_count()) + (Chance(50) ? 5 : 0)));
  }
  NodeId AnyNode() { return NodeId(Below(9)); }

  /// Some tasks, near each other as they were added.
  std::vector<TaskId> SomeTasks() {
    std::vector<TaskId> tasks;
    for (uint32_t first = AnyTask().value, i = 0; i < 1 + Below(6); ++i) tasks.emplace_back(first + i);
    return tasks;
  }

  Event NextEvent() {
    if (Chance(60))
      return Chance(2) ? Event(TasksTaken{SomeTasks()}) : TasksGiven{SomeTasks()};
    const uint32_t what = Below(1000);
    if (what < 8) return RandomJoin();
    if (what >= 980 && what < 984) {
      if (!sent_.empty() && Chance(2)) return MoveRequested{sent_[Below(static_cast<uint32_t>(sent_.size()))].attempt.task, Chance(3) ? NodeId() : AnyNode()};
      return MoveRequested{AnyTask(), Chance(3) ? NodeId() : AnyNode()};
    }
    if (what == 984) return NodeDrained{AnyNode()};
    if (what == 985 && !sent_.empty()) return CheckpointMissed{sent_[Below(static_cast<uint32_t>(sent_.size()))].attempt};
    if (what < 10) return NodeSilent{AnyNode()};
    if (what < 11) return NodeLost{AnyNode()};
    if (what < 12) return NodeClosed{AnyNode()};
    if (what < 13) return NodeHungUp{AnyNode()};
    if (what < 14) return Chance(3) ? Event(BestKnown{950.0 + Below(50)}) : CancelRequested{AnyTask()};
    if (what < 15) return Chance(9) ? Event(RemakesMayBeOut{}) : AttemptMayBeOut{AnyTask()};
    if (what < 25)
      return FileStored{AnyFile(), AnyNode(), Chance(3) ? -1 : static_cast<int64_t>(Below(2000))};
    if (what < 30) return FileLost{AnyFile(), AnyNode()};
    if (what < 31) return FileShared{AnyFile()};
    if (what >= 970 && what < 980 && options_.ask_others) return NewsOfOthers();
    if (what < 50) return RoundTripMeasured{AnyNode(), std::chrono::microseconds(Below(3) * 1000)};
    if (what < 52) return EndTimeKnown{now_ + std::chrono::milliseconds(Below(1000))};
    if (what < 54) return EndTimeKnown{Time::max()};
    if (what < 55) return AllNodesJoined{};
    if (what < 58) return TaskStarted{{AnyTask(), Below(3)}, AnyNode()};
    if (what < 60) return RandomEnd({AnyTask(), Below(4)}, AnyNode());
    if (what < 62) return RandomGang();
    if (what < 63) return TaskReturned{{AnyTask(), Below(3)}, AnyNode()};
    if (what < 72 && !given_up_.empty()) {
      const Sent& late = given_up_[Below(static_cast<uint32_t>(given_up_.size()))];
      ++seen_.late;
      if (Chance(3)) return TaskStarted{late.attempt, late.node};
      return RandomEnd(late.attempt, late.node);
    }
    if (what < 400 && !copies_.empty()) return AnswerCopy();
    if (what < 80 && !past_.empty()) return past_[Below(static_cast<uint32_t>(past_.size()))];
    if (sent_.empty()) {
      if (graph_.task_count() < 12000 && Chance(4)) Grow(1 + Below(40));
      return Chance(3) ? Event(RandomJoin()) : Event(RoundTripMeasured{AnyNode(), Duration(0)});
    }
    if (what < 120 && graph_.task_count() < 15000) Grow(1 + Below(Chance(20) ? 150 : 4));
    if (sent_.empty()) return RandomJoin();
    Sent& sent = sent_[Below(static_cast<uint32_t>(sent_.size()))];
    if (sent.asked_back && !sent.begun && !Chance(3)) return TaskReturned{sent.attempt, sent.node};
    if (!sent.begun && Chance(2)) {
      sent.begun = true;
      return TaskStarted{sent.attempt, sent.node};
    }
    if (sent.cancelled && !Chance(3)) return TaskEnded{sent.attempt, sent.node, Cancelled{}, Duration(5)};
    return RandomEnd(sent.attempt, sent.node);
  }
  /// What they have made, or have not; asked or not.
  Event NewsOfOthers() {
    TaskId task = AnyTask();
    if (Chance(5)) return FilesForgotten{{AnyFile(), AnyFile()}};
    if (Chance(5)) return FilesWanted{task, Chance(2) ? std::vector<FileId>() : std::vector<FileId>{AnyFile(), AnyFile(), AnyFile()}};
    if (!asked_.empty() && !Chance(4)) {
      task = asked_.back();
      asked_.pop_back();
    }
    if (Chance(4)) return FilesNotFound{task};
    FilesFound found{.task = task, .shared = {}, .absent = {}, .same = {}};
    if (task.value >= graph_.task_count()) return found;
    for (FileId file : graph_.outputs(task)) {
      if (!Chance(6)) (Chance(6) ? found.absent : found.shared).push_back(file);
      if (Chance(3)) found.same.push_back(file);
    }
    ++seen_.found;
    return found;
  }
  FileId AnyFile() { return FileId(Below(static_cast<uint32_t>(graph_.file_count()) + 2)); }
  NodeJoined RandomJoin() {
    const NodeId node = AnyNode();
    // An agent that is connected again says what it said before.
    if (joined_.at(node.value) && !Chance(3)) return {node, capacity_.at(node.value)};
    return {node, {1 + Below(6), Below(3), Chance(2) ? 0 : 4000u + Below(4000)}};
  }
  GangRestored RandomGang() {
    const auto count = static_cast<uint32_t>(graph_.task_count());
    const TaskId task = Chance(2) ? AnyTask() : TaskId(count - 1 - Below(std::min(count, 60u)));
    const uint32_t nodes = task.value < graph_.task_count() ? graph_.profile(task).shape.nodes : 1;
    GangRestored gang{.attempt = {task, Below(5)}, .members = {}};
    for (uint32_t i = 0, first = AnyNode().value; i < nodes; ++i) gang.members.emplace_back((first + i) % 9);
    return gang;
  }
  TaskEnded RandomEnd(AttemptId attempt, NodeId node) {
    Outcome outcome = Done{};
    const uint32_t how = Below(100);
    const bool bad = node.value == 3 && options_.bad_node_failures > 0;
    if (how < (bad ? 70u : 10u))
      outcome = Failed{static_cast<int32_t>(1 + Below(3)), !Chance(4), Chance(6) ? 500 : 0};
    if (how == 98) outcome = Lost{};
    if (how >= 90 && how < 94) outcome = Checkpointed{std::chrono::milliseconds(Below(40))};
    if (how == 99 && Chance(10)) outcome = Interrupted{};
    return {attempt, node, outcome, std::chrono::microseconds(1 + Below(3000))};
  }

  /// What the scheduler will know when it has handled the event.
  void Expect(const Event& event) {
    if (const auto* join = std::get_if<NodeJoined>(&event)) {
      const uint32_t n = join->node.value;
      // What a node that is here already says anew counts only when it is empty: then nothing is known for
      // sure.
      known_.at(n) = !joined_.at(n) || (known_.at(n) && capacity_.at(n) == join->capacity);
      if (!joined_.at(n) && was_lost_.at(n)) ++seen_.nodes_back;
      seen_.heard_again += silent_.at(n);
      silent_.at(n) = false;
      joined_.at(n) = true;
      capacity_.at(n) = join->capacity;
    }
    if (const auto* silent = std::get_if<NodeSilent>(&event)) {
      silent_.at(silent->node.value) = joined_.at(silent->node.value);
    }
    if (const auto* lost = std::get_if<NodeLost>(&event)) {
      silent_.at(lost->node.value) = false;
      joined_.at(lost->node.value) = false;
      was_lost_.at(lost->node.value) = true;
      GiveUp([&](const Sent& s) { return s.node == lost->node; });
      for (Sent& s : sent_) std::erase(s.members, lost->node);
    }
    if (const auto* end = std::get_if<TaskEnded>(&event)) {
      GiveUp([&](const Sent& s) { return s.attempt == end->attempt && s.node == end->node; });
    }
    if (const auto* back = std::get_if<TaskReturned>(&event)) {
      // A stray one of a task that has begun is ignored, and it runs on.
      const TaskId task = back->attempt.task;
      if (scheduler_.node(task) == back->node && scheduler_.attempts(task) == back->attempt.number &&
          task.value < numbers_.size())
        numbers_[task.value] = std::min(numbers_[task.value], back->attempt.number - 1);
      if (task.value < graph_.task_count() && scheduler_.state(task) != TaskState::kRunning)
        GiveUp([&](const Sent& s) { return s.attempt == back->attempt && s.node == back->node; });
    }
  }

  /// Nothing is expected of them any more; word of them may come all the same.
  template <class Which>
  void GiveUp(const Which& which) {
    for (const Sent& sent : sent_) {
      if (which(sent)) given_up_.push_back(sent);
    }
    std::erase_if(sent_, which);
    if (given_up_.size() > 200) given_up_.erase(given_up_.begin(), given_up_.begin() + 100);
  }

  /// No more is in use on a node than it has; but what it was found running counts for nothing here.
  void ExpectRoom(NodeId node) {
    if (!known_.at(node.value)) return;
    NodeCapacity used;
    for (const Sent& sent : sent_) {
      const auto at = std::find(sent.members.begin(), sent.members.end(), node);
      if (at == sent.members.end() || scheduler_.node(sent.attempt.task) != sent.node) continue;
      const Explanation is = scheduler_.Explain(sent.attempt.task);
      const bool in_flight = IsInFlight(is.state);
      if (!in_flight || is.taken_from == TakenFrom::kAdopted || is.text.starts_with("It was sent ahead"))
        continue;
      // The scheduler asks for the most that one of the parts needs, on each node.
      const Shape shape = graph_.profile(sent.attempt.task).Part(sent.parts, sent.parts - 1);
      used.slots += std::max(1u, shape.cores);
      used.devices += shape.devices;
      used.memory += shape.memory;
    }
    const NodeCapacity& has = capacity_.at(node.value);
    EXPECT_LE(used.slots, has.slots) << "node " << node.value;
    EXPECT_LE(used.devices, has.devices) << "node " << node.value;
    EXPECT_TRUE(has.memory == 0 || used.memory <= has.memory) << "node " << node.value;
  }

  /// The gang is on as many nodes as it is to be, each of which is there.
  void ExpectMembers(const Sent& sent) {
    const graph::Profile& profile = graph_.profile(sent.attempt.task);
    std::vector<NodeId> members = sent.members;
    std::sort(members.begin(), members.end());
    EXPECT_EQ(std::unique(members.begin(), members.end()), members.end()) << "a node twice";
    for (NodeId member : members) {
      EXPECT_TRUE(joined_.at(member.value)) << "a part on a node that is gone";
      EXPECT_FALSE(silent_.at(member.value)) << "a part on a node of which nothing is heard";
    }
    if (profile.shape.nodes > 1) {
      EXPECT_EQ(sent.parts, profile.shape.nodes);
    } else if (sent.parts > 1) {
      EXPECT_LE(sent.parts, profile.ranks);
      ++seen_.spread;
    }
  }

  /// A task whose fate was decided may run again only to make its outputs again.
  bool MakesAgain(TaskId id) const {
    return options_.local_files && done_[id.value] && !graph_.outputs(id).empty();
  }

  void See(const StartTask& start) {
    const Shape& shape = graph_.profile(start.attempt.task).shape;
    seen_.ahead += start.ahead;
    seen_.further_attempts += start.attempt.number > 1;
    seen_.devices += shape.devices > 0;
    seen_.memory += shape.memory > 0;
    seen_.several_cores += shape.cores > 1;
    seen_.whole_nodes += shape.whole_node;
  }

  void TakeActions(const std::vector<TaskId>* restored = nullptr) {
    for (const Action& action : actions_) test::Trail::Say([&] { return test::Line(action); });
    const bool starts = std::any_of(actions_.begin(), actions_.end(), [](const Action& action) {
      return std::holds_alternative<StartTask>(action);
    });
    if (starts && options_.max_running > 0) {
      ++seen_.capped;
      EXPECT_LE(scheduler_.counts().sent + scheduler_.counts().running, options_.max_running);
    }
    for (const Action& action : actions_) {
      if (const auto* start = std::get_if<StartTask>(&action)) {
        const TaskId task = start->attempt.task;
        EXPECT_TRUE(!settled_[task.value] || MakesAgain(task))
            << "started after its fate was decided: " << task.value;
        seen_.remade += settled_[task.value];
        EXPECT_NE(scheduler_.state(task), TaskState::kElsewhere) << "started while another server has it";
        EXPECT_TRUE(joined_.at(start->node.value)) << "started on a node that is gone";
        EXPECT_FALSE(silent_.at(start->node.value)) << "started on a node of which nothing is heard";
        EXPECT_EQ(start->attempt.number, scheduler_.attempts(task));
        EXPECT_GT(start->attempt.number, 0u);
        numbers_.resize(graph_.task_count());
        // A number comes again only of an attempt that was returned.
        EXPECT_GT(start->attempt.number, numbers_[task.value]);
        numbers_[task.value] = start->attempt.number;
        See(*start);
        for (TaskId before : graph_.predecessors(task)) {
          const TaskState is = scheduler_.state(before);
          EXPECT_TRUE(is == TaskState::kDone || (IsSettled(is) && graph_.OnlyWaits(before, task)))
              << "started before what it needs";
          seen_.after_a_failure += is != TaskState::kDone;
        }
        std::erase_if(sent_, [&](const Sent& s) { return s.attempt.task == task && s.node == start->node; });
        Sent sent{.attempt = start->attempt, .node = start->node};
        if (joining_task_ == task) {
          sent.members.insert(sent.members.end(), joining_.begin(), joining_.end());
          sent.parts = static_cast<uint32_t>(sent.members.size());
        }
        joining_task_ = TaskId();
        joining_.clear();
        ExpectMembers(sent);
        sent_.push_back(sent);
        if (!start->ahead && (sent.parts > 1 || Chance(8))) {
          for (NodeId member : sent.members) ExpectRoom(member);
        }
      } else if (const auto* settled = std::get_if<TaskSettled>(&action)) {
        const bool was_restored = restored != nullptr && std::find(restored->begin(), restored->end(),
                                                                   settled->task) != restored->end();
        EXPECT_TRUE(was_restored || !settled_[settled->task.value] || MakesAgain(settled->task))
            << "decided twice: " << settled->task.value;
        settled_[settled->task.value] = true;
        done_[settled->task.value] = settled->state == FinalState::kDone;
      } else if (const auto* back = std::get_if<TakeBack>(&action)) {
        ++seen_.asked_back;
        for (Sent& s : sent_) {
          if (s.attempt != back->attempt || s.node != back->node) continue;
          EXPECT_EQ(s.parts, 1u) << "parts of it may have begun";
          s.asked_back = true;
        }
      } else if (const auto* cancel = std::get_if<CancelTask>(&action)) {
        for (Sent& s : sent_) s.cancelled |= s.attempt == cancel->attempt && s.node == cancel->node;
      } else if (const auto* ask = std::get_if<AskCheckpoint>(&action)) {
        ++seen_.asked;
        EXPECT_TRUE(graph_.profile(ask->attempt.task).checkpoint.on());
        EXPECT_TRUE(in_batch_ || scheduler_.state(ask->attempt.task) == TaskState::kRunning);
        EXPECT_TRUE(in_batch_ || scheduler_.node(ask->attempt.task) == ask->node);
      } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
        EXPECT_GT(wake->time, now_);
        ++seen_.delayed;
      } else if (const auto* copy = std::get_if<CopyFile>(&action)) {
        EXPECT_TRUE(options_.local_files);
        // Of several events of an instant a later one may have ended it.
        EXPECT_TRUE(in_batch_ || joined_.at(copy->to.value));
        EXPECT_TRUE(in_batch_ || !copy->from || joined_.at(copy->from.value));
        EXPECT_NE(copy->to, copy->from);
        std::erase_if(copies_, [&](const CopyFile& c) { return c.file == copy->file && c.to == copy->to; });
        copies_.push_back(*copy);
        ++seen_.copies;
        seen_.handed_on += copy->from ? 1 : 0;
        seen_.backups += copy->reader ? 0 : 1;
      } else if (const auto* others = std::get_if<AskOthers>(&action)) {
        EXPECT_TRUE(options_.ask_others);
        EXPECT_TRUE(in_batch_ || scheduler_.state(others->task) == TaskState::kWaiting);
        asked_.push_back(others->task);
        ++seen_.asked_others;
      } else if (const auto* drop = std::get_if<DropFile>(&action)) {
        EXPECT_TRUE(in_batch_ || joined_.at(drop->node.value));
        ++seen_.drops;
      } else if (const auto* join = std::get_if<JoinGang>(&action)) {
        EXPECT_TRUE(joining_.empty() || joining_task_ == join->task);
        joining_task_ = join->task;
        joining_.push_back(join->node);
        ++seen_.gangs;
      } else if (std::holds_alternative<NodePutAside>(action)) {
        ++seen_.nodes_aside;
      } else if (std::holds_alternative<RunComplete>(action)) {
        const Counts& c = scheduler_.counts();
        EXPECT_EQ(c.waiting + c.ready + c.sent + c.running, 0u);
        ++completions_;
      }
    }
    actions_.clear();
  }

  /// From here on all goes well: everything comes to an end.
  void Settle() {
    const auto tell = [this](const Event& event) {
      Expect(event);
      scheduler_.Handle(now_, event, &actions_);
      TakeActions();
    };
    tell(EndTimeKnown{Time::max()});
    seen_.taken += scheduler_.counts().elsewhere;
    std::vector<TaskId> all;
    for (uint32_t n = 0; n < graph_.task_count(); ++n) all.emplace_back(n);
    tell(TasksGiven{all});
    EXPECT_EQ(scheduler_.counts().elsewhere, 0u);
    for (uint32_t n = 0; n < 9; ++n) tell(NodeLost{NodeId(n)});
    for (uint32_t n = 0; n < 9; ++n) tell(NodeJoined{NodeId(n), {6, 2, 8000}});
    tell(AllNodesJoined{});
    now_ += std::chrono::hours(1);
    tell(TimeCame{});
    scheduler_.SanityCheck();
    // Tasks that were given up here may have been adopted since: ask the scheduler what it has in flight.
    for (int round = 0; round < 1'000'000 && !(sent_.empty() && asked_.empty()); ++round) {
      if (!asked_.empty()) {
        const TaskId asked = asked_.back();
        asked_.pop_back();
        tell(FilesNotFound{asked});
        continue;
      }
      const Sent sent = sent_.front();
      if (sent.asked_back && !sent.begun) {
        tell(TaskReturned{sent.attempt, sent.node});
        if (scheduler_.state(sent.attempt.task) == TaskState::kRunning) sent_.erase(sent_.begin());
      } else {
        while (!copies_.empty()) {
          const CopyFile copy = copies_.back();
          copies_.pop_back();
          tell(FileStored{copy.file, copy.to, 100});
        }
        const TaskEnded end{sent.attempt, sent.node, Done{}, std::chrono::microseconds(50)};
        for (const Event& event : MadeBy(end)) {
          if (!std::holds_alternative<TaskEnded>(event)) tell(event);
        }
        tell(end);
      }
      if (round % 31 == 0) scheduler_.SanityCheck();
      if (::testing::Test::HasFailure()) return;
    }
    scheduler_.SanityCheck();
    const Counts& c = scheduler_.counts();
    EXPECT_EQ(c.waiting, 0u);
    EXPECT_EQ(c.ready, 0u);
    EXPECT_EQ(c.sent + c.running, 0u);
    EXPECT_EQ(c.done + c.failed + c.skipped + c.cancelled + c.pruned, graph_.task_count());
    EXPECT_GE(completions_, 1);
    seen_.lost += c.losses;
    seen_.stolen += c.stolen;
    seen_.cancelled += c.cancelled;
    seen_.failed += c.failed;
    seen_.skipped += c.skipped;
    // Of one that was done before, and asked others for what is lost of it, nobody is told that it still is.
    for (uint32_t n = 0; n < graph_.task_count(); ++n)
      EXPECT_TRUE(settled_[n] || restored_done_.contains(TaskId(n))) << "without an answer: " << n;
  }

  order::SeededDraws random_;
  Seen& seen_;
  Options options_;
  graph::Graph graph_;
  Scheduler scheduler_;
  std::vector<ProfileId> profiles_;
  ProfileId odd_profile_;
  Time now_{};
  std::vector<Action> actions_;
  std::vector<Event> past_;
  std::vector<Sent> sent_;
  std::vector<Sent> given_up_;
  TaskId joining_task_;  // is sent next
  std::vector<NodeId> joining_;
  std::vector<CopyFile> copies_;  // asked for, and not answered
  std::vector<TaskId> asked_;     // of others, and not answered
  std::vector<bool> settled_, done_;
  std::set<TaskId> restored_done_;
  std::vector<bool> joined_ = std::vector<bool>(9, false), was_lost_ = joined_, known_ = joined_,
                    silent_ = joined_;
  std::vector<uint32_t> numbers_;  // of the latest attempts
  std::vector<NodeCapacity> capacity_ = std::vector<NodeCapacity>(9);
  std::vector<TaskId> maybe_restored_;
  int completions_ = 0;
  bool in_batch_ = false;
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Scheduler, RandomEvents) {
  const bool in_full = FromEnvironment("HARROW_LONG", 0) > 0;
  const uint64_t one = FromEnvironment("HARROW_SEED", 0);
  const uint64_t seeds = one > 0 ? 1 : FromEnvironment("HARROW_SEEDS", in_full ? 100 : 12);
  const int events = static_cast<int>(FromEnvironment("HARROW_EVENTS", in_full ? 100'000 : 20'000));
  Seen seen;
  test::Trail trail("core.random_events");
  for (uint64_t i = 0; i < seeds; ++i) {
    const uint64_t seed = one > 0 ? one : i + 1;
    SCOPED_TRACE("HARROW_SEED=" + std::to_string(seed));
    // Said at once, as a broken invariant ends the process.
    std::fprintf(stderr, "HARROW_SEED=%llu\n", static_cast<unsigned long long>(seed));
    Chaos(seed, &seen).Run(events);
    if (::testing::Test::HasFailure()) return;
  }
  if (seeds < 12) return;
  if (seeds == 12 && events == 20'000) trail.Compare();
  const std::pair<const char*, uint64_t> tried[] = {{"further attempts", seen.further_attempts},
                                                    {"losses", seen.lost},
                                                    {"steals", seen.stolen},
                                                    {"tasks sent ahead", seen.ahead},
                                                    {"tasks asked back", seen.asked_back},
                                                    {"tasks of several nodes", seen.gangs},
                                                    {"ranks that no node holds", seen.spread},
                                                    {"gangs that room is kept for", seen.gathered},
                                                    {"adopted gangs", seen.gangs_adopted},
                                                    {"whole nodes", seen.whole_nodes},
                                                    {"devices", seen.devices},
                                                    {"memory", seen.memory},
                                                    {"several cores", seen.several_cores},
                                                    {"reservations", seen.reservations},
                                                    {"drains", seen.drains},
                                                    {"cancelled tasks", seen.cancelled},
                                                    {"failed tasks", seen.failed},
                                                    {"skipped tasks", seen.skipped},
                                                    {"nodes that come back", seen.nodes_back},
                                                    {"nodes put aside", seen.nodes_aside},
                                                    {"asked for checkpoints", seen.asked},
                                                    {"late word of old attempts", seen.late},
                                                    {"graphs that grow", seen.grown},
                                                    {"adopted tasks", seen.adopted},
                                                    {"delays after losses", seen.delayed},
                                                    {"starts below a limit of tasks", seen.capped},
                                                    {"silent nodes that are heard again", seen.heard_again},
                                                    {"starts after a failure", seen.after_a_failure},
                                                    {"copies", seen.copies},
                                                    {"copies from nodes", seen.handed_on},
                                                    {"backups", seen.backups},
                                                    {"copies that fail", seen.failed_copies},
                                                    {"files dropped", seen.drops},
                                                    {"files made again", seen.remade},
                                                    {"asked others", seen.asked_others},
                                                    {"found at others", seen.found},
                                                    {"tasks that others have", seen.taken}};
  for (const auto& [what, count] : tried) EXPECT_GT(count, 0u) << what;
}

}  // namespace
}  // namespace harrow::core
