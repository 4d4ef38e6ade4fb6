// Journals of an earlier format, as a release that wrote them left them.
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sqlite3.h>

#include "base/text.h"
#include "journal/journal.h"
#include "journal/snapshot.h"
#include "journal/store.h"
#include "unit/journal/journal_files.h"

namespace harrow::journal {
namespace {

using test::JournalDir;

/// What tests/data/journal_N.sql holds, with what was acknowledged.
void PutFormat(uint32_t format, const JournalDir& dir, const std::string& more = "") {
  std::ifstream file(StrCat(HARROW_SOURCE_DIR "/tests/data/journal_", format, ".sql"));
  const std::string sql((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(sql.empty());
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(dir.File("journal.db").c_str(), &db), SQLITE_OK);
  const std::string all =
      StrCat(sql, "PRAGMA application_id = ", 0x48727731, "; PRAGMA user_version = ", format, ";", more);
  EXPECT_EQ(sqlite3_exec(db, all.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
  std::ofstream(dir.File("journal.acknowledged"))
      << (format == 3   ? "00000000000000000003 4ddff098d351554c 21622c3a72a62257\n"
          : format == 4 ? "00000000000000000003 3d1c8e03af2e9043 7550c21e4c80e2c1\n"
          : format == 5 ? "00000000000000000004 c4df0d54cd6ba70f b1d0702f0d2b09e4\n"
                        : "00000000000000000005 0f73642848924435 7ba5a38654eb214a\n");
}
void PutFormat3(const JournalDir& dir, const std::string& more) {
  PutFormat(3, dir, more);
}

constexpr uint32_t kFormats[] = {3, 4, 5, 6};

void ExpectThatRun(const History& history) {
  EXPECT_EQ(history.run_id, "run");
  EXPECT_EQ(history.epoch, history.format >= 5 ? history.format - 3 : 1u);
  ASSERT_EQ(history.tasks.size(), 2u);
  EXPECT_EQ(history.tasks[1].name, "second");
  ASSERT_EQ(history.attempts.size(), 2u);
  EXPECT_EQ(history.attempts[0].cores, "0-1");
  EXPECT_EQ(history.attempts[1].end, End::kSignaled);
  EXPECT_EQ(history.attempts[1].OutputTask(), TaskId(7));
  EXPECT_EQ(history.fates.size(), 2u);
  EXPECT_EQ(history.nodes.size(), 1u);
  EXPECT_EQ(history.copies.size(), 1u);
  ASSERT_EQ(history.parts.size(), history.format == 3 ? 0u : 1u);
  for (const PartRecord& part : history.parts) EXPECT_EQ(part.ranks, 3u);
  EXPECT_TRUE(history.moves.empty());
  EXPECT_EQ(history.sessions, (std::vector<SessionRecord>{{.started_ns = 1000, .ended_ns = 2100}}));
}

TEST(JournalOfAnEarlierFormat, IsReadAndLeftAsItIs) {
  for (const uint32_t format : kFormats) {
    JournalDir dir;
    PutFormat(format, dir);
    const auto before = dir.Contents();
    const Result<History> history = ReadHistory(dir.path());
    ASSERT_TRUE(history.ok()) << history.status().message();
    ExpectThatRun(*history);
    EXPECT_EQ(history->format, format);
    EXPECT_TRUE(dir.Contents() == before);
    const auto opened = run_dir::RunDir::Open(dir.path());
    ASSERT_TRUE(opened.ok());
    const Result<History> snapshot = ReadSnapshot(*opened);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
    ExpectThatRun(*snapshot);
  }
}

TEST(JournalOfAnEarlierFormat, BecomesOneOfThePresentFormatWhenAServerGoesOnWithIt) {
  for (const auto& [format, killed] : {std::pair(3, false), {3, true}, {4, false}, {4, true}, {5, false}, {5, true}, {6, false}, {6, true}}) {
    SCOPED_TRACE(testing::Message() << format << ", killed: " << killed);
    JournalDir dir;
    PutFormat(static_cast<uint32_t>(format), dir);
    History found;
    auto journal = Journal::Open(dir.path(), {.run_id = "run", .epoch = 0}, &found);
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    ExpectThatRun(found);
    const PartRecord part{.task = TaskId(1), .attempt = 2, .part = 1, .node = NodeId(3), .message = "text"};
    (*journal)->Add(part);
    const MoveRecord move{.what = MoveRecord::What::kTaken, .giver = 2, .taker = 1, .number = 3, .tasks = "0"};
    (*journal)->Add(move);
    ASSERT_TRUE(killed ? (*journal)->Flush().ok() : (*journal)->Close().ok());
    JournalDir left;
    left.CopyFrom(dir);
    const Result<History> history = ReadHistory(left.path());
    ASSERT_TRUE(history.ok()) << history.status().message();
    EXPECT_EQ(history->format, kJournalFormat);
    EXPECT_EQ(history->epoch, format >= 5 ? static_cast<uint64_t>(format) - 2 : 2u);
    EXPECT_EQ(history->attempts, found.attempts);
    std::vector<PartRecord> parts = found.parts;
    parts.push_back(part);
    EXPECT_EQ(history->parts, parts);
    EXPECT_EQ(history->moves, (std::vector<MoveRecord>{move}));
    auto next = Journal::Open(left.path(), {.run_id = "run", .epoch = 0}, &found);
    ASSERT_TRUE(next.ok()) << next.status().message();
    EXPECT_EQ(found.parts, history->parts);
    EXPECT_EQ(found.moves, history->moves);
  }
}

TEST(JournalOfAnEarlierFormat, DamagedIsNotMadeOneOfThePresentFormat) {
  const std::pair<const char*, const char*> kChanges[] = {
      {"UPDATE attempt SET code = 8 WHERE id = 2", "the records of group 3 are not"},
      {"DROP VIEW copies", "its tables are not those of a journal"},
      {"PRAGMA user_version = 4", "its tables are not those of a journal"},
      {"PRAGMA user_version = 2", "its format is said in two ways"},
  };
  for (const auto& [sql, problem] : kChanges) {
    SCOPED_TRACE(sql);
    JournalDir dir;
    PutFormat3(dir, sql);
    const auto before = dir.Contents();
    const Status status = Journal::Open(dir.path(), {.run_id = "run", .epoch = 0}).status();
    EXPECT_EQ(status.code(), Code::kDamaged);
    EXPECT_NE(status.message().find(problem), std::string::npos) << status.message();
    EXPECT_TRUE(dir.Contents() == before);
  }
}

TEST(Journal, OfAFormatThatIsTooOldIsRefusedByName) {
  JournalDir dir;
  PutFormat3(dir, "PRAGMA user_version = 2; UPDATE fact SET value = '2' WHERE key = 'format'");
  const Status status = ReadHistory(dir.path()).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_NE(status.message().find("has journal format 2; this Harrow knows formats 3 to 7"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace harrow::journal
