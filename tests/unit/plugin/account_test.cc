#include "plugin/account.h"

#include <gtest/gtest.h>
#include <string>

namespace harrow::plugin {
namespace {

TEST(RunAccount, AsARunWritesIt) {
  RunAccount account;
  ASSERT_TRUE(ParseRunAccount("harrow-run 1\nrun mosaic\ntasks 1000\ncore_seconds 11700\n", &account));
  EXPECT_STREQ(account.run, "mosaic");
  EXPECT_EQ(account.tasks, 1000u);
  EXPECT_EQ(account.core_seconds, 11700u);
}

TEST(RunAccount, CutAnywhereIsNone) {
  const std::string whole = "harrow-run 1\nrun m\ntasks 1\ncore_seconds 2\n";
  RunAccount account;
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(ParseRunAccount(std::string_view(whole).substr(0, n), &account));
}

TEST(RunAccount, NonsenseIsNone) {
  RunAccount account;
  for (const char* bad :
       {"harrow-run 2\nrun m\ntasks 1\ncore_seconds 2\n", "harrow-run 1\nrun \ntasks 1\ncore_seconds 2\n",
        "harrow-run 1\nrun m\ntasks -1\ncore_seconds 2\n",
        "harrow-run 1\nrun m\ntasks 1\ncore_seconds 2\nmore\n",
        "harrow-run 1\nrun m\ntasks 99999999999999999999\ncore_seconds 2\n",
        "harrow-run 1\nrun m\ntasks 1 \ncore_seconds 2\n"}) {
    EXPECT_FALSE(ParseRunAccount(bad, &account)) << bad;
  }
  EXPECT_FALSE(
      ParseRunAccount("harrow-run 1\nrun " + std::string(70, 'r') + "\ntasks 1\ncore_seconds 2\n", &account));
}

TEST(RunAccount, ANameCannotForgeALogLine) {
  RunAccount account;
  ASSERT_TRUE(ParseRunAccount("harrow-run 1\nrun a b%n\x1b[1m=\"x\r\ntasks 1\ncore_seconds 2\n", &account));
  EXPECT_STREQ(account.run, "a_b_n__1m__x_");
}

}  // namespace
}  // namespace harrow::plugin
