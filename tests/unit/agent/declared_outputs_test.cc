// The outputs that a task declares, before its attempts and after them.
#include "agent/steps/declared_outputs.h"

#include <gmock/gmock.h>

#include "agent/steps/gang.h"
#include "os/file_system.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DeclaredOutputsTest : public StepOnDisk {
 protected:
  DeclaredOutputsTest() {
    record_.Set(At("1.made"), "flow");
    task_.id = 70;
    task_.attempt = 2;
  }
  made::Attempts Recorded() const {
    made::Attempts attempts;
    EXPECT_TRUE(made::Read(os::RealFileSystem(), At("1.made"), "flow", &attempts).ok());
    return attempts;
  }
  /// An earlier attempt made whatever there is, but what it found.
  void SetEarlier(std::vector<uint32_t> found) {
    task_.earlier = {.begin_ns = 0, .end_ns = INT64_MAX, .found = std::move(found)};
  }

  made::Record record_;
  DeclaredOutputs step_{record_};
};

TEST_F(DeclaredOutputsTest, WhatIsThereBeforeAnAttemptIsOnRecordAndDirectoriesAreMade) {
  Write("submit/b", "there");
  task_.outputs = {"a", "b", "deep/er/c"};
  EXPECT_EQ(step_.beat_every(), std::nullopt);
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_EQ(step_.beat_every(), std::optional<Duration>(made::Writer::kBeat));
  EXPECT_TRUE(Has("submit/deep/er"));
  EXPECT_FALSE(Has("submit/deep/er/c"));
  EXPECT_EQ(Recorded().at(70).attempt, 2u);
  EXPECT_THAT(Recorded().at(70).found, ElementsAre(1));
  Settle(step_, End::kExited, 1);
  EXPECT_EQ(result_.end, End::kExited);
  ASSERT_TRUE(result_.made.has_value());
  EXPECT_EQ(*result_.made, Recorded().at(70));
  EXPECT_EQ(result_.made->task, 70u);
  EXPECT_EQ(result_.made->attempt, 2u);
  EXPECT_THAT(result_.made->found, ElementsAre(1));
  EXPECT_GT(result_.made->begin_ns, 0);
  EXPECT_GE(result_.made->end_ns, result_.made->begin_ns);
  EXPECT_EQ(step_.beat_every(), std::nullopt) << "it is over";
}

TEST_F(DeclaredOutputsTest, OfASuccessAndOfOneThatGoesOnTheEndIsOnRecordAndNotTold) {
  task_.outputs = {"a"};
  for (const End end : {End::kExited, End::kCheckpointed}) {
    ASSERT_TRUE(Prepare(step_).ok());
    Write("submit/a", "made");
    const int64_t until = Recorded().at(70).end_ns;
    Settle(step_, end);
    EXPECT_EQ(result_.end, end);
    EXPECT_FALSE(result_.made.has_value());
    EXPECT_LT(Recorded().at(70).end_ns, until) << "else it is what others do later, too";
  }
}

TEST_F(DeclaredOutputsTest, WhatAnEarlierAttemptMadeIsRemovedAndWhatItFoundStays) {
  for (const char* name : {"made", "found", "also-made"}) Write(std::string("submit/") + name, "x");
  task_.outputs = {"made", "found", "also-made", "missing"};
  SetEarlier({1});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_FALSE(Has("submit/made"));
  EXPECT_TRUE(Has("submit/found"));
  EXPECT_FALSE(Has("submit/also-made"));
  EXPECT_THAT(Recorded().at(70).found, ElementsAre(1));
}

TEST_F(DeclaredOutputsTest, WhoGoesOnFromACheckpointFindsWhatItMade) {
  Write("submit/a", "x");
  task_.outputs = {"a"};
  SetEarlier({});
  checkpoint_.restart = At("checkpoint");
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_TRUE(Has("submit/a"));
}

TEST_F(DeclaredOutputsTest, WhatCannotBeRemovedKeepsTheTaskFromBeingStarted) {
  Write("submit/closed/a", "x");
  chmod(Submit("closed").c_str(), 0500);
  task_.outputs = {"closed/a"};
  SetEarlier({});
  const OrdinaryRights rights;
  const Status status = Prepare(step_);
  chmod(Submit("closed").c_str(), 0700);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), testing::StartsWith("an output of the earlier attempt stays: "));
}

// Then nothing of it is ever removed.
TEST_F(DeclaredOutputsTest, WhereThereIsNoPlaceForARecordTasksRunWithout) {
  made::Record none;
  DeclaredOutputs step(none);
  task_.outputs = {"a/b"};
  EXPECT_TRUE(Prepare(step).ok());
  EXPECT_TRUE(Has("submit/a"));
  EXPECT_EQ(step.beat_every(), std::nullopt);
  Settle(step, End::kExited, 1);
  EXPECT_FALSE(result_.made.has_value());
}

TEST_F(DeclaredOutputsTest, WhoDeclaresNoneIsNotOnRecord) {
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_FALSE(Has("1.made"));
  Settle(step_, End::kExited, 1);
  EXPECT_FALSE(result_.made.has_value());
}

TEST_F(DeclaredOutputsTest, ASuccessThatLeavesOutputsOutIsNone) {
  Write("submit/b", "x");
  struct Row {
    std::vector<std::string> outputs;
    std::string message;
  };
  for (const Row& row : {Row{{"b", "a"}, "exited with 0, and did not write its output a"},
                         {{"a", "b", "deep/c"}, "exited with 0, and did not write its output a and 1 more"},
                         {{"deep/c", "d", "a"}, "exited with 0, and did not write its output deep/c and 2 more"}}) {
    task_.outputs = row.outputs;
    ASSERT_TRUE(Prepare(step_).ok());
    Settle(step_, End::kExited);
    EXPECT_EQ(result_.end, End::kMissingOutput);
    EXPECT_EQ(result_.message, row.message);
    EXPECT_TRUE(result_.made.has_value()) << "it is removed before the next attempt";
  }
  for (const auto& [end, code] : {std::pair(End::kExited, 3), {End::kTimedOut, 0}, {End::kCheckpointed, 0}}) {
    ASSERT_TRUE(Prepare(step_).ok());
    Settle(step_, end, code);
    EXPECT_EQ(result_.end, end);
    EXPECT_EQ(result_.message, "");
  }
  SetProfile({.missing_ok = true});
  ASSERT_TRUE(Prepare(step_).ok());
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited);
  EXPECT_FALSE(result_.made.has_value());
}

TEST_F(DeclaredOutputsTest, WhatHasNoDirectoryIsMissing) {
  task_.outputs = {"dir/a"};
  ASSERT_TRUE(Prepare(step_).ok());
  CountDescriptors();
  std::filesystem::remove(Submit("dir"));
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  ExpectNoDescriptorMore();
}

TEST_F(DeclaredOutputsTest, SizesAreToldWhereTheyAreWantedOfWhatRan) {
  Write("submit/b", "12345");
  task_.outputs = {"a", "b"};
  for (const End end : {End::kExited, End::kSignaled, End::kRunning, End::kNotStarted}) {
    for (const bool wanted : {false, true}) {
      task_.sizes_wanted = wanted;
      ASSERT_TRUE(Prepare(step_).ok());
      Settle(step_, end, 1);
      if (wanted && (end == End::kExited || end == End::kSignaled)) {
        EXPECT_THAT(result_.output_sizes, ElementsAre(-1, 5));
      } else {
        EXPECT_THAT(result_.output_sizes, IsEmpty());
      }
    }
  }
}

TEST_F(DeclaredOutputsTest, ThoseOfASandboxAndOfAnotherNodeAreLeftAlone) {
  Write("submit/a", "x");
  task_.outputs = {"a", "dir/b"};
  task_.sizes_wanted = true;
  SetEarlier({});
  const auto expect_left_alone = [this] {
    EXPECT_TRUE(Prepare(step_).ok());
    EXPECT_EQ(step_.beat_every(), std::nullopt);
    EXPECT_TRUE(Has("submit/a"));
    EXPECT_FALSE(Has("submit/dir"));
    Settle(step_, End::kExited);
    EXPECT_THAT(result_.output_sizes, IsEmpty());
    EXPECT_EQ(result_.end, End::kExited);
  };
  task_.sandbox = true;
  expect_left_alone();
  task_.sandbox = false;
  task_.gang = std::make_shared<Gang>(Gang{.nodes = {{.name = "n0"}, {.name = "n1"}}, .here = 1});
  expect_left_alone();
  task_.gang = std::make_shared<Gang>(Gang{.nodes = {{.name = "n0"}, {.name = "n1"}}, .here = 0});
  ASSERT_TRUE(Prepare(step_).ok());
  EXPECT_FALSE(Has("submit/a")) << "the lead node's are its own";
  EXPECT_TRUE(Has("submit/dir"));
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
}

}  // namespace
}  // namespace harrow::agent
