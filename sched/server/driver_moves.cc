#include <algorithm>
#include <utility>

#include "base/text.h"
#include "server/driver.h"
#include "server/messages.h"

// Tasks that other servers of the run have (other_servers.cc). The scheduler has every task of the run; those that are not
// this server's are elsewhere there until they come, or until it is told how they ended.

namespace harrow::server {
namespace {

constexpr Duration kRoomFor = std::chrono::seconds(60);

}  // namespace

void RunDriver::SetOwn(const std::vector<bool>& own, const std::unordered_map<uint32_t, Tried>& tried,
                       const journal::History& history) {
  own_ = own;
  own_.resize(graph_.task_count(), false);
  if (tried.empty()) return;
  AddTried(history, flow_.settings.started.time_since_epoch().count(), tried, [&](const Tried& all) {
    if (!tried.contains(all.task.value)) return;  // Restore has counted its attempts, those of several nodes too
    Tries& tries = tries_[all.task.value];
    tries.attempts = all.attempts;
    tries.losses = all.losses;
    tries.last = all.last;
  });
}

void RunDriver::CancelHere(const std::vector<TaskId>& tasks) {
  for (const TaskId task : tasks) {
    const bool known = scheduler_.counts().total > task.value;
    if (known && IsSettled(scheduler_.state(task))) continue;
    // One that is on its way here is cancelled when it comes.
    if (known && scheduler_.state(task) == core::TaskState::kElsewhere) cancelled_elsewhere_.insert(task.value);
    events_.push_back(core::CancelRequested{task});
  }
  Wake();
}

Movable RunDriver::MovableTasks(const Moment& moment, const Shape& shape, uint64_t count, uint64_t keep,
                                const std::optional<supervisor::Saving>& saving) {
  FilesOf files_of;
  if (local_files()) files_of = [this](TaskId task) { return FilesToCopy(task); };
  std::vector<ToCopy> coming;
  std::erase_if(gone_, [&](TaskId task) {
    if (scheduler_.state(task) != core::TaskState::kElsewhere) return true;
    const std::vector<ToCopy> files = FilesToCopy(task);
    coming.insert(coming.end(), files.begin(), files.end());
    return files.empty();
  });
  // More are looked at as long as some stay for their files; of those with bounds LastInOrder gives a sample of all.
  constexpr uint64_t kBesides = 256, kMost = 65536;
  for (uint64_t besides = files_of && !scheduler_.LeastBound() ? kBesides : 0;; besides = std::max(kBesides, 16 * besides)) {
    const uint64_t asked = count + brought_.size() + besides;
    std::vector<TaskId> tasks = scheduler_.LastInOrder(shape, asked, keep);
    const bool are_all = tasks.size() < asked;
    // What an earlier attempt left is removed where it was made, and an attempt that was lost may come back here.
    std::erase_if(tasks, [&](TaskId task) {
      const auto brought = brought_.find(task.value);
      const bool waits = brought != brought_.end() && moment.now < brought->second && !draining_;
      return waits || made_.contains(task.value) || attempts_.Find(task) != nullptr;
    });
    Movable found = WorthCopying(tasks, coming, count, saving, copy_speed_.At(moment.now), files_of);
    if (!found.dear || found.tasks.size() >= count || are_all || besides >= kMost) return found;
  }
}

Duration RunDriver::TimeToCopy(const Moment& moment, TaskId task) const {
  if (!local_files()) return Duration(0);
  return server::TimeToCopy(FilesToCopy(task), copy_speed_.At(moment.now));
}

Duration RunDriver::LongestRunning(const Moment& moment, const Shape& shape) const {
  Duration longest{0};
  attempts_.ForEach([&](const AttemptTable::Row& row) {
    if (row.state == AttemptTable::State::kRunning && row.start_ns != 0 && graph_.profile(row.id.task).shape == shape)
      longest = std::max(longest, Duration(moment.wall_ns() - row.start_ns));
  });
  return longest;
}

std::vector<TaskId> RunDriver::WaitingTasks(uint64_t count) const {
  std::vector<TaskId> tasks;
  for (uint32_t i = 0; i < graph_.task_count() && tasks.size() < count; ++i) {
    const TaskId task(i);
    if (scheduler_.state(task) == core::TaskState::kWaiting && !made_.contains(i) && attempts_.Find(task) == nullptr)
      tasks.push_back(task);
  }
  return tasks;
}

std::vector<TaskId> RunDriver::ShareOfTasks(double part) {
  std::vector<TaskId> tasks = scheduler_.ShareOf(part);
  // What streams join with these stays as well: the scheduler sees to that.
  std::erase_if(tasks, [this](TaskId task) { return made_.contains(task.value) || attempts_.Find(task) != nullptr || brought_.contains(task.value); });
  return tasks;
}

std::vector<TaskId> RunDriver::TakeOut(const Moment& moment, const std::vector<TaskId>& tasks, std::vector<Tried>* tried) {
  std::vector<TaskId> taken;
  if (phase_ != Phase::kRunning || AwaitsStaged(moment)) return taken;
  std::vector<TaskId> leave = tasks;
  std::erase_if(leave, [this](TaskId task) { return !MayLeave(task).ok(); });
  events_.push_back(core::TasksTaken{leave});
  Schedule(moment);
  for (const TaskId task : leave) {
    if (scheduler_.state(task) != core::TaskState::kElsewhere) continue;
    taken.push_back(task);
    if (local_files() && !FilesToCopy(task).empty()) gone_.push_back(task);
    // It does not come back: another one may be out by then.
    ForgetLost(task);
    brought_.erase(task.value);
    if (const uint32_t attempts = scheduler_.attempts(task); attempts > 0)
      tried->push_back({task, scheduler_.counted_attempts(task), scheduler_.losses(task), std::max(attempts, recorder_.last_attempt(task))});
  }
  Wake();
  return taken;
}

Status RunDriver::MayLeave(TaskId task) const {
  if (core::IsInFlight(scheduler_.state(task))) return {};
  const std::string name = StrCat("task ", Printable(graph_.TaskName(task), 60));
  const AttemptTable::Row* const row = attempts_.Find(task);
  if (row != nullptr && row->state != AttemptTable::State::kLost)
    return Status(Code::kUnavailable, StrCat(name, " may run still, on nodes of which nothing is heard; try again"));
  if (made_.contains(task.value))
    return Status(Code::kInvalid, StrCat(name, " begins again in this allocation, where what its last attempt made is removed before; move it when it runs"));
  return {};
}

void RunDriver::Bring(const Moment& moment, const std::vector<TaskId>& tasks) {
  for (const TaskId task : tasks) brought_[task.value] = moment.now + kRoomFor;
}

void RunDriver::GiveIn(const std::vector<TaskId>& tasks, const std::vector<Tried>& tried) {
  for (const Tried& each : tried)
    events_.push_back(core::TaskRestored{.task = each.task,
                                         .as = core::TaskRestored::As::kOpen,
                                         .attempts = each.attempts,
                                         .losses = each.losses,
                                         .last_attempt = each.last});
  events_.push_back(core::TasksGiven{tasks});
  for (const TaskId task : tasks) {
    if (cancelled_elsewhere_.erase(task.value) > 0) events_.push_back(core::CancelRequested{task});
  }
  complete_ = false;
  Wake();
}

void RunDriver::EndElsewhere(const std::vector<std::pair<TaskId, journal::TaskFate>>& fates) {
  for (const auto& [task, fate] : fates) {
    // Whoever tells it twice, or tells it of a task that is this server's, changes nothing.
    const bool known = scheduler_.counts().total > task.value;
    if (known && scheduler_.state(task) != core::TaskState::kElsewhere) continue;
    events_.push_back(core::TaskRestored{task, RestoredAs(fate)});
    NoteEnded(task);
    if (ended_elsewhere_.emplace(task.value, fate).second && hooks_.ended_elsewhere) hooks_.ended_elsewhere(task);
  }
  if (!events_.empty()) Wake();
}

void RunDriver::NoteMadeElsewhere(const made::Attempts& made) {
  for (const auto& [task, attempt] : made) {
    if (task < graph_.task_count() && recorder_.fate(TaskId(task)) == journal::TaskFate::kOpen)
      made_.try_emplace(task, attempt);
  }
}

void RunDriver::Drain() {
  if (std::exchange(draining_, true)) return;
  for (const auto& node : nodes_.all()) events_.push_back(core::NodeDrained{node->id});
  // Also when the others have gone: what no node may start here any more stays open.
  if (!others_) events_.push_back(core::OtherServersThere{true});
  Wake();
}

void RunDriver::SetOthers(bool there) {
  if (std::exchange(others_, there) == there || draining_) return;
  events_.push_back(core::OtherServersThere{there});
  Wake();
}

void RunDriver::GiveUpOthers() {
  others_lost_ = true;
  Wake();
}

}  // namespace harrow::server
