#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "batch/batch.h"
#include "batch/slurm_site.h"
#include "os/clock.h"
#include "os/event_loop.h"
#include "os/file_system.h"

namespace harrow::server {

/// How a server process ends. Each is definite: the keeper starts no other server then.
enum class ServerEnd : int {
  kAllDone = 0,
  kSomeFailed = 1,
  kCannotGoOn = 3,
  kInterrupted = 4,  // the run can be resumed
};

struct ServerOptions {
  std::string run_dir;
  int progress_fd = -1;  // where the keeper reads progress (server/progress_pipe.h); -1: nowhere
  batch::SitePolicy site = {};
};

/// The scheduler of one allocation: reads RUN/flow and the journal, listens, schedules until the run is over.
class Server {
 public:
  Server(os::EventLoop* loop, os::FileSystem* fs, os::Clock* clock, batch::Batch* batch,
         ServerOptions options);
  ~Server();

  /// Up to the point where agents can come. An error leaves the run directory as it was, journal included.
  Status Start();
  /// Until the run is over; runs the loop.
  ServerEnd Run();
  /// SIGTERM: nothing more is started, what runs is ended as interrupted. Of the loop's thread.
  void Interrupt();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harrow::server
