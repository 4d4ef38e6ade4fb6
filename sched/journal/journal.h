#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "run_dir/run_dir.h"

namespace harrow::journal {

/// How one attempt ended. Numbers as in the table `attempt`; the words in brackets are what its view shows.
enum class End : uint8_t {
  kExited = 1,         // exited
  kSignaled = 2,       // signaled
  kTimedOut = 3,       // timed_out
  kOutOfMemory = 4,    // out_of_memory
  kCancelled = 5,      // cancelled
  kInterrupted = 6,    // interrupted
  kNotStarted = 7,     // not_started
  kLost = 8,           // lost
  kMissingOutput = 9,  // missing_output
  kRewound = 10,       // rewound: what it had read of a stream was void
  kCheckpointed = 11,  // checkpointed
};
enum class TaskFate : uint8_t { kOpen = 0, kDone = 1, kFailed = 2, kSkipped = 3, kCancelled = 4, kPruned = 5 };

/// One of several nodes is the sum of its parts; its node, output and cores are those of the lead node.
struct AttemptRecord {
  TaskId task;
  uint32_t attempt = 0;
  NodeId node;
  End end = End::kExited;
  int32_t code = 0;                 // exit code or signal
  int64_t start_ns = 0, end_ns = 0; // calendar time; 0: never started
  int64_t user_us = 0, system_us = 0;
  int64_t max_rss_kib = 0;          // 0: never started; negative: not known, but less than so much
  uint64_t output_file = 0;
  uint64_t output_offset = 0, stdout_bytes = 0, stderr_bytes = 0;
  bool output_truncated = false;
  std::string message;
  std::string cores;                // PUs it was pinned to, as a list "0-3,8"; empty: not pinned
  int64_t local_bytes = 0, remote_bytes = 0;  // input bytes by where they were when assigned
  int64_t home_bytes = 0;           // of the local ones, those that were made or placed there, not fetched
  TaskId output_task;               // the task's number when the output was written, if a resumed run gave it another

  TaskId OutputTask() const { return output_task ? output_task : task; }
  bool operator==(const AttemptRecord&) const = default;
};
/// What one node had of an attempt of several: its part. Recorded as it ends, before the attempt's own record;
/// where that is there, all of its parts are.
struct PartRecord {
  TaskId task;
  uint32_t attempt = 0;
  uint32_t part = 0;                // from 0, the lead node's
  uint32_t nodes = 0;               // of the attempt
  NodeId node;
  uint32_t ranks = 0;               // on this node; or processes, where its task has no ranks
  End end = End::kExited;
  int32_t code = 0;
  int64_t start_ns = 0, end_ns = 0; // of a node that was lost: when it was heard of last
  int64_t failed_ns = 0;            // when the first of its processes failed; 0: none did, or it is not known
  int64_t user_us = 0, system_us = 0;
  int64_t max_rss_kib = 0;
  uint64_t output_file = 0;
  uint64_t output_offset = 0, stdout_bytes = 0, stderr_bytes = 0;
  bool output_truncated = false;
  std::string message{};
  std::string cores{};
  TaskId output_task{};

  TaskId OutputTask() const { return output_task ? output_task : task; }
  bool operator==(const PartRecord&) const = default;
};
struct TaskRecord {
  TaskId task;
  std::string name;                 // never empty
  std::string kind;
  uint64_t identity_high = 0, identity_low = 0;  // XXH3-128 of name, command, env, cwd, in, out
  int32_t level = 0;
  uint64_t cores = 1;               // of all its nodes
  bool operator==(const TaskRecord&) const = default;
};
struct FateRecord {
  TaskId task;
  TaskFate fate = TaskFate::kOpen;
  TaskId because;
  bool operator==(const FateRecord&) const = default;
};
/// Bytes of a flow's file that went to a node, or from one to the submit directory (run --files local).
struct CopyRecord {
  std::string path;                 // as the flow names it
  TaskId task;                      // the first that it came for; of a result, the one that made it
  NodeId from, to;                  // none: the submit directory
  int64_t bytes = 0;                // sent; less than the file has where parts of it were there
  int64_t end_ns = 0;               // calendar time
  bool operator==(const CopyRecord&) const = default;
};
struct NodeRecord {
  NodeId node;
  std::string name;
  uint32_t slots = 0;
  uint64_t incarnation = 0;
  uint64_t output_file = 0;
  int64_t joined_ns = 0, left_ns = 0;
  std::string topology;
  bool operator==(const NodeRecord&) const = default;
};

/// Something about tasks that go from one server of a run to another (server/moves.h).
struct MoveRecord {
  enum class What : uint8_t {
    kOffered = 1,    // by the giver: from now on it starts none of them
    kTaken = 2,      // by the taker: they are its
    kConfirmed = 3,  // by the giver: the taker has them
    kReturned = 4,   // by the giver: they are its again, as the taker will never take them
  };
  What what = What::kOffered;
  uint32_t giver = 0, taker = 0;    // parts of the run
  uint64_t number = 0;              // of the giver's offers, from 1
  std::string tasks{};              // ids, as a list "0-3,8", of what is offered or taken
  std::string tried{};              // what the taker has to know of those of them that were tried (server/moves.h)
  int64_t time_ns = 0;              // calendar time
  bool operator==(const MoveRecord&) const = default;
};

/// The record by which a part has all tasks of the run, whatever was recorded before: who resumes a run begins so.
MoveRecord HasAllTasks(uint32_t part, size_t tasks, int64_t time_ns);
bool IsOfAllTasks(const MoveRecord& record);

/// One execution of the run: what the facts started_ns and ended_ns have been, one after the other.
struct SessionRecord {
  int64_t started_ns = 0, ended_ns = 0;  // 0: it goes on, or was killed
  bool operator==(const SessionRecord&) const = default;
};

/// What one allocation of a run had in the run's last session (journal/whole_run.h).
struct Allocation {
  uint32_t part = 0;
  std::string job, partition;             // empty: none
  NodeId first_node;                      // its nodes' numbers follow each other
  uint32_t nodes = 0;
  int64_t began_ns = 0, ended_ns = 0;     // calendar time; 0: it goes on, or was killed
  uint64_t messages = 0;                  // of its last server with others; 0: not known
  bool operator==(const Allocation&) const = default;
};

/// What a journal holds, read back. Tasks without a fate are open.
struct History {
  std::string run_id;
  uint64_t epoch = 0;               // of the last server
  uint32_t format = 0;
  std::vector<TaskRecord> tasks;
  std::vector<FateRecord> fates;
  std::vector<AttemptRecord> attempts;  // in order of commit
  std::vector<PartRecord> parts;        // in order of commit
  std::vector<NodeRecord> nodes;
  std::vector<CopyRecord> copies;       // in order of commit
  std::vector<MoveRecord> moves;        // in order of commit
  std::vector<Allocation> allocations;  // of a whole run, in the order of their parts; of one journal none
  std::vector<SessionRecord> sessions;  // first one first
  std::vector<std::pair<std::string, std::string>> facts;  // run-level, the last of a key: submit_dir, order, version, ...
};

/// The durable records of a run: PART/journal.db (SQLite; journal_format.md). Writing is done by a thread of its own
/// in groups: a group is committed when the thread is free, at most 100 ms after its first record.
class Journal {
 public:
  struct Options {
    Duration group_time = std::chrono::milliseconds(100);
    bool nodes_at_once = true;      // the record of a node is committed without a rest
    bool sync = true;               // synchronous = FULL
    std::string run_id;
    uint64_t epoch = 1;             // larger than History::epoch of what is there; 0: one more than that
  };
  /// Makes or opens the journal of a run directory whose owner the caller is (run_dir/owner.h). What is there is
  /// verified first, and handed out in `history` if that is not null (as ReadHistory would, without reading twice).
  /// One of an older format goes on in the present one. kDamaged names what does not read; nothing is repaired silently.
  /// kRefused: a newer format, or one that is too old.
  static Result<std::unique_ptr<Journal>> Open(std::shared_ptr<run_dir::RunDir> dir, const Options& options,
                                               History* history = nullptr);
  /// The same of a directory that is opened for it alone.
  static Result<std::unique_ptr<Journal>> Open(const std::string& run_dir, const Options& options,
                                               History* history = nullptr);
  virtual ~Journal() = default;     // commits what is queued

  // Each returns at once; `sequence` counts calls from 1.
  virtual uint64_t Add(AttemptRecord record) = 0;
  virtual uint64_t Add(PartRecord record) = 0;
  virtual uint64_t Add(FateRecord record) = 0;
  virtual uint64_t Add(NodeRecord record) = 0;
  virtual uint64_t Add(CopyRecord record) = 0;
  virtual uint64_t Add(MoveRecord record) = 0;
  /// In the order of their ids, also from call to call; tasks that the journal holds already are passed over. Many are
  /// written in pieces, so that other records need not wait; their sequence is committed with the last piece.
  virtual uint64_t Add(std::vector<TaskRecord> tasks) = 0;
  virtual uint64_t SetFact(std::string_view key, std::string_view value) = 0;

  /// `committed(sequence)`: all up to it are on disk. `failed(why)`: nothing more can be written (disk full, ...);
  /// after that nothing is committed. Both are called on the journal's thread.
  virtual void SetCallbacks(std::function<void(uint64_t)> committed, std::function<void(Status)> failed) = 0;
  /// Waits until all that was added is on disk.
  virtual Status Flush() = 0;
  /// Flushes and leaves a plain file without WAL beside it.
  virtual Status Close() = 0;
};

/// Reads a journal that no server holds (or a copy) and verifies every record; changes nothing, also when a killed
/// server left its WAL. kNotFound, kDamaged, kRefused (a newer format).
Result<History> ReadHistory(std::shared_ptr<run_dir::RunDir> dir);
/// The same of a directory that is opened for it alone.
Result<History> ReadHistory(const std::string& run_dir);

}  // namespace harrow::journal
