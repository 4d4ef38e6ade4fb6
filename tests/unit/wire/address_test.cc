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
  for (const char* text : {"", ":", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
                           "127.0.0.1:65536", "127.0.0.1:80x", "127.0.0.1:-1", "1.2.3:80", "[::1:80", ":80",
                           "::1]:80", "[]:80", "[:80", "]:80", "127.0.0.1 :80", "127.0.0.1:8 0"}) {
    EXPECT_EQ(Address::Parse(text).status().code(), Code::kInvalid) << text;
    EXPECT_TRUE(Address::Parse(text).status().message().ends_with(
        "is not a numeric address and port, as 10.0.0.1:4000"))
        << Address::Parse(text).status().message();
  }
}

TEST(Address, OfAHostAndAPort) {
  auto four = Address::Of("10.1.2.3", 258);
  ASSERT_TRUE(four.ok());
  EXPECT_EQ(four->Text(), "10.1.2.3:258");
  EXPECT_EQ(four->size, sizeof(sockaddr_in));
  EXPECT_EQ(four->get()->sa_family, AF_INET);
  auto six = Address::Of("fd00::1", 0);
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->Text(), "[fd00::1]:0");
  EXPECT_EQ(six->size, sizeof(sockaddr_in6));
  EXPECT_EQ(six->get()->sa_family, AF_INET6);
  EXPECT_EQ(Address::Of("node1", 1).status().code(), Code::kInvalid);
}

TEST(Address, TheHostByWhichAPeerIsReached) {
  EXPECT_EQ(HostTowards("127.0.0.1:9"), "127.0.0.1");
  EXPECT_EQ(HostTowards("255.255.255.255:9"), "") << "nobody is reached so: it is everybody's";
  EXPECT_EQ(HostTowards("node1:9"), "");
}

}  // namespace
}  // namespace harrow::wire
