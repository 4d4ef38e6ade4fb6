// Tasks of several nodes: the agents' parts of them, with real processes, real MPI libraries, and channels
// over the loopback interface. The test is the server.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/gang_port.h"
#include "agent/pmix/pmi1_port.h"
#include "agent/pmix/pmix_port.h"
#include "live/agent_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Where it lies; empty: it is not there.
std::string Compiled(const std::string& compiler, const std::string& directory) {
  const std::string program = directory + "/" + compiler + "-ranks";
  const std::string command = "command -v " + compiler + " > /dev/null && " + compiler +
                              " " HARROW_SOURCE "/mpi_ranks.c -o " + program;
  return std::system(command.c_str()) == 0 ? program : "";
}

/// One agent, but for its conversation with a server.
class Node {
 public:
  Node(uint32_t id, const std::string& directory, const std::string& helper)
      : id_(id),
        name_("node" + std::to_string(id)),
        directory_(directory + "/" + name_),
        tmp_(directory_ + "/" + std::filesystem::path(directory).filename().string() + name_),
        loop_(os::MakeEventLoop()) {
    std::filesystem::create_directories(tmp_);
    context_.slots.assign(4, {});
    context_.tmp_root = TmpRootAt(tmp_);
    context_.rank_root = MakeSharedMemoryRoot(context_.tmp_root);
    context_.kill_wait_ns = Duration(milliseconds(500)).count();
    auto writer = output::Writer::Create(os::RealFileSystem(), directory_, 1);
    EXPECT_TRUE(writer.ok());
    collector_ = std::make_unique<Collector>(
        std::move(writer).value(), os::RealClock(),
        [this](Batch batch) {
          for (const StartedTask& task : batch.started) {
            EXPECT_NE(task.gang, nullptr);
            started(id_);
          }
          for (TaskResult& result : batch.ended) ended(id_, std::move(result));
          arrival_->Arrived();
        },
        [](const std::string& problem) { ADD_FAILURE() << problem; });
    arrival_ = collector_.get();
    gangs_ = std::make_unique<GangPort>(
        loop_.get(),
        GangPort::Hooks{
            .open =
                [this] {
                  return MakePeers(loop_.get(),
                                   {.self = NodeId(id_),
                                    .incarnation = id_ + 1,
                                    .credentials = {.run_id = "run", .key = std::string(32, 'k')},
                                    .hosts = {"127.0.0.1"}});
                },
            .addresses = [this](const std::vector<std::string>& addresses) { found(id_, addresses); },
            .asked =
                [this](AttemptId attempt, std::string question, std::function<void(std::string)> answer) {
                  pmix_->Ask(attempt, std::move(question), std::move(answer));
                },
            .problem = [](const std::string& text) { ADD_FAILURE() << text; }});
    context_.gangs = gangs_.get();
    pmi1_ =
        std::make_unique<Pmi1Port>(gangs_.get(), [this](AttemptId attempt) { slots_->WakeSlotsOf(attempt); });
    context_.rank_servers.pmi1 = pmi1_.get();
    context_.rank_servers.no_pmix = "harrow-pmix was not built";
    if (!helper.empty()) {
      pmix_ = std::make_unique<PmixPort>(
          PmixPort::Options{
              .program = helper, .node = name_, .root = context_.rank_root, .gangs = gangs_.get()},
          os::RealClock(),
          PmixPort::Hooks{.lost = [this](const std::vector<AttemptId>& attempts,
                                         const std::string&) { pool_->EndTasks(attempts, End::kLost); },
                          .may_run = [] { return true; }});
      context_.rank_servers.pmix = pmix_.get();
    }
    pool_ = std::make_unique<SlotPool>(context_, os::RealClock(), *collector_);
    slots_ = pool_.get();
    thread_ = std::thread([this] { loop_->Run(); });
  }
  /// What it was told to do ends with it.
  ~Node() {
    loop_->Post([this] { loop_->Stop(); });
    thread_.join();
    if (pmix_) pmix_->Stop();
    pool_.reset();
    pmix_.reset();
    gangs_.reset();
    collector_.reset();
    EXPECT_TRUE(std::filesystem::is_empty(context_.rank_root.path)) << context_.rank_root.path;
    std::filesystem::remove_all(context_.rank_root.path);
  }

  void Know(uint32_t other, const std::vector<std::string>& addresses) {
    loop_->Post([this, other, addresses] { gangs_->Know(NodeId(other), addresses, other + 1); });
  }
  SlotPool& pool() { return *pool_; }
  const std::string& name() const { return name_; }
  std::string Output(const TaskResult& result, output::Stream stream) {
    std::string text;
    if (result.output_offset == 0) return text;
    auto reader = std::move(output::Reader::Open(os::RealFileSystem(), directory_)).value();
    (void)reader->ReadAttempt(1, result.output_offset, TaskId(result.id), result.attempt,
                              [&](const output::Piece& piece) {
                                if (piece.stream == stream) text += piece.data;
                              });
    return text;
  }

  // Of any thread; set before the first task.
  std::function<void(uint32_t)> started;
  std::function<void(uint32_t, TaskResult)> ended;
  std::function<void(uint32_t, std::vector<std::string>)> found;

 private:
  const uint32_t id_;
  const std::string name_, directory_, tmp_;  // by the last name of tmp_ another is called
  NodeContext context_;
  const std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<Collector> collector_;
  Collector* arrival_ = nullptr;  // the same, also while that ends
  std::unique_ptr<GangPort> gangs_;
  std::unique_ptr<Pmi1Port> pmi1_;
  std::unique_ptr<PmixPort> pmix_;
  std::unique_ptr<SlotPool> pool_;
  SlotPool* slots_ = nullptr;
  std::thread thread_;
};

class GangTest : public testing::Test {
 protected:
  GangTest() { BeAsAgent(); }
  ~GangTest() override {
    // Of the last result the test may know before its node has told the others.
    std::unique_lock lock(mutex_);
    leaving_ = true;
    changed_.wait(lock, [this] { return telling_ == 0; });
  }
  void Make(uint32_t count) {
    for (uint32_t id = 0; id < count; ++id) {
      Node& node = *nodes_.emplace_back(std::make_unique<Node>(id, scratch_.path(), HARROW_PMIX));
      node.started = [this](uint32_t from) {
        std::lock_guard lock(mutex_);
        started_.push_back(from);
        changed_.notify_all();
      };
      node.ended = [this](uint32_t from, TaskResult result) { Ended(from, std::move(result)); };
      node.found = [this](uint32_t from, std::vector<std::string> addresses) {
        Introduce(from, std::move(addresses));
      };
    }
  }
  void Introduce(uint32_t from, std::vector<std::string> addresses) {
    std::lock_guard lock(mutex_);
    if (leaving_) return;
    addresses_[from] = std::move(addresses);
    for (const auto& [other, of_other] : addresses_) {
      if (other == from) continue;
      nodes_[other]->Know(from, addresses_[from]);
      nodes_[from]->Know(other, of_other);
    }
  }
  /// The first part that fails, or is lost, ends the others; that of the lead node all that have no process.
  void Ended(uint32_t from, TaskResult result) {
    const bool good = result.end == End::kExited && result.code == 0;
    const AttemptId attempt{TaskId(result.id), result.attempt};
    std::vector<uint32_t> others;
    {
      std::lock_guard lock(mutex_);
      EXPECT_NE(result.gang, nullptr);
      EXPECT_EQ(result.gang->here, from);
      order_.push_back(from);
      results_[from] = std::move(result);
      for (uint32_t other = 0; other < nodes_.size(); ++other) {
        if (other != from && !leaving_ && (!good || results_[from].gang->ranks() == 0)) others.push_back(other);
      }
      ++telling_;
      changed_.notify_all();
    }
    for (const uint32_t other : others) nodes_[other]->pool().EndTasks({attempt}, End::kLost);
    std::lock_guard lock(mutex_);
    --telling_;
    changed_.notify_all();
  }

  static EnvList MpiEnvironment() {
    // No fabric here, and two nodes on one machine: what is not on a node is reached by TCP.
    return {{"OMPI_MCA_pml", "ob1"},
            {"OMPI_MCA_btl", "self,vader,tcp"},
            {"OMPI_MCA_btl_tcp_if_include", "lo"},
            {"OMPI_MCA_mpi_yield_when_idle", "1"},
            {"OMPI_MCA_osc", "pt2pt"},  // Debian's own settings leave none that needs no fabric
            {"FI_PROVIDER", "tcp"},
            {"UCX_TLS", "self,sm,tcp"},
            {"UCX_NET_DEVICES", "lo"}};
  }
  LocalTask Task(uint32_t node, const std::string& command, const std::vector<uint32_t>& ranks, Mpi mpi,
                 const EnvList& env = {}, const std::vector<std::string>& outputs = {}) {
    EnvList all = MpiEnvironment();
    if (in_job_) all.emplace_back("SLURM_JOB_ID", "1");
    for (const char* name : {"PATH", "HOME"}) {
      if (const char* value = getenv(name)) all.emplace_back(name, value);
    }
    const auto base = std::make_shared<BaseEnvironment>(
        all,
        BaseEnvironment::Common{
            .submit_dir = scratch_.path(), .node_name = nodes_[node]->name(), .own_tmp = true, .slots = 4});
    Gang gang{.here = node,
              .space = "harrow-" + std::to_string(getpid()) + "-" + std::to_string(tries_),
              .ends_together = !outputs.empty()};
    ProfileSpec spec{.nodes = static_cast<uint32_t>(ranks.size()), .mpi = mpi, .env = env};
    for (uint32_t i = 0; i < ranks.size(); ++i) {
      gang.nodes.push_back({.id = NodeId(i), .name = nodes_[i]->name(), .ranks = ranks[i]});
      spec.ranks += ranks[i];
    }
    spec.cores = spec.most_ranks_of_node();
    LocalTask task;
    task.id = 7;
    task.attempt = tries_;
    task.form =
        command.find_first_of(";$*|<") == std::string::npos ? CommandForm::kWords : CommandForm::kShell;
    task.command = command;
    task.profile = std::make_shared<TaskProfile>(spec, base);
    if (node == 0) task.outputs = outputs;  // the lead node alone is told of them
    task.gang = std::make_shared<Gang>(std::move(gang));
    return task;
  }
  void Push(uint32_t node, LocalTask task) {
    std::vector<LocalTask> tasks;
    tasks.push_back(std::move(task));
    nodes_[node]->pool().Push(std::move(tasks));
  }
  void PushAll(const std::string& command, const std::vector<uint32_t>& ranks, Mpi mpi,
               const EnvList& env = {}) {
    for (uint32_t node = 0; node < ranks.size(); ++node) Push(node, Task(node, command, ranks, mpi, env));
  }
  void WaitForAll() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kGenerous, [&] { return results_.size() == nodes_.size(); }));
  }
  void Run(const std::string& command, const std::vector<uint32_t>& ranks, Mpi mpi, const EnvList& env = {}) {
    ++tries_;
    results_.clear();
    order_.clear();
    PushAll(command, ranks, mpi, env);
    WaitForAll();
  }
  void ExpectAllGood() {
    for (auto& [node, result] : results_) {
      EXPECT_EQ(result.end, End::kExited) << node << ": " << result.message << Errors(node);
      EXPECT_EQ(result.code, 0) << node << ": " << result.message << Errors(node);
    }
  }
  std::vector<std::string> Lines(uint32_t node) {
    std::vector<std::string> lines;
    std::istringstream text(nodes_[node]->Output(results_[node], output::Stream::kStdout));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  std::string Errors(uint32_t node) {
    return "\n" + nodes_[node]->Output(results_[node], output::Stream::kStderr);
  }
  std::string File(const std::string& name) {
    const auto text = os::RealFileSystem().Read(scratch_.path() + "/" + name);
    return text.ok() ? *text : "";
  }

  test::OwnDirectory scratch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, std::vector<std::string>> addresses_;  // of mutex_
  std::map<uint32_t, TaskResult> results_;                  // of mutex_; by node
  std::vector<uint32_t> order_, started_;                   // of mutex_
  bool leaving_ = false;                                    // of mutex_
  int telling_ = 0;                                         // of mutex_; who ends the others at the moment
  uint32_t tries_ = 1;
  bool in_job_ = false;  // of Slurm
  std::vector<std::unique_ptr<Node>> nodes_;
};

// --- without MPI

TEST_F(GangTest, NoRankBeginsBeforeAllPartsAreThere) {
  Make(3);
  const std::string command = "touch rank$HARROW_RANK; while [ ! -e go ]; do sleep 0.02; done";
  Push(0, Task(0, command, {1, 2, 1}, Mpi::kNone));
  Push(2, Task(2, command, {1, 2, 1}, Mpi::kNone));
  usleep(300'000);  // for what is not to happen; one that is late is seen by nobody
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/rank0"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/rank3"));
  Push(1, Task(1, command, {1, 2, 1}, Mpi::kNone));
  for (const char* name : {"/rank0", "/rank1", "/rank2", "/rank3"})
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(scratch_.path() + name); })) << name;
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex_);
    return started_.size() == 3;
  }));
  std::ofstream(scratch_.path() + "/go") << "x";
  WaitForAll();
  ExpectAllGood();
}

TEST_F(GangTest, WhoseNodesHaveTooFewCoresIsNotStarted) {
  Make(2);
  Run("true", {9, 1}, Mpi::kNone);
  const TaskResult& first = results_[order_[0]];  // which ends the other one
  EXPECT_EQ(first.end, End::kNotStarted);
  EXPECT_EQ(first.message, "the task asks for 5 cores, this node has 4") << "half of 9 ranks and 1";
}

TEST_F(GangTest, RanksAreNumberedOverAllNodes) {
  Make(2);
  Run("echo $HARROW_RANK/$HARROW_RANKS $HARROW_NODE $HARROW_NODELIST $(tr '\\n' ' ' < $HARROW_HOSTFILE)",
      {2, 1}, Mpi::kNone);
  ExpectAllGood();
  EXPECT_THAT(Lines(0), ElementsAre("0/3 node0 node0,node1 node0 node0 node1",
                                    "1/3 node0 node0,node1 node0 node0 node1"));
  EXPECT_THAT(Lines(1), ElementsAre("2/3 node1 node0,node1 node0 node0 node1"));
}

TEST_F(GangTest, WithoutRanksTheLeadNodeAloneRunsTheCommand) {
  Make(3);
  PushAll(
      "echo $HARROW_NODE $HARROW_NODELIST $(uniq -c $HARROW_HOSTFILE | tr -s '\\n ' ' ') "
      "${HARROW_RANK-none}; "
      "touch began; while [ ! -e go ]; do sleep 0.02; done",
      {0, 0, 0}, Mpi::kPmix);
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(scratch_.path() + "/began"); }));
  for (const uint32_t node : {1u, 2u}) {
    const TaskHost::Snapshot snapshot = nodes_[node]->pool().TakeSnapshot();
    ASSERT_EQ(snapshot.running.size(), 1u) << "it keeps its slots";
    EXPECT_EQ(snapshot.running[0].gang->here, node);
  }
  std::ofstream(scratch_.path() + "/go") << "x";
  WaitForAll();
  ExpectAllGood();
  EXPECT_EQ(order_[0], 0u);
  EXPECT_THAT(Lines(0), ElementsAre("node0 node0,node1,node2 4 node0 4 node1 4 node2 none"));
  EXPECT_THAT(Lines(1), IsEmpty());
}

TEST_F(GangTest, SrunFindsTheNodesOfATaskWithoutRanksInTurn) {
  in_job_ = true;
  Make(2);
  Run("tr '\\n' ' ' < $SLURM_HOSTFILE", {0, 0}, Mpi::kNone);
  ExpectAllGood();
  EXPECT_THAT(Lines(0), ElementsAre("node0 node1 node0 node1 node0 node1 node0 node1 "));
}

TEST_F(GangTest, WhatOthersWriteIsWaitedForBeforeItIsLookedFor) {
  Make(2);
  const std::vector<uint32_t> ranks = {1, 1};
  const std::string command = "[ $HARROW_RANK = 0 ] || { sleep 0.5; echo x > out; }";
  for (uint32_t node = 0; node < 2; ++node) {
    Push(node, Task(node, command, ranks, Mpi::kNone, {}, {"out"}));
  }
  WaitForAll();
  ExpectAllGood();
  // And missed when nobody has written it.
  results_.clear();
  ++tries_;
  for (uint32_t node = 0; node < 2; ++node) {
    Push(node, Task(node, "sleep 0.$HARROW_RANK", ranks, Mpi::kNone, {}, {"other"}));
  }
  WaitForAll();
  EXPECT_EQ(results_[0].end, End::kMissingOutput);
  EXPECT_EQ(results_[1].end, End::kExited);
}

TEST_F(GangTest, TheRankThatFailsIsNamedByItsNumberAmongAll) {
  Make(2);
  Run("if [ $HARROW_RANK = 2 ]; then sleep 0.3; exit 3; fi; trap 'echo asked; exit 9' TERM; sleep 60 & wait",
      {2, 2}, Mpi::kNone);
  EXPECT_EQ(results_[1].end, End::kExited);
  EXPECT_EQ(results_[1].code, 3);
  EXPECT_EQ(results_[1].message, "rank 2 of 4 on node1");
  ASSERT_TRUE(results_[1].failed);
  EXPECT_LE(*results_[1].failed, results_[1].finish);
  EXPECT_THAT(Lines(1), ElementsAre("asked")) << "the other rank there";
  EXPECT_EQ(results_[0].end, End::kLost);
  EXPECT_FALSE(results_[0].failed);
  EXPECT_THAT(Lines(0), ElementsAre("asked", "asked"));
  EXPECT_THAT(order_, ElementsAre(1, 0));
}

TEST_F(GangTest, PartsThatWaitForOthersCanBeEnded) {
  Make(2);
  Push(0, Task(0, "true", {1, 1}, Mpi::kNone));
  usleep(100'000);  // it waits for the other by then, mostly, and is to end either way
  nodes_[0]->pool().EndTasks({{TaskId(7), 1}}, End::kLost);
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex_);
    return results_.contains(0);
  }));
  EXPECT_EQ(results_[0].end, End::kLost);
  // The next try has another name, and nothing of this one.
  Run("true", {1, 1}, Mpi::kNone);
  ExpectAllGood();
}

TEST_F(GangTest, APartThatOnlyHoldsItsSlotsHasEndedWellBeforeItsTurnToo) {
  Make(2);
  Push(1, Task(1, "true", {4, 4}, Mpi::kNone));  // has all slots, and waits for the other part
  ++tries_;
  Push(1, Task(1, "true", {0, 0}, Mpi::kNone));
  for (const uint32_t attempt : {2u, 1u}) {
    nodes_[1]->pool().EndTasks({{TaskId(7), attempt}}, End::kLost);
    EXPECT_TRUE(Eventually([&] {
      std::lock_guard lock(mutex_);
      return results_[1].attempt == attempt;
    }));
    EXPECT_EQ(results_[1].end, attempt == 2 ? End::kExited : End::kLost);
  }
}

// What it has not left is not missed.
TEST_F(GangTest, PartsThatHaveSucceededAndWaitForOthersCanBeEnded) {
  Make(2);
  const std::string command = "[ $HARROW_RANK = 1 ] && exec sleep 300; echo $$ > lead.tmp; mv lead.tmp lead";
  for (uint32_t node = 0; node < 2; ++node) Push(node, Task(node, command, {1, 1}, Mpi::kNone, {}, {"never"}));
  const std::string lead = scratch_.path() + "/lead";
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(lead); }));
  const pid_t pid = std::stoi(os::RealFileSystem().Read(lead).value());
  // It has been found to have ended well, and now waits for the other.
  EXPECT_TRUE(Eventually([&] { return kill(pid, 0) != 0; }));
  nodes_[0]->pool().EndTasks({{TaskId(7), 1}}, End::kLost);
  WaitForAll();
  EXPECT_EQ(results_[0].end, End::kLost) << results_[0].message;
  EXPECT_EQ(results_[1].end, End::kLost);
}

// --- with MPI

struct Library {
  const char* compiler;
  Mpi mpi;
};

class MpiGangTest : public GangTest, public testing::WithParamInterface<Library> {
 protected:
  void SetUp() override {
    if (GetParam().mpi == Mpi::kPmix && std::string(HARROW_PMIX).empty())
      GTEST_SKIP() << "harrow-pmix was not built (needs libpmix)";
    program_ = Compiled(GetParam().compiler, scratch_.path());
    if (program_.empty() && GetParam().mpi == Mpi::kPmix) GTEST_SKIP() << "no mpicc.openmpi (needs Open MPI)";
    if (program_.empty()) GTEST_SKIP() << "no mpicc.mpich (needs MPICH)";
  }
  void RunIt(const std::string& what, const std::vector<uint32_t>& ranks, const EnvList& env = {}) {
    Run(program_ + " " + what, ranks, GetParam().mpi, env);
  }
  bool IsMpich() const { return GetParam().mpi == Mpi::kPmi1; }
  std::string program_;
};

TEST_P(MpiGangTest, RanksOfTwoNodesTalk) {
  Make(2);
  for (int round = 0; round < 3; ++round) {
    RunIt(IsMpich() ? "ring" : "put", {2, 2});  // Debian's MPICH loses what is put, also by its own mpiexec
    ExpectAllGood();
    EXPECT_THAT(Lines(0), ElementsAre("rank 0 of 4: token 6, wrong 0, half 2",
                                      "rank 1 of 4: token 6, wrong 0, half 4"));
    EXPECT_THAT(Lines(1), ElementsAre("rank 2 of 4: token 6, wrong 0, half 2",
                                      "rank 3 of 4: token 6, wrong 0, half 4"));
  }
}

TEST_P(MpiGangTest, RanksOfThreeNodesTalkOneOfThemWithFewer) {
  Make(3);
  RunIt("ring", {2, 2, 1});
  ExpectAllGood();
  EXPECT_THAT(Lines(2), ElementsAre("rank 4 of 5: token 10, wrong 0, half 6"));
}

TEST_P(MpiGangTest, WhatGoesWrongIsNamedOnce) {
  Make(2);
  const std::pair<const char*, const char*> cases[] = {
      {"abort 3", "rank 3 of 4 on node1 called MPI_Abort with 7"},
      {"killed 3", "rank 3 of 4 on node1 was killed by signal 9 (Killed)"},
      {"leave 2", "rank 2 of 4 on node1 exited with 0 before MPI_Finalize, for which the others wait"},
      {"early 2", "rank 2 of 4 on node1"}};
  for (const auto& [what, said] : cases) {
    RunIt(what, {2, 2});
    EXPECT_EQ(results_[1].message, said) << what << Errors(1);
    EXPECT_TRUE(results_[1].failed) << what;
    EXPECT_NE(results_[0].end, End::kRunning);
    EXPECT_FALSE(results_[0].end == End::kExited && results_[0].code == 0) << what;
  }
  RunIt("ring", {2, 2});
  ExpectAllGood();
}

TEST_P(MpiGangTest, AProgramThatSpeaksWithNobodyHasFailed) {
  Make(2);
  Run("true", {1, 1}, GetParam().mpi);
  // Either may be the first, for which the other is ended.
  EXPECT_THAT(results_[0].message + results_[1].message,
              HasSubstr(IsMpich() ? "PMI-1, as MPICH does" : "PMIx, as Open MPI does"));
}

INSTANTIATE_TEST_SUITE_P(
    , MpiGangTest, testing::Values(Library{"mpicc.openmpi", Mpi::kPmix}, Library{"mpicc.mpich", Mpi::kPmi1}),
    [](const auto& library) { return std::string(library.param.mpi == Mpi::kPmix ? "OpenMpi" : "Mpich"); });

class PmixGangTest : public MpiGangTest {};

TEST_P(PmixGangTest, WhatIsNotGatheredIsAskedFor) {
  Make(2);
  RunIt("ring", {2, 2}, {{"OMPI_MCA_pmix_base_async_modex", "1"}, {"OMPI_MCA_pmix_base_collect_data", "0"}});
  ExpectAllGood();
}

TEST_P(PmixGangTest, NamesArePublishedForAllNodes) {
  Make(2);
  for (const char* what : {"publish 3", "publish 0"}) {
    RunIt(what, {2, 2});
    ExpectAllGood();
  }
}

TEST_P(PmixGangTest, WithoutItsHelperAPartIsLost) {
  Make(2);
  ++tries_;
  const std::string begun = scratch_.path() + "/begun-";
  PushAll("touch " + begun + "$HARROW_RANK; exec " + program_ + " sleep 60", {1, 1}, Mpi::kPmix);
  EXPECT_TRUE(Eventually(
      [&] { return std::filesystem::exists(begun + "0") && std::filesystem::exists(begun + "1"); }));
  std::vector<pid_t> helpers;
  for (const os::Process& process : os::Descendants(getpid())) {
    if (os::ProgramOf(process) == "harrow-pmix") helpers.push_back(process.pid);
  }
  ASSERT_EQ(helpers.size(), 2u);
  kill(helpers[0], SIGKILL);
  WaitForAll();
  int told = 0;  // the part that had it
  for (const auto& [node, result] : results_) {
    EXPECT_EQ(result.end, End::kLost) << node << ": " << result.message;
    const bool tells = result.message.find("harrow-pmix died: signal 9") != std::string::npos;
    EXPECT_EQ(result.failed.has_value(), tells) << node << ": " << result.message;
    told += tells ? 1 : 0;
  }
  EXPECT_EQ(told, 1);
  RunIt("ring", {1, 1});
  ExpectAllGood();
}

INSTANTIATE_TEST_SUITE_P(, PmixGangTest, testing::Values(Library{"mpicc.openmpi", Mpi::kPmix}),
                         [](const auto&) { return std::string("OpenMpi"); });

}  // namespace
}  // namespace harrow::agent
