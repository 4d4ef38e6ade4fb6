// In which order a helper takes what its ranks say, and that they are gone.
#include "agent/pmix/helper/pass.h"

#include <gtest/gtest.h>

namespace harrow::agent::pmix {
namespace {

constexpr bool kGone = true, kSays = false;

TEST(PassTest, ALossIsToldAloneInTheNext) {
  Pass pass;
  EXPECT_FALSE(pass.loops());
  pass.Begin();
  EXPECT_TRUE(pass.loops());
  EXPECT_TRUE(pass.HasItsTurn(kSays));
  EXPECT_TRUE(pass.HasItsTurn(kSays));
  EXPECT_FALSE(pass.HasItsTurn(kGone));
  EXPECT_TRUE(pass.HasItsTurn(kSays)) << "this one has begun with that";
  pass.Begin();
  EXPECT_FALSE(pass.HasItsTurn(kSays)) << "a loss is owed";
  EXPECT_TRUE(pass.HasItsTurn(kGone));
  EXPECT_FALSE(pass.HasItsTurn(kSays));
  pass.Begin();
  EXPECT_TRUE(pass.HasItsTurn(kSays)) << "no further one was found";
}

TEST(PassTest, OfSeveralLossesEachHasOne) {
  Pass pass;
  pass.Begin();
  EXPECT_TRUE(pass.HasItsTurn(kGone));
  EXPECT_FALSE(pass.HasItsTurn(kSays)) << "what comes after a loss";
  EXPECT_FALSE(pass.HasItsTurn(kGone));
  pass.Begin();
  EXPECT_FALSE(pass.HasItsTurn(kSays));
  EXPECT_TRUE(pass.HasItsTurn(kGone));
}

}  // namespace
}  // namespace harrow::agent::pmix
