// The best value as a server keeps it: what is acknowledged is on disk, and what is told to be known is, too.
#include "server/best.h"

#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"

namespace harrow::server {
namespace {

class BestTest : public testing::Test {
 protected:
  void Offer(double value) {
    best_.Offer({value, StrCat("of ", value)}, [this, value](const Result<bool>& better) {
      told_ += StrCat(told_.empty() ? "" : ", ", value, !better.ok() ? " not taken" : *better ? " better" : " worse");
      // Who is told that something better is known could lose it in no crash.
      EXPECT_TRUE(!better.ok() || (disk_ && disk_->value <= value)) << value;
    });
  }
  /// The write that is under way ends.
  void End(const Status& status = {}) {
    ASSERT_TRUE(done_);
    if (status.ok() && (!disk_ || disk_->value > writes_->value)) disk_ = *writes_;  // what others told is on theirs
    std::exchange(done_, nullptr)(status);
  }
  std::string Told() { return std::exchange(told_, ""); }

  std::string told_, learned_;
  const run::BestValue* writes_ = nullptr;
  std::function<void(Status)> done_;
  std::optional<run::BestValue> disk_;
  Best best_{{.write =
                  [this](const run::BestValue& best, std::function<void(Status)> done) {
                    EXPECT_FALSE(done_) << "one at a time";
                    writes_ = &best;
                    done_ = std::move(done);
                  },
              .learned =
                  [this](const run::BestValue& best, bool ours) {
                    learned_ += StrCat(learned_.empty() ? "" : ", ", best.value, ours ? "" : " of others");
                  }}};
};

TEST_F(BestTest, IsKnownWhenItIsOnDisk) {
  Offer(3);
  EXPECT_FALSE(best_.known());
  EXPECT_FALSE(best_.idle());
  EXPECT_EQ(Told(), "");
  End();
  EXPECT_EQ(Told(), "3 better");
  EXPECT_EQ(learned_, "3");
  EXPECT_EQ(best_.known()->solution, "of 3");
  Offer(3);
  EXPECT_EQ(Told(), "3 worse");
  EXPECT_TRUE(best_.idle());
}

TEST_F(BestTest, OfWhatComesWhileOneIsWrittenTheBestIsNext) {
  Offer(5);
  Offer(6);
  Offer(3);
  Offer(2);
  Offer(4);
  EXPECT_EQ(Told(), "") << "5 is not on disk";
  End();
  EXPECT_EQ(Told(), "5 better, 6 worse");
  EXPECT_EQ(writes_->value, 2);
  End();
  EXPECT_EQ(Told(), "2 better, 3 worse, 4 worse");
  EXPECT_EQ(learned_, "5, 2");
  EXPECT_FALSE(done_);
}

TEST_F(BestTest, WhatCannotBeWrittenIsNotTaken) {
  Offer(2);
  Offer(3);
  End(Status(Code::kExhausted, "full"));
  EXPECT_EQ(Told(), "2 not taken");
  EXPECT_FALSE(best_.known());
  End();
  EXPECT_EQ(Told(), "3 better");
}

TEST_F(BestTest, WhatOthersTellCountsAtOnceAndIsSaved) {
  Offer(5);
  best_.Learn({4, "theirs"});
  EXPECT_EQ(learned_, "4 of others");
  End();
  EXPECT_EQ(Told(), "5 worse") << "and theirs is on their disk";
  EXPECT_EQ(writes_->value, 4);
  best_.Learn({4.5, ""});
  best_.Learn({3, ""});
  End();
  EXPECT_EQ(writes_->value, 3);
  End();
  EXPECT_EQ(learned_, "4 of others, 3 of others");
  EXPECT_EQ(disk_->value, 3);
  EXPECT_TRUE(best_.idle());
}

TEST_F(BestTest, GoesOnWithThatOfAnEarlierServer) {
  best_.Restore({2, "earlier"});
  disk_ = best_.known();
  Offer(2.5);
  EXPECT_EQ(Told(), "2.5 worse");
  EXPECT_EQ(learned_, "");
}

TEST_F(BestTest, RandomOffers) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    double best = 1e9;
    for (int i = 0; i < 60; ++i) {
      const double value = -static_cast<double>(seed * 1000 + random() % 500);
      if (random() % 3 == 0 && done_) {
        End(random() % 5 == 0 ? Status(Code::kExhausted, "full") : Status());
      } else if (random() % 6 == 0) {
        best_.Learn({value, ""});
        best = std::min(best, value);
        // On their disk.
        if (!disk_ || disk_->value > value) disk_ = {value, ""};
      } else {
        Offer(value);
      }
    }
    while (done_) End();
    EXPECT_TRUE(best_.idle());
    ASSERT_TRUE(best_.known());
    EXPECT_LE(best_.known()->value, best);
    told_.clear();
  }
}

}  // namespace
}  // namespace harrow::server
