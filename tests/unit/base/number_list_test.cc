#include "base/number_list.h"

#include <gtest/gtest.h>

namespace harrow {
namespace {

using Numbers = std::vector<uint32_t>;

TEST(NumberList, NamesStretchesByTheirEnds) {
  EXPECT_EQ(NumberList(Numbers{}), "");
  EXPECT_EQ(NumberList(Numbers{7}), "7");
  EXPECT_EQ(NumberList(Numbers{0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(NumberList, ReadsBackWhatItWrote) {
  for (const Numbers& numbers : {Numbers{}, Numbers{0}, Numbers{0, 1}, Numbers{3, 5, 6, 7, 9}, Numbers{4294967294}})
    EXPECT_EQ(ParseNumberList(NumberList(numbers), 4294967295), numbers);
}

TEST(NumberList, IsRefusedWhereItIsNone) {
  for (const char* text : {",", "1,", ",1", "1,,2", "-1", "1-", "1-1", "3-2", "2,1", "1,1", "1-3,3", "a", "1 ,2", "1;2", "4294967296"})
    EXPECT_FALSE(ParseNumberList(text, 4294967295)) << text;
}

TEST(NumberList, HoldsNoNumberFromItsEndOn) {
  EXPECT_TRUE(ParseNumberList("0-8", 9));
  EXPECT_FALSE(ParseNumberList("0-9", 9));
  EXPECT_FALSE(ParseNumberList("9", 9));
}

}  // namespace
}  // namespace harrow
