#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "os/file_system.h"

// What attempts found of their task's declared outputs, and when they ran: PART/output/N.made, where N is the
// number of the agent's packed output (made_format.md). record.cc tells how it is used.

namespace harrow::made {

/// When an attempt that did not succeed could make files, and which outputs were there before it.
struct Attempt {
  uint32_t task = 0;
  uint32_t attempt = 0;
  int64_t begin_ns = 0, end_ns = 0;  // calendar time of the run directory's file system
  std::vector<uint32_t> found{};     // numbers of the declared outputs that were there when it began, rising
  bool operator==(const Attempt&) const = default;
};

/// The record of one agent. The slots share it, and each writes through a Writer of its own; the functions
/// here may be called by any thread.
class Record {
 public:
  /// How long after its last sign of life an agent may have died.
  static constexpr Duration kSilence = std::chrono::seconds(5);

  /// `path`: the file, not there yet. `flow_id`: which numbering of tasks it is in.
  void Set(std::string path, std::string flow_id);

 private:
  friend class Writer;
  static constexpr Duration kBeat = std::chrono::seconds(2);

  Status Create();

  std::mutex mutex_;
  std::string path_, flow_id_;          // of mutex_
  bool created_ = false;                // of mutex_
  std::atomic<int64_t> ahead_ns_{0};    // of the file system's clock before ours
  std::atomic<int64_t> last_beat_ns_{0};
};

/// A slot's way into its agent's record. Of the slot's thread, whose descriptor table its file is in.
class Writer {
 public:
  explicit Writer(Record& record) : record_(record) {}
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// An attempt is about to begin; returns when, for Attempt::begin_ns. What cannot be written is as if the
  /// attempt had never been known: nothing that it makes is ever removed.
  Result<int64_t> Began(uint32_t task, uint32_t attempt, const std::vector<uint32_t>& found);
  /// It has ended, however that was; returns when.
  int64_t Ended(uint32_t task, uint32_t attempt);
  /// While a task with outputs runs, at least once in kBeat: shows that the agent lives, and brings what was
  /// written to the disk. Costs nothing when another slot did it just now.
  void Beat();
  static constexpr Duration kBeat = Record::kBeat;

 private:
  Status Open();
  Status Write(uint32_t kind, uint32_t task, uint32_t attempt, int64_t time_ns,
               const std::vector<uint32_t>& found);

  Record& record_;
  int fd_ = -1;
};

/// A sign of life in the record `path`, where there is one, by somebody else than its agent. May wait for
/// storage.
void ShowLife(const std::string& path);

/// By task.
using Attempts = std::unordered_map<uint32_t, Attempt>;

/// Takes in an attempt that is the task's newest: the one that began last. A run that is resumed numbers anew
/// from what its journal holds, so that a later one may have a lower number than one that got lost with its
/// server.
void Note(Attempt attempt, Attempts* attempts);

/// Adds what one record holds, each task's newest attempt: those of other numberings and damaged ends are
/// passed over. An attempt without an end ended with its agent, kSilence after the file was last changed.
Status Read(os::FileSystem& fs, const std::string& path, const std::string& flow_id, Attempts* attempts);
/// The same of all agents of a run, and of what an earlier numbering left (WriteAll).
Attempts ReadAll(os::FileSystem& fs, const std::string& run_dir, const std::string& flow_id);
/// One file PART/made of attempts under the numbers of `flow_id`, for a run whose tasks were numbered anew.
Status WriteAll(os::FileSystem& fs, const std::string& run_dir, const std::string& flow_id,
                const Attempts& attempts);

}  // namespace harrow::made
