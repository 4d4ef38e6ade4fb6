#include "store/object.h"

#include <gtest/gtest.h>

#include "store/hasher.h"

namespace harrow::store {
namespace {

TEST(ObjectIdTest, TextAndBytesAreReadBack) {
  for (const Kind kind : {Kind::kFile, Kind::kProgram, Kind::kDirectory}) {
    const ObjectId id{0x0123456789abcdef, 0xfedcba9876543210, kind};
    EXPECT_EQ(id.Bytes().size(), ObjectId::kSize);
    EXPECT_EQ(ObjectId::FromBytes(id.Bytes()), id);
    EXPECT_EQ(ObjectId::FromText(id.Text()), id);
  }
  EXPECT_EQ((ObjectId{0x0123456789abcdef, 0xfedcba9876543210, Kind::kFile}).Text(),
            "0123456789abcdeffedcba9876543210f");
  EXPECT_EQ((ObjectId{1, 2, Kind::kProgram}).Bytes(), std::string("\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\2", 17));
  EXPECT_EQ((ObjectId{0, 0xff, Kind::kDirectory}).Text(), "000000000000000000000000000000ffd");
}

TEST(ObjectIdTest, WhatIsNoneIsRefused) {
  const std::string digits(32, '0');
  for (const std::string& text :
       {digits, digits + "ff", digits + "y", digits + "F", std::string("00000000000000000000000000000G00f"),
        std::string("0000000000000000000000000000000Af"), std::string(31, '0') + "/f",
        std::string(31, '0') + ":f", std::string(31, '0') + "`f", std::string(31, '0') + "gf",
        std::string()}) {
    EXPECT_FALSE(ObjectId::FromText(text)) << text;
  }
  EXPECT_TRUE(ObjectId::FromText(std::string(31, '0') + "9f"));
  EXPECT_FALSE(ObjectId::FromBytes(std::string(16, '\0') + '\0'));
  EXPECT_FALSE(ObjectId::FromBytes(std::string(16, '\0') + '\4'));
  EXPECT_FALSE(ObjectId::FromBytes(std::string(16, '\1')));
  EXPECT_FALSE(ObjectId::FromBytes(std::string(18, '\1')));
}

TEST(ObjectIdTest, IdsOfContentsStay) {
  // Stores and other nodes of another build know contents by these.
  EXPECT_EQ(IdOf("", Kind::kFile).Text(), "99aa06d3014798d86001c324468d497ff");
  EXPECT_EQ(IdOf("harrow", Kind::kProgram).Text(), "559b600544d70b02c59d5ee112bf0d1ex");
}

TEST(HasherTest, PiecesMakeTheSameIdAsTheWhole) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text.push_back(static_cast<char>(i * 7 >> 3));
  Hasher hasher;
  for (int round = 0; round < 2; ++round) {
    for (size_t at = 0, size = 1; at < text.size(); at += size, size = size * 3 % 1000 + 1) {
      size = std::min(size, text.size() - at);
      hasher.Add(text.data() + at, size);
    }
    EXPECT_EQ(hasher.Id(Kind::kFile), IdOf(text, Kind::kFile));
    hasher.Reset();
  }
  EXPECT_EQ(hasher.Id(Kind::kFile), IdOf("", Kind::kFile));
}

}  // namespace
}  // namespace harrow::store
