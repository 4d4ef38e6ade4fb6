#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "place/replicas.h"

namespace harrow::place {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

bool AnyNode(NodeId) {
  return true;
}

class HomesTest : public ::testing::Test {
 protected:
  FileId File(const std::string& name, int64_t bytes = -1) {
    const FileId file = graph_.AddFile(name);
    if (bytes >= 0) graph_.SetFileSize(file, bytes);
    return file;
  }
  TaskId Task(const std::vector<FileId>& in, const std::vector<FileId>& out = {}) {
    graph::TaskSpec spec;
    spec.in = in;
    spec.out = out;
    return graph_.AddTask(spec);
  }
  void Begin(Replicas* replicas, uint32_t nodes = 4) {
    ASSERT_TRUE(graph_.Seal().ok());
    replicas->Grow();
    for (uint32_t n = 0; n < nodes; ++n) replicas->NodeJoined(NodeId(n));
  }
  std::vector<NodeId> Candidates(TaskId task) {
    const auto found = replicas_.Candidates(task, AnyNode);
    return {found.begin(), found.end()};
  }

  graph::Graph graph_;
  Replicas replicas_{graph_};
};

TEST_F(HomesTest, AFileHasNoHomeWhereItHasNotBeenPlaced) {
  const FileId a = File("a", 10), b = File("b", 10);
  Task({a, b});
  Begin(&replicas_);
  EXPECT_FALSE(replicas_.Any(a));
  replicas_.Add(a, NodeId(1));
  EXPECT_TRUE(replicas_.Any(a));
  EXPECT_EQ(replicas_.Home(a), NodeId());
  replicas_.SetHome(a, NodeId(1));
  EXPECT_EQ(replicas_.Home(a), NodeId(1));
  EXPECT_EQ(replicas_.Home(b), NodeId()) << "it lies nowhere";
  replicas_.SetHome(b, NodeId(2));
  EXPECT_EQ(replicas_.Home(b), NodeId()) << "its node does not hold it";
  replicas_.Add(b, NodeId(2));
  EXPECT_EQ(replicas_.Home(b), NodeId(2));
  replicas_.SetHome(b, NodeId(9));
  EXPECT_EQ(replicas_.Home(b), NodeId(2)) << "nobody knows that node";
}

TEST_F(HomesTest, AHomeGoesWithItsNodeAndWithItsReplica) {
  const FileId a = File("a", 10), b = File("b", 10);
  Task({a, b});
  Begin(&replicas_);
  for (const FileId file : {a, b}) {
    replicas_.Add(file, NodeId(1));
    replicas_.Add(file, NodeId(2));
    replicas_.SetHome(file, NodeId(1));
  }
  replicas_.Remove(b, NodeId(1));
  EXPECT_EQ(replicas_.Home(b), NodeId()) << "elsewhere are copies";
  EXPECT_TRUE(replicas_.Any(b));
  replicas_.NodeLost(NodeId(1));
  EXPECT_EQ(replicas_.Home(a), NodeId());
  replicas_.NodeJoined(NodeId(1));
  EXPECT_EQ(replicas_.Home(a), NodeId()) << "what it held does not come back with it";
  replicas_.SetHome(a, NodeId(3));
  replicas_.NodeLost(NodeId(2));
  EXPECT_FALSE(replicas_.Any(a));
}

TEST_F(HomesTest, FilesThatComeLaterHaveNoHomeYet) {
  const FileId a = File("a", 10);
  Task({a});
  Begin(&replicas_);
  replicas_.Add(a, NodeId(1));
  replicas_.SetHome(a, NodeId(1));
  std::vector<FileId> later;
  for (int n = 0; n < 5000; ++n) later.push_back(File("later-" + std::to_string(n), 1));
  Task(later);
  Begin(&replicas_);
  for (const FileId file : later) ASSERT_EQ(replicas_.Home(file), NodeId());
  replicas_.Add(later.back(), NodeId(2));
  replicas_.SetHome(later.back(), NodeId(2));
  EXPECT_EQ(replicas_.Home(later.back()), NodeId(2));
  EXPECT_EQ(replicas_.Home(a), NodeId(1));
}

TEST_F(HomesTest, CopiesAreNoCandidatesBesideHomes) {
  const FileId a = File("a", 10), b = File("b", 10), c = File("c", 4);
  const TaskId reads_one = Task({a}), reads_two = Task({a, b}), reads_three = Task({a, b, c});
  Begin(&replicas_);
  for (const uint32_t node : {0u, 1u, 3u}) replicas_.Add(a, NodeId(node));
  EXPECT_THAT(Candidates(reads_one), UnorderedElementsAre(NodeId(0), NodeId(1), NodeId(3))) << "no homes yet";
  replicas_.SetHome(a, NodeId(1));
  EXPECT_THAT(Candidates(reads_one), ElementsAre(NodeId(1)));
  EXPECT_THAT(Candidates(reads_one), ElementsAre(NodeId(1))) << "nothing is left over";
  replicas_.Add(b, NodeId(2));
  EXPECT_THAT(Candidates(reads_two), ElementsAre(NodeId(1))) << "10 at home, and b is at home nowhere";
  replicas_.SetHome(b, NodeId(2));
  EXPECT_THAT(Candidates(reads_two), UnorderedElementsAre(NodeId(1), NodeId(2)));
  replicas_.Add(c, NodeId(2));
  replicas_.SetHome(c, NodeId(2));
  EXPECT_THAT(Candidates(reads_three), UnorderedElementsAre(NodeId(1), NodeId(2))) << "10 and 14";
  replicas_.Add(b, NodeId(1));
  replicas_.SetSize(c, 11);
  EXPECT_THAT(Candidates(reads_three), ElementsAre(NodeId(2)))
      << "10 and 21 at home, though 20 and 21 are there";
}

TEST_F(HomesTest, OneCandidateStaysWithoutBeingHome) {
  const FileId a = File("a", 10), b = File("b", 1);
  const TaskId task = Task({a, b});
  Begin(&replicas_);
  replicas_.Add(a, NodeId(1));
  replicas_.Add(b, NodeId(2));
  replicas_.SetHome(b, NodeId(2));
  EXPECT_THAT(Candidates(task), ElementsAre(NodeId(1))) << "2 holds too little";
  EXPECT_EQ(replicas_.HomeBytes(task, NodeId(2)), 1);
  EXPECT_EQ(replicas_.HomeBytes(task, NodeId(1)), 0) << "a copy";
  EXPECT_EQ(replicas_.BytesAt(task, NodeId(1)).local, 10);
}

TEST_F(HomesTest, UnknownSizesCountInHomesAsTheMeanRoundedDown) {
  const FileId a = File("a", 3), b = File("b", 0), unknown = File("c");
  const TaskId task = Task({a, b, unknown});
  Begin(&replicas_);
  replicas_.Add(a, NodeId(1));
  replicas_.Add(unknown, NodeId(2));
  EXPECT_THAT(Candidates(task), ElementsAre(NodeId(1))) << "3 and 1";
  replicas_.SetSize(a, 4);
  EXPECT_THAT(Candidates(task), UnorderedElementsAre(NodeId(1), NodeId(2))) << "4 and 2";
  EXPECT_EQ(replicas_.HomeBytes(task, NodeId(2)), 0);
}

class DirectoriesTest : public HomesTest {
 protected:
  void SetUp() override {
    directory_ = File("out/d", 10);
    other_ = File("out/dd", 10);
    below_ = File("out/d/x", 7);
    beside_ = File("out/dd/x", 7);
    plain_ = File("out/e", 7);
    Task({}, {other_, directory_, plain_});
    reader_ = Task({below_, beside_, plain_});
  }
  FileId directory_, other_, below_, beside_, plain_;
  TaskId reader_;
};

TEST_F(DirectoriesTest, AFileBelowADirectoryIsHeldWithIt) {
  Replicas replicas(graph_, true);
  Begin(&replicas);
  EXPECT_EQ(replicas.Held(below_), directory_);
  EXPECT_EQ(replicas.Held(beside_), other_);
  EXPECT_EQ(replicas.Held(plain_), plain_);
  EXPECT_EQ(replicas.Held(directory_), directory_);
  replicas.Add(directory_, NodeId(3));
  replicas.SetHome(directory_, NodeId(3));
  const InputBytes bytes = replicas.BytesAt(reader_, NodeId(3));
  EXPECT_EQ(bytes.local, 7);
  EXPECT_EQ(bytes.remote, 14);
  EXPECT_EQ(replicas.HomeBytes(reader_, NodeId(3)), 7);
  EXPECT_THAT(replicas.Candidates(reader_, AnyNode), ElementsAre(NodeId(3)));
}

TEST_F(DirectoriesTest, WhereFilesAreSharedEachIsHeldByItself) {
  Begin(&replicas_);
  EXPECT_EQ(replicas_.Held(below_), below_);
  replicas_.Add(directory_, NodeId(3));
  EXPECT_THAT(Candidates(reader_), IsEmpty());
}

}  // namespace
}  // namespace harrow::place
