// What clients submit to a server while another one takes submissions.
#include "server/passed_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/text.h"

namespace harrow::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PassedOnTest : public testing::Test {
 protected:
  static pb::SubmitRequest Request(const std::string& id) {
    pb::SubmitRequest request;
    request.set_id(id);
    request.add_task()->set_command("true");
    return request;
  }
  void Submit(const std::string& id, bool for_taker = false) {
    passed_.Submit(Request(id), for_taker, [this, id](const Result<pb::Submitted>& how) {
      told_.push_back(StrCat(id, ":", how.ok() ? StrCat(how->task(0)) : StrCat(static_cast<int>(how.status().code()), how.status().message())));
    });
  }
  void Taken(const std::string& id, uint32_t task) {
    pb::SubmissionAnswered answer;
    answer.set_id(id);
    answer.mutable_taken()->add_task(task);
    passed_.Answered(answer);
  }
  std::vector<std::string> Sent() { return std::exchange(sent_, {}); }
  std::vector<std::string> Told() { return std::exchange(told_, {}); }

  std::vector<std::string> sent_, told_;
  PassedOn passed_{{.send =
                        [this](uint32_t part, const pb::PassedSubmission& passed) {
                          sent_.push_back(StrCat(part, ":", passed.request().id(), passed.for_you() ? "!" : ""));
                        },
                    .new_id = [] { return std::string("new"); }}};
};

TEST_F(PassedOnTest, WaitsForSomebodyWhoTakesThem) {
  Submit("a");
  Submit("b", true);
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_FALSE(passed_.idle());
  passed_.SetTaker(2);
  EXPECT_THAT(Sent(), ElementsAre("2:a", "2:b!"));
  passed_.SetTaker(2);
  passed_.AskAgain();
  EXPECT_THAT(Sent(), IsEmpty());
  Taken("b", 7);
  EXPECT_THAT(Told(), ElementsAre("b:7"));
  Taken("b", 8);
  EXPECT_THAT(Told(), IsEmpty());
  Taken("a", 9);
  EXPECT_THAT(Told(), ElementsAre("a:9"));
  EXPECT_TRUE(passed_.idle());
}

TEST_F(PassedOnTest, AsksAgainWhereTheConnectionWasLostAndWhoTakesThemNext) {
  passed_.SetTaker(0);
  Submit("a");
  Submit("b");
  Taken("a", 1);
  EXPECT_THAT(Sent(), ElementsAre("0:a", "0:b"));
  passed_.SetTaker({});
  Submit("c");
  EXPECT_THAT(Sent(), IsEmpty());
  passed_.SetTaker(0);
  EXPECT_THAT(Sent(), ElementsAre("0:b", "0:c"));
  passed_.SetTaker(1);
  EXPECT_THAT(Sent(), ElementsAre("1:b", "1:c"));
  Taken("c", 3);  // by either
  EXPECT_THAT(Told(), ElementsAre("a:1", "c:3"));
}

TEST_F(PassedOnTest, AsksLaterWhoDoesNotTakeThemYet) {
  passed_.SetTaker(1);
  Submit("a");
  Submit("b");
  Sent();
  pb::SubmissionAnswered answer;
  answer.set_id("a");
  answer.set_not_here(true);
  passed_.Answered(answer);
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_FALSE(passed_.takes());
  passed_.AskAgain();
  EXPECT_THAT(Sent(), ElementsAre("1:a"));
}

TEST_F(PassedOnTest, OneAsksForAllWhetherTheyAreTakenNow) {
  passed_.SetTaker(1);
  Submit("a");
  Submit("b");
  Sent();
  for (const char* id : {"a", "b"}) {
    pb::SubmissionAnswered answer;
    answer.set_id(id);
    answer.set_not_here(true);
    passed_.Answered(answer);
  }
  Submit("c");
  EXPECT_THAT(Sent(), IsEmpty());
  passed_.AskAgain();
  EXPECT_THAT(Sent(), ElementsAre("1:a"));
  passed_.AskAgain();
  EXPECT_THAT(Sent(), IsEmpty()) << "it has not answered yet";
  Taken("a", 4);
  EXPECT_TRUE(passed_.takes());
  EXPECT_THAT(Sent(), ElementsAre("1:b", "1:c"));
}

TEST_F(PassedOnTest, OneIdIsAskedForOnceAndAllAreTold) {
  passed_.SetTaker(0);
  Submit("a");
  Submit("a");
  EXPECT_THAT(Sent(), ElementsAre("0:a"));
  Taken("a", 4);
  EXPECT_THAT(Told(), ElementsAre("a:4", "a:4"));
  Submit("");
  EXPECT_THAT(Sent(), ElementsAre("0:new"));
}

TEST_F(PassedOnTest, TellsWhyTheyWereNotTaken) {
  passed_.SetTaker(0);
  for (const std::string id : {"wrong", "refused", "cannot", "empty"}) {
    Submit(id);
    pb::SubmissionAnswered answer;
    answer.set_id(id);
    if (id == "wrong") answer.set_wrong("w");
    if (id == "refused") answer.set_refused("r");
    if (id == "cannot") answer.set_cannot("c");
    passed_.Answered(answer);
  }
  const auto code = [](Code c) { return StrCat(static_cast<int>(c)); };
  EXPECT_THAT(Told(), ElementsAre("wrong:" + code(Code::kInvalid) + "w", "refused:" + code(Code::kRefused) + "r", "cannot:" + code(Code::kUnavailable) + "c",
                                  "empty:" + code(Code::kUnavailable) + "it is not known whether the tasks were taken"));
}

TEST_F(PassedOnTest, WhoTakesThemItselfGetsAllThatHasNoAnswer) {
  passed_.SetTaker(0);
  Submit("a");
  Submit("b");
  Submit("b");
  Taken("a", 1);
  passed_.SetTaker({});
  auto all = passed_.Release();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].first.id(), "b");
  EXPECT_TRUE(passed_.idle());
  Told();
  pb::Submitted submitted;
  submitted.add_task(5);
  all[0].second(submitted);
  EXPECT_THAT(Told(), ElementsAre("b:5", "b:5"));
}

}  // namespace
}  // namespace harrow::server
