#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "wire/harrow.pb.h"

namespace harrow::client {

/// A task to be submitted. Handles count the tasks of a queue from 0, in the order in which they are added.
struct NewTask {
  // Without what counts places in its request: profile, after_new, after_any_new.
  std::unique_ptr<pb::SubmittedTask> task = std::make_unique<pb::SubmittedTask>();
  std::shared_ptr<const pb::Profile> profile{};
  std::vector<uint64_t> after{}, after_any{};  // handles of tasks that were added before
};

/// Why what was submitted is refused.
Status RefusalOf(const pb::Answer& answer);

/// Makes few requests of many tasks, and knows which of them were taken. Has no connection of its own.
class SubmitQueue {
 public:
  struct Limits {
    uint32_t tasks = 8192;        // of a request
    size_t bytes = 8u << 20;      // about; a message holds 64 MiB
    uint32_t in_flight = 4;       // requests that have no answer yet
    uint32_t worth_sending = 2048;  // so many tasks make a request while others have no answer yet
  };
  struct Hooks {
    std::function<std::string()> new_id;  // nobody else's
    std::function<void(uint64_t handle, uint32_t id)> taken;  // id: TaskId in the run; it is on disk
    /// kInvalid: it is wrong. kNotFound: the run takes none. Others: it is not known whether it was taken.
    std::function<void(uint64_t handle, const Status& why)> refused;
  };
  /// `alone`: where a request is refused, the tasks that are wrong are found and the others are taken; else all of it is
  /// refused.
  SubmitQueue(Limits limits, bool alone, Hooks hooks) : limits_(limits), alone_(alone), hooks_(std::move(hooks)) {}

  uint64_t Add(NewTask task);
  /// What is to be sent now; it lives until it is answered. Null: nothing.
  const pb::SubmitRequest* Next();
  /// Those that have no answer yet, in the order in which they were sent: for another server of the run's session.
  std::vector<const pb::SubmitRequest*> InFlight() const;
  void Taken(const pb::Submitted& answer);
  void Refused(const pb::Answer& answer);
  /// Nothing more can be submitted: every task that has no answer is refused, with `unknown` where it may have been taken.
  void Close(const Status& not_taken, const Status& unknown);

  /// Tasks that have no answer yet.
  uint64_t open() const { return open_; }
  /// Some of them have been sent.
  bool any_in_flight() const { return !in_flight_.empty(); }

 private:
  struct Pending {
    uint64_t handle;
    NewTask task;
    int named = 0, named_any = 0;  // so many of those that it waits for were given by name
    std::vector<uint64_t> answered_first{};  // it goes when these have been answered
  };
  struct Batch {
    uint32_t number;
    pb::SubmitRequest request;
    std::vector<Pending> tasks;  // what they are made of is in the request
    size_t bytes = 0;
    uint32_t with_outputs = 0;
    // Where profiles are in the request.
    std::unordered_map<const pb::Profile*, uint32_t> by_address;
    std::unordered_map<std::string, uint32_t> by_text;
  };
  /// Where a task stands: in a batch, at `place` of it; or outside, with its id in the run.
  struct Row {
    uint32_t place;
    uint32_t batch;
  };
  struct Named {
    uint64_t handle;
    bool one_of_several;  // the last of them
  };
  enum class Verdict { kGoes, kWaits, kRefused };

  static size_t BytesOf(const NewTask& task, const Batch& batch);
  Verdict Judge(const Pending& pending, uint32_t batch) const;
  void Fill(std::deque<Pending>* from, Batch* batch);
  void Put(Pending pending, Batch* batch);
  static uint32_t ProfileOf(const std::shared_ptr<const pb::Profile>& profile, Batch* batch);
  void Resolve(google::protobuf::RepeatedPtrField<std::string>* names, std::vector<uint64_t>* handles,
               Pending* pending) const;
  void Refuse(uint64_t handle, const std::string& name, const Status& why);
  void Refuse(const Pending& pending, const Status& why) { Refuse(pending.handle, pending.task.task->name(), why); }
  void Forget(uint64_t handle, const std::string& name);
  void Split(Batch* batch);
  std::unique_ptr<Batch> Take(const std::string& request);

  const Limits limits_;
  const bool alone_;
  const Hooks hooks_;
  std::vector<Row> rows_;  // by handle
  std::deque<Pending> queue_;
  std::deque<std::deque<Pending>> pieces_;  // of requests that were refused; before the queue, each a request of its own
  std::deque<std::unique_ptr<Batch>> in_flight_;
  std::unordered_map<std::string, Named> names_;  // of tasks that have no answer yet
  uint32_t last_batch_ = 0;
  uint32_t outputs_in_flight_ = 0;  // tasks that write files
  uint64_t open_ = 0;
};

}  // namespace harrow::client
