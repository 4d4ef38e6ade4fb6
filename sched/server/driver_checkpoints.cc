#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "os/log.h"
#include "run_dir/names.h"
#include "server/driver.h"
#include "wire/attempt_id.h"

// Checkpoints, and tasks that are sent elsewhere by hand. Where a task's checkpoints lie follows from its identity alone, so that every
// server of the run, and a later session, names the same directory.

namespace harrow::server {
namespace {

constexpr const char* kDrainedNodes = "drained_nodes";  // a fact: the session's start, a blank, and the names with commas between them
// A fact: the session's start, and for each a blank, the task's number, = and a node's name or /PART.
constexpr const char* kMovedByHand = "moved_by_hand";

/// The next word, which the text loses with the blank behind it.
std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(text->size(), word.size() + 1));
  return word;
}

}  // namespace

/// The directory of the task's checkpoints, below the run's.
std::string RunDriver::CheckpointsOf(TaskId task) {
  while (identities_.size() <= task.value) identities_.push_back(identifier_.Next());
  return HexDigits(identities_[task.value].high) + HexDigits(identities_[task.value].low);
}

void RunDriver::RemoveCheckpoints(const std::string& run) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_empty(run_dir::CheckpointsPath(run, ""), error) || error) return;
  for (uint32_t i = 0; i < graph_.task_count(); ++i) {
    if (!graph_.profile(TaskId(i)).checkpoint.on() || fate_anywhere(TaskId(i)) != journal::TaskFate::kDone) continue;
    const std::string path = run_dir::CheckpointsPath(run, CheckpointsOf(TaskId(i)));
    // An agent may be at it.
    for (int times = 0; times < 3 && fs::remove_all(path, error) == static_cast<std::uintmax_t>(-1); ++times) {}
    if (error) os::LogWarning(StrCat("the checkpoints ", path, " stay: ", error.message()));
  }
  fs::remove_all(run_dir::CheckpointsPath(run, "alike"), error);  // nobody counts on it
  fs::remove(run_dir::CheckpointsPath(run, ""), error);  // where it has no others
}

void RunDriver::Act(const core::AskCheckpoint& ask) {
  const Row* const row = attempts_.Find(ask.attempt, ask.node);
  if (row == nullptr) return;
  std::vector<NodeId> nodes = {ask.node};
  if (row->gang) {
    nodes.clear();
    for (const Part& part : row->gang->parts) {
      if (part.out()) nodes.push_back(part.node);
    }
    // Where the first rank is, which may be the only one that is told, the others' ends are expected last.
    std::reverse(nodes.begin(), nodes.end());
  }
  for (const NodeId id : nodes) {
    if (Node* node = nodes_.Find(id)) wire::SetId(ask.attempt, nodes_.Outbox(*node).add_checkpoint());
  }
}

void RunDriver::TakeMissed(const Node& node, const pb::FromAgent& message) {
  for (const pb::CheckpointMissed& missed : message.missed()) {
    const AttemptId id = wire::IdOf(missed.attempt());
    AttemptTable::Row* const row = id.task.value < graph_.task_count() ? attempts_.Find(id, node.id) : nullptr;
    if (row == nullptr) continue;
    events_.push_back(core::CheckpointMissed{id});
    // One that nobody wants elsewhere is asked again and again (checkpoint_every).
    const size_t why = std::hash<std::string_view>()(missed.why());
    if (std::exchange(row->missed, why) == why && !scheduler_.IsMoving(id.task)) continue;
    Tell(StrCat("task ", Printable(graph_.TaskName(id.task), 60), " was asked for a checkpoint: ", Printable(missed.why(), 200)));
  }
}

Status RunDriver::MayMove(TaskId task) const {
  if (phase_ != Phase::kRunning) return Status(Code::kUnavailable, "the server waits for its agents; try again");
  const core::TaskState state = scheduler_.state(task);
  const std::string name = StrCat("task ", Printable(graph_.TaskName(task), 60));
  if (state == core::TaskState::kElsewhere) return Status(Code::kNotFound, StrCat(name, " is another allocation's"));
  if (core::IsSettled(state)) return Status(Code::kInvalid, StrCat(name, " has ended, and goes nowhere any more"));
  if (state == core::TaskState::kRunning && !graph_.profile(task).checkpoint.on())
    return Status(Code::kInvalid, StrCat(name, " runs, and would begin anew elsewhere; tasks with checkpoint = \"app\" go on from where they are"));
  return {};
}

Status RunDriver::MoveToNode(const Moment& moment, TaskId task, const std::string& name) {
  HARROW_RETURN_IF_ERROR(MayMove(task));
  const Node* const node = nodes_.FindNamed(name);
  if (node == nullptr || !node->joined)
    return Status(Code::kNotFound, StrCat("this allocation has no node ", Printable(name, 60), "; harrow status --nodes shows those that there are"));
  if (node->silent || node->put_aside || draining_)
    return Status(Code::kInvalid, StrCat("nothing is started on node ", node->name, " any more; name another one"));
  const graph::Profile& profile = graph_.profile(task);
  if (profile.shape.nodes > 1)
    return Status(Code::kInvalid, "the task has several nodes, and none of them can be chosen; name an allocation");
  if (scheduler_.state(task) == core::TaskState::kWaiting)
    return Status(Code::kInvalid, "the task waits for others, and has no node yet");
  if (core::IsInFlight(scheduler_.state(task)) && scheduler_.node(task) == node->id)
    return Status(Code::kInvalid, StrCat("it is on node ", node->name, " already"));
  aims_[task] = {.node = node->name};
  events_.push_back(core::MoveRequested{task, node->id});
  Schedule(moment);
  Wake();
  return {};
}

Status RunDriver::MoveToPart(const Moment& moment, TaskId task, uint32_t part) {
  HARROW_RETURN_IF_ERROR(MayMove(task));
  aims_[task] = {.node = {}, .part = part};
  events_.push_back(core::MoveRequested{task, NodeId()});
  Schedule(moment);
  Wake();
  return {};
}

// Somebody who was told that a task goes elsewhere relies on it, also where this server does not live to see it go; and what the supervisor
// wants moved may have been asked for its checkpoint already. So where each goes is on record as long as the scheduler has it, and told to
// the scheduler of the next server when that knows where its tasks are: what runs is asked (once more: its agent knows better), and what has
// ended meanwhile is kept for where it is to go.

void RunDriver::RestoreAims(const journal::History& history) {
  for (const auto& [key, value] : history.facts) {
    if (key != kMovedByHand) continue;
    aims_.clear();
    aims_recorded_ = value;
    std::string_view words = value;
    if (TakeWord(&words) != StrCat(flow_.settings.started.time_since_epoch().count())) continue;
    while (!words.empty()) {
      const std::string_view word = TakeWord(&words);
      const size_t equals = word.find('=');
      if (equals == word.npos) continue;
      const auto task = ParseInteger<uint32_t>(word.substr(0, equals));
      const std::string_view to = word.substr(equals + 1);
      const bool to_part = to.starts_with('/');
      const auto part = to_part ? ParseInteger<uint32_t>(to.substr(1)) : std::optional<uint32_t>(0);
      if (!task || !part) continue;
      aims_[TaskId(*task)] = {.node = to_part ? std::string() : std::string(to), .part = *part};
    }
  }
}

std::vector<std::pair<TaskId, uint32_t>> RunDriver::parts_aimed_at() const {
  std::vector<std::pair<TaskId, uint32_t>> found;
  for (const auto& [task, aim] : aims_) {
    if (aim.node.empty() && task.value < graph_.task_count()) found.emplace_back(task, aim.part);
  }
  return found;
}

/// All agents have come back that do, and have told what they have.
void RunDriver::MoveAgain() {
  for (const auto& [task, aim] : aims_) {
    const Node* const node = aim.node.empty() ? nullptr : nodes_.FindNamed(aim.node);
    if (!aim.node.empty() && (node == nullptr || !node->joined)) continue;
    events_.push_back(core::MoveRequested{task, node == nullptr ? NodeId() : node->id, true});
  }
}

/// Those that the scheduler knows of no more are there, stay, or have ended. One that has been taken out for another server stays on record until
/// the offer is.
void RunDriver::KeepAims() {
  if (aims_.empty()) return;
  for (auto at = aims_.begin(); at != aims_.end();) {
    const TaskId task = at->first;
    const bool stays = scheduler_.IsMoving(task) ||
                       (scheduler_.state(task) == core::TaskState::kElsewhere && !std::exchange(at->second.gone, true));
    at = stays ? std::next(at) : aims_.erase(at);
  }
  std::string text = StrCat(flow_.settings.started.time_since_epoch().count());
  for (const auto& [task, aim] : aims_) text += StrCat(" ", task.value, "=", aim.node.empty() ? StrCat("/", aim.part) : aim.node);
  if (text != std::exchange(aims_recorded_, text)) recorder_.Fact(kMovedByHand, text);
}

std::vector<std::pair<core::Checkpointer, Duration>> RunDriver::Checkpointers(const Moment& moment) const {
  std::vector<std::pair<core::Checkpointer, Duration>> running;
  for (const core::Checkpointer& each : scheduler_.Checkpointers()) {
    const Row* const row = attempts_.Find(each.task);
    if (row == nullptr || row->start_ns == 0) continue;
    running.emplace_back(each, Duration(std::max<int64_t>(0, moment.wall_ns() - row->start_ns)));
  }
  return running;
}

Status RunDriver::DrainNode(const std::string& name) {
  const Node* const known = nodes_.FindNamed(name);
  if (known == nullptr || !known->joined) return Status(Code::kInvalid, StrCat("this allocation has no node ", Printable(name, 60)));
  Node* const node = nodes_.Find(known->id);
  if (drained_nodes_.contains(node->name)) return {};
  const bool last = std::none_of(nodes_.all().begin(), nodes_.all().end(), [&](const auto& other) {
    return other.get() != node && other->joined && !other->put_aside;
  });
  if (last && !others_)
    return Status(Code::kInvalid, StrCat("node ", node->name, " is the last one of the run that takes tasks; harrow cancel --all, or a signal, ends it"));
  drained_nodes_.insert(node->name);
  std::string names;
  for (const std::string& each : drained_nodes_) names += StrCat(names.empty() ? "" : ",", each);
  recorder_.Fact(kDrainedNodes, StrCat(flow_.settings.started.time_since_epoch().count(), " ", names));
  os::LogWarning(StrCat("node ", node->name, " drains"));
  node->put_aside = true;
  events_.push_back(core::NodeDrained{node->id});
  Wake();
  return {};
}

void RunDriver::SiteDrains(const std::vector<std::string>& names) {
  const bool told = std::exchange(site_drains_, names) == names;
  if (2 * names.size() > nodes_.all().size()) {
    if (!told) os::LogWarning(StrCat(names.size(), " of ", nodes_.all().size(), " nodes are drained in the batch system; as they are so many, tasks go on there"));
    return;
  }
  for (const std::string& name : names) {
    const Node* const node = nodes_.FindNamed(name);
    if (node == nullptr || !node->joined || drained_nodes_.contains(name)) continue;
    if (const Status drains = DrainNode(name); drains.ok()) {
      os::LogWarning(StrCat("node ", name, " is drained in the batch system: its tasks go to others"));
    } else if (!told) {
      os::LogWarning(StrCat("node ", name, " is drained in the batch system, and tasks go on there: ", drains.message()));
    }
  }
}

/// Those that an earlier server of the session was told to drain.
void RunDriver::RestoreDrained(const journal::History& history) {
  for (const auto& [key, value] : history.facts) {
    if (key != kDrainedNodes) continue;
    drained_nodes_.clear();
    std::string_view names = value;
    const std::string session = StrCat(flow_.settings.started.time_since_epoch().count(), " ");
    if (!names.starts_with(session)) continue;
    names.remove_prefix(session.size());
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      drained_nodes_.emplace(name);
    }
  }
}

/// It has joined, or is heard of again.
void RunDriver::CloseIfDrained(Node& node) {
  if (draining_) events_.push_back(core::NodeDrained{node.id});
  if (!drained_nodes_.contains(node.name)) return;
  node.put_aside = true;
  events_.push_back(core::NodeDrained{node.id});
}

}  // namespace harrow::server
