#include "server/moves.h"

#include <algorithm>
#include <charconv>

#include "base/number_list.h"
#include "base/text.h"
#include "journal/parts.h"

// A move has two phases, each recorded before anybody acts on it:
//
//   giver   records kOffered; from then on, also after a restart, it starts none of the tasks, and offers them
//   taker   records kTaken, has the tasks, and answers
//   giver   records kConfirmed, and forgets them; or, where the taker refuses, kReturned, and has them again
//
// An answer that is lost is asked for again: whenever the two are connected the giver offers again what was not
// answered, and the taker knows what it has taken. A taker that has refused an offer may take the same later; the
// giver obeys the one answer that it gets, and never offers under that number again.
//
// A part is over when its server is gone for good: its keeper has let go of it, or is known to be dead, and another
// server has become its owner. That one seals it: it writes into its journal that all of what is open is offered to
// itself, and takes that like any other offer (PartOver). So the journals of a run alone tell whose a task is. What a part
// that is over had offered to one that goes on is taken by that one, as the giver cannot take it back any more. What was
// offered to a part that is over, and is not in its journal as taken, never will be: it goes back to its giver.

namespace harrow::server {
namespace {

using What = journal::MoveRecord::What;

std::vector<uint32_t> NumbersOf(const std::vector<TaskId>& tasks) {
  std::vector<uint32_t> numbers;
  numbers.reserve(tasks.size());
  for (const TaskId task : tasks) numbers.push_back(task.value);
  return numbers;
}

/// "7:2:1:2 9:1:0:1": task, attempts, losses, last.
std::string TriedText(const std::vector<Tried>& tried) {
  std::string text;
  for (const Tried& each : tried)
    text += StrCat(text.empty() ? "" : " ", each.task.value, ":", each.attempts, ":", each.losses, ":", each.last);
  return text;
}

std::optional<std::vector<Tried>> ParseTried(std::string_view text) {
  std::vector<Tried> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (!all.empty() && *at++ != ' ') return {};
    uint32_t values[4] = {};
    for (int i = 0; i < 4; ++i) {
      if (i > 0 && (at == end || *at++ != ':')) return {};
      const auto [rest, error] = std::from_chars(at, end, values[i]);
      if (error != std::errc()) return {};
      at = rest;
    }
    all.push_back({TaskId(values[0]), values[1], values[2], values[3]});
  }
  return all;
}

journal::MoveRecord RecordOf(What what, const TaskOffer& offer, int64_t time_ns) {
  journal::MoveRecord record = {.what = what,
                                .giver = offer.id.giver,
                                .taker = offer.taker,
                                .number = offer.id.number,
                                .tasks = {},
                                .tried = {},
                                .time_ns = time_ns};
  if (what == What::kOffered || what == What::kTaken) {
    record.tasks = NumberList(NumbersOf(offer.tasks));
    record.tried = TriedText(offer.tried);
  }
  return record;
}

std::optional<TaskOffer> OfferOf(const journal::MoveRecord& record, size_t tasks) {
  const auto numbers = ParseNumberList(record.tasks, static_cast<uint32_t>(tasks));
  auto tried = ParseTried(record.tried);
  if (!numbers || !tried) return {};
  TaskOffer offer = {{record.giver, record.number}, record.taker, {}, *std::move(tried)};
  for (const uint32_t number : *numbers) offer.tasks.emplace_back(number);
  for (const Tried& each : offer.tried) {
    if (!std::binary_search(offer.tasks.begin(), offer.tasks.end(), each.task)) return {};
  }
  return offer;
}

}  // namespace

Result<Holdings> HoldingsOf(uint32_t part, const run::FirstOwners& first_owners,
                            const std::vector<journal::MoveRecord>& records) {
  const size_t tasks = first_owners.tasks();
  Holdings now;
  now.own = first_owners.Of(part);
  const auto damaged = [&](const journal::MoveRecord& record) {
    return Status(Code::kDamaged, StrCat("the journal of part ", part, " does not fit the run: move ", record.number,
                                         " of part ", record.giver, " cannot have been as it is recorded"));
  };
  // False: they are that already, or not.
  const auto set = [&](const TaskOffer& offer, bool own) {
    for (const TaskId task : offer.tasks) {
      if (now.own[task.value] == own) return false;
      now.own[task.value] = own;
      if (!own) now.tried.erase(task.value);
    }
    if (own) {
      for (const Tried& each : offer.tried) now.tried[each.task.value] = each;
    }
    return true;
  };
  for (const journal::MoveRecord& record : records) {
    if (journal::IsOfAllTasks(record)) {
      const auto all = ParseNumberList(record.tasks, static_cast<uint32_t>(tasks));
      if (!all) return damaged(record);
      // What was submitted since is whose server took it.
      now.own = first_owners.Of(part);
      for (const uint32_t task : *all) now.own[task] = true;
      now.pending.clear();
      now.taken.clear();
      now.tried.clear();
      now.gave = now.took = 0;
      continue;
    }
    const auto pending = now.pending.find(record.number);
    switch (record.what) {
      case What::kOffered: {
        const std::optional<TaskOffer> offer = OfferOf(record, tasks);
        if (!offer || record.giver != part || pending != now.pending.end() || !set(*offer, false)) return damaged(record);
        now.pending.emplace(record.number, *offer);
        now.last_number = std::max(now.last_number, record.number);
        break;
      }
      case What::kTaken: {
        const std::optional<TaskOffer> offer = OfferOf(record, tasks);
        if (!offer || record.taker != part || !now.taken.insert({record.giver, record.number}).second || !set(*offer, true))
          return damaged(record);
        now.took += offer->tasks.size();
        break;
      }
      case What::kConfirmed:
        if (pending == now.pending.end()) return damaged(record);
        now.gave += pending->second.tasks.size();
        now.pending.erase(pending);
        break;
      case What::kReturned:
        if (pending == now.pending.end() || !set(pending->second, true)) return damaged(record);
        now.pending.erase(pending);
        break;
      default:
        return damaged(record);
    }
  }
  return now;
}

void AddTried(const journal::History& history, int64_t session_start_ns, const std::unordered_map<uint32_t, Tried>& tried,
              const std::function<void(const Tried&)>& use) {
  std::unordered_map<uint32_t, Tried> all = tried;
  for (const journal::AttemptRecord& attempt : history.attempts) {
    if (attempt.end_ns < session_start_ns) continue;
    // What was made before it went away has come back with it.
    const auto came = tried.find(attempt.task.value);
    if (came != tried.end() && attempt.attempt <= came->second.last) continue;
    Tried& known = all.try_emplace(attempt.task.value, Tried{.task = attempt.task}).first->second;
    known.last = std::max(known.last, attempt.attempt);
    if (journal::IsContinued(attempt)) continue;
    ++known.attempts;
    known.losses += attempt.end == journal::End::kLost || attempt.end == journal::End::kInterrupted ? 1 : 0;
  }
  for (const auto& [task, each] : all) use(each);
}

std::vector<journal::MoveRecord> SealRecords(uint32_t part, const Holdings& holdings, const std::vector<bool>& settled,
                                             const std::unordered_map<uint32_t, Tried>& tried, uint32_t taker,
                                             const std::function<const Holdings*(uint32_t)>& over, int64_t time_ns) {
  std::vector<journal::MoveRecord> records;
  std::vector<bool> own = holdings.own;
  for (const auto& [number, offer] : holdings.pending) {
    const Holdings* other = offer.taker == part ? nullptr : over(offer.taker);
    if (other == nullptr) continue;
    const bool taken = other->taken.contains(offer.id);
    records.push_back(RecordOf(taken ? What::kConfirmed : What::kReturned, offer, time_ns));
    for (const TaskId task : offer.tasks) own[task.value] = own[task.value] || !taken;
  }
  TaskOffer rest = {{part, holdings.last_number + 1}, taker, {}, {}};
  for (uint32_t i = 0; i < own.size(); ++i) {
    if (!own[i] || settled[i]) continue;
    rest.tasks.emplace_back(i);
    if (const auto found = tried.find(i); found != tried.end()) rest.tried.push_back(found->second);
  }
  if (!rest.tasks.empty()) records.push_back(RecordOf(What::kOffered, rest, time_ns));
  return records;
}

void Moves::Restore(Holdings holdings) {
  for (auto& [number, offer] : holdings.pending) out_[number] = {std::move(offer), true, false};
  for (const OfferId& id : holdings.taken) taken_[id] = true;
  last_number_ = holdings.last_number;
  gave_ = holdings.gave;
  took_ = holdings.took;
}

void Moves::Record(journal::MoveRecord record, std::function<void()> then) {
  waiting_.push_back({hooks_.record(std::move(record)), std::move(then)});
}

void Moves::Committed(uint64_t sequence) {
  while (!waiting_.empty() && waiting_.front().sequence <= sequence) {
    const auto then = std::move(waiting_.front().then);
    waiting_.pop_front();
    then();
  }
}

uint64_t Moves::Give(uint32_t taker, std::vector<TaskId> tasks, std::vector<Tried> tried) {
  const uint64_t number = ++last_number_;
  Out& out = out_[number];
  out.offer = {{part_, number}, taker, std::move(tasks), std::move(tried)};
  Record(RecordOf(What::kOffered, out.offer, hooks_.now()), [this, number] {
    Out& now = out_.at(number);
    now.on_disk = true;
    if (const auto over = over_.find(now.offer.taker); over != over_.end()) return Settle(number, over->second);
    hooks_.offer(now.offer);
  });
  return number;
}

void Moves::Offered(const TaskOffer& offer, bool refuse) {
  const auto known = taken_.find(offer.id);
  if (known == taken_.end() && !refuse) return Take(offer);
  // Of one that is not on disk yet the answer follows.
  if (known == taken_.end() || known->second) hooks_.answer(offer.id, known != taken_.end());
}

void Moves::Take(const TaskOffer& offer) {
  taken_[offer.id] = false;
  Record(RecordOf(What::kTaken, offer, hooks_.now()), [this, offer] {
    taken_[offer.id] = true;
    took_ += offer.tasks.size();
    hooks_.own(offer.tasks, offer.tried);
    hooks_.answer(offer.id, true);
  });
}

void Moves::Answered(const OfferId& id, bool taken) {
  const auto found = out_.find(id.number);
  if (id.giver != part_ || found == out_.end() || !found->second.on_disk || found->second.ended) return;
  taken ? Confirm(id.number) : Return(id.number);
}

void Moves::Confirm(uint64_t number) {
  Out& out = out_.at(number);
  out.ended = true;
  gave_ += out.offer.tasks.size();
  Record(RecordOf(What::kConfirmed, out.offer, hooks_.now()), [this, number] { out_.erase(number); });
}

void Moves::Return(uint64_t number) {
  Out& out = out_.at(number);
  out.ended = true;
  Record(RecordOf(What::kReturned, out.offer, hooks_.now()), [this, number] {
    const auto back = out_.extract(number);
    hooks_.own(back.mapped().offer.tasks, back.mapped().offer.tried);
  });
}

void Moves::Connected(uint32_t part) {
  for (const auto& [number, out] : out_) {
    if (out.offer.taker == part && out.on_disk && !out.ended) hooks_.offer(out.offer);
  }
}

void Moves::PartOver(uint32_t part, const Holdings& holdings) {
  over_[part] = holdings.taken;
  std::vector<uint64_t> asked;
  for (const auto& [number, out] : out_) {
    if (out.offer.taker == part && out.on_disk && !out.ended) asked.push_back(number);
  }
  for (const uint64_t number : asked) Settle(number, holdings.taken);
  for (const auto& [number, offer] : holdings.pending) {
    if (offer.taker == part_ && !taken_.contains(offer.id)) Take(offer);
  }
}

void Moves::Settle(uint64_t number, const std::set<OfferId>& taken) {
  taken.contains(out_.at(number).offer.id) ? Confirm(number) : Return(number);
}

}  // namespace harrow::server
