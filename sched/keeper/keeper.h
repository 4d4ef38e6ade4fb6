#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "batch/batch.h"
#include "os/event_loop.h"
#include "run/server_end.h"
#include "run_dir/part.h"
#include "wire/harrow.pb.h"

namespace harrow::keeper {

struct KeeperOptions {
  std::string program;  // this harrow
  Duration agents_leave = std::chrono::seconds(6);  // at the run's end, then they are ended by force
  run_dir::Part part;
  std::function<void(const pb::Progress&)> progress;
  std::function<void(const std::string& line)> say;  // one line for the user
};

/// How a run ended, as its keeper saw it.
struct KeeperEnd {
  run::ServerEnd end = run::ServerEnd::kCannotGoOn;
  int signal = 0;       // that interrupted it; 0: none
  std::string problem;  // why it could not go on
  pb::Progress last;    // figures
};

/// The small parent of a run's server and agents: starts them, starts again what dies, forwards signals, and
/// leaves no process behind. Of the main thread, which must live as long as its children.
class Keeper {
 public:
  Keeper(os::EventLoop* loop, batch::Batch* batch, KeeperOptions options);
  ~Keeper();

  /// Until the run has ended; runs the loop.
  KeeperEnd Run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harrow::keeper
