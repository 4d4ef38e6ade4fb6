#include "server/part_watch.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "base/text.h"
#include "run/flow_store.h"
#include "unit/run/test_flow.h"

namespace harrow::server {
namespace {

/// A run of four tasks. The server that looks has part 1 or 2.
class PartWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-watch-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    path_ = name;
    const auto run = run_dir::RunDir::Open(path_);
    ASSERT_TRUE(run.ok());
    run_ = *run;
    flow_ = test::TinyFlow({{"a", "true"}, {"b", "true"}, {"c", "true"}, {"d", "true"}});
    flow_.settings.started = WallTime(std::chrono::seconds(7));
    ASSERT_TRUE(run::WriteFlow(*run_, path_, flow_.settings, flow_.graph, {}).ok());
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  run_dir::Part Part(uint32_t number, WallTime session = WallTime(std::chrono::seconds(7))) {
    const auto part = run_dir::MakePart(run_, StrCat(number));
    EXPECT_TRUE(part.ok());
    if (number > 0) {
      run::RunSettings settings = flow_.settings;
      settings.session = session;
      EXPECT_TRUE(run::WriteSettings(*part->dir, part->dir->path(), settings).ok());
    }
    return *part;
  }
  std::unique_ptr<journal::Journal> Journal(const run_dir::Part& part) {
    auto journal = journal::Journal::Open(part.dir, {.sync = false, .run_id = "run"});
    EXPECT_TRUE(journal.ok());
    return *std::move(journal);
  }
  PartWatch Watch(const run_dir::Part& part) {
    return PartWatch({.part = part,
                      .run_id = "run",
                      .flow_id = "run",
                      .session = flow_.settings.started,
                      .fence = std::chrono::seconds(30),
                      .sync_journal = false});
  }
  static journal::AttemptRecord Attempt(uint32_t task, uint32_t number, journal::End end, int code = 0) {
    journal::AttemptRecord attempt;
    attempt.task = TaskId(task);
    attempt.attempt = number;
    attempt.end = end;
    attempt.code = code;
    attempt.start_ns = attempt.end_ns = 8'000'000'000;
    return attempt;
  }
  static Time At(int seconds) { return Time(std::chrono::seconds(seconds)); }

  std::string path_;
  std::shared_ptr<run_dir::RunDir> run_;
  run::StoredFlow flow_;
};

TEST_F(PartWatchTest, SeesNobodyWhereNobodyIs) {
  const run_dir::Part self = Part(1);
  PartWatch watch = Watch(self);
  const PartWatch::Seen seen = watch.Look({}, 4, At(1));
  EXPECT_FALSE(seen.others);
  EXPECT_TRUE(seen.over.empty() && seen.servers.empty());
  EXPECT_EQ(seen.trouble, "");
}

TEST_F(PartWatchTest, SealsWhatNobodyOwnsAndTellsItOnce) {
  const run_dir::Part self = Part(1), other = Part(0);
  auto journal = Journal(other);
  journal->SetFact("started_ns", "7000000000");
  journal->Add(journal::FateRecord{TaskId(0), journal::TaskFate::kFailed, {}});
  journal->Add(Attempt(1, 1, journal::End::kExited));  // its server did not live to record its fate
  journal->Add(Attempt(2, 1, journal::End::kLost));
  journal->Add(Attempt(2, 3, journal::End::kExited, 1));
  ASSERT_TRUE(journal->Close().ok());
  PartWatch watch = Watch(self);
  const PartWatch::Seen seen = watch.Look({}, 4, At(1));
  EXPECT_TRUE(seen.others);
  EXPECT_EQ(seen.trouble, "");
  ASSERT_EQ(seen.over.size(), 1u);
  const auto& [part, what] = seen.over[0];
  EXPECT_EQ(part, 0u);
  using Fates = std::vector<std::pair<TaskId, journal::TaskFate>>;
  EXPECT_EQ(what.fates, (Fates{{TaskId(0), journal::TaskFate::kFailed}, {TaskId(1), journal::TaskFate::kDone}}));
  EXPECT_TRUE(what.endings.empty()) << "what failed was never tried";
  ASSERT_EQ(what.holdings.pending.size(), 1u);
  const TaskOffer& offer = what.holdings.pending.begin()->second;
  EXPECT_EQ(offer.taker, 1u);
  EXPECT_EQ(offer.tasks, (std::vector<TaskId>{TaskId(2), TaskId(3)}));
  EXPECT_EQ(offer.tried, (std::vector<Tried>{{TaskId(2), 2, 1, 3}}));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/0/owner")) << "it is let go again";
  const auto history = journal::ReadHistory(other.dir);
  ASSERT_TRUE(history.ok() && !history->sessions.empty());
  EXPECT_EQ(history->sessions.back().ended_ns, 8'000'000'000) << "when the last was heard of it";
  EXPECT_TRUE(watch.Look({}, 4, At(2)).over.empty());
  EXPECT_EQ(Watch(self).Look({}, 4, At(2)).over.size(), 1u) << "a server that is started again is told";
}

TEST_F(PartWatchTest, AReaderOfStreamsIsNotDoneByItsOwnSuccess) {
  const run_dir::Part self = Part(1), other = Part(0);
  auto journal = Journal(other);
  journal->SetFact("started_ns", "7000000000");
  journal->Add(Attempt(1, 1, journal::End::kExited));
  journal->Add(Attempt(2, 1, journal::End::kExited));
  ASSERT_TRUE(journal->Close().ok());
  PartWatch watch = Watch(self);
  watch.SetReaders({2, 3});
  const PartWatch::Seen seen = watch.Look({}, 4, At(1));
  ASSERT_EQ(seen.over.size(), 1u);
  using Fates = std::vector<std::pair<TaskId, journal::TaskFate>>;
  EXPECT_EQ(seen.over[0].second.fates, (Fates{{TaskId(1), journal::TaskFate::kDone}}));
}

TEST_F(PartWatchTest, LeavesToTheLowestThatIsThereWhatIsToBeSealed) {
  const run_dir::Part self = Part(2), lower = Part(1), other = Part(0);
  ASSERT_TRUE(Journal(other)->Close().ok());
  PartWatch watch = Watch(self);
  EXPECT_TRUE(watch.Look({1}, 4, At(1)).over.empty());
  const auto history = journal::ReadHistory(other.dir);
  EXPECT_TRUE(history->moves.empty());
  // The other one does it.
  PartWatch of_lower = Watch(lower);
  EXPECT_EQ(of_lower.Look({2}, 4, At(1)).over.size(), 1u);
  const PartWatch::Seen seen = watch.Look({1}, 4, At(2));
  ASSERT_EQ(seen.over.size(), 1u);
  EXPECT_EQ(seen.over[0].second.holdings.pending.begin()->second.taker, 1u);
}

TEST_F(PartWatchTest, TellsHowFailedTasksEnded) {
  const run_dir::Part self = Part(1), other = Part(0);
  auto journal = Journal(other);
  journal->Add(Attempt(0, 1, journal::End::kExited, 7));
  journal->Add(Attempt(0, 2, journal::End::kSignaled, 11));
  journal->Add(Attempt(1, 1, journal::End::kExited));
  journal->Add(Attempt(2, 1, journal::End::kExited, 1));  // is tried again
  journal->Add(journal::FateRecord{TaskId(0), journal::TaskFate::kFailed, {}});
  journal->Add(journal::FateRecord{TaskId(1), journal::TaskFate::kDone, {}});
  ASSERT_TRUE(journal->Close().ok());
  PartWatch watch = Watch(self);
  const PartWatch::Seen seen = watch.Look({}, 4, At(1));
  ASSERT_EQ(seen.over.size(), 1u);
  ASSERT_EQ(seen.over[0].second.endings.size(), 1u);
  EXPECT_EQ(seen.over[0].second.endings[0].task, TaskId(0));
  EXPECT_EQ(seen.over[0].second.endings[0].end, journal::End::kSignaled);
  EXPECT_EQ(seen.over[0].second.endings[0].code, 11);
}

/// An end that its server recorded stays.
TEST_F(PartWatchTest, ChangesNoEndThatIsRecorded) {
  const run_dir::Part self = Part(1), other = Part(0);
  auto journal = Journal(other);
  journal->SetFact("started_ns", "7000000000");
  journal->Add(Attempt(1, 1, journal::End::kExited));
  journal->SetFact("ended_ns", "9000000000");
  ASSERT_TRUE(journal->Close().ok());
  ASSERT_EQ(Watch(self).Look({}, 4, At(1)).over.size(), 1u);
  EXPECT_EQ(journal::ReadHistory(other.dir)->sessions.back().ended_ns, 9'000'000'000);
}

/// What cannot be written is told, and is not sealed.
TEST_F(PartWatchTest, TellsWhatCannotBeSealed) {
  const run_dir::Part self = Part(1), other = Part(0);
  ASSERT_TRUE(Journal(other)->Close().ok());
  // Somebody else's claim that nobody can know to be dead.
  run_dir::Owner elsewhere = run_dir::ThisProcess("");
  elsewhere.host = "elsewhere";
  ASSERT_TRUE(run_dir::TakeOwnership(*other.dir, other.dir->path(), elsewhere).ok());
  PartWatch watch = Watch(self);
  EXPECT_EQ(watch.Look({}, 4, At(1)).alive, 1u) << "it may live";
  std::filesystem::remove(path_ + "/0/owner");
  std::filesystem::resize_file(path_ + "/0/journal.db", 5000);
  const PartWatch::Seen seen = watch.Look({}, 4, At(2));
  EXPECT_NE(seen.trouble, "");
  EXPECT_TRUE(seen.over.empty());
  EXPECT_FALSE(seen.lowest);
}

/// What a part that sealed another one did not live to take is open to the next.
TEST_F(PartWatchTest, SealsAgainWhatWasOfferedToAPartThatIsOverAsWell) {
  const run_dir::Part self = Part(2), lower = Part(1), other = Part(0);
  ASSERT_TRUE(Journal(other)->Close().ok());
  ASSERT_EQ(Watch(lower).Look({2}, 4, At(1)).over.size(), 1u);
  ASSERT_TRUE(Journal(lower)->Close().ok());
  PartWatch watch = Watch(self);
  std::vector<TaskId> offered;
  for (int look = 1; look < 4; ++look) {
    for (const auto& [part, what] : watch.Look({}, 4, At(look)).over) {
      for (const auto& [number, offer] : what.holdings.pending) {
        if (offer.taker == 2) offered = offer.tasks;
      }
    }
  }
  EXPECT_EQ(offered.size(), 4u);
}

TEST_F(PartWatchTest, TouchesNothingOfWhoLivesOrOfAnotherSession) {
  const run_dir::Part self = Part(1), owned = Part(2), earlier = Part(3, WallTime(std::chrono::seconds(5)));
  ASSERT_TRUE(Journal(owned)->Close().ok());
  ASSERT_TRUE(Journal(earlier)->Close().ok());
  ASSERT_TRUE(run_dir::TakeOwnership(*owned.dir, owned.dir->path(), run_dir::ThisProcess("")).ok());
  PartWatch watch = Watch(self);
  const PartWatch::Seen seen = watch.Look({}, 4, At(1));
  EXPECT_TRUE(seen.others);
  EXPECT_TRUE(seen.over.empty());
  EXPECT_TRUE(watch.Look({2}, 4, At(100)).over.empty());
}

/// Where the first part is over, the lowest that goes on is known to be that: when all below it are sealed.
TEST_F(PartWatchTest, TheLowestThatGoesOnKnowsIt) {
  const run_dir::Part first = Part(0), self = Part(1), higher = Part(2);
  EXPECT_FALSE(Watch(self).Look({0, 2}, 4, At(1)).lowest);
  ASSERT_TRUE(Journal(first)->Close().ok());
  ASSERT_TRUE(Journal(higher)->Close().ok());
  EXPECT_TRUE(Watch(self).Look({2}, 4, At(1)).lowest);
  EXPECT_FALSE(Watch(higher).Look({1}, 4, At(1)).lowest);
  std::filesystem::resize_file(path_ + "/0/journal.db", 100);
  PartWatch watch = Watch(self);
  const PartWatch::Seen damaged = watch.Look({2}, 4, At(2));
  EXPECT_FALSE(damaged.lowest) << "it is not known whose its tasks are";
  EXPECT_NE(damaged.trouble.find("part 0: "), std::string::npos) << damaged.trouble;
}

/// What was submitted to a part that is over is its own, and open: nobody else has it.
TEST_F(PartWatchTest, TakesOverWhatWasSubmittedToAPartThatIsOver) {
  const run_dir::Part self = Part(2), other = Part(1);
  auto journal = Journal(other);
  journal->Add(journal::FateRecord{TaskId(4), journal::TaskFate::kDone, {}});
  ASSERT_TRUE(journal->Close().ok());
  run_dir::Rendezvous at;
  at.run_id = "run";
  at.addresses = {"x:1"};
  at.key = std::string(32, 'k');
  ASSERT_TRUE(run_dir::WriteRendezvous(*other.dir, other.dir->path(), at).ok());
  run::FirstOwners first(4);
  first.Add(1, 3);
  PartWatch watch = Watch(self);
  const PartWatch::Seen seen = watch.Look({}, first, At(1));
  ASSERT_EQ(seen.over.size(), 1u);
  ASSERT_EQ(seen.over[0].second.holdings.pending.size(), 1u);
  EXPECT_EQ(seen.over[0].second.holdings.pending.begin()->second.tasks, (std::vector<TaskId>{TaskId(5), TaskId(6)}));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/1/server")) << "nobody answers there any more";
}

/// The tasks of a keeper that died may run on for the fence.
TEST_F(PartWatchTest, WaitsForTheFenceWhereAnOwnerDied) {
  const run_dir::Part self = Part(1), other = Part(0);
  ASSERT_TRUE(Journal(other)->Close().ok());
  run_dir::Owner dead = run_dir::ThisProcess("");
  dead.process_start -= 1;
  ASSERT_TRUE(run_dir::TakeOwnership(*other.dir, other.dir->path(), dead).ok());
  PartWatch watch = Watch(self);
  EXPECT_TRUE(watch.Look({}, 4, At(1)).over.empty());
  EXPECT_TRUE(watch.Look({}, 4, At(30)).over.empty());
  EXPECT_EQ(watch.Look({}, 4, At(31)).over.size(), 1u);
}

/// Whoever comes later does not wait again, where one that sealed it died before it let it go.
TEST_F(PartWatchTest, LetsGoOfWhatWasSealed) {
  const run_dir::Part self = Part(1), other = Part(0);
  ASSERT_TRUE(Journal(other)->Close().ok());
  ASSERT_EQ(Watch(self).Look({}, 4, At(1)).over.size(), 1u);
  run_dir::Owner dead = run_dir::ThisProcess("");
  dead.process_start -= 1;
  ASSERT_TRUE(run_dir::TakeOwnership(*other.dir, other.dir->path(), dead).ok());
  PartWatch watch = Watch(self);
  EXPECT_TRUE(watch.Look({}, 4, At(1)).over.empty());
  ASSERT_EQ(watch.Look({}, 4, At(31)).over.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/0/owner"));
  EXPECT_TRUE(watch.Look({}, 4, At(32)).over.empty()) << "once is enough";
  EXPECT_EQ(Watch(self).Look({}, 4, At(1)).over.size(), 1u);
}

TEST_F(PartWatchTest, WaitsNotWhereItsJobIsOver) {
  const run_dir::Part self = Part(1), other = Part(0);
  ASSERT_TRUE(Journal(other)->Close().ok());
  run_dir::Owner dead = run_dir::ThisProcess("77");
  dead.host = "elsewhere";
  ASSERT_TRUE(run_dir::TakeOwnership(*other.dir, other.dir->path(), dead).ok());
  std::optional<bool> runs;
  PartWatch watch({.part = self,
                   .run_id = "run",
                   .flow_id = "run",
                   .session = flow_.settings.started,
                   .fence = std::chrono::seconds(30),
                   .job_alive = [&](const std::string& job) { return job == "77" ? runs : std::nullopt; },
                   .sync_journal = false});
  EXPECT_TRUE(watch.Look({}, 4, At(1)).over.empty());
  runs = true;
  EXPECT_TRUE(watch.Look({}, 4, At(2)).over.empty());
  runs = false;
  EXPECT_EQ(watch.Look({}, 4, At(3)).over.size(), 1u);
}

TEST_F(PartWatchTest, TellsWhereAServerCanBeReached) {
  const run_dir::Part self = Part(1), other = Part(0);
  ASSERT_TRUE(run_dir::TakeOwnership(*other.dir, other.dir->path(), run_dir::ThisProcess("")).ok());
  run_dir::Rendezvous at;
  at.run_id = "run";
  at.epoch = 3;
  at.addresses = {"127.0.0.1:1"};
  at.key = std::string(32, 'k');
  ASSERT_TRUE(run_dir::WriteRendezvous(*other.dir, other.dir->path(), at).ok());
  PartWatch watch = Watch(self);
  const PartWatch::Seen seen = watch.Look({}, 4, At(1));
  ASSERT_EQ(seen.servers.size(), 1u);
  EXPECT_EQ(seen.servers[0].part, 0u);
  EXPECT_EQ(seen.servers[0].at.addresses, at.addresses);
}

}  // namespace
}  // namespace harrow::server
