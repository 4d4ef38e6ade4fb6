#include "multiview/geometry.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <harrow/multiview.hpp>
#include <numeric>
#include <random>

namespace harrow::multiview {
namespace {

TEST(AppendRange, CoversTheRangeOnceWithFewBoxes) {
  const Indices shape{3, 4, 5};
  for (Index first = 0; first <= 60; ++first) {
    for (Index last = first; last <= 60; ++last) {
      std::vector<Box> boxes;
      AppendRange(shape, first, last, &boxes);
      EXPECT_LE(boxes.size(), 5u);
      std::vector<Index> seen;
      for (const Box& box : boxes) {
        Indices at = box.lo;
        for (at[0] = box.lo[0]; at[0] < box.lo[0] + box.n[0]; ++at[0]) {
          for (at[1] = box.lo[1]; at[1] < box.lo[1] + box.n[1]; ++at[1]) {
            for (at[2] = box.lo[2]; at[2] < box.lo[2] + box.n[2]; ++at[2]) seen.push_back(Linear(shape, at));
          }
        }
      }
      std::vector<Index> want(static_cast<std::size_t>(last - first));
      std::iota(want.begin(), want.end(), first);
      EXPECT_EQ(seen, want) << first << " to " << last;
    }
  }
}

TEST(Box, HoldsItsElementsAlone) {
  const Box box{{2, 0}, {3, 4}};
  EXPECT_EQ(box.volume(), 12);
  for (const Indices& inside : {Indices{2, 0}, Indices{4, 3}}) EXPECT_TRUE(box.Contains(inside));
  for (const Indices& outside : {Indices{1, 0}, Indices{5, 0}, Indices{2, -1}, Indices{2, 4}})
    EXPECT_FALSE(box.Contains(outside));
  EXPECT_TRUE(box.Contains(box));
  for (const Box& other :
       {Box{{1, 0}, {3, 4}}, Box{{3, 0}, {3, 4}}, Box{{2, 0}, {3, 5}}, Box{{2, -1}, {3, 4}}})
    EXPECT_FALSE(box.Contains(other));
  Box common;
  EXPECT_TRUE(Intersect(box, {{4, -3}, {9, 4}}, &common));
  EXPECT_EQ(common, (Box{{4, 0}, {1, 1}}));
  EXPECT_FALSE(Intersect(box, {{5, 0}, {1, 1}}, &common)) << "they touch";
  EXPECT_FALSE(Intersect(box, {{2, -2}, {3, 2}}, &common));
}

TEST(Fragment, IsContiguousWhereItsElementsFollowEachOther) {
  Fragment f;
  f.element_bytes = 8;
  const auto contiguous = [&](std::vector<Index> extent, std::vector<std::ptrdiff_t> stride) {
    f.extent = std::move(extent);
    f.stride = std::move(stride);
    return f.contiguous();
  };
  EXPECT_TRUE(contiguous({2, 3}, {24, 8}));
  EXPECT_EQ(f.count(), 6);
  EXPECT_FALSE(contiguous({2, 3}, {32, 8})) << "a gap between rows";
  EXPECT_FALSE(contiguous({2, 3}, {48, 16})) << "and between elements";
  EXPECT_TRUE(contiguous({1, 3}, {32, 8})) << "there is one row";
}

TEST(Linear, AndBack) {
  const Indices shape{3, 1, 4, 1};
  for (Index i = 0; i < 12; ++i) {
    Indices at(4, 99);
    Unlinear(shape, i, at.data());
    EXPECT_THAT(at, testing::ElementsAre(i / 4, 0, i % 4, 0));
    EXPECT_EQ(Linear(shape, at), i);
  }
}

TEST(Runs, OfManyDimensions) {
  for (const std::size_t dims : {std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{35}}) {
    const Runs runs({Indices(dims, 0), Indices(dims, 3)}, {Indices(dims, 1), Indices(dims, 2)}, 8);
    EXPECT_EQ(runs.length, 16);
    EXPECT_EQ(runs.total, std::int64_t{8} << dims);
    ASSERT_EQ(runs.count.size(), dims - 1);
    std::int64_t step = 8, first = 0;
    for (std::size_t d = dims; d-- > 0; step *= 3) {
      first += step;
      if (d + 1 == dims) continue;
      EXPECT_EQ(runs.count[d], 2);
      EXPECT_EQ(runs.stride[d], step);
    }
    EXPECT_EQ(runs.first, first);
  }
}

TEST(Runs, AreAsLongAsMemoryAllows) {
  const Box whole{{0, 0, 0}, {4, 6, 8}};
  const Runs all(whole, whole, 10);
  EXPECT_TRUE(all.contiguous());
  EXPECT_EQ(all.length, 1920);
  const Runs slab(whole, {{1, 0, 0}, {2, 6, 8}}, 10);
  EXPECT_TRUE(slab.contiguous());
  EXPECT_EQ(slab.first, 480);
  const Runs rows(whole, {{0, 2, 0}, {4, 3, 8}}, 10);
  EXPECT_EQ(rows.length, 240);
  EXPECT_EQ(rows.total, 960);
  EXPECT_THAT(rows.count, testing::ElementsAre(4));
  EXPECT_THAT(rows.stride, testing::ElementsAre(480));
  // Columns: the loops over the first two dimensions are one.
  const Runs columns(whole, {{0, 0, 3}, {4, 6, 1}}, 10);
  EXPECT_EQ(columns.length, 10);
  EXPECT_THAT(columns.count, testing::ElementsAre(24));
}

struct Arrays {
  Box from, to, part;
};

Arrays RandomArrays(std::mt19937* random) {
  const auto draw = [&](Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(*random);
  };
  const std::size_t dims = static_cast<std::size_t>(draw(1, 5));
  Arrays a{{Indices(dims), Indices(dims)}, {Indices(dims), Indices(dims)}, {Indices(dims), Indices(dims)}};
  for (std::size_t d = 0; d < dims; ++d) {
    a.part.lo[d] = draw(0, 5);
    a.part.n[d] = draw(1, 4);
    for (Box* box : {&a.from, &a.to}) {
      box->lo[d] = a.part.lo[d] - draw(0, 2);
      box->n[d] = a.part.lo[d] + a.part.n[d] + draw(0, 2) - box->lo[d];
    }
  }
  return a;
}

constexpr std::size_t kMostMemory = 64 << 20;

// The element size of a round comes from `bytes_of`, which is given the part's volume.
void CopyRandomParts(int rounds, const std::function<std::size_t(std::mt19937&, Index)>& bytes_of) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int compared = 0; compared < rounds;) {
    const Arrays a = RandomArrays(&random);
    const std::size_t bytes = bytes_of(random, a.part.volume());
    if (static_cast<std::size_t>(a.from.volume() + a.to.volume()) * bytes > kMostMemory) continue;
    ++compared;
    const auto size = [&](const Box& box) { return static_cast<std::size_t>(box.volume()) * bytes; };
    std::vector<std::byte> from(size(a.from)), to(size(a.to), std::byte{0xee}), again = to,
                                                                                packed(size(a.part));
    for (auto& b : from) b = static_cast<std::byte>(random());
    std::vector<std::byte> want = to;
    for (Index i = 0; i < a.part.volume(); ++i) {
      Indices at(a.part.n.size()), in_from = at, in_to = at;
      Unlinear(a.part.n, i, at.data());
      for (std::size_t d = 0; d < at.size(); ++d) {
        in_from[d] = at[d] + a.part.lo[d] - a.from.lo[d];
        in_to[d] = at[d] + a.part.lo[d] - a.to.lo[d];
      }
      std::copy_n(from.begin() + static_cast<long>(bytes) * Linear(a.from.n, in_from), bytes,
                  want.begin() + static_cast<long>(bytes) * Linear(a.to.n, in_to));
    }
    CopyPart(a.part, to.data(), a.to, from.data(), a.from, bytes);
    ASSERT_EQ(to, want);

    const Runs source(a.from, a.part, bytes), target(a.to, a.part, bytes);
    ASSERT_EQ(source.total, static_cast<std::int64_t>(packed.size()));
    RunCursor out(source), in(target);
    for (std::int64_t done = 0; done < source.total;) {
      const std::int64_t some = std::min<std::int64_t>(1 + random() % (bytes / 2 + 50), source.total - done);
      out.Gather(from.data(), packed.data() + done, some);
      in.Scatter(again.data(), packed.data() + done, some);
      done += some;
    }
    EXPECT_EQ(out.remaining(), 0);
    ASSERT_EQ(again, want);
  }
}

TEST(CopyPart, AndCursorsCopyExactlyThePart) {
  CopyRandomParts(500, [](std::mt19937& random, Index) {
    return 1 + random() % 40;
  });
}

TEST(CopyPart, LargerThanTheCache) {
  CopyRandomParts(10, [](std::mt19937& random, Index volume) {
    return (std::size_t{8} << 20) / static_cast<std::size_t>(volume) + 1 + random() % 1000;
  });
}

}  // namespace
}  // namespace harrow::multiview
