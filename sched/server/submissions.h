#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "run/added.h"
#include "run/flow_builder.h"
#include "run/flow_store.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// Takes tasks that are submitted while the run goes on: checks them, has them written, adds them to the graph, and says
/// so. What comes while something is being written is written next, together. Has no clock, file or thread of its own.
class Submissions {
 public:
  struct Hooks {
    /// Writes the group, which lives as long as `done`; that is called in a later turn, on this thread.
    std::function<void(const pb::AddedGroup& group, std::function<void(Status)> done)> write;
    /// These tasks, and files from that number on, are in the graph now; the tasks are that part's.
    std::function<void(TaskId first, uint32_t count, uint32_t first_file, uint32_t part)> added;
    /// No task is new, and streams are held or released.
    std::function<void()> streams_changed = [] {};
    /// These streams do not end until they are let; or which of them has ended, and none is kept.
    std::function<std::optional<StreamId>(const std::vector<StreamId>&)> keep_from_ending = [](const auto&) { return std::nullopt; };
    std::function<void(StreamId)> let_end = [](StreamId) {};
    /// That part's server is connected, so that tasks can be its own. Empty: always.
    std::function<bool(uint32_t part)> connected{};
    /// Nothing more can be written; the run may go on.
    std::function<void(const Status&)> closed;
    /// What is on disk does not fit the graph, which is of no more use.
    std::function<void(const Status&)> failed;
  };
  using Told = std::function<void(const Result<pb::Submitted>&)>;

  /// `builder`: of the flow. `part`: of this server. `run_dir`: where no task may write. `known`: what was submitted before.
  Submissions(const run::StoredFlow& flow, run::FlowBuilder* builder, uint32_t part, const std::string& run_dir,
              std::vector<run::Submission> known, Hooks hooks);

  /// `told` is called once: what they are called, when they are on disk; kInvalid, and why none of them was taken.
  void Submit(pb::SubmitRequest request, Told told) { Submit(std::move(request), part_, std::move(told)); }
  /// The same, of tasks that are to be another part's, whose server has passed them on. What streams join stays in one part, this one.
  /// Where that part is not connected when its turn comes, it is not taken.
  void Submit(pb::SubmitRequest request, uint32_t part, Told told);
  /// Tasks of that part are being written; none: nothing is.
  std::optional<uint32_t> writes_for() const { return writing_ ? std::optional(writing_for_) : std::nullopt; }
  /// Nothing is being written, or waits for that.
  bool idle() const { return !writing_ && queue_.empty(); }

 private:
  struct Request {
    pb::SubmitRequest request;
    uint32_t part;
    Told told;
  };
  struct Answer {
    pb::Submitted submitted;
    Told told;
  };
  /// What is being put together; names are those that the group adds.
  struct Group {
    pb::AddedGroup message;
    std::unordered_set<std::string> names, ids, directories;  // directories: that hold its files
    std::unordered_map<std::string, uint32_t> files, kinds;
    std::vector<Answer> answers;
    std::vector<StreamId> kept;  // from ending
    size_t bytes = 0;
  };
  /// kUnavailable: it is about something that is only in `group`, and has to wait for it.
  Result<pb::Submitted> Take(const pb::SubmitRequest& request, Group* group);
  Result<std::vector<uint32_t>> FindAll(const google::protobuf::RepeatedPtrField<std::string>& names,
                                        const Group& group) const;
  Status KeepFromEnding(const std::vector<StreamId>& streams, Group* group);
  Status CheckPlace(const std::string& name) const;
  Status CheckOutput(const std::string& name, const Group& group);
  bool SameTask(TaskId there, const pb::SubmittedTask& task, const graph::Graph& graph, TaskId here) const;
  bool WaitsForTheSame(TaskId there, std::vector<uint32_t> done, std::vector<uint32_t> ended) const;
  uint32_t FileNumber(std::string_view name, Group* group) const;
  void NoteDirectories();
  void WriteNext();
  void Written(Group& group, const Status& status);

  const run::StoredFlow& flow_;
  const graph::Graph& graph_;
  run::FlowBuilder& builder_;
  const uint32_t part_;
  const std::string run_path_;  // normal
  Hooks hooks_;
  std::unordered_map<std::string, std::vector<TaskId>> known_;
  std::deque<Request> queue_;
  bool writing_ = false;
  uint32_t writing_for_ = 0;
  Status broken_;
  // Directories that hold files of the graph; from the first submission on that has outputs.
  std::unordered_set<std::string> directories_;
  uint32_t directories_up_to_ = 0;  // files
};

}  // namespace harrow::server
