// What becomes of the outputs of a task in a sandbox.
#include <gmock/gmock.h>

#include "unit/agent/sandbox_fixture.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class SandboxOutputsTest : public SandboxTest {
 protected:
  std::string Kept(const store::ObjectId& id) {
    const auto reader = files_.store().Read(id);
    if (!reader.ok()) return "(absent)";
    std::string text(static_cast<size_t>((*reader)->bytes()), '\0');
    EXPECT_EQ(pread((*reader)->fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }
  void ExpectNothingKept() {
    EXPECT_THAT(result_.made_files, IsEmpty());
    EXPECT_THAT(files_.made, IsEmpty());
    EXPECT_TRUE(NoSandboxIsLeft());
    EXPECT_EQ(files_.ended_takings, 1u);
  }
};

TEST_F(SandboxOutputsTest, OutputsBecomeFilesOfTheFlowAndResultsLieInTheSubmitDirectoryToo) {
  AddOutput(3, "a");
  AddOutput(4, "deep/b", true);
  ASSERT_TRUE(Begin().ok());
  Leave("a", "first");
  Leave("deep/b", "second");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited) << result_.message;
  ASSERT_THAT(result_.made_files, SizeIs(2));
  EXPECT_EQ(result_.made_files[0].file, FileId(3));
  EXPECT_FALSE(result_.made_files[0].shared);
  EXPECT_EQ(result_.made_files[1].file, FileId(4));
  EXPECT_TRUE(result_.made_files[1].shared);
  EXPECT_EQ(Kept(result_.made_files[0].object->id), "first");
  EXPECT_EQ(files_.made.at(3), *result_.made_files[0].object);
  EXPECT_EQ(files_.made.at(4), *result_.made_files[1].object);
  EXPECT_FALSE(Has("submit/a"));
  EXPECT_EQ(Text("submit/deep/b"), "second");
  EXPECT_EQ(ModeOf(Submit("deep/b")), 0640u) << "as the user's umask says";
  ASSERT_THAT(files_.temporaries, SizeIs(1));
  EXPECT_THAT(files_.temporaries[0], StartsWith(Submit("deep/")));
  EXPECT_THAT(files_.discarded, IsEmpty());
  EXPECT_EQ(files_.takings, 1u);
  EXPECT_EQ(files_.ended_takings, 1u) << "what is a file's stays by itself from then on";
  EXPECT_EQ(result_.undeclared, 0u);
  EXPECT_TRUE(NoSandboxIsLeft());
}

TEST_F(SandboxOutputsTest, OfWhoDidNotSucceedNothingIsTaken) {
  AddOutput(3, "a", true);
  for (const auto& [end, code] : {std::pair(End::kExited, 1), {End::kSignaled, 9}, {End::kRunning, 0}, {End::kNotStarted, 0}}) {
    ASSERT_TRUE(Begin().ok());
    Leave("a", "first");
    Settle(step_, end, code);
    EXPECT_EQ(result_.end, end);
    EXPECT_EQ(files_.takings, 0u);
    EXPECT_FALSE(Has("submit/a"));
    EXPECT_TRUE(NoSandboxIsLeft());
  }
}

TEST_F(SandboxOutputsTest, WhoLeavesOneOutHasNotSucceeded) {
  AddOutput(3, "a", true);
  AddOutput(4, "b");
  ASSERT_TRUE(Begin().ok());
  Leave("a", "first");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_EQ(result_.message, "its output b was not written, although it exited with 0");
  EXPECT_FALSE(Has("submit/a"));
  EXPECT_THAT(files_.discarded, IsEmpty()) << "it is known before anything is taken";
  ExpectNothingKept();
}

TEST_F(SandboxOutputsTest, WhoMayLeaveOneOutHasMadeTheOthers) {
  SetProfile({.missing_ok = true});
  AddOutput(3, "a", true);
  AddOutput(4, "b", true);
  ASSERT_TRUE(Begin().ok());
  Leave("b", "second");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited);
  ASSERT_THAT(result_.made_files, SizeIs(2));
  EXPECT_FALSE(result_.made_files[0].object.has_value());
  EXPECT_FALSE(result_.made_files[0].shared);
  EXPECT_FALSE(files_.made.contains(3));
  EXPECT_TRUE(result_.made_files[1].shared);
  EXPECT_EQ(Text("submit/b"), "second");
}

TEST_F(SandboxOutputsTest, AnOutputThatLiesElsewhereStaysThereAndIsLookedFor) {
  AddOutput(3, At("elsewhere/a"), true);
  AddOutput(4, "b", true);
  ASSERT_TRUE(Begin().ok());
  Leave("b", "second");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_THAT(result_.message, HasSubstr("elsewhere/a"));
  Write("elsewhere/a", "first");
  ASSERT_TRUE(Begin().ok());
  Leave("b", "second");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited) << result_.message;
  ASSERT_THAT(result_.made_files, SizeIs(1));
  EXPECT_EQ(result_.made_files[0].file, FileId(4));
  EXPECT_TRUE(result_.made_files[0].shared);
  EXPECT_EQ(Text("elsewhere/a"), "first");
}

TEST_F(SandboxOutputsTest, AnOutputThatCannotBeKeptTakesTheOthersWithIt) {
  AddOutput(3, "a");
  AddOutput(4, "link");
  ASSERT_TRUE(Begin().ok());
  Leave("a", "first");
  fs::create_symlink("a", launch_->sandbox + "/link");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_THAT(result_.message, StartsWith("its output link cannot be kept: "));
  EXPECT_EQ(result_.no_room, 0u);
  EXPECT_THAT(files_.discarded, SizeIs(1));
  ExpectNothingKept();
}

TEST_F(SandboxOutputsTest, AResultThatCannotBeCopiedTakesTheOthersWithIt) {
  AddOutput(3, "a");
  AddOutput(4, "b", true);
  Directory("submit/b/in-the-way");
  ASSERT_TRUE(Begin().ok());
  Leave("a", "first");
  Leave("b", "second");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_THAT(result_.message, StartsWith("its output b cannot be copied to the submit directory: "));
  EXPECT_THAT(files_.discarded, SizeIs(2));
  ExpectNothingKept();
}

TEST_F(SandboxOutputsTest, AResultWithoutADirectoryCannotBeCopiedEither) {
  AddOutput(3, "dir/a", true);
  Write("submit/dir", "a file");
  ASSERT_TRUE(Begin().ok());
  Leave("dir/a", "first");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_THAT(result_.message, StartsWith("its output dir/a cannot be copied to the submit directory: "));
  ExpectNothingKept();
}

// Another attempt may have written the same by now.
TEST_F(SandboxOutputsTest, WhoWasCutOffGivesNoResultItsName) {
  AddOutput(3, "a", true);
  ASSERT_TRUE(Begin().ok());
  Leave("a", "first");
  fenced_ = true;
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kLost) << "it is no fault of the task";
  EXPECT_THAT(result_.message, StartsWith("its output a was not copied to the submit directory: its node was cut off"));
  EXPECT_TRUE(fs::is_empty(At("submit")));
  EXPECT_THAT(files_.discarded, SizeIs(1));
  ExpectNothingKept();
}

TEST_F(SandboxOutputsTest, ForOutputsThatWouldFitTheStoreIsToldHowMuchRoomTheyTake) {
  files_.Open(At("small"), 200 << 10);
  files_.Put(9, Write("source/other", std::string(100 << 10, 'o')));
  AddOutput(3, "a");
  AddOutput(4, "tree");
  AddOutput(5, At("elsewhere"));
  Write("elsewhere", std::string(10000, 'x'));
  ASSERT_TRUE(Begin().ok());
  Leave("a", std::string(20000, 'a'));
  Leave("tree/x", std::string(60000, 'x'));
  Leave("tree/deep/y", std::string(40000, 'y'));
  fs::create_symlink("x", launch_->sandbox + "/tree/link");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_THAT(result_.message, StartsWith("its output tree cannot be kept: "));
  EXPECT_EQ(result_.no_room, 120'001u);
  EXPECT_THAT(files_.discarded, SizeIs(1));
}

TEST_F(SandboxOutputsTest, ForOutputsThatNeverFitNoRoomIsMade) {
  files_.Open(At("small"), 100 << 10);
  AddOutput(3, "a");
  AddOutput(4, "b");
  ASSERT_TRUE(Begin().ok());
  Leave("a", std::string(60000, 'a'));
  Leave("b", std::string(60000, 'b'));
  Settle(step_, End::kExited);
  EXPECT_THAT(result_.message, StartsWith("its output b cannot be kept: "));
  EXPECT_EQ(result_.no_room, 0u);
}

TEST_F(SandboxOutputsTest, OutputsAreNotTakenOfWhoChangedAnInput) {
  AddInput(1, "in", "first");
  AddOutput(3, "a", true);
  ASSERT_TRUE(Begin().ok());
  Leave("a", "made of it");
  ChangeInStore(1);
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
  EXPECT_THAT(files_.made, IsEmpty());
  EXPECT_FALSE(Has("submit/a"));
  EXPECT_THAT(files_.spoiled, ElementsAre(1));
}

}  // namespace
}  // namespace harrow::agent
