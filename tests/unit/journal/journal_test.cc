#include "journal/journal.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <set>
#include <sqlite3.h>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

#include "journal/hash.h"
#include "journal/store.h"
#include "unit/journal/journal_files.h"

static std::atomic<int> syncs_of_wal = 0;

static int CountedSync(long call, int fd) {
  char link[64], path[4096] = {};
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) > 0 && std::string_view(path).ends_with("/journal.db-wal"))
    ++syncs_of_wal;
  return static_cast<int>(syscall(call, fd));
}

// In place of the C library's, also for SQLite.
extern "C" __attribute__((visibility("default"))) int fdatasync(int fd) {
  return CountedSync(SYS_fdatasync, fd);
}
extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  return CountedSync(SYS_fsync, fd);
}

namespace harrow::journal {
namespace {

using test::JournalDir;

// Journals of other releases hold it.
TEST(Chain, OfKnownRecordsIsTheSameInEveryRelease) {
  Chain chain;
  chain.Add(7);
  chain.Add("text");
  EXPECT_EQ(chain.EndGroup(), 1057262306169994498u);
  chain.Add(-1);
  EXPECT_EQ(chain.EndGroup(), 3941048645992807854u);
  for (int64_t i = 0; i < 20'000; ++i) chain.Add(i);  // more than is kept
  chain.Add(std::string(100'000, 'x'));
  EXPECT_EQ(chain.EndGroup(), 11470541381496993835u);
}

TEST(Records, SayNothingThatNobodyTold) {
  const AttemptRecord attempt;
  EXPECT_EQ(attempt.attempt, 0u);
  EXPECT_FALSE(attempt.output_truncated);
  EXPECT_FALSE(PartRecord().output_truncated);
  const PartRecord part;
  for (const int64_t figure :
       {int64_t{part.code}, part.start_ns, part.end_ns, part.user_us, part.system_us, part.max_rss_kib,
        int64_t{part.attempt}, int64_t{part.part}, int64_t{part.nodes}, int64_t{part.ranks}, part.failed_ns})
    EXPECT_EQ(figure, 0);
  for (const uint64_t figure :
       {uint64_t{part.output_file}, part.output_offset, part.stdout_bytes, part.stderr_bytes})
    EXPECT_EQ(figure, 0u);
  for (const int64_t figure :
       {int64_t{attempt.code}, attempt.start_ns, attempt.end_ns, attempt.user_us, attempt.system_us,
        attempt.max_rss_kib, attempt.local_bytes, attempt.remote_bytes, attempt.home_bytes})
    EXPECT_EQ(figure, 0);
  for (const uint64_t figure :
       {uint64_t{attempt.output_file}, attempt.output_offset, attempt.stdout_bytes, attempt.stderr_bytes})
    EXPECT_EQ(figure, 0u);
  const TaskRecord task;
  EXPECT_EQ(task.identity_high + task.identity_low + static_cast<uint64_t>(task.level), 0u);
  EXPECT_EQ(task.cores, 1u);
  const NodeRecord node;
  EXPECT_EQ(node.slots + node.incarnation + node.output_file, 0u);
  EXPECT_EQ(node.joined_ns + node.left_ns, 0);
  EXPECT_EQ(History().epoch + History().format, 0u);
  const Allocation allocation;
  EXPECT_EQ(allocation.part + allocation.nodes + allocation.messages, 0u);
  EXPECT_EQ(allocation.began_ns + allocation.ended_ns, 0);
  const Journal::Options options;
  EXPECT_EQ(options.group_time, std::chrono::milliseconds(100));
  EXPECT_TRUE(options.sync);
  EXPECT_EQ(options.epoch, 1u);
}

TEST(Journal, ReadsBackEveryField) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  JournalDir dir;
  test::RecordMaker make(seed);
  History wrote = make.Write(dir.path(), {.run_id = "run", .epoch = 1}, 500);
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  test::ExpectEqual(*got, wrote);
  EXPECT_EQ(got->run_id, "run");
  EXPECT_EQ(got->epoch, 1u);
  EXPECT_EQ(got->format, kJournalFormat);
}

TEST(Journal, ClosedLeavesOneDatabaseWithoutWal) {
  JournalDir dir;
  test::RecordMaker make(1);
  make.Write(dir.path(), {.run_id = "run"}, 10);
  EXPECT_EQ(dir.Files(), (std::vector<std::string>{"journal.acknowledged", "journal.db"}));
  // The database alone is enough.
  std::filesystem::remove(dir.path() + "/journal.acknowledged");
  EXPECT_TRUE(ReadHistory(dir.path()).ok());
}

/// sqlite3 and others would take the WAL for one that a dead program left.
TEST(Journal, WhileItIsWrittenOtherProgramsFindItLocked) {
  JournalDir dir;
  test::RecordMaker make(4);
  History wrote;
  const auto look = [&] {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(dir.File("journal.db").c_str(), &db), SQLITE_OK);
    const int found = sqlite3_exec(db, "SELECT * FROM task", nullptr, nullptr, nullptr);
    sqlite3_close(db);
    return found;
  };
  auto journal = Journal::Open(dir.path(), {.run_id = "run"});
  ASSERT_TRUE(journal.ok()) << journal.status().message();
  make.AddTasks(**journal, 10, &wrote);
  ASSERT_TRUE((*journal)->Flush().ok());
  EXPECT_EQ(look(), SQLITE_BUSY);
  EXPECT_TRUE(std::filesystem::exists(dir.File("journal.db-wal")));
  make.AddSome(**journal, 10, &wrote);
  ASSERT_TRUE((*journal)->Flush().ok());
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  test::ExpectEqual(*got, wrote);
  ASSERT_TRUE((*journal)->Close().ok());
  EXPECT_EQ(look(), SQLITE_OK);
}

TEST(Journal, IsNotWrittenWhileAnotherProgramReadsIt) {
  JournalDir dir;
  test::RecordMaker make(5);
  make.Write(dir.path(), {.run_id = "run", .epoch = 1}, 10);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(dir.File("journal.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN; SELECT * FROM task", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto meanwhile = Journal::Open(dir.path(), {.run_id = "run", .epoch = 2});
  EXPECT_EQ(meanwhile.status().code(), Code::kUnavailable);
  EXPECT_THAT(meanwhile.status().message(), testing::HasSubstr("another program has"));
  sqlite3_close(db);
  EXPECT_TRUE(Journal::Open(dir.path(), {.run_id = "run", .epoch = 2}).ok());
}

TEST(Journal, OfAServerThatDidNothingIsWhole) {
  JournalDir dir;
  ASSERT_TRUE((*Journal::Open(dir.path(), {.run_id = "run"}))->Close().ok());
  const Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->run_id, "run");
}

TEST(Journal, AbsentIsNotFound) {
  JournalDir dir;
  EXPECT_EQ(ReadHistory(dir.path()).status().code(), Code::kNotFound);
  EXPECT_EQ(ReadHistory(dir.path() + "/nowhere").status().code(), Code::kNotFound);
}

TEST(Journal, WhatIsFlushedIsThereWhenTheServerDies) {
  JournalDir dir, killed;
  auto journal = Journal::Open(dir.path(), {.run_id = "run"});
  ASSERT_TRUE(journal.ok()) << journal.status().message();
  test::RecordMaker make(2);
  History wrote;
  make.AddTasks(**journal, 100, &wrote);
  for (int i = 0; i < 5; ++i) {
    make.AddSome(**journal, 40, &wrote);
    ASSERT_TRUE((*journal)->Flush().ok());
    killed.CopyFrom(dir);
    auto before = killed.Contents();
    Result<History> got = ReadHistory(killed.path());
    ASSERT_TRUE(got.ok()) << got.status().message();
    test::ExpectEqual(*got, wrote);
    EXPECT_TRUE(killed.Contents() == before) << "reading changed the files";
  }
}

TEST(Journal, NextServerGoesOnWithALargerEpoch) {
  JournalDir dir;
  test::RecordMaker make(3);
  History wrote;
  for (uint64_t epoch = 1; epoch <= 4; ++epoch) {
    History found;
    auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = epoch}, &found);
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    test::ExpectEqual(found, wrote);
    EXPECT_EQ(found.epoch, epoch - 1);
    make.AddTasks(**journal, 50, &wrote);
    make.AddSome(**journal, 30, &wrote);
    if (epoch % 2 == 0) {
      ASSERT_TRUE((*journal)->Close().ok());
    } else {
      journal->reset();  // the WAL stays
    }
  }
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  test::ExpectEqual(*got, wrote);
  EXPECT_EQ(got->epoch, 4u);
  EXPECT_EQ(Journal::Open(dir.path(), {.run_id = "run", .epoch = 4}).status().code(), Code::kInvalid);
  EXPECT_EQ(Journal::Open(dir.path(), {.run_id = "other", .epoch = 9}).status().code(), Code::kInvalid);
}

TEST(Journal, SequencesAreCommittedInOrderAndAllOfThem) {
  JournalDir dir;
  auto journal = Journal::Open(dir.path(), {.group_time = Duration(0), .run_id = "run"});
  ASSERT_TRUE(journal.ok());
  std::mutex mutex;
  std::vector<uint64_t> committed;
  (*journal)->SetCallbacks(
      [&](uint64_t sequence) {
        std::lock_guard lock(mutex);
        committed.push_back(sequence);
      },
      [](Status why) { ADD_FAILURE() << why.message(); });
  test::RecordMaker make(4);
  History wrote;
  uint64_t last = 0;
  make.AddTasks(**journal, 30000, &wrote);
  for (int i = 0; i < 2000; ++i) last = (*journal)->Add(make.Attempt());
  EXPECT_EQ(last, 2001u);
  ASSERT_TRUE((*journal)->Close().ok());
  ASSERT_FALSE(committed.empty());
  EXPECT_EQ(committed.back(), last);
  EXPECT_EQ(std::set(committed.begin(), committed.end()).size(), committed.size());
  EXPECT_TRUE(std::is_sorted(committed.begin(), committed.end()));
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->tasks.size(), 30000u);
  EXPECT_EQ(got->attempts.size(), 2000u);
}

TEST(Journal, WhatIsCommittedIsReadableAtThatMoment) {
  JournalDir dir;
  auto journal = Journal::Open(dir.path(), {.group_time = Duration(0), .run_id = "run"});
  ASSERT_TRUE(journal.ok());
  // The callback runs on the writing thread, so nothing changes while it copies and reads.
  (*journal)->SetCallbacks(
      [&](uint64_t sequence) {
        JournalDir copy;
        copy.CopyFrom(dir);
        Result<History> got = ReadHistory(copy.path());
        ASSERT_TRUE(got.ok()) << got.status().message();
        EXPECT_GE(got->attempts.size(), sequence);
      },
      [](Status why) { ADD_FAILURE() << why.message(); });
  test::RecordMaker make(5);
  for (int i = 0; i < 200; ++i) {
    (*journal)->Add(make.Attempt());
    if (i % 10 == 0) {
      ASSERT_TRUE((*journal)->Flush().ok());
    }
  }
  ASSERT_TRUE((*journal)->Close().ok());
}

TEST(Journal, WhatSomebodyWaitsForDoesNotWaitForItsGroup) {
  JournalDir dir;
  test::RecordMaker make(5);
  History wrote;
  {
    auto journal = Journal::Open(dir.path(), {.group_time = std::chrono::hours(1), .run_id = "run"});
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    for (int i = 0; i < 3; ++i) {  // only the first finds the thread rested
      make.AddSome(**journal, 1, &wrote);
      ASSERT_TRUE((*journal)->Flush().ok());
    }
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t committed = 0;
    (*journal)->SetCallbacks(
        [&](uint64_t sequence) {
          std::lock_guard lock(mutex);
          committed = sequence;
          changed.notify_one();
        },
        nullptr);
    const uint64_t tasks = (*journal)->Add(std::vector{wrote.tasks.emplace_back(make.Task())});
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return committed >= tasks; }));
    lock.unlock();
    make.AddSome(**journal, 1, &wrote);  // and the journal is left as it is
  }
  const Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  test::ExpectEqual(*got, wrote);
}

TEST(Journal, ARecordIsCommittedThoughNobodyWaitsForItNorAnotherFollows) {
  JournalDir dir;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t committed = 0;
  auto journal = Journal::Open(dir.path(), {.group_time = Duration(0), .sync = false, .run_id = "run"});
  ASSERT_TRUE(journal.ok()) << journal.status().message();
  (*journal)->SetCallbacks(
      [&](uint64_t sequence) {
        std::lock_guard lock(mutex);
        committed = sequence;
        changed.notify_one();
      },
      nullptr);
  test::RecordMaker make(8);
  for (int i = 0; i < 100; ++i) {  // the thread has come to rest before most of them
    const uint64_t sequence = (*journal)->Add(make.Fate());
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return committed >= sequence; }));
  }
}

TEST(Journal, TasksThatAreThereArePassedOver) {
  JournalDir dir;
  test::RecordMaker make(6);
  std::vector<TaskRecord> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(make.Task());
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = epoch});
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    (*journal)->Add(std::vector(tasks.begin(), tasks.begin() + 40 * static_cast<long>(epoch) - 20));
    EXPECT_TRUE((*journal)->Close().ok());
  }
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->tasks, tasks);
}

TEST(Journal, LastFactCounts) {
  JournalDir dir;
  auto journal = Journal::Open(dir.path(), {.run_id = "run"});
  ASSERT_TRUE(journal.ok());
  (*journal)->SetFact("ended_ns", "1");
  (*journal)->SetFact("order", "hrf");
  (*journal)->SetFact("ended_ns", "2");
  ASSERT_TRUE((*journal)->Close().ok());
  EXPECT_TRUE((*journal)->Close().ok()) << "it is closed: nothing is left to be done";
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok());
  using Fact = std::pair<std::string, std::string>;
  EXPECT_EQ(got->facts, (std::vector<Fact>{{"format", std::to_string(kJournalFormat)},
                                           {"run_id", "run"},
                                           {"ended_ns", "2"},
                                           {"order", "hrf"}}));
}

TEST(Journal, ASessionIsWhatAStartAndItsEndSay) {
  JournalDir dir;
  const auto write = [&](const std::vector<std::pair<std::string, std::string>>& facts) {
    auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = 0});
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    for (const auto& [key, value] : facts) (*journal)->SetFact(key, value);
    ASSERT_TRUE((*journal)->Close().ok());
  };
  write({{"started_ns", "10"}});
  write({{"started_ns", "10"}, {"ended_ns", "20"}});                    // a second server of the session
  write({{"started_ns", "30"}, {"ended_ns", ""}});                      // resumed; its end is not known yet
  write({{"started_ns", "40"}, {"ended_ns", ""}, {"ended_ns", "50"}});  // resumed after a kill
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->sessions, (std::vector<SessionRecord>{{10, 20}, {30, 0}, {40, 50}}));
}

TEST(JournalTest, WhatIsAcknowledgedHasBeenSynced) {
  for (const bool sync : {true, false}) {
    JournalDir dir;
    test::RecordMaker make(31);
    auto journal = Journal::Open(dir.path(), {.group_time = Duration(0), .sync = sync, .run_id = "run"});
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    for (int i = 0; i < 5; ++i) {
      const int before = syncs_of_wal;
      (*journal)->Add(make.Fate());
      ASSERT_TRUE((*journal)->Flush().ok());
      if (sync) {
        EXPECT_GT(syncs_of_wal, before) << "group " << i << " was acknowledged before it was on disk";
      } else {
        EXPECT_EQ(syncs_of_wal, before) << "what is counted is not what SQLite does";
      }
    }
  }
}

}  // namespace
}  // namespace harrow::journal
