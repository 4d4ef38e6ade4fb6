#include "server/moves.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <variant>

namespace harrow::server {
namespace {

using What = journal::MoveRecord::What;
using journal::MoveRecord;

std::vector<TaskId> Tasks(std::initializer_list<uint32_t> numbers) {
  std::vector<TaskId> tasks;
  for (const uint32_t number : numbers) tasks.emplace_back(number);
  return tasks;
}

/// Moves of one part, with a journal whose disk the test plays.
struct One {
  explicit One(uint32_t part) : moves(part, {.record = [this](MoveRecord record) {
                                     records.push_back(std::move(record));
                                     return uint64_t{records.size()};
                                   },
                                   .offer = [this](const TaskOffer& offer) { offers.push_back(offer); },
                                   .answer = [this](const OfferId& id, bool taken) { answers.emplace_back(id, taken); },
                                   .own = [this](const std::vector<TaskId>& tasks, const std::vector<Tried>& tried) {
                                     owned.insert(owned.end(), tasks.begin(), tasks.end());
                                     known.insert(known.end(), tried.begin(), tried.end());
                                   },
                                   .now = [] { return int64_t{5}; }}) {}
  void Sync() { moves.Committed(records.size()); }

  std::vector<MoveRecord> records;
  std::vector<TaskOffer> offers;
  std::vector<std::pair<OfferId, bool>> answers;
  std::vector<TaskId> owned;
  std::vector<Tried> known;
  Moves moves;
};

TEST(Moves, OfferWhatIsOnDiskOnly) {
  One giver(0);
  EXPECT_EQ(giver.moves.Give(1, Tasks({3, 4, 7}), {{TaskId(4), 2, 1, 3}}), 1u);
  EXPECT_TRUE(giver.offers.empty());
  giver.moves.Connected(1);
  EXPECT_TRUE(giver.offers.empty());
  giver.Sync();
  ASSERT_EQ(giver.offers.size(), 1u);
  EXPECT_EQ(giver.offers[0], (TaskOffer{{0, 1}, 1, Tasks({3, 4, 7}), {{TaskId(4), 2, 1, 3}}}));
  EXPECT_EQ(giver.records[0], (MoveRecord{.what = What::kOffered, .giver = 0, .taker = 1, .number = 1, .tasks = "3-4,7",
                                          .tried = "4:2:1:3", .time_ns = 5}));
  EXPECT_FALSE(giver.moves.idle());
}

TEST(Moves, ATakerHasTasksAndSaysSoWhenThatIsOnDisk) {
  One taker(1);
  const TaskOffer offer = {{0, 1}, 1, Tasks({3}), {{TaskId(3), 2, 1, 3}}};
  taker.moves.Offered(offer, false);
  taker.moves.Offered(offer, true);  // again, meanwhile
  EXPECT_TRUE(taker.owned.empty() && taker.answers.empty());
  taker.Sync();
  EXPECT_EQ(taker.owned, Tasks({3}));
  EXPECT_EQ(taker.known, offer.tried);
  EXPECT_EQ(taker.answers, (std::vector<std::pair<OfferId, bool>>{{{0, 1}, true}}));
  taker.moves.Offered(offer, true);  // the answer was lost
  EXPECT_EQ(taker.answers.size(), 2u);
  EXPECT_TRUE(taker.answers[1].second);
  EXPECT_EQ(taker.owned.size(), 1u);
  EXPECT_EQ(taker.records.size(), 1u);
  EXPECT_EQ(taker.moves.took(), 1u);
}

TEST(Moves, WhatIsRefusedIsTheGiversAgainWhenThatIsOnDisk) {
  One giver(0), taker(1);
  giver.moves.Give(1, Tasks({3}), {});
  giver.Sync();
  taker.moves.Offered(giver.offers[0], true);
  EXPECT_TRUE(taker.records.empty());
  ASSERT_EQ(taker.answers, (std::vector<std::pair<OfferId, bool>>{{{0, 1}, false}}));
  giver.moves.Answered({0, 1}, false);
  giver.moves.Answered({0, 1}, false);
  EXPECT_TRUE(giver.owned.empty());
  giver.moves.Connected(1);
  EXPECT_EQ(giver.offers.size(), 1u) << "it is not offered again";
  giver.Sync();
  EXPECT_EQ(giver.owned, Tasks({3}));
  EXPECT_EQ(giver.moves.gave(), 0u);
  EXPECT_TRUE(giver.moves.idle());
  EXPECT_EQ(giver.records.size(), 2u);
}

TEST(Moves, AnOfferIsMadeAgainUntilItIsAnswered) {
  One giver(0);
  giver.moves.Give(1, Tasks({3}), {});
  giver.moves.Give(2, Tasks({4}), {});
  giver.Sync();
  giver.moves.Connected(1);
  ASSERT_EQ(giver.offers.size(), 3u);
  EXPECT_EQ(giver.offers[2].tasks, Tasks({3}));
  giver.moves.Answered({0, 1}, true);
  giver.moves.Answered({1, 2}, true);  // somebody else's
  giver.moves.Answered({0, 9}, true);  // nobody's
  giver.moves.Connected(1);
  EXPECT_EQ(giver.offers.size(), 3u);
  EXPECT_EQ(giver.moves.gave(), 1u);
  giver.Sync();
  EXPECT_EQ(giver.moves.out().size(), 1u);
  EXPECT_TRUE(giver.owned.empty());
}

TEST(Moves, WhatIsOfferedToAPartThatIsOverComesBackAtOnce) {
  One giver(0);
  giver.moves.Give(1, Tasks({3}), {});
  giver.moves.PartOver(1, {});
  EXPECT_TRUE(giver.owned.empty());
  giver.Sync();
  EXPECT_TRUE(giver.offers.empty());
  giver.Sync();
  EXPECT_EQ(giver.owned, Tasks({3}));
}

TEST(Holdings, AreWhatTheRecordsSay) {
  const std::vector<MoveRecord> records = {
      {.what = What::kOffered, .giver = 0, .taker = 1, .number = 1, .tasks = "0-2"},
      {.what = What::kOffered, .giver = 0, .taker = 2, .number = 2, .tasks = "3"},
      {.what = What::kConfirmed, .giver = 0, .taker = 1, .number = 1},
      {.what = What::kTaken, .giver = 1, .taker = 0, .number = 7, .tasks = "1", .tried = "1:2:0:2"},
      {.what = What::kOffered, .giver = 0, .taker = 1, .number = 4, .tasks = "4"},
      {.what = What::kReturned, .giver = 0, .taker = 1, .number = 4}};
  const Result<Holdings> first = HoldingsOf(0, 6, records);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->own, (std::vector<bool>{false, true, false, false, true, true}));
  ASSERT_EQ(first->pending.size(), 1u);
  EXPECT_EQ(first->pending.at(2).tasks, Tasks({3}));
  EXPECT_EQ(first->taken, (std::set<OfferId>{{1, 7}}));
  EXPECT_EQ(first->tried.at(1), (Tried{TaskId(1), 2, 0, 2}));
  EXPECT_EQ(first->last_number, 4u);
  EXPECT_EQ(first->gave, 3u);
  EXPECT_EQ(first->took, 1u);
  EXPECT_EQ(HoldingsOf(1, 6, {})->own, std::vector<bool>(6, false));
  std::vector<MoveRecord> again = records;
  again.push_back(journal::HasAllTasks(0, 6, 9));
  const Result<Holdings> resumed = HoldingsOf(0, 6, again);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->own, std::vector<bool>(6, true));
  EXPECT_TRUE(resumed->pending.empty() && resumed->taken.empty() && resumed->tried.empty());
  EXPECT_EQ(resumed->gave + resumed->took, 0u);
  EXPECT_EQ(resumed->last_number, 4u) << "numbers are not used again";
}

/// Of what was submitted to another server than the first, also after a resume.
TEST(Holdings, BeginWithWhatOnesServerTook) {
  run::FirstOwners first(2);
  first.Add(2, 3);
  first.Add(2, 1);
  first.Add(0, 1);
  first.Add(5, 0);
  EXPECT_EQ(first.tasks(), 7u);
  EXPECT_EQ(HoldingsOf(0, first, {})->own, (std::vector<bool>{true, true, false, false, false, false, true}));
  EXPECT_EQ(HoldingsOf(2, first, {})->own, (std::vector<bool>{false, false, true, true, true, true, false}));
  EXPECT_EQ(HoldingsOf(1, first, {})->own, std::vector<bool>(7, false));
  const std::vector<MoveRecord> resumed = {journal::HasAllTasks(0, 4, 9)};
  EXPECT_EQ(HoldingsOf(0, first, resumed)->own, (std::vector<bool>{true, true, true, true, false, false, true}));
  std::vector<MoveRecord> gives = {{.what = What::kOffered, .giver = 2, .taker = 0, .number = 1, .tasks = "3-4"}};
  EXPECT_EQ(HoldingsOf(2, first, gives)->own, (std::vector<bool>{false, false, true, false, false, true, false}));
}

TEST(Holdings, ThatContradictThemselvesAreDamaged) {
  const MoveRecord offered = {.what = What::kOffered, .giver = 0, .taker = 1, .number = 1, .tasks = "0"};
  const MoveRecord taken = {.what = What::kTaken, .giver = 0, .taker = 1, .number = 1, .tasks = "0"};
  const auto code = [](uint32_t part, const std::vector<MoveRecord>& records) {
    return HoldingsOf(part, 2, records).status().code();
  };
  EXPECT_EQ(code(0, {offered}), Code::kOk);
  EXPECT_EQ(code(1, {taken}), Code::kOk);
  EXPECT_EQ(code(1, {offered}), Code::kDamaged) << "not its offer";
  EXPECT_EQ(code(0, {taken}), Code::kDamaged) << "not its to take";
  EXPECT_EQ(code(0, {offered, offered}), Code::kDamaged);
  EXPECT_EQ(code(1, {taken, taken}), Code::kDamaged);
  MoveRecord second = offered;
  second.number = 2;
  EXPECT_EQ(code(0, {offered, second}), Code::kDamaged) << "it had the task no more";
  for (const What end : {What::kConfirmed, What::kReturned})
    EXPECT_EQ(code(0, {{.what = end, .giver = 0, .taker = 1, .number = 1}}), Code::kDamaged);
  MoveRecord beyond = offered;
  beyond.tasks = "2";
  EXPECT_EQ(code(0, {beyond}), Code::kDamaged);
  beyond.tasks = "0";
  for (const char* tried : {"1:1:1:1", "0:1:1", "0:1:1:1:1", "0:1:1:1 ", "x"}) {
    beyond.tried = tried;
    EXPECT_EQ(code(0, {beyond}), Code::kDamaged) << tried;
  }
}

/// Servers that are cut off, killed, started again, and gone for good, at random.
class Parts {
 public:
  explicit Parts(uint64_t seed) : random_(seed) {
    for (uint32_t i = 0; i < kParts; ++i) {
      parts_.push_back(std::make_unique<Server>());
      Start(i);
    }
    Begun(0);
  }

  void Step() {
    const uint32_t i = Draw(kParts), j = Draw(kParts);
    Server& server = *parts_[i];
    switch (Draw(12)) {
      case 0:
      case 1:
        return GiveSome(i, j);
      case 2:
      case 3:
      case 4:
        return Deliver(i, j);
      case 5:
      case 6:
      case 7:
        return Commit(i);
      case 8:
        return Cut(i, j);
      case 9:
        if (server.moves && Draw(4) == 0) Restart(i);
        return;
      case 10:
        if (server.moves && Live() > 1 && Draw(25) == 0) Die(i);
        return;
      default:
        return Look(i);
    }
  }
  /// Until nothing is under way: all tasks are somebody's.
  void Finish() {
    for (int round = 0; round < 50; ++round) {
      for (uint32_t i = 0; i < kParts; ++i) {
        Look(i);
        Commit(i);
        for (uint32_t j = 0; j < kParts; ++j) {
          for (size_t n = parts_[i]->to[j].size(); n > 0; --n) Deliver(i, j);
        }
      }
    }
    for (uint32_t task = 0; task < kTasks; ++task) EXPECT_EQ(Owners(task), 1) << "of task " << task;
    for (const auto& server : parts_) EXPECT_TRUE(!server->moves || server->moves->idle());
  }
  void Check() {
    for (uint32_t task = 0; task < kTasks; ++task) ASSERT_LE(Owners(task), 1) << "of task " << task;
    for (uint32_t i = 0; i < kParts; ++i) ASSERT_TRUE(HoldingsOf(i, kTasks, parts_[i]->journal).ok());
  }

 private:
  static constexpr uint32_t kParts = 4, kTasks = 24;
  struct Answer {
    OfferId id;
    bool taken;
  };
  struct Server {
    std::vector<MoveRecord> journal;  // on disk
    std::vector<MoveRecord> queued;
    std::unique_ptr<Moves> moves;     // null: it is over
    bool sealed = false;
    std::set<uint32_t> knows;         // parts that are over
    std::set<uint32_t> has;
    std::map<uint32_t, Tried> tried;
    std::map<uint32_t, std::vector<std::variant<TaskOffer, Answer>>> to;
  };

  uint32_t Draw(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  size_t Live() const {
    return static_cast<size_t>(std::count_if(parts_.begin(), parts_.end(), [](const auto& s) { return s->moves != nullptr; }));
  }
  int Owners(uint32_t task) const {
    int owners = 0;
    for (const auto& server : parts_) owners += server->moves && server->has.contains(task) ? 1 : 0;
    return owners;
  }

  void Start(uint32_t i) {
    Server& server = *parts_[i];
    server.queued.clear();
    server.to.clear();
    for (auto& other : parts_) other->to.erase(i);
    server.moves = std::make_unique<Moves>(
        i, Moves::Hooks{.record = [&server](MoveRecord record) {
                          server.queued.push_back(std::move(record));
                          return uint64_t{server.journal.size() + server.queued.size()};
                        },
                        .offer = [&server](const TaskOffer& offer) { server.to[offer.taker].push_back(offer); },
                        .answer = [&server](const OfferId& id, bool taken) { server.to[id.giver].push_back(Answer{id, taken}); },
                        .own = [&server](const std::vector<TaskId>& tasks, const std::vector<Tried>& tried) {
                          for (const TaskId task : tasks) EXPECT_TRUE(server.has.insert(task.value).second);
                          for (const Tried& each : tried) server.tried[each.task.value] = each;
                        },
                        .now = [] { return int64_t{0}; }});
    Begun(i);
  }
  void Begun(uint32_t i) {
    Server& server = *parts_[i];
    const Result<Holdings> holdings = HoldingsOf(i, kTasks, server.journal);
    ASSERT_TRUE(holdings.ok());
    server.has.clear();
    server.tried.clear();
    server.knows.clear();
    for (uint32_t task = 0; task < kTasks; ++task) {
      if (holdings->own[task]) server.has.insert(task);
    }
    for (const auto& [task, tried] : holdings->tried) server.tried[task] = tried;
    server.moves->Restore(*holdings);
  }
  void GiveSome(uint32_t i, uint32_t j) {
    Server& server = *parts_[i];
    if (!server.moves || i == j || server.has.empty() || server.knows.contains(j)) return;
    std::vector<TaskId> tasks;
    std::vector<Tried> tried;
    for (const uint32_t task : std::set<uint32_t>(server.has)) {
      if (Draw(3) != 0) continue;
      tasks.emplace_back(task);
      server.has.erase(task);
      Tried& known = server.tried[task];
      known = {TaskId(task), known.attempts + 1, known.losses, known.last + 1};
      tried.push_back(known);
      server.tried.erase(task);
    }
    if (!tasks.empty()) server.moves->Give(j, tasks, tried);
  }
  void Deliver(uint32_t from, uint32_t to) {
    auto& queue = parts_[from]->to[to];
    if (queue.empty() || !parts_[to]->moves || !parts_[from]->moves) return;
    const auto message = queue.front();
    queue.erase(queue.begin());
    if (const auto* offer = std::get_if<TaskOffer>(&message)) {
      parts_[to]->moves->Offered(*offer, Draw(4) == 0);
    } else {
      const Answer answer = std::get<Answer>(message);
      parts_[to]->moves->Answered(answer.id, answer.taken);
    }
  }
  void Commit(uint32_t i) {
    Server& server = *parts_[i];
    if (!server.moves) return;
    server.journal.insert(server.journal.end(), server.queued.begin(), server.queued.end());
    server.queued.clear();
    server.moves->Committed(server.journal.size());
  }
  void Cut(uint32_t i, uint32_t j) {
    if (i == j || !parts_[i]->moves || !parts_[j]->moves) return;
    parts_[i]->to.erase(j);
    parts_[j]->to.erase(i);
    parts_[i]->moves->Connected(j);
    parts_[j]->moves->Connected(i);
  }
  void Restart(uint32_t i) {
    Start(i);
    for (uint32_t j = 0; j < kParts; ++j) Cut(i, j);
  }
  void Die(uint32_t i) {
    Server& server = *parts_[i];
    server.moves.reset();
    server.queued.clear();
    server.to.clear();
    server.has.clear();
    for (auto& other : parts_) other->to.erase(i);
  }
  std::optional<Holdings> HoldingsAt(uint32_t i) const { return *HoldingsOf(i, kTasks, parts_[i]->journal); }
  /// A server looks for parts that are over: seals what is to be sealed, and heeds what is.
  void Look(uint32_t i) {
    Server& server = *parts_[i];
    if (!server.moves) return;
    for (uint32_t j = 0; j < kParts; ++j) {
      Server& other = *parts_[j];
      if (other.moves) continue;
      std::map<uint32_t, Holdings> over;
      for (uint32_t k = 0; k < kParts; ++k) {
        if (parts_[k]->sealed && k != j) over[k] = *HoldingsAt(k);
      }
      const Holdings holdings = *HoldingsAt(j);
      const bool again = std::any_of(holdings.pending.begin(), holdings.pending.end(),
                                     [&](const auto& each) { return over.contains(each.second.taker); });
      if (!other.sealed || again) {
        for (MoveRecord& record : SealRecords(
                 j, holdings, std::vector<bool>(kTasks), holdings.tried, i,
                 [&](uint32_t part) { return over.contains(part) ? &over.at(part) : nullptr; }, 0))
          other.journal.push_back(std::move(record));
        other.sealed = true;
        if (Draw(8) == 0) return;  // a crash could have come here
      }
      // What was offered here since the last time is to be taken, too.
      server.knows.insert(j);
      server.moves->PartOver(j, *HoldingsAt(j));
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Server>> parts_;
};

TEST(Moves, WhatWasTriedOfATaskIsAddedUp) {
  const auto attempt = [](uint32_t task, uint32_t number, journal::End end, int64_t end_ns = 100) {
    journal::AttemptRecord record;
    record.task = TaskId(task);
    record.attempt = number;
    record.end = end;
    record.end_ns = end_ns;
    return record;
  };
  journal::History history;
  history.attempts = {attempt(0, 1, journal::End::kExited, 49),  // of an earlier session
                      attempt(0, 2, journal::End::kExited, 50), attempt(0, 3, journal::End::kLost),
                      attempt(0, 5, journal::End::kInterrupted),
                      // It came when it had had four.
                      attempt(1, 3, journal::End::kLost), attempt(1, 4, journal::End::kLost), attempt(1, 5, journal::End::kExited)};
  std::map<uint32_t, Tried> found;
  AddTried(history, 50, {{1, {TaskId(1), 2, 1, 4}}, {2, {TaskId(2), 7, 3, 9}}}, [&](const Tried& each) { found[each.task.value] = each; });
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], (Tried{TaskId(0), 3, 2, 5}));
  EXPECT_EQ(found[1], (Tried{TaskId(1), 3, 1, 5}));
  EXPECT_EQ(found[2], (Tried{TaskId(2), 7, 3, 9})) << "nothing was tried here";
}

TEST(Moves, EachTaskIsOneServersWhateverDies) {
  const char* given = getenv("HARROW_TEST_SEED");
  const uint64_t first = given != nullptr ? strtoull(given, nullptr, 10) : std::random_device{}();
  for (uint64_t seed = first; seed < first + (getenv("HARROW_LONG") != nullptr ? 2000 : 80); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Parts parts(seed);
    for (int i = 0; i < 400; ++i) {
      parts.Step();
      parts.Check();
      if (testing::Test::HasFatalFailure()) return;
    }
    parts.Finish();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace harrow::server
