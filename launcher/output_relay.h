#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "run_dir/part.h"

namespace harrow::launcher {

/// Shows what the tasks of a run print, as it comes, on this process's own stdout and stderr. On a thread of
/// its own, which takes no signals: who reads may be slow, and the file system too. Used by one other thread.
class OutputRelay {
 public:
  /// Before a run begins. `broken` is called once, on the relay's thread, when nobody reads on or nothing can
  /// be written.
  static Result<std::unique_ptr<OutputRelay>> Start(const run_dir::Part& part, std::function<void()> broken);
  ~OutputRelay();

  /// A line for the user, on stderr. Never waits for who reads.
  void Say(const std::string& line);

  struct End {
    int error = 0;     // errno of a write; what came after was not shown
    int signal = 0;    // that came while who reads was waited for
    bool cut = false;  // for that, or as patience came to its end, not all was shown
    Status damage{};   // of output that cannot be read
  };
  /// The run is over: all that its tasks have printed is shown, and then `words` on stderr. Signals that end
  /// programs have to be blocked; one that comes ends the waiting, and so does the end of `patience`. Once.
  End Finish(const std::string& words, std::optional<Duration> patience);

 private:
  struct State;
  explicit OutputRelay(std::shared_ptr<State> state);
  static void Run(const std::shared_ptr<State>& state);

  // The thread's as well: it may outlive this object, in a write to who reads no more.
  std::shared_ptr<State> state_;
};

}  // namespace harrow::launcher
