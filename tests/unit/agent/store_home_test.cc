// Where a node's store lies, what of it outlives a run, and what becomes of objects that nobody knows any more.
#include "agent/store_home.h"

#include <algorithm>
#include <gmock/gmock.h>

#include "base/text.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Use = StoreHome::Options::Use;

class StoreHomeTest : public OnDisk {
 protected:
  StoreHomeTest() {
    Directory("base");
    Directory("tmp");
    options_ = {.base = At("base"), .of_job = true, .tmp = At("tmp"), .node = "n1", .session = "s"};
  }
  std::string Lasting() const { return StoreHome::LastingPath(At("base"), "n1"); }
  std::unique_ptr<StoreHome> Open(Use use = Use::kRun) {
    options_.use = use;
    Result<std::unique_ptr<StoreHome>> home = StoreHome::Open(options_);
    EXPECT_TRUE(home.ok()) << home.status().message();
    return home.ok() ? *std::move(home) : nullptr;
  }
  Status Refusal(Use use) {
    options_.use = use;
    return StoreHome::Open(options_).status();
  }
  /// A file of the submit directory that was written long ago, and what an index knows of it.
  std::string Source(const std::string& name, const std::string& text) const {
    const std::string path = Write("submit/" + name, text);
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    return path;
  }
  static store::Object Note(StoreHome& home, const std::string& path) {
    const store::Object object = *home.store().CopyIn(path);
    home.sources()->Note(path, SourceOf(path, INT64_MAX), object);
    return object;
  }
  static std::vector<std::string> Unchanged(const StoreHome& home, const std::string& below) {
    std::vector<std::string> names;
    for (const SourceIndex::Entry& entry : home.FindUnchanged(below)) names.push_back(fs::path(entry.path).filename());
    return names;
  }

  StoreHome::Options options_;
};

TEST_F(StoreHomeTest, APathThatLastsNamesItsUserAndItsNode) {
  EXPECT_EQ(StoreHome::LastingPath("/disk", "n7"), StrCat("/disk/harrow-store-", static_cast<uint32_t>(geteuid()), "-n7"));
}

TEST_F(StoreHomeTest, InAJobsDirectoryOneIsMadeThatLasts) {
  const auto home = Open();
  EXPECT_FALSE(home->found());
  EXPECT_NE(home->sources(), nullptr);
  EXPECT_NE(home->log(), nullptr);
  EXPECT_EQ(home->notice(), "");
  EXPECT_TRUE(fs::is_directory(Lasting()));
  EXPECT_EQ(ModeOf(Lasting()), 0700u);
  EXPECT_TRUE(fs::is_empty(At("tmp")));
}

TEST_F(StoreHomeTest, ElsewhereOneThatLastsIsUsedWhereSomebodyHasMadeIt) {
  options_.of_job = false;
  auto home = Open();
  EXPECT_FALSE(home->found());
  EXPECT_EQ(home->sources(), nullptr);
  EXPECT_NE(home->log(), nullptr);
  EXPECT_EQ(home->notice(), "");
  EXPECT_TRUE(Has("tmp/files/store"));
  EXPECT_TRUE(fs::is_empty(At("base")));
  home.reset();
  home = Open(Use::kStage);
  EXPECT_FALSE(home->found());
  EXPECT_NE(home->sources(), nullptr);
  EXPECT_TRUE(fs::is_directory(Lasting()));
  home.reset();
  home = Open();
  EXPECT_TRUE(home->found());
  EXPECT_NE(home->sources(), nullptr);
}

TEST_F(StoreHomeTest, WhatCannotBeUsedIsToldAndTheRunHasOneOfItsOwn) {
  const auto first = Open();
  auto second = Open();
  EXPECT_TRUE(second->found());
  EXPECT_EQ(second->sources(), nullptr);
  EXPECT_THAT(second->notice(), HasSubstr("what earlier runs left there is not used: "));
  EXPECT_TRUE(Has("tmp/files/store"));
  EXPECT_EQ(Refusal(Use::kStage).code(), Code::kUnavailable) << "another run has it";
  second.reset();
  options_.tmp.clear();
  EXPECT_EQ(Refusal(Use::kRun).code(), Code::kInvalid);
}

TEST_F(StoreHomeTest, ADirectoryThatIsNotOursAloneIsNotUsed) {
  fs::create_directory(Lasting());
  for (const mode_t open : {0710u, 0701u, 0704u, 0770u}) {
    chmod(Lasting().c_str(), open);
    EXPECT_EQ(Refusal(Use::kStage).code(), Code::kPermission) << open;
  }
  chmod(Lasting().c_str(), 0700);
  if (chown(Lasting().c_str(), 65534, 65534) == 0) {
    EXPECT_EQ(Refusal(Use::kStage).code(), Code::kPermission) << "another user's";
  }
  fs::rename(Lasting(), At("elsewhere"));
  fs::create_directory_symlink(At("elsewhere"), Lasting());
  EXPECT_EQ(Refusal(Use::kStage).code(), Code::kPermission);
  fs::remove(Lasting());
  Write(fs::path(Lasting()).lexically_relative(top_).string(), "a file", 0600);
  EXPECT_EQ(Refusal(Use::kStage).code(), Code::kPermission);
  options_.base = At("nowhere");
  EXPECT_EQ(Refusal(Use::kStage).code(), Code::kUnavailable);
}

TEST_F(StoreHomeTest, WithoutAPlaceThatLastsNothingCanBeStagedOrDropped) {
  options_.base.clear();
  for (const Use use : {Use::kStage, Use::kDrop}) {
    const Status status = Refusal(use);
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.message(), HasSubstr("nothing outlives a run there"));
  }
  EXPECT_EQ(Open()->sources(), nullptr);
  options_.base = At("base");
  EXPECT_EQ(Refusal(Use::kDrop).code(), Code::kNotFound);
  EXPECT_TRUE(fs::is_empty(At("base"))) << "nothing is made to be dropped";
}

TEST_F(StoreHomeTest, WhatAnEarlierAgentOfTheSessionHeldIsFound) {
  auto home = Open();
  EXPECT_THAT(home->held(), IsEmpty());
  const store::Object object = *home->store().CopyIn(Source("a", "text"));
  home->log()->Note(FileId(7), object);
  home.reset();
  home = Open();
  ASSERT_THAT(home->held(), SizeIs(1));
  EXPECT_EQ(home->held()[0], std::pair(FileId(7), object));
  EXPECT_TRUE(home->store().Has(object.id));
  home.reset();
  options_.session = "another";
  home = Open();
  EXPECT_THAT(home->held(), IsEmpty());
  EXPECT_FALSE(home->store().Has(object.id)) << "nobody knows it any more";
}

TEST_F(StoreHomeTest, WhatIsOfTheSubmitDirectoryGivesWayToWhatIsWantedNow) {
  options_.limit = 100 << 10;
  auto home = Open();
  const store::Object source = Note(*home, Source("a", std::string(60'000, 'a')));
  home.reset();
  home = Open();
  EXPECT_TRUE(home->store().Has(source.id));
  EXPECT_EQ(home->store().room().used, 0u) << "it is spare";
  EXPECT_TRUE(home->store().CopyIn(Source("b", std::string(60'000, 'b'))).ok());
  EXPECT_FALSE(home->store().Has(source.id));
  home.reset();
  home = Open();
  home->log()->Note(FileId(7), Note(*home, Source("c", std::string(60'000, 'c'))));
  home.reset();
  home = Open();
  EXPECT_FALSE(home->store().CopyIn(Source("d", std::string(60'000, 'd'))).ok()) << "what is held does not";
}

// Files of the source tree, as one that was just written may be written once more without a sign of it.
TEST_F(StoreHomeTest, OfTheSubmitDirectoryThatIsFoundWhichIsWhatItWas) {
  const std::string submit = HARROW_SOURCE_DIR "/sched/agent/steps";
  auto home = Open();
  EXPECT_THAT(home->FindUnchanged(submit), IsEmpty());
  std::vector<std::string> all;
  for (const fs::directory_entry& e : fs::directory_iterator(submit)) {
    all.push_back(e.path().filename());
    Note(*home, e.path());
  }
  ASSERT_GT(all.size(), 20u);
  EXPECT_THAT(Unchanged(*home, submit), testing::UnorderedElementsAreArray(all)) << "each once, however many look";
  EXPECT_THAT(Unchanged(*home, HARROW_SOURCE_DIR "/sched/agent/step"), IsEmpty()) << "that is another directory";
  const store::Object object = *home->store().CopyIn(submit + "/step.h");
  for (const SourceIndex::Entry& entry : home->FindUnchanged(submit)) {
    if (entry.path.ends_with("/step.h")) {
      EXPECT_EQ(entry.object, object);
    }
  }
  home->sources()->Note(submit + "/step.h", "what it was before", object);
  home->sources()->Note(submit + "/gone", "what it was before", object);
  home->store().Drop((*home->store().CopyIn(submit + "/step.cc")).id);
  std::erase_if(all, [](const std::string& name) { return name == "step.h" || name == "step.cc"; });
  EXPECT_THAT(Unchanged(*home, submit), testing::UnorderedElementsAreArray(all));
  options_.base.clear();
  EXPECT_THAT(Open()->FindUnchanged(submit), IsEmpty());
}

TEST_F(StoreHomeTest, NoMoreIsNamedThanAMessageMayHold) {
  // One file by many long names.
  const std::string submit = HARROW_SOURCE_DIR "/sched/agent/steps", file = submit + "/step.h";
  const auto home = Open();
  const store::Object object = Note(*home, file);
  constexpr size_t kMost = 16u << 20, kLongest = 4000;
  for (size_t i = 0; i < kMost / kLongest + 100; ++i) {
    std::string path = submit;
    for (size_t bit = 0; bit < 16; ++bit) path += (i >> bit & 1) != 0 ? "/." : "//";
    while (path.size() < kLongest) path += "/.";
    home->sources()->Note(path + "/step.h", SourceOf(file, INT64_MAX), object);
  }
  size_t named = 0;
  for (const SourceIndex::Entry& entry : home->FindUnchanged(submit)) named += entry.path.size() + 32;
  EXPECT_GE(named, kMost);
  EXPECT_LE(named, kMost + kLongest + 100) << "one more at most";
}

TEST_F(StoreHomeTest, AtTheEndOnlyWhatLaterRunsCanFindStays) {
  auto home = Open();
  const store::Object source = Note(*home, Source("a", "source"));
  const store::Object other = *home->store().CopyIn(Source("b", "other"));
  home->log()->Note(FileId(1), other);
  home->Close();
  EXPECT_TRUE(home->store().Has(source.id));
  EXPECT_FALSE(home->store().Has(other.id));
  EXPECT_EQ(home->log(), nullptr);
  EXPECT_EQ(home->sources(), nullptr);
  home.reset();
  EXPECT_TRUE(Has("base"));
  EXPECT_TRUE(fs::exists(Lasting()));
  home = Open();
  EXPECT_THAT(home->held(), IsEmpty());
  EXPECT_THAT(home->sources()->Entries(), SizeIs(1));
}

TEST_F(StoreHomeTest, OneThatDoesNotLastKeepsWhatItHasForTheAgentThatIsStartedAgain) {
  options_.base.clear();
  auto home = Open();
  const store::Object object = *home->store().CopyIn(Source("a", "text"));
  home->log()->Note(FileId(1), object);
  home->Close();
  EXPECT_TRUE(home->store().Has(object.id)) << "it goes with its directory";
}

TEST_F(StoreHomeTest, OneThatIsDroppedIsRemovedWithAllThatIsThere) {
  Open(Use::kStage);
  Write(fs::path(Lasting() + "/sources.tmp").lexically_relative(top_).string(), "what a killed agent left");
  CountDescriptors();
  auto home = Open(Use::kDrop);
  EXPECT_TRUE(home->found());
  EXPECT_EQ(home->log(), nullptr);
  EXPECT_EQ(home->sources(), nullptr);
  home->Close();
  EXPECT_FALSE(fs::exists(Lasting()));
  home.reset();
  ExpectNoDescriptorMore();
  EXPECT_EQ(Refusal(Use::kDrop).code(), Code::kNotFound);
}

}  // namespace
}  // namespace harrow::agent
