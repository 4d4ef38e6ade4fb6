#include "server/written.h"

#include <gtest/gtest.h>

namespace harrow::server {
namespace {

TEST(Written, IsKeptAsFactsOfTheJournal) {
  Written written;
  written.Add("map", 100);
  written.Add("map", 50);
  written.Add("a kind", 0);
  journal::History history;
  history.facts = written.Facts();
  EXPECT_EQ(history.facts.size(), 2u);
  history.facts.emplace_back("written by nobody", "0 7");
  history.facts.emplace_back("written by noise", "x");
  history.facts.emplace_back("order", "cost");
  const Written read = Written::From(history);
  EXPECT_EQ(read.MeanOf("map"), 75);
  EXPECT_EQ(read.MeanOf("a kind"), 0);
  EXPECT_FALSE(read.MeanOf("nobody").has_value());
  EXPECT_FALSE(read.MeanOf("noise").has_value());
}

}  // namespace
}  // namespace harrow::server
