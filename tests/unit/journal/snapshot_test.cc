#include "journal/snapshot.h"

#include <atomic>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <sys/resource.h>
#include <thread>

#include "unit/journal/journal_files.h"

namespace harrow::journal {
namespace {

using test::JournalDir;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Copies are made in a directory of the test's own, which is empty again when each test ends.
class Snapshot : public testing::Test {
 protected:
  Snapshot() { setenv("TMPDIR", copies_.path().c_str(), 1); }
  ~Snapshot() override {
    EXPECT_THAT(copies_.Files(), IsEmpty()) << "a copy is left";
    unsetenv("TMPDIR");
  }
  Result<History> Read() const { return ReadSnapshot(run_dir::RunDir::Open(journal_.path()).value()); }

  JournalDir journal_, copies_;
  test::RecordMaker make_{7};
};

TEST_F(Snapshot, OfAJournalThatIsBeingWrittenHoldsWhatWasFlushed) {
  History wrote;
  auto journal = Journal::Open(journal_.path(), {.run_id = "run", .epoch = 3});
  ASSERT_TRUE(journal.ok()) << journal.status().message();
  for (int i = 0; i < 3; ++i) {
    make_.AddTasks(**journal, 50, &wrote);
    make_.AddSome(**journal, 50, &wrote);
    ASSERT_TRUE((*journal)->Flush().ok());
    const auto before = journal_.Contents();
    const Result<History> read = Read();
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->epoch, 3u);
    test::ExpectEqual(*read, wrote);
    EXPECT_TRUE(journal_.Contents() == before) << "reading changed it";
  }
  ASSERT_TRUE((*journal)->Close().ok());
  const Result<History> closed = Read();
  ASSERT_TRUE(closed.ok()) << closed.status().message();
  test::ExpectEqual(*closed, wrote);
}

TEST_F(Snapshot, OfAClosedJournalNeedsNoCopy) {
  const History wrote = make_.Write(journal_.path(), {.run_id = "run"}, 20);
  setenv("TMPDIR", (copies_.path() + "/none").c_str(), 1);
  const Result<History> read = Read();
  ASSERT_TRUE(read.ok()) << read.status().message();
  test::ExpectEqual(*read, wrote);
  // Where a server says that it is there, it may begin to write at any moment.
  std::ofstream(journal_.File("server")) << "address";
  const Result<History> refused = Read();
  EXPECT_EQ(refused.status().code(), Code::kUnavailable);
  EXPECT_EQ(refused.status().message(),
            "cannot make a temporary directory to read the journal in; TMPDIR names another place");
}

TEST_F(Snapshot, OfADamagedJournalNamesTheJournalNotTheCopy) {
  make_.Write(journal_.path(), {.run_id = "run"}, 20);
  std::ofstream(journal_.File("server")) << "address";
  std::filesystem::resize_file(journal_.File("journal.db"), 5000);
  const Result<History> read = Read();
  EXPECT_EQ(read.status().code(), Code::kDamaged);
  EXPECT_THAT(read.status().message(), HasSubstr(journal_.File("journal.db") + " is damaged"));
  EXPECT_THAT(read.status().message(), Not(HasSubstr(copies_.path())));
}

TEST_F(Snapshot, OfAnOlderDatabaseUnderANewMarkIsDamaged) {
  make_.Write(journal_.path(), {.run_id = "run", .epoch = 1}, 20);
  auto contents = journal_.Contents();
  make_.Write(journal_.path(), {.run_id = "run", .epoch = 2}, 20);
  contents["journal.acknowledged"] = journal_.Contents()["journal.acknowledged"];
  contents["server"] = "address";
  journal_.Put(contents);
  EXPECT_EQ(Read().status().code(), Code::kDamaged);
}

TEST_F(Snapshot, WithoutRoomForACopySaysSo) {
  make_.Write(journal_.path(), {.run_id = "run"}, 20);
  std::ofstream(journal_.File("server")) << "address";
  const auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit little = {4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const Result<History> read = Read();
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, before);
  EXPECT_EQ(read.status().code(), Code::kExhausted);
  EXPECT_THAT(read.status().message(), HasSubstr("cannot write " + copies_.path()));
  EXPECT_THAT(read.status().message(), HasSubstr("File too large); TMPDIR names another place"));
}

TEST_F(Snapshot, WhereThereIsNoJournalItIsNotFound) {
  EXPECT_EQ(Read().status().code(), Code::kNotFound);
  std::ofstream(journal_.File("server")) << "address";
  const Result<History> read = Read();
  EXPECT_EQ(read.status().code(), Code::kNotFound);
  EXPECT_THAT(read.status().message(), HasSubstr(journal_.path()));
}

TEST_F(Snapshot, WhileServersComeAndGoIsWholeOrNone) {
  std::atomic<bool> over = false;
  make_.Write(journal_.path(), {.sync = false, .run_id = "run"}, 20);
  std::ofstream(journal_.File("server")) << "address";
  std::thread servers([&] {
    for (uint64_t epoch = 2; epoch < 12; ++epoch) {
      History wrote;
      auto journal = Journal::Open(journal_.path(), {.sync = false, .run_id = "run", .epoch = epoch});
      ASSERT_TRUE(journal.ok()) << journal.status().message();
      for (int i = 0; i < 5; ++i) {
        make_.AddSome(**journal, 100, &wrote);
        ASSERT_TRUE((*journal)->Flush().ok());
      }
      ASSERT_TRUE((*journal)->Close().ok());
    }
    over = true;
  });
  size_t attempts = 0;
  do {
    const Result<History> read = Read();
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), Code::kUnavailable) << read.status().message();
      continue;
    }
    EXPECT_GE(read->attempts.size(), attempts) << "what was read before is gone";
    attempts = read->attempts.size();
  } while (!over);
  servers.join();
  const Result<History> read = Read();
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->attempts.size(), 20u + 10 * 500);
}

}  // namespace
}  // namespace harrow::journal
