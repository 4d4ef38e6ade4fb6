#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/attempt.h"
#include "agent/steps/checkpoint_spec.h"
#include "base/ids.h"
#include "base/records.h"
#include "base/time.h"
#include "made/record.h"
#include "migrate/checkpoints.h"
#include "store/object.h"

namespace harrow::agent {

class TaskProfile;
class Team;
struct Gang;

/// What a task in a sandbox finds at `path` there: a file of the node's store, or what lies at `inside` of a
/// directory.
struct TaskInput {
  FileId file;
  std::string path;
  std::string inside{};
};

/// What one of a stream's writers writes, as one of its readers is told.
struct StreamSource {
  StreamId stream{};
  AttemptId writer{};
  NodeId node{};  // where that runs or ran; none: nowhere now
  bool split = false;
  Records records = kLines;
  bool gone = false;  // with no node: it may have succeeded, and what it wrote is lost
  // In place of a writer: the stream is held open, and others may be told; with `over` it is so no more.
  bool open = false, over = false;
};

/// A task as the server sent it.
struct LocalTask {
  uint32_t id = 0;
  uint32_t attempt = 1;
  AttemptId attempt_id() const { return {TaskId(id), attempt}; }
  std::shared_ptr<const TaskProfile> profile;
  CommandForm form = CommandForm::kWords;
  std::string command;
  std::string name;
  std::vector<std::string> outputs;  // declared; below the submit directory
  bool sizes_wanted = false;
  std::string checkpoints;           // the name of its directory for them, where it writes any
  std::optional<made::Attempt> earlier;  // its task and attempt are not looked at
  bool sandbox = false;                  // it runs in one, with files of the node's store
  std::vector<TaskInput> inputs;         // in a sandbox
  std::vector<FileId> output_files;      // of outputs, in a sandbox
  std::vector<bool> output_results;      // which of them go to the submit directory
  bool writes_streams = false;           // what it writes to standard output is kept for readers
  std::vector<StreamSource> sources;     // what comes to its standard input
  bool has_streams() const { return writes_streams || !sources.empty(); }
  std::string trouble;                   // why an input of it cannot be had
  std::shared_ptr<const Gang> gang{};    // of several nodes: this is the part of one
  std::shared_ptr<Team> team{};          // of its processes here, where it has ranks or is such a part
};

/// What an attempt in a sandbox left at one of its outputs.
struct MadeFile {
  FileId file;
  std::optional<store::Object> object{};  // none: it was not written
  bool shared = false;                    // it lies in the submit directory, too
};

struct TaskResult {
  uint32_t id = 0;
  uint32_t attempt = 1;
  std::shared_ptr<const Gang> gang{};  // as in LocalTask
  End end = End::kNotStarted;
  int code = 0;  // exit code, or signal; 126 and 127 as a shell gives them when not started
  WallTime start, finish;
  // Of a part that failed by itself: when the first of its processes did, or it was found to have lost their
  // server.
  std::optional<WallTime> failed{};
  Duration user_time{0}, system_time{0};
  int64_t max_rss_kib = 0;     // negative: not known, but less than so much
  uint64_t output_offset = 0;  // of the first record in the packed output; 0: none
  uint64_t stdout_bytes = 0;   // kept
  uint64_t stderr_bytes = 0;
  bool truncated = false;
  std::string message;
  std::vector<int64_t> output_sizes;  // of LocalTask::outputs, where wanted; -1: absent
  int64_t checkpoint_bytes = 0;      // it has left a checkpoint,
  Duration checkpoint_took{0};       // so long after it was asked for one
  std::shared_ptr<const migrate::Checkpoints> over;  // it succeeded: these are of no use when that is recorded
  std::optional<made::Attempt> made;  // it began, and did not succeed
  std::vector<MadeFile> made_files;   // it succeeded in a sandbox
  uint64_t no_room = 0;               // or not: bytes of outputs, for which the store had no room
  uint32_t undeclared = 0;  // files and directories that it left in its sandbox, and did not declare
  std::vector<std::string> undeclared_paths;  // the first of them
  std::vector<StreamSource> read;  // it succeeded: attempts of which it was given something, or all there was
  int64_t written = -1;            // bytes to each of its streams; below 0: it has none, or did not write all
  bool read_to_end = false;        // it was told that nothing more comes of its streams
  std::vector<uint32_t> pus;                  // it was pinned to
  std::string devices;

  bool succeeded() const { return end == End::kExited && code == 0; }
};

struct StartedTask {
  uint32_t id = 0;
  uint32_t attempt = 1;
  AttemptId attempt_id() const { return {TaskId(id), attempt}; }
  WallTime start{};
  std::shared_ptr<const Gang> gang{};
};

}  // namespace harrow::agent
