// One thread starts the helpers, which end with it, and has their sockets. Slots have descriptors of their
// own, so what they have to say is put down under the lock, and the thread interrupted by a signal: it is
// blocked but in ppoll, so none is lost.
//
// Of several helpers one takes the teams that come. When it has served most_ranks it is retired: it keeps the
// teams that it has, and is told to end with the last of them. So what libpmix leaks stays bounded.
//
// Each helper that has teams is pinged; the answer needs its main thread and libpmix's. One that owes an
// answer for too long, while tasks might run, is killed. What a dead helper's teams were doing nobody can
// say: their attempts are lost, which costs their tasks no retry.
//
// What ranks on several nodes say to each other goes from a helper through the agent to the helpers of the
// other nodes (Gangs): here it is only handed on.
//
// What a helper and an agent say to each other goes over a pair of sockets that has no name. The one thing
// other users of the node can reach is libpmix's own port (helper/door.cc).
#include "agent/pmix/pmix_port.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "os/log.h"
#include "os/process.h"
#include "os/random.h"

extern char** environ;

namespace harrow::agent {
namespace {

constexpr int kInterrupt = SIGURG;
constexpr uint32_t kMostMessage = 64u << 20;
constexpr Duration kLook = std::chrono::seconds(1);
constexpr Duration kLookWhetherInVain = std::chrono::milliseconds(50);
constexpr size_t kSecretBytes = 16;

/// Nobody can guess it. Empty: the kernel has no random numbers.
std::string Secret() {
  std::string bytes(kSecretBytes, '\0');
  return os::RandomBytes(bytes.data(), bytes.size()) ? HexDigits(bytes) : std::string();
}

}  // namespace

PmixPort::PmixPort(Options options, const os::Clock& clock, Hooks hooks)
    : options_(std::move(options)), clock_(clock), hooks_(std::move(hooks)) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(kInterrupt, &action, nullptr);
  thread_ = std::thread([this] { Run(); });
}

PmixPort::~PmixPort() {
  Stop();
}

void PmixPort::Stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    for (auto& [number, team] : teams_) Lose(&team, "the agent ends");
    answered_.notify_all();
    Wake();
  }
  thread_.join();
}

void PmixPort::Lose(Team* team, std::string why) {
  team->loss = Loss{.why = std::move(why), .when = clock_.Now()};
  team->helper = nullptr;
}

template <class F>
void PmixPort::Await(std::unique_lock<std::mutex>* lock, const Team& team, F done, const InVain& in_vain) {
  const auto over = [&] { return team.loss || done(); };
  while (!answered_.wait_for(*lock, kLookWhetherInVain, over)) {
    if (in_vain()) return;
  }
}

void PmixPort::Wake() {
  pthread_kill(thread_.native_handle(), kInterrupt);
}

std::map<uint64_t, PmixPort::Team>::iterator PmixPort::Find(AttemptId attempt) {
  return std::find_if(teams_.begin(), teams_.end(),
                      [&](const auto& team) { return team.second.attempt == attempt; });
}

Result<std::vector<RankServer::Variables>> PmixPort::Add(const Ranks& ranks, const InVain& in_vain) {
  const std::string secret = Secret();
  if (secret.empty()) return Status(Code::kExhausted, "the kernel gives no random numbers");
  std::unique_lock lock(mutex_);
  if (stop_) return Status(Code::kUnavailable, "the agent ends");
  const uint64_t number = ++teams_made_;
  Team& team = teams_[number];
  team.attempt = ranks.attempt;
  team.ranks = ranks.count;
  pb::ToPmix message;
  pb::RankTeam* wanted = message.add_add();
  wanted->set_team(number);
  wanted->set_space(ranks.gang ? ranks.gang->space : "harrow-" + secret);
  wanted->set_directory(ranks.directory);
  const Gang alone{.nodes = {{.name = options_.node, .ranks = ranks.count}}};
  const Gang& gang = ranks.gang ? *ranks.gang : alone;
  wanted->set_here(gang.here);
  for (const Gang::Node& one : gang.nodes) {
    pb::RankNode* const node = wanted->add_node();
    node->set_name(one.name);
    node->set_ranks(one.ranks);
  }
  waiting_.emplace_back(number, std::move(message));
  Wake();
  Await(
      &lock, team, [&] { return team.added.has_value(); }, in_vain);
  if (team.loss || !team.added || !team.added->why().empty()) {
    const Status why = team.loss ? Status(Code::kUnavailable, team.loss->why)
                       : !team.added
                           ? Status(Code::kUnavailable, "it was to end before PMIx served it")
                           : Status(Code::kInvalid, StrCat("PMIx does not serve it: ", team.added->why()));
    Erase(number);
    return why;
  }
  std::vector<Variables> all;
  for (const pb::RankVariables& rank : team.added->rank()) {
    Variables& own = all.emplace_back();
    for (const pb::EnvVar& variable : rank.variable())
      own.push_back(StrCat(variable.name(), "=", variable.value()));
  }
  team.added.emplace();
  return all;
}

std::optional<RankServer::Seen> PmixPort::Ended(AttemptId attempt, uint32_t rank, const InVain& in_vain) {
  std::unique_lock lock(mutex_);
  const auto found = Find(attempt);
  if (found == teams_.end() || found->second.loss) return std::nullopt;
  Team& team = found->second;
  team.seen.erase(rank);  // it may be asked for again
  pb::ToPmix message;
  pb::RankAsked* asked = message.add_ended();
  asked->set_team(found->first);
  asked->set_rank(rank);
  Append(team.helper, message);
  Wake();
  Await(
      &lock, team, [&] { return team.seen.contains(rank); }, in_vain);
  const auto seen = team.seen.find(rank);
  if (seen == team.seen.end()) return std::nullopt;
  return Seen{
      .connected = seen->second.connected(),
      .finalized = seen->second.finalized(),
      .aborted = seen->second.aborted() ? std::optional<int>(seen->second.abort_code()) : std::nullopt,
      .turn = seen->second.turn(),
      .others_speak = seen->second.others_speak()};
}

std::optional<RankServer::Loss> PmixPort::LossOf(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  const auto found = Find(attempt);
  return found == teams_.end() ? std::nullopt : found->second.loss;
}

void PmixPort::Drop(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  if (const auto found = Find(attempt); found != teams_.end()) Erase(found->first);
}

void PmixPort::Erase(uint64_t number) {
  if (Helper* const helper = teams_.at(number).helper; helper != nullptr) {
    pb::ToPmix message;
    message.add_drop(number);
    Append(helper, message);
    --helper->teams;
    Wake();
  }
  teams_.erase(number);
}

void PmixPort::Append(Helper* helper, const pb::ToPmix& message) {
  wire::AppendFrame(message.SerializeAsString(), &helper->to_send);
}

Status PmixPort::Start() {
  const std::string name = StrCat("pmix-", ++helpers_made_);
  const os::Fd root = OpenTmpRoot(options_.root);
  if (!root.ok()) return Status(Code::kExhausted, StrCat("the directory ", options_.root.path, " is gone"));
  const bool made = mkdirat(root.get(), name.c_str(), 0700) == 0;
  const int error = errno;
  Helper& helper = helpers_.emplace_back(kMostMessage);
  helper.directory = StrCat(options_.root.path, "/", name);
  const Status started =
      made ? StartIn(&helper)
           : Status(Code::kExhausted, StrCat("cannot make ", helper.directory, ": ", strerror(error)));
  if (!started.ok()) {
    if (made) RemoveFiles(helper);
    helpers_.pop_back();
  }
  return started;
}

Status PmixPort::StartIn(Helper* helper) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status(Code::kExhausted, StrCat("no sockets for harrow-pmix: ", strerror(errno)));
  std::string program = options_.program, place = helper->directory, node = options_.node;
  char* const argv[] = {program.data(), place.data(), node.data(), nullptr};
  const os::SpawnOutcome outcome =
      spawner_->Spawn({.program = program.c_str(), .argv = argv, .envp = environ, .stdin_fd = ends[1]});
  close(ends[1]);
  if (!outcome.started()) {
    close(ends[0]);
    return Status(Code::kUnavailable, StrCat("cannot start ", program, ": ", strerror(outcome.error)));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  helper->pid = outcome.pid;
  helper->fd = ends[0];
  helper->last_ping = Time(clock_.Steady());
  return {};
}

void PmixPort::GiveOut() {
  for (auto& [number, message] : std::exchange(waiting_, {})) {
    const auto waits = teams_.find(number);
    if (waits == teams_.end()) continue;  // not any more
    Team& team = waits->second;
    if (helpers_.empty() || helpers_.back().retired) {
      if (const Status started = Start(); !started.ok()) {
        team.added.emplace().set_why(started.message());
        answered_.notify_all();
        continue;
      }
    }
    Helper& helper = helpers_.back();
    team.helper = &helper;
    ++helper.teams;
    helper.ranks += team.ranks;
    helper.retired = helper.ranks >= options_.most_ranks;
    Append(&helper, message);
  }
}

bool PmixPort::SendWhatWaits(Helper* helper) {
  while (!helper->to_send.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(send(helper->fd, helper->to_send.data(), helper->to_send.size(), MSG_NOSIGNAL));
    if (n < 0) return errno == EAGAIN;
    helper->to_send.erase(0, static_cast<size_t>(n));
  }
  if (helper->retired && helper->teams == 0 && !std::exchange(helper->closed, true))
    shutdown(helper->fd, SHUT_WR);
  return true;
}

bool PmixPort::Receive(Helper* helper) {
  char buffer[65536];
  while (true) {
    const ssize_t n = TEMP_FAILURE_RETRY(read(helper->fd, buffer, sizeof buffer));
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    helper->reader.buffer()->append(buffer, static_cast<size_t>(n));
    for (std::string_view frame; helper->reader.Next(&frame);) {
      pb::FromPmix message;
      if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return false;
      Take(helper, &message);
    }
    if (!helper->reader.status().ok()) return false;
  }
}

void PmixPort::Ask(AttemptId attempt, std::string question, std::function<void(std::string)> answered) {
  {
    std::lock_guard lock(mutex_);
    const auto found = Find(attempt);
    if (found != teams_.end() && found->second.helper != nullptr) {
      Team& team = found->second;
      const uint64_t number = ++team.asked;
      team.questions.emplace(number, std::move(answered));
      pb::ToPmix message;
      pb::TeamQuestion* const asked = message.add_question();
      asked->set_team(found->first);
      asked->set_number(number);
      asked->set_text(std::move(question));
      Append(team.helper, message);
      return Wake();
    }
  }
  answered({});
}

void PmixPort::Tell(uint64_t number, const std::function<void(pb::ToPmix*)>& say) {
  std::lock_guard lock(mutex_);
  const auto team = teams_.find(number);
  if (team == teams_.end() || team->second.helper == nullptr) return;
  pb::ToPmix message;
  say(&message);
  Append(team->second.helper, message);
  Wake();
}

void PmixPort::TakeForOthers(pb::FromPmix* message) {
  for (pb::TeamMeeting& meeting : *message->mutable_meeting()) {
    const auto team = teams_.find(meeting.team());
    if (team == teams_.end() || options_.gangs == nullptr) continue;
    options_.gangs->Meet(team->second.attempt, Meeting::kRanks,
                         {meeting.rank().begin(), meeting.rank().end()}, std::move(*meeting.mutable_data()),
                         [this, number = meeting.team(), of = meeting.number()](Result<std::string> data) {
                           Tell(number, [&](pb::ToPmix* said) {
                             pb::TeamAnswer* const met = said->add_met();
                             met->set_team(number);
                             met->set_number(of);
                             if (!data.ok()) return met->set_why(data.status().message());
                             met->set_data(*std::move(data));
                           });
                         });
  }
  for (pb::TeamQuestion& question : *message->mutable_question()) {
    const auto team = teams_.find(question.team());
    if (team == teams_.end() || options_.gangs == nullptr) continue;
    options_.gangs->Ask(team->second.attempt, question.node(), std::move(*question.mutable_text()),
                        [this, number = question.team(), of = question.number()](std::string text) {
                          Tell(number, [&](pb::ToPmix* said) {
                            pb::TeamAnswer* const answer = said->add_answer();
                            answer->set_team(number);
                            answer->set_number(of);
                            answer->set_data(std::move(text));
                          });
                        });
  }
  for (pb::TeamAnswer& answer : *message->mutable_answer()) {
    const auto team = teams_.find(answer.team());
    if (team == teams_.end()) continue;
    const auto question = team->second.questions.extract(answer.number());
    if (!question.empty()) question.mapped()(std::move(*answer.mutable_data()));
  }
}

void PmixPort::Take(Helper* helper, pb::FromPmix* taken) {
  TakeForOthers(taken);
  const pb::FromPmix& message = *taken;
  for (const pb::RankTeamAdded& added : message.added()) {
    if (const auto team = teams_.find(added.team()); team != teams_.end()) team->second.added = added;
  }
  for (const pb::RankSeen& seen : message.seen()) {
    if (const auto team = teams_.find(seen.team()); team != teams_.end())
      team->second.seen[seen.rank()] = seen;
  }
  helper->heard = true;
  helper->answered = std::max<uint64_t>(helper->answered, message.pong());
  if (!message.unusable().empty()) helper->unusable = message.unusable();
  answered_.notify_all();
}

void PmixPort::Ping(Helper* helper, Time now, Duration passed) {
  const bool owes = helper->pinged != helper->answered || helper->closed;
  helper->silent = owes ? helper->silent + passed : Duration(0);
  if (owes || helper->teams == 0 || now - helper->last_ping < options_.ping_every) return;
  helper->last_ping = now;
  pb::ToPmix message;
  message.set_ping(++helper->pinged);
  Append(helper, message);
}

bool PmixPort::Talk(Helper* helper) {
  const bool sent = SendWhatWaits(helper);
  return Receive(helper) && sent;  // it may have said why it ends
}

void PmixPort::RemoveFiles(const Helper& helper) {
  const TmpRoot directory = TmpRootAt(helper.directory);
  if (directory.empty()) return;
  (void)EmptyTmpRoot(directory);
  (void)rmdir(helper.directory.c_str());
}

void PmixPort::Bury(std::list<Helper>::iterator helper, std::vector<AttemptId>* lost, std::string* why) {
  kill(helper->pid, SIGKILL);
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(helper->pid, &status, 0));
  close(helper->fd);
  RemoveFiles(*helper);
  // As the dynamic linker does without libpmix, or libpmix itself.
  if (WIFEXITED(status) && !helper->heard && helper->unusable.empty())
    helper->unusable = StrCat("harrow-pmix ended with ", os::DescribeWaitStatus(status),
                              "; is libpmix installed on ", options_.node, "?");
  *why = helper->silent >= options_.patience ? "harrow-pmix did not answer, and was ended"
         : !helper->unusable.empty()         ? "PMIx does not work here: " + helper->unusable
                                             : "harrow-pmix died: " + os::DescribeWaitStatus(status);
  for (auto& [number, team] : teams_) {
    if (team.helper != &*helper) continue;
    team.helper = nullptr;
    if (!helper->unusable.empty() && !team.added) {
      team.added.emplace().set_why(helper->unusable);
    } else {
      Lose(&team, *why);
      lost->push_back(team.attempt);
    }
  }
  helpers_.erase(helper);
  answered_.notify_all();
}

void PmixPort::Run() {
  pthread_setname_np(pthread_self(), "pmix");
  sigset_t all, while_waiting;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while_waiting = all;
  sigdelset(&while_waiting, kInterrupt);
  spawner_.emplace();
  Time looked(clock_.Steady());
  std::unique_lock lock(mutex_);
  while (!stop_) {
    GiveOut();
    const Time now(clock_.Steady());
    // This process may have stood as well.
    const Duration passed = hooks_.may_run() ? std::min<Duration>(now - looked, kLook) : Duration(0);
    looked = now;
    std::vector<pollfd> polled;
    bool watched = false;
    for (auto helper = helpers_.begin(); helper != helpers_.end();) {
      Ping(&*helper, now, passed);
      const bool lives = Talk(&*helper) && helper->silent < options_.patience;
      const auto ended = helper++;
      if (lives) {
        watched = watched || ended->teams > 0 || ended->closed;
        polled.push_back(
            {ended->fd, static_cast<short>(ended->to_send.empty() ? POLLIN : POLLIN | POLLOUT), 0});
        continue;
      }
      std::vector<AttemptId> lost;
      std::string why;
      const bool expected = ended->closed && ended->teams == 0;
      Bury(ended, &lost, &why);
      if (expected) continue;
      lock.unlock();
      os::LogWarning(why);
      if (!lost.empty()) hooks_.lost(lost, why);
      lock.lock();
    }
    lock.unlock();
    const timespec look = {.tv_sec = kLook / std::chrono::seconds(1), .tv_nsec = 0};
    ppoll(polled.data(), polled.size(), watched ? &look : nullptr, &while_waiting);
    lock.lock();
  }
  for (Helper& helper : helpers_) {
    kill(helper.pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(helper.pid, nullptr, 0));
    close(helper.fd);
    RemoveFiles(helper);
  }
  helpers_.clear();
}

}  // namespace harrow::agent
