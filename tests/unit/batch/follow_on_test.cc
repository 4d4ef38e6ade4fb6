// What a chain of jobs says to Slurm, and reads of it.
#include "batch/follow_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harrow::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FollowOn, WordsAreThoseOfTheFirstJobButForWhatHoldsIt) {
  EXPECT_THAT(FollowOnWords({"-p", "all", "--wait", "-W", "--parsable", "--hold", "-H", "--waiting"}, "17",
                            "/r n", "/d"),
              ElementsAre("-p", "all", "--waiting", "--dependency=afternotok:17", "--kill-on-invalid-dep=yes",
                          "--begin=now", "--open-mode=append", "--comment=harrow: goes on with /r n",
                          "--chdir=/d", "--parsable"));
}

TEST(FollowOn, IsFoundByItsDependencyAndComment) {
  const char* const mine =
      "20|afternotok:17(unfulfilled)|harrow: goes on with /r\n"
      "21|afternotok:17(unfulfilled)|mine\n"
      "22|afternotok:170(unfulfilled)|harrow: goes on with /r\n"
      "23|afterok:17|harrow: goes on with /r\n"
      "24|afternotok:171,afternotok:17|harrow: goes on with a|b\n"
      "\n25\n26|afternotok:17\n"
      "27|afternotok:179|harrow: goes on with /r\n"
      "28||harrow: goes on with /r";
  EXPECT_THAT(FollowOnsOf(mine, "17"), ElementsAre("20", "24"));
  EXPECT_THAT(FollowOnsOf(mine, "170"), ElementsAre("22"));
  EXPECT_THAT(FollowOnsOf(mine, "7"), IsEmpty());
  EXPECT_THAT(FollowOnsOf("", "17"), IsEmpty());
}

TEST(FollowOn, AJobHasHadItsTimeTwoSecondsBeforeItsLimit) {
  EXPECT_EQ(HadAllItsTime("1:00|0:58\n"), true);
  EXPECT_EQ(HadAllItsTime("1:00|0:57\n"), false);
  EXPECT_EQ(HadAllItsTime("1-00:00:00|1-00:00:09\n2:00|0:00\n"), true)
      << "Slurm has its own clock, and is late";
  EXPECT_EQ(HadAllItsTime("UNLIMITED|5:00"), false);
  EXPECT_EQ(HadAllItsTime("1:00|INVALID\n"), std::nullopt);
  EXPECT_EQ(HadAllItsTime("1:00\n"), std::nullopt);
  EXPECT_EQ(HadAllItsTime(""), std::nullopt);
}

}  // namespace
}  // namespace harrow::batch
