#include "agent/shared_time.h"

#include <gtest/gtest.h>

namespace harrow::agent {
namespace {

using std::chrono::seconds;

TEST(SharedTime, EachHasItsPart) {
  SharedTime shared;
  const auto at = [](int s) { return SharedTime::Time(seconds(100 + s)); };
  const double first = shared.Begin(at(0));
  const double second = shared.Begin(at(2));
  const double third = shared.Begin(at(4));
  EXPECT_EQ(shared.End(at(7), second), seconds(2)) << "1 s of two, and 1 of three";
  EXPECT_EQ(shared.End(at(9), third), seconds(2));
  EXPECT_EQ(shared.End(at(10), first), seconds(6)) << "of 10";
  const double alone = shared.Begin(at(50));
  EXPECT_EQ(shared.End(at(53), alone), seconds(3)) << "when nothing is done nobody has time";
}

}  // namespace
}  // namespace harrow::agent
