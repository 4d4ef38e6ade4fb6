// The thread sleeps until the policy says that something leaves. While short tasks come in quick succession
// it wakes by its own timer, so that adding a result costs a lock and no waking-up.
//
// A result never leaves before its output is in the kernel's hands: a task that is recorded as done has its
// output. Where it cannot be written (a full disk, a quota) results wait, and tasks whose pipes are full with
// them. Once the run is to end, by a signal or at its time limit, there is no time for that: what still
// cannot be written is dropped, and what it belongs to is told as interrupted, never as done.
#include "agent/collector.h"

#include <algorithm>
#include <pthread.h>
#include <utility>

#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr size_t kMaxBuffered = 32u << 20;
constexpr size_t kMostExpected = 256;  // results of a batch that are as many as in the one before
constexpr auto kRetryOutput = std::chrono::milliseconds(500);
constexpr Duration kLastTries = std::chrono::seconds(2);  // for storage that fails, when the run ends

uint64_t KeyOf(uint32_t task, uint32_t attempt) {
  return (uint64_t{task} << 32) | attempt;
}

std::vector<StartedTask> EndedIn(const Batch& batch) {
  std::vector<StartedTask> tasks;
  tasks.reserve(batch.ended.size());
  for (const TaskResult& r : batch.ended)
    tasks.push_back({.id = r.id, .attempt = r.attempt, .start = r.start, .gang = r.gang});
  return tasks;
}

}  // namespace

Collector::Collector(std::unique_ptr<output::Writer> writer, const os::Clock& clock,
                     std::function<void(Batch)> deliver, std::function<void(std::string)> problem,
                     BatchPolicy policy)
    : writer_(std::move(writer)),
      clock_(clock),
      deliver_(std::move(deliver)),
      problem_(std::move(problem)),
      policy_(policy),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "collector");
}

Collector::~Collector() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Collector::WantPulse() {
  // Sequentially consistent with the store in Run(): either the thread sees the slot that calls, or we see it
  // stop.
  if (pulsing_.load()) return;
  {
    std::lock_guard lock(mutex_);
    if (pulsing_.exchange(true)) return;
    state_.last_pulse = clock_.Steady();
  }
  wake_.notify_one();
}

void Collector::StopPulse() {
  std::lock_guard lock(mutex_);
  pulse_ = [] { return false; };
}

uint64_t Collector::AddOutput(uint32_t task, uint32_t attempt, output::Stream stream, std::string_view data,
                              std::optional<uint32_t> rank) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return state_.output_bytes < kMaxBuffered || stop_; });
  const Result<uint64_t> offset = writer_->Append(TaskId(task), attempt, stream, data, rank);
  if (unwritten_.empty() || unwritten_.back() != KeyOf(task, attempt))
    unwritten_.push_back(KeyOf(task, attempt));
  state_.output_bytes += data.size();
  const bool first = !state_.oldest_output;
  if (first) state_.oldest_output = clock_.Steady();
  if (sleeping_ || state_.output_bytes >= policy_.output_bytes) wake_.notify_one();
  return offset.ok() ? *offset : 0;
}

void Collector::AddStarted(const StartedTask& task) {
  std::lock_guard lock(mutex_);
  waiting_.started.push_back(task);
  if (state_.oldest_start) return;
  state_.oldest_start = clock_.Steady();
  if (sleeping_) wake_.notify_one();
}

void Collector::AddEnded(TaskResult&& result) {
  std::lock_guard lock(mutex_);
  if (!lost_.empty()) MarkLost(&result);
  const Duration run_time = result.finish - result.start;
  state_.shortest_run = waiting_.ended.empty() ? run_time : std::min(state_.shortest_run, run_time);
  waiting_.ended.push_back(std::move(result));
  if (!state_.oldest_result) state_.oldest_result = clock_.Steady();
  if (sleeping_) wake_.notify_one();
}

void Collector::AddMissed(AttemptId attempt, std::string why) {
  std::lock_guard lock(mutex_);
  waiting_.missed.push_back({attempt, std::move(why)});
  if (state_.oldest_start) return;
  state_.oldest_start = clock_.Steady();
  if (sleeping_) wake_.notify_one();
}

void Collector::AddProblem(std::string text) {
  std::lock_guard lock(mutex_);
  problems_.push_back(std::move(text));
  wake_.notify_one();
}

void Collector::Hurry() {
  std::lock_guard lock(mutex_);
  if (!state_.oldest_result && !state_.oldest_output) return;
  state_.hurry = true;
  wake_.notify_one();
}

void Collector::Arrived() {
  std::lock_guard lock(mutex_);
  on_its_way_.pop_front();
}

std::vector<StartedTask> Collector::Undelivered() {
  std::lock_guard lock(mutex_);
  std::vector<StartedTask> tasks = EndedIn(waiting_);
  for (const auto& batch : on_its_way_) tasks.insert(tasks.end(), batch.begin(), batch.end());
  return tasks;
}

void Collector::GiveUpOutput() {
  std::lock_guard lock(mutex_);
  if (!giving_up_) giving_up_ = clock_.Steady();
}

Status Collector::FlushOutput() {
  const Status status = writer_->Flush();
  const Duration now = clock_.Steady();
  if (status.ok()) {
    if (output_fails_ && !dropped_) problem_("output of tasks is written again");
    output_fails_.reset();
    return status;
  }
  if (!output_fails_) {
    output_fails_ = now;
    problem_(StrCat("output of tasks cannot be written, their results wait for it: ", status.message()));
  }
  if (stuck_ && !told_stuck_ && now - *output_fails_ >= patience_) {
    told_stuck_ = true;
    stuck_(StrCat("output of tasks could not be written for ", FormatDuration(patience_),
                  ", so the run ends: ", status.message()));
  }
  return status;
}

void Collector::MarkLost(TaskResult* result) {
  const auto lost = lost_.find(KeyOf(result->id, result->attempt));
  if (lost == lost_.end()) return;
  result->end = End::kInterrupted;
  result->code = 0;
  result->message = StrCat("its output could not be written and is lost: ", lost->second);
  result->output_offset = result->stdout_bytes = result->stderr_bytes = 0;
  lost_.erase(lost);
}

// Holding mutex_.
bool Collector::DropOutput(const Status& why) {
  if (unwritten_.empty()) return false;
  dropped_ = true;
  writer_->Discard();
  state_.output_bytes = 0;
  state_.oldest_output.reset();
  std::sort(unwritten_.begin(), unwritten_.end());
  unwritten_.erase(std::unique(unwritten_.begin(), unwritten_.end()), unwritten_.end());
  for (const uint64_t attempt : unwritten_) lost_.emplace(attempt, why.message());
  problem_(
      StrCat("output of ", unwritten_.size(), unwritten_.size() == 1 ? " task" : " tasks",
             " could not be written and is lost; they count as interrupted, and run again with --resume"));
  unwritten_.clear();
  for (TaskResult& result : waiting_.ended) MarkLost(&result);
  room_.notify_all();
  return true;
}

void Collector::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!problems_.empty()) {  // others may come while these are told
      const std::vector<std::string> problems = std::exchange(problems_, {});
      lock.unlock();
      for (const std::string& text : problems) problem_(text);
      lock.lock();
    }
    Duration now = clock_.Steady();
    if (state_.last_pulse && now >= *state_.last_pulse + policy_.pulse) {
      state_.last_pulse = now;
      if (!pulse_()) {
        pulsing_.store(false);
        // A slot that began to wait in between saw pulsing_ and did not wake us.
        if (pulse_()) {
          pulsing_.store(true);
        } else {
          state_.last_pulse.reset();
        }
      }
    }
    if (policy_.Due(state_, now) ||
        (stop_ && (state_.oldest_result || state_.oldest_start || state_.oldest_output))) {
      Batch batch = std::exchange(waiting_, {});
      waiting_.ended.reserve(std::min(batch.ended.size(), kMostExpected));
      const BatchPolicy::State before = state_;
      state_.oldest_result.reset();
      state_.oldest_start.reset();
      state_.oldest_output.reset();
      state_.output_bytes = 0;
      state_.hurry = false;
      state_.shortest_run = Duration(0);
      on_its_way_.push_back(EndedIn(batch));
      std::vector<uint64_t> flushed = std::exchange(unwritten_, {});
      lock.unlock();
      const Status flush = FlushOutput();
      const bool written = flush.ok();
      const bool deliver = written && (!batch.ended.empty() || !batch.started.empty() || !batch.missed.empty());
      if (deliver) deliver_(std::move(batch));
      lock.lock();
      // Delivered batches arrive in their order, so what did not leave is the last.
      if (!deliver) on_its_way_.pop_back();
      if (written) {
        room_.notify_all();
        continue;
      }
      // Nothing may leave before its output: put it back in front, and try again a little later.
      batch.started.insert(batch.started.end(), waiting_.started.begin(), waiting_.started.end());
      std::move(waiting_.ended.begin(), waiting_.ended.end(), std::back_inserter(batch.ended));
      std::move(waiting_.missed.begin(), waiting_.missed.end(), std::back_inserter(batch.missed));
      waiting_ = std::move(batch);
      unwritten_.insert(unwritten_.begin(), flushed.begin(), flushed.end());
      state_.output_bytes += before.output_bytes;
      if (before.oldest_result) state_.oldest_result = before.oldest_result;
      if (before.oldest_start) state_.oldest_start = before.oldest_start;
      if (giving_up_ && clock_.Steady() - *giving_up_ >= kLastTries && DropOutput(flush)) continue;
      if (before.oldest_output) state_.oldest_output = before.oldest_output;
      if (stop_) return;
      wake_.wait_for(lock, kRetryOutput, [this] { return stop_; });
      continue;
    }
    if (stop_) return;
    const std::optional<Duration> next = policy_.NextLook(state_);
    sleeping_ = !next || *next > now + policy_.gather;
    if (!next) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, *next - now);
    }
    sleeping_ = false;
  }
}

}  // namespace harrow::agent
