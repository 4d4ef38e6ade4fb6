#include "server/exchange.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace harrow::server {
namespace {

TEST(Exchange, ANameTellsWhatItIs) {
  for (const Exchanged& each : {Exchanged{FileId(0), std::string(17, '\0'), 0}, Exchanged{FileId(4'000'000'000), "\xff" + std::string(15, 'z') + "\x03", INT64_MAX}, Exchanged{FileId(12)}}) {
    EXPECT_EQ(Exchanged::Of(each.Name()), each) << each.Name();
  }
  EXPECT_EQ((Exchanged{FileId(7), std::string(16, 'a') + '\x01', 5}).Name(), "7-6161616161616161616161616161616101-5");
  EXPECT_EQ(Exchanged{FileId(7)}.Name(), "7-absent");
}

TEST(Exchange, WhatIsNoNameIsNone) {
  const std::string whole = "7-6161616161616161616161616161616101-5";
  const std::vector<std::string> names = {
      "", "7", "7-", "7-absent-5", "-absent", "07-absent", "4294967296-absent", "7-6161616161616161616161616161616101--5", "7-616161616161616161616161616161610G-5",
      "7-6161616161616161616161616161616A01-5", "7-61616161616161616161616161616101-5", "7-6161616161616161616161616161616101-05",
      whole + ".half-0123456789abcdef", whole + "x", "0" + whole, whole.substr(0, whole.size() - 1), whole.substr(0, whole.size() - 2)};
  for (const std::string& name : names)
    EXPECT_FALSE(Exchanged::Of(name)) << name;
}

}  // namespace
}  // namespace harrow::server
