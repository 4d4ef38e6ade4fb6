#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/status.h"
#include "os/posix_files.h"

namespace harrow::stream {

/// What one attempt has written to its streams: a file that grows. From any thread.
class Log {
 public:
  enum class State : uint8_t {
    kOpen,        // it may grow
    kWhole,       // its attempt has succeeded, and that is all
    kIncomplete,  // it does not grow any more, and is not all
    kGone,        // it has been dropped
  };
  Log(AttemptId attempt, std::string path) : attempt_(attempt), path_(std::move(path)) {}

  AttemptId attempt() const { return attempt_; }
  const std::string& path() const { return path_; }
  int64_t length() const { return length_.load(); }
  State state() const { return state_.load(); }
  void SetState(State state) { state_.store(state); }

  /// Nobody will read any more of it: who writes it is to be told by a closed pipe.
  void Close() { closed_.store(true); }
  bool closed() const { return closed_.load(); }
  /// Its writer has been told so before all had come.
  void CutOff() { cut_off_.store(true); }
  bool cut_off() const { return cut_off_.load(); }

  /// Who has read all waits to be told of more: sets this, and then looks at length() once more.
  void Watch() { watched_.store(true); }
  /// By who has made it longer: is somebody to be told?
  bool TakeWatch() { return watched_.load() && watched_.exchange(false); }

 private:
  friend class LogWriter;
  const AttemptId attempt_;
  const std::string path_;
  std::atomic<int64_t> length_{0};
  std::atomic<State> state_{State::kOpen};
  std::atomic<bool> closed_{false}, cut_off_{false}, watched_{false};
};

/// The end that writes a log. Of one thread, whose descriptors it uses.
class LogWriter {
 public:
  /// The file is made; kExists: it is there.
  Status Open(Log* log);
  bool open() const { return file_.ok(); }
  /// Takes what a pipe has now, at most some hundred KiB; 0: the pipe is at its end. kUnavailable: nothing is
  /// there now. kExhausted, kDamaged: it cannot be kept.
  Result<int64_t> TakeFrom(int pipe);
  void Close() { file_ = os::Fd(); }

 private:
  Result<int64_t> Copy(int pipe);

  Log* log_ = nullptr;
  os::Fd file_;
  bool splices_ = true;
};

/// The text of an errno that keeping it met with.
Status CannotKeep(int error);
/// Reads `size` bytes, which are there.
Status ReadAll(int fd, int64_t offset, char* to, size_t size);

}  // namespace harrow::stream
