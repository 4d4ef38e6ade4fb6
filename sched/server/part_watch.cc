#include "server/part_watch.h"

#include <algorithm>

#include "base/text.h"
#include "journal/parts.h"
#include "os/file_system.h"
#include "os/log.h"
#include "run/flow_store.h"
#include "run_dir/names.h"

// A part is over when nobody owns it any more and it has a journal, or when its owner is known to be dead: by the batch
// system's word about its job, or, after the fence (agents of it may run tasks until then), because the process is gone.
// The server with the lowest part of those that are not over becomes the owner of such a part for a moment, and writes into
// its journal that what is open there is offered to itself. The journal then has the fact `over`, and every server reads it.

namespace harrow::server {
namespace {

constexpr const char* kOver = "over";

bool HasFact(const journal::History& history, std::string_view key) {
  return std::any_of(history.facts.begin(), history.facts.end(), [&](const auto& fact) { return fact.first == key; });
}

bool HasEnded(const journal::History& history) {
  return !history.sessions.empty() && history.sessions.back().ended_ns != 0;
}

/// When something was recorded last.
int64_t LastTime(const journal::History& history) {
  int64_t last = history.sessions.empty() ? 0 : history.sessions.back().started_ns;
  for (const journal::AttemptRecord& attempt : history.attempts) last = std::max(last, attempt.end_ns);
  for (const journal::NodeRecord& node : history.nodes) last = std::max({last, node.joined_ns, node.left_ns});
  return last;
}

std::vector<std::pair<TaskId, journal::TaskFate>> FatesOf(const journal::History& history, size_t tasks) {
  const std::vector<journal::TaskFate> fates = journal::LastFates(history, tasks);
  std::vector<std::pair<TaskId, journal::TaskFate>> decided;
  for (uint32_t i = 0; i < tasks; ++i) {
    if (fates[i] != journal::TaskFate::kOpen) decided.emplace_back(TaskId(i), fates[i]);
  }
  return decided;
}

/// Files that have come to the submit directory since then: not what was saved, of which nobody reads in this session.
std::vector<std::string> ResultsOf(const journal::History& history, int64_t session_start_ns) {
  std::vector<std::string> results;
  for (const journal::CopyRecord& copy : history.copies) {
    if (!copy.to && copy.task && copy.end_ns >= session_start_ns) results.push_back(copy.path);
  }
  return results;
}

/// Of tasks that have failed, or were cancelled.
std::vector<TaskEnding> EndingsOf(const journal::History& history, size_t tasks) {
  std::map<uint32_t, TaskEnding> last;
  for (const journal::AttemptRecord& attempt : history.attempts) {
    if (attempt.task.value < tasks) last[attempt.task.value] = {attempt.task, attempt.end, attempt.code};
  }
  const std::vector<journal::TaskFate> fates = journal::LastFates(history, tasks);
  std::vector<TaskEnding> endings;
  for (const auto& [task, ending] : last) {
    if (fates[task] == journal::TaskFate::kFailed || fates[task] == journal::TaskFate::kCancelled) endings.push_back(ending);
  }
  return endings;
}

}  // namespace

bool PartWatch::OfSession(const run_dir::Part& part, Known* known) {
  if (known->of_session) return true;
  const Result<run::RunSettings> settings = run::ReadSettings(part);
  known->of_session = settings.ok() && settings->session_start() == options_.session;
  return known->of_session;
}

bool PartWatch::IsOver(const run_dir::Part& part, Known* known, Time now) {
  const run_dir::Owner me = run_dir::ThisProcess(options_.job);
  switch (run_dir::LookAtOwner(*part.dir, part.dir->path(), me, options_.job_alive)) {
    case run_dir::OwnerIs::kNobody:
      return part.dir->Stat(run_dir::JournalPath(part.dir->path())).ok();
    case run_dir::OwnerIs::kOver:
      return true;
    case run_dir::OwnerIs::kGone:
      if (!known->gone_since) known->gone_since = now;
      return now - *known->gone_since >= options_.fence;
    case run_dir::OwnerIs::kThere:
      break;
  }
  known->gone_since.reset();
  return false;
}

Result<PartWatch::OverJournal> PartWatch::ReadJournal(const run_dir::Part& part, const run::FirstOwners& first_owners) const {
  Result<journal::History> history = journal::ReadHistory(part.dir);
  if (!history.ok()) return history.status();
  Result<Holdings> holdings = HoldingsOf(part.number, first_owners, history->moves);
  if (!holdings.ok()) return holdings.status();
  return OverJournal{*std::move(history), *std::move(holdings)};
}

Status PartWatch::Seal(const run_dir::Part& part, const run::FirstOwners& first_owners) {
  const size_t tasks = first_owners.tasks();
  const std::string& path = part.dir->path();
  HARROW_RETURN_IF_ERROR(
      run_dir::TakeOwnership(*part.dir, path, run_dir::ThisProcess(options_.job), options_.job_alive));
  const auto seal = [&]() -> Status {
    journal::History history;
    auto journal = journal::Journal::Open(
        part.dir, {.sync = options_.sync_journal, .run_id = options_.run_id, .epoch = 0}, &history);
    if (!journal.ok()) return journal.status();
    const Result<Holdings> holdings = HoldingsOf(part.number, first_owners, history.moves);
    if (!holdings.ok()) return holdings.status();
    std::vector<bool> settled(tasks);
    for (const auto& [task, fate] : FatesOf(history, tasks)) settled[task.value] = true;
    const int64_t session = options_.session.time_since_epoch().count();
    std::unordered_map<uint32_t, Tried> tried;
    AddTried(history, session, holdings->tried, [&](const Tried& each) { tried[each.task.value] = each; });
    for (const journal::AttemptRecord& attempt : history.attempts) {
      const uint32_t task = attempt.task.value;
      if (task >= tasks || attempt.end_ns < session) continue;
      // Its server did not live to record what follows from that.
      if (holdings->own[task] && !settled[task] && journal::Succeeded(attempt) && !readers_.contains(task)) {
        settled[task] = true;
        (*journal)->Add(journal::FateRecord{.task = attempt.task, .fate = journal::TaskFate::kDone, .because = {}});
      }
    }
    const auto over = [this](uint32_t other) {
      const auto found = sealed_.find(other);
      return found == sealed_.end() ? nullptr : &found->second.holdings;
    };
    const int64_t now = std::chrono::system_clock::now().time_since_epoch().count();
    for (journal::MoveRecord& record :
         SealRecords(part.number, *holdings, settled, tried, options_.part.number, over, now))
      (*journal)->Add(std::move(record));
    (*journal)->SetFact(kOver, "1");
    if (!HasEnded(history)) (*journal)->SetFact("ended_ns", StrCat(LastTime(history)));
    return (*journal)->Close();
  };
  const Status sealed = seal();
  // Nobody answers there any more.
  if (sealed.ok()) (void)part.dir->Remove(run_dir::ServerPath(path));
  (void)run_dir::ReleaseOwnership(*part.dir, path);
  return sealed;
}

PartWatch::Seen PartWatch::Look(const std::set<uint32_t>& connected, const run::FirstOwners& first_owners, Time now) {
  Seen seen;
  const auto trouble = [&](const Status& why) {
    if (!why.ok() && seen.trouble.empty()) seen.trouble = why.message();
  };
  const Result<std::vector<uint32_t>> numbers = run_dir::PartNumbers(*options_.part.run);
  if (!numbers.ok()) {
    trouble(numbers.status());
    return seen;
  }
  std::vector<run_dir::Part> over;
  uint32_t lowest = options_.part.number;
  for (const uint32_t number : *numbers) {
    if (number == options_.part.number) continue;
    const Result<run_dir::Part> part = run_dir::OpenPart(options_.part.run, StrCat(number));
    Known& known = known_[number];
    if (!part.ok() || !OfSession(*part, &known)) continue;
    seen.others = true;
    if (!connected.contains(number) && IsOver(*part, &known, now)) {
      over.push_back(*part);
      continue;
    }
    ++seen.alive;
    lowest = std::min(lowest, number);
    const auto at = run_dir::ReadRendezvous(*part->dir, part->dir->path());
    if (at.ok()) seen.servers.push_back({number, *at});
  }
  const bool seals = lowest == options_.part.number;
  // What is sealed is known before it is decided what others have given to it.
  for (const run_dir::Part& part : over) {
    const auto info = part.dir->Stat(run_dir::JournalPath(part.dir->path()));
    Known& known = known_[part.number];
    if (!info.ok() || known.read == info->modified) continue;
    Result<OverJournal> read = ReadJournal(part, first_owners);
    if (read.ok()) known.read = info->modified;
    if (!read.ok()) {
      trouble(Status(read.status().code(), StrCat("part ", part.number, ": ", read.status().message())));
    } else if (HasFact(read->history, kOver)) {
      sealed_[part.number] = *std::move(read);
    }
  }
  for (const run_dir::Part& part : over) {
    const auto found = sealed_.find(part.number);
    // Who sealed it may have died before it let it go: whoever comes after that would wait for the fence once more.
    std::optional<Time>& gone_since = known_[part.number].gone_since;
    const bool again = found != sealed_.end() &&
                       (gone_since || std::any_of(found->second.holdings.pending.begin(), found->second.holdings.pending.end(),
                                   [&](const auto& offer) { return sealed_.contains(offer.second.taker); }));
    if (seals && (found == sealed_.end() || again)) {
      const Status sealed = Seal(part, first_owners);
      if (!sealed.ok()) trouble(Status(sealed.code(), StrCat("part ", part.number, ": ", sealed.message())));
      if (sealed.ok()) gone_since.reset();
      Result<OverJournal> read = sealed.ok() ? ReadJournal(part, first_owners) : sealed;
      if (!read.ok()) continue;
      sealed_[part.number] = *std::move(read);
    }
    const auto info = part.dir->Stat(run_dir::JournalPath(part.dir->path()));
    Known& known = known_[part.number];
    const auto now_sealed = sealed_.find(part.number);
    if (!info.ok() || now_sealed == sealed_.end() || known.told == info->modified) continue;
    known.read = known.told = info->modified;
    OverPart told = {now_sealed->second.holdings, FatesOf(now_sealed->second.history, first_owners.tasks()),
                     made::ReadAll(*part.dir, part.dir->path(), options_.flow_id),
                     EndingsOf(now_sealed->second.history, first_owners.tasks())};
    if (options_.local_files) {
      Result<std::vector<std::string>> names = options_.part.run->List(run_dir::ExchangePath(options_.part.run->path(), options_.flow_id));
      told.results = ResultsOf(now_sealed->second.history, options_.session.time_since_epoch().count());
      if (names.ok()) {
        told.lists = *std::move(names);
      } else if (names.status().code() != Code::kNotFound) {
        trouble(names.status());
      }
    }
    seen.over.emplace_back(part.number, std::move(told));
    // What is needed later is whose tasks are whose.
    now_sealed->second.history = {};
  }
  seen.lowest = seals && std::all_of(over.begin(), over.end(), [&](const run_dir::Part& part) {
    return part.number > options_.part.number || sealed_.contains(part.number);
  });
  return seen;
}

}  // namespace harrow::server
