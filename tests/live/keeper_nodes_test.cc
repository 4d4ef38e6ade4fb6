// The keeper and the nodes of a job (keeper_fixture.h): one srun starts all agents, and nodes that are missed are rescued.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/text.h"
#include "live/keeper_fixture.h"

namespace harrow::keeper {
namespace {

using run::ServerEnd;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

// As under Slurm, where one srun starts all agents.
TEST_F(KeeperTest, AnSrunThatFailsIsToldWithItsLastWords) {
  batch_.rescue = "exec sleep 1000";
  batch_.wardens = {"echo noise >&2; echo 'srun: error: no such node' >&2; echo >&2; echo >>" + top_ +
                    "/starts; exit 1"};
  const KeeperEnd end = Keep("sleep 1000");
  EXPECT_EQ(end.end, ServerEnd::kCannotGoOn);
  EXPECT_EQ(end.problem,
            "srun failed 5 times in a row (exit code 1): srun: error: no such node; see " + Part("log"));
  EXPECT_EQ(Read("starts"), "\n\n\n\n\n");
  EXPECT_THAT(batch_.rescues, IsEmpty());
}

TEST_F(KeeperTest, AnSrunThatCannotReachNodesIsRepeatedWithoutThem) {
  batch_.rescue = "exec sleep 1000";
  batch_.others = "cd " + top_ +
                  "; echo >>starts; case $(wc -l <starts) in 1) set 1 10;; 2) set 11 22;; *) set 23 23;; esac; "
                  "echo no $(seq -f node%g $1 $2) >&2; exit 1";
  batch_.wardens = {batch_.others};
  const KeeperEnd end = Keep("sleep 1000");
  const auto nodes = [](int first, int last, const std::string& between) {
    std::string names = StrCat("node", first);
    for (int n = first + 1; n <= last; ++n) names += StrCat(between, "node", n);
    return names;
  };
  EXPECT_THAT(said_, ElementsAre("nodes " + nodes(1, 10, ", ") + " cannot be reached by srun: no " +
                                     nodes(1, 10, " ") + "; agents are started on the others",
                                 "nodes " + nodes(11, 20, ", ") + " and 2 more cannot be reached by srun: no " +
                                     nodes(11, 22, " ") + "; agents are started on the others",
                                 "node node23 cannot be reached by srun: no node23; agents are started on the "
                                 "others"));
  ASSERT_EQ(batch_.without.size(), 3u);
  EXPECT_EQ(batch_.without[0].size(), 10u);
  EXPECT_EQ(batch_.without[1].size(), 22u);
  EXPECT_EQ(batch_.without[2].size(), 23u);
  EXPECT_EQ(end.problem, "srun failed 5 times in a row (exit code 1): no node23; see " + Part("log"));
  EXPECT_EQ(Read("starts"), std::string(8, '\n')) << "that it named other nodes each time is no failure";
}

TEST_F(KeeperTest, AnSrunThatReachesNoNodeFails) {
  batch_.rescue = "exec sleep 1000";
  batch_.wardens = {"echo no node1 >&2; echo >>" + top_ + "/starts; exit 1"};
  EXPECT_EQ(Keep("sleep 1000").problem,
            "srun failed 5 times in a row (exit code 1): no node1; see " + Part("log"));
  EXPECT_EQ(Read("starts"), "\n\n\n\n\n");
  EXPECT_EQ(batch_.without.size(), 1u);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, AnSrunThatLosesNodesWhileTheRunIsBeingEndedIsNotRepeated) {
  batch_.rescue = "exec sleep 1000";
  batch_.wardens = {"cd " + top_ + "; while ! [ -e told ]; do sleep 0.01; done; echo no node1 >&2; exit 1"};
  batch_.others = "exec sleep 1000";
  Figures("1", Absent({}));
  When([this] { return !figures_.empty(); }, [this] { SignalUs(SIGTERM); });
  When([this] { return There("told"); }, [this] { loop_->After(seconds(1), [this] { Write("over", ""); }); });
  EXPECT_EQ(Keep("trap ': >told' TERM; while ! [ -e over ]; do say 1; sleep 0.01; done; exit 4").end,
            ServerEnd::kStopped);
  EXPECT_THAT(batch_.without, IsEmpty());
  EXPECT_THAT(said_, ElementsAre(StartsWith("SIGTERM: ")));
}

TEST_F(KeeperTest, WhenAgentsHaveComeNoSrunIsRepeated) {
  ItTalks();
  Write("rescued", "");
  batch_.rescue = "echo $0 >>" + top_ + "/rescued; exec sleep 1000";
  batch_.wardens = {"cd " + top_ + "; echo >>starts; while ! [ -e come ]; do sleep 0.01; done; exit 1"};
  Figures("come", Absent({}));
  Figures("absent", Absent({"node1", "node2"}));
  When([this] { return !figures_.empty(); }, [this] { Write("come", ""); });
  const KeeperEnd end = Keep(
      "while ! [ -e come ]; do say come; sleep 0.02; done; until [ $(wc -l <rescued) = 2 ]; do say absent; "
      "sleep 0.02; done; exit 0",
      10);
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
  EXPECT_EQ(Read("starts"), "\n");
  EXPECT_THAT(Read("rescued"), testing::AnyOf("node1\nnode2\n", "node2\nnode1\n"));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeeperTest, ANodeIsRescuedLessAndLessOften) {
  ItTalks();
  batch_.rescue = "exit 1";
  Figures("1", Absent({"node1"}));
  When([this] { return batch_.rescues.size() >= 8; }, [this] { Write("over", ""); });
  EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 20).end, ServerEnd::kAllDone);
  ASSERT_GE(batch_.rescues.size(), 8u);
  Time before{};
  int64_t least[] = {3, 3, 6, 12, 24, 48, 60, 60};
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(batch_.rescues[i].node, "node1");
    EXPECT_GE(batch_.rescues[i].at - before, seconds(least[i])) << i;
    before = batch_.rescues[i].at;
  }
  // Twice 60 would be three seconds of ours more.
  EXPECT_LT(batch_.rescues[7].at - batch_.rescues[6].at, seconds(119)) << "the pause grows no longer";
}

TEST_F(KeeperTest, ARescueThatEndsIsNotTheEndOfAnother) {
  ItTalks();
  batch_.rescue = "[ $0 = node1 ] && exit 1; exec sleep 1000";
  Figures("1", Absent({"node1", "node2"}));
  const auto rescues = [this](const std::string& node) {
    return std::count_if(batch_.rescues.begin(), batch_.rescues.end(),
                         [&](const Rescue& rescue) { return rescue.node == node; });
  };
  When([=] { return rescues("node1") >= 4; }, [this] { Write("over", ""); });
  EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 20).end, ServerEnd::kAllDone);
  EXPECT_EQ(rescues("node2"), 1);
}

TEST_F(KeeperTest, WhenSrunDiesRescuesLiveOn) {
  ItTalks();
  batch_.rescue = "cd " + top_ + "; echo $$ >rescuer; exec sleep 1000";
  batch_.wardens = {"cd " + top_ + "; while ! [ -s rescuer ]; do sleep 0.01; done; echo $$ >srun; exit 1"};
  Figures("1", Absent({"node1"}));
  const KeeperEnd end = Keep(
      "until [ -s srun ] && ! kill -0 $(cat srun); do say 1; sleep 0.01; done; sleep 0.3; kill -0 $(cat rescuer)",
      10);
  EXPECT_EQ(end.end, ServerEnd::kAllDone);
}

TEST_F(KeeperTest, SoManyNodesAreRescuedAtOnce) {
  ItTalks();
  batch_.rescue = "echo $$ >>" + top_ + "/rescued; exec sleep 1000";
  std::vector<std::string> nodes;
  for (int i = 0; i < 20; ++i) nodes.push_back(StrCat("node", i));
  Figures("1", Absent(nodes));
  When([this] { return batch_.rescues.size() >= 16; },
       [this] {
         loop_->After(seconds(10), [this] {
           EXPECT_EQ(batch_.rescues.size(), 16u);
           Write("over", "");
         });
       });
  EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 10).end, ServerEnd::kAllDone);
}

TEST_F(KeeperTest, ANodeThatCannotBeRescuedIsAskedForRarely) {
  ItTalks();
  Figures("1", Absent({"node1"}));
  batch_.wardens.clear();
  batch_.shell = "/nowhere/sh";
  for (const char* rescue : {"none", "cannot be started"}) {
    batch_.rescue = rescue;
    batch_.rescues.clear();
    at_once_.clear();
    fs::remove(top_ + "/over");
    When([this] { return batch_.rescues.size() >= 3; }, [this] { Write("over", ""); });
    EXPECT_EQ(Keep("until [ -e over ]; do say 1; sleep 0.01; done; exit 0", 50).end, ServerEnd::kAllDone);
    ASSERT_GE(batch_.rescues.size(), 3u);
    EXPECT_GE(batch_.rescues[1].at - batch_.rescues[0].at, seconds(60));
    EXPECT_GE(batch_.rescues[2].at - batch_.rescues[1].at, seconds(60));
  }
}

TEST_F(KeeperTest, ANodeThatCameBackBeginsAnew) {
  ItTalks();
  batch_.rescue = "exit 1";
  Figures("absent", Absent({"node1"}));
  Figures("there", Absent({}));
  When([this] { return batch_.rescues.size() >= 6; }, [this] { Write("back", ""); });
  When([this] { return batch_.rescues.size() >= 9; }, [this] { Write("over", ""); });
  EXPECT_EQ(Keep("until [ -e back ]; do say absent; sleep 0.01; done; sleep 0.1; say there; "
                 "until [ -e over ]; do say absent; sleep 0.01; done; exit 0",
                 20)
                .end,
            ServerEnd::kAllDone);
  ASSERT_GE(batch_.rescues.size(), 9u);
  EXPECT_LT(batch_.rescues[8].at - batch_.rescues[7].at, seconds(45)) << "the pause is short again, not 60";
}

}  // namespace
}  // namespace harrow::keeper
