// harrow-pmix DIRECTORY NODE: serves PMIx to the MPI ranks that an agent starts. The agent speaks with it
// over a socket, its standard input (pb.ToPmix, pb.FromPmix), and it ends with that.
//
// A program of its own: libpmix leaks some kB a client and can get stuck, so that the agent starts another
// now and then, and instead of one that does not answer; and a machine without libpmix runs all other tasks.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pmix/helper/pmix_server.h"
#include "agent/pmix/rank_log.h"
#include "base/text.h"
#include "wire/frame.h"
#include "wire/harrow.pb.h"

namespace harrow::agent::pmix {
namespace {

constexpr int kAgent = STDIN_FILENO;
constexpr uint32_t kMostMessage = 64u << 20;
constexpr int kFewestRounds = 4;  // of libpmix's thread, from a hang-up to the word of it
constexpr int kMostRounds = 100;  // with a pause of 1 ms each: a child of the rank's may hold its connection

bool Send(const pb::FromPmix& message) {
  std::string frame;
  wire::AppendFrame(message.SerializeAsString(), &frame);
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t n = send(kAgent, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

class Helper {
 public:
  explicit Helper(RankLog* log) : log_(*log) {}

  void Take(const pb::ToPmix& message, pb::FromPmix* answer) {
    for (const pb::RankTeam& wanted : message.add()) Add(wanted, answer->add_added());
    for (const pb::RankAsked& asked : message.ended()) {
      const RankLog::Seen seen = Look(asked);
      pb::RankSeen* said = answer->add_seen();
      said->set_team(asked.team());
      said->set_rank(asked.rank());
      said->set_connected(seen.connected);
      said->set_finalized(seen.finalized);
      said->set_aborted(seen.aborted);
      said->set_abort_code(seen.abort_code);
      said->set_turn(seen.turn);
    }
    for (const uint64_t team : message.drop()) {
      const std::string space = log_.SpaceOf(team);
      if (!space.empty()) PmixServer::Drop(space);
      log_.Drop(team);
    }
    if (message.ping() == 0) return;
    PmixServer::AskThread();
    answer->set_pong(message.ping());
  }

 private:
  /// The process of the rank has ended: libpmix's thread may have to handle that first.
  RankLog::Seen Look(const pb::RankAsked& asked) {
    RankLog::Seen seen;
    for (int round = 0; round < kMostRounds; ++round) {
      seen = log_.Look(asked.team(), asked.rank()).value_or(RankLog::Seen());
      if (seen.finalized || seen.turn > 0 || (!seen.connected && round >= kFewestRounds)) break;
      // One that is asked again and again at once may come to nothing else.
      if (round >= kFewestRounds) poll(nullptr, 0, 1);
      PmixServer::AskThread();
    }
    return seen;
  }

  void Add(const pb::RankTeam& wanted, pb::RankTeamAdded* answer) {
    answer->set_team(wanted.team());
    PmixServer::Team team{
        .space = wanted.space(), .directory = wanted.directory(), .nodes = {}, .here = wanted.here()};
    uint32_t size = 0;
    for (const pb::RankNode& node : wanted.node()) {
      team.nodes.push_back({.name = node.name(), .ranks = node.ranks()});
      size += node.ranks();
    }
    if (team.here >= team.nodes.size() || size == 0) return answer->set_why("a team without a node");
    log_.Add(wanted.team(), team.space, size);
    const Result<std::vector<PmixServer::Variables>> added = PmixServer::Add(team);
    if (!added.ok()) return answer->set_why(added.status().message());
    for (const PmixServer::Variables& variables : *added) {
      pb::RankVariables* rank = answer->add_rank();
      for (const auto& [name, value] : variables) {
        pb::EnvVar* variable = rank->add_variable();
        variable->set_name(name);
        variable->set_value(value);
      }
    }
  }

  RankLog& log_;
};

/// What says which rank of somebody's the run was started as.
void ForgetOwnRank() {
  for (char** entry = environ; *entry != nullptr;) {
    const std::string_view text = *entry;
    if ((text.starts_with("PMIX_") && !text.starts_with("PMIX_MCA_")) || text.starts_with("PMI_")) {
      unsetenv(std::string(text.substr(0, text.find('='))).c_str());
      entry = environ;
    } else {
      ++entry;
    }
  }
}

int Run(const std::string& directory, const std::string& node) {
  ForgetOwnRank();
  RankLog log;
  if (const Status started = PmixServer::Start(directory, node, &log); !started.ok()) {
    pb::FromPmix message;
    message.set_unusable(started.message());
    Send(message);
    return 1;
  }
  Helper helper(&log);
  wire::FrameReader reader(kMostMessage);
  char buffer[65536];
  while (true) {
    const ssize_t n = read(kAgent, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return 0;
    reader.buffer()->append(buffer, static_cast<size_t>(n));
    pb::FromPmix answer;
    for (std::string_view frame; reader.Next(&frame);) {
      pb::ToPmix message;
      if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return 1;
      helper.Take(message, &answer);
    }
    if (!reader.status().ok()) return 1;
    if (answer.ByteSizeLong() > 0 && !Send(answer)) return 0;
  }
}

}  // namespace
}  // namespace harrow::agent::pmix

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: harrow-pmix DIRECTORY NODE (started by harrow agent)\n");
    return 2;
  }
  prctl(PR_SET_NAME, "harrow-pmix");
  // What was inherited may listen, too, and be taken for libpmix's port.
  close_range(STDERR_FILENO + 1, ~0u, 0);
  // A step is ended by a signal to each of its processes: this one is needed by those that end after it.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &children, nullptr);
  // Whatever libpmix has at its end may wait for what is stuck.
  _exit(harrow::agent::pmix::Run(argv[1], argv[2]));
}
