#include "keeper/server_watch.h"

#include <gtest/gtest.h>

namespace harrow::keeper {
namespace {

/// Ticks until the watch says so; 0: not within 1000.
int TicksUntilEnded(ServerWatch* watch) {
  for (int ticks = 1; ticks <= 1000; ++ticks) {
    if (watch->Tick()) return ticks;
  }
  return 0;
}

TEST(ServerWatch, AServerThatRestoresIsNotSilent) {
  ServerWatch watch;
  watch.Started();
  EXPECT_EQ(TicksUntilEnded(&watch), 0);
  watch.ToldToEnd();
  EXPECT_EQ(TicksUntilEnded(&watch), 0);
}

TEST(ServerWatch, SilenceEndsAServerAndEveryWordBeginsItAnew) {
  ServerWatch watch;
  watch.Heard(false);
  for (int i = 0; i < 3; ++i) {
    for (int tick = 1; tick < ServerWatch::kMostSilent; ++tick) ASSERT_FALSE(watch.Tick());
    watch.Heard(false);
  }
  EXPECT_EQ(TicksUntilEnded(&watch), 60);
  EXPECT_EQ(TicksUntilEnded(&watch), 60);  // it could not be ended: once more
}

TEST(ServerWatch, TheNextServerMayRestoreAgain) {
  ServerWatch watch;
  watch.Heard(true);
  watch.ToldToEnd();
  watch.Started();
  EXPECT_EQ(TicksUntilEnded(&watch), 0);
  watch.Heard(false);
  EXPECT_EQ(TicksUntilEnded(&watch), 60);
}

TEST(ServerWatch, OneThatWasToldToEndIsGivenLess) {
  ServerWatch watch;
  watch.Heard(false);
  for (int tick = 0; tick < 50; ++tick) ASSERT_FALSE(watch.Tick());
  watch.ToldToEnd();
  EXPECT_EQ(TicksUntilEnded(&watch), 4);
}

TEST(ServerWatch, OneThatClosesItsJournalIsGivenTheTimeItNeeds) {
  ServerWatch watch;
  watch.Heard(false);
  watch.ToldToEnd();
  watch.Heard(true);
  EXPECT_EQ(TicksUntilEnded(&watch), 60);
}

}  // namespace
}  // namespace harrow::keeper
