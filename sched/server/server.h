#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "batch/batch.h"
#include "batch/slurm_site.h"
#include "os/clock.h"
#include "os/event_loop.h"
#include "run/server_end.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"

namespace harrow::server {

struct ServerOptions {
  run_dir::Part part;
  int progress_fd = -1;  // where the keeper reads progress (run/progress_pipe.h); -1: nowhere
  batch::SitePolicy site = {};
  std::string job = {};             // of this process, with restarts; empty: none
  run_dir::JobAlive job_alive = {};
};

/// The scheduler of one allocation: reads flow and journal, listens, schedules until the run is over.
class Server {
 public:
  Server(os::EventLoop* loop, os::Clock* clock, batch::Batch* batch, ServerOptions options);
  ~Server();

  /// Up to the point where agents can come. An error leaves the run directory as it was, journal included.
  Status Start();
  /// Until the run is over; runs the loop.
  run::ServerEnd Run();
  /// SIGTERM: nothing more is started, what runs is ended as interrupted. Of the loop's thread.
  void Interrupt();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harrow::server
