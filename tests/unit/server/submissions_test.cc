// What is taken of what clients submit, what is written, and what the graph and a reader after a crash make of it.
#include "server/submissions.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "run/profile.h"
#include "unit/run/test_flow.h"

namespace harrow::server {
namespace {

using test::TinyTask;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct NewTask {
  std::string name, command = "true";
  std::vector<std::string> in = {}, out = {}, after = {}, after_any = {};
  std::vector<uint32_t> after_new = {};
  std::vector<std::string> from = {}, to = {}, open = {};
  bool split = false;
  Records records = kLines;
};

pb::SubmitRequest RequestOf(const std::string& id, const std::vector<NewTask>& tasks,
                            const graph::Profile& profile = {}) {
  pb::SubmitRequest request;
  request.set_id(id);
  run::ProfileToProto(profile, 0, request.add_profile());
  for (const NewTask& task : tasks) {
    pb::SubmittedTask& added = *request.add_task();
    added.set_name(task.name);
    added.set_command(task.command);
    for (const auto& name : task.in) added.add_in(name);
    for (const auto& name : task.out) added.add_out(name);
    for (const auto& name : task.after) added.add_after(name);
    for (const auto& name : task.after_any) added.add_after_any(name);
    for (const uint32_t task_before : task.after_new) added.add_after_new(task_before);
    for (const auto& name : task.from) added.add_from(name);
    for (const auto& name : task.to) added.add_to(name);
    for (const auto& name : task.open) added.add_open(name);
    added.set_split(task.split);
    added.set_records(task.records);
  }
  return request;
}

class SubmissionsTest : public testing::Test {
 protected:
  /// The run so far.
  void Begin(const std::vector<TinyTask>& tasks) {
    base_ = tasks;
    flow_.emplace();
    flow_->settings.submit_dir = "/submit";
    builder_.emplace(&*flow_);
    Load(&*builder_);
    MakeSubmissions({});
  }
  void Load(run::FlowBuilder* builder) {
    const graph::Graph graph = test::TinyGraph(base_);
    pb::FlowChunk chunk;
    for (uint32_t n = 0; n < graph.profile_count(); ++n)
      run::ProfileToProto(graph.profile(ProfileId(n)), n, chunk.add_profile());
    for (uint32_t n = 0; n < graph.file_count(); ++n) {
      chunk.add_file()->set_name(std::string(graph.file_name(FileId(n))));
      chunk.mutable_file(static_cast<int>(n))->set_size(-1);
    }
    for (uint32_t n = 0; n < graph.task_count(); ++n) {
      pb::StoredTask& task = *chunk.add_task();
      task.set_name(std::string(graph.given_name(TaskId(n))));
      task.set_command(std::string(graph.command(TaskId(n))));
      task.set_profile(graph.profile_id(TaskId(n)).value);
      task.set_kind(KindId::kNone);
      for (const FileId file : graph.inputs(TaskId(n))) task.add_in(file.value);
      for (const FileId file : graph.outputs(TaskId(n))) task.add_out(file.value);
    }
    ASSERT_TRUE(builder->AddChunk(chunk).ok());
    ASSERT_TRUE(builder->Seal().ok());
  }
  void MakeSubmissions(std::vector<run::Submission> known) {
    submissions_.emplace(*flow_, &*builder_, 3, "/submit/r", std::move(known),
                         Submissions::Hooks{.write =
                                                [this](const pb::AddedGroup& group, auto done) {
                                                  written_.push_back(group);
                                                  done_ = std::move(done);
                                                },
                                            .added =
                                                [this](TaskId first, uint32_t count, uint32_t, uint32_t) {
                                                  added_.push_back(StrCat(first.value, "+", count));
                                                },
                                            .streams_changed = [this] { added_.push_back("streams"); },
                                            .keep_from_ending =
                                                [this](const std::vector<StreamId>& streams) -> std::optional<StreamId> {
                                                  const auto name = [this](StreamId s) { return flow_->graph.streams()[s.value].name; };
                                                  for (const StreamId stream : streams) {
                                                    if (ended_.contains(name(stream))) return stream;
                                                  }
                                                  for (const StreamId stream : streams) kept_.push_back(name(stream));
                                                  return std::nullopt;
                                                },
                                            .let_end =
                                                [this](StreamId stream) { std::erase(kept_, flow_->graph.streams()[stream.value].name); },
                                            .connected = [this](uint32_t part) { return !away_.contains(part); },
                                            .closed = [this](const Status& why) { closed_ = why.message(); },
                                            .failed = [this](const Status& why) { failed_ = why.message(); }});
  }
  /// "3 4", "3 (1 known)", or why not; "" as long as nothing was told.
  size_t Submit(const std::string& id, const std::vector<NewTask>& tasks, const graph::Profile& profile = {}) {
    return Send(RequestOf(id, tasks, profile));
  }
  size_t Send(pb::SubmitRequest request, uint32_t part = 3) {
    const size_t number = told_.size();
    told_.emplace_back();
    submissions_->Submit(std::move(request), part, [this, number](const Result<pb::Submitted>& submitted) {
      ASSERT_EQ(told_[number], "") << "told twice";
      std::string text;
      if (!submitted.ok()) {
        text = submitted.status().message();
      } else {
        for (const uint32_t task : submitted->task()) text += StrCat(text.empty() ? "" : " ", task);
        if (submitted->known() > 0) text += StrCat(" (", submitted->known(), " known)");
      }
      told_[number] = text;
    });
    return number;
  }
  void Write(const Status& status = {}) {
    ASSERT_TRUE(done_);
    std::exchange(done_, nullptr)(status);
  }
  std::string Told(size_t number) const { return told_[number]; }
  /// Of one that is refused, or taken at once.
  std::string Try(const std::vector<NewTask>& tasks, const graph::Profile& profile = {}) {
    const size_t number = Submit("", tasks, profile);
    if (done_) Write();
    return told_[number];
  }
  std::string Predecessors(const graph::Graph& graph, uint32_t task) const {
    std::string text;
    for (const TaskId before : graph.predecessors(TaskId(task)))
      text += StrCat(text.empty() ? "" : " ", before.value, graph.OnlyWaits(before, TaskId(task)) ? "?" : "");
    return text;
  }

  std::vector<TinyTask> base_;
  std::optional<run::StoredFlow> flow_;
  std::optional<run::FlowBuilder> builder_;
  std::optional<Submissions> submissions_;
  std::vector<pb::AddedGroup> written_;
  std::function<void(Status)> done_;
  std::vector<std::string> added_, told_, kept_;
  std::set<std::string> ended_;
  std::set<uint32_t> away_;  // parts that are not connected
  std::string closed_, failed_;
};

TEST_F(SubmissionsTest, TasksAreInTheGraphWhenTheyAreOnDiskAndNotBefore) {
  Begin({{"a", "make a", {}, {"a"}}, {"b", "make b", {"a"}, {"b"}}});
  const size_t one = Submit("1", {{.name = "c", .in = {"b"}, .out = {"c"}}, {.name = "", .after = {"a"}, .after_new = {0}}});
  EXPECT_EQ(Told(one), "");
  EXPECT_EQ(flow_->graph.task_count(), 2u);
  EXPECT_FALSE(submissions_->idle());
  Write();
  EXPECT_EQ(Told(one), "2 3");
  EXPECT_TRUE(submissions_->idle());
  EXPECT_THAT(added_, ElementsAre("2+2"));
  const graph::Graph& graph = flow_->graph;
  EXPECT_EQ(Predecessors(graph, 2), "1");
  EXPECT_EQ(Predecessors(graph, 3), "0 2");
  EXPECT_EQ(graph.TaskName(TaskId(3)), "#4");
  EXPECT_EQ(graph.producer(*graph.FindFile("c")), TaskId(2));
}

TEST_F(SubmissionsTest, ACommandThatCameAsALineIsStartedAsOneOfALineFile) {
  Begin({{"a", "make a", {}, {"a"}}});
  const auto form_of = [this](const std::string& line, const std::string& shell = "") {
    graph::Profile profile;
    profile.shell = shell;
    pb::SubmitRequest request = RequestOf("", {{.name = "", .command = line}}, profile);
    request.mutable_task(0)->set_line(true);
    Send(std::move(request));
    Write();
    const TaskId task(static_cast<uint32_t>(flow_->graph.task_count() - 1));
    std::string command(flow_->graph.command(task));
    std::replace(command.begin(), command.end(), '\0', '|');
    return StrCat(static_cast<int>(flow_->graph.form(task)), " ", command, " ", flow_->graph.kind_name(flow_->graph.kind(task)));
  };
  EXPECT_EQ(form_of("./solve case 7"), "0 ./solve case 7 solve");
  EXPECT_EQ(form_of("./solve 'case 7'"), "1 ./solve|case 7 solve");
  EXPECT_EQ(form_of("./solve > x"), "2 ./solve > x solve");
  EXPECT_EQ(form_of("./solve 7", "bash"), "2 ./solve 7 solve");
}

TEST_F(SubmissionsTest, WhatComesWhileOneIsWrittenIsWrittenTogetherAfterIt) {
  Begin({{"a", "make a", {}, {"a"}}});
  const size_t one = Submit("1", {{.name = "x"}}), two = Submit("2", {{.name = "y", .after = {"x"}}}),
               three = Submit("3", {{.name = "z"}}), four = Submit("4", {{.name = "w", .after = {"y"}}});
  EXPECT_EQ(written_.size(), 1u);
  Write();
  EXPECT_EQ(Told(one), "1");
  EXPECT_EQ(Told(two), "");
  ASSERT_EQ(written_.size(), 2u);
  EXPECT_EQ(written_[1].submission_size(), 2) << "the fourth is about a task of the second";
  Write();
  EXPECT_EQ(Told(two), "2");
  EXPECT_EQ(Told(three), "3");
  EXPECT_EQ(Told(four), "");
  Write();
  EXPECT_EQ(Told(four), "4");
  EXPECT_EQ(Predecessors(flow_->graph, 4), "2");
}

TEST_F(SubmissionsTest, WhatAnotherPartPassesOnIsThatOnes) {
  Begin({});
  const auto of = [this](uint32_t part, const std::string& id, const std::vector<NewTask>& tasks) { return Send(RequestOf(id, tasks), part); };
  const size_t own = of(3, "1", {{.name = "a"}});
  std::vector<size_t> rest;
  for (const uint32_t part : {5, 3, 7, 5, 3}) rest.push_back(of(part, StrCat("r", rest.size()), {{.name = StrCat("b", rest.size())}}));
  const size_t stream = of(5, "s", {{.name = "w", .to = {"lines"}}}), again = of(7, "1", {{.name = "a"}});
  EXPECT_EQ(submissions_->writes_for(), 3u);
  Write();
  EXPECT_EQ(submissions_->writes_for(), 5u);
  Write();
  Write();
  EXPECT_EQ(submissions_->writes_for(), 7u);
  Write();
  EXPECT_FALSE(submissions_->writes_for());
  EXPECT_TRUE(submissions_->idle());
  ASSERT_EQ(written_.size(), 4u);
  EXPECT_THAT((std::vector{written_[0].part(), written_[1].part(), written_[2].part(), written_[3].part()}), ElementsAre(3, 5, 3, 7));
  EXPECT_EQ(written_[1].submission_size(), 2);
  EXPECT_EQ(written_[2].submission_size(), 3) << "what streams join is in one part";
  EXPECT_EQ(Told(own), "0");
  EXPECT_EQ(Told(rest[0]) + Told(rest[3]) + Told(rest[1]) + Told(rest[4]) + Told(stream) + Told(rest[2]), "123456");
  EXPECT_EQ(Told(again), "0 (1 known)");
  EXPECT_THAT(flow_->first_owners.From<uint32_t>(0, 5), ElementsAre(1, 2));
  EXPECT_THAT(flow_->first_owners.From<uint32_t>(2, 5), ElementsAre(2));
  EXPECT_THAT(flow_->first_owners.From<uint32_t>(3, 5), IsEmpty());
}

TEST_F(SubmissionsTest, APartThatIsGoneGetsNothing) {
  Begin({});
  Submit("1", {{.name = "a"}});
  const size_t gone = Send(RequestOf("2", {{.name = "b"}}), 5), there = Send(RequestOf("3", {{.name = "c"}}), 7);
  away_.insert(5);
  Write();
  EXPECT_EQ(submissions_->writes_for(), 7u);
  Write();
  EXPECT_EQ(Told(gone), "");
  EXPECT_EQ(Told(there), "1");
  EXPECT_TRUE(submissions_->idle());
}

TEST_F(SubmissionsTest, WhoIsRefusedMaySubmitAtOnce) {
  Begin({});
  std::vector<std::string> told;
  const auto tell = [&](const Result<pb::Submitted>& how) { told.push_back(how.ok() ? "taken" : how.status().message()); };
  Submit("1", {{.name = "a"}});
  pb::SubmitRequest nothing;
  submissions_->Submit(nothing, [&](const Result<pb::Submitted>& how) {
    tell(how);
    submissions_->Submit(RequestOf("2", {{.name = "b"}}), tell);
    submissions_->Submit(RequestOf("3", {{.name = "c"}}), tell);
  });
  Write();
  Write();
  EXPECT_THAT(told, ElementsAre("there is no task in what was submitted", "taken"));
  Write();
  EXPECT_THAT(told, ElementsAre("there is no task in what was submitted", "taken", "taken"));
  EXPECT_TRUE(submissions_->idle());
}

TEST_F(SubmissionsTest, WhoSubmitsAgainSubmitsNothingAgain) {
  Begin({});
  const size_t one = Submit("1", {{.name = ""}, {.name = ""}}), again = Submit("1", {{.name = ""}, {.name = ""}});
  Write();
  EXPECT_EQ(Told(one), "0 1");
  EXPECT_EQ(Told(again), "0 1 (2 known)");
  EXPECT_EQ(flow_->graph.task_count(), 2u);
  EXPECT_FALSE(done_);
  // After a restart as well.
  MakeSubmissions({{.id = "1", .tasks = {TaskId(0), TaskId(1)}}});
  EXPECT_EQ(Told(Submit("1", {{.name = ""}, {.name = ""}})), "0 1 (2 known)");
  // Two without an id are two.
  EXPECT_EQ(Try({{.name = ""}}), "2");
  EXPECT_EQ(Try({{.name = ""}}), "3");
}

TEST_F(SubmissionsTest, ATaskThatIsThereStaysTheSame) {
  Begin({{"a", "make a", {}, {"a"}}});
  const NewTask x = {.name = "x", .command = "use a", .in = {"a"}, .out = {"x"}};
  EXPECT_EQ(Try({x}), "1");
  EXPECT_EQ(Try({x}), "1 (1 known)");
  EXPECT_EQ(Try({{.name = "y", .after_new = {1}}, x}), "2 1 (1 known)") << "it may follow one that is there";
  EXPECT_EQ(Predecessors(flow_->graph, 2), "1");
  for (NewTask other : {NewTask{.name = "x", .command = "use b", .in = {"a"}, .out = {"x"}},
                        NewTask{.name = "x", .command = "use a", .in = {"b"}, .out = {"x"}},
                        NewTask{.name = "x", .command = "use a", .in = {"a"}, .out = {"z"}}})
    EXPECT_THAT(Try({other}), HasSubstr("there is a task x in the run already, and it is another one"));
  graph::Profile two;
  two.shape.cores = 2;
  EXPECT_THAT(Try({x}, two), HasSubstr("another one"));
  // What it waits for besides the files that it reads.
  NewTask waits = x;
  waits.after = {"a"};
  EXPECT_EQ(Try({waits}), "1 (1 known)") << "whose file it reads";
  waits.after = {"y"};
  EXPECT_THAT(Try({waits}), HasSubstr("another one"));
  EXPECT_THAT(Try({{.name = "y"}}), HasSubstr("another one")) << "it waited for x";
  EXPECT_EQ(Try({{.name = "y", .after = {"x", "#2"}}}), "2 (1 known)");
  EXPECT_THAT(Try({{.name = "y", .after_any = {"x"}}}), HasSubstr("another one"));
  EXPECT_EQ(flow_->graph.task_count(), 3u);
}

TEST_F(SubmissionsTest, NoneIsTakenWhereOneIsWrong) {
  Begin({{"a", "make a", {"raw", "d/in"}, {"a"}}, {"dir", "make dir", {}, {"tree"}}});
  const NewTask good = {.name = "good"};
  const auto refused = [&](NewTask wrong) {
    const std::string why = Try({good, std::move(wrong)});
    EXPECT_THAT(written_, IsEmpty());
    return why;
  };
  EXPECT_THAT(Try({}), HasSubstr("no task"));
  EXPECT_EQ(refused({.name = "x", .command = ""}), "a task has no command");
  EXPECT_THAT(refused({.name = "#3"}), HasSubstr("cannot be the name"));
  EXPECT_THAT(refused({.name = "good"}), HasSubstr("good"));
  EXPECT_EQ(refused({.name = "x", .after = {"b"}}), "no task 'b' in this run; did you mean 'a'?");
  EXPECT_THAT(refused({.name = "x", .after_any = {"#9"}}), HasSubstr("no task '#9'"));
  EXPECT_THAT(refused({.name = "x", .after_new = {7}}), HasSubstr("one that is not there"));
  EXPECT_THAT(refused({.name = "x", .after_new = {1}}), testing::Not(IsEmpty())) << "itself";
  EXPECT_EQ(refused({.name = "x", .out = {"a"}}), "a is written by task a already");
  EXPECT_THAT(refused({.name = "x", .out = {"./raw"}}), HasSubstr("raw is read by a task of the run"));
  EXPECT_THAT(refused({.name = "x", .out = {"d"}}), HasSubstr("files below d are read or written"));
  EXPECT_EQ(refused({.name = "x", .out = {"tree/leaf"}}), "tree/leaf lies in what task dir writes");
  for (const char* place : {"r", ".", "/submit/r/x", "r/../r/0", "/submit", "..", "../submit/r", "/"})
    EXPECT_THAT(refused({.name = "x", .out = {place}}), HasSubstr("run directory")) << place;
  EXPECT_EQ(refused({.name = "x", .in = {""}}), "a file of a task has no name");
  EXPECT_EQ(refused({.name = "x", .in = {"tree/leaf"}, .out = {"y"}, .after_new = {5}}),
            "a task waits for one that is not there");
  graph::Profile none;
  none.shape.cores = 0;
  EXPECT_THAT(Try({good}, none), HasSubstr("at least one core"));
  graph::Profile assigns;
  assigns.env = {{"A=B", "c"}};
  EXPECT_THAT(Try({good}, assigns), HasSubstr("'A=B' is no name"));
  pb::SubmitRequest no_profile = RequestOf("", {good});
  no_profile.clear_profile();
  EXPECT_EQ(Told(Send(no_profile)), "a task has no profile");
  pb::SubmitRequest form = RequestOf("", {good});
  form.mutable_task(0)->set_form(3);
  EXPECT_EQ(Told(Send(form)), "a task has no command");
  EXPECT_THAT(written_, IsEmpty());
  EXPECT_EQ(Try({good, {.name = "x", .out = {"rr", "../r", "/submitted"}}}), "2 3");
}

TEST_F(SubmissionsTest, ARoundOfTasksIsRefused) {
  Begin({{"a", "make a", {"late"}, {"a"}}});
  EXPECT_THAT(Try({{.name = "x", .in = {"y"}, .out = {"x"}}, {.name = "y", .in = {"x"}, .out = {"y"}}}),
              testing::Not(IsEmpty()));
  // By what a task reads that is there.
  EXPECT_THAT(Try({{.name = "x", .in = {"a"}, .out = {"late"}}}), HasSubstr("late is read by a task"));
  EXPECT_EQ(flow_->graph.task_count(), 1u);
  // By a request that comes at the same time.
  Submit("1", {{.name = "x"}});
  const size_t reads = Submit("2", {{.name = "p", .in = {"q"}, .out = {"p"}}}),
               writes = Submit("3", {{.name = "q", .in = {"p"}, .out = {"q"}}});
  while (done_) Write();
  EXPECT_EQ(Told(reads), "2");
  EXPECT_THAT(Told(writes), HasSubstr("q is read by a task"));
}

TEST_F(SubmissionsTest, WhatCannotBeWrittenIsToldAndNotInTheGraph) {
  Begin({});
  const size_t one = Submit("1", {{.name = "x"}}), waits = Submit("2", {{.name = "y"}});
  Write(Status(Code::kExhausted, "no space left"));
  EXPECT_EQ(Told(one), "it is not known whether the tasks were taken: no space left");
  EXPECT_EQ(Told(waits), "no more tasks can be submitted to this run: no space left");
  EXPECT_EQ(closed_, "no space left");
  EXPECT_EQ(failed_, "") << "the run goes on";
  EXPECT_EQ(flow_->graph.task_count(), 0u);
  EXPECT_EQ(Try({{.name = "z"}}), Told(waits));
  EXPECT_TRUE(submissions_->idle());
}

/// Many requests, at times that the seed says: what a reader makes of what was written is what the graph is.
TEST_F(SubmissionsTest, WhatWasWrittenReadsBackAsTheSameGraph) {
  for (uint32_t round = 0; round < 20; ++round) {
    const uint32_t seed = std::random_device()();
    SCOPED_TRACE(StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto upto = [&](uint32_t n) { return static_cast<uint32_t>(random() % (n + 1)); };
    written_.clear();
    told_.clear();
    Begin({{"a", "make a", {}, {"f0"}}, {"b", "make b", {"f0"}, {"f1"}}});
    uint32_t named = 0;
    for (uint32_t n = 0; n < 60; ++n) {
      std::vector<NewTask> tasks;
      for (uint32_t t = 0; t <= upto(3); ++t) {
        NewTask task{.name = upto(1) == 0 ? "" : StrCat("t", ++named), .command = StrCat("run ", upto(5))};
        for (uint32_t f = upto(2); f > 0; --f) task.in.push_back(StrCat(upto(1) == 0 ? "f" : "d/f", upto(12)));
        if (upto(2) == 0) task.out.push_back(StrCat(upto(3) == 0 ? "d" : "f", upto(12)));
        if (upto(2) == 0) task.after.push_back(named > 0 && upto(1) == 0 ? StrCat("t", 1 + upto(named)) : "a");
        if (upto(3) == 0) task.after_any.push_back("#2");
        if (t > 0 && upto(1) == 0) task.after_new.push_back(upto(t - 1));
        tasks.push_back(std::move(task));
      }
      graph::Profile profile;
      profile.shape.cores = 1 + upto(2);
      Submit(StrCat(n), tasks, profile);
      if (done_ && upto(2) == 0) Write();
    }
    while (done_) Write();
    ASSERT_EQ(failed_, "");
    for (const std::string& told : told_) EXPECT_NE(told, "");
    run::StoredFlow flow;
    run::FlowBuilder builder(&flow);
    Load(&builder);
    for (const pb::AddedGroup& group : written_) ASSERT_TRUE(builder.AddChunk(group.chunk()).ok());
    ASSERT_TRUE(builder.Seal().ok());
    ASSERT_EQ(flow.graph.task_count(), flow_->graph.task_count());
    ASSERT_GT(flow.graph.task_count(), 10u) << "most was refused";
    for (uint32_t n = 0; n < flow.graph.task_count(); ++n) {
      const TaskId task(n);
      EXPECT_EQ(flow.graph.TaskName(task), flow_->graph.TaskName(task));
      EXPECT_EQ(flow.graph.command(task), flow_->graph.command(task));
      EXPECT_EQ(flow.graph.profile(task), flow_->graph.profile(task));
      EXPECT_EQ(Predecessors(flow.graph, n), Predecessors(flow_->graph, n));
      ASSERT_EQ(flow.graph.inputs(task).size(), flow_->graph.inputs(task).size());
    }
  }
}

// --- streams

std::string Ends(const graph::Graph& graph, const std::string& name) {
  const std::optional<StreamId> stream = graph.FindStream(name);
  if (!stream) return "none";
  const graph::Stream& of = graph.streams()[stream->value];
  std::string text;
  for (const TaskId writer : of.writers) text += StrCat(writer.value, " ");
  text += of.split ? "|" : ">";
  for (const TaskId reader : of.readers) text += StrCat(" ", reader.value);
  for (const graph::StreamHold& hold : of.holds) text += StrCat(" held:", hold.by, hold.task ? StrCat(hold.task.value) : "");
  return text;
}

pb::SubmitRequest Asking(const std::string& id, const std::string& stream, pb::StreamRequest::What what, const std::string& by = "",
                         const std::string& task = "") {
  pb::SubmitRequest request;
  request.set_id(id);
  pb::StreamRequest& asked = *request.add_stream();
  asked.set_name(stream);
  asked.set_what(what);
  asked.set_by(by);
  asked.set_task(task);
  return request;
}

TEST_F(SubmissionsTest, TasksAreConnectedToStreamsOfTheRunAndToNewOnes) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}, {.name = "r", .from = {"s"}}}), "1 2");
  EXPECT_EQ(Ends(flow_->graph, "s"), "1 > 2");
  EXPECT_TRUE(flow_->graph.StartSuffices(TaskId(1), TaskId(2)));
  EXPECT_EQ(Try({{.name = "v", .to = {"s", "t"}, .records = kLines}}), "3");
  EXPECT_EQ(Try({{.name = "q", .from = {"s", "t"}}}), "4");
  EXPECT_EQ(Ends(flow_->graph, "s"), "1 3 > 2 4");
  EXPECT_EQ(Ends(flow_->graph, "t"), "3 > 4");
  EXPECT_TRUE(flow_->graph.StartSuffices(TaskId(3), TaskId(2))) << "one that was there waits for a new one";
  EXPECT_EQ(Predecessors(flow_->graph, 2), "1 3");
  EXPECT_THAT(kept_, IsEmpty());
  // Who comes after a crash finds the same.
  run::StoredFlow after;
  run::FlowBuilder builder(&after);
  Load(&builder);
  for (const pb::AddedGroup& group : written_) ASSERT_TRUE(builder.AddGroup(group).ok());
  ASSERT_TRUE(builder.Seal().ok());
  EXPECT_EQ(Ends(after.graph, "s"), "1 3 > 2 4");
  EXPECT_EQ(Predecessors(after.graph, 2), "1 3");
}

TEST_F(SubmissionsTest, ForWhichPartTasksAreBeingWrittenIsKnown) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(submissions_->writes_for(), std::nullopt);
  Send(RequestOf("1", {{.name = "own"}}));
  EXPECT_EQ(submissions_->writes_for(), 3u);
  Send(RequestOf("2", {{.name = "another's"}}), 5);
  EXPECT_EQ(submissions_->writes_for(), 3u) << "the other one's turn comes";
  Write();
  EXPECT_EQ(submissions_->writes_for(), 5u);
  Write();
  EXPECT_EQ(submissions_->writes_for(), std::nullopt);
}

TEST_F(SubmissionsTest, WhatIsSubmittedAgainIsTheSameWithItsStreamsOnly) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}}), "1");
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}}), "1 (1 known)");
  EXPECT_THAT(Try({{.name = "w", .to = {"t"}}}), HasSubstr("it is another one"));
  EXPECT_THAT(Try({{.name = "w"}}), HasSubstr("it is another one"));
  EXPECT_EQ(Try({{.name = "r", .from = {"s"}}}), "2");
  EXPECT_EQ(Try({{.name = "r", .from = {"s"}}}), "2 (1 known)");
  EXPECT_THAT(Try({{.name = "r", .from = {"s"}, .split = true}}), HasSubstr("it is another one"));
}

TEST_F(SubmissionsTest, AStreamIsKeptFromEndingUntilWhatIsConnectedIsThere) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}}), "1");
  const size_t one = Submit("1", {{.name = "r", .from = {"s"}}});
  EXPECT_THAT(kept_, ElementsAre("s"));
  const size_t two = Submit("2", {{.name = "q", .from = {"s"}}});
  EXPECT_THAT(kept_, ElementsAre("s")) << "it comes when the other one is there";
  Write();
  EXPECT_EQ(Told(one), "2");
  EXPECT_THAT(kept_, ElementsAre("s"));
  EXPECT_EQ(Told(two), "");
  Write();
  EXPECT_EQ(Told(two), "3");
  EXPECT_THAT(kept_, IsEmpty());
  ended_.insert("s");
  EXPECT_THAT(Try({{.name = "late", .from = {"s"}}}), HasSubstr("stream s has ended"));
  EXPECT_THAT(Try({{.name = "late", .to = {"s"}}}), HasSubstr("harrow submit --open-stream"));
  const size_t open = Send(Asking("3", "s", pb::StreamRequest::OPEN));
  EXPECT_THAT(Told(open), HasSubstr("has ended"));
}

TEST_F(SubmissionsTest, OneOfSeveralStreamsHasEndedAndNoneIsKept) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s", "t"}}}), "1");
  ended_.insert("t");
  EXPECT_THAT(Try({{.name = "r", .from = {"s", "t"}}}), HasSubstr("stream t has ended"));
  EXPECT_THAT(kept_, IsEmpty());
  EXPECT_EQ(flow_->graph.task_count(), 2u);
}

TEST_F(SubmissionsTest, StreamsAreHeldAndReleased) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_THAT(Try({{.name = "r", .from = {"s"}}}), HasSubstr("no task writes stream 's'"));
  Send(Asking("1", "s", pb::StreamRequest::OPEN));
  Write();
  EXPECT_EQ(Ends(flow_->graph, "s"), "> held:");
  EXPECT_THAT(added_, ElementsAre("streams"));
  EXPECT_EQ(Try({{.name = "r", .from = {"s"}}}), "1");
  Send(Asking("2", "s", pb::StreamRequest::OPEN, "x", "a"));
  Write();
  Send(Asking("3", "s", pb::StreamRequest::OPEN, "x", "#1"));  // the same task
  Write();
  EXPECT_EQ(Ends(flow_->graph, "s"), "> 1 held: held:x0");
  const size_t again = Send(Asking("2", "s", pb::StreamRequest::OPEN, "x", "a"));
  EXPECT_FALSE(done_) << "it is known";
  EXPECT_EQ(Told(again), "");
  Send(Asking("4", "s", pb::StreamRequest::RELEASE, "x"));
  Write();
  EXPECT_EQ(Ends(flow_->graph, "s"), "> 1 held:");
  Send(Asking("5", "s", pb::StreamRequest::CLOSE));
  Write();
  EXPECT_EQ(Ends(flow_->graph, "s"), "> 1");
  EXPECT_THAT(Told(Send(Asking("6", "z", pb::StreamRequest::CLOSE))), HasSubstr("there is no stream 'z' in the run"));
  EXPECT_THAT(Told(Send(Asking("7", "z", pb::StreamRequest::OPEN, "y", "nobody"))), HasSubstr("there is no task 'nobody'"));
  EXPECT_EQ(Try({{.name = "h", .open = {"u"}}, {.name = "q", .from = {"u"}}}), "2 3");
  EXPECT_EQ(Ends(flow_->graph, "u"), "> 3 held:2");
}

TEST_F(SubmissionsTest, WhoHasHeldAStreamMayHoldItAgainWhetherItHasEndedOrNot) {
  Begin({{"driver", "d", {}, {}}, {"other", "o", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}}), "2");
  Send(Asking("1", "s", pb::StreamRequest::OPEN, "", "driver"));
  Write();
  Send(Asking("2", "s", pb::StreamRequest::CLOSE));
  Write();
  EXPECT_EQ(Ends(flow_->graph, "s"), "2 >");
  Send(Asking("3", "s", pb::StreamRequest::OPEN, "", "driver"));
  EXPECT_THAT(kept_, ElementsAre("s"));
  Write();
  EXPECT_EQ(Ends(flow_->graph, "s"), "2 > held:0");
  Send(Asking("4", "s", pb::StreamRequest::CLOSE));
  Write();
  ended_.insert("s");
  size_t again = Send(Asking("5", "s", pb::StreamRequest::OPEN, "y", "driver"));
  Write();
  EXPECT_EQ(Told(again), "");
  EXPECT_EQ(Ends(flow_->graph, "s"), "2 >") << "it stays as it is";
  EXPECT_THAT(kept_, IsEmpty());
  EXPECT_THAT(Told(Send(Asking("6", "s", pb::StreamRequest::OPEN, "", "other"))), HasSubstr("has ended"));
  EXPECT_THAT(Told(Send(Asking("7", "s", pb::StreamRequest::OPEN))), HasSubstr("has ended"));
  EXPECT_THAT(Try({{.name = "v", .to = {"s"}}}), HasSubstr("has ended"));
}

TEST_F(SubmissionsTest, WhatWouldLeadInACircleIsRefused) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}, {.name = "r", .from = {"s"}, .to = {"t"}}, {.name = "q", .from = {"t"}}}), "1 2 3");
  // r reads s, and q comes after it.
  EXPECT_THAT(Try({{.name = "x", .after = {"q"}, .to = {"s"}}}), HasSubstr("in a circle"));
  EXPECT_THAT(Try({{.name = "x", .from = {"t"}, .to = {"s"}}}), HasSubstr("in a circle"));
  EXPECT_THAT(Try({{.name = "x", .from = {"s"}, .to = {"s"}}}), HasSubstr("which it writes itself"));
  EXPECT_THAT(Try({{.name = "x", .from = {"u"}, .to = {"v"}}, {.name = "y", .from = {"v"}, .to = {"u"}}}), HasSubstr("in a circle"));
  // By one that is new, and another one.
  EXPECT_THAT(Try({{.name = "x", .from = {"t"}, .to = {"u"}}, {.name = "y", .from = {"u"}, .to = {"s"}}}), HasSubstr("in a circle"));
  EXPECT_THAT(Try({{.name = "h", .after = {"q"}, .open = {"s"}}}), HasSubstr("in a circle")) << "r would wait for it";
  EXPECT_THAT(Try({{.name = "h", .from = {"s"}, .open = {"s"}}}), HasSubstr("in a circle"));
  EXPECT_EQ(Try({{.name = "x", .from = {"t"}, .to = {"u"}}, {.name = "y", .from = {"u"}}}), "4 5");
  EXPECT_EQ(flow_->graph.task_count(), 6u);
}

TEST_F(SubmissionsTest, NoTaskWritesADirectoryInWhichOthersHaveFiles) {
  Begin({{"a", "a", {"deep/down/there/in"}, {"here/out"}}});
  for (const char* holds : {"deep", "deep/down", "deep/down/there", "here"})
    EXPECT_THAT(Try({{.name = "x", .out = {holds}}}), HasSubstr("files below")) << holds;
  EXPECT_EQ(Try({{.name = "y", .out = {"deep/down/else/out"}}}), "1");
  EXPECT_THAT(Try({{.name = "x", .out = {"deep/down/else"}}}), HasSubstr("files below"));
  EXPECT_EQ(Try({{.name = "z", .out = {"deep/up"}}}), "2");
}

TEST_F(SubmissionsTest, AFileInADirectoryThatATaskMakesLeadsToThatTask) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}, {.name = "r", .out = {"made/by"}, .from = {"s"}}}), "1 2");
  EXPECT_THAT(Try({{.name = "x", .in = {"made/by/it/too"}, .to = {"s"}}}), HasSubstr("in a circle"));
  EXPECT_EQ(Try({{.name = "x", .in = {"made/else"}, .to = {"s"}}}), "3");
}

TEST_F(SubmissionsTest, ThoseThatShareAStreamMayNotWaitForEachOther) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}, {.name = "r", .from = {"s"}, .split = true}}), "1 2");
  EXPECT_THAT(Try({{.name = "q", .after = {"r"}, .from = {"s"}, .split = true}}), HasSubstr("done together"));
  EXPECT_EQ(Try({{.name = "x", .after = {"r"}}}), "3");
  EXPECT_THAT(Try({{.name = "q", .after = {"x"}, .from = {"s"}, .split = true}}), HasSubstr("done together"));
  EXPECT_EQ(Try({{.name = "q", .from = {"s"}, .split = true}}), "4");
  EXPECT_EQ(Ends(flow_->graph, "s"), "1 | 2 4");
}

TEST_F(SubmissionsTest, WhatTasksSayOfOneStreamHasToAgree) {
  Begin({{"a", "a", {}, {}}});
  EXPECT_EQ(Try({{.name = "w", .to = {"s"}}, {.name = "r", .from = {"s"}}}), "1 2");
  EXPECT_THAT(Try({{.name = "q", .from = {"s"}, .split = true}}), HasSubstr("write the same share"));
  EXPECT_THAT(Try({{.name = "v", .to = {"s"}, .records = kZeroEnded}}), HasSubstr("write the same records"));
  EXPECT_THAT(Try({{.name = "v", .to = {""}}}), HasSubstr("empty name"));
  graph::Profile profile;
  profile.stdin_path = "in";
  EXPECT_THAT(Try({{.name = "q", .from = {"s"}}}, profile), HasSubstr("exclude each other"));
  profile = {};
  profile.ranks = 2;
  profile.shape.cores = 2;
  EXPECT_THAT(Try({{.name = "v", .to = {"s"}}}, profile), HasSubstr("of one process"));
}

}  // namespace
}  // namespace harrow::server
