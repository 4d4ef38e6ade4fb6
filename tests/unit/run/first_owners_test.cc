// Whose tasks are at first.
#include "run/first_owners.h"

#include <gtest/gtest.h>

namespace harrow::run {
namespace {

using Tasks = std::vector<uint32_t>;
using Flags = std::vector<bool>;

TEST(FirstOwners, OfNoTasksAreNone) {
  FirstOwners none;
  none.Add(3, 0);
  EXPECT_EQ(none.tasks(), 0u);
  for (const uint32_t part : {0u, 3u}) {
    EXPECT_EQ(none.Of(part), Flags());
    EXPECT_EQ(none.From<uint32_t>(0, part), Tasks());
  }
}

TEST(FirstOwners, TheFlowIsPartZerosAndWhatFollowsWhoTookIt) {
  FirstOwners owners(2);
  owners.Add(4, 1);
  owners.Add(4, 2);
  owners.Add(0, 1);
  owners.Add(4, 1);
  EXPECT_EQ(owners.tasks(), 7u);
  EXPECT_EQ(owners.Of(0), (Flags{true, true, false, false, false, true, false}));
  EXPECT_EQ(owners.Of(4), (Flags{false, false, true, true, true, false, true}));
  EXPECT_EQ(owners.Of(1), Flags(7));
  EXPECT_EQ(owners.From<uint32_t>(0, 0), (Tasks{0, 1, 5}));
  EXPECT_EQ(owners.From<uint32_t>(0, 4), (Tasks{2, 3, 4, 6}));
  EXPECT_EQ(owners.From<uint32_t>(3, 4), (Tasks{3, 4, 6})) << "some of those that it has in a row";
  EXPECT_EQ(owners.From<uint32_t>(5, 4), (Tasks{6}));
  EXPECT_EQ(owners.From<uint32_t>(7, 4), Tasks());
}

}  // namespace
}  // namespace harrow::run
