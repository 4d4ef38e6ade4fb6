// How far a run is, for the job that may go on with it.
#include "run/standing.h"

#include <gtest/gtest.h>

namespace harrow::run {
namespace {

using journal::TaskFate;

journal::History Of(std::vector<TaskFate> fates) {
  journal::History history;
  for (uint32_t i = 0; i < fates.size(); ++i) {
    journal::TaskRecord task;
    task.task = TaskId(i);
    history.tasks.push_back(task);
    history.fates.push_back({TaskId(i), fates[i], {}});
  }
  return history;
}

journal::AttemptRecord Attempt(uint32_t task, int64_t end_ns) {
  journal::AttemptRecord attempt;
  attempt.task = TaskId(task);
  attempt.end_ns = end_ns;
  return attempt;
}

TEST(Standing, CountsTasks) {
  journal::History history =
      Of({TaskFate::kDone, TaskFate::kOpen, TaskFate::kFailed, TaskFate::kSkipped, TaskFate::kOpen});
  history.fates.pop_back();                                   // open, too
  history.fates.push_back({TaskId(5), TaskFate::kDone, {}});  // of no task
  const Standing standing = StandingOf(history);
  EXPECT_EQ(standing.ended, 3u);
  EXPECT_EQ(standing.open, 2u);
  EXPECT_FALSE(standing.last_session_did);
  EXPECT_EQ(StandingOf({}).open, 0u);
}

TEST(Standing, TheLastSessionDidSomethingWhereATaskEndedSinceItBegan) {
  const auto did = [](TaskFate fate, std::vector<journal::SessionRecord> sessions, uint32_t task,
                      int64_t end_ns) {
    journal::History history = Of({TaskFate::kDone, fate});
    history.sessions = std::move(sessions);
    history.attempts = {Attempt(task, end_ns), Attempt(0, 50)};
    return StandingOf(history).last_session_did;
  };
  const std::vector<journal::SessionRecord> two = {{10, 90}, {100, 0}};
  EXPECT_TRUE(did(TaskFate::kDone, two, 1, 100));
  EXPECT_TRUE(did(TaskFate::kFailed, two, 1, 150));
  EXPECT_FALSE(did(TaskFate::kDone, two, 1, 99)) << "in the session before";
  EXPECT_FALSE(did(TaskFate::kOpen, two, 1, 150)) << "it will be tried again";
  EXPECT_FALSE(did(TaskFate::kDone, two, 2, 150)) << "of no task";
  EXPECT_FALSE(did(TaskFate::kDone, {}, 1, 150));
}

TEST(Standing, ASessionInWhichNothingBeganIsFollowedByOneMore) {
  journal::History history = Of({TaskFate::kOpen});
  const auto after = [&](std::vector<journal::SessionRecord> sessions, std::vector<int64_t> starts) {
    history.sessions = std::move(sessions);
    history.attempts.clear();
    for (const int64_t start : starts) {
      history.attempts.push_back(Attempt(0, start + 5));
      history.attempts.back().start_ns = start;
    }
    return StandingOf(history);
  };
  EXPECT_EQ(after({{10, 90}}, {}).barren, 1u);
  EXPECT_FALSE(after({{10, 90}}, {}).hopeless());
  EXPECT_EQ(after({{10, 90}, {100, 0}}, {}).barren, 2u);
  EXPECT_TRUE(after({{10, 90}, {100, 0}}, {}).hopeless());
  EXPECT_EQ(after({{10, 90}, {100, 0}}, {20}).barren, 1u);
  EXPECT_FALSE(after({{10, 90}, {100, 0}}, {20}).hopeless());
  EXPECT_EQ(after({{10, 90}, {100, 0}}, {20, 110}).barren, 0u);
  EXPECT_TRUE(after({{10, 90}, {100, 0}}, {20, 110}).hopeless()) << "what began was interrupted";
}

}  // namespace
}  // namespace harrow::run
