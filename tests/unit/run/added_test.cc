// PART/added: what was submitted to a run, with the crashes that it has to stand.
#include "run/added.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <stdlib.h>
#include <utility>

#include "run/flow_builder.h"
#include "run/profile.h"
#include "run/resume.h"
#include "run_dir/names.h"
#include "unit/run/test_flow.h"

namespace harrow::run {
namespace {

class Added : public testing::Test {
 protected:
  Added() : flow_(test::TinyFlow({{"a", "make a", {}, {"a"}}, {"", "use a", {"a"}, {}}})) {
    path_ = (std::filesystem::temp_directory_path() / "harrow-added-XXXXXX").string();
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    part_.emplace(run_dir::MakePart(run_dir::RunDir::Open(path_).value()).value());
    EXPECT_TRUE(WriteFlow(*part_->run, path_, flow_.settings, flow_.graph, {}).ok());
    file_ = run_dir::AddedPath(part_->dir->path());
  }
  ~Added() override { std::filesystem::remove_all(path_); }

  /// One task, which waits for #1.
  static pb::AddedGroup Group(uint32_t id, const std::string& name) {
    pb::AddedGroup group;
    ProfileToProto({}, 0, group.mutable_chunk()->add_profile());
    pb::StoredTask& task = *group.mutable_chunk()->add_task();
    task.set_name(name);
    task.set_command("run " + name);
    task.set_profile(id - 1);  // one of the flow, then one a group
    task.set_kind(KindId::kNone);
    task.add_after(0);
    pb::AddedSubmission& submission = *group.add_submission();
    submission.set_id("id of " + name);
    submission.add_task(id);
    return group;
  }
  std::string Names() {
    const Result<StoredFlow> flow = ReadFlow(*part_);
    if (!flow.ok()) return flow.status().message();
    std::string names;
    for (uint32_t n = 0; n < flow->graph.task_count(); ++n) names += flow->graph.TaskName(TaskId(n)) + " ";
    EXPECT_EQ(flow->settings.submitted, flow->graph.task_count() - 2);
    return names;
  }
  std::string Bytes() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  }

  StoredFlow flow_;
  std::string path_, file_;
  std::optional<run_dir::Part> part_;
};

TEST_F(Added, IsPartOfTheFlow) {
  EXPECT_EQ(Names(), "a #2 ");
  AddedFile file(*part_->dir, "run", 2);
  ASSERT_TRUE(file.Append(Group(2, "x")).ok());
  ASSERT_TRUE(file.Append(Group(3, "y")).ok());
  EXPECT_EQ(Names(), "a #2 x y ");
  StoredFlow flow;
  FlowBuilder builder(&flow);
  std::vector<Submission> submissions;
  const Result<uint32_t> tasks = ReadFlow(*part_, &flow, &builder, &submissions);
  ASSERT_TRUE(tasks.ok());
  EXPECT_EQ(*tasks, 2u);
  ASSERT_EQ(submissions.size(), 2u);
  EXPECT_EQ(submissions[1].id, "id of y");
  EXPECT_EQ(submissions[1].tasks, std::vector<TaskId>{TaskId(3)});
  EXPECT_EQ(flow.graph.predecessors(TaskId(3)).size(), 1u);
  const auto texts = ReadTaskTexts(*part_, {TaskId(1), TaskId(2), TaskId(3), TaskId(4)});
  ASSERT_TRUE(texts.ok());
  EXPECT_EQ(texts->size(), 3u);
  EXPECT_EQ(texts->at(1).command, "use a");
  EXPECT_EQ(texts->at(3).command, "run y");
  EXPECT_EQ(texts->at(3).place, "") << "no file tells it";
  EXPECT_EQ(std::filesystem::status(file_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Added, WhoReadsOnReadsEachGroupOnce) {
  uint64_t at = 0;
  std::string names;
  const auto read = [&] {
    const Status went = ReadAddedOn(*part_->dir, "run", 2, &at, [&](const pb::AddedGroup& group) {
      names += group.chunk().task(0).name();
      return Status();
    });
    return went.ok() ? std::exchange(names, "") : went.message();
  };
  EXPECT_EQ(read(), "") << "there is none yet";
  AddedFile file(*part_->dir, "run", 2);
  ASSERT_TRUE(file.Append(Group(2, "x")).ok());
  const size_t begin = Bytes().size();
  ASSERT_TRUE(file.Append(Group(3, "y")).ok());
  EXPECT_EQ(read(), "xy");
  EXPECT_EQ(at, Bytes().size());
  EXPECT_EQ(read(), "");
  ASSERT_TRUE(file.Append(Group(4, "z")).ok());
  const std::string whole = Bytes();
  // While it is being written, at any byte.
  const uint64_t before = at;
  for (size_t size = before; size < whole.size(); ++size) {
    SetBytes(whole.substr(0, size));
    EXPECT_EQ(read(), "") << size;
    EXPECT_EQ(at, before);
  }
  SetBytes(whole);
  EXPECT_EQ(read(), "z");
  EXPECT_EQ(at, whole.size());
  // Damage behind that is told, what was read before is not looked at.
  std::string damaged = whole;
  damaged[begin + 20] = static_cast<char>(damaged[begin + 20] ^ 1);
  SetBytes(damaged);
  EXPECT_EQ(read(), "");
  at = begin;
  EXPECT_NE(read().find("damaged"), std::string::npos);
  // Nor is what is before it read twice.
  SetBytes(whole);
  ASSERT_TRUE(file.Append(Group(5, "w")).ok());
  damaged = Bytes();
  damaged[before + 20] = static_cast<char>(damaged[before + 20] ^ 1);
  SetBytes(damaged);
  at = begin;
  names.clear();
  EXPECT_NE(read().find("damaged"), std::string::npos);
  EXPECT_EQ(names, "y");
  EXPECT_NE(read().find("damaged"), std::string::npos);
  EXPECT_EQ(names, "y");
}

TEST_F(Added, WhatACrashCutIsPassedOverAndWrittenOver) {
  {
    AddedFile file(*part_->dir, "run", 2);
    ASSERT_TRUE(file.Append(Group(2, "x")).ok());
  }
  const std::string whole = Bytes();
  {
    AddedFile file(*part_->dir, "run", 2);
    ASSERT_TRUE(file.Append(Group(3, "y")).ok());
  }
  const std::string more = Bytes();
  for (size_t size = whole.size(); size < more.size(); ++size) {
    SetBytes(more.substr(0, size));
    ASSERT_EQ(Names(), "a #2 x ") << size;
  }
  std::string bent = more;
  bent[more.size() - 3] = static_cast<char>(bent[more.size() - 3] ^ 1);
  for (const std::string& left : {whole + std::string(300, '\0'), bent, more.substr(0, more.size() - 4)}) {
    SetBytes(left);
    EXPECT_EQ(Names(), "a #2 x ");
    AddedFile file(*part_->dir, "run", 2);
    ASSERT_TRUE(file.Append(Group(3, "z")).ok());
    EXPECT_EQ(Names(), "a #2 x z ");
  }
}

TEST_F(Added, WhatIsDamagedBeforeItsEndIsToldAndNotWrittenOver) {
  {
    AddedFile file(*part_->dir, "run", 2);
    for (const auto& [id, name] : {std::pair{2u, "x"}, {3u, "y"}}) ASSERT_TRUE(file.Append(Group(id, name)).ok());
  }
  const std::string whole = Bytes();
  size_t found = 0;
  for (size_t at = 0; at < whole.size() / 2; ++at) {
    std::string bent = whole;
    bent[at] = static_cast<char>(bent[at] ^ 4);
    SetBytes(bent);
    const Result<StoredFlow> flow = ReadFlow(*part_);
    if (flow.ok()) {
      // A length that goes beyond the end looks as one that was cut.
      EXPECT_LT(flow->graph.task_count(), 4u) << at;
      continue;
    }
    ++found;
    EXPECT_EQ(flow.status().code(), Code::kDamaged) << flow.status().message();
    EXPECT_FALSE(AddedFile(*part_->dir, "run", 2).Append(Group(4, "z")).ok());
    EXPECT_EQ(Bytes(), bent);
  }
  EXPECT_GT(found, whole.size() / 4);
  SetBytes("");
  EXPECT_FALSE(ReadFlow(*part_).ok());
}

TEST_F(Added, TasksThatWaitForEachOtherAreToldOf) {
  pb::AddedGroup group = Group(2, "x");
  pb::FlowChunk* const chunk = group.mutable_chunk();
  const auto file = static_cast<uint32_t>(flow_.graph.file_count());
  for (const char* name : {"of x", "of y"}) chunk->add_file()->set_name(name);
  *chunk->add_task() = chunk->task(0);
  for (uint32_t n = 0; n < 2; ++n) {
    chunk->mutable_task(static_cast<int>(n))->add_in(file + 1 - n);
    chunk->mutable_task(static_cast<int>(n))->add_out(file + n);
  }
  chunk->mutable_task(1)->set_name("y");
  AddedFile file_of(*part_->dir, "run", 2);
  ASSERT_TRUE(file_of.Append(group).ok());
  const Status told = ReadFlow(*part_).status();
  EXPECT_EQ(told.code(), Code::kDamaged);
  EXPECT_THAT(told.message(), testing::HasSubstr("cycle"));
}

TEST_F(Added, OfAnotherFlowIsPassedOver) {
  for (const auto& [id, tasks] : {std::pair<std::string, uint32_t>{"another", 2}, {"run", 1}, {"run", 3}}) {
    {
      AddedFile file(*part_->dir, id, tasks);
      ASSERT_TRUE(file.Append(Group(2, "x")).ok());
    }
    EXPECT_EQ(Names(), "a #2 ") << id << tasks;
  }
  AddedFile file(*part_->dir, "run", 2);
  ASSERT_TRUE(file.Append(Group(2, "y")).ok());
  EXPECT_EQ(Names(), "a #2 y ");
}

TEST_F(Added, IsInTheFlowOfAResumedRun) {
  AddedFile file(*part_->dir, "run", 2);
  ASSERT_TRUE(file.Append(Group(2, "x")).ok());
  Result<StoredFlow> flow = ReadFlow(*part_);
  ASSERT_TRUE(flow.ok());
  const ResumePlan plan = PlanResume(flow->graph, flow->graph, {}, {});
  const std::string added = Bytes();
  ASSERT_TRUE(ApplyResume(part_->dir, plan, {}, &flow->settings, flow->graph, {}).ok());
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_EQ(Names(), "a #2 x ");
  SetBytes(added);  // a crash came before it was removed
  EXPECT_EQ(Names(), "a #2 x ");
}

TEST_F(Added, GoesAlongWithAFlowThatIsNamedAgain) {
  AddedFile file(*part_->dir, "run", 2);
  ASSERT_TRUE(file.Append(Group(2, "x")).ok());
  const Result<StoredFlow> before = ReadFlow(*part_);
  ASSERT_TRUE(before.ok());
  graph::Graph same = test::TinyGraph({{"a", "make a", {}, {"a"}}, {"", "use a", {"a"}, {}}});
  ASSERT_TRUE(TakeOverSubmitted(before->graph, 1, &same).ok());
  EXPECT_TRUE(PlanResume(before->graph, same, {}, {}).same_numbering);
  EXPECT_EQ(same.predecessors(TaskId(2)).size(), 1u);
  graph::Graph changed = test::TinyGraph({{"", "new", {}, {}}, {"a", "make another a", {}, {"a"}}});
  ASSERT_TRUE(TakeOverSubmitted(before->graph, 1, &changed).ok());
  EXPECT_EQ(changed.TaskName(TaskId(2)), "x");
  EXPECT_EQ(changed.command(TaskId(2)), "run x");
  ASSERT_EQ(changed.predecessors(TaskId(2)).size(), 1u);
  EXPECT_EQ(changed.predecessors(TaskId(2))[0], TaskId(1)) << "of the same name";
  graph::Graph without = test::TinyGraph({{"b", "make b", {}, {"a"}}});
  EXPECT_NE(TakeOverSubmitted(before->graph, 1, &without).message().find("waits for a, which the flow no longer has"),
            std::string::npos);
  graph::Graph numbers = test::TinyGraph({{"a", "make a", {}, {"a"}}, {"", "1", {}, {}}, {"", "2", {}, {}}});
  EXPECT_TRUE(TakeOverSubmitted(test::TinyGraph({{"a", "make a", {}, {"a"}}, {"2", "other", {}, {}}}), 1, &numbers).ok())
      << "a number is no name";
  graph::Graph taken = test::TinyGraph({{"a", "make a", {}, {"a"}}, {"x", "mine", {}, {}}});
  EXPECT_NE(TakeOverSubmitted(before->graph, 1, &taken).message().find("the flow has a task x now"), std::string::npos);
}

TEST(TakenOver, WhatItWaitsForIsTheSameTaskWithoutANameToo) {
  const std::vector<test::TinyTask> tasks = {{"a", "make a", {}, {"a"}}, {"", "use a", {"a"}, {}}};
  graph::Graph before;
  test::AddTiny(&before, tasks);
  test::AddTiny(&before, {{"x", "run x"}}, {TaskId(1)});
  graph::Graph now = test::TinyGraph({{"", "new"}});
  test::AddTiny(&now, tasks);
  ASSERT_TRUE(TakeOverSubmitted(before, 1, &now).ok());
  ASSERT_EQ(now.predecessors(TaskId(3)).size(), 1u);
  EXPECT_EQ(now.predecessors(TaskId(3))[0], TaskId(2));
}

/// w writes s, and r reads it; `submitted` more of each, connected as they are.
graph::Graph Joined(uint32_t submitted = 0) {
  graph::Graph graph = test::TinyGraph({{"w", "x"}, {"r", "x"}});
  const StreamId s = graph.AddStream("s");
  graph.AddWriter(s, TaskId(0));
  graph.AddReader(s, TaskId(1));
  graph.AddDependency(TaskId(0), TaskId(1), graph::WaitsFor::kStart);
  for (uint32_t n = 0; n < submitted; ++n) {
    graph::TaskSpec writer, reader;
    const std::string names[] = {StrCat("w", n), StrCat("r", n)};
    writer.name = names[0];
    reader.name = names[1];
    writer.profile = reader.profile = graph.AddProfile({});
    graph.AddWriter(s, graph.AddTask(writer));
    graph.AddReader(s, graph.AddTask(reader));
  }
  EXPECT_TRUE(graph.Seal().ok());
  return graph;
}

std::string Holds(const graph::Graph& graph) {
  std::string text;
  for (const graph::StreamHold& hold : graph.streams()[graph.FindStream("s")->value].holds)
    text += StrCat(hold.by, hold.task ? StrCat("#", hold.task.value) : "", hold.in_flow ? " in flow, " : ", ");
  return text;
}

TEST(TakenOver, AStreamIsOpenAsTheFlowSaysNowAndWhoeverElseHoldsIt) {
  const auto taken = [](const graph::Graph& before, bool open, uint32_t submitted = 0) {
    graph::Graph now = Joined();
    if (open) now.HoldStream(*now.FindStream("s"), {.by = "", .task = {}, .in_flow = true});
    const Status status = TakeOverSubmitted(before, submitted, &now);
    EXPECT_TRUE(status.ok()) << status.message();
    return Holds(now);
  };
  graph::Graph before = Joined();
  const StreamId s = *before.FindStream("s");
  EXPECT_EQ(taken(before, true), " in flow, ") << "it says so for the first time";
  before.HoldStream(s, {.by = "", .task = {}, .in_flow = true});
  before.HoldStream(s, {.by = "", .task = TaskId(0), .in_flow = true});
  EXPECT_EQ(taken(before, true), " in flow, ");
  EXPECT_EQ(taken(before, false), "") << "the flow no longer says so";
  before.HoldStream(s, {.by = "x", .task = TaskId(1)});
  EXPECT_EQ(taken(before, false), "x#1, ");
  before.HoldStream(s, {});
  EXPECT_EQ(taken(before, false), ", x#1, ") << "it is somebody's, beside the flow";
  before.CloseStream(s);
  EXPECT_EQ(taken(before, true), "") << "what was closed stays so";
  before.HoldStream(s, {.by = "y", .task = {}});
  EXPECT_EQ(taken(before, true), "y, ");
}

TEST(TakenOver, WhoHasHeldAStreamIsKnown) {
  graph::Graph before = Joined();
  const StreamId s = *before.FindStream("s");
  before.HoldStream(s, {.by = "", .task = TaskId(1)});
  before.CloseStream(s);
  graph::Graph now = test::TinyGraph({{"new", "y"}, {"r", "x"}});
  ASSERT_TRUE(TakeOverSubmitted(before, 0, &now).ok());
  ASSERT_EQ(now.held().size(), 1u);
  EXPECT_EQ(now.held()[0], graph::StreamEnd(TaskId(1), *now.FindStream("s")));
}

TEST(TakenOver, TasksOfTheFlowAndSubmittedOnesHaveTheSameShareAndRecords) {
  const graph::Graph before = Joined(1);
  graph::Graph same = Joined();
  EXPECT_TRUE(TakeOverSubmitted(before, 2, &same).ok());
  graph::Graph split = Joined();
  split.SetSplit(*split.FindStream("s"));
  EXPECT_NE(TakeOverSubmitted(before, 2, &split).message().find("stream s has another share in the flow now than"), std::string::npos);
  graph::Graph zero = Joined();
  zero.SetRecords(*zero.FindStream("s"), kZeroEnded);
  EXPECT_NE(TakeOverSubmitted(before, 2, &zero).message().find("stream s has other records in the flow"), std::string::npos);
  graph::Graph none = test::TinyGraph({{"other", "x"}});
  EXPECT_TRUE(TakeOverSubmitted(before, 2, &none).ok());
}

}  // namespace
}  // namespace harrow::run
