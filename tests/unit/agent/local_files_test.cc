// Which object each file is, which are on their way, and who waits for them.

#include "agent/local_files.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>

#include "support/fake_store.h"
#include "support/memory_file_system.h"
#include "support/own_directory.h"

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
  void Fetch(Wanted wanted, Done done) override {
    if (asked) asked();
    fetches.emplace_back(std::move(wanted), std::move(done));
  }
  void Abandon(FileId file) override {
    if (asked) asked();
    abandoned.push_back(file.value);
  }
  Figures figures() override { return {}; }

  std::vector<std::pair<Wanted, Done>> fetches;
  std::vector<uint32_t> abandoned;
  std::function<void()> asked;  // called in each of them

 private:
  std::vector<std::string> addresses_;
};

/// Copies out, too, and knows which contents were asked to stay.
class KeepingStore : public test::FakeStore {
 public:
  Result<std::unique_ptr<store::Arrival>> Begin(const store::Object& object, bool part) override {
    kept.push_back(object.id);
    return FakeStore::Begin(object, part);
  }
  Status CopyOut(const store::ObjectId& id, const std::string& path, uint32_t mask, const store::CopyWatch& watch) override {
    if (watch.temporary) watch.temporary(path);
    std::ofstream(path) << Bytes(id);
    masks.push_back(mask);
    if (copying) copying();
    return copy_fails;
  }
  std::vector<store::ObjectId> kept;
  std::vector<uint32_t> masks;
  std::function<void()> copying;  // when the bytes are written
  Status copy_fails{};
};

class LocalFilesTest : public ::testing::Test {
 protected:
  LocalFilesTest()
      : files_(&store_, 1,
               {.arrived = [this](AttemptId a) { arrived_.push_back(a.task.value); },
                .failed = [this](AttemptId a,
                                 const std::string& why) { failed_.emplace_back(a.task.value, why); },
                .tell =
                    [this](const FileNews& news) {
                      told_.push_back(news.what);
                      news_.push_back(news);
                    }}) {
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

  KeepingStore store_;
  HeldTransfers transfers_;
  std::vector<uint32_t> arrived_;
  std::vector<std::pair<uint32_t, std::string>> failed_;
  std::vector<FileNews::What> told_;
  std::vector<FileNews> news_;
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
    EXPECT_EQ(news_.back().object, test::FakeStore::ObjectOf("content")) << "which of its contents it is about";
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
  EXPECT_EQ(news_[0].put, 5u);
  EXPECT_EQ(news_[0].text, "the node does not hold it");
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
  EXPECT_EQ(files_.Spoilings(object.id), 1u);
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
                   .tell =
                       [this](const FileNews& news) {
                         told_.push_back(news.what);
                         news_.push_back(news);
                       }},
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
  EXPECT_EQ(recorded_.Spoilings(input.id), before + 1) << "the attempt may have read it";
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

TEST_F(LocalFilesTest, WhoIsToldOrAskedMayAskBack) {
  const store::Object object = store_.Put("content");
  size_t held = 0;
  std::optional<LocalFiles> files;
  files.emplace(&store_, 1,
                LocalFiles::Hooks{.arrived = [&](AttemptId) { held += files->Held().size(); },
                                  .failed = {},
                                  .tell = [&](const FileNews&) { held += files->Held().size(); }});
  files->Use(&transfers_);
  transfers_.asked = [&] { EXPECT_TRUE(files->Held().empty()); };
  files->Bring({.file = FileId(1), .object = object, .path = "/submit/f"});
  EXPECT_EQ(held, 1u) << "it was told that it is here";
  files->Drop(FileId(1));
  files->Bring({.file = FileId(2), .path = "/submit/g"});
  files->Drop(FileId(2));
  EXPECT_THAT(transfers_.abandoned, ElementsAre(2u));
  files->Await(Task(7, {3}));
  files->Made(FileId(3), store_.Put("made"));
  EXPECT_EQ(held, 2u);
}

TEST_F(LocalFilesTest, WhateverIsHereIsAnswerEnoughWhereNobodyKnowsWhatItHasToBe) {
  const store::Object object = store_.Put("content");
  files_.Made(FileId(1), object);
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  EXPECT_THAT(transfers_.fetches, IsEmpty());
  ASSERT_THAT(told_, ElementsAre(FileNews::What::kStored));
  EXPECT_EQ(news_[0].object, object);
}

TEST_F(LocalFilesTest, WhatAFileWasIsDroppedBeforeWhatItIsToBeComes) {
  const store::Object before = store_.Put("before");
  files_.Made(FileId(1), before);
  files_.Bring({.file = FileId(1), .object = test::FakeStore::ObjectOf("after"), .path = "/submit/f"});
  EXPECT_FALSE(store_.Has(before.id));
  EXPECT_FALSE(files_.ObjectOf(FileId(1)));
  EXPECT_EQ(transfers_.fetches.size(), 1u);
}

TEST_F(LocalFilesTest, WhatCameAndWasDroppedAsAnothersIsNotHere) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.Await(Task(7, {1}));
  Comes(0, test::FakeStore::ObjectOf("content"));
  ASSERT_THAT(told_, ElementsAre(FileNews::What::kUnreachable)) << "it is to be asked for again";
  EXPECT_FALSE(news_[0].object);
  EXPECT_THAT(arrived_, IsEmpty());
  EXPECT_FALSE(files_.ObjectOf(FileId(1)));
}

TEST_F(LocalFilesTest, WhoWaitsForWhatIsDroppedWaitsOn) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  files_.Await(Task(7, {1}));
  files_.Drop(FileId(1));
  files_.Drop(FileId(1));
  EXPECT_THAT(transfers_.abandoned, ElementsAre(1u)) << "it comes no more";
  files_.TellMissing();
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kGone));
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  Comes(1, store_.Put("content"));
  EXPECT_THAT(arrived_, ElementsAre(7u));
}

TEST_F(LocalFilesTest, WhatIsDroppedHasNoTroubleAnyMore) {
  files_.Bring({.file = FileId(1), .path = "/submit/f"});
  Fails(0, Code::kNotFound);
  files_.Drop(FileId(1));
  EXPECT_EQ(files_.Await(Task(7, {1})).trouble, "");
}

TEST_F(LocalFilesTest, WhatIsAPartOfAnotherStaysForItself) {
  const store::Object part = store_.Put("part"), directory = store_.PutDirectory({part});
  files_.Bring({.file = FileId(1), .object = part, .from = NodeId(3)});
  EXPECT_THAT(store_.kept, ElementsAre(part.id));
  files_.Bring({.file = FileId(2), .path = "/submit/d"});
  Comes(0, directory);
  EXPECT_THAT(store_.kept, ElementsAre(part.id)) << "of a directory the listing is its own";
  files_.Await(Task(7, {1, 2}));
  EXPECT_THAT(store_.kept, ElementsAre(part.id)) << "once";
}

// --- takings: what a task has just written may be what is dropped meanwhile

TEST_F(LocalFilesTest, NothingIsDroppedThatSomebodyMayJustTake) {
  const store::Object a = store_.Put("a"), b = store_.Put("b"), c = store_.Put("c");
  const uint64_t first = files_.BeginTaking();
  files_.Made(FileId(1), a);
  files_.Made(FileId(2), c);
  files_.Drop(FileId(1));
  files_.Drop(FileId(2));
  EXPECT_TRUE(store_.Has(a.id));
  const uint64_t second = files_.BeginTaking();
  EXPECT_NE(first, second);
  files_.Discard(b.id);
  files_.Made(FileId(2), c);  // it was taken once more
  files_.EndTaking(first);
  EXPECT_FALSE(store_.Has(a.id)) << "who goes on began after it was dropped";
  EXPECT_TRUE(store_.Has(b.id)) << "the second may have it";
  EXPECT_TRUE(store_.Has(c.id));
  files_.EndTaking(second);
  EXPECT_FALSE(store_.Has(b.id));
  EXPECT_TRUE(store_.Has(c.id)) << "it is a file's";
  files_.Discard(c.id);
  EXPECT_TRUE(store_.Has(c.id));
}

TEST_F(LocalFilesTest, WhatBeganBeforeItWasDroppedKeepsItAlsoWhereItEndsLast) {
  const store::Object a = store_.Put("a");
  const uint64_t first = files_.BeginTaking(), second = files_.BeginTaking();
  files_.Discard(a.id);
  files_.EndTaking(second);
  EXPECT_TRUE(store_.Has(a.id));
  files_.EndTaking(first);
  EXPECT_FALSE(store_.Has(a.id));
  files_.Discard(store_.Put("a").id);
  EXPECT_FALSE(store_.Has(a.id)) << "nobody takes anything";
}

// --- to other directories

class CopiedOutTest : public LocalFilesTest {
 protected:
  std::string Path(const std::string& name) const { return top_ + "/" + name; }
  static std::string TextOf(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(top_)) names.push_back(entry.path().filename());
    return names;
  }
  /// One slot works: what was asked for before is done.
  void Done() {
    files_.Outside([] {});
  }
  const test::OwnDirectory own_;
  const std::string& top_ = own_.path();
};

TEST_F(CopiedOutTest, WhatIsSavedIsCopiedAndTold) {
  const store::Object object = store_.Put("content");
  std::vector<std::string> temporary;
  const mode_t before = ::umask(027);
  LocalFiles files(&store_, 1,
                   {.arrived = {},
                    .failed = {},
                    .tell = [this](const FileNews& news) { news_.push_back(news); },
                    .temporary = [&](const std::string& path) { temporary.push_back(path); }});
  EXPECT_EQ(::umask(before), 027u) << "it was only looked at";
  EXPECT_EQ(files.umask(), 027u);
  files.Save(FileId(1), Path("f"));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_EQ(news_[0].what, FileNews::What::kNotSaved);
  EXPECT_EQ(news_[0].text, "the node does not hold it");
  files.Made(FileId(1), object);
  files.Save(FileId(1), Path("f"));
  files.Outside([] {});
  ASSERT_EQ(news_.size(), 2u);
  EXPECT_EQ(news_[1].what, FileNews::What::kSaved);
  EXPECT_EQ(news_[1].object, object);
  EXPECT_EQ(TextOf(Path("f")), "content");
  EXPECT_THAT(store_.masks, ElementsAre(027u));
  EXPECT_THAT(temporary, ElementsAre(Path("f")));
  store_.copy_fails = Status(Code::kExhausted, "no space left");
  files.Save(FileId(1), Path("g"));
  files.Outside([] {});
  ASSERT_EQ(news_.size(), 3u);
  EXPECT_EQ(news_[2].what, FileNews::What::kNotSaved);
  EXPECT_EQ(news_[2].text, "no space left");
}

TEST_F(CopiedOutTest, WhatIsPutHasItsNameWhenItIsWhole) {
  files_.NoteTemporary("nobody minds");
  const store::Object object = store_.Put("content");
  files_.Made(FileId(1), object);
  const LocalFiles::Putting put{.number = 5, .file = FileId(1), .object = object.id, .path = Path("1-x")};
  store_.copying = [&] {
    EXPECT_FALSE(std::filesystem::exists(Path("1-x")));
    files_.Put(put);  // asked again: it is answered once
  };
  files_.Put(put);
  Done();
  ASSERT_THAT(told_, ElementsAre(FileNews::What::kPut));
  EXPECT_EQ(news_[0].put, 5u);
  EXPECT_EQ(news_[0].object, object);
  EXPECT_GT(news_[0].took, Duration(0));
  EXPECT_LT(news_[0].took, std::chrono::hours(1));
  EXPECT_EQ(TextOf(Path("1-x")), "content");
  EXPECT_THAT(Names(), ElementsAre("1-x"));
  EXPECT_THAT(store_.masks, ElementsAre(077u)) << "it is for this user";
  files_.Put(put);
  Done();
  ASSERT_THAT(told_, ElementsAre(FileNews::What::kPut, FileNews::What::kPut)) << "it is asked for anew";
  EXPECT_EQ(news_[1].took, Duration(0)) << "it was there";
  EXPECT_EQ(store_.masks.size(), 1u);
}

TEST_F(CopiedOutTest, WhatIsPutMayBeAContentThatNoNodeHolds) {
  files_.Put({.number = 6, .file = FileId(1), .content = "a list", .path = Path("list")});
  Done();
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kPut));
  EXPECT_EQ(TextOf(Path("list")), "a list");
  struct stat info {};
  ASSERT_EQ(stat(Path("list").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  files_.Put({.number = 7, .file = FileId(1), .content = "a list", .path = Path("nowhere/list")});
  Done();
  ASSERT_THAT(told_, ElementsAre(FileNews::What::kPut, FileNews::What::kNotPut));
  EXPECT_NE(news_[1].text, "");
}

TEST_F(CopiedOutTest, WhatCannotBePutLeavesNothing) {
  const store::Object object = store_.Put("content");
  files_.Made(FileId(1), object);
  store_.copy_fails = Status(Code::kExhausted, "no space left");
  files_.Put({.number = 1, .file = FileId(1), .object = object.id, .path = Path("1-x")});
  Done();
  ASSERT_THAT(told_, ElementsAre(FileNews::What::kNotPut));
  EXPECT_EQ(news_[0].text, "no space left");
  EXPECT_THAT(Names(), IsEmpty());
  store_.copying = [&] { std::ofstream(Path("1-x")) << "content"; };
  files_.Put({.number = 2, .file = FileId(1), .object = object.id, .path = Path("1-x")});
  Done();
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kNotPut, FileNews::What::kPut)) << "another node was quicker";
  EXPECT_THAT(Names(), ElementsAre("1-x"));
}

TEST_F(CopiedOutTest, WhatIsNotNeededThereAnyMoreIsRemoved) {
  std::filesystem::create_directory(Path("d"));
  std::ofstream(Path("d/inside")) << "x";
  std::ofstream(Path("f")) << "x";
  std::ofstream(Path("other")) << "x";
  files_.Unput({Path("d"), Path("not there"), Path("f")});
  Done();
  EXPECT_THAT(Names(), ElementsAre("other"));
}

// --- what is known of the submit directory

TEST_F(RecordedFilesTest, WhatIsHereIsNotedAsWhatItWasWhereAnotherNodeHasReadIt) {
  const store::Object object = store_.Put("content");
  recorded_.Made(FileId(1), object);
  recorded_.Bring({.file = FileId(1), .object = object, .path = "/submit/f", .source = "s"});
  EXPECT_THAT(index_->Entries(), IsEmpty()) << "nobody else has read it";
  recorded_.Bring({.file = FileId(1), .object = object, .path = "/submit/f", .from = NodeId(3), .source = "s"});
  EXPECT_EQ(index_->Find("/submit/f", "s"), object);
  EXPECT_THAT(told_, ElementsAre(FileNews::What::kStored, FileNews::What::kStored));
  recorded_.Bring({.file = FileId(2), .path = "/submit/g", .source = "s"});
  Comes(0, object);
  EXPECT_EQ(index_->Find("/submit/g", "s"), std::nullopt) << "who read it here has noted it";
  recorded_.Bring({.file = FileId(3), .path = "/submit/h", .from = NodeId(3), .source = "s"});
  Fails(1, Code::kUnavailable);
  EXPECT_EQ(index_->Find("/submit/h", "s"), std::nullopt);
}

/// All others are of use from now on, also where no task needs them.
TEST_F(RecordedFilesTest, OnlyWhatNobodyElseCountsOnGivesWay) {
  const store::Object named = store_.Put("named"), unnamed = store_.Put("unnamed"), used = store_.Put("used"),
                      fetched = store_.Put("fetched");
  for (const store::Object& object : {named, used, fetched}) index_->Note("/submit/" + object.id.Text(), "s", object);
  recorded_.Made(FileId(9), used);
  uint32_t next = 1;
  const auto stays = [&](const store::Object& object, NodeId from) {
    store_.kept.clear();
    recorded_.Bring({.file = FileId(next++), .object = object, .path = "/submit/f", .from = from});
    return !store_.kept.empty();
  };
  EXPECT_FALSE(stays(named, {}));
  EXPECT_TRUE(stays(unnamed, {}));
  EXPECT_TRUE(stays(used, {}));
  EXPECT_TRUE(stays(fetched, NodeId(3)));
  for (int i = 0; i < 2; ++i) recorded_.Await(Task(7, {1}));
  EXPECT_THAT(store_.kept, ElementsAre(fetched.id, named.id)) << "once, when a task needs it";
  LocalFiles without(&store_, 1, {.arrived = {}, .failed = {}, .tell = [](const FileNews&) {}});
  store_.kept.clear();
  without.Bring({.file = FileId(1), .object = named, .path = "/submit/f"});
  EXPECT_THAT(store_.kept, ElementsAre(named.id)) << "nobody knows what earlier runs left";
}

TEST_F(RecordedFilesTest, AServerThatWantsToKnowIsToldWhatWasReadToBeThis) {
  const std::string path = "/etc/passwd", source = SourceOf(path);  // some file that is not written to
  ASSERT_NE(source, "");
  const store::Object object = store_.Put("content"), other = store_.Put("other");
  index_->Note(path, source, object);
  LocalFiles telling(&store_, 1,
                     {.arrived = {}, .failed = {}, .tell = [this](const FileNews& news) { news_.push_back(news); }},
                     {.sources = index_.get(), .log = nullptr, .tell = true});
  uint32_t next = 1;
  const auto told = [&](const store::Object& here, NodeId from) {
    telling.Bring({.file = FileId(next++), .object = here, .path = path, .from = from});
    telling.Outside([] {});
    EXPECT_EQ(news_.back().object, here);
    return news_.back().source;
  };
  EXPECT_EQ(told(object, {}), source);
  EXPECT_EQ(told(object, NodeId(3)), "") << "it was read by another node";
  EXPECT_EQ(told(other, {}), "") << "it was something else";
  EXPECT_EQ(news_.size(), 3u);
  EXPECT_THAT(store_.kept, ElementsAre(object.id, object.id, other.id)) << "what the server knows of stays";
}

TEST_F(RecordedFilesTest, WhatAnEarlierAgentHeldAndIsGoneIsNotHeld) {
  const store::Object here = store_.Put("here");
  recorded_.Restore({{FileId(1), here}, {FileId(2), test::FakeStore::ObjectOf("gone")}});
  EXPECT_THAT(recorded_.Held(), ElementsAre(std::pair(FileId(1), here)));
}

}  // namespace
}  // namespace harrow::agent
