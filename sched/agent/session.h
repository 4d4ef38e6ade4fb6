#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/collector.h"
#include "agent/fence.h"
#include "agent/local_files.h"
#include "agent/steps/environment.h"
#include "agent/task_host.h"
#include "agent/workers.h"
#include "base/status.h"
#include "os/event_loop.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

/// What a server is told of this node and agent.
struct NodeInfo {
  std::string name{};
  uint32_t slots = 0;
  uint32_t devices = 0;
  uint64_t memory = 0;  // bytes; 0: unknown
  std::string topology{};  // one line for people
  uint64_t incarnation = 0;
  uint32_t output_file = 0;
  bool own_tmp = false;  // tasks get a TMPDIR of their own
  bool no_fabric = false;  // ranks of Open MPI look for none
  std::string run_dir{};  // HARROW_RUN of tasks; empty: not told
  uint32_t part = 0;      // HARROW_PART
  std::string local{};   // HARROW_LOCAL of tasks; empty: none
  std::string unfit{};   // why no task may run here; empty: they may
  std::string hosts{};   // names this node to srun (Common::hosts)
};

/// The conversation with the server of a run: dials while there is none, obeys the highest epoch, keeps
/// results until they are committed, ends when the lease is over; says until when tasks may run (fence.h). Of
/// the loop's thread.
class Session {
 public:
  struct Connection {
    std::shared_ptr<wire::Channel> channel;
    std::string run_id;
  };
  using OnDialed = std::function<wire::ChannelHandler(Result<Connection>)>;
  /// Finds the server and connects; calls back once.
  using Dial = std::function<void(OnDialed)>;

  enum class Over { kShutDown, kRefused, kLeaseOver };
  struct Hooks {
    /// This agent is to end its tasks and itself; once. It dials no more; what connection there is stays
    /// until Close(), for the results.
    std::function<void(Over, const std::string& why)> over;
    /// A server's settings, before the first of its tasks.
    std::function<void(const pb::Welcome&)> welcomed;
    /// The batch system will end the job then.
    std::function<void(WallTime)> job_ends = [](WallTime) {};
    /// Tasks may run until then, and stand from then on; none: whenever. False: what is being ended while it
    /// stands has not been killed yet, so the others stand still; asked again soon.
    std::function<bool(std::optional<Time>)> may_run_until = [](std::optional<Time>) { return true; };
    /// What the server says of files, before the tasks of the same message: peer, drop, copy.
    std::function<void(const pb::ToAgent&)> files = [](const pb::ToAgent&) {};
    /// What it says of streams, after the tasks of the same message.
    std::function<void(const pb::ToAgent&)> streams = [](const pb::ToAgent&) {};
    /// The greeting names the files that are here, and what was written to streams.
    std::function<void(pb::AgentHello*)> held = [](pb::AgentHello*) {};
  };

  Session(os::EventLoop& loop, TaskHost& host, NodeInfo node, Dial dial, Hooks hooks);
  ~Session();

  void Start();
  /// Results and starts of tasks.
  void Deliver(Batch batch);
  /// What became of a file. It waits for others as results do (BatchPolicy), and goes along with whatever is
  /// said before. Not to a server that is not there: it asks again when it is.
  void TellFile(const FileNews& news);
  /// Where other agents find this one.
  void TellPeerAddresses(const std::vector<std::string>& addresses);
  /// Nothing is to be started here any more, and why.
  void TellUnfit(const std::string& why);
  /// A line for the log of the server.
  void Report(const std::string& problem, bool fatal = false);
  /// The agent is about to end: it dials no more, whatever becomes of its connection.
  void Leave() { leaving_ = true; }
  /// Says goodbye: sends what waits and closes.
  void Close();
  bool joined() const { return state_ == State::kJoined; }
  /// Nothing waits to be sent, and the server has committed all results; one that has told us to end commits
  /// none.
  bool AllSent() const;

 private:
  enum class State { kApart, kDialing, kGreeting, kJoined, kOver };
  struct Kept {
    uint64_t sequence;
    std::string message;  // a FromAgent with these results only
    std::vector<std::shared_ptr<const migrate::Checkpoints>> over{};  // what is removed when they are committed
  };

  void Connect();
  void Remove(std::vector<std::shared_ptr<const migrate::Checkpoints>> over);
  wire::ChannelHandler Dialed(Result<Connection> result);
  void Hello(const std::string& run_id);
  void Disconnected(const std::string& why);
  void HangUp(const std::string& why);
  void Receive(std::string_view message);
  void TakeWelcome(const pb::Welcome& welcome);
  void TakeProfiles(const pb::ToAgent& message);
  void TakeTasks(pb::ToAgent& message);
  void TakeHeartbeat(const pb::ToAgent& message);
  void Beat();
  void CheckLease();
  void CheckFence();
  void RenewFence();
  /// Between heartbeats: some of them may get lost before tasks have to stand.
  Duration BeatEvery() const;
  void Send(const pb::FromAgent& message);
  void Send(std::string_view bytes);
  void ForgetNotes();
  void Finish(Over how, const std::string& why);

  os::EventLoop& loop_;
  TaskHost& host_;
  const NodeInfo node_;
  Dial dial_;
  Hooks hooks_;
  State state_ = State::kApart;
  std::shared_ptr<wire::Channel> channel_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for callbacks that may come late
  uint64_t connection_ = 0;  // number of the present one; callbacks of earlier ones are ignored
  std::string run_id_;
  uint64_t epoch_seen_ = 0;
  Duration lease_ = std::chrono::minutes(5);
  Duration heartbeat_ = std::chrono::seconds(1);
  Time last_heard_{};
  Time lease_looked_{}, awake_since_{};
  os::EventLoop::TimerId beat_timer_ =
      0;  // the next heartbeat; before the welcome: how long it is waited for
  os::EventLoop::TimerId lease_timer_ = 0;
  os::EventLoop::TimerId fence_timer_ = 0;  // to ask again
  Fence fence_;
  Time hello_sent_{};
  std::optional<Time> standing_;  // told in the log: since when
  bool leaving_ = false;
  bool told_to_end_ = false;  // by the server
  uint64_t beats_ = 0;
  Duration round_trip_{0};
  std::string last_failure_;  // logged once

  std::shared_ptr<const BaseEnvironment> base_;
  std::unordered_map<uint32_t, std::shared_ptr<const TaskProfile>> profiles_;
  std::deque<Kept> kept_;
  pb::ToAgent incoming_;    // of every message; their parts are used again,
  pb::FromAgent outgoing_;  // as those of what Deliver tells
  std::optional<Workers> removers_;
  std::string notes_;  // of files, to be told soon: FromAgents
  os::EventLoop::TimerId notes_timer_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t told_sequence_ = 0;  // the last one that the greeting held
  std::string early_starts_;    // messages, from the greeting to the welcome
};

}  // namespace harrow::agent
