// How the ends of an attempt's processes become the attempt's.
#include "agent/steps/team.h"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "agent/steps/ranks.h"
#include "base/text.h"

namespace harrow::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Seen = RankServer::Seen;

WallTime AtSecond(int second) {
  return WallTime(std::chrono::seconds(second));
}

Seen Connected(bool finalized, uint32_t turn = 0) {
  return {.connected = true, .finalized = finalized, .aborted = {}, .turn = turn};
}

/// It was served, and said farewell.
RankEnd Exited(int code, int second = 10) {
  RankEnd end;
  end.result.end = End::kExited;
  end.result.code = code;
  end.result.start = AtSecond(1);
  end.result.finish = AtSecond(second);
  end.served = true;
  end.seen = Connected(true);
  return end;
}

RankEnd Killed(int signal, uint32_t turn, int second = 10) {
  RankEnd end = Exited(signal, second);
  end.result.end = End::kSignaled;
  end.seen = Connected(false, turn);
  return end;
}

RankEnd Asked(End reason, int second = 11) {
  RankEnd end = Exited(15, second);
  end.result.end = reason;
  end.asked = reason;
  end.seen = Connected(false, 9);
  return end;
}

RankEnd Left(uint32_t turn, int second = 10) {
  RankEnd end = Exited(0, second);
  end.seen = Connected(false, turn);
  return end;
}

RankEnd NotStarted(std::string why) {
  RankEnd end;
  end.result.message = std::move(why);
  return end;
}

TEST(JoinEnds, AllThatSucceededAreASuccess) {
  std::vector<RankEnd> ends = {Exited(0, 5), Exited(0, 7), Exited(0, 6)};
  ends[1].result.start = AtSecond(0);
  for (RankEnd& end : ends) EXPECT_FALSE(FailedByItself(end));
  ends[0].result.user_time = ends[2].result.user_time = std::chrono::seconds(2);
  ends[1].result.system_time = std::chrono::seconds(3);
  ends[0].result.pus = {4};
  ends[1].result.pus = {0, 1};
  ends[2].result.devices = "GPU-1";
  ends[1].result.devices = "GPU-0";
  ends[0].result.max_rss_kib = 100;
  ends[1].result.max_rss_kib = 20;
  ends[1].result.output_offset = 70;
  ends[2].result.output_offset = 60;
  ends[1].result.stdout_bytes = 5;
  ends[2].result.stdout_bytes = 6;
  ends[2].result.stderr_bytes = 7;
  ends[2].result.truncated = true;
  const TaskResult all = JoinEnds(std::move(ends));
  EXPECT_EQ(all.end, End::kExited);
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.message, "");
  EXPECT_EQ(all.start, AtSecond(0));
  EXPECT_EQ(all.finish, AtSecond(7));
  EXPECT_EQ(all.user_time, std::chrono::seconds(4));
  EXPECT_EQ(all.system_time, std::chrono::seconds(3));
  EXPECT_THAT(all.pus, ElementsAre(4, 0, 1));
  EXPECT_EQ(all.devices, "GPU-0,GPU-1");
  EXPECT_EQ(all.max_rss_kib, 120);
  EXPECT_EQ(all.output_offset, 60u);
  EXPECT_EQ(all.stdout_bytes, 11u);
  EXPECT_EQ(all.stderr_bytes, 7u);
  EXPECT_TRUE(all.truncated);
}

TEST(JoinEnds, PeaksThatAreNotKnownAreNotKnownTogether) {
  std::vector<RankEnd> ends = {Exited(0), Exited(0)};
  ends[0].result.max_rss_kib = 100;
  ends[1].result.max_rss_kib = -30;
  EXPECT_EQ(JoinEnds(std::move(ends)).max_rss_kib, -130);
  ends = {Exited(0), Exited(0)};
  ends[0].result.max_rss_kib = 20;
  EXPECT_EQ(JoinEnds(std::move(ends)).max_rss_kib, 20);
  ends = {Exited(0), Exited(0)};
  ends[1].result.max_rss_kib = 20;
  EXPECT_EQ(JoinEnds(std::move(ends)).max_rss_kib, 20);
}

TEST(JoinEnds, WhatOneHasWrittenFirstIsWhereTheOutputOfAllBegins) {
  for (const auto& [first, second, all] :
       {std::tuple(60u, 70u, 60u), {70u, 60u, 60u}, {60u, 0u, 60u}, {0u, 60u, 60u}, {0u, 0u, 0u}}) {
    std::vector<RankEnd> ends = {Exited(0), Exited(0)};
    ends[0].result.output_offset = first;
    ends[1].result.output_offset = second;
    EXPECT_EQ(JoinEnds(std::move(ends)).output_offset, all);
  }
}

TEST(JoinEnds, WhoAbortedEndsWithWhatItGaveToMpiAbortWhateverEndedIt) {
  const auto code_of = [](int given) {
    RankEnd aborts = Exited(0);
    aborts.result.end = End::kSignaled;
    aborts.result.code = SIGPIPE;
    aborts.seen = Seen{.connected = true, .finalized = false, .aborted = given, .turn = 1};
    const TaskResult all = JoinEnds({Exited(0), aborts});
    EXPECT_EQ(all.end, End::kExited);
    EXPECT_EQ(all.message, StrCat("rank 1 of 2 called MPI_Abort with ", given));
    return all.code;
  };
  EXPECT_EQ(code_of(42), 42);
  EXPECT_EQ(code_of(300), 44);
  EXPECT_EQ(code_of(-1), 255);
  EXPECT_EQ(code_of(0), 1);
  EXPECT_EQ(code_of(256), 1);
}

TEST(JoinEnds, TheFirstThatFailedByItselfIsNamed) {
  const TaskResult all = JoinEnds({Exited(3, 9), Exited(4, 8), Asked(End::kCancelled, 7)});
  EXPECT_EQ(all.end, End::kExited);
  EXPECT_EQ(all.code, 4);
  EXPECT_EQ(all.message, "rank 1 of 3");
  EXPECT_EQ(all.failed, AtSecond(8));
  EXPECT_EQ(JoinEnds({Exited(3, 9), Exited(4, 9)}).code, 3) << "of two at once the one of the lower number";
  std::vector<RankEnd> ends = {Exited(0), Exited(4)};
  ends[0].result.devices = "GPU-0";
  ends[1].result.devices = "GPU-1";
  EXPECT_EQ(JoinEnds(std::move(ends)).devices, "GPU-0,GPU-1");
  EXPECT_EQ(JoinEnds({Exited(4)}, {.node = "n1"}).message, "") << "there is no other";
  EXPECT_EQ(JoinEnds({Exited(0), Exited(4)}, {.node = "n1"}).message, "rank 1 of 2 on n1");
}

TEST(JoinEnds, WhatTheServerSawFirstCameFirst) {
  EXPECT_EQ(JoinEnds({Killed(6, 2, 8), Killed(9, 1, 9)}).message,
            "rank 1 of 2 was killed by signal 9 (Killed)");
  RankEnd unseen = Exited(2, 1);
  unseen.seen = Seen{};
  EXPECT_EQ(JoinEnds({Killed(6, 2, 8), unseen}).code, 6) << "what it has not seen comes after that";
}

TEST(JoinEnds, AnAbortIsAFailureWhateverTheExitCode) {
  for (const int code : {0, 7}) {
    RankEnd aborts = Exited(code);
    aborts.seen = Seen{.connected = true, .finalized = false, .aborted = 7, .turn = 1};
    EXPECT_TRUE(FailedByItself(aborts));
    const TaskResult all = JoinEnds({Asked(End::kCancelled), aborts});
    EXPECT_EQ(all.end, End::kExited);
    EXPECT_EQ(all.code, code == 0 ? 1 : 7);
    EXPECT_EQ(all.message, "rank 1 of 2 called MPI_Abort with 7");
  }
}

TEST(JoinEnds, WhoGoesWithoutAFarewellHasFailed) {
  EXPECT_TRUE(FailedByItself(Left(1)));
  TaskResult all = JoinEnds({Exited(0), Left(1)});
  EXPECT_EQ(all.end, End::kExited);
  EXPECT_EQ(all.code, 1);
  EXPECT_EQ(all.message, "rank 1 of 2 exited with 0 before MPI_Finalize, for which the others wait");
  all = JoinEnds({Left(1)});
  EXPECT_EQ(all.code, 1);
  EXPECT_EQ(all.message, "exited with 0 before MPI_Finalize");
  RankEnd serial = Exited(0);
  serial.seen = Seen{};
  EXPECT_FALSE(FailedByItself(serial)) << "it never began with MPI";
}

TEST(JoinEnds, ARankThatEndsBeforeItBeganIsNamedWhereOthersWait) {
  RankEnd early = Exited(0);
  early.seen = Seen{};
  early.needed = true;
  EXPECT_TRUE(FailedByItself(early));
  const TaskResult all = JoinEnds({Asked(End::kExited), early}, {.first = 4, .of = 8, .node = "n2"});
  EXPECT_EQ(all.end, End::kExited);
  EXPECT_EQ(all.code, 1);
  EXPECT_EQ(all.message, "rank 5 of 8 on n2 exited with 0 before MPI_Init, for which the others wait");
}

TEST(JoinEnds, RanksThatNeverMetHaveFailed) {
  std::vector<RankEnd> ends = {Exited(0), Exited(0)};
  for (RankEnd& end : ends) {
    end.seen = Seen{};
    EXPECT_FALSE(FailedByItself(end)) << "the others may still run";
  }
  const TaskResult all = JoinEnds(ends);
  EXPECT_EQ(all.end, End::kExited);
  EXPECT_EQ(all.code, 1);
  EXPECT_NE(all.message.find("PMIx"), std::string::npos);
  EXPECT_EQ(all.failed, all.finish);
  EXPECT_EQ(JoinEnds({ends[0]}).code, 0) << "one that is alone is what it was to be";
  EXPECT_EQ(JoinEnds({Exited(0), ends[1]}).code, 0) << "one of them did";
  ends[0] = Asked(End::kTimedOut);
  EXPECT_EQ(JoinEnds(ends).end, End::kTimedOut);
  ends[0] = ends[1];
  ends[0].served = ends[1].served = false;
  EXPECT_EQ(JoinEnds(ends).code, 0) << "they had no server";
}

TEST(JoinEnds, OneRankIsNotNumbered) {
  EXPECT_EQ(JoinEnds({Exited(3)}).message, "");
  EXPECT_EQ(JoinEnds({Killed(9, 1)}).message, "");
  RankEnd aborts = Exited(1);
  aborts.seen->aborted = 5;
  EXPECT_EQ(JoinEnds({aborts}).message, "called MPI_Abort with 5");
}

TEST(JoinEnds, WhyAllWereEndedIsSaid) {
  EXPECT_EQ(JoinEnds({Exited(0), Asked(End::kTimedOut), Asked(End::kTimedOut)}).end, End::kTimedOut);
  EXPECT_FALSE(FailedByItself(Asked(End::kTimedOut)));
  RankEnd finished = Exited(0);
  finished.asked = End::kCancelled;
  EXPECT_EQ(JoinEnds({finished, finished}).end, End::kExited) << "they had finished";
}

TEST(JoinEnds, WhyOneCouldNotBeStarted) {
  const std::vector<RankEnd> ends = {NotStarted(""), NotStarted("no pipe"), NotStarted("")};
  EXPECT_FALSE(FailedByItself(ends[0]));
  EXPECT_TRUE(FailedByItself(ends[1]));
  const TaskResult all = JoinEnds(ends);
  EXPECT_EQ(all.end, End::kNotStarted);
  EXPECT_EQ(all.message, "no pipe");
}

TEST(JoinEnds, WithoutItsServerAnAttemptIsLost) {
  std::vector<RankEnd> ends = {Exited(0), Exited(0)};
  ends[1].seen.reset();
  EXPECT_FALSE(FailedByItself(ends[1])) << "nobody knows";
  TaskResult all = JoinEnds(ends);
  EXPECT_EQ(all.end, End::kLost);
  EXPECT_NE(all.message.find("harrow-pmix"), std::string::npos);
  ends[0] = Killed(6, 0);
  all = JoinEnds(ends);
  EXPECT_EQ(all.end, End::kLost) << "perhaps for want of it";
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.failed, std::nullopt) << "its task has done nothing wrong";
  ends[0] = Asked(End::kTimedOut);
  EXPECT_EQ(JoinEnds(ends).end, End::kTimedOut);
  ends[1].served = false;
  ends[0] = Exited(0);
  EXPECT_EQ(JoinEnds(ends).end, End::kExited) << "it had none";
}

TEST(TeamTest, NoneStartsUnlessAllAreReady) {
  for (const bool ready : {true, false}) {
    Team team(3);
    std::vector<std::thread> others;
    std::atomic<int> starting{0};
    for (uint32_t process = 1; process < 3; ++process) {
      others.emplace_back([&, process] {
        EXPECT_EQ(team.AwaitGround().sandbox, "/there");
        starting += team.AreAllReady(ready || process != 2) ? 1 : 0;
        team.Ended(process, Exited(static_cast<int>(process)));
      });
    }
    team.Lay({.sandbox = "/there"});
    starting += team.AreAllReady(true) ? 1 : 0;
    team.Ended(0, Exited(0));
    const std::vector<RankEnd> ends = team.AwaitEnds({}, {});
    EXPECT_EQ(starting, ready ? 3 : 0);
    ASSERT_EQ(ends.size(), 3u);
    for (int process = 0; process < 3; ++process) EXPECT_EQ(ends[process].result.code, process);
    for (std::thread& other : others) other.join();
  }
}

TEST(TeamTest, WhoWaitsForTheOthersBeatsMeanwhile) {
  Team team(2);
  std::thread other([&team] {
    (void)team.AwaitGround();
    (void)team.AreAllReady(true);
  });
  team.Lay({});
  (void)team.AreAllReady(true);
  other.join();
  team.Ended(0, Exited(0));
  int beats = 0;
  const auto ends = team.AwaitEnds(Duration(1), [&] {
    if (++beats == 3) team.Ended(1, Exited(0));
  });
  EXPECT_GE(beats, 3);
  EXPECT_EQ(ends.size(), 2u);
}

TEST(TeamTest, WhoMayBeNeededWaitsUntilItIs) {
  Team team(2);
  int asked = 0;
  EXPECT_TRUE(team.AwaitNeed(1, [&] { return ++asked == 2; }, [] { return false; }));
  EXPECT_EQ(asked, 2);
}

TEST(TeamTest, WhoMayBeNeededWaitsForTheOthersEnds) {
  for (const bool others_wait_too : {true, false}) {
    Team team(3);
    team.Ended(2, Exited(0));
    std::atomic<bool> asked{false};
    std::thread waits([&] {
      EXPECT_FALSE(team.AwaitNeed(
          1, [&] { return asked = true, false; }, [] { return false; }));
      team.Ended(1, Exited(0));
    });
    while (!asked) std::this_thread::yield();
    if (others_wait_too) {
      EXPECT_FALSE(team.AwaitNeed(
          0, [] { return ADD_FAILURE(), false; }, [] { return false; }));
    }
    team.Ended(0, Exited(0));
    waits.join();
    EXPECT_EQ(team.AwaitEnds({}, {}).size(), 3u);
  }
}

TEST(TeamTest, WhoMayBeNeededWaitsNoLongerThanTheTask) {
  for (const bool needed : {false, true}) {
    Team team(2);
    EXPECT_FALSE(team.AwaitNeed(
        0, [=] { return needed; }, [] { return true; }))
        << "they are being ended for another reason";
  }
}

TEST(TeamTest, TheBeginningIsToldOnce) {
  Team team(2);
  EXPECT_TRUE(team.FirstToTell());
  EXPECT_FALSE(team.FirstToTell());
}

// --- what ranks are told

TEST(RankVariablesTest, EachIsNumbered) {
  const BaseEnvironment base({}, {.submit_dir = "/s", .node_name = "n1"});
  const auto all = RankVariables({.cores = 4, .ranks = 2, .mpi = Mpi::kNone}, base, "/dir");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[1], ElementsAre("HARROW_RANK=1", "HARROW_RANKS=2", "HARROW_NODELIST=n1",
                                  "HARROW_HOSTFILE=/dir/hosts"));
  EXPECT_THAT(RankVariables({.ranks = 1, .mpi = Mpi::kNone}, base, "")[0],
              ElementsAre("HARROW_RANK=0", "HARROW_RANKS=1", "HARROW_NODELIST=n1"));
}

TEST(HostLinesTest, OfATaskWithoutRanksAreNodeByNodeAndForSrunByTurns) {
  const BaseEnvironment base({}, {.submit_dir = "/s", .node_name = "n1"});
  const Gang gang{.nodes = {{.name = "n1"}, {.name = "n2"}}};
  const ProfileSpec spec{.cores = 2};
  EXPECT_EQ(HostLines(spec, base, &gang), "n1\nn1\nn2\nn2\n");
  EXPECT_EQ(HostLinesInTurn(spec, base, gang), "n1\nn2\nn1\nn2\n");
}

TEST(RankVariablesTest, OfPmixTheyLookLikeAStep) {
  const BaseEnvironment base({}, {.submit_dir = "/s", .node_name = "n1"});
  const auto rank = RankVariables({.cores = 6, .ranks = 3}, base, "/dir")[2];
  for (const char* entry :
       {"SLURM_JOBID=1", "SLURM_STEP_ID=0", "SLURM_NODELIST=n1", "SLURM_NTASKS=3", "SLURM_PROCID=2",
        "SLURM_LOCALID=2", "SLURM_CPUS_PER_TASK=2", "OMPI_MCA_btl_vader_backing_directory=/dir"})
    EXPECT_THAT(rank, Contains(entry));
}

TEST(RankVariablesTest, WithoutAFabricTheyLookForNone) {
  const BaseEnvironment base({{"OMPI_MCA_pml", "cm"}}, {.submit_dir = "/s", .node_name = "n1", .no_fabric = true});
  const auto rank = RankVariables({.ranks = 1}, base, "/dir")[0];
  EXPECT_THAT(rank, Contains("OMPI_MCA_btl=^openib,uct,ofi,usnic"));
  EXPECT_THAT(rank, Contains("HWLOC_PLUGINS_PATH=/dir"));
  EXPECT_THAT(rank, Not(Contains(HasSubstr("OMPI_MCA_pml")))) << "the user has said it";
  EXPECT_THAT(RankVariables({.devices = 1, .ranks = 1}, base, "/dir")[0], Not(Contains(HasSubstr("HWLOC_PLUGINS_PATH")))) << "it may look for its GPU";
  EXPECT_THAT(RankVariables({.ranks = 1, .mpi = Mpi::kPmi1}, base, "/dir")[0], Not(Contains(HasSubstr("OMPI_MCA"))));
  const BaseEnvironment other({}, {.submit_dir = "/s", .node_name = "n1"});
  EXPECT_THAT(RankVariables({.ranks = 1}, other, "/dir")[0], Not(Contains(HasSubstr("OMPI_MCA_pml"))));
}

TEST(RankVariablesTest, AJobKeepsItsNumber) {
  const BaseEnvironment base({{"SLURM_JOB_ID", "77"}, {"SLURM_JOBID", "77"}},
                             {.submit_dir = "/s", .node_name = "n1"});
  EXPECT_THAT(RankVariables({.ranks = 1}, base, "/dir")[0], Not(Contains("SLURM_JOBID=1")));
  EXPECT_THAT(RankVariables({.ranks = 2, .mpi = Mpi::kNone}, base, "/dir")[0], Contains("SLURM_NTASKS=2"));
}

}  // namespace
}  // namespace harrow::agent
