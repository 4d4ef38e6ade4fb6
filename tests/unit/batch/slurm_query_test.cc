#include "batch/slurm_query.h"

#include <gtest/gtest.h>

namespace harrow::batch {
namespace {

TEST(Query, OneComponent) {
  Result<SlurmAllocation> a =
      ParseQuery("job\t12\t1700000000\tall\tmy job\nnode\tnode1\t4\t1048576\t2\nnode\tnode2\t2\t0\t0\nend\n");
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_EQ(a->job_id, "12");
  EXPECT_EQ(a->job_name, "my job");
  EXPECT_EQ(a->end, WallTime(std::chrono::seconds(1700000000)));
  ASSERT_EQ(a->components.size(), 1u);
  ASSERT_EQ(a->components[0].nodes.size(), 2u);
  EXPECT_EQ(a->components[0].nodes[0].devices, 2u);
  EXPECT_EQ(a->components[0].nodes[0].memory, 1048576u);
  EXPECT_EQ(a->components[0].nodes[1].cpus, 2u);
  EXPECT_EQ(a->components[0].nodes[1].partition, "all");
}

TEST(Query, TheFirstEndOfAllComponentsCounts) {
  Result<SlurmAllocation> a = ParseQuery(
      "job\t2\t0\tfast\tx\nnode\ta\t1\t0\t0\njob\t3\t500\tslow\tx\nnode\tb\t1\t0\t0\njob\t4\t400\tslow\tx\nen"
      "d\n");
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_EQ(a->job_id, "2");
  EXPECT_EQ(a->components.size(), 3u);
  EXPECT_EQ(a->end, WallTime(std::chrono::seconds(400)));
}

TEST(Query, NoLimitIsNoEnd) {
  EXPECT_FALSE(ParseQuery("job\t2\t0\tfast\tx\nend\n")->end);
}

TEST(Query, AJobThatIsOver) {
  EXPECT_EQ(ParseQuery("gone\t99\nend\n").status().code(), Code::kNotFound);
  EXPECT_EQ(ParseQuery("job\t2\t0\tf\tx\nnode\ta\t1\t0\t0\ngone\t3\nend\n").status().code(), Code::kNotFound);
}

TEST(Query, CutAnywhereIsNoAnswer) {
  const std::string whole = "job\t12\t1700000000\tall\tmy job\nnode\tnode1\t4\t1048576\t2\nend\n";
  ASSERT_TRUE(ParseQuery(whole).ok());
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(ParseQuery(whole.substr(0, n)).ok()) << n;
  for (const char* bad : {"node\ta\t1\t0\t0\nend\n", "job\t1\tx\tp\tn\nend\n",
                          "job\t1\t0\tp\tn\nnode\ta\t-1\t0\t0\nend\n", "job\t1\t0\tp\tn\ncpus\t0\t8\nend\n",
                          "job\t1\t0\tp\tn\nnode\ta\t1\t0\t0\ncpus\t1-0\t8\nend\n", "what\nend\n", "end\n"}) {
    EXPECT_FALSE(ParseQuery(bad).ok()) << bad;
  }
}

TEST(TimeLeft, AsSqueuePrintsIt) {
  WallTime now{std::chrono::seconds(1000)};
  EXPECT_EQ(ParseTimeLeft("1:30\n", now), now + std::chrono::seconds(90));
  EXPECT_EQ(ParseTimeLeft("2:00:00", now), now + std::chrono::hours(2));
  EXPECT_EQ(ParseTimeLeft("1-00:00:01", now), now + std::chrono::hours(24) + std::chrono::seconds(1));
  for (const char* none : {"UNLIMITED", "NOT_SET", "INVALID", "", "\n"})
    EXPECT_FALSE(ParseTimeLeft(none, now)) << none;
}

}  // namespace
}  // namespace harrow::batch
