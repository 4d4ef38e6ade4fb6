#include "base/figures.h"

#include <gtest/gtest.h>

namespace harrow {
namespace {

TEST(Figures, UtilisationAndLocalShare) {
  Figures figures;
  EXPECT_EQ(figures.CoreUtilisation(), 0);
  EXPECT_EQ(figures.LocalShare(), std::nullopt);
  figures.slot_seconds = 40;
  figures.core_seconds = 30;
  figures.local_bytes = 3;
  figures.remote_bytes = 1;
  EXPECT_DOUBLE_EQ(figures.CoreUtilisation(), 0.75);
  EXPECT_EQ(figures.LocalShare(), 0.75);
  figures.core_seconds = 41;  // clocks of nodes differ
  EXPECT_EQ(figures.CoreUtilisation(), 1);
}

TEST(Figures, OpenIsWhatIsNotSettled) {
  Figures figures;
  figures.total = 10;
  figures.done = 4;
  figures.failed = 3;
  figures.skipped = 2;
  EXPECT_EQ(figures.open(), 1u);
  figures.cancelled = 2;  // told while the total is not
  EXPECT_EQ(figures.open(), 0u);
}

TEST(Figures, CoreSecondsOfAMillionCoreDays) {
  constexpr int64_t kDay = 86'400'000'000'000;
  EXPECT_DOUBLE_EQ(CoreSeconds(1, 1 + kDay, 1'000'000), 86'400e6);
  EXPECT_EQ(CoreSeconds(0, kDay, 4), 0) << "never started";
  EXPECT_EQ(CoreSeconds(5, 4, 1), 0);
}

}  // namespace
}  // namespace harrow
