#include "journal/whole_run.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "base/text.h"

namespace harrow::journal {
namespace {

class WholeRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-whole-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    path_ = name;
    const auto run = run_dir::RunDir::Open(path_);
    ASSERT_TRUE(run.ok());
    run_ = *run;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  /// The journal of a part, with what every server writes at its start.
  std::unique_ptr<Journal> Part(uint32_t number, const std::string& session, const std::string& flow = "f") {
    const auto part = run_dir::MakePart(run_, StrCat(number));
    EXPECT_TRUE(part.ok());
    auto journal = Journal::Open(part->dir, {.sync = false, .run_id = "r"});
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    (*journal)->SetFact("flow_id", flow);
    (*journal)->SetFact("started_ns", "1000");
    (*journal)->SetFact("session_ns", session);
    return *std::move(journal);
  }
  static AttemptRecord Attempt(uint32_t task, uint32_t node) {
    AttemptRecord attempt;
    attempt.task = TaskId(task);
    attempt.attempt = 1;
    attempt.node = NodeId(node);
    attempt.start_ns = 1100;
    attempt.end_ns = 1200;
    attempt.output_file = 1;
    return attempt;
  }
  static TaskRecord Task(uint32_t task, const std::string& name) {
    TaskRecord record;
    record.task = TaskId(task);
    record.name = name;
    return record;
  }
  static NodeRecord Node(uint32_t node, const std::string& name) {
    NodeRecord record;
    record.node = NodeId(node);
    record.name = name;
    record.slots = 4;
    record.output_file = 1;
    record.joined_ns = 1010;
    return record;
  }
  Result<History> Read(std::vector<Status>* trouble = nullptr) {
    const auto first = run_dir::OpenPart(run_);
    EXPECT_TRUE(first.ok());
    return ReadRun(*first, [](const auto& dir) { return ReadHistory(dir); }, trouble);
  }

  std::string path_;
  std::shared_ptr<run_dir::RunDir> run_;
};

TEST_F(WholeRunTest, OfOnePartIsItsHistory) {
  auto journal = Part(0, "7");
  journal->Add(Attempt(0, 0));
  ASSERT_TRUE(journal->Close().ok());
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->attempts, (std::vector<AttemptRecord>{Attempt(0, 0)}));
}

TEST_F(WholeRunTest, HoldsWhatAllPartsDidUnderNumbersOfItsOwn) {
  auto first = Part(0, "7");
  first->Add(std::vector<TaskRecord>{Task(0, "a"), Task(1, "b")});
  first->Add(Node(0, "n0"));
  first->Add(Node(1, "n1"));
  first->Add(Attempt(0, 1));
  first->Add(FateRecord{TaskId(0), TaskFate::kDone, {}});
  first->SetFact("ended_ns", "5000");
  ASSERT_TRUE(first->Close().ok());
  auto other = Part(3, "7");
  other->SetFact("job_id", "12");
  other->SetFact("partition", "slow");
  other->SetFact("server_messages", "250");
  other->Add(MoveRecord{.what = MoveRecord::What::kTaken, .giver = 0, .taker = 3, .number = 1, .tasks = "1", .time_ns = 1050});
  other->Add(Node(0, "m0"));
  other->Add(Attempt(1, 0));
  other->Add(FateRecord{TaskId(1), TaskFate::kFailed, {}});
  other->SetFact("ended_ns", "6000");
  ASSERT_TRUE(other->Close().ok());
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  ASSERT_EQ(history->nodes.size(), 3u);
  EXPECT_EQ(history->nodes[2].name, "m0");
  EXPECT_EQ(history->nodes[2].node, NodeId(2));
  EXPECT_EQ(history->nodes[2].output_file, (uint64_t{3} << 32) + 1);
  ASSERT_EQ(history->attempts.size(), 2u);
  EXPECT_EQ(history->attempts[0].output_file, 1u);
  EXPECT_EQ(history->attempts[1].node, NodeId(2));
  EXPECT_EQ(history->attempts[1].output_file, (uint64_t{3} << 32) + 1);
  EXPECT_EQ(history->fates.size(), 2u);
  EXPECT_EQ(history->tasks.size(), 2u);
  EXPECT_EQ(history->sessions, (std::vector<SessionRecord>{{1000, 6000}})) << "until the last of them ended";
  ASSERT_EQ(history->moves.size(), 1u);
  EXPECT_EQ(history->moves[0].tasks, "1");
  const std::vector<Allocation> had = {
      {.part = 0, .job = "", .partition = "", .first_node = NodeId(0), .nodes = 2, .began_ns = 1000, .ended_ns = 5000, .messages = 0},
      {.part = 3, .job = "12", .partition = "slow", .first_node = NodeId(2), .nodes = 1, .began_ns = 1000, .ended_ns = 6000, .messages = 250}};
  EXPECT_EQ(history->allocations, had);
}

TEST_F(WholeRunTest, TheNodesOfEachPartHaveNumbersOfTheirOwn) {
  for (const uint32_t part : {0u, 1u, 2u}) {
    auto journal = Part(part, "7");
    for (const uint32_t node : {0u, 1u}) journal->Add(Node(node, StrCat(part, node)));
    journal->Add(CopyRecord{.path = "f", .task = TaskId(0), .from = NodeId(0), .to = NodeId(1)});
    journal->Add(PartRecord{.task = TaskId(0), .attempt = 1, .node = NodeId(1), .output_file = 1});
    ASSERT_TRUE(journal->Close().ok());
  }
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  ASSERT_EQ(history->nodes.size(), 6u);
  for (uint32_t n = 0; n < 6; ++n) EXPECT_EQ(history->nodes[n].node, NodeId(n));
  ASSERT_EQ(history->copies.size(), 3u);
  ASSERT_EQ(history->parts.size(), 3u);
  ASSERT_EQ(history->allocations.size(), 3u);
  for (uint32_t part = 0; part < 3; ++part) {
    EXPECT_EQ(history->allocations[part].first_node, NodeId(2 * part));
    EXPECT_EQ(history->copies[part].from, NodeId(2 * part));
    EXPECT_EQ(history->copies[part].to, NodeId(2 * part + 1));
    EXPECT_EQ(history->parts[part].node, NodeId(2 * part + 1));
    EXPECT_EQ(history->parts[part].output_file, (uint64_t{part} << 32) + 1);
  }
}

/// What was submitted when the first part was over, its successor knows.
TEST_F(WholeRunTest, HasTheTasksThatOthersKnow) {
  auto first = Part(0, "7");
  first->Add(std::vector<TaskRecord>{Task(0, "a"), Task(2, "c")});
  ASSERT_TRUE(first->Close().ok());
  auto other = Part(1, "7");
  other->Add(std::vector<TaskRecord>{Task(1, "b"), Task(2, "c"), Task(3, "d")});
  ASSERT_TRUE(other->Close().ok());
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  std::string names;
  for (const TaskRecord& task : history->tasks) names += task.name;
  EXPECT_EQ(names, "abcd");
}

TEST_F(WholeRunTest, GoesOnAsLongAsOneOfItsPartsDoes) {
  auto first = Part(0, "7");
  first->SetFact("ended_ns", "5000");
  ASSERT_TRUE(first->Close().ok());
  ASSERT_TRUE(Part(1, "7")->Close().ok());
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->sessions, (std::vector<SessionRecord>{{1000, 0}}));
}

TEST_F(WholeRunTest, GoesOnWhenOnlyItsFirstPartDoes) {
  ASSERT_TRUE(Part(0, "7")->Close().ok());
  auto other = Part(1, "7");
  other->SetFact("ended_ns", "5000");
  ASSERT_TRUE(other->Close().ok());
  EXPECT_EQ(Read()->sessions, (std::vector<SessionRecord>{{1000, 0}}));
}

/// A resume has written down what stays done; what another part decided before it does not count any more.
TEST_F(WholeRunTest, TakesOfEarlierSessionsWhatWasDoneAndNotWhatWasDecided) {
  ASSERT_TRUE(Part(0, "8")->Close().ok());
  auto other = Part(1, "7");
  other->Add(Attempt(1, 0));
  other->Add(FateRecord{TaskId(1), TaskFate::kFailed, {}});
  ASSERT_TRUE(other->Close().ok());
  auto renumbered = Part(2, "8", "g");
  renumbered->Add(Attempt(2, 0));
  ASSERT_TRUE(renumbered->Close().ok());
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->attempts.size(), 1u) << "what has other numbers is left out";
  EXPECT_TRUE(history->fates.empty());
  EXPECT_EQ(history->allocations.size(), 1u) << "the others are not of this session";
}

/// What others did after the first part of an earlier session had ended is time of that session.
TEST_F(WholeRunTest, AnEarlierSessionLastsUntilTheLastOfItsPartsHasEnded) {
  auto first = Part(0, "8");
  first->SetFact("ended_ns", "1100");
  first->SetFact("started_ns", "5000");
  first->SetFact("ended_ns", "6000");
  ASSERT_TRUE(first->Close().ok());
  auto ended = Part(1, "7");
  ended->SetFact("ended_ns", "1150");
  ASSERT_TRUE(ended->Close().ok());
  auto killed = Part(2, "7");
  killed->Add(Attempt(1, 0));
  ASSERT_TRUE(killed->Close().ok());
  const auto history = Read();
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->sessions, (std::vector<SessionRecord>{{1000, 1200}, {5000, 6000}}));
}

TEST_F(WholeRunTest, LeavesOutAndTellsWhatDoesNotRead) {
  ASSERT_TRUE(Part(0, "7")->Close().ok());
  ASSERT_TRUE(Part(1, "7")->Close().ok());
  std::filesystem::resize_file(path_ + "/1/journal.db", 5000);
  std::filesystem::create_directory(path_ + "/2");  // has not begun
  std::vector<Status> trouble;
  EXPECT_TRUE(Read(&trouble).ok());
  ASSERT_EQ(trouble.size(), 1u);
  EXPECT_EQ(trouble[0].code(), Code::kDamaged);
  std::filesystem::resize_file(path_ + "/0/journal.db", 5000);
  EXPECT_EQ(Read().status().code(), Code::kDamaged);
}

TEST_F(WholeRunTest, AResumeGetsWhatTheOthersOfTheLastSessionDid) {
  ASSERT_TRUE(Part(0, "8")->Close().ok());
  auto other = Part(1, "8");
  other->Add(FateRecord{TaskId(1), TaskFate::kDone, {}});
  ASSERT_TRUE(other->Close().ok());
  ASSERT_TRUE(Part(2, "7")->Close().ok());
  const auto first = run_dir::OpenPart(run_);
  const auto read = [](const auto& dir) { return ReadHistory(dir); };
  const auto of_first = ReadHistory(first->dir);
  const std::vector<History> others = ReadOthersOfSession(*first, *of_first, read);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].fates.size(), 1u);
}

}  // namespace
}  // namespace harrow::journal
