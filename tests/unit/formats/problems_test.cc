#include "formats/problems.h"

#include <gtest/gtest.h>

namespace harrow::formats {
namespace {

TEST(ProblemsTest, AreCountedBeyondWhatIsShown) {
  graph::Graph graph;
  const uint32_t file = graph.AddSource("f");
  const auto told = [&](size_t limit, size_t problems) {
    Problems p(&graph, limit);
    EXPECT_TRUE(p.empty() && p.status().ok());
    for (size_t i = 0; i < problems; ++i) {
      EXPECT_EQ(p.full(), i >= limit) << i;
      p.Add({file, static_cast<uint32_t>(i + 1), 2}, "x; y");
    }
    EXPECT_EQ(p.count(), problems);
    EXPECT_FALSE(p.empty());
    EXPECT_EQ(p.status().code(), Code::kInvalid);
    return p.status().message();
  };
  EXPECT_EQ(told(3, 1), "f:1:2: x; y");
  EXPECT_EQ(told(3, 2), "f:1:2: x; y\nf:2:2: x; y");
  EXPECT_EQ(told(2, 2), "f:1:2: x; y\nf:2:2: x; y\n(reading stopped after 2 problems)");
  EXPECT_EQ(told(2, 5), "f:1:2: x; y\nf:2:2: x; y\n(reading stopped after 2 problems)");
  EXPECT_EQ(told(1, 1), "f:1:2: x; y") << "who asks for one knows that there may be more";
  Problems last(&graph, 20);
  last.AddLast({file, 1, 1}, "x; y");
  EXPECT_TRUE(last.full());
  EXPECT_EQ(last.status().message(), "f:1:1: x; y");
}

TEST(ProblemsTest, PlacesInAText) {
  constexpr std::string_view kText = "ab\n\ncd";
  constexpr std::pair<uint32_t, uint32_t> kPlaces[] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {3, 1}, {3, 2}, {3, 3}, {3, 3}};
  for (size_t at = 0; at < std::size(kPlaces); ++at) {
    const SourcePlace place = PlaceAt(7, kText, at);
    EXPECT_EQ(std::pair(place.line, place.column), kPlaces[at]) << at;
    EXPECT_EQ(place.source, 7u);
  }
}

TEST(ProblemsTest, SuggestsWhatIsNearElseTellsWhatThereIs) {
  EXPECT_EQ(SuggestOneOf("coers", {"cores", "memory"}), "; did you mean cores?");
  EXPECT_EQ(SuggestOneOf("x", {"cores", "memory"}), "; known are cores, memory");
  EXPECT_EQ(SuggestOneOf("x", {}), "; there are none here");
  const std::vector<std::string_view> many(200, "abcdefgh");
  std::string known = "abcdefgh";
  while (known.size() <= 300) known += ", abcdefgh";
  EXPECT_EQ(SuggestOneOf("x", many), "; known are " + known + ", ...");
}

}  // namespace
}  // namespace harrow::formats
