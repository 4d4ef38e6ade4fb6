#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal/journal.h"
#include "journal/store.h"
#include "support/soft_limit.h"
#include "unit/journal/journal_files.h"

namespace harrow::journal {
namespace {

using test::JournalDir;
using Contents = std::map<std::string, std::string>;

constexpr size_t kPage = 4096;
constexpr size_t kWalHead = 32, kFrameHead = 24;
constexpr const char* kDb = "journal.db";
constexpr const char* kWal = "journal.db-wal";
constexpr const char* kMark = "journal.acknowledged";

/// A journal of several servers, the last of which was killed: part lies in the database, part in the WAL.
Contents KilledJournal(test::RecordMaker& make, History* wrote) {
  JournalDir dir;
  for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
    auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = epoch});
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    for (int i = 0; i < 4; ++i) {
      make.AddTasks(**journal, 60, wrote);
      make.AddSome(**journal, 50, wrote);
      EXPECT_TRUE((*journal)->Flush().ok());
    }
    if (epoch == 2) return dir.Contents();
    EXPECT_TRUE((*journal)->Close().ok());
  }
  return {};
}

Contents ClosedJournal(test::RecordMaker& make, History* wrote) {
  JournalDir dir;
  *wrote = make.Write(dir.path(), {.run_id = "run"}, 300);
  return dir.Contents();
}

/// Reads damaged contents both ways. True when everything came back; else it must have been called damaged,
/// and left as it is.
bool ReadsWhole(const Contents& damaged, const History& wrote, std::string_view what) {
  JournalDir dir;
  dir.Put(damaged);
  Result<History> got = ReadHistory(dir.path());
  EXPECT_TRUE(dir.Contents() == damaged) << what << ": reading changed it";
  History found;
  auto journal = Journal::Open(dir.path(), {.sync = false, .run_id = "run", .epoch = 99}, &found);
  EXPECT_EQ(journal.ok(), got.ok()) << what << ": " << got.status().message() << " | "
                                    << journal.status().message();
  if (got.ok()) {
    EXPECT_TRUE(test::Equal(*got, wrote)) << what;
    EXPECT_TRUE(test::Equal(found, wrote)) << what;
    return true;
  }
  EXPECT_EQ(got.status().code(), Code::kDamaged) << what << ": " << got.status().message();
  EXPECT_EQ(journal.status().code(), Code::kDamaged) << what << ": " << journal.status().message();
  EXPECT_TRUE(dir.Contents() == damaged) << what << ": opening changed it";
  return false;
}

TEST(JournalDamage, DatabaseCutAtEveryPage) {
  test::RecordMaker make(11);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  ASSERT_TRUE(ReadsWhole(whole, wrote, "undamaged"));
  size_t pages = whole[kDb].size() / kPage;
  ASSERT_GT(pages, 20u);
  for (size_t page = 0; page < pages; ++page) {
    for (size_t extra : {size_t{0}, size_t{1}, size_t{100}, kPage - 1}) {
      Contents cut = whole;
      cut[kDb].resize(page * kPage + extra);
      EXPECT_FALSE(ReadsWhole(cut, wrote, "cut at page " + std::to_string(page)));
    }
  }
}

TEST(JournalDamage, CutDatabaseWithoutItsMarkIsSeenToo) {
  test::RecordMaker make(12);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  whole.erase(kMark);
  ASSERT_TRUE(ReadsWhole(whole, wrote, "undamaged"));
  for (size_t page = 1; page < whole[kDb].size() / kPage; ++page) {
    Contents cut = whole;
    cut[kDb].resize(page * kPage);
    EXPECT_FALSE(ReadsWhole(cut, wrote, "cut at page " + std::to_string(page)));
  }
}

TEST(JournalDamage, DatabaseBelowAWalCutAtEveryPage) {
  test::RecordMaker make(13);
  History wrote;
  Contents whole = KilledJournal(make, &wrote);
  ASSERT_TRUE(ReadsWhole(whole, wrote, "undamaged"));
  for (size_t page = 0; page < whole[kDb].size() / kPage; ++page) {
    Contents cut = whole;
    cut[kDb].resize(page * kPage);
    ReadsWhole(cut, wrote, "cut at page " + std::to_string(page));  // the WAL may hold all that was cut
  }
}

TEST(JournalDamage, WalCutAtEveryFrameLosesNothingSilently) {
  test::RecordMaker make(14);
  History wrote;
  Contents whole = KilledJournal(make, &wrote);
  size_t frame = kFrameHead + kPage;
  size_t frames = (whole[kWal].size() - kWalHead) / frame;
  ASSERT_GT(frames, 5u);
  for (size_t n = 0; n <= frames; ++n) {
    for (size_t extra : {size_t{0}, size_t{10}, kFrameHead + 10}) {
      Contents cut = whole;
      size_t size = kWalHead + n * frame + extra;
      if (n == frames) continue;
      cut[kWal].resize(size);
      EXPECT_FALSE(ReadsWhole(cut, wrote, "WAL cut at frame " + std::to_string(n)));
    }
  }
  Contents without = whole;
  without.erase(kWal);
  EXPECT_FALSE(ReadsWhole(without, wrote, "WAL removed"));
}

TEST(JournalDamage, UnacknowledgedEndOfTheWalIsDropped) {
  // A server killed in the middle of a commit: frames without their end, and no mark of it.
  test::RecordMaker make(15);
  JournalDir dir;
  History wrote;
  // What is added between two flushes is one group, however long that takes.
  auto journal = Journal::Open(dir.path(), {.group_time = std::chrono::hours(1), .nodes_at_once = false, .run_id = "run"});
  ASSERT_TRUE(journal.ok());
  make.AddSome(**journal, 50, &wrote);
  ASSERT_TRUE((*journal)->Flush().ok());
  Contents before = dir.Contents();
  History more = wrote;
  make.AddSome(**journal, 50, &more);
  ASSERT_TRUE((*journal)->Flush().ok());
  Contents after = dir.Contents();
  for (size_t size = before[kWal].size() + 1; size < after[kWal].size(); size += 997) {
    Contents torn = after;
    torn[kMark] = before[kMark];
    torn[kWal].resize(size);
    EXPECT_TRUE(ReadsWhole(torn, wrote, "torn at " + std::to_string(size)));
  }
}

TEST(JournalDamage, FlippedBitsAreNeverAWrongResult) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  test::RecordMaker make(seed);
  for (bool killed : {false, true}) {
    History wrote;
    Contents whole = killed ? KilledJournal(make, &wrote) : ClosedJournal(make, &wrote);
    for (auto& [name, bytes] : whole) {
      int noticed = 0;
      const int kFlips = name == kMark ? 30 : 120;
      for (int i = 0; i < kFlips; ++i) {
        Contents damaged = whole;
        // A third of them in the first page, where the structure is.
        size_t bit = random() % ((i % 3 == 0 ? std::min(bytes.size(), kPage) : bytes.size()) * 8);
        damaged[name][bit / 8] = static_cast<char>(damaged[name][bit / 8] ^ (1 << (bit % 8)));
        noticed += ReadsWhole(damaged, wrote, name + " bit " + std::to_string(bit)) ? 0 : 1;
      }
      if (name != kMark) {
        // Most bits lie in free space; but that none matters would mean that nothing was damaged.
        EXPECT_GT(noticed, kFlips / 8) << name;
      }
    }
  }
}

// The bytes by which SQLite tells who may write and who may read.
TEST(JournalDamage, FlippedBitsOfTheHeadersVersions) {
  test::RecordMaker make(16);
  for (bool killed : {false, true}) {
    History wrote;
    const Contents whole = killed ? KilledJournal(make, &wrote) : ClosedJournal(make, &wrote);
    for (size_t bit = 18 * 8; bit < 20 * 8; ++bit) {
      Contents damaged = whole;
      damaged[kDb][bit / 8] = static_cast<char>(damaged[kDb][bit / 8] ^ (1 << (bit % 8)));
      ReadsWhole(damaged, wrote, "bit " + std::to_string(bit));
    }
  }
}

TEST(JournalDamage, OfTheHeaderThatSqliteTakesForAnotherVersions) {
  test::RecordMaker make(27);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  whole[kDb][47] = 9;  // the schema's format
  EXPECT_FALSE(ReadsWhole(whole, wrote, "schema format"));
}

// The server was killed before its journal grew: the first page is that of the database still.
TEST(JournalDamage, AHeaderThatForbidsWritingBelowAWal) {
  test::RecordMaker make(28);
  JournalDir dir, copy;
  make.Write(dir.path(), {.run_id = "run", .epoch = 1}, 20);
  auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = 2});
  ASSERT_TRUE(journal.ok()) << journal.status().message();
  Contents killed = dir.Contents();
  killed[kDb][18] = 3;
  copy.Put(killed);
  EXPECT_TRUE(ReadHistory(copy.path()).ok());
  const Status opened = Journal::Open(copy.path(), {.run_id = "run", .epoch = 3}).status();
  EXPECT_EQ(opened.code(), Code::kDamaged);
  EXPECT_NE(opened.message().find("its header forbids writing"), std::string::npos) << opened.message();
}

TEST(JournalDamage, ZeroedPagesAreNeverAWrongResult) {
  test::RecordMaker make(17);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  for (size_t page = 0; page < whole[kDb].size() / kPage; ++page) {
    Contents damaged = whole;
    damaged[kDb].replace(page * kPage, kPage, kPage, '\0');
    EXPECT_FALSE(ReadsWhole(damaged, wrote, "zeroed page " + std::to_string(page)));
  }
}

TEST(JournalDamage, ExchangedPagesAreNeverAWrongResult) {
  test::RecordMaker make(18);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  for (size_t page = 1; page + 1 < whole[kDb].size() / kPage; ++page) {
    Contents damaged = whole;
    damaged[kDb].replace(page * kPage, kPage, whole[kDb].substr((page + 1) * kPage, kPage));
    damaged[kDb].replace((page + 1) * kPage, kPage, whole[kDb].substr(page * kPage, kPage));
    EXPECT_FALSE(ReadsWhole(damaged, wrote, "exchanged page " + std::to_string(page)));
  }
}

TEST(JournalDamage, OlderDatabaseUnderANewMarkIsSeen) {
  test::RecordMaker make(19);
  JournalDir dir;
  make.Write(dir.path(), {.run_id = "run", .epoch = 1}, 50);
  Contents old = dir.Contents();
  History wrote;
  auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = 2});
  ASSERT_TRUE(journal.ok());
  make.AddSome(**journal, 10, &wrote);
  ASSERT_TRUE((*journal)->Close().ok());
  Contents mixed = dir.Contents();
  mixed[kDb] = old[kDb];
  EXPECT_FALSE(ReadsWhole(mixed, wrote, "older database"));
}

TEST(JournalDamage, WhatSqliteTakesAndNoServerWrote) {
  test::RecordMaker make(26);
  History wrote;
  const Contents whole = ClosedJournal(make, &wrote);
  const std::pair<const char*, const char*> kChanges[] = {
      {"", ""},
      {"CREATE TABLE more (id INTEGER)", "its tables are not those of a journal"},
      {"DROP VIEW attempts", "its tables are not those of a journal"},
      {"DROP VIEW parts", "its tables are not those of a journal"},
      {"PRAGMA user_version = 3", "its tables are not those of a journal"},
      {"UPDATE part SET ranks = ranks + 1 WHERE id = 1", "the records of group "},
      {"DELETE FROM part WHERE id = (SELECT max(id) FROM part)", "the records of group "},
      {"INSERT INTO part SELECT max(id) + 1, 0, 1, 0, 2, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', "
       "'', NULL "
       "FROM part",
       "it holds records of no group"},
      {"DELETE FROM attempt WHERE id = (SELECT max(id) FROM attempt)", "the records of group "},
      {"UPDATE fate SET because = 7 WHERE id = 1", "the records of group "},
      {"INSERT INTO fact SELECT max(id) + 1, 'order', 'fifo' FROM fact", "it holds records of no group"},
      {"UPDATE commit_group SET epoch = epoch + 1", "the records of group 1 are"},
      {"DELETE FROM commit_group WHERE id = 1", "group 1 is missing"},
      {"DELETE FROM commit_group", "it holds records of no group"},
  };
  for (const auto& [sql, problem] : kChanges) {
    SCOPED_TRACE(sql);
    JournalDir dir;
    dir.Put(whole);
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(dir.File(kDb).c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
    EXPECT_EQ(ReadsWhole(dir.Contents(), wrote, sql), *sql == '\0');
    EXPECT_NE(ReadHistory(dir.path()).status().message().find(problem), std::string::npos)
        << ReadHistory(dir.path()).status().message();
  }
}

TEST(JournalDamage, NewerFormatIsRefusedByName) {
  test::RecordMaker make(20);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  constexpr size_t kUserVersion = 63;  // last byte of the header's field
  ASSERT_EQ(whole[kDb][kUserVersion], char{kJournalFormat});
  whole[kDb][kUserVersion] = char{kJournalFormat + 1};
  EXPECT_FALSE(ReadsWhole(whole, wrote, "version alone"));  // as a flipped bit would
  size_t fact = whole[kDb].find("format" + std::to_string(kJournalFormat));
  ASSERT_NE(fact, std::string::npos);
  whole[kDb].replace(fact, 7, "format" + std::to_string(kJournalFormat + 1));
  JournalDir dir;
  dir.Put(whole);
  EXPECT_EQ(ReadHistory(dir.path()).status().code(), Code::kRefused);
  EXPECT_EQ(Journal::Open(dir.path(), {.run_id = "run", .epoch = 9}).status().code(), Code::kRefused);
}

TEST(JournalDamage, InterruptedMakingIsBegunAgain) {
  JournalDir dir;
  dir.Put({{kDb, ""}});
  EXPECT_EQ(ReadHistory(dir.path()).status().code(), Code::kNotFound);
  test::RecordMaker make(21);
  make.Write(dir.path(), {.run_id = "run"}, 5);
  EXPECT_TRUE(ReadHistory(dir.path()).ok());
}

TEST(JournalDamage, InterruptedClosingReadsWhole) {
  test::RecordMaker make(22);
  History wrote;
  Contents whole = ClosedJournal(make, &wrote);
  whole["journal.db-journal"] = std::string(512, '\0');  // begun, nothing in it yet
  JournalDir dir;
  dir.Put(whole);
  Result<History> got = ReadHistory(dir.path());
  ASSERT_TRUE(got.ok()) << got.status().message();
  test::ExpectEqual(*got, wrote);
  EXPECT_TRUE(dir.Contents() == whole);
}

TEST(JournalFull, StopsCleanlyAndKeepsWhatItAcknowledged) {
  for (rlim_t limit : {rlim_t{100'000}, rlim_t{300'000}, rlim_t{301'777}}) {
    JournalDir dir;
    test::RecordMaker make(23);
    History wrote;
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t acknowledged = 0;
    Status failed;
    {
      auto journal = Journal::Open(dir.path(), {.group_time = Duration(0), .run_id = "run"});
      ASSERT_TRUE(journal.ok());
      (*journal)->SetCallbacks(
          [&](uint64_t sequence) {
            std::lock_guard lock(mutex);
            EXPECT_TRUE(failed.ok()) << "committed after the failure";
            acknowledged = sequence;
          },
          [&](Status why) {
            std::lock_guard lock(mutex);
            EXPECT_TRUE(failed.ok()) << "failed twice";
            failed = why;
            changed.notify_all();
          });
      test::SmallFiles full(limit);
      for (int i = 0; i < 5000 && (i % 100 != 0 || (*journal)->Flush().ok()); ++i) {
        (*journal)->Add(wrote.attempts.emplace_back(make.Attempt()));
      }
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !failed.ok(); });
      EXPECT_EQ(failed.code(), Code::kExhausted) << failed.message();
      lock.unlock();
      EXPECT_EQ((*journal)->Flush().code(), Code::kExhausted);
      (*journal)->Add(make.Attempt());
      EXPECT_EQ((*journal)->Close().code(), Code::kExhausted);
    }
    Result<History> got = ReadHistory(dir.path());
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_GE(got->attempts.size(), acknowledged);
    ASSERT_LE(got->attempts.size(), wrote.attempts.size());
    wrote.attempts.resize(got->attempts.size());
    EXPECT_TRUE(got->attempts == wrote.attempts);
    // With room again the next server goes on.
    auto next = Journal::Open(dir.path(), {.run_id = "run", .epoch = 2});
    ASSERT_TRUE(next.ok()) << next.status().message();
    EXPECT_TRUE((*next)->Close().ok());
  }
}

TEST(JournalFull, NoRoomAtTheStartIsSaidByOpen) {
  for (rlim_t limit : {0, 1000, 5000, 20000}) {
    JournalDir dir;
    Status opened;
    {
      test::SmallFiles full(limit);
      opened = Journal::Open(dir.path(), {.run_id = "run"}).status();
    }
    EXPECT_EQ(opened.code(), Code::kExhausted) << limit << ": " << opened.message();
    EXPECT_TRUE(Journal::Open(dir.path(), {.run_id = "run"}).ok()) << "with room again";
  }
}

int error_of_open = 0;

TEST(JournalFull, WhatThereIsNoRoomForIsToldFromWhatIsForbidden) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find("unix-none");
  ASSERT_NE(vfs, nullptr);
  for (const auto& [error, code] : {std::pair(ENOSPC, Code::kExhausted), {EDQUOT, Code::kExhausted},
                                    {EMFILE, Code::kExhausted}, {EACCES, Code::kPermission}}) {
    JournalDir dir;
    error_of_open = error;
    const auto fails = [](const char*, int, int) { return errno = error_of_open, -1; };
    ASSERT_EQ(vfs->xSetSystemCall(vfs, "open", reinterpret_cast<sqlite3_syscall_ptr>(+fails)), SQLITE_OK);
    const Status opened = Journal::Open(dir.path(), {.run_id = "run"}).status();
    vfs->xSetSystemCall(vfs, "open", nullptr);
    EXPECT_EQ(opened.code(), code) << opened.message();
    EXPECT_NE(opened.message().find(strerror(error)), std::string::npos) << opened.message();
    EXPECT_TRUE(Journal::Open(dir.path(), {.run_id = "run"}).ok()) << "it was SQLite's open that failed";
  }
}

/// Without root's right to write everywhere.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() : was_root_(geteuid() == 0 && seteuid(65534) == 0) {}
  ~AsOrdinaryUser() {
    if (was_root_ && seteuid(0) != 0) abort();
  }

 private:
  bool was_root_;
};

TEST(JournalReadOnly, WritingIsAPermissionError) {
  AsOrdinaryUser ordinary;
  JournalDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  Status opened = Journal::Open(dir.path(), {.run_id = "run"}).status();
  EXPECT_EQ(opened.code(), Code::kPermission) << opened.message();
  EXPECT_NE(opened.message().find(dir.path()), std::string::npos) << opened.message();
  chmod(dir.path().c_str(), 0755);
}

void GiveToOrdinaryUser(const JournalDir& dir) {
  if (geteuid() != 0) return;
  for (const std::string& name : dir.Files()) ASSERT_EQ(chown(dir.File(name).c_str(), 65534, 65534), 0);
  ASSERT_EQ(chown(dir.path().c_str(), 65534, 65534), 0);
}

TEST(JournalReadOnly, AJournalThatCannotBeWrittenCanBeRead) {
  test::RecordMaker make(24);
  for (bool killed : {false, true}) {
    History wrote;
    Contents whole = killed ? KilledJournal(make, &wrote) : ClosedJournal(make, &wrote);
    for (bool wal : {true, false}) {
      JournalDir dir;
      dir.Put(whole);
      if (!wal && killed) {
        // A copy of a running run without its WAL.
        std::filesystem::remove(dir.File(kWal));
        std::filesystem::remove(dir.File(kMark));
      }
      for (const std::string& name : dir.Files()) chmod(dir.File(name).c_str(), 0444);
      ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
      GiveToOrdinaryUser(dir);
      {
        AsOrdinaryUser ordinary;
        Result<History> got = ReadHistory(dir.path());
        EXPECT_TRUE(got.ok()) << got.status().message();
        if (got.ok() && (wal || !killed)) test::ExpectEqual(*got, wrote);
      }
      chmod(dir.path().c_str(), 0755);
    }
  }
}

TEST(JournalOfAnother, IsLookedAtByRootWithoutATrace) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may look at another's (needs root)";
  test::RecordMaker make(25);
  for (const std::string state : {"closed", "killed", "copied without its WAL"}) {
    SCOPED_TRACE(state);
    History wrote;
    JournalDir dir;
    dir.Put(state == "closed" ? ClosedJournal(make, &wrote) : KilledJournal(make, &wrote));
    if (state.starts_with("copied")) {
      std::filesystem::remove(dir.File(kWal));
      std::filesystem::remove(dir.File(kMark));
    }
    GiveToOrdinaryUser(dir);
    const Contents before = dir.Contents();
    struct stat then {
    }, now{};
    ASSERT_EQ(stat(dir.path().c_str(), &then), 0);
    auto looked = run_dir::RunDir::Open(dir.path(), run_dir::Purpose::kLook);
    ASSERT_TRUE(looked.ok()) << looked.status().message();
    Result<History> got = ReadHistory(*looked);
    ASSERT_TRUE(got.ok()) << got.status().message();
    if (!state.starts_with("copied")) test::ExpectEqual(*got, wrote);
    EXPECT_TRUE(dir.Contents() == before);
    ASSERT_EQ(stat(dir.path().c_str(), &now), 0);
    EXPECT_TRUE(then.st_mtim.tv_sec == now.st_mtim.tv_sec && then.st_mtim.tv_nsec == now.st_mtim.tv_nsec)
        << "a file of root's was there for a moment, and would have stayed if root had been interrupted";
    EXPECT_EQ(ReadHistory(dir.path()).status().code(), Code::kInvalid);
    EXPECT_EQ(Journal::Open(dir.path(), {.run_id = "run", .epoch = 9}).status().code(), Code::kInvalid);
  }
}

/// What somebody could have put in a run directory in place of a file of its journal.
TEST(JournalPlanted, LinksAndOthersFilesAreNeitherFollowedNorUsed) {
  test::RecordMaker make(26);
  History wrote;
  const Contents whole = KilledJournal(make, &wrote);
  for (const char* name : {kDb, kWal, "journal.db-journal", kMark}) {
    SCOPED_TRACE(name);
    for (const char* how : {"link", "hard link", "fifo", "group"}) {
      SCOPED_TRACE(how);
      JournalDir dir, elsewhere;
      dir.Put(whole);
      const std::string file = dir.File(name), target = elsewhere.File("precious");
      if (std::filesystem::exists(file)) {
        std::filesystem::copy_file(file, target);
        std::filesystem::remove(file);
      } else {
        std::filesystem::copy_file(dir.File(kDb), target);
      }
      const std::string kind = how;
      if (kind == "link") {
        ASSERT_EQ(symlink(target.c_str(), file.c_str()), 0);
      }
      if (kind == "hard link") {
        ASSERT_EQ(link(target.c_str(), file.c_str()), 0);
      }
      if (kind == "fifo") {
        ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
      }
      if (kind == "group") {
        std::filesystem::copy_file(target, file);
        chmod(file.c_str(), 0664);
      }
      const Contents before = elsewhere.Contents();
      Status opened = Journal::Open(dir.path(), {.run_id = "run", .epoch = 9}).status();
      EXPECT_EQ(opened.code(), Code::kInvalid) << opened.message();
      EXPECT_NE(opened.message().find(file), std::string::npos) << opened.message();
      if (kind != "hard link") {
        EXPECT_EQ(ReadHistory(dir.path()).status().code(), Code::kInvalid);
      }
      EXPECT_TRUE(elsewhere.Contents() == before) << "what the link leads to was changed";
    }
  }
}

}  // namespace
}  // namespace harrow::journal
