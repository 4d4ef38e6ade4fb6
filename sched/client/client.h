#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "os/event_loop.h"
#include "os/file_system.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::client {

/// How the connection is made and how long it is waited for.
struct Options {
  Duration patience = std::chrono::milliseconds(1500);  // for a server that is just being started again
  Duration reply_time = std::chrono::seconds(10);
  /// wire::Dial, or a fake of the tests.
  using Dial =
      std::function<void(os::EventLoop*, const std::string& address, const wire::Credentials&,
                         std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)>)>;
  Dial dial;
};

/// A conversation with the server of a run: one question at a time, answered before the call returns. Runs
/// the loop that it is given; of that loop's thread.
class Client {
 public:
  /// kNotFound: no server is announced (the run is over, or not yet up). kUnavailable: one is announced and
  /// does not answer. kRefused: it answers and does not take us (key, version). kPermission: not our run.
  static Result<std::unique_ptr<Client>> Connect(os::EventLoop* loop, os::FileSystem& fs,
                                                 const std::string& run_dir, const Options& options = {});
  ~Client();

  Result<pb::Progress> Progress(bool with_nodes);
  Result<pb::Answer> Explain(const std::string& task);
  Result<pb::Answer> Cancel(const std::vector<std::string>& tasks, bool all);
  /// kInvalid: why none of them was taken. kUnavailable: it is not known whether they were; the same request, with an id,
  /// can be sent again to another server of the run.
  Result<pb::Submitted> Submit(const pb::SubmitRequest& request);

 private:
  Client(os::EventLoop* loop, Duration reply_time) : loop_(loop), reply_time_(reply_time) {}
  Status Dial(const std::string& address, const wire::Credentials& credentials, const Options& options);
  Status Greet(const std::string& run_id);
  void OnMessage(std::string_view bytes);
  /// Sends, then runs the loop until `got` says that what came is the reply.
  Status Ask(const pb::FromClient& question, const std::function<bool(const pb::ToClient&)>& got);
  /// Runs the loop until `done`, at most `limit`.
  Status RunUntil(const bool& done, Duration limit, const char* what);

  os::EventLoop* loop_;
  Duration reply_time_;
  std::shared_ptr<void> guard_;  // its end makes the handlers of the loop let go of this object
  std::shared_ptr<wire::Channel> channel_;
  std::function<bool(const pb::ToClient&)> waiting_;
  bool answered_ = false;
  bool closed_ = false;
  Status why_closed_;
};

}  // namespace harrow::client
