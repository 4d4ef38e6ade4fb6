#include "formats/cluster_model.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace harrow::formats {
namespace {

TEST(ClusterModelTest, ReadsEveryKey) {
  const Result<ClusterModel> model = ReadClusterModel("c.toml", R"(
[cluster]
name = "T"
source = "by hand"
[[node]]
count = 2
cores = 8
memory = "32GiB"
[[node]]
cores = 4
gpus = 1
speed = 0.5
page_cache = "1G"
[storage]
files = "shared"
inputs = "random"
read_local_disk = "70MiB/s"
read_local_cache = "592MiB/s"
read_remote_disk = "39MiB/s"
read_remote_cache = "71MiB/s"
write = "59MiB/s"
server = "1GiB/s"
share_disks = false
write_back = "6GiB"
[network]
nic = "100MiB/s"
hub = "200MiB/s"
hub_loss = 0.1
[dispatch]
latency = "0.5ms"
jitter = "20ms"
rate = 1000
overhead = "10ms"
[failures]
mtbf = "30d"
repair = "10m"
[[failure]]
node = 2
at = "90s"
)");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->node_count(), 3u);
  EXPECT_EQ(model->slot_count(), 20u);
  EXPECT_EQ(model->nodes[0].page_cache, uint64_t{32} << 30);
  EXPECT_EQ(model->nodes[1].page_cache, uint64_t{1} << 30);
  EXPECT_EQ(model->nodes[1].speed, 0.5);
  EXPECT_EQ(model->storage, ClusterModel::Storage::kShared);
  EXPECT_EQ(model->inputs, ClusterModel::Inputs::kRandom);
  EXPECT_EQ(model->read_local_disk, 70.0 * (1 << 20));
  EXPECT_EQ(model->read_local_cache, 592.0 * (1 << 20));
  EXPECT_EQ(model->read_remote_disk, 39.0 * (1 << 20));
  EXPECT_EQ(model->read_remote_cache, 71.0 * (1 << 20));
  EXPECT_EQ(model->write, 59.0 * (1 << 20));
  EXPECT_EQ(model->nic, 100.0 * (1 << 20));
  EXPECT_EQ(model->hub, 200.0 * (1 << 20));
  EXPECT_EQ(model->rate, 1000);
  EXPECT_EQ(model->name, "T");
  EXPECT_EQ(model->nodes[1].capacity.devices, 1u);
  EXPECT_EQ(model->nodes[0].capacity.memory, uint64_t{32} << 30);
  EXPECT_EQ(model->failures.at(0).node, 2u);
  EXPECT_EQ(model->failures.at(0).repair, 0);
  EXPECT_EQ(model->server, 1.0 * (1 << 30));
  EXPECT_FALSE(model->share_disks);
  EXPECT_EQ(model->write_back, uint64_t{6} << 30);
  EXPECT_EQ(model->overhead, 0.01);
  EXPECT_EQ(model->hub_loss, 0.1);
  EXPECT_DOUBLE_EQ(model->latency, 0.0005);
  EXPECT_DOUBLE_EQ(model->jitter, 0.02);
  EXPECT_EQ(model->mtbf, 30 * 86400.0);
  EXPECT_EQ(model->repair, 600);
  ASSERT_EQ(model->failures.size(), 1u);
  EXPECT_EQ(model->failures[0].at, 90);
}

TEST(ClusterModelTest, WhatIsNotSaidCostsNothing) {
  const Result<ClusterModel> model = ReadClusterModel("c.toml", "[[node]]\ncores = 3\n");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->node_count(), 1u);
  EXPECT_EQ(model->slot_count(), 3u);
  EXPECT_EQ(model->nodes[0].speed, 1);
  EXPECT_EQ(model->nodes[0].capacity.devices, 0u);
  EXPECT_EQ(model->nodes[0].capacity.memory + model->nodes[0].page_cache + model->write_back, 0u);
  EXPECT_EQ(model->storage, ClusterModel::Storage::kNodes);
  EXPECT_EQ(model->inputs, ClusterModel::Inputs::kSpread);
  EXPECT_TRUE(model->share_disks);
  for (const double figure :
       {model->read_local_disk, model->read_local_cache, model->read_remote_disk, model->read_remote_cache,
        model->write, model->server, model->nic, model->hub, model->hub_loss, model->latency, model->jitter,
        model->overhead, model->rate, model->mtbf, model->repair})
    EXPECT_EQ(figure, 0);
  EXPECT_TRUE(model->failures.empty());
}

constexpr char kShared[] = R"(
[[node]]
count = 3
cores = 8
[[node]]
count = 2
cores = 4
speed = 3
[[allocation]]
name = "near"
nodes = 4
[[allocation]]
nodes = 1
speed = 0.5
begin = "1m"
end = "2m"
delay = "15ms"
)";

TEST(ClusterModelTest, Allocations) {
  const Result<ClusterModel> model = ReadClusterModel("c.toml", kShared);
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(model->allocations.size(), 2u);
  EXPECT_EQ(model->allocations[0].name, "near");
  EXPECT_EQ(model->allocations[0].speed, 1);
  EXPECT_EQ(model->allocations[0].begin, 0);
  EXPECT_EQ(model->allocations[0].end, 0);
  EXPECT_EQ(model->allocations[1].name, "1");
  EXPECT_EQ(model->allocations[1].begin, 60);
  EXPECT_EQ(model->allocations[1].end, 120);
  EXPECT_EQ(model->allocations[1].delay, 0.015);
  const ClusterModel near = model->OfAllocation(0), other = model->OfAllocation(1);
  EXPECT_TRUE(near.allocations.empty());
  ASSERT_EQ(near.nodes.size(), 2u);
  EXPECT_EQ(near.nodes[0].count, 3u);
  EXPECT_EQ(near.nodes[1].count, 1u);
  EXPECT_EQ(near.slot_count(), 28u);
  EXPECT_FALSE(near.ends);
  ASSERT_EQ(other.nodes.size(), 1u);
  EXPECT_EQ(other.nodes[0].count, 1u);
  EXPECT_EQ(other.nodes[0].speed, 1.5);
  EXPECT_TRUE(other.ends);
}

TEST(ClusterModelTest, EveryUnitOfTime) {
  const std::pair<const char*, double> cases[] = {
      {"1us", 1e-6}, {"0.25ms", 0.25e-3}, {"2s", 2},         {"0.5m", 30},
      {"3h", 10800}, {"1d", 86400},       {"1:30:00", 5400}, {"0s", 0}};
  for (const auto& [text, latency] : cases) {
    const Result<ClusterModel> model =
        ReadClusterModel("c.toml", StrCat("[[node]]\ncores = 1\n[dispatch]\nlatency = \"", text, "\"\n"));
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_DOUBLE_EQ(model->latency, latency) << text;
  }
}

TEST(ClusterModelTest, RefusesWhatCannotBe) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "c.toml:1:1: there is no node; add [[node]]"},
      {"[[node]]\ncores = 0\n", "c.toml:2:9: cores is no whole number from 1"},
      {"[[node]]\ncount = 2\n", "c.toml:1:1: a node has cores"},
      {"[[node]]\ncores = 1\nspeed = 0\n", "c.toml:3:9: speed is no number from"},
      {"[[node]]\ncores = 1\nmemory = \"-1G\"\n", "c.toml:3:10: memory: "},
      {"[[node]]\ncores = 1\nmemmory = \"1G\"\n", "c.toml:3:1: unknown key memmory; did you mean memory?"},
      {"[[node]]\ncores = 1\n[storage]\nwrite = \"0MiB/s\"\n",
       "c.toml:4:9: write is no rate above 0; write write = \"70MiB/s\""},
      {"[[node]]\ncores = 1\n[storage]\nwrite = \"59MiB\"\n", "c.toml:4:9: write is no rate"},
      {"[[node]]\ncores = 1\n[storage]\nwrite = 59\n", "c.toml:4:9: write is no rate"},
      {"[[node]]\ncores = 1\n[storage]\nfiles = \"disk\"\n",
       "c.toml:4:9: files cannot be disk; write one of \"nodes\", \"shared\""},
      {"[[node]]\ncores = 1\n[storage]\nshare_disks = 1\n",
       "c.toml:4:15: share_disks is neither true nor false"},
      {"[[node]]\ncores = 1\n[network]\nhub_loss = -1\n", "c.toml:4:12: hub_loss is no number from 0"},
      {"[[node]]\ncores = 1\n[dispatch]\nrate = 0\n", "c.toml:4:8: rate is no number"},
      {"[[node]]\ncores = 1\n[dispatch]\nlatency = \"-1s\"\n", "c.toml:4:11: latency is no length of time"},
      {"[[node]]\ncores = 1\n[[allocation]]\n", "c.toml:3:1: an allocation has nodes; write nodes = 2"},
      {"[[node]]\ncores = 1\n[[allocation]]\nnodes = 2\n",
       "c.toml:3:1: the allocations have 2 nodes and the cluster 1; each node is in one allocation"},
      {"[[node]]\ncores = 1\n[[allocation]]\nnodes = 1\nbegin = \"2s\"\nend = \"1s\"\n",
       "c.toml:3:1: it does not end after it begins; write an end after begin"},
      {"[[node]]\ncount = 2\ncores = 1\n[[allocation]]\nname = \"a\"\nnodes = 1\n[[allocation]]\nname = "
       "\"a\"\nnodes = 1\n",
       "c.toml:7:1: there are two allocations named a; give each a name of its own"},
      {"[[node]]\ncores = 1\n[failures]\nmtbf = \"1h\"\n[[allocation]]\nnodes = 1\n",
       "c.toml:5:1: nodes that fail are not modelled in several allocations"},
      {"[[node]]\ncores = 1\n[[allocation]]\nnodes = 1\ndelay = 3\n",
       "c.toml:5:9: delay is no length of time"},
      {"[[node]]\ncores = 1\n[failures]\nmtbf = \"0s\"\n", "c.toml:4:8: mtbf is no length of time above 0"},
      {"[[node]]\ncores = 1\n[[failure]]\nnode = 1\nat = \"1s\"\n",
       "c.toml:3:1: there is no node 1; nodes are 0 to 0"},
      {"[[node]]\ncores = 1\n[[failure]]\nnode = 999_999\nat = \"1s\"\n",
       "c.toml:3:1: there is no node 999999; nodes are 0 to 0"},
      {"[[node]]\ncores = 1\n[[failure]]\nnode = 1_000_000\nat = \"1s\"\n",
       "c.toml:4:8: node is no whole number from 0 to 999999"},
      {"[[node]]\ncores = 1\n[[failure]]\nnode = 0\n", "c.toml:3:1: a failure has node and at"},
      {"[[node]]\ncores = 1\n[disk]\n", "c.toml:3:2: unknown key disk"},
      {"[[node]\ncores = 1\n", "c.toml:1:"},
      {"node = 1\n", "c.toml:1:1: node is no list of tables; every node begins with [[node]]"},
  };
  for (const auto& [text, message] : cases) {
    const Result<ClusterModel> model = ReadClusterModel("c.toml", text);
    ASSERT_FALSE(model.ok()) << text;
    EXPECT_EQ(model.status().code(), Code::kInvalid);
    EXPECT_EQ(model.status().message().substr(0, std::string_view(message).size()), message) << text;
    EXPECT_NE(model.status().message().find("; "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace harrow::formats
