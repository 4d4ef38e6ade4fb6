#include "sim/storage.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "support/loaded_flow.h"

namespace harrow::sim {
namespace {

TEST(PageCacheTest, KeepsTheLastUsed) {
  PageCache cache(10);
  cache.Use(FileId(1), 4);
  cache.Use(FileId(2), 4);
  cache.Use(FileId(1), 4);
  cache.Use(FileId(3), 4);  // pushes 2 out
  EXPECT_TRUE(cache.Holds(FileId(1)));
  EXPECT_FALSE(cache.Holds(FileId(2)));
  EXPECT_TRUE(cache.Holds(FileId(3)));
  EXPECT_EQ(cache.used(), 8u);
  cache.Use(FileId(4), 11);  // passes through
  EXPECT_EQ(cache.used(), 0u);
  EXPECT_FALSE(cache.Holds(FileId(4)));
}

TEST(StorageTest, InputsAreSpreadEvenlyAndBySeed) {
  std::string table = "T\tt\tk\t1\n";
  for (int i = 0; i < 20; ++i) table += StrCat("I\tt\tf", i, "\n");
  test::LoadedFlow flow("x.dag.tsv", table);
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  formats::ClusterModel cluster;
  cluster.nodes.push_back({.count = 5, .capacity = {1, 0, 0}, .page_cache = 0, .speed = 1, .line = 0});
  std::set<std::vector<std::pair<FileId, NodeId>>> seen;
  for (const uint64_t seed : {1u, 1u, 2u, 3u}) {
    Transfers transfers;
    const Storage storage(flow.graph, cluster, &transfers, seed);
    std::vector<int> count(5, 0);
    for (const auto& [file, node] : storage.inputs()) ++count[node.value];
    EXPECT_EQ(count, std::vector<int>(5, 4));
    seen.insert(storage.inputs());
  }
  EXPECT_EQ(seen.size(), 3u);
  cluster.inputs = formats::ClusterModel::Inputs::kOutside;
  Transfers transfers;
  EXPECT_TRUE(Storage(flow.graph, cluster, &transfers, 1).inputs().empty());
}

}  // namespace
}  // namespace harrow::sim
