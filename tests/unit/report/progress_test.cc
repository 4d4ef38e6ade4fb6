#include "report/progress.h"

#include <gtest/gtest.h>
#include <vector>

namespace harrow::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Figures View(uint64_t done, uint64_t total, Duration elapsed = seconds(1)) {
  Figures view;
  view.done = done;
  view.total = total;
  view.makespan = elapsed;
  return view;
}

TEST(ProgressLine, AllPieces) {
  Figures view = View(1234, 5000);
  view.running = 8;
  view.failed = 2;
  EXPECT_EQ(ProgressLine(view, 312, 80), "done 1234/5000  running 8  failed 2  312/s  ~13 s to go");
  view.skipped = 3;
  view.cancelled = 4;
  view.losses = 1;
  EXPECT_EQ(ProgressLine(view, 312, 120),
            "done 1234/5000  running 8  failed 2  skipped 3  cancelled 4  lost 1  312/s  ~13 s to go");
}

TEST(ProgressLine, LeavesOutWhatDoesNotFit) {
  Figures view = View(1234, 5000);
  view.running = 8;
  view.failed = 2;
  view.losses = 1;
  EXPECT_EQ(ProgressLine(view, 312, 60), "done 1234/5000  running 8  failed 2  312/s  ~13 s to go");
  EXPECT_EQ(ProgressLine(view, 312, 54), "done 1234/5000  running 8  failed 2  ~13 s to go");
  EXPECT_EQ(ProgressLine(view, 312, 40), "done 1234/5000  running 8  failed 2");
  EXPECT_EQ(ProgressLine(view, 312, 30), "done 1234/5000  failed 2");
  EXPECT_EQ(ProgressLine(view, 312, 15), "done 1234/5000");
  EXPECT_EQ(ProgressLine(view, 312, 8), "done 123");
}

TEST(ProgressLine, RatesHaveOneUnit) {
  EXPECT_EQ(ProgressLine(View(0, 10), 0, 80), "done 0/10  running 0");
  EXPECT_EQ(ProgressLine(View(3, 10), 25.4, 80), "done 3/10  running 0  25/s");
  EXPECT_EQ(ProgressLine(View(3, 10), 2.54, 80), "done 3/10  running 0  2.5/s");
  EXPECT_EQ(ProgressLine(View(3, 10), 0.05, 80), "done 3/10  running 0  0.05/s");
  EXPECT_EQ(ProgressLine(View(3, 10), 0.005, 80), "done 3/10  running 0");
}

TEST(ProgressLine, TheTimeToGoIsLeftOutUntilItCanBeGuessed) {
  EXPECT_EQ(ProgressLine(View(9, 100), 1, 80), "done 9/100  running 0  1.0/s");
  EXPECT_EQ(ProgressLine(View(10, 100), 1, 80), "done 10/100  running 0  1.0/s  ~90 s to go");
  EXPECT_EQ(ProgressLine(View(10, 110), 0.1, 80), "done 10/110  running 0  0.10/s  ~17 min to go");
  EXPECT_EQ(ProgressLine(View(10, 1010), 0.01, 80), "done 10/1010  running 0  0.01/s  ~27 h 47 min to go");
  Figures wide = View(10, 100);
  wide.slots = 40;  // what has ended says nothing about the thirty that have not
  EXPECT_EQ(ProgressLine(wide, 1, 80), "done 10/100  running 0  1.0/s");
  wide.failed = 30;
  EXPECT_EQ(ProgressLine(wide, 1, 80), "done 10/100  running 0  failed 30  1.0/s  ~60 s to go");
}

TEST(ProgressLine, Complete) {
  Figures view = View(10, 10);
  view.complete = true;
  EXPECT_EQ(ProgressLine(view, 5, 80), "done 10/10  5.0/s");
}

TEST(DrawOver, ClearsWhatALongerLineLeft) {
  EXPECT_EQ(DrawOver("done 1/2"), "\rdone 1/2\x1b[K");
  EXPECT_EQ(EraseLine(), "\r\x1b[K");
}

TEST(RateMeter, OverTheWindowOnly) {
  RateMeter meter;
  for (int s = 0; s <= 20; ++s) meter.Add(View(static_cast<uint64_t>(s) * 100, 100000, seconds(s)));
  EXPECT_DOUBLE_EQ(meter.rate(), 100);
  // It gets slower: after the window only the new rate is seen.
  for (int s = 21; s <= 40; ++s)
    meter.Add(View(2000 + static_cast<uint64_t>(s - 20) * 10, 100000, seconds(s)));
  EXPECT_DOUBLE_EQ(meter.rate(), 10);
}

TEST(RateMeter, FewTasksAreSeenOverTheWholeRun) {
  RateMeter meter;
  meter.Add(View(0, 10, seconds(0)));
  meter.Add(View(1, 10, seconds(50)));
  meter.Add(View(2, 10, seconds(100)));
  EXPECT_DOUBLE_EQ(meter.rate(), 0.02);
}

TEST(RateMeter, ManyUpdatesKeepFewSamplesAndTheLastOneCounts) {
  RateMeter meter;
  for (int ms = 0; ms <= 5000; ++ms) meter.Add(View(static_cast<uint64_t>(ms), 100000, milliseconds(ms)));
  EXPECT_DOUBLE_EQ(meter.rate(), 1000);
}

TEST(RateMeter, StartsAgainWithAServerThatCountsFromAnew) {
  RateMeter meter;
  meter.Add(View(1000, 10000, seconds(10)));
  meter.Add(View(900, 10000, seconds(1)));
  meter.Add(View(1000, 10000, seconds(2)));
  EXPECT_DOUBLE_EQ(meter.rate(), 100);
}

TEST(PlainProgress, NotMoreThanOneLineAnInterval) {
  PlainProgress plain(seconds(5));
  EXPECT_EQ(plain.Next(View(0, 1000, seconds(1)), 0), std::nullopt);
  EXPECT_EQ(plain.Next(View(500, 1000, seconds(4)), 100), std::nullopt);
  EXPECT_EQ(plain.Next(View(600, 1000, seconds(5)), 100), "done 600/1000  running 0  100/s  ~4 s to go");
  EXPECT_EQ(plain.Next(View(900, 1000, seconds(8)), 100), std::nullopt);
  EXPECT_NE(plain.Next(View(950, 1000, seconds(10)), 100), std::nullopt);
}

TEST(PlainProgress, OnlyWhenEnoughHasChanged) {
  PlainProgress plain(seconds(5));
  EXPECT_NE(plain.Next(View(10, 1000, seconds(5)), 1), std::nullopt);
  EXPECT_EQ(plain.Next(View(19, 1000, seconds(20)), 1), std::nullopt);
  EXPECT_NE(plain.Next(View(20, 1000, seconds(30)), 1), std::nullopt);
  EXPECT_EQ(plain.Next(View(21, 1000, seconds(60)), 1), std::nullopt);
  EXPECT_NE(plain.Next(View(21, 1000, seconds(90)), 1), std::nullopt);   // a minute with a change
  EXPECT_EQ(plain.Next(View(21, 1000, seconds(200)), 1), std::nullopt);  // none
}

TEST(PlainProgress, TheFirstFailureIsToldSoon) {
  PlainProgress plain(seconds(5));
  EXPECT_NE(plain.Next(View(100, 1000, minutes(10)), 1), std::nullopt);
  Figures view = View(100, 1000, minutes(10) + seconds(5));
  view.failed = 1;
  EXPECT_EQ(plain.Next(view, 0), "done 100/1000  running 0  failed 1");
  view.makespan += seconds(10);
  view.failed = 900;
  EXPECT_EQ(plain.Next(view, 0), std::nullopt) << "only the first";
}

TEST(PlainProgress, TheIntervalDoublesUpToAMinute) {
  PlainProgress plain(seconds(5));
  uint64_t done = 0;
  std::vector<int> told;
  for (int s = 1; s <= 300; ++s) {
    if (plain.Next(View(done += 30, 10'000, seconds(s)), 10)) told.push_back(s);
  }
  EXPECT_EQ(told, (std::vector<int>{5, 10, 20, 40, 80, 140, 200, 260}));
}

TEST(PlainProgress, CompletionIsTheSummarysBusiness) {
  PlainProgress plain(seconds(5));
  Figures view = View(10, 10, seconds(100));
  view.complete = true;
  EXPECT_EQ(plain.Next(view, 1), std::nullopt);
}

}  // namespace
}  // namespace harrow::report
