// Which object each file is, which are on their way, and who waits for them.

#include "agent/local_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_store.h"
#include "support/memory_file_system.h"

namespace harrow::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Keeps what is wanted until the test says what came of it.
class HeldTransfers : public Transfers {
 public:
  const std::vector<std::string>& addresses() const override { return addresses_; }
  void Know(NodeId, std::vector<std::string>, uint64_t) override {}
  void Forget(NodeId) override {}
  void SetCredentials(const wire::Credentials&) override {}
  void Share(PeerGate*) override {}
  void Fetch(Wanted wanted, Done done) override { fetches.emplace_back(std::move(wanted), std::move(done)); }
  void Abandon(FileId file) override { abandoned.push_back(file.value); }
  Figures figures() override { return {}; }

  std::vector<std::pair<Wanted, Done>> fetches;
  std::vector<uint32_t> abandoned;

 private:
  std::vector<std::string> addresses_;
};

class LocalFilesTest : public ::testing::Test {
 protected:
  LocalFilesTest()
      : files_(&store_, 1,
               {.arrived = [this](AttemptId a) { arrived_.push_back(a.task.value); },
                .failed = [this](AttemptId a,
                                 const std::string& why) { failed_.emplace_back(a.task.value, why); },
                .tell = [this](const FileNews& news) { told_.push_back(news.what); }}) {
    files_.Use(&transfers_);
  }
  static LocalTask Task(uint32_t id, std::vector<uint32_t> inputs) {
    LocalTask task;
    task.id = id;
    for (const uint32_t input : inputs) task.inputs.push_back({FileId(input), "f"});
    return task;
  }
  void Comes(size_t fetch, const store::Object& object) {
    const auto& [wanted, done] = transfers_.fetches[fetch];
    done({.file = wanted.file, .object = object, .from = wanted.from, .fetched_bytes = object.bytes});
  }
  void Fails(size_t fetch, Code code) {
    const auto& [wanted, done] = transfers_.fetches[fetch];
    done({.file = wanted.file, .status = Status(code, "no luck"), .from = wanted.from, .listed = wanted.listed ? wanted.object : std::nullopt});
  }

  test::FakeStore store_;
  HeldTransfers transfers_;
  std::vector<uint32_t> arrived_;
  std::vector<std::pair<uint32_t, std::string>> failed_;
  std::vector<FileNews::What> told_;
  LocalFiles files_;
};

/// It is asked for once more, and whoever waits for it waits on; but what is the matter with this node is.
TEST_F(LocalFilesTest, WhatIsNotInTheExchangeFailsNobody) {
  const auto bring = [&] {
    files_.Bring({.file = FileId(1), .object = test::FakeStore::ObjectOf("content"), .path = "/run/exchange/1-x", .listed = true});
  };
  for (const auto& [code, what] : {std::pair(Code::kNotFound, FileNews::What::kAbsent), {Code::kDamaged, FileNews::What::kDamaged}, {Code::kInvalid, FileNews::What::kDamaged}}) {
    transfers_.fetches.clear();
    told_.clear();
    bring();
    EXPECT_EQ(files_.Await(Task(7, {1})).inputs, 1u);
    Fails(0, code);
    EXPECT_THAT(told_, ElementsAre(what));
    EXPECT_THAT(failed_, IsEmpty());
    EXPECT_EQ(files_.Await(Task(8, {1})).trouble, "");
  }
  bring();
  told_.clear();
  Fails(1, Code::kExhausted);
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kNoRoom));
  bring();
  told_.clear();
  Fails(2, Code::kPermission);
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kUnreadable));
}

TEST_F(LocalFilesTest, OnlyWhatWasAskedForGoesToTheExchange) {
  const LocalFiles::Putting put{.number = 5, .file = FileId(1), .object = test::FakeStore::ObjectOf("content").id, .path = "/nowhere/1-x"};
  files_.Put(put);
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kNotPut)) << "it is not here";
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  Comes(0, store_.Put("something else"));
  told_.clear();
  files_.Put(put);
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kNotPut));
}

TEST_F(LocalFilesTest, WhoAwaitsAFileIsToldWhenItIsHere) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  EXPECT_EQ(files_.Await(Task(7, {1, 2, 1})).inputs, 2u) << "each once";
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kGone)) << "of the one that nobody has asked for";
  told_.clear();
  Comes(0, store_.Put("content"));
  EXPECT_THAT(arrived_, ElementsAre(7u));
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kStored));
  EXPECT_EQ(files_.ObjectOf(FileId(1)), test::FakeStore::ObjectOf("content"));
  EXPECT_EQ(files_.Await(Task(8, {1})).inputs, 0u);
  EXPECT_EQ(files_.Await(Task(9, {2})).inputs, 1u) << "nobody has said that it is to come, and it may";
}

TEST_F(LocalFilesTest, WhatIsMissingIsToldAgainWhereAServerMayNotHaveHeardIt) {
  files_.TellMissing();
  EXPECT_THAT(told_, IsEmpty()) << "nobody waits for anything";
  files_.Await(Task(7, {1}));
  told_.clear();
  files_.TellMissing();
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kGone));
  told_.clear();
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.TellMissing();
  EXPECT_THAT(told_, IsEmpty()) << "it comes";
  files_.Forget(Task(7, {1}));
  files_.TellMissing();
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(LocalFilesTest, WhatCannotBeReadEndsThoseThatAwaitItAlsoThoseThatComeTooLate) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.Await(Task(7, {1}));
  Fails(0, Code::kNotFound);
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_[0].first, 7u);
  EXPECT_THAT(failed_[0].second, HasSubstr("no luck"));
  EXPECT_THAT(files_.Await(Task(8, {1})).trouble, HasSubstr("no luck"));
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  EXPECT_THAT(files_.Await(Task(9, {1})).trouble, IsEmpty()) << "it is tried again";
}

TEST_F(LocalFilesTest, WhatDoesNotComeFromANodeMayComeFromAnother) {
  files_.Bring({.file = FileId(1), .object = test::FakeStore::ObjectOf("x"), .from = NodeId(3)});
  files_.Await(Task(7, {1}));
  for (const auto& [code, what] : {std::pair(Code::kUnavailable, FileNews::What::kUnreachable),
                                   std::pair(Code::kNotFound, FileNews::What::kAbsent),
                                   std::pair(Code::kDamaged, FileNews::What::kDamaged)}) {
    told_.clear();
    Fails(0, code);
    EXPECT_THAT(told_, ElementsAre(what));
  }
  EXPECT_THAT(failed_, IsEmpty());
  Fails(0, Code::kPermission);
  EXPECT_EQ(told_.back(), FileNews::What::kUnreadable);
  ASSERT_EQ(failed_.size(), 1u) << "a disk that fails: nobody waits for it";
  EXPECT_THAT(failed_[0].second, HasSubstr("an input of it cannot be kept on its node: no luck"));
  failed_.clear();
  files_.Bring({.file = FileId(1), .path = "/submit/f", .from = NodeId(3)});
  files_.Await(Task(7, {1}));
  Fails(0, Code::kExhausted);
  EXPECT_EQ(told_.back(), FileNews::What::kNoRoom);
  EXPECT_THAT(failed_, IsEmpty()) << "it waits for the server's word";
  EXPECT_THAT(files_.Await(Task(8, {1})).trouble, IsEmpty());
  files_.Refuse(FileId(1));
  ASSERT_EQ(failed_.size(), 2u);
  EXPECT_THAT(failed_[0].second, HasSubstr("no room on its node for an input: no luck"));
  EXPECT_THAT(files_.Await(Task(9, {1})).trouble, HasSubstr("no room"));
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.Refuse(FileId(1));
  EXPECT_EQ(failed_.size(), 2u) << "it is asked for again: the word is old";
}

TEST_F(LocalFilesTest, WhatIsHereIsNotBroughtAgain) {
  const store::Object object = store_.Put("content");
  files_.Made(FileId(1), object);
  files_.Bring({.file = FileId(1), .object = object, .from = NodeId(3)});
  files_.Bring({.file = FileId(2), .object = object, .from = NodeId(3)});
  EXPECT_THAT(transfers_.fetches, IsEmpty()) << "nor as another file's";
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kStored, FileNews::What::kStored));
}

TEST_F(LocalFilesTest, AContentIsDroppedWithTheLastFileThatIsIt) {
  const store::Object object = store_.Put("content");
  files_.Made(FileId(1), object);
  files_.Made(FileId(2), object);
  files_.Made(FileId(1), object);  // made again, the same
  files_.Drop(FileId(1));
  EXPECT_TRUE(store_.Has(object.id));
  files_.Discard(object.id);
  EXPECT_TRUE(store_.Has(object.id)) << "it is a file's";
  files_.Drop(FileId(2));
  EXPECT_FALSE(store_.Has(object.id));
  files_.Drop(FileId(2));
  EXPECT_THAT(files_.Held(), IsEmpty());
}

TEST_F(LocalFilesTest, AFileThatIsMadeAnewReplacesWhatItWas) {
  const store::Object before = store_.Put("before");
  const store::Object after = store_.Put("after");
  files_.Made(FileId(1), before);
  files_.Made(FileId(1), after);
  EXPECT_FALSE(store_.Has(before.id));
  EXPECT_THAT(files_.Held(), ElementsAre(std::pair(FileId(1), after)));
}

TEST_F(LocalFilesTest, WhatIsDroppedOnItsWayIsAbandoned) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.Drop(FileId(1));
  EXPECT_THAT(transfers_.abandoned, ElementsAre(1u));
}

TEST_F(LocalFilesTest, WhoDoesNotWaitAnyMoreIsNotTold) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  const LocalTask task = Task(7, {1});
  files_.Await(task);
  files_.Forget(task);
  Comes(0, store_.Put("content"));
  EXPECT_THAT(arrived_, IsEmpty());
}

TEST_F(LocalFilesTest, WhatWasSpoiltIsHereNoMore) {
  const store::Object object = store_.Put("content");
  files_.Made(FileId(1), object);
  files_.Spoiled(FileId(1));
  files_.Spoiled(FileId(1));
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kGone));
  EXPECT_FALSE(files_.ObjectOf(FileId(1)));
}

TEST_F(LocalFilesTest, OutsideIsWaitedFor) {
  bool done = false;
  files_.Outside([&] { done = true; });
  EXPECT_TRUE(done);
}

/// With what later agents find.
class RecordedFilesTest : public LocalFilesTest {
 protected:
  RecordedFilesTest()
      : index_(SourceIndex::Open(fs_, "/sources", store_)),
        log_(HeldLog::Open(fs_, "/held", "run", store_, &held_)),
        recorded_(&store_, 1,
                  {.arrived = [](AttemptId) {},
                   .failed = [](AttemptId, const std::string&) {},
                   .tell = [this](const FileNews& news) { told_.push_back(news.what); }},
                  {.sources = index_.get(), .log = log_.get()}) {
    recorded_.Use(&transfers_);
  }

  test::MemoryFileSystem fs_;
  HeldLog::Held held_;
  std::unique_ptr<SourceIndex> index_;
  std::unique_ptr<HeldLog> log_;
  LocalFiles recorded_;
};

TEST_F(RecordedFilesTest, WhatALaterRunMayReadIsSparedAndTheRestDropped) {
  const store::Object input = store_.Put("input"), made = store_.Put("made");
  index_->Note("/submit/f", "source", input);
  recorded_.Bring({.file = FileId(1), .path = "/submit/f"});
  Comes(0, input);
  recorded_.Made(FileId(2), made);
  recorded_.Drop(FileId(1));
  recorded_.Drop(FileId(2));
  EXPECT_THAT(store_.spared, ElementsAre(input.id));
  EXPECT_TRUE(store_.Has(input.id));
  EXPECT_FALSE(store_.Has(made.id));
}

TEST_F(RecordedFilesTest, WhatComesFromAnotherNodeIsNotedAsWhatItWasThere) {
  const store::Object input = test::FakeStore::ObjectOf("input");
  recorded_.Bring(
      {.file = FileId(1), .object = input, .path = "/submit/f", .from = NodeId(3), .source = "s"});
  recorded_.Bring({.file = FileId(2), .object = input, .path = "/submit/g", .from = NodeId(3)});
  Fails(1, Code::kUnavailable);
  EXPECT_EQ(index_->Find("/submit/f", "s"), std::nullopt);
  store_.Put("input");
  Comes(0, input);
  EXPECT_EQ(index_->Find("/submit/f", "s"), input);
  Comes(1, input);
  EXPECT_EQ(index_->Entries().size(), 1u);
}

TEST_F(RecordedFilesTest, WhatAnEarlierAgentHeldIsHeld) {
  const store::Object a = store_.Put("a"), b = store_.Put("b");
  recorded_.Made(FileId(1), a);
  recorded_.Made(FileId(2), b);
  recorded_.Made(FileId(3), a);
  HeldLog::Held held;
  const auto log = HeldLog::Open(fs_, "/held", "run", store_, &held);
  LocalFiles next(&store_, 1, {.arrived = {}, .failed = {}, .tell = [](const FileNews&) {}},
                  {.sources = nullptr, .log = log.get()});
  next.Use(&transfers_);
  next.Restore(held);
  EXPECT_EQ(next.Held().size(), 3u);
  EXPECT_EQ(next.ObjectOf(FileId(2)), b);
  next.Drop(FileId(1));
  EXPECT_TRUE(store_.Has(a.id)) << "file 3";
  next.Drop(FileId(3));
  EXPECT_FALSE(store_.Has(a.id));
}

TEST_F(RecordedFilesTest, WhatEarlierRunsLeftGivesWayUntilATaskNeedsIt) {
  const store::Object kept = store_.Put("kept"), gone = store_.Put("gone");
  index_->Note("/submit/kept", "s", kept);
  index_->Note("/submit/gone", "s", gone);
  recorded_.Bring({.file = FileId(1), .object = kept, .path = "/submit/kept"});
  recorded_.Bring({.file = FileId(2), .object = gone, .path = "/submit/gone"});
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kStored, FileNews::What::kStored));
  told_.clear();
  EXPECT_EQ(recorded_.Await(Task(7, {1})).inputs, 0u);
  store_.Drop(gone.id);  // its room was needed
  EXPECT_EQ(recorded_.Await(Task(8, {2})).inputs, 1u);
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kGone));
  EXPECT_THAT(transfers_.fetches, IsEmpty());
}

TEST_F(RecordedFilesTest, WhatIsDamagedIsNotSparedButBroughtAnew) {
  const store::Object input = store_.Put("input"), other = store_.Put("other");
  index_->Note("/submit/f", "source", input);
  index_->Note("/submit/g", "source", other);
  recorded_.Bring({.file = FileId(1), .object = input, .path = "/submit/f"});
  EXPECT_EQ(recorded_.Await(Task(7, {1})).inputs, 0u);
  const uint32_t before = recorded_.Spoilings(input.id);
  recorded_.DropDamaged({FileId(1), FileId(5)});
  EXPECT_THAT(store_.spared, IsEmpty());
  EXPECT_FALSE(store_.Has(input.id));
  EXPECT_FALSE(index_->Names(input.id));
  EXPECT_EQ(index_->Find("/submit/f", "source"), std::nullopt);
  EXPECT_EQ(index_->Find("/submit/g", "source"), other);
  EXPECT_GT(recorded_.Spoilings(input.id), before) << "the attempt may have read it";
  told_.clear();
  recorded_.Bring({.file = FileId(1), .object = input, .path = "/submit/f"});
  EXPECT_EQ(transfers_.fetches.size(), 1u);
  EXPECT_THAT(told_, IsEmpty()) << "it is not stored";
}

TEST_F(LocalFilesTest, DamagedContentsTakeAlongWhatHoldsThem) {
  const store::Object part = store_.Put("part"), other = store_.Put("other");
  const store::Object directory = store_.PutDirectory({part, other});
  const store::Object beside = store_.PutDirectory({part});
  for (const FileId damaged : {FileId(1), FileId(2)}) {
    told_.clear();
    store_.Put("part");
    store_.Put("other");
    store_.PutDirectory({part, other});
    store_.PutDirectory({part});
    files_.Made(FileId(1), part);
    files_.Made(FileId(2), directory);
    files_.Made(FileId(3), beside);
    files_.Made(FileId(4), other);
    files_.DropDamaged({damaged});
    const bool all = damaged == FileId(2);  // nobody has told which of its files it is
    EXPECT_EQ(files_.Held().size(), all ? 0u : 1u);
    EXPECT_THAT(told_, ::testing::Each(FileNews::What::kGone));
    EXPECT_EQ(told_.size(), all ? 3u : 2u) << "not of what the server has named";
    EXPECT_FALSE(store_.Has(part.id));
    EXPECT_EQ(store_.Has(other.id), !all);
  }
}

TEST_F(LocalFilesTest, WhatIsDamagedOnItsWayIsAbandoned) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.DropDamaged({FileId(1)});
  EXPECT_THAT(transfers_.abandoned, ElementsAre(1u));
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace harrow::agent
