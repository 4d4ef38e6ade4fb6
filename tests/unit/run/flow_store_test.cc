#include "run/flow_store.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <stdlib.h>

#include "support/memory_file_system.h"
#include "unit/run/test_flow.h"

namespace harrow::run {
namespace {

using test::TinyFlow;

StoredFlow Sample() {
  graph::Profile heavy;
  heavy.shape = {.cores = 4, .devices = 1, .nodes = 1, .whole_node = false, .memory = 1 << 20};
  heavy.env = {{"A", "b c"}, {"EMPTY", ""}};
  heavy.time_limit = std::chrono::minutes(3);
  heavy.retry_on = {75, 130};
  heavy.retries = 2;
  heavy.replicas = 3;
  heavy.retry_delay = Duration(0);  // not the run's
  heavy.stdout_path = "%x.out";
  StoredFlow flow = TinyFlow({{"make", "touch a", {}, {"a"}},
                              {"", "use a", {"a"}, {}, heavy},
                              {"odd", std::string("x\0y", 3), {"raw"}, {"dir/b"}}});
  flow.settings.env = {{"PATH", "/bin"}};
  flow.settings.seed = 7;
  flow.settings.max_losses = 9;
  flow.settings.files = config::Files::kLocal;
  flow.settings.progress = config::Progress::kNone;
  flow.settings.end_margin = std::chrono::milliseconds(1500);
  flow.settings.job_id = "77";
  flow.settings.partition = "fast";
  flow.unwanted = {false, false, true};
  return flow;
}

TEST(FlowStore, ReadsBackStreamsAndModels) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  StoredFlow flow = TinyFlow({{"r", "x"}, {"w", "x", {}, {"f"}}, {"both", "x", {"f"}}, {"v", "x"}});
  const StreamId s = flow.graph.AddStream("s"), t = flow.graph.AddStream("t");
  const auto join = [&](StreamId stream, std::vector<uint32_t> writers, std::vector<uint32_t> readers) {
    for (const uint32_t writer : writers) flow.graph.AddWriter(stream, TaskId(writer));
    for (const uint32_t reader : readers) {
      flow.graph.AddReader(stream, TaskId(reader));
      for (const uint32_t writer : writers)
        flow.graph.AddDependency(TaskId(writer), TaskId(reader), graph::WaitsFor::kStart);
    }
  };
  join(s, {1, 3}, {0, 2});
  join(t, {3}, {2});
  flow.graph.SetSplit(t);
  flow.graph.SetRecords(t, OfBytes(16));
  flow.graph.SetModel(TaskId(1), 2, "compute(1)");
  for (const StreamId stream : {t, s}) flow.graph.HoldStream(stream, {.by = "", .task = TaskId(1), .in_flow = true});
  flow.graph.CloseStream(t);
  flow.graph.HoldStream(t, {.by = "x", .task = {}});
  flow.graph.NoteHolder(s, TaskId(3));
  ASSERT_TRUE(flow.graph.Seal().ok());
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, {}).ok());
  const Result<StoredFlow> back = ReadFlow(fs, "/run");
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->graph.streams().size(), 2u);
  EXPECT_EQ(back->graph.held(), flow.graph.held());
  for (size_t i = 0; i < 2; ++i) {
    const graph::Stream &was = flow.graph.streams()[i], &is = back->graph.streams()[i];
    EXPECT_EQ(is.name, was.name);
    EXPECT_EQ(is.split, was.split);
    EXPECT_EQ(is.records, was.records);
    EXPECT_EQ(is.writers, was.writers);
    EXPECT_EQ(is.readers, was.readers);
    EXPECT_EQ(is.closed, was.closed);
    ASSERT_EQ(is.holds.size(), 1u);
    EXPECT_EQ(is.holds[0].by, was.holds[0].by);
    EXPECT_EQ(is.holds[0].task, was.holds[0].task);
    EXPECT_EQ(is.holds[0].in_flow, was.holds[0].in_flow);
  }
  for (uint32_t before = 0; before < 4; ++before) {
    for (uint32_t after = 0; after < 4; ++after) {
      EXPECT_EQ(back->graph.StartSuffices(TaskId(before), TaskId(after)),
                flow.graph.StartSuffices(TaskId(before), TaskId(after)))
          << before << " " << after;
    }
  }
  EXPECT_TRUE(back->graph.StartSuffices(TaskId(1), TaskId(0)));
  EXPECT_FALSE(back->graph.StartSuffices(TaskId(1), TaskId(2))) << "it reads a file of it, too";
  EXPECT_EQ(back->graph.model(TaskId(0)), UINT32_MAX);
  EXPECT_EQ(back->graph.models()[back->graph.model(TaskId(2))], "compute(1)");
}

TEST(FlowStore, ReadsBackWhatWasWritten) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  const StoredFlow flow = Sample();
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, flow.unwanted).ok());
  const Result<StoredFlow> back = ReadFlow(fs, "/run");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->settings.env, flow.settings.env);
  EXPECT_EQ(back->settings.seed, 7u);
  EXPECT_EQ(back->settings.max_losses, 9u);
  EXPECT_EQ(back->settings.files, config::Files::kLocal);
  EXPECT_EQ(back->settings.end_margin, std::chrono::milliseconds(1500));
  EXPECT_EQ(back->settings.progress, config::Progress::kAuto) << "a matter of one command";
  EXPECT_EQ(back->settings.job_id, "77");
  EXPECT_EQ(back->settings.partition, "fast");
  EXPECT_EQ(back->unwanted, flow.unwanted);
  ASSERT_EQ(back->graph.task_count(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const TaskId task(i);
    EXPECT_EQ(back->graph.given_name(task), flow.graph.given_name(task));
    EXPECT_EQ(back->graph.command(task), flow.graph.command(task));
    EXPECT_EQ(back->graph.profile(task), flow.graph.profile(task));
    EXPECT_EQ(back->graph.level(task), flow.graph.level(task));
    EXPECT_EQ(back->graph.PlaceText(back->graph.place(task)), flow.graph.PlaceText(flow.graph.place(task)));
    EXPECT_EQ(back->graph.predecessors(task).size(), flow.graph.predecessors(task).size());
  }
  EXPECT_EQ(back->graph.file_name(back->graph.inputs(TaskId(2))[0]), "raw");
  const Result<RunSettings> settings = ReadSettings(fs, "/run");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->run_id, "run");
}

TEST(FlowStore, KeepsEveryField) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  StoredFlow flow;
  flow.settings.run_id = "run id";
  flow.settings.flow_id = "flow id";
  flow.settings.submit_dir = "/submit";
  flow.settings.env = {{"A", "1"}, {"B", ""}};
  flow.settings.sources = {"one.toml", "two.txt"};
  flow.settings.known_costs = {{.model = "m", .kind = "k", .tasks = 3, .seconds = 0.5, .bytes = 7, .units = 2, .out_units = 4}, {}};
  flow.settings.started = WallTime(std::chrono::nanoseconds(1'234'567'890'123'456'789));
  flow.settings.sync_journal = false;
  graph::Graph& graph = flow.graph;
  for (const std::string& source : flow.settings.sources) graph.AddSource(source);
  const graph::Profile mpi = {
      .shape = {.cores = 3, .devices = 2, .nodes = 4, .whole_node = true, .memory = 5 << 20},
      .ranks = 12,
      .mpi = graph::Mpi::kNone,
      .cwd = "below",
      .shell = "bash",
      .env = {{"X", "y"}},
      .time_limit = std::chrono::seconds(7),
      .retries = 0,
      .retry_on = {1, 137},
      .stdin_path = "in.%a",
      .stdout_path = "out.%a",
      .stderr_path = "err.%a",
      .priority = -3,
      .keep = true,
      .missing_ok = true,
      .empty_streams = true,
      .warn_signal = 10,
      .warn_before = std::chrono::seconds(20),
      .warn_alone = true,
      .checkpoint = {.by = graph::Checkpointing::By::kApp,
                     .ask = graph::Checkpointing::Ask::kFile,
                     .signal = 12,
                     .status = 9,
                     .ask_all = true,
                     .files = {"a.*", "b"},
                     .every = std::chrono::hours(1),
                     .time = std::chrono::seconds(3)},
      .restart_command = "again",
      .restart_form = graph::CommandForm::kShell};
  const ProfileId profiles[] = {graph.AddProfile({}), graph.AddProfile(mpi)};
  const KindId kinds[] = {graph.AddKind("first kind"), graph.AddKind("second kind"), KindId()};
  const FileId files[] = {graph.AddFile("empty"), graph.AddFile("large"), graph.AddFile("unknown")};
  graph.SetFileSize(files[0], 0);
  graph.SetFileSize(files[1], int64_t{1} << 40);
  const std::optional<Duration> times[] = {std::nullopt, Duration(0), std::chrono::seconds(90)};
  for (uint32_t i = 0; i < 3; ++i) {
    graph::TaskSpec spec;
    const std::string name = "task" + std::to_string(i);
    spec.name = name;
    spec.command = "x";
    spec.form = i == 0   ? graph::CommandForm::kShell
                : i == 1 ? graph::CommandForm::kArgv
                         : graph::CommandForm::kNone;
    spec.profile = profiles[i % 2];
    spec.kind = kinds[i];
    spec.in = std::span(files).subspan(0, i);
    spec.place = {.source = i % 2, .line = 10 + i, .column = 20 + i};
    spec.recorded_run_time = times[i];
    if (i > 0) spec.bound = 2.5 * (i - 1);
    graph.AddTask(spec);
  }
  graph.AddDependency(TaskId(0), TaskId(1));
  ASSERT_TRUE(graph.Seal().ok());
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, graph, {true, false, false}).ok());
  const Result<StoredFlow> back = ReadFlow(fs, "/run");
  ASSERT_TRUE(back.ok()) << back.status().message();
  for (const RunSettings& settings : {back->settings, *ReadSettings(fs, "/run")}) {
    EXPECT_EQ(settings.run_id, "run id");
    EXPECT_EQ(settings.flow_id, "flow id");
    EXPECT_EQ(settings.submit_dir, "/submit");
    EXPECT_EQ(settings.env, flow.settings.env);
    EXPECT_EQ(settings.sources, flow.settings.sources);
    EXPECT_EQ(settings.started, flow.settings.started);
    EXPECT_EQ(settings.known_costs, flow.settings.known_costs);
    EXPECT_FALSE(settings.sync_journal);
  }
  EXPECT_EQ(back->unwanted, (std::vector<bool>{true, false, false}));
  const graph::Graph& got = back->graph;
  EXPECT_EQ(got.profile(TaskId(1)), mpi);
  for (uint32_t i = 0; i < 3; ++i) {
    const TaskId task(i);
    EXPECT_EQ(got.TaskName(task), graph.TaskName(task));
    EXPECT_EQ(got.form(task), graph.form(task));
    EXPECT_EQ(got.profile(task), graph.profile(task));
    EXPECT_EQ(got.recorded_run_time(task), times[i]);
    EXPECT_EQ(got.bound(task), i == 0 ? graph::kNoBound : 2.5 * (i - 1));
    EXPECT_EQ(got.inputs(task).size(), i);
    EXPECT_EQ(got.place(task).source, i % 2);
    EXPECT_EQ(got.place(task).line, 10 + i);
    EXPECT_EQ(got.place(task).column, 20 + i);
    EXPECT_EQ(got.file_name(FileId(i)), graph.file_name(FileId(i)));
    EXPECT_EQ(got.file_size(FileId(i)), graph.file_size(FileId(i)));
  }
  EXPECT_EQ(got.kind_name(got.kind(TaskId(0))), "first kind");
  EXPECT_EQ(got.kind_name(got.kind(TaskId(1))), "second kind");
  EXPECT_FALSE(got.kind(TaskId(2)));
  ASSERT_EQ(got.predecessors(TaskId(1)).size(), 1u);
  EXPECT_EQ(got.predecessors(TaskId(1))[0], TaskId(0));
  EXPECT_TRUE(got.predecessors(TaskId(2)).empty());
}

TEST(FlowStore, OfMoreTasksAndFilesThanAPartHolds) {
  std::string path = (std::filesystem::temp_directory_path() / "harrow-flow-XXXXXX").string();
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  const run_dir::Part part = run_dir::MakePart(run_dir::RunDir::Open(path).value()).value();
  constexpr uint32_t kTasks = 2 * 16384 + 5;
  std::vector<test::TinyTask> tasks;
  for (uint32_t i = 0; i < kTasks; ++i) {
    const std::string number = std::to_string(i);
    tasks.push_back({"", "run " + number, {}, {"out" + number}});
    if (i >= 16384) tasks.back().in = {"out" + std::to_string(i - 16384)};
  }
  const StoredFlow flow = TinyFlow(tasks);
  ASSERT_TRUE(WriteFlow(*part.run, path, flow.settings, flow.graph, {}).ok());
  const Result<StoredFlow> back = ReadFlow(part);
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->graph.task_count(), kTasks);
  ASSERT_EQ(back->graph.file_count(), kTasks);
  for (uint32_t i = 0; i < kTasks; ++i) {
    const TaskId task(i);
    ASSERT_EQ(back->graph.command(task), tasks[i].command);
    ASSERT_EQ(back->graph.file_name(back->graph.outputs(task)[0]), tasks[i].out[0]);
    ASSERT_EQ(back->graph.predecessors(task).size(), i < 16384 ? 0u : 1u);
  }
  const auto texts =
      ReadTaskTexts(part, {TaskId(kTasks - 1), TaskId(0), TaskId(16384), TaskId(16383), TaskId(kTasks)});
  ASSERT_TRUE(texts.ok()) << texts.status().message();
  EXPECT_EQ(texts->size(), 4u);
  for (const uint32_t i : {0u, 16383u, 16384u, kTasks - 1}) {
    EXPECT_EQ(texts->at(i).command, tasks[i].command);
    EXPECT_EQ(texts->at(i).place, "tiny.toml:" + std::to_string(i + 1));
  }
  std::filesystem::remove_all(path);
}

TEST(FlowStore, KeepsDependenciesThatNoFileTells) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  StoredFlow flow;
  const ProfileId profile = flow.graph.AddProfile({});
  const KindId kind = flow.graph.AddKind("k");
  for (const char* name : {"last", "first", "waits", "end"}) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "true";
    spec.profile = profile;
    spec.kind = kind;
    flow.graph.AddTask(spec);
  }
  flow.graph.AddDependency(TaskId(1), TaskId(0));  // a later task comes first
  flow.graph.AddDependency(TaskId(0), TaskId(2), graph::WaitsFor::kEnd);
  flow.graph.AddDependency(TaskId(3), TaskId(2), graph::WaitsFor::kEnd);
  ASSERT_TRUE(flow.graph.Seal().ok());
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, {}).ok());
  const Result<StoredFlow> back = ReadFlow(fs, "/run");
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->graph.predecessors(TaskId(0)).size(), 1u);
  EXPECT_EQ(back->graph.predecessors(TaskId(0))[0], TaskId(1));
  EXPECT_FALSE(back->graph.OnlyWaits(TaskId(1), TaskId(0)));
  ASSERT_EQ(back->graph.predecessors(TaskId(2)).size(), 2u);
  for (const TaskId before : back->graph.predecessors(TaskId(2)))
    EXPECT_TRUE(back->graph.OnlyWaits(before, TaskId(2)));
  EXPECT_TRUE(back->unwanted.empty());
}

TEST(FlowStore, ReadsTheVersionBefore) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  const StoredFlow flow = TinyFlow({{"a", "true"}});
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, {}).ok());
  std::string data = *fs.Read("/run/flow");
  data[8] = 2;
  ASSERT_TRUE(fs.WriteWhole("/run/flow", data, 0600).ok());
  EXPECT_TRUE(ReadFlow(fs, "/run").ok());
  data[8] = 1;
  ASSERT_TRUE(fs.WriteWhole("/run/flow", data, 0600).ok());
  EXPECT_NE(ReadFlow(fs, "/run")
                .status()
                .message()
                .find("version 1 of the flow file; this harrow reads "
                      "versions 2 to 4"),
            std::string::npos);
}

// A setting that this version does not know, or knows otherwise, is another version's; it is not passed over.
TEST(FlowStore, SettingsOfAnotherVersionAreRefused) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  StoredFlow flow = Sample();
  flow.settings.local_nodes = 1001;
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, {}).ok());
  for (const Status& status : {ReadFlow(fs, "/run").status(), ReadSettings(fs, "/run").status()}) {
    EXPECT_EQ(status.code(), Code::kRefused) << status.message();
    EXPECT_NE(
        status.message().find("/run/flow: the run's settings are of another version of Harrow (local_nodes"),
        std::string::npos)
        << status.message();
  }
}

/// By each agent of thousands.
TEST(FlowStore, SettingsAreReadWithoutTheTasks) {
  struct Counting : test::MemoryFileSystem {
    Result<std::string> ReadRange(const std::string& path, uint64_t offset, uint64_t length) override {
      Result<std::string> data = MemoryFileSystem::ReadRange(path, offset, length);
      if (data.ok()) read += data->size();
      return data;
    }
    uint64_t read = 0;
  } fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  std::mt19937_64 random(1);
  std::vector<test::TinyTask> tasks;
  for (int i = 0; i < 100'000; ++i) tasks.push_back({"", "use " + std::to_string(random())});
  const StoredFlow flow = TinyFlow(tasks);
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, flow.unwanted).ok());
  fs.read = 0;
  const Result<RunSettings> settings = ReadSettings(fs, "/run");
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->run_id, flow.settings.run_id);
  EXPECT_LT(fs.read, fs.Stat("/run/flow")->size / 2);
}

TEST(FlowStore, WholeOrNothing) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  EXPECT_EQ(ReadFlow(fs, "/run").status().code(), Code::kNotFound);
  EXPECT_EQ(ReadSettings(fs, "/run").status().message(), "/run: no run there (there is no /run/flow)");
  const StoredFlow flow = Sample();
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, flow.unwanted).ok());
  const std::string whole = *fs.Read("/run/flow");
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_TRUE(fs.WriteWhole("/run/flow", whole.substr(0, length)).ok());
    EXPECT_EQ(ReadFlow(fs, "/run").status().code(), Code::kDamaged) << "cut to " << length;
  }
  ASSERT_TRUE(fs.WriteWhole("/run/flow", whole + "x").ok());
  EXPECT_EQ(ReadFlow(fs, "/run").status().code(), Code::kDamaged);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bent = whole;
      bent[at] = static_cast<char>(bent[at] ^ (1 << bit));
      ASSERT_TRUE(fs.WriteWhole("/run/flow", bent).ok());
      EXPECT_EQ(ReadFlow(fs, "/run").status().code(), Code::kDamaged) << "byte " << at << " bit " << bit;
    }
  }
}

}  // namespace
}  // namespace harrow::run
