#include "multiview/guard.h"

#include <gtest/gtest.h>
#include <new>

namespace {

using namespace harrow::multiview;

template <class F>
Status StatusOf(F&& thrown) {
  return Guarded("call", [&]() -> Status {
    thrown();
    return {};
  });
}

TEST(Guarded, WhatIsThrownIsTheCallsError) {
  EXPECT_TRUE(StatusOf([] {}).ok());
  const Status memory = StatusOf([] { throw std::bad_alloc(); }),
               length = StatusOf([] { throw std::length_error("vector"); }),
               other = StatusOf([] { throw std::runtime_error("why"); }), unknown = StatusOf([] { throw 7; });
  EXPECT_EQ(memory.code(), Code::kMemory);
  EXPECT_EQ(memory.message(), "call: no memory");
  EXPECT_EQ(length.code(), Code::kMemory);
  EXPECT_EQ(length.message(), "call: no memory for so much");
  EXPECT_EQ(other.code(), Code::kInternal);
  EXPECT_EQ(other.message(), "call: why");
  EXPECT_EQ(unknown.code(), Code::kInternal);
  EXPECT_EQ(unknown.message(), "call: something was thrown that is no std::exception");
  const MapResult result = Guarded("map", []() -> MapResult { throw std::bad_alloc(); });
  EXPECT_EQ(result.status.code(), Code::kMemory);
  EXPECT_TRUE(result.failed.empty());
  const Result<int> number = Guarded("count", []() -> Result<int> { return 5; });
  EXPECT_EQ(*number, 5);
  EXPECT_EQ(Guarded("count", []() -> Result<int> { throw std::bad_alloc(); }).status().code(), Code::kMemory);
}

TEST(Caught, WhatAUsersFunctionThrowsIsAFailedTask) {
  EXPECT_TRUE(Caught("map", [] {}).ok());
  const Status told = Caught("map", [] { throw std::runtime_error("diverged"); }),
               bare = Caught("", [] { throw std::runtime_error("x"); }),
               unknown = Caught("map", [] { throw 7; });
  for (const Status& s : {told, bare, unknown}) EXPECT_EQ(s.code(), Code::kTaskFailed);
  EXPECT_EQ(told.message(), "map: diverged");
  EXPECT_EQ(bare.message(), "x");
  EXPECT_EQ(unknown.message(), "map: the function threw something that is no std::exception");
}

TEST(Thrown, LongTextsAreCutOff) {
  const std::string most(kLongestMessage, 'x');
  EXPECT_EQ(Thrown(Code::kInternal, "", most.c_str()).message(), most);
  EXPECT_EQ(Thrown(Code::kInternal, "", (most + "y").c_str()).message(), most);
  EXPECT_EQ(Thrown(Code::kInternal, "call", most.c_str()).message().size(), std::size_t{64} << 10);
}

}  // namespace
