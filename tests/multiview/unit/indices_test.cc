#include "multiview/indices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

namespace {

using harrow::multiview::Index;
using harrow::multiview::Indices;

Indices UpTo(std::size_t size) {
  Indices v(size);
  for (std::size_t i = 0; i < size; ++i) v[i] = static_cast<Index>(10 * size + i);
  return v;
}
std::vector<Index> Wanted(std::size_t size) {
  std::vector<Index> v;
  for (std::size_t i = 0; i < size; ++i) v.push_back(static_cast<Index>(10 * size + i));
  return v;
}
std::vector<Index> Numbers(const Indices& v) {
  return {v.begin(), v.end()};
}

// Few lie in the object and more elsewhere, which nobody shall notice.
TEST(Indices, OfAnyNumberAreCopiedMovedAndAssigned) {
  for (std::size_t size = 0; size <= 9; ++size) {
    const Indices original = UpTo(size);
    EXPECT_EQ(original.size(), size);
    EXPECT_EQ(original.empty(), size == 0);
    Indices copy = original;
    Indices moved = std::move(copy);
    EXPECT_EQ(copy.size(), 0u);
    EXPECT_EQ(Numbers(moved), Wanted(size));
    for (std::size_t before = 0; before <= 9; ++before) {
      Indices assigned = UpTo(before), taken = UpTo(before), source = original;
      assigned = original;
      taken = std::move(source);
      EXPECT_EQ(source.size(), 0u);
      EXPECT_EQ(Numbers(assigned), Wanted(size)) << "after " << before;
      EXPECT_EQ(Numbers(taken), Wanted(size)) << "after " << before;
      EXPECT_EQ(assigned == UpTo(before), size == before);
      if (size > 0) {
        assigned[size - 1] = -1;
        EXPECT_EQ(original[size - 1], Wanted(size).back()) << "copies share nothing";
        EXPECT_FALSE(assigned == original);
      }
    }
    Indices& self = moved;
    moved = self;
    EXPECT_EQ(Numbers(moved), Wanted(size));
    moved = std::move(self);
    EXPECT_EQ(Numbers(moved), Wanted(size));
    EXPECT_EQ(Numbers(Indices(size, 7)), std::vector<Index>(size, 7));
  }
  EXPECT_EQ(Numbers(Indices{3, 1, 2}), (std::vector<Index>{3, 1, 2}));
}

}  // namespace
