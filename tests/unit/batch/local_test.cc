#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "batch/batch.h"

namespace harrow::batch {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(Local, OneNodeIsThisHost) {
  const auto batch = MakeLocal({.program = "/bin/harrow", .nodes = 1, .slots = 0});
  const auto nodes = batch->Nodes();
  ASSERT_TRUE(nodes.ok());
  ASSERT_EQ(nodes->size(), 1u);
  EXPECT_FALSE(nodes->front().name.empty());
  const auto commands = batch->AgentCommands("/run");
  ASSERT_TRUE(commands.ok());
  ASSERT_EQ(commands->size(), 1u);
  EXPECT_EQ(commands->front()[0], "/bin/harrow");
  EXPECT_THAT(commands->front(), Contains("/run"));
  EXPECT_THAT(commands->front(), Not(Contains("--slots")));
  EXPECT_FALSE(batch->EndTime().has_value());
  EXPECT_EQ(batch->ListenHosts(), (std::vector<std::string>{"127.0.0.1"}));
}

TEST(Local, PretendNodesHaveNamesAndSharesOfTheirOwn) {
  const auto batch = MakeLocal({.program = "harrow", .nodes = 3, .slots = 5});
  const auto commands = batch->AgentCommands("/run");
  ASSERT_TRUE(commands.ok());
  ASSERT_EQ(commands->size(), 3u);
  std::set<std::string> shares;
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<std::string>& command = (*commands)[i];
    EXPECT_THAT(command, Contains("local" + std::to_string(i)));
    EXPECT_THAT(command, Contains("5"));
    shares.insert(command.back());
  }
  EXPECT_EQ(shares, (std::set<std::string>{"0/3", "1/3", "2/3"}));
}

TEST(Local, NoNodesIsAnError) {
  EXPECT_EQ(MakeLocal({.program = "harrow", .nodes = 0, .slots = 0})->Nodes().status().code(),
            Code::kInvalid);
}

}  // namespace
}  // namespace harrow::batch
