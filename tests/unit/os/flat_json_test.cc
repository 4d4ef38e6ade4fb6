#include "os/flat_json.h"

#include <gtest/gtest.h>

namespace harrow::os {
namespace {

TEST(FlatJson, TextReadsBack) {
  FlatJson out;
  out.Set("name", "a \"quoted\" \\ line\n\x01 and ü");
  out.Set("large", INT64_MAX);
  out.Set("small", INT64_MIN);
  out.Set("list", std::vector<std::string>{"", "x"});
  out.Set("none", std::vector<std::string>{});
  auto in = FlatJson::Parse(out.Text());
  ASSERT_TRUE(in.ok()) << in.status().message();
  EXPECT_EQ(in->String("name"), "a \"quoted\" \\ line\n\x01 and ü");
  EXPECT_EQ(in->Number("large"), INT64_MAX);
  EXPECT_EQ(in->Number("small"), INT64_MIN);
  EXPECT_EQ(in->List("list"), (std::vector<std::string>{"", "x"}));
  EXPECT_EQ(in->List("none"), std::vector<std::string>{});
  EXPECT_TRUE(in->status().ok());
}

TEST(FlatJson, MissingMembersAreNamed) {
  auto in = FlatJson::Parse(R"({"a": "text", "b": 1})");
  ASSERT_TRUE(in.ok());
  EXPECT_EQ(in->Number("a"), 0);
  EXPECT_EQ(in->status().code(), Code::kDamaged);
  EXPECT_NE(in->status().message().find("\"a\""), std::string::npos);
}

TEST(FlatJson, AnythingElseIsDamaged) {
  for (const char* text :
       {"", "{", "[]", "1", "{\"a\": 1.5}", "{\"a\": null}", "{\"a\": {}}", "{\"a\": [1]}", "{\"a\": 1} x",
        "{\"a\": \"\xff\"}", "{\"a\": 1, \"a\": 2}", "{\"a\": 18446744073709551616}"}) {
    EXPECT_EQ(FlatJson::Parse(text).status().code(), Code::kDamaged) << text;
  }
}

}  // namespace
}  // namespace harrow::os
