// What ranks want of other nodes, between libpmix's thread and the agent; and what they publish.
#include "agent/pmix/team_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/pmix/published.h"

namespace harrow::agent::pmix {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class TeamRequestsTest : public testing::Test {
 protected:
  TeamRequestsTest() { requests_.Add({.number = 5, .space = "s", .ranks = {2, 1, 3}, .here = 1}); }
  TeamRequests::Done Note() {
    return [this](bool ok, const std::string& data) { heard_.push_back(ok ? data : "failed"); };
  }
  static pb::TeamAnswer Answer(uint64_t team, uint64_t number, const std::string& data) {
    pb::TeamAnswer answer;
    answer.set_team(team);
    answer.set_number(number);
    answer.set_data(data);
    return answer;
  }

  int woken_ = 0;
  TeamRequests requests_{[this] { ++woken_; }};
  std::vector<std::string> heard_;
};

TEST_F(TeamRequestsTest, WhichNodeHasARank) {
  const auto team = requests_.Find("s");
  ASSERT_TRUE(team);
  std::vector<uint32_t> nodes;
  for (uint32_t rank = 0; rank < 7; ++rank) nodes.push_back(team->NodeOf(rank));
  EXPECT_THAT(nodes, ElementsAre(0, 0, 1, 2, 2, 2, 3));
  EXPECT_TRUE(team->several_nodes());
  for (const uint32_t count : {1u, 2u}) {
    const TeamRequests::Team other{.ranks = std::vector<uint32_t>(count, 1)};
    EXPECT_EQ(other.several_nodes(), count == 2) << count;
  }
  EXPECT_FALSE(requests_.Find("t"));
}

TEST_F(TeamRequestsTest, RanksThatMeetAreAnsweredOnce) {
  EXPECT_TRUE(requests_.Meet("s", {1, 2}, "data", Note()));
  EXPECT_EQ(woken_, 1);
  const TeamRequests::Work work = requests_.Take();
  ASSERT_EQ(work.to_agent.meeting_size(), 1);
  const pb::TeamMeeting& meeting = work.to_agent.meeting(0);
  EXPECT_EQ(meeting.team(), 5u);
  EXPECT_THAT(meeting.rank(), ElementsAre(1, 2));
  EXPECT_EQ(meeting.data(), "data");
  EXPECT_EQ(requests_.Take().to_agent.ByteSizeLong(), 0u);
  requests_.Answered(Answer(5, meeting.number(), "no meeting"));
  requests_.Met(Answer(6, meeting.number(), "of another team"));
  EXPECT_THAT(heard_, IsEmpty());
  requests_.Met(Answer(5, meeting.number(), "all"));
  requests_.Met(Answer(5, meeting.number(), "again"));
  EXPECT_THAT(heard_, ElementsAre("all"));
  EXPECT_TRUE(requests_.Meet("s", {}, "", Note()));
  pb::TeamAnswer failed = Answer(5, requests_.Take().to_agent.meeting(0).number(), "x");
  failed.set_why("too much");
  requests_.Met(failed);
  EXPECT_THAT(heard_, ElementsAre("all", "failed"));
}

TEST_F(TeamRequestsTest, QuestionsGoToTheirNodes) {
  pb::PmixQuestion question;
  question.set_rank(7);
  EXPECT_TRUE(requests_.Ask("s", 2, question, Note()));
  EXPECT_TRUE(requests_.Ask("s", 1, question, Note()));
  EXPECT_EQ(woken_, 2);
  TeamRequests::Work work = requests_.Take();
  ASSERT_EQ(work.to_agent.question_size(), 1);
  EXPECT_EQ(work.to_agent.question(0).team(), 5u);
  EXPECT_EQ(work.to_agent.question(0).node(), 2u);
  EXPECT_EQ(work.to_agent.question(0).text(), question.SerializeAsString());
  ASSERT_THAT(work.for_us, SizeIs(1));
  requests_.Answered(Answer(5, work.for_us[0].number(), "ours"));
  requests_.Answered(Answer(5, work.to_agent.question(0).number(), "theirs"));
  EXPECT_THAT(heard_, ElementsAre("ours", "theirs"));
}

TEST_F(TeamRequestsTest, WhoIsDroppedIsNotLeftWaiting) {
  requests_.Add({.number = 6, .space = "t", .ranks = {1, 1}});
  requests_.Meet("s", {}, "", Note());
  requests_.Ask("s", 0, {}, Note());
  requests_.Meet("t", {}, "", Note());
  requests_.Drop(5);
  EXPECT_THAT(heard_, ElementsAre("failed", "failed"));
  EXPECT_FALSE(requests_.Meet("s", {}, "", Note()));
  EXPECT_FALSE(requests_.Ask("s", 0, {}, Note()));
  requests_.Drop(5);
  EXPECT_THAT(heard_, SizeIs(2));
}

TEST_F(TeamRequestsTest, OthersSayThingsToo) {
  requests_.Say([](pb::FromPmix* said) { said->set_pong(3); });
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(requests_.Take().to_agent.pong(), 3u);
}

class PublishedTest : public testing::Test {
 protected:
  /// "KEY=VALUE@RANK ..." of what was found; "refused"; "waits".
  std::string Take(pb::PmixQuestion::What what, std::vector<std::string> keys, uint32_t rank = 0,
                   uint32_t wait = 0, bool once = false) {
    pb::PmixQuestion question;
    question.set_what(what);
    question.set_rank(rank);
    question.set_wait(wait);
    question.set_once(once);
    for (const std::string& key : keys) {
      question.add_key(key);
      if (what == pb::PmixQuestion::PUBLISH) question.add_value("of " + key);
    }
    const auto said = std::make_shared<std::string>("waits");
    published_.Take(question, [this, said](const pb::PmixAnswer& answer) {
      *said = answer.refused() ? "refused" : "";
      for (const pb::PublishedKey& key : answer.found())
        *said += key.key() + "=" + key.value() + "@" + std::to_string(key.rank()) + " ";
      all_ += *said + ";";
    });
    return *said;
  }

  Published published_;
  std::string all_;
};

TEST_F(PublishedTest, IsFoundUntilItIsTakenBack) {
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a"}), "");
  EXPECT_EQ(Take(pb::PmixQuestion::PUBLISH, {"a", "b"}, 2), "");
  EXPECT_EQ(Take(pb::PmixQuestion::PUBLISH, {"c", "b"}, 1), "refused");
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a", "c", "b"}), "a=of a@2 b=of b@2 ");
  EXPECT_EQ(Take(pb::PmixQuestion::UNPUBLISH, {"a"}, 1), "") << "somebody else's";
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a"}), "a=of a@2 ");
  EXPECT_EQ(Take(pb::PmixQuestion::UNPUBLISH, {"a"}, 2), "");
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a", "b"}), "b=of b@2 ");
  EXPECT_EQ(Take(pb::PmixQuestion::PUBLISH, {"d"}, 3), "");
  EXPECT_EQ(Take(pb::PmixQuestion::UNPUBLISH, {}, 2), "");
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"b", "d"}), "d=of d@3 ");
}

TEST_F(PublishedTest, IsWaitedForWhereThatIsWanted) {
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a", "b"}, 0, 2), "waits");
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a", "b"}, 0, 1), "waits");
  Take(pb::PmixQuestion::PUBLISH, {"b"});
  EXPECT_EQ(all_, ";b=of b@0 ;");
  Take(pb::PmixQuestion::PUBLISH, {"a"});
  EXPECT_EQ(all_, ";b=of b@0 ;;a=of a@0 b=of b@0 ;");
}

TEST_F(PublishedTest, IsGoneAfterOneLookWhereThatIsWanted) {
  Take(pb::PmixQuestion::PUBLISH, {"a"}, 0, 0, true);
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a"}), "a=of a@0 ");
  EXPECT_EQ(Take(pb::PmixQuestion::LOOK_UP, {"a"}), "");
}

}  // namespace
}  // namespace harrow::agent::pmix
