// What the ranks of an attempt are told before they start, and what is left of them when they have ended.
#include "agent/steps/ranks.h"

#include <gmock/gmock.h>
#include <map>

#include "agent/steps/gangs.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

/// Tells each rank its number, or fails.
class CountingServer : public TalkingRankServer {
 public:
  Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain&) override {
    added.push_back(ranks);
    if (!fails.ok()) return fails;
    std::vector<Variables> all;
    for (uint32_t i = 0; i < ranks.count + more; ++i) all.push_back({"TOLD=" + std::to_string(i)});
    return all;
  }
  std::optional<Seen> Ended(AttemptId, uint32_t, const InVain&) override { return std::nullopt; }
  void Drop(AttemptId attempt) override { dropped.push_back(attempt); }
  bool Hear(AttemptId, uint32_t, std::string_view) override { return true; }
  std::string TakeAnswers(AttemptId, uint32_t) override { return {}; }

  std::vector<Ranks> added;
  std::vector<AttemptId> dropped;
  Status fails;
  uint32_t more = 0;
};

class RanksTest : public StepOnDisk {
 protected:
  RanksTest() {
    root_ = TmpRootAt(Directory("root"));
    servers_.no_pmix = "there is no PMIx";
    task_.id = 4;
    task_.attempt = 2;
  }
  void SetGang(std::vector<Gang::Node> nodes, uint32_t here) {
    task_.gang = std::make_shared<Gang>(Gang{.nodes = std::move(nodes), .here = here});
  }
  bool NothingIsLeft() const { return fs::is_empty(At("root")); }

  TmpRoot root_;
  RankServers servers_;
  CountingServer pmix_, pmi1_;
  Ranks step_{root_, servers_, 3, [] { return false; }};
};

TEST_F(RanksTest, WhoIsAloneNeedsNothing) {
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_THAT(step_.TakeVariables(), IsEmpty());
  Settle(step_, End::kExited);
  SetProfile({.ranks = 2, .mpi = Mpi::kNone});
  ASSERT_TRUE(Prepare(step_).ok());
  Settle(step_, End::kNotStarted);
  SetProfile({});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_THAT(step_.TakeVariables(), IsEmpty()) << "nothing of the attempt before";
}

TEST_F(RanksTest, RanksHaveADirectoryOfTheirOwnWithTheListOfTheirNodes) {
  SetProfile({.ranks = 2, .mpi = Mpi::kNone});
  for (const char* name : {"root/3-1", "root/3-2"}) {
    ASSERT_TRUE(Prepare(step_).ok());
    EXPECT_EQ(ModeOf(At(name)), 0700u) << "a name is not used again";
    EXPECT_EQ(Text(std::string(name) + "/hosts"), "n1\nn1\n");
    EXPECT_FALSE(Has(std::string(name) + "/hosts-in-turn"));
    const auto variables = step_.TakeVariables();
    ASSERT_THAT(variables, SizeIs(2));
    EXPECT_THAT(variables[1], Contains("HARROW_HOSTFILE=" + At(name) + "/hosts"));
    Write(std::string(name) + "/deep/file", "x");
    Settle(step_, End::kExited);
    EXPECT_TRUE(NothingIsLeft());
    Settle(step_, End::kExited);
  }
  ExpectNoDescriptorMore();
}

TEST_F(RanksTest, ATaskOfSeveralNodesWithoutRanksHasItsListToo) {
  SetGang({{.name = "n1"}, {.name = "n2"}}, 0);
  SetProfile({.cores = 2});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_EQ(Text("root/3-1/hosts"), "n1\nn1\nn2\nn2\n");
  EXPECT_FALSE(Has("root/3-1/hosts-in-turn"));
  Settle(step_, End::kExited);
  SetProfile({.cores = 2}, {{"SLURM_JOB_ID", "7"}});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_EQ(Text("root/3-2/hosts-in-turn"), "n1\nn2\nn1\nn2\n") << "for srun";
  EXPECT_EQ(step_.TakeVariables().size(), 1u);
}

TEST_F(RanksTest, ADirectoryThatIsNoMoreWhatItWasIsNotUsed) {
  SetProfile({.ranks = 2, .mpi = Mpi::kNone});
  ASSERT_TRUE(Prepare(step_).ok());
  fs::rename(At("root/3-1"), At("away"));
  fs::create_directory_symlink(At("away"), At("root/3-1"));
  Settle(step_, End::kExited);
  EXPECT_TRUE(Has("away/hosts")) << "no link is followed";
  fs::remove(At("root/3-1"));
  ASSERT_TRUE(Prepare(step_).ok());
  fs::rename(At("root"), At("old"));
  Directory("root/3-2");
  Settle(step_, End::kExited);
  EXPECT_TRUE(Has("root/3-2"));
  servers_.pmix = &pmix_;
  SetProfile({.ranks = 2});
  const Status status = Prepare(step_);
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_THAT(status.message(), HasSubstr("none is safe on this node"));
  ExpectNoDescriptorMore();
}

TEST_F(RanksTest, WithoutADirectoryRanksAreToldAllElse) {
  SetProfile({.ranks = 2, .mpi = Mpi::kNone});
  ASSERT_TRUE(Prepare(step_).ok());
  Settle(step_, End::kExited);
  root_ = {};
  ASSERT_TRUE(Prepare(step_).ok());
  const auto variables = step_.TakeVariables();
  ASSERT_THAT(variables, SizeIs(2));
  EXPECT_THAT(variables[0], AllOf(Contains("HARROW_RANK=0"), Not(Contains(StartsWith("HARROW_HOSTFILE")))));
  servers_.pmix = &pmix_;
  SetProfile({.ranks = 2});
  EXPECT_EQ(Prepare(step_).code(), Code::kExhausted) << "PMIx puts files there";
  EXPECT_THAT(pmix_.added, IsEmpty());
}

TEST_F(RanksTest, ADirectoryThatCannotBeMadeSaysWhy) {
  servers_.pmix = &pmix_;
  Directory("root/3-1");
  SetProfile({.ranks = 2});
  const Status status = Prepare(step_);
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_EQ(status.message(), "cannot make a directory in " + At("root") + ": File exists");
  EXPECT_TRUE(Prepare(step_).ok());
}

TEST_F(RanksTest, AListThatFindsNoRoomKeepsThemFromBeingStarted) {
  SetGang({{.name = "n1"}, {.name = "n2"}}, 0);
  SetProfile({.cores = 2}, {{"SLURM_JOB_ID", "7"}});
  {
    const SmallFiles small(7);
    const Status status = Prepare(step_);
    EXPECT_EQ(status.code(), Code::kExhausted);
    EXPECT_EQ(status.message(), "cannot write the list of its ranks' nodes, " + At("root/3-1") + "/hosts: No space left on device");
  }
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_THAT(step_.TakeVariables(), IsEmpty());
  EXPECT_TRUE(Prepare(step_).ok());
  EXPECT_EQ(Text("root/3-2/hosts"), "n1\nn1\nn2\nn2\n");
}

// --- who serves them

TEST_F(RanksTest, WhoServesRanksTellsEachOfThem) {
  servers_.pmix = &pmix_;
  servers_.pmi1 = &pmi1_;
  struct Row {
    Mpi mpi;
    CountingServer* server;
    CountingServer* other;
  };
  for (const Row& row : {Row{Mpi::kPmix, &pmix_, &pmi1_}, {Mpi::kPmi1, &pmi1_, &pmix_}}) {
    pmix_.added.clear();
    pmi1_.added.clear();
    pmix_.dropped.clear();
    pmi1_.dropped.clear();
    SetGang({{.name = "n0", .ranks = 1}, {.name = "n1", .ranks = 2}}, 1);
    SetProfile({.nodes = 2, .ranks = 3, .mpi = row.mpi});
    ASSERT_TRUE(Prepare(step_).ok());
    ASSERT_THAT(row.server->added, SizeIs(1));
    EXPECT_EQ(row.server->added[0].attempt, task_.attempt_id());
    EXPECT_EQ(row.server->added[0].count, 2u);
    EXPECT_THAT(row.server->added[0].directory, StartsWith(At("root/3-")));
    EXPECT_EQ(row.server->added[0].gang, task_.gang);
    EXPECT_THAT(row.other->added, IsEmpty());
    const auto variables = step_.TakeVariables();
    ASSERT_THAT(variables, SizeIs(2));
    EXPECT_THAT(variables[0], AllOf(Contains("HARROW_RANK=1"), Contains("TOLD=0")));
    EXPECT_THAT(variables[1], AllOf(Contains("HARROW_RANK=2"), Contains("TOLD=1")));
    EXPECT_THAT(row.server->dropped, IsEmpty());
    Settle(step_, End::kExited);
    EXPECT_THAT(row.server->dropped, ElementsAre(task_.attempt_id()));
    Settle(step_, End::kExited);
    EXPECT_THAT(row.server->dropped, SizeIs(1));
    EXPECT_TRUE(NothingIsLeft());
  }
  pmix_.added.clear();
  SetProfile({.ranks = 3, .mpi = Mpi::kNone});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_THAT(pmix_.added, IsEmpty());
}

TEST_F(RanksTest, WhatIsToldOfMoreRanksThanThereAreIsNobodys) {
  servers_.pmix = &pmix_;
  pmix_.more = 1;
  SetProfile({.ranks = 2});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_THAT(step_.TakeVariables(), SizeIs(2));
}

TEST_F(RanksTest, WhereNobodyServesThemWhoNeedsPmixIsNotStarted) {
  SetProfile({.ranks = 2});
  EXPECT_EQ(Prepare(step_).message(), "there is no PMIx");
  EXPECT_TRUE(NothingIsLeft());
  SetProfile({.ranks = 2, .mpi = Mpi::kPmi1});
  EXPECT_TRUE(Prepare(step_).ok()) << "PMI-1 is for who has it";
}

TEST_F(RanksTest, WhomTheServerDoesNotTakeIsTriedAgainWhereItMayLater) {
  servers_.pmix = &pmix_;
  SetProfile({.ranks = 2});
  for (const auto& [code, end] : {std::pair(Code::kUnavailable, End::kLost), {Code::kInvalid, End::kRunning}}) {
    pmix_.fails = Status(code, "no");
    EXPECT_EQ(Prepare(step_).code(), code);
    EXPECT_EQ(result_.end, end);
    EXPECT_TRUE(NothingIsLeft());
    Settle(step_, End::kNotStarted);
    EXPECT_THAT(pmix_.dropped, IsEmpty()) << "it does not know it";
  }
}

// --- what they find in their environment

class RankVariablesInSlurmTest : public testing::Test {
 protected:
  static std::map<std::string, std::string> Of(const RankServer::Variables& variables) {
    std::map<std::string, std::string> all;
    for (const std::string& entry : variables) all.emplace(entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1));
    EXPECT_EQ(all.size(), variables.size()) << "each once";
    return all;
  }
  using Map = std::map<std::string, std::string>;

  const BaseEnvironment base_{EnvList{{"SLURM_JOB_ID", "7"}}, {.node_name = "n1", .slots = 6}};
};

TEST_F(RankVariablesInSlurmTest, OfSeveralNodesTheyLookLikeThoseOfAStep) {
  const Gang gang{.nodes = {{.name = "n0", .ranks = 2}, {.name = "n1", .ranks = 2}, {.name = "n2", .ranks = 1}}, .here = 1};
  const auto all = RankVariables({.cores = 4, .nodes = 3, .ranks = 5, .mpi = Mpi::kNone}, base_, "/dir", &gang);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(Of(all[1]), (Map{{"HARROW_RANK", "3"},
                             {"HARROW_RANKS", "5"},
                             {"HARROW_NODELIST", "n0,n1,n2"},
                             {"HARROW_HOSTFILE", "/dir/hosts"},
                             {"SLURM_NODELIST", "n0,n1,n2"},
                             {"SLURM_NTASKS", "5"},
                             {"SLURM_NPROCS", "5"},
                             {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                             {"SLURM_PROCID", "3"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_NNODES", "3"},
                             {"SLURM_CPUS_PER_TASK", "2"}}));
}

TEST_F(RankVariablesInSlurmTest, ALauncherOfItsOwnFindsAllNodes) {
  const Gang gang{.nodes = {{.name = "n0"}, {.name = "n1"}}, .here = 0};
  const auto all = RankVariables({.cores = 4, .nodes = 2}, base_, "/dir", &gang);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(Of(all[0]), (Map{{"HARROW_NODELIST", "n0,n1"},
                             {"HARROW_HOSTFILE", "/dir/hosts"},
                             {"SLURM_NODELIST", "n0,n1"},
                             {"SLURM_NNODES", "2"},
                             {"SLURM_JOB_NUM_NODES", "2"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_NPROCS", "2"},
                             {"SLURM_TASKS_PER_NODE", "6(x2)"},
                             {"SLURM_CPUS_ON_NODE", "6"},
                             {"SLURM_CPUS_PER_TASK", "6"},
                             {"SLURM_HOSTFILE", "/dir/hosts-in-turn"}}));
  EXPECT_EQ(Of(RankVariables({.nodes = 2}, base_, "", &gang)[0]).count("SLURM_HOSTFILE"), 0u) << "there is none";
  const BaseEnvironment outside(EnvList{}, {.node_name = "n1"});
  EXPECT_EQ(Of(RankVariables({.nodes = 2}, outside, "/dir", &gang)[0]),
            (Map{{"HARROW_NODELIST", "n0,n1"}, {"HARROW_HOSTFILE", "/dir/hosts"}}));
}

TEST_F(RankVariablesInSlurmTest, WhatThisTasksLibrariesAreToLookForIsTheUsersToSayFirst) {
  const BaseEnvironment base(EnvList{{"OMPI_MCA_pml", "mine"}}, {.node_name = "n1", .no_fabric = true});
  const auto all = Of(RankVariables({.ranks = 1}, base, "/dir")[0]);
  EXPECT_EQ(all.count("OMPI_MCA_pml"), 0u);
  EXPECT_EQ(all.at("OMPI_MCA_osc"), "^ucx");
  EXPECT_EQ(all.at("HWLOC_PLUGINS_PATH"), "/dir");
  EXPECT_EQ(all.at("OMPI_MCA_btl_vader_backing_directory"), "/dir");
  EXPECT_EQ(all.at("SLURM_JOBID"), "1");
  EXPECT_EQ(all.at("SLURM_STEP_ID"), "0");
  EXPECT_EQ(all.count("SLURM_NNODES"), 0u) << "of one node nobody asks";
}

TEST_F(RankVariablesInSlurmTest, HowManyEachNodeHasIsToldInSlurmsWords) {
  const auto told = [](std::vector<uint32_t> ranks) {
    Gang gang;
    for (const uint32_t count : ranks) gang.nodes.push_back({.ranks = count});
    return RanksPerNode(gang);
  };
  EXPECT_EQ(told({4}), "4");
  EXPECT_EQ(told({4, 4, 3}), "4(x2),3");
  EXPECT_EQ(told({3, 4, 4, 4}), "3,4(x3)");
  EXPECT_EQ(told({1, 2, 1}), "1,2,1");
}

// --- parts that meet

/// Answers at once, or keeps who asks for later.
class MeetingPlace : public Gangs {
 public:
  void Join(AttemptId, std::shared_ptr<const Gang>) override {}
  void Leave(AttemptId) override {}
  void Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data, Met met) override {
    asked = attempt;
    kind = meeting;
    EXPECT_THAT(ranks, IsEmpty());
    EXPECT_EQ(data, "");
    if (outcome) {
      met(*outcome);
    } else {
      kept = std::move(met);
    }
  }
  void Ask(AttemptId, uint32_t, std::string, std::function<void(std::string)>) override {}

  std::optional<Result<std::string>> outcome;
  AttemptId asked;
  Meeting kind = Meeting::kReady;
  Met kept;
};

TEST(GangsTest, WhoMeetsWaitsForTheOthersOrUntilThatIsInVain) {
  MeetingPlace gangs;
  const AttemptId attempt{TaskId(4), 2};
  gangs.outcome = std::string("data");
  EXPECT_TRUE(gangs.MeetAndWait(attempt, Meeting::kEnded, [] { return true; }).ok());
  EXPECT_EQ(gangs.asked, attempt);
  EXPECT_EQ(gangs.kind, Meeting::kEnded);
  gangs.outcome = Status(Code::kInvalid, "too much");
  EXPECT_EQ(gangs.MeetAndWait(attempt, Meeting::kReady, [] { return true; }).message(), "too much");
  gangs.outcome.reset();
  int asked = 0;
  EXPECT_EQ(gangs.MeetAndWait(attempt, Meeting::kReady, [&] { return ++asked == 2; }).code(), Code::kUnavailable);
  gangs.kept(std::string("late"));  // nobody waits any more
  EXPECT_TRUE(gangs
                  .MeetAndWait(attempt, Meeting::kReady,
                               [&] {
                                 gangs.kept(std::string("data"));
                                 return false;
                               })
                  .ok());
}

}  // namespace
}  // namespace harrow::agent
