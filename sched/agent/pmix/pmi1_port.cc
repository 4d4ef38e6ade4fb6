// PMI-1 is lines of text, `cmd=NAME key=value ...`, each answered by one. What is put by a rank the others
// may get after the next barrier, which all ranks enter. On one node that is known at once; over several each
// node brings to the barrier what its ranks have put since the last one, and all take along what all have
// brought (Gangs::Meet).
//
// Who aborts waits for an answer until he is ended. Hung up on he ends by himself, with the code that he
// wants.
//
// A rank is asked for its next word only when the last has been answered, so that a line a rank, and some
// answers, are all that is ever kept beside the keys.
#include "agent/pmix/pmi1_port.h"

#include <algorithm>
#include <charconv>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/log.h"

namespace harrow::agent {
namespace {

constexpr size_t kLongestName = 256, kLongestKey = 64, kLongestValue = 1024;  // as Hydra says
constexpr size_t kLongestAnswer = 1023;  // that MPICH reads, with its end
constexpr size_t kLongestMapping =
    kLongestAnswer - std::string_view("cmd=get_result rc=0 msg=success value=\n").size();
constexpr size_t kLongestLine = 16 * 1024;
constexpr size_t kMostBytes = 64u << 20;   // of the keys of a task
constexpr size_t kMostAnswers = 1u << 20;  // bytes that a rank lets lie
constexpr std::string_view kMapping = "PMI_process_mapping";

/// The value of a word `name=value` of a line; empty: there is none.
std::string_view ValueOf(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return {};
}

int NumberOf(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string ProcessMapping(const Gang& gang) {
  std::string all = "(vector";
  for (size_t i = 0; i < gang.nodes.size();) {
    size_t end = i + 1;
    while (end < gang.nodes.size() && gang.nodes[end].ranks == gang.nodes[i].ranks) ++end;
    all += StrCat(",(", i, ",", end - i, ",", gang.nodes[i].ranks, ")");
    i = end;
  }
  return all + ")";
}

Pmi1Port::Team* Pmi1Port::Find(AttemptId attempt) {
  const auto found = teams_.find(attempt);
  return found == teams_.end() ? nullptr : &found->second;
}

Pmi1Port::Rank* Pmi1Port::RankOf(Team* team, uint32_t rank) {
  if (team == nullptr || rank < team->first || rank - team->first >= team->ranks.size()) return nullptr;
  return &team->ranks[rank - team->first];
}

Result<std::vector<RankServer::Variables>> Pmi1Port::Add(const Ranks& ranks, const InVain&) {
  const Gang alone{.nodes = {{.ranks = ranks.count}}};
  const Gang& gang = ranks.gang ? *ranks.gang : alone;
  std::lock_guard lock(mutex_);
  Team& team = teams_[ranks.attempt] = {};
  team.number = ++teams_made_;
  team.first = gang.first_rank();
  team.size = gang.ranks();
  team.several_nodes = gang.nodes.size() > 1;
  // What is called after it on this machine is not another agent's.
  team.space = ranks.gang ? gang.space : StrCat("harrow-", getpid(), "-", team.number);
  team.ranks.resize(ranks.count);
  // MPICH takes no longer one, and asks all for the names of their nodes where there is none.
  if (std::string mapping = ProcessMapping(gang); mapping.size() <= kLongestMapping)
    team.keys.emplace(kMapping, std::move(mapping));
  log_.Add(team.number, team.space, team.size);
  std::vector<Variables> all;
  for (uint32_t i = 0; i < ranks.count; ++i) {
    all.push_back({StrCat("PMI_RANK=", team.first + i), StrCat("PMI_SIZE=", team.size), "PMI_SPAWNED=0",
                   StrCat("MPI_LOCALRANKID=", i), StrCat("MPI_LOCALNRANKS=", ranks.count)});
  }
  return all;
}

std::optional<RankServer::Seen> Pmi1Port::Ended(AttemptId attempt, uint32_t rank, const InVain&) {
  std::lock_guard lock(mutex_);
  const Team* const team = Find(attempt);
  if (team == nullptr) return std::nullopt;
  auto seen = log_.Look(team->number, rank);
  if (!seen) return std::nullopt;
  if (seen->connected && !seen->finalized) {  // a child of its may still hold its socket
    log_.Lost(team->space, rank);
    seen = log_.Look(team->number, rank);
  }
  return Seen{.connected = seen->connected,
              .finalized = seen->finalized,
              .aborted = seen->aborted ? std::optional<int>(seen->abort_code) : std::nullopt,
              .turn = seen->turn,
              .others_speak = !seen->connected && log_.AnySpeaks(team->number)};
}

void Pmi1Port::Drop(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  if (const Team* const team = Find(attempt); team != nullptr) log_.Drop(team->number);
  teams_.erase(attempt);
}

bool Pmi1Port::Hear(AttemptId attempt, uint32_t rank, std::string_view said) {
  Then then;
  uint64_t number = 0;
  bool goes_on = true;
  {
    std::lock_guard lock(mutex_);
    Team* const team = Find(attempt);
    Rank* const own = RankOf(team, rank);
    if (own == nullptr) return false;
    number = team->number;
    if (said.empty()) {
      const auto seen = log_.Look(number, rank);
      if (seen && seen->connected) log_.Lost(team->space, rank);
      return true;
    }
    own->heard += said;
    size_t begin = 0;
    for (size_t end; (end = own->heard.find('\n', begin)) != std::string::npos; begin = end + 1)
      Obey(team, rank, std::string_view(own->heard).substr(begin, end - begin), &then);
    own->heard.erase(0, begin);
    goes_on = own->heard.size() <= kLongestLine && own->answers.size() <= kMostAnswers && !own->aborts;
  }
  if (then.meet)
    gangs_->Meet(attempt, Meeting::kRanks, {}, std::move(then.data),
                 [this, attempt, number](const Result<std::string>& data) { Met(attempt, number, data); });
  if (then.tell) answers_(attempt);
  return goes_on;
}

std::string Pmi1Port::TakeAnswers(AttemptId attempt, uint32_t rank) {
  std::lock_guard lock(mutex_);
  Rank* const own = RankOf(Find(attempt), rank);
  return own == nullptr ? std::string() : std::exchange(own->answers, {});
}

void Pmi1Port::Obey(Team* team, uint32_t rank, std::string_view line, Then* then) {
  Rank& own = *RankOf(team, rank);
  const auto answer = [&own](const auto&... text) { own.answers += StrCat(text..., "\n"); };
  // Of MPI_Comm_spawn, which there is not.
  if (own.in_request || line.starts_with("mcmd=")) {
    own.in_request = line != "endcmd";
    if (!own.in_request) answer("cmd=spawn_result rc=-1 status=not_supported");
    return;
  }
  const std::string_view command = ValueOf(line, "cmd");
  if (command == "init") {
    log_.Connected(team->space, rank);
    answer("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  } else if (command == "get_maxes") {
    answer("cmd=maxes kvsname_max=", kLongestName, " keylen_max=", kLongestKey,
           " vallen_max=", kLongestValue);
  } else if (command == "get_appnum") {
    answer("cmd=appnum appnum=0");
  } else if (command == "get_my_kvsname") {
    answer("cmd=my_kvsname kvsname=", team->space);
  } else if (command == "get_universe_size") {
    answer("cmd=universe_size size=", team->size);
  } else if (command == "put") {
    answer("cmd=put_result ", Put(team, ValueOf(line, "key"), ValueOf(line, "value")));
  } else if (command == "get") {
    const std::string_view key = ValueOf(line, "key");
    const auto found = team->keys.find(key);
    if (found != team->keys.end()) {
      answer("cmd=get_result rc=0 msg=success value=", found->second);
    } else {
      answer("cmd=get_result rc=-1 msg=key_", key, "_not_found value=unknown");
    }
  } else if (command == "barrier_in") {
    Enter(team, &own, then);
  } else if (command == "finalize") {
    log_.Finalized(team->space, rank);
    answer("cmd=finalize_ack");
  } else if (command == "abort") {
    log_.Aborted(team->space, rank, NumberOf(ValueOf(line, "exitcode")));
    own.aborts = true;
  } else if (!command.empty()) {
    // publish_name, lookup_name, getbyidx: as Hydra calls its answers.
    answer("cmd=", command, "_result rc=-1 msg=not_supported");
  }
}

std::string Pmi1Port::Put(Team* team, std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > kLongestKey || value.size() > kLongestValue)
    return "rc=-1 msg=invalid_key_or_value";
  if (team->bytes + key.size() + value.size() > kMostBytes) return "rc=-1 msg=too_many_keys";
  if (!team->keys.emplace(key, value).second) return StrCat("rc=-1 msg=duplicate_key_", key);
  team->bytes += key.size() + value.size();
  if (team->several_nodes) {
    pb::EnvVar* const entry = team->put.add_entry();
    entry->set_name(std::string(key));
    entry->set_value(std::string(value));
  }
  return "rc=0 msg=success";
}

void Pmi1Port::Enter(Team* team, Rank* rank, Then* then) {
  if (std::exchange(rank->in_barrier, true)) return;
  if (++team->waiting < team->ranks.size()) return;
  if (team->several_nodes && gangs_ != nullptr) {
    then->meet = true;
    then->data = std::exchange(team->put, {}).SerializeAsString();
  } else {
    Release(team);
    then->tell = true;
  }
}

void Pmi1Port::Release(Team* team) {
  team->waiting = 0;
  for (Rank& rank : team->ranks) {
    rank.in_barrier = false;
    rank.answers += "cmd=barrier_out\n";
  }
}

void Pmi1Port::Met(AttemptId attempt, uint64_t number, const Result<std::string>& data) {
  {
    std::lock_guard lock(mutex_);
    Team* const team = Find(attempt);
    if (team == nullptr || team->number != number) return;
    pb::PutKeys put;
    // Without them the ranks find that keys are missing, and end.
    if (!data.ok()) {
      os::LogWarning(StrCat("task ", attempt.task.value + 1, ": ", data.status().message()));
    } else if (put.ParseFromString(*data)) {
      for (const pb::EnvVar& entry : put.entry()) team->keys.emplace(entry.name(), entry.value());
    }
    Release(team);
  }
  answers_(attempt);
}

}  // namespace harrow::agent
