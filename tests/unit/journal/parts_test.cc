#include "journal/parts.h"

#include <gtest/gtest.h>

namespace harrow::journal {
namespace {

PartRecord Ended(End end, int32_t code, int64_t end_ns, std::string message = "") {
  PartRecord part;
  part.end = end;
  part.code = code;
  part.end_ns = end_ns;
  part.message = std::move(message);
  return part;
}

size_t Deciding(std::vector<PartRecord> parts) {
  return DecidingPart(parts);
}

TEST(DecidingPart, IsTheFirstThatDidNotEndWell) {
  EXPECT_EQ(Deciding({Ended(End::kExited, 0, 5), Ended(End::kExited, 3, 9), Ended(End::kSignaled, 6, 8)}),
            2u);
  EXPECT_EQ(Deciding({Ended(End::kTimedOut, 0, 7), Ended(End::kExited, 3, 9)}), 0u);
  EXPECT_EQ(Deciding({Ended(End::kExited, 3, 9), Ended(End::kExited, 4, 9)}), 0u)
      << "of two, the first heard of";
}

TEST(DecidingPart, IsTheOneWhoseProcessFailedFirst) {
  PartRecord slow = Ended(End::kExited, 3, 9);  // its other processes took their time
  slow.failed_ns = 4;
  EXPECT_EQ(Deciding({Ended(End::kExited, 2, 5), slow}), 1u);
}

TEST(DecidingPart, IsNoneThatWasAskedToEndWhereAnotherEndedByItself) {
  EXPECT_EQ(Deciding({Ended(End::kLost, 0, 5), Ended(End::kExited, 3, 9)}), 1u);
  EXPECT_EQ(Deciding({Ended(End::kExited, 3, 9), Ended(End::kLost, 0, 5, "its node is gone")}), 1u);
  EXPECT_EQ(Deciding({Ended(End::kExited, 3, 4), Ended(End::kLost, 0, 5, "its node is gone")}), 0u);
  EXPECT_EQ(Deciding({Ended(End::kExited, 0, 4), Ended(End::kLost, 0, 9), Ended(End::kLost, 0, 5)}), 1u);
}

TEST(DecidingPart, IsTheFirstWhereAllEndedWell) {
  EXPECT_EQ(Deciding({Ended(End::kExited, 0, 9), Ended(End::kExited, 0, 5)}), 0u);
}

TEST(RankIn, IsAtTheMessagesBeginning) {
  EXPECT_EQ(RankIn("rank 12 of 64 was killed by signal 9"), 12u);
  EXPECT_EQ(RankIn("rank 0 of 1"), 0u);
  for (const char* other : {"", "rank", "rank of 3", "rank 3", "rank 3 off", "ranks 3 of 4", "a rank 3 of 4",
                            "rank -1 of 4", "rank 99999999999 of 4"})
    EXPECT_EQ(RankIn(other), std::nullopt) << other;
}

}  // namespace
}  // namespace harrow::journal
