#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "client/link.h"
#include "os/event_loop.h"
#include "os/file_system.h"
#include "wire/harrow.pb.h"

namespace harrow::client {

/// A conversation with the server of a run: one question at a time, answered before the call returns. Runs
/// the loop that it is given; of that loop's thread.
class Client {
 public:
  /// kNotFound: no server is announced (the run is over, or not yet up). kUnavailable: one is announced and
  /// does not answer. kRefused: it answers and does not take us (key, version). kPermission: not our run.
  static Result<std::unique_ptr<Client>> Connect(os::EventLoop* loop, os::FileSystem& fs,
                                                 const std::string& run_dir, const Options& options = {});
  /// `with_load`: of this server alone, what waits there and what it can do.
  Result<pb::Progress> Progress(bool with_nodes, bool with_load = false);
  Result<pb::Answer> Explain(const std::string& task);
  Result<pb::Answer> Cancel(const std::vector<std::string>& tasks, bool all);
  /// With a node: that one alone.
  Result<pb::Answer> Drain(const std::string& node = {});
  Result<pb::Answer> Move(const pb::MoveTask& request);

 private:
  Client(os::EventLoop* loop, Duration reply_time) : loop_(loop), reply_time_(reply_time) {}
  void OnMessage(const pb::ToClient& message);
  Result<pb::Answer> AskForAnswer(const pb::FromClient& question);
  /// Sends, then runs the loop until `got` says that what came is the reply.
  Status Ask(const pb::FromClient& question, const std::function<bool(const pb::ToClient&)>& got);

  os::EventLoop* loop_;
  const Duration reply_time_;
  std::function<bool(const pb::ToClient&)> waiting_;
  bool answered_ = false;
  bool closed_ = false;
  Status why_closed_;
  std::unique_ptr<Link> link_;
};

}  // namespace harrow::client
