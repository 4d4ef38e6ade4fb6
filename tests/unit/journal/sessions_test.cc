#include "journal/sessions.h"

#include <gtest/gtest.h>
#include <utility>
#include <vector>

namespace harrow::journal {
namespace {

History Of(const std::vector<SessionRecord>& sessions,
           const std::vector<std::pair<int64_t, int64_t>>& attempts) {
  History history;
  history.sessions = sessions;
  for (const auto& [start, end] : attempts) {
    AttemptRecord attempt;
    attempt.start_ns = start;
    attempt.end_ns = end;
    history.attempts.push_back(attempt);
  }
  return history;
}

NodeRecord Node(uint32_t id, uint32_t slots, int64_t joined, int64_t left) {
  NodeRecord node;
  node.node = NodeId(id);
  node.slots = slots;
  node.joined_ns = joined;
  node.left_ns = left;
  return node;
}

/// Beginnings and ends.
using Times = std::vector<std::pair<int64_t, int64_t>>;
Times TimesOf(const History& history) {
  Times times;
  for (const Session& session : SessionsOf(history)) times.emplace_back(session.start_ns, session.end_ns);
  return times;
}

TEST(Sessions, ThereIsNoneBeforeAnythingHasBegun) {
  EXPECT_EQ(TimesOf({}), Times());
  EXPECT_EQ(TimesOf(Of({}, {{0, 0}, {0, 7}})), Times());
  EXPECT_EQ(TimesOf(Of({{10, 20}}, {})), (Times{{10, 20}})) << "the only one, though no attempt began";
}

TEST(Sessions, WhereNoneIsRecordedAttemptsTellIt) {
  EXPECT_EQ(TimesOf(Of({}, {{30, 40}, {10, 20}, {0, 90}})), (Times{{10, 40}}));
}

TEST(Sessions, OneThatWasKilledEndsWithItsLastRecord) {
  EXPECT_EQ(TimesOf(Of({{10, 0}}, {{12, 18}, {0, 25}})), (Times{{10, 18}}))
      << "what never began says nothing";
  // 30 and later: what the second found out about the first.
  EXPECT_EQ(TimesOf(Of({{10, 0}, {30, 0}}, {{12, 35}, {13, 19}, {14, 30}, {30, 41}})),
            (Times{{10, 19}, {30, 41}}));
  History history = Of({{10, 0}}, {{12, 18}});
  history.nodes = {Node(0, 1, 11, 22)};
  EXPECT_EQ(TimesOf(history), (Times{{10, 22}}));
  history.nodes = {Node(0, 1, 23, 0)};
  EXPECT_EQ(TimesOf(history), (Times{{10, 23}}));
}

TEST(Sessions, NeitherOverlapNorEndBeforeTheyBegin) {
  EXPECT_EQ(TimesOf(Of({{10, 35}, {30, 25}}, {{12, 13}, {31, 32}})), (Times{{10, 30}, {30, 30}}));
}

TEST(Sessions, AClockThatIsSetBackMakesNoOther) {
  EXPECT_EQ(TimesOf(Of({{10, 20}, {10, 25}, {5, 8}, {30, 40}}, {{3, 4}, {12, 18}, {31, 32}})),
            (Times{{10, 20}, {30, 40}}));
}

TEST(Sessions, AResumeThatFoundNothingToDoIsNone) {
  EXPECT_EQ(TimesOf(Of({{10, 20}, {30, 31}, {40, 50}}, {{12, 18}, {41, 42}})), (Times{{10, 20}, {40, 50}}));
  EXPECT_EQ(TimesOf(Of({{10, 20}, {30, 31}}, {{12, 18}})), (Times{{10, 20}}));
  EXPECT_EQ(TimesOf(Of({{10, 20}, {30, 31}}, {{30, 31}})), (Times{{30, 31}}));
  EXPECT_EQ(TimesOf(Of({{10, 20}, {30, 31}}, {})), (Times{{10, 20}})) << "one is left";
}

TEST(Sessions, HaveTheSlotsOfTheNodesThatJoinedInThem) {
  History history = Of({{10, 20}, {30, 0}}, {{12, 18}, {31, 45}});
  history.nodes = {Node(0, 2, 11, 19), Node(0, 2, 30, 0), Node(1, 4, 31, 32), Node(1, 5, 33, 0)};
  const std::vector<Session> sessions = SessionsOf(history);
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_EQ(sessions[0].slots, 2u);
  EXPECT_EQ(sessions[0].length(), Duration(10));
  EXPECT_EQ(sessions[1].slots, 7u);
  EXPECT_EQ(sessions[1].slots_of, (std::map<uint32_t, uint32_t>{{0, 2}, {1, 5}}));
  EXPECT_EQ(sessions[1].end_ns, 45);
}

}  // namespace
}  // namespace harrow::journal
