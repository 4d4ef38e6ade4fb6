#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/records.h"
#include "base/status.h"
#include "os/posix_files.h"
#include "stream/log.h"
#include "stream/split.h"

namespace harrow::stream {

/// A log that is open for reading.
class LogReader {
 public:
  LogReader(std::shared_ptr<Log> log, os::Fd file) : log_(std::move(log)), file_(std::move(file)) {}
  int fd() const { return file_.get(); }
  const Log& log() const { return *log_; }

 private:
  const std::shared_ptr<Log> log_;
  const os::Fd file_;
};

/// The logs of a node, in a directory of their own (how: spool.cc).
class Spool {
 public:
  /// The directory is made below `parent`, or emptied, for this user alone.
  static Result<std::unique_ptr<Spool>> Open(const std::string& parent);
  /// All logs go with it.
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // From any thread:
  /// A log of an attempt that has none, or none that anybody has written to.
  std::shared_ptr<Log> Make(AttemptId attempt);
  /// Null: there is none.
  std::shared_ptr<Log> Find(AttemptId attempt);
  /// Its file is removed, and who reads it learns that it is gone.
  void Drop(AttemptId attempt);
  /// Those that are whole.
  std::vector<AttemptId> Whole();
  size_t count();

  // Of one thread, that which reads logs:
  Result<std::shared_ptr<LogReader>> Read(const std::shared_ptr<Log>& log);
  /// Who gets what of it, where it is written to a stream that is split.
  std::shared_ptr<Split> SplitOf(const std::shared_ptr<Log>& log, StreamId stream, Records records);
  /// Forgets what belongs to logs that are gone.
  void Tidy();

 private:
  Spool(std::string path, os::Fd directory) : path_(std::move(path)), directory_(std::move(directory)) {}

  const std::string path_;
  const os::Fd directory_;
  std::mutex mutex_;
  std::unordered_map<AttemptId, std::shared_ptr<Log>> logs_;  // of mutex_
  uint64_t made_ = 0;                                         // of mutex_
  // Of who reads:
  std::list<std::pair<const Log*, std::shared_ptr<LogReader>>> readers_;  // the last used first
  std::unordered_map<const Log*, decltype(readers_)::iterator> reader_of_;
  std::map<std::pair<std::shared_ptr<Log>, StreamId>, std::shared_ptr<Split>> splits_;
};

/// Where one reader is in a log: in all of it, or in what it gets of it where the stream is split. Of the
/// thread that reads logs.
class Cursor {
 public:
  struct Of {
    std::shared_ptr<Log> log{};
    StreamId stream{};
    bool split = false;
    Records records = kLines;
    TaskId reader{};
    int64_t offset = 0;  // so much it has already
  };
  Cursor(Spool* spool, Of of);
  ~Cursor();
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  /// What comes next, at most so many bytes. None: nothing is there now.
  Result<Range> Next(int64_t most);
  /// So much of that was taken.
  void Advance(int64_t bytes) { of_.offset += bytes; }
  /// All of a log that is whole was taken. Known once Next has found nothing.
  bool over() const { return over_; }
  /// Nothing will come: it is gone, or incomplete and taken as far as it goes.
  bool failed() const { return failed_; }
  int64_t offset() const { return of_.offset; }
  bool split() const { return split_ != nullptr; }
  const std::shared_ptr<Log>& log() const { return of_.log; }
  Result<std::shared_ptr<LogReader>> Read() { return spool_->Read(of_.log); }

 private:
  Spool* const spool_;
  Of of_;
  std::shared_ptr<Split> split_{};
  bool over_ = false, failed_ = false;
};

}  // namespace harrow::stream
