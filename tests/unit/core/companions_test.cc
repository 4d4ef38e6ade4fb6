// Tasks without a place of their own run beside those with which they will be read (Options::local_files).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using ::testing::HasSubstr;
using test::ToldScheduler;

constexpr uint32_t kPairs = 4;

/// P0 to P7; of those with the same remainder by kPairs, a task reads both outputs.
class Pairs : public ToldScheduler {
 public:
  explicit Pairs(Options options = {.policy = order::Policy::kAuto, .local_files = true})
      : ToldScheduler(With(options)) {}
  void AddAll() {
    for (uint32_t n = 0; n < 2 * kPairs; ++n) AddOne(n);
    AddReaders();
  }
  void AddOne(uint32_t n) {
    const std::string number = std::to_string(n);
    Add("P" + number, {}, {}, {"f" + number});
  }
  void AddReaders() {
    for (uint32_t n = 0; n < kPairs; ++n) {
      const std::string second = std::to_string(n + kPairs);
      Add("R" + std::to_string(n), {}, {"f" + std::to_string(n), "f" + second});
    }
  }
  std::string Made(uint32_t n, uint32_t node) {
    const std::string number = std::to_string(n);
    return TellAll({FileStored{File("f" + number), NodeId(node), 100},
                    TaskEnded{Latest("P" + number), NodeId(node), Done{}, std::chrono::seconds(1)}});
  }

 private:
  static Options With(Options options) {
    options.shared_files = false;
    return options;
  }
};

TEST(Companions, ANodeTakesWhatIsReadTogetherWithWhatItMakes) {
  Pairs s;
  s.AddAll();
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P4@0");
  EXPECT_EQ(s.Made(1, 1), "done P1, start P5@1");
  EXPECT_EQ(s.Made(4, 0), "done P4, start R0@0") << "both of its inputs are there";
  EXPECT_EQ(s.Made(5, 1), "done P5, start R1@1");
  EXPECT_THAT(s.Ended("R0", 0), HasSubstr("start P2@0")) << "nothing goes with what it has made: the first";
  EXPECT_THAT(s.Made(2, 0), HasSubstr("start P6@0"));
}

TEST(Companions, TheOrdersOfThePaperAreKeptAndSoIsSharedStorage) {
  Pairs fifo({.policy = order::Policy::kFifo, .local_files = true});
  fifo.AddAll();
  EXPECT_EQ(fifo.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(fifo.Made(0, 0), "done P0, start P2@0");
  Pairs anywhere({.policy = order::Policy::kAuto, .locality = false, .local_files = true});
  anywhere.AddAll();
  EXPECT_EQ(anywhere.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(anywhere.Made(0, 0), "done P0, start P2@0");
  Pairs shared({.policy = order::Policy::kAuto});
  shared.AddAll();
  EXPECT_EQ(shared.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(shared.Ended("P0", 0), "done P0, start P2@0");
}

TEST(Companions, SomebodyElseMayTakeThem) {
  Pairs s;
  s.AddAll();
  // Node 1 takes what is first, whoever would prefer it.
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}}),
            "start P0@0, start P1@1, start P2@2, start P3@3, start P4@4");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P5@0") << "P4 runs already";
}

TEST(Companions, APriorityGoesBeforeThem) {
  Pairs s;
  for (uint32_t n = 0; n < 2 * kPairs; ++n) {
    s.profile.priority = n == 4 ? -1 : 0;
    s.AddOne(n);
  }
  s.profile.priority = 0;
  s.AddReaders();
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P2@0");
}

TEST(Companions, ALevelGoesBeforeThem) {
  Pairs s;
  s.AddAll();
  s.Add("Then", {"R1", "R2", "R3"});  // all but P0 and P4 are at a higher level
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start P0@0");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P1@0");
  EXPECT_EQ(s.Made(1, 0), "done P1, start P5@0");
}

TEST(Companions, WhatDoesNotFitIsLeft) {
  Pairs s;
  for (uint32_t n = 0; n < 2 * kPairs; ++n) {
    s.profile.shape.cores = n == 4 ? 2 : 1;
    s.AddOne(n);
  }
  s.profile.shape.cores = 1;
  s.AddReaders();
  EXPECT_EQ(s.Begin({{1, 0, 0}, {2, 0, 0}}), "start P0@0, start P1@1, start P5@1");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P2@0") << "P4 wants two cores";
}

TEST(Companions, ATaskOfSeveralNodesGathersByItself) {
  Pairs s;
  for (uint32_t n = 0; n < 2 * kPairs; ++n) {
    s.profile.shape.nodes = n == 4 ? 2 : 1;
    s.profile.shape.whole_node = n == 4;
    s.AddOne(n);
  }
  s.profile.shape = {};
  s.AddReaders();
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P2@0");
}

TEST(Companions, WhatAllReadOrWhatReadsAllTellsNothing) {
  Pairs s;
  constexpr uint32_t kTasks = 40;
  ToldScheduler::Words all;
  for (uint32_t n = 0; n < kTasks; ++n) {
    s.AddOne(n);
    all.push_back("f" + std::to_string(n));
  }
  s.Add("All", {}, all);
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P2@0");
  EXPECT_EQ(s.Made(1, 1), "done P1, start P3@1");
}

TEST(Companions, SixteenInputsAreFewEnoughAndSeventeenAreNot) {
  for (const uint32_t inputs : {16u, 17u}) {
    Pairs s;
    ToldScheduler::Words read;
    for (uint32_t n = 0; n < 20; ++n) s.AddOne(n);
    for (uint32_t n = 0; n < inputs; ++n) read.push_back("f" + std::to_string(n == 0 ? 0 : n + 2));
    s.Add("R", {}, read);
    s.Add("Others", {}, {"f1", "f2"});
    EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start P0@0, start P1@1");
    EXPECT_EQ(s.Made(0, 0), inputs == 16 ? "done P0, start P3@0" : "done P0, start P2@0");
  }
}

TEST(Companions, TheOneThatMostReadWithWhatTheNodeHasComesFirst) {
  Pairs s;
  for (uint32_t n = 0; n < 6; ++n) s.AddOne(n);
  s.Add("W", {}, {"f1", "f2", "f4"});
  s.Add("X", {}, {"f0", "f3"});
  s.Add("Y", {}, {"f0", "f5"});
  s.Add("Z", {}, {"f0", "f5"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start P0@0");
  EXPECT_EQ(s.Made(0, 0), "done P0, start P5@0");
  EXPECT_THAT(s.Made(5, 0), HasSubstr("done P5, start Y@0"));
  EXPECT_THAT(s.Ended("Y", 0), HasSubstr("start Z@0"));
  EXPECT_THAT(s.Ended("Z", 0), HasSubstr("start P3@0"));
}

}  // namespace
}  // namespace harrow::core
