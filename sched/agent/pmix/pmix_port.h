#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "agent/steps/gangs.h"
#include "agent/steps/rank_server.h"
#include "agent/steps/tmp_tree.h"
#include "base/time.h"
#include "os/clock.h"
#include "os/spawn.h"
#include "wire/frame.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

/// Serves PMIx by helper processes (harrow-pmix), which are started when there is something to serve,
/// replaced when they have served much, and ended when they do not answer (how: pmix_port.cc). Its thread has
/// the sockets; all calls from any other thread.
class PmixPort : public RankServer {
 public:
  struct Options {
    std::string program;         // harrow-pmix
    std::string node;            // its name
    TmpRoot root;                // below which helpers have their files
    Gangs* gangs = nullptr;      // of tasks of several nodes; outlives it
    uint32_t most_ranks = 2000;  // that one helper serves
    Duration ping_every = std::chrono::seconds(5);
    Duration patience = std::chrono::seconds(20);  // with a helper that does not answer
  };
  struct Hooks {
    /// These attempts had a server that is no more: they cannot go on. On the port's thread.
    std::function<void(const std::vector<AttemptId>& attempts, const std::string& why)> lost;
    /// Whether tasks may run: while they stand, helpers may stand as well.
    std::function<bool()> may_run;
  };
  PmixPort(Options options, const os::Clock& clock, Hooks hooks);
  ~PmixPort() override;
  /// Ends all helpers. Nobody waits for an answer any more, nor gets one, and no hook is called from then on.
  void Stop();

  Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain& in_vain) override;
  std::optional<Seen> Ended(AttemptId attempt, uint32_t rank, const InVain& in_vain) override;
  std::optional<Loss> LossOf(AttemptId attempt) override;
  void Drop(AttemptId attempt) override;
  /// The helper of another node of the attempt asks the one that serves it here. `answered` is called from
  /// any thread, with nothing where nobody serves it; not at all when it ends meanwhile.
  void Ask(AttemptId attempt, std::string question, std::function<void(std::string)> answered);

 private:
  struct Helper {
    pid_t pid = -1;
    int fd = -1;
    std::string directory;
    std::string to_send;
    wire::FrameReader reader;
    uint32_t ranks = 0;  // served so far
    uint32_t teams = 0;  // that are here
    bool retired = false;
    bool closed = false;  // it was told that there is nothing more for it
    Time last_ping{};
    uint64_t pinged = 0, answered = 0;
    Duration silent{0};    // since the ping that it has not answered, as far as tasks might run
    bool heard = false;    // anything
    std::string unusable;  // why
    explicit Helper(uint32_t most) : reader(most) {}
  };
  struct Team {
    AttemptId attempt;
    uint32_t ranks = 0;
    std::optional<pb::RankTeamAdded> added{};
    std::map<uint32_t, pb::RankSeen> seen{};
    Helper* helper = nullptr;  // null: it has none yet
    std::optional<Loss> loss{};
    uint64_t asked = 0;
    std::map<uint64_t, std::function<void(std::string)>> questions{};  // of other nodes
  };

  void Run();
  /// Holding mutex_, as all below. Waits until the team has what `done` looks for, is lost, or it is in vain.
  template <class F>
  void Await(std::unique_lock<std::mutex>* lock, const Team& team, F done, const InVain& in_vain);
  /// False: it has ended.
  bool Talk(Helper* helper);
  bool SendWhatWaits(Helper* helper);
  bool Receive(Helper* helper);
  void Take(Helper* helper, pb::FromPmix* message);
  void TakeForOthers(pb::FromPmix* message);
  /// What the others say to a team, if that is still here.
  void Tell(uint64_t team, const std::function<void(pb::ToPmix*)>& say);
  void Ping(Helper* helper, Time now, Duration passed);
  /// To the thread: there is something to do.
  void Wake();
  /// Gives what waits for a helper to one; starts one where there is none.
  void GiveOut();
  Status Start();
  Status StartIn(Helper* helper);
  void Append(Helper* helper, const pb::ToPmix& message);
  /// Takes it out; its teams are lost. Appends them.
  void Bury(std::list<Helper>::iterator helper, std::vector<AttemptId>* lost, std::string* why);
  void RemoveFiles(const Helper& helper);
  void Lose(Team* team, std::string why);
  std::map<uint64_t, Team>::iterator Find(AttemptId attempt);
  void Erase(uint64_t team);

  const Options options_;
  const os::Clock& clock_;
  const Hooks hooks_;
  std::mutex mutex_;
  std::condition_variable answered_;                      // of mutex_
  std::list<Helper> helpers_;                             // of mutex_
  std::map<uint64_t, Team> teams_;                        // of mutex_
  std::vector<std::pair<uint64_t, pb::ToPmix>> waiting_;  // of mutex_: teams that have no helper yet
  uint64_t teams_made_ = 0;                               // of mutex_
  uint32_t helpers_made_ = 0;                             // of mutex_
  bool stop_ = false;                                     // of mutex_
  pthread_t thread_id_{};
  std::optional<os::Spawner> spawner_;  // of the thread
  std::thread thread_;
};

}  // namespace harrow::agent
