#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "client/client.h"
#include "os/event_loop.h"
#include "run_dir/part.h"

namespace harrow::launcher {

/// The servers of a run's parts as seen from outside: connected to as they come.
class PartServers {
 public:
  struct Told {
    uint32_t part = 0;
    std::string job;  // the part's, by its settings
    pb::Progress progress;
  };

  /// `session`: parts of others are over.
  PartServers(os::EventLoop* loop, std::shared_ptr<run_dir::RunDir> run, WallTime session)
      : loop_(loop), run_(std::move(run)), session_(session) {}

  /// What those tell that answer; asks and waits for them.
  std::vector<Told> Ask();

 private:
  struct Server {
    std::string job;
    std::unique_ptr<client::Client> client;
    Time again{};  // no connection is tried before
  };
  void Find();

  os::EventLoop* loop_;
  std::shared_ptr<run_dir::RunDir> run_;
  const WallTime session_;
  std::map<uint32_t, Server> servers_;
};

}  // namespace harrow::launcher
