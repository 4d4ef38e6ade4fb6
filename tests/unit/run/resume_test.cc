#include "run/resume.h"

#include <gtest/gtest.h>
#include <map>
#include <stdlib.h>

#include "formats/identity.h"
#include "made/record.h"
#include "unit/run/test_flow.h"

namespace harrow::run {
namespace {

using test::TinyFlow;
using test::TinyGraph;
using test::TinyTask;

using Fates = std::map<uint32_t, journal::TaskFate>;

journal::History HistoryOf(const Fates& fates) {
  journal::History history;
  history.run_id = "run";
  history.epoch = 1;
  for (const auto& [task, fate] : fates) history.fates.push_back({TaskId(task), fate, {}});
  return history;
}

std::vector<std::string> Open(const graph::Graph& graph, const ResumePlan& plan) {
  std::vector<std::string> open;
  for (uint32_t i = 0; i < graph.task_count(); ++i) {
    if (!plan.done[i]) open.push_back(graph.TaskName(TaskId(i)));
  }
  return open;
}

const std::vector<TinyTask> kFork = {{"a", "make a", {}, {"a"}},
                                     {"b", "make b", {"a"}, {"b"}},
                                     {"c", "make c", {"a"}, {"c"}},
                                     {"d", "make d", {"b"}, {"d"}}};
const Fates kAllDone = {{0, journal::TaskFate::kDone},
                        {1, journal::TaskFate::kDone},
                        {2, journal::TaskFate::kDone},
                        {3, journal::TaskFate::kDone}};

TEST(ResumePlan, DoneTasksStayDone) {
  const graph::Graph graph = TinyGraph(kFork);
  const ResumePlan plan = PlanResume(graph, graph, {},
                                     HistoryOf({{0, journal::TaskFate::kDone},
                                                {1, journal::TaskFate::kFailed},
                                                {3, journal::TaskFate::kSkipped},
                                                {4, journal::TaskFate::kDone}}));  // of no task
  EXPECT_TRUE(plan.same_numbering);
  EXPECT_EQ(Open(graph, plan), (std::vector<std::string>{"b", "c", "d"}));
  EXPECT_EQ(plan.done_count, 1u);
  EXPECT_EQ(plan.failed_count, 2u);
  EXPECT_TRUE(plan.changed.empty());
}

TEST(ResumePlan, AChangedTaskRunsAgainWithWhatFollows) {
  std::vector<TinyTask> tasks = kFork;
  tasks[1].command = "make b better";
  const graph::Graph before = TinyGraph(kFork), now = TinyGraph(tasks);
  const ResumePlan plan = PlanResume(before, now, {}, HistoryOf(kAllDone));
  EXPECT_EQ(Open(now, plan), (std::vector<std::string>{"b", "d"}));
  ASSERT_EQ(plan.changed.size(), 1u);
  EXPECT_EQ(now.TaskName(plan.changed[0]), "b");
  ASSERT_EQ(plan.following.size(), 1u);
  EXPECT_EQ(now.TaskName(plan.following[0]), "d");
}

TEST(ResumePlan, TasksMayBeInsertedAndRemoved) {
  std::vector<TinyTask> tasks = {{"new", "make new", {}, {"new"}}, kFork[0], kFork[2]};
  const graph::Graph before = TinyGraph(kFork), now = TinyGraph(tasks);
  const ResumePlan plan = PlanResume(before, now, {}, HistoryOf(kAllDone));
  EXPECT_FALSE(plan.same_numbering);
  EXPECT_EQ(plan.done_count, 2u);
  EXPECT_EQ(plan.failed_count, 0u);
  EXPECT_EQ(Open(now, plan), (std::vector<std::string>{"new"}));
  EXPECT_TRUE(plan.changed.empty());
  EXPECT_EQ(plan.earlier[1], TaskId(0));
  EXPECT_EQ(plan.earlier[2], TaskId(2));
}

TEST(ResumePlan, EqualLinesAreToldApartByTheirOccurrence) {
  const graph::Graph before = TinyGraph({{"", "sleep 1"}, {"", "sleep 1"}, {"", "date"}});
  const graph::Graph now = TinyGraph({{"", "date"}, {"", "sleep 1"}, {"", "sleep 1"}, {"", "sleep 1"}});
  const ResumePlan plan = PlanResume(
      before, now, {},
      HistoryOf(
          {{0, journal::TaskFate::kDone}, {1, journal::TaskFate::kFailed}, {2, journal::TaskFate::kDone}}));
  EXPECT_EQ(Open(now, plan), (std::vector<std::string>{"#3", "#4"}));
}

TEST(ResumePlan, AnUnwantedTaskHoldsNobodyUp) {
  const graph::Graph graph = TinyGraph(kFork);
  const ResumePlan plan =
      PlanResume(graph, graph, {true, false, false, false}, HistoryOf({{1, journal::TaskFate::kDone}}));
  EXPECT_TRUE(plan.done[1]);
}

TEST(ResumePlan, ThoseThatShareAStreamRunAgainTogether) {
  graph::Graph graph;
  for (const char* name : {"writer", "done", "open", "beside", "follows", "second"}) {
    graph::TaskSpec spec;
    spec.name = name;
    graph.AddTask(spec);
  }
  const auto join = [&](const char* name, TaskId writer, std::vector<TaskId> readers) {
    const StreamId stream = graph.AddStream(name);
    graph.AddWriter(stream, writer);
    for (const TaskId reader : readers) {
      graph.AddReader(stream, reader);
      graph.AddDependency(writer, reader, graph::WaitsFor::kStart);
    }
    return stream;
  };
  graph.SetSplit(join("shared", TaskId(0), {TaskId(1), TaskId(2)}));
  join("whole", TaskId(0), {TaskId(2), TaskId(3)});
  graph.AddDependency(TaskId(1), TaskId(4));
  graph.AddDependency(TaskId(3), TaskId(5));
  ASSERT_TRUE(graph.Seal().ok());
  Fates fates;
  for (const uint32_t task : {0, 1, 3, 4, 5}) fates[task] = journal::TaskFate::kDone;
  ResumePlan plan = PlanResume(graph, graph, {}, HistoryOf(fates));
  EXPECT_EQ(Open(graph, plan), (std::vector<std::string>{"done", "open", "follows"}))
      << "what the one that is done has read is split anew";
  EXPECT_EQ(plan.done_count, 3u);
  EXPECT_EQ(plan.following.size(), 2u);
  plan = PlanResume(graph, graph, {false, false, true}, HistoryOf(fates));
  EXPECT_EQ(Open(graph, plan), (std::vector<std::string>{"open"})) << "it is not wanted, and does not run";
}

TEST(ResumePlan, WhoWaitedForAnEndStaysDoneWhenThatTaskRunsAgain) {
  graph::Graph graph;
  for (const char* name : {"fails", "waits", "needs", "open"}) {
    graph::TaskSpec spec;
    spec.name = name;
    graph.AddTask(spec);
  }
  graph.AddDependency(TaskId(0), TaskId(1), graph::WaitsFor::kEnd);
  graph.AddDependency(TaskId(1), TaskId(2));
  graph.AddDependency(TaskId(0), TaskId(3), graph::WaitsFor::kEnd);
  ASSERT_TRUE(graph.Seal().ok());
  const ResumePlan plan = PlanResume(
      graph, graph, {},
      HistoryOf(
          {{0, journal::TaskFate::kFailed}, {1, journal::TaskFate::kDone}, {2, journal::TaskFate::kDone}}));
  EXPECT_EQ(Open(graph, plan), (std::vector<std::string>{"fails", "open"}));
  EXPECT_TRUE(plan.following.empty());
}

TEST(ResumePlan, AReaderOfStreamsIsDoneOnlyWhenThatIsOnRecord) {
  graph::Graph graph = TinyGraph({{"w", "x"}, {"r", "x"}});
  const StreamId stream = graph.AddStream("s");
  graph.AddWriter(stream, TaskId(0));
  graph.AddReader(stream, TaskId(1));
  graph.AddDependency(TaskId(0), TaskId(1), graph::WaitsFor::kStart);
  ASSERT_TRUE(graph.Seal().ok());
  journal::History history = HistoryOf({});
  for (const uint32_t task : {0u, 1u}) {
    history.attempts.emplace_back();
    history.attempts.back().task = TaskId(task);
    history.attempts.back().attempt = 1;
  }
  EXPECT_EQ(Open(graph, PlanResume(graph, graph, {}, history)), (std::vector<std::string>{"r"}));
  history.fates = {{TaskId(1), journal::TaskFate::kDone, {}}};
  EXPECT_TRUE(Open(graph, PlanResume(graph, graph, {}, history)).empty());
}

TEST(ResumePlan, WhatSucceededIsDoneThoughItsFateWasNotRecorded) {
  const graph::Graph graph = TinyGraph(kFork);
  const auto succeeded = [](uint32_t task) {
    journal::AttemptRecord attempt;
    attempt.task = TaskId(task);
    attempt.attempt = 1;
    return attempt;
  };
  journal::History history = HistoryOf({});
  history.attempts = {succeeded(0), succeeded(1), succeeded(2)};
  history.attempts[1].code = 3;
  ResumePlan plan = PlanResume(graph, graph, {}, history);
  EXPECT_EQ(Open(graph, plan), (std::vector<std::string>{"b", "d"}));
  EXPECT_EQ(plan.done_count, 2u);
  // One that failed, was opened again, and succeeded; one that was done, and was opened again.
  history.fates = {{TaskId(0), journal::TaskFate::kFailed, {}},
                   {TaskId(0), journal::TaskFate::kOpen, {}},
                   {TaskId(2), journal::TaskFate::kDone, {}},
                   {TaskId(2), journal::TaskFate::kOpen, {}}};
  plan = PlanResume(graph, graph, {}, history);
  EXPECT_EQ(Open(graph, plan), (std::vector<std::string>{"b", "c", "d"}));
  // Not what was cancelled since.
  history.fates = {{TaskId(0), journal::TaskFate::kCancelled, {}}};
  EXPECT_FALSE(PlanResume(graph, graph, {}, history).done[0]);
}

class ApplyResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-resume-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    run_ = name;
    run_dir_ = run_ + "/0";
    ASSERT_TRUE(fs_.MakeDirectories(run_dir_).ok());
    flow_ = TinyFlow(kFork);
    ASSERT_TRUE(WriteFlow(fs_, run_, flow_.settings, flow_.graph, {}).ok());
    journal::Journal::Options options;
    options.run_id = "run";
    Result<std::unique_ptr<journal::Journal>> journal = journal::Journal::Open(run_dir_, options);
    ASSERT_TRUE(journal.ok()) << journal.status().message();
    (*journal)->SetFact("flow_id", "run");
    (*journal)->SetFact("started_ns", "1");
    (*journal)->SetFact("ended_ns", "2");
    (*journal)->SetFact("started_ns", "3");
    const std::vector<formats::Identity> identities = formats::Identities(flow_.graph);
    for (uint32_t i = 0; i < 4; ++i) {
      journal::TaskRecord task;
      task.task = TaskId(i);
      task.name = flow_.graph.TaskName(TaskId(i));
      (*journal)->Add(std::vector<journal::TaskRecord>{task});
      journal::AttemptRecord attempt;
      attempt.task = TaskId(i);
      attempt.attempt = 1;
      attempt.node = NodeId(0);
      attempt.code = i == 3 ? 1 : 0;
      (*journal)->Add(attempt);
      (*journal)->Add(journal::PartRecord{.task = TaskId(i), .attempt = 1, .part = 1, .node = NodeId(0)});
      (*journal)->Add(journal::CopyRecord{.path = "file", .task = TaskId(i), .from = NodeId(0), .to = NodeId(1)});
      (*journal)->Add(
          journal::FateRecord{TaskId(i), i == 3 ? journal::TaskFate::kFailed : journal::TaskFate::kDone, {}});
    }
    (*journal)->Add(journal::NodeRecord{.node = NodeId(0),
                                        .name = "n",
                                        .slots = 2,
                                        .incarnation = 1,
                                        .output_file = 1,
                                        .joined_ns = 1,
                                        .left_ns = 0,
                                        .topology = ""});
    ASSERT_TRUE((*journal)->Close().ok());
  }
  void TearDown() override { (void)fs_.RemoveTree(run_); }

  run_dir::Part Part() { return run_dir::OpenPart(run_dir::RunDir::Open(run_).value()).value(); }
  std::shared_ptr<run_dir::RunDir> Dir() { return Part().dir; }
  journal::History History() {
    Result<journal::History> history = journal::ReadHistory(run_dir_);
    EXPECT_TRUE(history.ok()) << history.status().message();
    return history.ok() ? *history : journal::History();
  }
  Fates FatesNow() {
    Fates fates;
    for (const journal::FateRecord& record : History().fates) fates[record.task.value] = record.fate;
    std::erase_if(fates, [](const auto& fate) { return fate.second == journal::TaskFate::kOpen; });
    return fates;
  }

  os::FileSystem& fs_ = os::RealFileSystem();
  std::string run_, run_dir_;  // the second: of its part
  StoredFlow flow_;
};

TEST_F(ApplyResumeTest, InPlaceOpensWhatFailed) {
  const journal::History history = History();
  const ResumePlan plan = PlanResume(flow_.graph, flow_.graph, {}, history);
  const std::string common = *fs_.Read(run_ + "/flow");
  EXPECT_EQ(ReadSettings(Part())->retries, 0) << "a part that was never resumed goes by its run's flow";
  RunSettings settings = flow_.settings;
  settings.retries = 4;
  settings.started = WallTime(std::chrono::seconds(5));
  const Status applied = ApplyResume(Dir(), plan, history, &settings, flow_.graph, {});
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(FatesNow().count(3), 0u);
  EXPECT_EQ(FatesNow().size(), 3u);
  EXPECT_EQ(*fs_.Read(run_ + "/flow"), common) << "the run's flow is never rewritten";
  EXPECT_EQ(History().attempts.size(), 4u);
  EXPECT_NE(History().nodes.back().left_ns, 0) << "no agent of before is waited for";
  EXPECT_EQ(ReadSettings(Part())->retries, 4);
  EXPECT_EQ(ReadSettings(Part())->flow_id, "run");
  EXPECT_EQ(History().epoch, 2u);
  EXPECT_FALSE(fs_.Stat(run_dir_ + "/journal.db-wal").ok()) << "the journal is closed";
}

TEST_F(ApplyResumeTest, TheFateOfWhatSucceededIsRecordedInPlace) {
  journal::History history = History();
  std::erase_if(history.fates, [](const journal::FateRecord& fate) { return fate.task == TaskId(2); });
  const ResumePlan plan = PlanResume(flow_.graph, flow_.graph, {}, history);
  EXPECT_TRUE(plan.done[2]);
  const size_t before = History().fates.size();
  RunSettings settings = flow_.settings;
  ASSERT_TRUE(ApplyResume(Dir(), plan, history, &settings, flow_.graph, {}).ok());
  EXPECT_EQ(History().fates.size(), before + 2) << "of c, and that d is open";
  EXPECT_EQ(FatesNow().at(2), journal::TaskFate::kDone);
}

TEST_F(ApplyResumeTest, WhatFollowsAChangedTaskStaysOpenThoughItSucceededBefore) {
  std::vector<TinyTask> tasks = kFork;
  tasks[0].command = "make a anew";
  const graph::Graph now = TinyGraph(tasks);
  const journal::History history = History();
  const ResumePlan plan = PlanResume(flow_.graph, now, {}, history);
  RunSettings settings = flow_.settings;
  ASSERT_TRUE(ApplyResume(Dir(), plan, history, &settings, now, {}).ok());
  EXPECT_EQ(Open(now, PlanResume(now, now, {}, History())), (std::vector<std::string>{"a", "b", "c", "d"}))
      << "the server of that resume was killed before it did anything";
}

TEST_F(ApplyResumeTest, RenumberedKeepsWhatIsKnown) {
  const journal::History history = History();
  const graph::Graph now = TinyGraph({{"new", "make new"}, kFork[0], kFork[1], kFork[3]});
  const ResumePlan plan = PlanResume(flow_.graph, now, {}, history);
  RunSettings settings = flow_.settings;
  settings.started = WallTime(std::chrono::seconds(5));
  ASSERT_TRUE(fs_.MakeDirectories(run_dir_ + "/output").ok());
  ASSERT_TRUE(made::WriteAll(fs_, run_dir_, "run", {{3, {.task = 3, .attempt = 1, .begin_ns = 7, .end_ns = 9}}}).ok());
  const Status applied = ApplyResume(Dir(), plan, history, &settings, now, {});
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(made::ReadAll(fs_, run_dir_, settings.flow_id),
            (made::Attempts{{3, {.task = 3, .attempt = 1, .begin_ns = 7, .end_ns = 9}}}))
      << "what attempts made is known under the new numbers";
  EXPECT_TRUE(made::ReadAll(fs_, run_dir_, "run").empty());
  EXPECT_EQ(FatesNow(), (Fates{{1, journal::TaskFate::kDone}, {2, journal::TaskFate::kDone}}));
  const journal::History after = History();
  ASSERT_EQ(after.attempts.size(), 3u);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(after.nodes[0].left_ns, 5'000'000'000) << "no agent of before is waited for";
  EXPECT_EQ(after.attempts[2].task, TaskId(3));
  EXPECT_EQ(after.attempts[2].code, 1);
  EXPECT_EQ(after.attempts[2].OutputTask(), TaskId(3)) << "where its output is found";
  EXPECT_EQ(after.attempts[0].OutputTask(), TaskId(0));
  ASSERT_EQ(after.parts.size(), 3u);
  EXPECT_EQ(after.parts[0].task, TaskId(1));
  EXPECT_EQ(after.parts[0].OutputTask(), TaskId(0));
  EXPECT_EQ(after.parts[2].task, TaskId(3));
  EXPECT_EQ(after.parts[2].OutputTask(), TaskId(3));
  ASSERT_EQ(after.copies.size(), 4u);
  EXPECT_EQ(after.copies[0].task, TaskId(1));
  EXPECT_EQ(after.copies[2].task, TaskId()) << "of one that is no longer there";
  const Result<StoredFlow> flow = ReadFlow(Part());
  ASSERT_TRUE(flow.ok());
  EXPECT_EQ(ReadFlow(fs_, run_)->graph.task_count(), kFork.size()) << "the run's flow is never rewritten";
  EXPECT_EQ(ReadTaskTexts(Part(), {TaskId(0)})->at(0).command, "make new");
  EXPECT_EQ(flow->graph.task_count(), 4u);
  EXPECT_EQ(flow->settings.flow_id, "run-2");
  EXPECT_TRUE(fs_.Stat(run_dir_ + "/journal-1.db").ok()) << "the old journal is kept";
  EXPECT_FALSE(fs_.Stat(run_dir_ + "/resume.ready").ok());
  EXPECT_EQ(History().sessions, (std::vector<journal::SessionRecord>{{1, 2}, {3, 0}}));
  EXPECT_EQ(after.epoch, 2u);
  EXPECT_FALSE(fs_.Stat(run_dir_ + "/journal.db-wal").ok()) << "the journal is closed";
}

TEST_F(ApplyResumeTest, RenumberedKeepsWhatIsKnownOfTheFirstTask) {
  const journal::History history = History();
  const graph::Graph now = TinyGraph({kFork[0], kFork[2]});
  const ResumePlan plan = PlanResume(flow_.graph, now, {}, history);
  RunSettings settings = flow_.settings;
  ASSERT_TRUE(ApplyResume(Dir(), plan, history, &settings, now, {}).ok());
  const journal::History after = History();
  ASSERT_EQ(after.attempts.size(), 2u);
  EXPECT_EQ(after.attempts[0].task, TaskId(0));
  EXPECT_EQ(after.attempts[1].task, TaskId(1));
}

// In version 1 of a flow settings were stored otherwise; tasks as they are now.
TEST_F(ApplyResumeTest, TasksOfAFlowOfBeforeAreShownAndNotRun) {
  std::string flow = *fs_.Read(run_ + "/flow");
  for (const int version : {0, 1, 2, 3, 4, 5}) {
    const bool whole = version == 2 || version == 4;
    flow[8] = static_cast<char>(version);
    ASSERT_TRUE(fs_.WriteWhole(run_ + "/flow", flow).ok());
    EXPECT_EQ(ReadFlow(Part()).ok(), whole) << version;
    EXPECT_EQ(ReadSettings(Part()).ok(), whole) << version;
    EXPECT_EQ(ReadTaskTexts(Part(), {TaskId(0)}).ok(), version == 1 || whole) << version;
  }
}

TEST_F(ApplyResumeTest, WhatLiesBesideTheOldJournalGoesWithIt) {
  ASSERT_TRUE(fs_.MakeDirectories(run_dir_ + "/resume.ready").ok());
  ASSERT_TRUE(fs_.WriteWhole(run_dir_ + "/resume.ready/journal.db", "new").ok());
  ASSERT_TRUE(fs_.WriteWhole(run_dir_ + "/journal.db-wal", "old wal").ok());
  ASSERT_TRUE(fs_.WriteWhole(run_dir_ + "/journal-1.db", "older").ok());
  const std::string old = *fs_.Read(run_dir_ + "/journal.db"), mark = *fs_.Read(run_dir_ + "/journal.acknowledged");
  ASSERT_TRUE(FinishReplacement(*Dir()).ok());
  EXPECT_EQ(*fs_.Read(run_dir_ + "/journal.db"), "new");
  EXPECT_FALSE(fs_.Stat(run_dir_ + "/journal.db-wal").ok());
  EXPECT_FALSE(fs_.Stat(run_dir_ + "/journal.acknowledged").ok());
  EXPECT_EQ(*fs_.Read(run_dir_ + "/journal-1.db"), "older");
  EXPECT_EQ(*fs_.Read(run_dir_ + "/journal-2.db"), old);
  EXPECT_EQ(*fs_.Read(run_dir_ + "/journal-2.db-wal"), "old wal");
  EXPECT_EQ(*fs_.Read(run_dir_ + "/journal-2.acknowledged"), mark);
}

TEST_F(ApplyResumeTest, AReplacementCutShortIsFinished) {
  ASSERT_TRUE(fs_.MakeDirectories(run_dir_ + "/resume.ready").ok());
  ASSERT_TRUE(fs_.Rename(run_dir_ + "/journal.db", run_dir_ + "/resume.ready/journal.db").ok());
  ASSERT_TRUE(fs_.WriteWhole(run_dir_ + "/resume.ready/flow", "new").ok());
  ASSERT_TRUE(fs_.WriteWhole(run_dir_ + "/journal.db", "old").ok());
  ASSERT_TRUE(fs_.WriteWhole(run_dir_ + "/journal.db-wal", "old wal").ok());
  EXPECT_EQ(HomeOf(fs_, run_dir_, "flow"), run_dir_ + "/resume.ready") << "for those who may not move it";
  EXPECT_EQ(HomeOf(fs_, run_dir_, "journal.db"), run_dir_ + "/resume.ready");
  // As far as a crash after the old journal was moved away, then to the end.
  ASSERT_TRUE(fs_.Rename(run_dir_ + "/journal.db-wal", run_dir_ + "/journal-1.db-wal").ok());
  ASSERT_TRUE(FinishReplacement(*Dir()).ok());
  EXPECT_EQ(*fs_.Read(run_dir_ + "/flow"), "new");
  EXPECT_EQ(*fs_.Read(run_dir_ + "/journal-1.db"), "old");
  EXPECT_EQ(History().attempts.size(), 4u);
  ASSERT_TRUE(FinishReplacement(*Dir()).ok()) << "nothing is left to do";
  EXPECT_EQ(HomeOf(fs_, run_dir_, "flow"), run_dir_);
}

}  // namespace
}  // namespace harrow::run
