// Which tasks go in which request, what they say of each other, and what answers make of them.
#include "client/submit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

#include "base/text.h"

namespace harrow::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SubmitQueueTest : public testing::Test {
 protected:
  void Make(SubmitQueue::Limits limits, bool alone = true) {
    queue_.emplace(limits, alone,
                   SubmitQueue::Hooks{.new_id = [this] { return StrCat("r", ++ids_); },
                                      .taken = [this](uint64_t handle, uint32_t id) { told_[handle] += StrCat("#", id); },
                                      .refused =
                                          [this](uint64_t handle, const Status& why) {
                                            told_[handle] += StrCat(static_cast<int>(why.code()), ":", why.message());
                                          }});
  }
  uint64_t Add(const std::string& name, std::vector<uint64_t> after = {}, std::vector<std::string> names = {}) {
    NewTask task;
    task.task->set_name(name);
    task.task->set_command("true");
    for (const std::string& each : names) task.task->add_after(each);
    task.after = std::move(after);
    task.profile = profile_;
    return queue_->Add(std::move(task));
  }
  uint64_t AddFiles(const std::string& name, const std::string& in, const std::string& out) {
    NewTask task;
    task.task->set_name(name);
    task.task->set_command("true");
    if (!in.empty()) task.task->add_in(in);
    if (!out.empty()) task.task->add_out(out);
    task.profile = profile_;
    return queue_->Add(std::move(task));
  }
  /// "r1: a b(0)[#7]": names, places and tasks of the run that they wait for.
  std::string Next() {
    const pb::SubmitRequest* request = queue_->Next();
    if (request == nullptr) return "";
    std::string text = request->id() + ":";
    for (const pb::SubmittedTask& task : request->task()) {
      text += " " + task.name();
      for (const uint32_t place : task.after_new()) text += StrCat("(", place, ")");
      for (const std::string& name : task.after()) text += StrCat("[", name, "]");
    }
    return text;
  }
  void Take(const std::string& request, std::vector<uint32_t> ids) {
    pb::Submitted answer;
    answer.set_request(request);
    for (const uint32_t id : ids) answer.add_task(id);
    queue_->Taken(answer);
  }
  void Refuse(const std::string& request, int code, const std::string& text = "no") {
    pb::Answer answer;
    answer.set_request(request);
    answer.set_code(code);
    answer.set_text(text);
    queue_->Refused(answer);
  }

  std::shared_ptr<const pb::Profile> profile_ = std::make_shared<pb::Profile>();
  std::optional<SubmitQueue> queue_;
  std::map<uint64_t, std::string> told_;
  int ids_ = 0;
};

TEST_F(SubmitQueueTest, TheFirstGoesAtOnceAndThoseThatComeMeanwhileGoTogether) {
  Make({.tasks = 3, .in_flight = 2, .worth_sending = 3});
  Add("a");
  EXPECT_EQ(Next(), "r1: a");
  EXPECT_TRUE(queue_->any_in_flight());
  Add("b");
  Add("c");
  EXPECT_EQ(Next(), "") << "few wait for the answer to those before";
  Add("d");
  Add("e");
  EXPECT_EQ(Next(), "r2: b c d");
  EXPECT_EQ(Next(), "") << "so many requests are enough";
  Take("r1", {10});
  EXPECT_EQ(Next(), "");
  Take("r2", {11, 12, 13});
  EXPECT_EQ(Next(), "r3: e");
  Take("r3", {14});
  EXPECT_THAT(told_, ElementsAre(std::pair(0, "#10"), std::pair(1, "#11"), std::pair(2, "#12"), std::pair(3, "#13"), std::pair(4, "#14")));
  EXPECT_EQ(queue_->open(), 0u);
}

TEST_F(SubmitQueueTest, TasksWaitForOthersOfTheirRequestByPlaceAndForTakenOnesByNumber) {
  Make({.tasks = 2, .in_flight = 2, .worth_sending = 1});
  const uint64_t a = Add("a"), b = Add("b", {a});
  const uint64_t c = Add("c", {a, b}), d = Add("d", {c});
  EXPECT_EQ(Next(), "r1: a b(0)");
  EXPECT_EQ(Next(), "") << "c waits for tasks whose numbers are not known";
  Take("r1", {6, 7});
  EXPECT_EQ(Next(), "r2: c[#7][#8] d(0)");
  Take("r2", {8, 9});
  EXPECT_EQ(told_[d], "#9");
}

TEST_F(SubmitQueueTest, NamesOfOwnTasksAreKnownBeforeTheServerKnowsThem) {
  Make({.tasks = 2, .in_flight = 2, .worth_sending = 1});
  Add("a");
  Add("b", {}, {"a", "other"});
  Add("c", {}, {"a"});
  EXPECT_EQ(Next(), "r1: a b(0)[other]");
  EXPECT_EQ(Next(), "");
  Take("r1", {1, 2});
  EXPECT_EQ(Next(), "r2: c[#2]");
  Add("d", {}, {"a"});
  Take("r2", {3});
  EXPECT_EQ(Next(), "r3: d[a]") << "the server knows it by now";
}

TEST_F(SubmitQueueTest, OfTasksOfOneNameTheFirstIsAnsweredFirst) {
  Make({.tasks = 3, .in_flight = 3, .worth_sending = 1});
  Add("a");
  Add("bad");
  const uint64_t again = Add("a"), more = Add("a");
  Add("b", {}, {"a"});
  EXPECT_EQ(Next(), "r1: a bad");
  EXPECT_EQ(Next(), "");
  Refuse("r1", 2);
  EXPECT_EQ(Next(), "r2: a");
  EXPECT_EQ(Next(), "r3: bad");
  Take("r2", {4});
  Refuse("r3", 2);
  EXPECT_EQ(Next(), "r4: a");
  Take("r4", {4});
  EXPECT_EQ(Next(), "r5: a");
  EXPECT_EQ(Next(), "") << "which of them is in the run is not known";
  Take("r5", {4});
  EXPECT_EQ(Next(), "r6: b[a]");
  EXPECT_EQ(told_[again], "#4");
  EXPECT_EQ(told_[more], "#4");
}

TEST_F(SubmitQueueTest, WhoReadsFilesWaitsForOutputsThatAreOnTheirWay) {
  Make({.tasks = 2, .in_flight = 3, .worth_sending = 1});
  AddFiles("make", "", "x");
  Add("a");
  Add("b");
  AddFiles("read", "x", "");
  EXPECT_EQ(Next(), "r1: make a");
  EXPECT_EQ(Next(), "r2: b");
  EXPECT_EQ(Next(), "");
  Take("r1", {1, 2});
  EXPECT_EQ(Next(), "r3: read");
}

TEST_F(SubmitQueueTest, OneThatIsWrongIsFoundAndTheOthersAreTaken) {
  Make({.tasks = 4, .in_flight = 1, .worth_sending = 1});
  const uint64_t a = Add("a", {}, {"before"}), bad = Add("bad");
  const uint64_t c = Add("c", {a}), d = Add("d", {bad});
  EXPECT_EQ(Next(), "r1: a[before] bad c(0) d(1)");
  Refuse("r1", 2);
  EXPECT_EQ(Next(), "r2: a[before] bad");
  Refuse("r2", 2);
  EXPECT_EQ(Next(), "r3: a[before]");
  Take("r3", {5});
  EXPECT_EQ(Next(), "r4: bad");
  Refuse("r4", 2, "it is bad");
  EXPECT_EQ(Next(), "r5: c[#6]");
  Take("r5", {6});
  EXPECT_EQ(told_[bad], "1:it is bad");
  EXPECT_EQ(told_[c], "#6");
  EXPECT_EQ(told_[d], "1:it waits for a task that was not taken");
  EXPECT_EQ(queue_->open(), 0u);
}

TEST_F(SubmitQueueTest, ARequestIsRefusedAsAWholeWhereThatIsWanted) {
  Make({.tasks = 4, .in_flight = 1, .worth_sending = 1}, false);
  Add("a");
  Add("b");
  Next();
  Refuse("r1", 2, "wrong");
  EXPECT_THAT(told_, ElementsAre(std::pair(0, "1:wrong"), std::pair(1, "1:wrong")));
}

TEST_F(SubmitQueueTest, ARunThatTakesNoMoreIsNotAskedForEachTask) {
  Make({.tasks = 4, .in_flight = 1, .worth_sending = 1});
  Add("a");
  Add("b");
  Next();
  Refuse("r1", 4, "it ends");
  EXPECT_EQ(told_[0], StrCat(static_cast<int>(Code::kNotFound), ":it ends"));
  EXPECT_EQ(Next(), "");
  Add("c");
  Next();
  Refuse("r2", 3, "the disk is full");
  EXPECT_EQ(told_[2], StrCat(static_cast<int>(Code::kExhausted), ":the disk is full"));
}

TEST_F(SubmitQueueTest, AnswersThatNobodyWaitsForAreNoAnswers) {
  Make({.tasks = 4, .in_flight = 1, .worth_sending = 1});
  Add("a");
  Next();
  Take("r7", {1});
  Refuse("r7", 2);
  EXPECT_THAT(told_, IsEmpty());
  Take("r1", {1, 2});
  EXPECT_THAT(told_[0], testing::HasSubstr("answers for other tasks"));
}

TEST_F(SubmitQueueTest, TheEndTellsWhatMayHaveBeenTaken) {
  Make({.tasks = 1, .in_flight = 1, .worth_sending = 1});
  Add("a");
  Add("b");
  Next();
  queue_->Close(Status(Code::kNotFound, "over"), Status(Code::kUnavailable, "unknown"));
  EXPECT_THAT(told_[0], testing::EndsWith("unknown"));
  EXPECT_THAT(told_[1], testing::EndsWith("over"));
  EXPECT_EQ(queue_->open(), 0u);
}

TEST_F(SubmitQueueTest, EqualProfilesAreSentOnceAndRequestsAreNoLargerThanWanted) {
  Make({.tasks = 100, .bytes = 3000, .in_flight = 9, .worth_sending = 1});
  pb::Profile profile;
  profile.set_cwd(std::string(100, 'd'));
  for (int i = 0; i < 4; ++i) {
    profile_ = std::make_shared<const pb::Profile>(profile);
    NewTask task;
    task.task->set_command(std::string(1000, 'x'));
    task.profile = profile_;
    queue_->Add(std::move(task));
  }
  const pb::SubmitRequest* request = queue_->Next();
  EXPECT_EQ(request->profile_size(), 1);
  EXPECT_EQ(request->task_size(), 2);
  NewTask huge;
  huge.task->set_command(std::string(33u << 20, 'x'));
  huge.profile = profile_;
  const uint64_t handle = queue_->Add(std::move(huge));
  EXPECT_EQ(queue_->Next()->task_size(), 2);
  EXPECT_EQ(queue_->Next(), nullptr);
  EXPECT_THAT(told_[handle], testing::HasSubstr("larger than 32 MiB"));
}

// Whatever servers do: each task is told of once; those that are taken are so once, and after what they wait for.
TEST_F(SubmitQueueTest, RandomSequences) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    told_.clear();
    Make({.tasks = 1 + below(6), .in_flight = 1 + below(3), .worth_sending = 1 + below(4)});
    std::set<std::string> run, wrong;
    std::map<std::string, std::vector<std::string>> needs;
    uint32_t next_id = 0;
    uint64_t count = 0;
    std::vector<const pb::SubmitRequest*> sent;
    for (int step = 0; step < 200 || !sent.empty() || queue_->open() > 0; ++step) {
      if (step < 200 && below(2) == 0) {
        const std::string name = StrCat("t", count);
        if (below(8) == 0) wrong.insert(name);
        std::vector<uint64_t> after;
        std::vector<std::string> names;
        for (uint32_t n = below(3); n > 0 && count > 0; --n) {
          const uint64_t before = below(static_cast<uint32_t>(count));
          if (below(2) == 0) {
            after.push_back(before);
          } else {
            names.push_back(StrCat("t", before));
          }
          needs[name].push_back(StrCat("t", before));
        }
        ASSERT_EQ(Add(name, after, names), count++);
      }
      if (const pb::SubmitRequest* request = queue_->Next()) sent.push_back(request);
      if (!sent.empty() && below(2) == 0) {
        const size_t at = below(static_cast<uint32_t>(sent.size()));
        const pb::SubmitRequest request = *sent[at];
        sent.erase(sent.begin() + static_cast<ptrdiff_t>(at));
        bool ok = true;
        for (const pb::SubmittedTask& task : request.task()) {
          ok &= !wrong.contains(task.name());
          for (const std::string& name : task.after()) ok &= name.starts_with("#") || run.contains(name);
        }
        if (!ok) {
          Refuse(request.id(), 2);
          continue;
        }
        std::vector<uint32_t> ids;
        for (const pb::SubmittedTask& task : request.task()) {
          ASSERT_TRUE(run.insert(task.name()).second);
          ids.push_back(next_id++);
        }
        Take(request.id(), ids);
      }
      ASSERT_LT(step, 20'000) << "it gets stuck";
    }
    ASSERT_EQ(told_.size(), count);
    for (const auto& [handle, text] : told_) {
      const std::string name = StrCat("t", handle);
      ASSERT_EQ(text.starts_with("#"), run.contains(name)) << name << " " << text;
      bool can = !wrong.contains(name);
      for (const std::string& before : needs[name]) can &= run.contains(before);
      ASSERT_EQ(run.contains(name), can) << name << " " << text;
    }
  }
}

}  // namespace
}  // namespace harrow::client
