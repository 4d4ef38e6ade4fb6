// A part that has joined a run: the run's flow, what was submitted to the first part, and settings of its own.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <stdlib.h>

#include "run/added.h"
#include "run/flow_builder.h"
#include "run/profile.h"
#include "run_dir/names.h"
#include "unit/run/test_flow.h"

namespace harrow::run {
namespace {

class JoinedPart : public testing::Test {
 protected:
  JoinedPart() {
    path_ = (std::filesystem::temp_directory_path() / "harrow-joined-XXXXXX").string();
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    run_ = run_dir::RunDir::Open(path_).value();
    first_.emplace(run_dir::MakePart(run_).value());
    part_.emplace(run_dir::MakePart(run_, "1").value());
    const StoredFlow flow = test::TinyFlow({{"a", "make a", {}, {"a"}}, {"b", "use a", {"a"}}});
    RunSettings settings = flow.settings;
    settings.submitted = 1;  // b was, before the run was resumed
    EXPECT_TRUE(WriteFlow(*run_, path_, settings, flow.graph, {}).ok());
    WriteOwn("run");
  }
  ~JoinedPart() override { std::filesystem::remove_all(path_); }

  void WriteOwn(const std::string& flow_id) {
    RunSettings own;
    own.flow_id = flow_id;
    own.job_id = "77";
    EXPECT_TRUE(WriteSettings(*part_->dir, part_->dir->path(), own).ok());
  }
  /// One task, the `id`th, which waits for the first; the joined part took it.
  static pb::AddedGroup Group(uint32_t id, const std::string& name) {
    pb::AddedGroup group;
    group.set_part(1);
    ProfileToProto({}, 0, group.mutable_chunk()->add_profile());
    pb::StoredTask& task = *group.mutable_chunk()->add_task();
    task.set_name(name);
    task.set_profile(id - 1);  // one of the flow, then one a group
    task.set_kind(KindId::kNone);
    task.add_after(0);
    pb::AddedSubmission& submission = *group.add_submission();
    submission.set_id("id of " + name);
    submission.add_task(id);
    return group;
  }
  void Submit(uint32_t id, const std::string& name) { EXPECT_TRUE(file().Append(Group(id, name)).ok()); }
  AddedFile file() { return AddedFile(*first_->dir, "run", 2); }
  std::string Names() const {
    std::string names;
    for (uint32_t n = 0; n < flow_.graph.task_count(); ++n) names += flow_.graph.TaskName(TaskId(n));
    return names;
  }
  std::string AddedPath() const { return run_dir::AddedPath(first_->dir->path()); }
  Status More() { return ReadMore(*part_, 2, "run", &at_, &builder_, &unread_); }

  std::string path_;
  std::shared_ptr<run_dir::RunDir> run_;
  std::optional<run_dir::Part> first_, part_;
  StoredFlow flow_;
  FlowBuilder builder_{&flow_};
  uint64_t at_ = 0;
  Status unread_;
};

TEST_F(JoinedPart, HasTheTasksOfTheRunAndSettingsOfItsOwn) {
  Submit(2, "x");
  const Result<uint32_t> tasks = ReadFlow(*part_, &flow_, &builder_, nullptr);
  ASSERT_TRUE(tasks.ok()) << tasks.status().message();
  EXPECT_EQ(*tasks, 2u) << "that are in the flow file";
  EXPECT_EQ(Names(), "abx");
  EXPECT_EQ(flow_.settings.job_id, "77");
  EXPECT_EQ(flow_.settings.submitted, 2u);
  EXPECT_EQ(flow_.first_owners.From<uint32_t>(0, 1), std::vector<uint32_t>{2});
  EXPECT_EQ(ReadFlow(*first_)->settings.job_id, "");
}

TEST_F(JoinedPart, DoesNotGoByAnotherFlowThanItJoined) {
  WriteOwn("run-2");
  const Status status = ReadFlow(*part_).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_EQ(status.message(), path_ + "/1: the run has been resumed with another flow since");
  std::filesystem::remove(run_dir::FlowPath(part_->dir->path()));
  EXPECT_EQ(ReadFlow(*part_).status().code(), Code::kNotFound) << "it has no settings";
}

TEST_F(JoinedPart, TakesInWhatIsSubmittedOnce) {
  Submit(2, "x");
  ASSERT_TRUE(ReadFlow(*part_, &flow_, &builder_, nullptr).ok());
  EXPECT_TRUE(More().ok());
  EXPECT_EQ(Names(), "abx");
  Submit(3, "y");
  Submit(4, "z");
  EXPECT_TRUE(More().ok());
  EXPECT_TRUE(More().ok());
  EXPECT_EQ(Names(), "abxyz");
  EXPECT_EQ(flow_.graph.predecessors(TaskId(4)).size(), 1u) << "it is linked";
  EXPECT_TRUE(unread_.ok());
}

TEST_F(JoinedPart, ReadsAllAgainAndTakesInWhatIsNew) {
  Submit(2, "x");
  ASSERT_TRUE(ReadFlow(*part_, &flow_, &builder_, nullptr).ok());
  Submit(3, "y");
  EXPECT_TRUE(More().ok());
  EXPECT_EQ(Names(), "abxy");
}

TEST_F(JoinedPart, TakesInWhatIsBeforeThatWhichDoesNotRead) {
  ASSERT_TRUE(ReadFlow(*part_, &flow_, &builder_, nullptr).ok());
  Submit(2, "x");
  const auto whole = std::filesystem::file_size(AddedPath());
  for (const auto& [id, name] : {std::pair(3u, "y"), {4u, "z"}}) Submit(id, name);
  std::fstream bytes(AddedPath(), std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(static_cast<std::streamoff>(whole) + 20);
  bytes.put('\xff').flush();
  EXPECT_TRUE(More().ok());
  EXPECT_EQ(unread_.code(), Code::kDamaged);
  EXPECT_EQ(Names(), "abx");
  EXPECT_EQ(ReadFlow(*part_).status().code(), Code::kDamaged) << "who begins has to have all";
}

TEST_F(JoinedPart, IsToldOfAGroupThatDoesNotFit) {
  ASSERT_TRUE(ReadFlow(*part_, &flow_, &builder_, nullptr).ok());
  Submit(3, "y");  // without the one before it
  EXPECT_EQ(More().code(), Code::kDamaged);
}

TEST_F(JoinedPart, WithoutAFirstPartThereIsNothingMore) {
  ASSERT_TRUE(ReadFlow(*part_, &flow_, &builder_, nullptr).ok());
  std::filesystem::remove_all(first_->dir->path());
  EXPECT_TRUE(More().ok());
  EXPECT_EQ(Names(), "ab");
}

TEST_F(JoinedPart, KnowsWhoSubmittedWhat) {
  EXPECT_TRUE(ReadSubmissions(*first_->dir, "run", 2)->empty());
  Submit(2, "x");
  Submit(3, "y");
  const Result<std::vector<Submission>> known = ReadSubmissions(*first_->dir, "run", 2);
  ASSERT_TRUE(known.ok()) << known.status().message();
  ASSERT_EQ(known->size(), 2u);
  EXPECT_EQ((*known)[0].id, "id of x");
  EXPECT_EQ((*known)[0].tasks, std::vector<TaskId>{TaskId(2)});
  EXPECT_EQ((*known)[1].tasks, std::vector<TaskId>{TaskId(3)});
  pb::AddedGroup group = Group(4, "z");
  group.mutable_submission(0)->set_task(0, 5);  // the next one
  EXPECT_TRUE(file().Append(group).ok());
  EXPECT_EQ(ReadSubmissions(*first_->dir, "run", 2).status().code(), Code::kDamaged);
}

}  // namespace
}  // namespace harrow::run
