#include "batch/slurm_cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch/slurm_query.h"

namespace harrow::batch {
namespace {

using ::testing::ElementsAre;

TEST(Cpus, ListsAsSlurmWritesThem) {
  EXPECT_THAT(*ParseCpus("0-2,5,8-9"), ElementsAre(0, 1, 2, 5, 8, 9));
  for (const char* bad : {"", ",", "1,", "2-1", "1,1", "3-5,4", "a", "-1", "1-", "1--2", "99999999999"})
    EXPECT_FALSE(ParseCpus(bad).ok()) << bad;
}

TEST(Cpus, TextGoesToTheAgentsOfEveryNode) {
  const Result<SlurmAllocation> allocation = ParseQuery(
      "job\t1\t0\tall\tx\nnode\ta\t2\t0\t0\ncpus\t0-1\t8\nnode\tb\t1\t0\t0\ncpus\t3,"
      "5\t8\nnode\tc\t2\t0\t0\ncpus\t0-1\t8\n"
      "node\twhole\t8\t0\t0\nend\n");
  ASSERT_TRUE(allocation.ok()) << allocation.status().message();
  const std::string text = CpusText(*allocation);
  EXPECT_EQ(text, "0-1/8:a,c;3,5/8:b");
  for (const char* node : {"a", "c"}) {
    ASSERT_TRUE(CpusOn(text, node)) << node;
    EXPECT_THAT(CpusOn(text, node)->which, ElementsAre(0, 1));
  }
  EXPECT_THAT(CpusOn(text, "b")->which, ElementsAre(3, 5));
  EXPECT_EQ(CpusOn(text, "b")->of, 8u);
  EXPECT_FALSE(CpusOn(text, "whole"));
  EXPECT_FALSE(CpusOn("", "a"));
  for (const char* bad : {"0-1:a", "0-1/x:a", "x/8:a", "a", ":a", "/:a"})
    EXPECT_FALSE(CpusOn(bad, "a")) << bad;
}

}  // namespace
}  // namespace harrow::batch
