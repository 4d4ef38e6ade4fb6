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
#include <map>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pmix/helper/pmix_server.h"
#include "agent/pmix/published.h"
#include "agent/pmix/rank_log.h"
#include "agent/pmix/team_requests.h"
#include "base/text.h"
#include "wire/frame.h"
#include "wire/harrow.pb.h"

namespace harrow::agent::pmix {
namespace {

constexpr int kAgent = STDIN_FILENO;
constexpr uint32_t kMostMessage = 64u << 20;
constexpr int kFewestRounds = 4;  // of libpmix's thread, from a hang-up to the word of it
constexpr int kMostRounds = 100;  // with a pause of 1 ms each: a child of the rank's may hold its connection

/// false: the agent is gone, or there is no memory for an answer that the agent would wait for; this program ends.
bool Send(const pb::FromPmix& message) {
  std::string frame;
  wire::AppendFrame(message.SerializeAsString(), &frame);
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t n = TEMP_FAILURE_RETRY(send(kAgent, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL));
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

class Helper {
 public:
  Helper(RankLog* log, TeamRequests* requests) : log_(*log), requests_(*requests) {}

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
      said->set_others_speak(!seen.connected && log_.AnySpeaks(asked.team()));
    }
    for (const pb::TeamAnswer& met : message.met()) requests_.Met(met);
    for (const pb::TeamAnswer& told : message.answer()) requests_.Answered(told);
    for (const pb::TeamQuestion& question : message.question()) {
      pb::TeamAnswer told;
      told.set_team(question.team());
      told.set_number(question.number());
      Consider(question, [this, told](const pb::PmixAnswer& answered) mutable {
        told.set_data(answered.SerializeAsString());
        requests_.Say([&](pb::FromPmix* said) { *said->add_answer() = std::move(told); });
      });
    }
    for (const uint64_t team : message.drop()) {
      const std::string space = log_.SpaceOf(team);
      requests_.Drop(team);
      published_.erase(team);
      if (!space.empty()) PmixServer::Drop(space);
      log_.Drop(team);
    }
    if (message.ping() == 0) return;
    PmixServer::AskThread();
    answer->set_pong(message.ping());
  }

  /// What ranks of this node have asked of it.
  void TakeOwn(const std::vector<pb::TeamQuestion>& questions) {
    for (const pb::TeamQuestion& question : questions) {
      Consider(question,
               [this, team = question.team(), number = question.number()](const pb::PmixAnswer& answered) {
                 pb::TeamAnswer told;
                 told.set_team(team);
                 told.set_number(number);
                 told.set_data(answered.SerializeAsString());
                 requests_.Answered(std::move(told));
               });
    }
  }

 private:
  void Consider(const pb::TeamQuestion& asked, Published::Answered answered) {
    pb::PmixQuestion question;
    const std::string space = log_.SpaceOf(asked.team());
    if (space.empty() || !question.ParseFromString(asked.text())) return answered({});
    if (question.what() != pb::PmixQuestion::DATA)
      return published_[asked.team()].Take(question, std::move(answered));
    PmixServer::DataOf(space, question.rank(),
                       [answered = std::move(answered)](int status, std::string data) {
                         pb::PmixAnswer answer;
                         answer.set_status(status);
                         answer.set_data(std::move(data));
                         answered(std::move(answer));
                       });
  }

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
    TeamRequests::Team asking{.number = wanted.team(), .space = team.space, .here = team.here};
    for (const PmixServer::Node& node : team.nodes) asking.ranks.push_back(node.ranks);
    requests_.Add(std::move(asking));
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
  TeamRequests& requests_;
  std::map<uint64_t, Published> published_;  // of teams
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
  RankLog& log = *new RankLog;  // for libpmix's thread to the end, as the next
  const int wanted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  TeamRequests& requests = *new TeamRequests([wanted] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wanted, &one, sizeof one);
  });
  if (const Status started = PmixServer::Start(directory, node, &log, &requests); !started.ok()) {
    pb::FromPmix message;
    message.set_unusable(started.message());
    Send(message);
    return 1;
  }
  Helper helper(&log, &requests);
  wire::FrameReader reader(kMostMessage);
  char buffer[65536];
  while (true) {
    pollfd set[] = {{kAgent, POLLIN, 0}, {wanted, POLLIN, 0}};
    if (poll(set, 2, -1) < 0) continue;
    uint64_t count;
    [[maybe_unused]] const ssize_t woken = read(wanted, &count, sizeof count);
    if (set[0].revents != 0) {
      const ssize_t n = TEMP_FAILURE_RETRY(read(kAgent, buffer, sizeof buffer));
      if (n <= 0) return 0;
      reader.buffer()->append(buffer, static_cast<size_t>(n));
    }
    pb::FromPmix answer;
    for (std::string_view frame; reader.Next(&frame);) {
      pb::ToPmix message;
      if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return 1;
      helper.Take(message, &answer);
    }
    if (!reader.status().ok()) return 1;
    for (TeamRequests::Work work = requests.Take();; work = requests.Take()) {
      answer.MergeFrom(work.to_agent);
      if (work.for_us.empty()) break;
      helper.TakeOwn(work.for_us);
    }
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
