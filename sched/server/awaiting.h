#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "journal/journal.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// How the last attempt of a task ended that did not succeed.
struct TaskEnding {
  TaskId task;
  journal::End end = journal::End::kExited;
  int32_t code = 0;  // exit code or signal
};

/// Tells clients what became of the tasks that they wait for, when it is on disk. Of the server's thread.
class Awaiting {
 public:
  struct Sources {
    std::function<size_t()> tasks;
    std::function<journal::TaskFate(TaskId)> fate;  // of one that is there
    std::function<uint64_t()> added;                // what has been recorded has numbers up to this in the journal
  };
  explicit Awaiting(Sources sources) : sources_(std::move(sources)) {}

  /// What earlier servers recorded.
  void Restore(const journal::History& history);
  void Ask(std::shared_ptr<wire::Channel> channel, const pb::AwaitRequest& request);
  void Gone(const wire::Channel* channel);
  void AttemptEnded(const journal::AttemptRecord& record);
  /// The same of what another server of the run tells.
  void EndedElsewhere(const TaskEnding& ending) { endings_[ending.task.value] = {ending.end, ending.code}; }
  /// How the last attempt of a task ended that did not succeed; none: it has had none.
  std::optional<TaskEnding> EndingOf(TaskId task) const;
  /// The task's fate has been recorded.
  void Settled(TaskId task);
  /// The journal has all up to `sequence` on disk: tells who can be told.
  void Committed(uint64_t sequence);
  /// The kernel has taken all that was told.
  bool all_sent() const;

 private:
  struct Client {
    std::shared_ptr<wire::Channel> channel;
    std::vector<std::pair<uint64_t, TaskId>> due;  // to be told when the journal has come so far; ascending
  };
  struct Ending {
    journal::End end;
    int32_t code;
  };
  void Tell(Client* client);
  void AddTo(TaskId task, pb::Settled* settled) const;

  Sources sources_;
  uint64_t committed_ = 0;
  uint64_t last_client_ = 0;
  std::unordered_map<uint64_t, Client> clients_;                  // by a number that is never used again
  std::unordered_map<const wire::Channel*, uint64_t> numbers_;
  std::unordered_map<uint32_t, std::vector<uint64_t>> waited_for_;  // by task; clients, also some that have gone
  std::unordered_map<uint32_t, Ending> endings_;
};

}  // namespace harrow::server
