#include "wire/address.h"

#include <gtest/gtest.h>

namespace harrow::wire {
namespace {

TEST(Address, ReadsBackWhatItWrites) {
  for (const char* text : {"127.0.0.1:1", "10.77.0.11:65535", "[::1]:4711", "[fd00::a]:80"}) {
    auto address = Address::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->Text(), text);
    EXPECT_EQ(address->ipv6(), text[0] == '[');
  }
}

TEST(Address, NamesAndBadPortsAreInvalid) {
  for (const char* text :
       {"", ":", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:80x",
        "127.0.0.1:-1", "1.2.3:80", "[::1:80", ":80"}) {
    EXPECT_EQ(Address::Parse(text).status().code(), Code::kInvalid) << text;
  }
}

}  // namespace
}  // namespace harrow::wire
