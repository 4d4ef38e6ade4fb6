#include "base/packed_bytes.h"

#include <gtest/gtest.h>
#include <string>

namespace harrow {
namespace {

using namespace std::string_literals;

TEST(PackedBytes, NumbersAndTextsBehindTheirLengths) {
  PackedBytes packed;
  EXPECT_EQ(packed.bytes(), "");
  packed.Add(0x0102030405060708u);
  packed.Add("abc");
  packed.Add("");
  packed.Add(~uint64_t{0});
  EXPECT_EQ(packed.bytes(), "\x08\x07\x06\x05\x04\x03\x02\x01"s + "\x03\0\0\0\0\0\0\0abc"s + "\0\0\0\0\0\0\0\0"s + std::string(8, '\xff'));
  EXPECT_EQ(packed.size(), packed.bytes().size());
}

TEST(PackedBytes, WhatIsAddedStaysHoweverMuchItBecomes) {
  PackedBytes packed;
  std::string all;
  for (uint32_t row = 0; row < 2; ++row) {
    for (uint32_t i = 0; i < 300; ++i) {
      const std::string text(i * 7 % 100, static_cast<char>('a' + i % 26));
      packed.Add(text);
      all += std::string(1, static_cast<char>(text.size())) + std::string(7, '\0') + text;
    }
    EXPECT_EQ(packed.bytes(), all);
    packed.Clear();
    all.clear();
    EXPECT_EQ(packed.bytes(), "");
  }
}

}  // namespace
}  // namespace harrow
