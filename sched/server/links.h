#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/status.h"
#include "os/event_loop.h"
#include "server/other_servers.h"
#include "server/part_watch.h"
#include "wire/channel.h"

namespace harrow::server {

/// The connections of a server to the other servers of its run, of which the one with the higher part dials, and the looks
/// at their parts. Of the loop's thread.
class Links {
 public:
  struct Options {
    uint32_t part = 0;
    uint64_t epoch = 1;
    std::string run_id, flow_id;
    int64_t session_ns = 0;
  };
  struct Hooks {
    std::function<run::FirstOwners()> first_owners;  // of the run's tasks
    /// Not now: what is being written may have to be seen by who looks.
    std::function<bool()> may_look = [] { return true; };
    std::function<void()> before_look;   // what was submitted to a part that does not tell is to be read
    std::function<std::set<uint32_t>()> readers;  // PartWatch::SetReaders
    std::function<void()> lowest;        // of the parts that go on, this one is the first
    std::function<void()> changed;       // the run may be over
    std::function<void(const std::string& line)> tell;  // a line for the user
    std::function<bool()> waits;         // nothing is left to do here but what others have
    std::function<void(const std::string& why)> lost;   // that is not to be had any more
  };
  Links(os::EventLoop* loop, const Options& options, PartWatch watch, OtherServers* others, Hooks hooks);
  ~Links();

  /// Looks now, and goes on as long as there are other parts.
  void Begin();
  wire::ChannelHandler Accept(std::shared_ptr<wire::Channel> channel);
  void Send(uint32_t part, const pb::BetweenServers& message);
  /// Sends what is queued, and hangs up.
  void Close();

 private:
  struct Session {
    std::shared_ptr<wire::Channel> channel;
    std::optional<uint32_t> part;  // known from its hello
  };

  void Look();
  void Looked(const PartWatch::Seen& seen);
  void Dial(const run_dir::Rendezvous& at, uint32_t part, size_t address);
  wire::ChannelHandler Handler(const wire::Channel* key);
  void SayHello(wire::Channel& channel, uint32_t to);
  Status Take(const wire::Channel* key, std::string_view bytes);
  void Drop(const wire::Channel* key, const Status& why);

  os::EventLoop* loop_;
  const Options options_;
  PartWatch watch_;
  OtherServers& others_;
  const Hooks hooks_;
  std::map<const wire::Channel*, Session> sessions_;
  std::map<uint32_t, const wire::Channel*> of_part_;
  std::set<uint32_t> dialling_;
  std::thread looking_;
  bool look_pending_ = false, closed_ = false;
  std::string last_trouble_;
  std::optional<Time> waits_since_;  // alone, for what a part that is over has
  pb::BetweenServers message_;  // reused
};

}  // namespace harrow::server
