#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "os/event_loop.h"
#include "os/file_system.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::client {

/// How the connection is made and how long it is waited for.
struct Options {
  Duration patience = std::chrono::milliseconds(1500);  // for a server that is just being started again
  Duration reply_time = std::chrono::seconds(10);       // for a connection, and its greeting
  /// wire::Dial, or a fake of the tests.
  using Dial =
      std::function<void(os::EventLoop*, const std::string& address, const wire::Credentials&,
                         std::function<wire::ChannelHandler(Result<std::shared_ptr<wire::Channel>>)>)>;
  Dial dial;
  /// The run's other parts, which are tried where the first one's server does not answer; empty: there are none.
  std::function<std::vector<run_dir::Part>()> others{};
  /// It is about submitting: a server that says that another one takes tasks is not the one.
  bool submits = false;
};

/// The connection to the server of a run, whichever that is: it is made, and made again when it breaks, until nobody has
/// answered for the patience. Of its loop's thread.
class Link {
 public:
  struct Hooks {
    /// A server greets; from now on there are messages.
    std::function<void(const pb::ClientHello&)> up;
    std::function<void(const pb::ToClient&)> message;
    /// It has gone. Where this returns false it is not looked for again, and nothing more is called.
    std::function<bool(const Status& why)> down;
    /// Nothing comes after it. kNotFound: no server is announced (the run is over, or not yet up). kUnavailable: one is
    /// announced and does not answer. kRefused: it answers and does not take us (key, version). kPermission: not our run.
    std::function<void(const Status& why)> over;
  };
  /// `part_dir`: the path of the run's part in `fs`.
  Link(os::EventLoop* loop, os::FileSystem& fs, std::string part_dir, Options options, Hooks hooks);
  ~Link();

  /// Once. Hooks may be called from here on, also by this call.
  void Start();
  bool up() const { return state_ == State::kUp; }
  /// While it is up.
  void Send(const pb::FromClient& message);
  size_t unsent_bytes() const { return channel_ ? channel_->unsent_bytes() : 0; }

 private:
  enum class State { kIdle, kDialing, kGreeting, kUp, kWaiting, kOver };
  struct Guard;  // what callbacks of the loop hold

  void Look();
  void ReadAnnouncement();
  void DialNext();
  void TryAgain();
  void Dialled(const Status& why);
  void OnMessage(std::string_view bytes);
  void Greeted(const pb::ToClient& message);
  void Lost(const Status& why);
  void Failed(const Status& why);
  void End(const Status& why);
  void Watch();
  void LetGo();
  void Drop();
  void SetTimer(Duration delay, void (Link::*what)());

  os::EventLoop* loop_;
  os::FileSystem& fs_;
  const std::string part_dir_;
  const Options options_;
  const Hooks hooks_;
  State state_ = State::kIdle;
  Time give_up_{};
  std::vector<run_dir::Part> others_;
  size_t place_ = 0;       // 0: part_dir_; else one more than that of others_
  bool any_there_ = false;  // one of these places has an announcement
  Status first_missing_;   // why the first one has none
  std::optional<Time> passive_since_;
  run_dir::Rendezvous announced_;
  size_t next_address_ = 0;
  Status last_;  // why the last try failed
  std::shared_ptr<Guard> guard_;
  std::shared_ptr<wire::Channel> channel_;
  os::EventLoop::TimerId timer_ = 0;
  bool timed_ = false;
};

}  // namespace harrow::client
