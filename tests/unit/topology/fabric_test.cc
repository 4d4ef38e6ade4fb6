#include "topology/fabric.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace harrow::topology {
namespace {

TEST(FabricTest, IsFoundByItsDevice) {
  struct Row {
    const char* path;
    const char* fabric;
  };
  for (const Row& row : {Row{"sys/class/infiniband/mlx5_0", "mlx5_0"}, Row{"sys/class/infiniband", ""}, Row{"sys/class/cxi/cxi0", "cxi0"},
                         Row{"dev/hfi1_0", "hfi1_0"}, Row{"dev/infiniband/uverbs0", "uverbs0"}, Row{"dev/infiniband/rdma_cm", ""}, Row{"dev/null", ""}, Row{"sys/class/net/eth0", ""}}) {
    char root[] = "/tmp/harrow-fabric-XXXXXX";
    ASSERT_NE(mkdtemp(root), nullptr);
    std::filesystem::create_directories(std::filesystem::path(root) / row.path);
    EXPECT_EQ(Fabric(root), row.fabric) << row.path;
    std::filesystem::remove_all(root);
  }
}

TEST(FabricTest, WhereItCannotBeFoundOutThereMayBeOne) {
  char root[] = "/tmp/harrow-fabric-XXXXXX";
  ASSERT_NE(mkdtemp(root), nullptr);
  const std::filesystem::path directory = std::filesystem::path(root) / "sys/class";
  std::filesystem::create_directories(directory);
  std::filesystem::create_symlink("infiniband", directory / "infiniband");
  EXPECT_NE(Fabric(root), "");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace harrow::topology
