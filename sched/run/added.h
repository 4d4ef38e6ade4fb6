#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "os/file_system.h"
#include "run_dir/run_dir.h"
#include "wire/harrow.pb.h"

// PART/added: tasks that were submitted while the run went on (flow_format.md).

namespace harrow::run {

class FlowBuilder;

/// What somebody submitted at once, and was told.
struct Submission {
  std::string id;             // pb::SubmitRequest.id
  std::vector<TaskId> tasks;  // in the order of the request
};

/// Adds to a flow that has just been read what was submitted to it since. What was written for a flow of another id or
/// another number of tasks is passed over. kDamaged. `submissions` may be null.
Status ReadAdded(run_dir::RunDir& dir, const std::string& flow_id, FlowBuilder* builder,
                 std::vector<Submission>* submissions);
/// The same, a group after the other; `tasks`: of the flow.
Status ReadAddedChunks(run_dir::RunDir& dir, const std::string& flow_id, uint32_t tasks,
                       const std::function<Status(const pb::AddedGroup&)>& take);

/// The same, of what lies behind the first `*at` bytes, which end with a group; 0: of all. `*at` is then where the last whole group ends.
/// So who is told of each group reads each once.
Status ReadAddedOn(run_dir::RunDir& dir, const std::string& flow_id, uint32_t tasks, uint64_t* at,
                   const std::function<Status(const pb::AddedGroup&)>& take);

/// What was submitted, alone: for who goes on with that.
Result<std::vector<Submission>> ReadSubmissions(run_dir::RunDir& first_part, const std::string& flow_id, uint32_t flow_tasks);

/// Writes it. Of one thread at a time, and of the owner of the run's first part; where that is over, of the lowest that goes
/// on.
class AddedFile {
 public:
  /// Goes on with what is there for a flow of that id and so many tasks, without what a crash left at its end; else
  /// begins anew with the first group. `dir`: outlives this.
  AddedFile(run_dir::RunDir& dir, std::string flow_id, uint32_t tasks)
      : dir_(dir), flow_id_(std::move(flow_id)), tasks_(tasks) {}

  /// On disk when it returns. After an error nothing more can be written.
  Status Append(const pb::AddedGroup& group);

 private:
  Status Open();

  run_dir::RunDir& dir_;
  const std::string flow_id_;
  const uint32_t tasks_;
  std::unique_ptr<os::AppendFile> file_;
};

}  // namespace harrow::run
