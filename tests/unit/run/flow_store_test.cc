#include "run/flow_store.h"

#include <gtest/gtest.h>
#include <random>

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
  flow.unwanted = {false, false, true};
  return flow;
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

TEST(FlowStore, KeepsDependenciesThatNoFileTells) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  StoredFlow flow;
  const ProfileId profile = flow.graph.AddProfile({});
  const KindId kind = flow.graph.AddKind("k");
  for (const char* name : {"last", "first"}) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "true";
    spec.profile = profile;
    spec.kind = kind;
    flow.graph.AddTask(spec);
  }
  flow.graph.AddDependency(TaskId(1), TaskId(0));  // a later task comes first
  ASSERT_TRUE(flow.graph.Seal().ok());
  ASSERT_TRUE(WriteFlow(fs, "/run", flow.settings, flow.graph, {}).ok());
  const Result<StoredFlow> back = ReadFlow(fs, "/run");
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->graph.predecessors(TaskId(0)).size(), 1u);
  EXPECT_EQ(back->graph.predecessors(TaskId(0))[0], TaskId(1));
  EXPECT_TRUE(back->unwanted.empty());
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
    EXPECT_NE(status.message().find("/run/flow: the run's settings are of another version of Harrow (local_nodes"),
              std::string::npos)
        << status.message();
  }
}

TEST(FlowStore, WholeOrNothing) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/run").ok());
  EXPECT_EQ(ReadFlow(fs, "/run").status().code(), Code::kNotFound);
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
