// Tasks go in requests of many. Several requests are on their way at once, so that neither the network nor the disk of the
// server is waited for by those that come later; few tasks wait for the answer to those before, and go together.
//
// A task can wait for another one of its own request, which it names by its place, or for one that is in the run. So a task
// that waits for one of a request without an answer waits for that answer, and all behind it do. The same holds for who reads
// files while somebody's outputs are on their way: were the request of these sent in another way, it would come too late,
// as a new task may not write what one that is there reads. And a second task of a name waits for the answer to the first.
//
// A request is taken or refused as a whole. Where tasks stand for themselves, one that is refused is sent again in two halves,
// until those that are wrong are alone.

#include "client/submit_queue.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace harrow::client {
namespace {

// Row::batch of a task that is in none.
constexpr uint32_t kQueued = UINT32_MAX, kTaken = UINT32_MAX - 1, kRefused = UINT32_MAX - 2;
constexpr size_t kMostOfOne = 32u << 20;

}  // namespace

Status RefusalOf(const pb::Answer& answer) {
  const Code code = answer.code() == pb::Answer::WRONG ? Code::kInvalid
                    : answer.code() == pb::Answer::FULL ? Code::kNotFound
                                                          : Code::kExhausted;
  return Status(code, answer.text());
}

uint64_t SubmitQueue::Add(NewTask task) {
  const uint64_t handle = rows_.size();
  rows_.push_back({0, kQueued});
  ++open_;
  Pending pending{handle, std::move(task)};
  Resolve(pending.task.task->mutable_after(), &pending.task.after, &pending);
  Resolve(pending.task.task->mutable_after_any(), &pending.task.after_any, &pending);
  if (const std::string& name = pending.task.task->name(); !name.empty()) {
    const auto [known, first] = names_.try_emplace(name, Named{handle, false});
    if (!first) {
      pending.answered_first.push_back(known->second.handle);
      known->second = {handle, true};
    }
  }
  pending.named = pending.task.task->after_size();
  pending.named_any = pending.task.task->after_any_size();
  queue_.push_back(std::move(pending));
  return handle;
}

/// What no server knows yet is not asked for by name. Which of several of one name is in the run is known when all are answered.
void SubmitQueue::Resolve(google::protobuf::RepeatedPtrField<std::string>* names, std::vector<uint64_t>* handles, Pending* pending) const {
  for (int i = 0; i < names->size();) {
    const auto known = names_.find(names->Get(i));
    if (known == names_.end() || known->second.one_of_several) {
      if (known != names_.end()) pending->answered_first.push_back(known->second.handle);
      ++i;
      continue;
    }
    handles->push_back(known->second.handle);
    names->DeleteSubrange(i, 1);
  }
}

const pb::SubmitRequest* SubmitQueue::Next() {
  if (in_flight_.size() >= limits_.in_flight) return nullptr;
  if (pieces_.empty() && !in_flight_.empty() && queue_.size() < limits_.worth_sending) return nullptr;
  auto batch = std::make_unique<Batch>();
  batch->number = ++last_batch_;
  if (!pieces_.empty()) {
    Fill(&pieces_.front(), batch.get());
    while (!pieces_.empty() && pieces_.front().empty()) pieces_.pop_front();
    if (batch->tasks.empty() && pieces_.empty()) return Next();  // all of them were refused
  } else {
    Fill(&queue_, batch.get());
  }
  if (batch->tasks.empty()) return nullptr;
  batch->request.set_id(hooks_.new_id());
  outputs_in_flight_ += batch->with_outputs;
  in_flight_.push_back(std::move(batch));
  return &in_flight_.back()->request;
}

void SubmitQueue::Fill(std::deque<Pending>* from, Batch* batch) {
  while (!from->empty() && batch->tasks.size() < limits_.tasks) {
    const Pending& next = from->front();
    const size_t bytes = BytesOf(next.task, *batch);
    if (bytes > kMostOfOne) {
      Refuse(next, Status(Code::kInvalid, "a task is larger than 32 MiB; let it read what it needs from a file"));
      from->pop_front();
      continue;
    }
    if (!batch->tasks.empty() && batch->bytes + bytes > limits_.bytes) return;
    const Verdict verdict = Judge(next, batch->number);
    if (verdict == Verdict::kWaits) return;
    if (verdict == Verdict::kRefused) {
      Refuse(next, Status(Code::kInvalid, "it waits for a task that was not taken"));
    } else {
      batch->bytes += bytes;
      Put(std::move(from->front()), batch);
    }
    from->pop_front();
  }
}

size_t SubmitQueue::BytesOf(const NewTask& task, const Batch& batch) {
  const size_t profile = batch.by_address.contains(task.profile.get()) ? 0 : task.profile->ByteSizeLong();
  return task.task->ByteSizeLong() + 8 * (task.after.size() + task.after_any.size()) + profile;
}

SubmitQueue::Verdict SubmitQueue::Judge(const Pending& pending, uint32_t batch) const {
  Verdict verdict = Verdict::kGoes;
  for (const uint64_t handle : pending.answered_first) {
    const uint32_t where = rows_[handle].batch;
    if (where != kRefused && where != kTaken) verdict = Verdict::kWaits;
  }
  for (const auto* handles : {&pending.task.after, &pending.task.after_any}) {
    for (const uint64_t handle : *handles) {
      const uint32_t where = rows_[handle].batch;
      if (where == kRefused) return Verdict::kRefused;
      if (where != kTaken && where != batch) verdict = Verdict::kWaits;
    }
  }
  if (outputs_in_flight_ > 0 && pending.task.task->in_size() > 0) verdict = Verdict::kWaits;
  return verdict;
}

void SubmitQueue::Put(Pending pending, Batch* batch) {
  pb::SubmittedTask& task = *pending.task.task;
  batch->request.mutable_task()->AddAllocated(pending.task.task.release());
  for (const uint64_t handle : pending.task.after) {
    const Row row = rows_[handle];
    row.batch == kTaken ? task.add_after(StrCat("#", row.place + 1)) : task.add_after_new(row.place);
  }
  for (const uint64_t handle : pending.task.after_any) {
    const Row row = rows_[handle];
    row.batch == kTaken ? task.add_after_any(StrCat("#", row.place + 1)) : task.add_after_any_new(row.place);
  }
  task.set_profile(ProfileOf(pending.task.profile, batch));
  batch->with_outputs += task.out_size() > 0 ? 1 : 0;
  rows_[pending.handle] = {static_cast<uint32_t>(batch->tasks.size()), batch->number};
  batch->tasks.push_back(std::move(pending));
}

uint32_t SubmitQueue::ProfileOf(const std::shared_ptr<const pb::Profile>& profile, Batch* batch) {
  const auto known = batch->by_address.find(profile.get());
  if (known != batch->by_address.end()) return known->second;
  const auto count = static_cast<uint32_t>(batch->request.profile_size());
  const auto [at, added] = batch->by_text.emplace(profile->SerializeAsString(), count);
  if (added) *batch->request.add_profile() = *profile;
  return batch->by_address[profile.get()] = at->second;
}

std::vector<const pb::SubmitRequest*> SubmitQueue::InFlight() const {
  std::vector<const pb::SubmitRequest*> requests;
  for (const auto& batch : in_flight_) requests.push_back(&batch->request);
  return requests;
}

/// Null: nobody waits for it any more.
std::unique_ptr<SubmitQueue::Batch> SubmitQueue::Take(const std::string& request) {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                  [&](const auto& batch) { return batch->request.id() == request; });
  if (found == in_flight_.end()) return nullptr;
  std::unique_ptr<Batch> batch = std::move(*found);
  in_flight_.erase(found);
  outputs_in_flight_ -= batch->with_outputs;
  return batch;
}

void SubmitQueue::Taken(const pb::Submitted& answer) {
  const std::unique_ptr<Batch> batch = Take(answer.request());
  if (batch == nullptr) return;
  const bool fits = answer.task_size() == batch->request.task_size();
  for (int i = 0; i < batch->request.task_size(); ++i) {
    const Pending& pending = batch->tasks[static_cast<size_t>(i)];
    const std::string& name = batch->request.task(i).name();
    if (!fits) {
      Refuse(pending.handle, name, Status(Code::kRefused, "the server answers for other tasks; use the harrow that runs the flow"));
      continue;
    }
    Forget(pending.handle, name);
    rows_[pending.handle] = {answer.task(i), kTaken};
    hooks_.taken(pending.handle, answer.task(i));
  }
}

void SubmitQueue::Refused(const pb::Answer& answer) {
  const std::unique_ptr<Batch> batch = Take(answer.request());
  if (batch == nullptr) return;
  if (alone_ && answer.code() == pb::Answer::WRONG && batch->tasks.size() > 1) return Split(batch.get());
  for (int i = 0; i < batch->request.task_size(); ++i)
    Refuse(batch->tasks[static_cast<size_t>(i)].handle, batch->request.task(i).name(), RefusalOf(answer));
}

void SubmitQueue::Split(Batch* batch) {
  std::deque<Pending> halves[2];
  const size_t middle = batch->tasks.size() / 2;
  std::vector<pb::SubmittedTask*> tasks(batch->tasks.size());
  batch->request.mutable_task()->ExtractSubrange(0, static_cast<int>(tasks.size()), tasks.data());
  for (size_t i = 0; i < batch->tasks.size(); ++i) {
    Pending& pending = batch->tasks[i];
    pb::SubmittedTask& task = *tasks[i];
    task.clear_after_new();
    task.clear_after_any_new();
    task.mutable_after()->DeleteSubrange(pending.named, task.after_size() - pending.named);
    task.mutable_after_any()->DeleteSubrange(pending.named_any, task.after_any_size() - pending.named_any);
    pending.task.task.reset(&task);
    rows_[pending.handle] = {0, kQueued};
    halves[i < middle ? 0 : 1].push_back(std::move(pending));
  }
  pieces_.push_front(std::move(halves[1]));
  pieces_.push_front(std::move(halves[0]));
}

void SubmitQueue::Forget(uint64_t handle, const std::string& name) {
  --open_;
  if (name.empty()) return;
  const auto known = names_.find(name);
  if (known != names_.end() && known->second.handle == handle) names_.erase(known);
}

void SubmitQueue::Refuse(uint64_t handle, const std::string& name, const Status& why) {
  Forget(handle, name);
  rows_[handle].batch = kRefused;
  hooks_.refused(handle, why);
}

void SubmitQueue::Close(const Status& not_taken, const Status& unknown) {
  for (const auto& batch : std::exchange(in_flight_, {})) {
    for (int i = 0; i < batch->request.task_size(); ++i)
      Refuse(batch->tasks[static_cast<size_t>(i)].handle, batch->request.task(i).name(), unknown);
  }
  outputs_in_flight_ = 0;
  pieces_.push_back(std::exchange(queue_, {}));
  for (const auto& piece : std::exchange(pieces_, {})) {
    for (const Pending& pending : piece) Refuse(pending, not_taken);
  }
}

}  // namespace harrow::client
