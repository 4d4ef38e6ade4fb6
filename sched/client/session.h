#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/link.h"
#include "client/submit_queue.h"
#include "os/event_loop.h"
#include "os/file_system.h"
#include "run_dir/part.h"
#include "wire/harrow.pb.h"

namespace harrow::client {

/// Submits tasks to a run that goes on, and tells what becomes of them; a server that dies, and the one that takes its place,
/// are no concern of its user's. Of its loop's thread.
class Session {
 public:
  struct Setup {
    SubmitQueue::Limits limits;
    bool alone = true;  // SubmitQueue
    client::Options link{.patience = std::chrono::seconds(30), .reply_time = std::chrono::seconds(10), .dial = {}, .others = {}, .submits = true};
  };
  struct Hooks {
    std::function<void(const pb::ClientHello&)> greeted;  // by the first server
    /// Of each task one of these.
    std::function<void(uint64_t handle, uint32_t id)> taken;
    std::function<void(uint64_t handle, const Status& why)> refused;
    /// What became of a task that was taken, once; with AwaitAll.
    std::function<void(uint64_t handle, const pb::SettledTask&)> settled;
    std::function<void(const pb::BestAnswer&)> best{};  // to AskBest
    std::function<void(uint64_t number, const Status&)> stream{};  // to AskStreams; OK: it is on disk
    /// Nothing comes after it: the run is over, or no server of its session answers.
    std::function<void(const Status& why)> over;
  };
  /// `run`: what it is called, for messages; `part_dir`: as of Link. `fs` outlives this.
  Session(os::EventLoop* loop, os::FileSystem& fs, std::string run, std::string part_dir, Setup setup, Hooks hooks);
  /// In a task of the run its own allocation's server is the first to be asked (HARROW_PART).
  Session(os::EventLoop* loop, const run_dir::Part& part, Setup setup, Hooks hooks) : Session(Nearest(part), loop, std::move(setup), std::move(hooks)) {}
  ~Session();

  /// Once. Hooks may be called from here on; not by Submit.
  void Start() { link_.Start(); }
  uint64_t Submit(NewTask task);
  /// An offer of a value, or a question for the best one (FromClient.offer, .best); `number` of it is not in use.
  void AskBest(pb::FromClient question);
  /// Streams are held open, or released, all of them or none; returns the number of the answer. Not in an order with tasks that have no
  /// answer yet.
  uint64_t AskStreams(const std::vector<pb::StreamRequest>& asked);
  /// What becomes of each task is to be told.
  void AwaitAll();
  /// Tasks of which it is not known yet whether they were taken.
  uint64_t unanswered() const { return queue_.open(); }
  /// Tasks that were taken and have not settled, as far as it is known; with AwaitAll.
  size_t unsettled() const { return unsettled_.size(); }

 private:
  Session(const run_dir::Part& part, os::EventLoop* loop, Setup setup, Hooks hooks)
      : Session(loop, *part.dir, part.run->path(), part.dir->path(), OfRun(std::move(setup), part), std::move(hooks)) {}
  static run_dir::Part Nearest(const run_dir::Part& first);
  /// Keeps the part open.
  static Setup OfRun(Setup setup, const run_dir::Part& part);
  void Up(const pb::ClientHello& hello);
  void Send(const pb::SubmitRequest& request);
  void OnMessage(const pb::ToClient& message);
  void Over(const Status& why);
  bool AnswersStream(const std::string& request, const Status& how);
  void End(const Status& not_taken, const Status& unknown);
  void Taken(uint64_t handle, uint32_t id);
  void Settle(const pb::SettledTask& task);
  void GoOnLater();
  void GoOn();

  os::EventLoop* loop_;
  const std::string run_;
  const Hooks hooks_;
  SubmitQueue queue_;
  std::optional<int64_t> session_;
  bool awaits_ = false;
  std::optional<Status> over_;
  std::unordered_multimap<uint32_t, uint64_t> unsettled_;  // handles by id
  std::vector<std::pair<uint32_t, uint64_t>> taken_;       // those taken before AwaitAll
  std::vector<uint32_t> to_ask_;                           // ids
  std::map<uint64_t, pb::FromClient> best_asked_;          // by number; without answer
  std::map<uint64_t, pb::SubmitRequest> streams_asked_;    // by number; without answer
  uint64_t last_stream_ = 0;
  std::shared_ptr<Session*> posted_;                       // what is posted to the loop may come when this has gone
  bool pending_ = false;
  Link link_;
};

}  // namespace harrow::client
