#include "plugin/clock.h"

#include <chrono>
#include <gtest/gtest.h>

namespace harrow::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

long Now() {
  return std::chrono::floor<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

TEST(Clock, CountsMilliseconds) {
  for (int i = 0; i < 50; ++i) {
    const long before = Now(), now = Milliseconds(), after = Now();
    EXPECT_LE(before, now);
    EXPECT_LE(now, after);
    Pause(3);
  }
}

TEST(Clock, PausesForSecondsAndFractionsOfThem) {
  const auto began = steady_clock::now();
  Pause(1005);
  EXPECT_GE(steady_clock::now() - began, milliseconds(1005));
}

}  // namespace
}  // namespace harrow::plugin
