#include "server/recorder.h"

#include <gtest/gtest.h>

#include "unit/server/fake_journal.h"

namespace harrow::server {
namespace {

journal::AttemptRecord Attempt(uint32_t task, uint32_t attempt) {
  journal::AttemptRecord record;
  record.task = TaskId(task);
  record.attempt = attempt;
  return record;
}

TEST(Recorder, NumbersAttemptsFromTheRecordedOnes) {
  test::FakeJournal journal;
  Recorder recorder(&journal, 2);
  EXPECT_EQ(recorder.last_attempt(TaskId(0)), 0u);
  recorder.Attempt(Attempt(0, 1));
  EXPECT_EQ(recorder.last_attempt(TaskId(0)), 1u);
  EXPECT_EQ(recorder.last_attempt(TaskId(1)), 0u);
  EXPECT_FALSE(recorder.IsNew(TaskId(0), 1));
  EXPECT_FALSE(recorder.IsNew(TaskId(0), 0));
}

TEST(Recorder, TakesAnEarlierAttemptThatComesLate) {
  test::FakeJournal journal;
  Recorder recorder(&journal, 1);
  recorder.Attempt(Attempt(0, 3));
  EXPECT_TRUE(recorder.IsNew(TaskId(0), 1));
  recorder.Attempt(Attempt(0, 1));
  EXPECT_FALSE(recorder.IsNew(TaskId(0), 1));
  EXPECT_TRUE(recorder.IsNew(TaskId(0), 2));
  EXPECT_EQ(recorder.last_attempt(TaskId(0)), 3u);
}

TEST(Recorder, RecordsAFateOnce) {
  test::FakeJournal journal;
  Recorder recorder(&journal, 1);
  recorder.Fate(TaskId(0), journal::TaskFate::kDone, {});
  recorder.Fate(TaskId(0), journal::TaskFate::kFailed, {});
  ASSERT_EQ(journal.history.fates.size(), 1u);
  EXPECT_EQ(journal.history.fates[0].fate, journal::TaskFate::kDone);
}

TEST(Recorder, RestoresAndRefusesWhatDoesNotFit) {
  test::FakeJournal journal;
  journal::History history;
  history.attempts = {Attempt(0, 1), Attempt(0, 2)};
  history.fates = {{TaskId(1), journal::TaskFate::kDone, {}}};
  Recorder recorder(&journal, 2);
  ASSERT_TRUE(recorder.Restore(history));
  EXPECT_EQ(recorder.last_attempt(TaskId(0)), 2u);
  EXPECT_EQ(recorder.fate(TaskId(1)), journal::TaskFate::kDone);
  history.fates = {{TaskId(2), journal::TaskFate::kDone, {}}};
  EXPECT_FALSE(Recorder(&journal, 2).Restore(history));
  history.fates = {};
  history.attempts = {Attempt(2, 1)};
  EXPECT_FALSE(Recorder(&journal, 2).Restore(history));
}

TEST(Recorder, AcknowledgesInOrderWhatIsCommitted) {
  test::FakeJournal journal;
  Recorder recorder(&journal, 2);
  std::vector<uint64_t> acknowledged;
  const auto acknowledge = [&](NodeId, uint64_t, uint64_t sequence) { acknowledged.push_back(sequence); };
  recorder.Attempt(Attempt(0, 1));
  recorder.AcknowledgeLater(NodeId(0), 1, 10);
  recorder.Attempt(Attempt(1, 1));
  recorder.AcknowledgeLater(NodeId(0), 1, 11);
  EXPECT_FALSE(recorder.all_committed());
  recorder.Committed(1, acknowledge);
  EXPECT_EQ(acknowledged, (std::vector<uint64_t>{10}));
  recorder.Committed(2, acknowledge);
  EXPECT_EQ(acknowledged, (std::vector<uint64_t>{10, 11}));
  EXPECT_TRUE(recorder.all_committed());
}

}  // namespace
}  // namespace harrow::server
