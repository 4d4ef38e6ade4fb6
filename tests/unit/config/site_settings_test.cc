#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/run_options.h"
#include "support/memory_file_system.h"

namespace harrow::config {
namespace {

TEST(SiteSettings, OfTheSlurmPluginAreTheWeakest) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/etc/harrow").ok());
  ASSERT_TRUE(fs.WriteWhole("/etc/harrow/harrow.conf", "files = \"shared\"\n").ok());
  Result<std::vector<Setting>> settings = ReadSettings(
      fs,
      {"HARROW_SITE_FILES=local", "HARROW_SITE_ORDER=fifo", "HARROW_SITE_PORTS=1-2", "HARROW_SITE_RETRIES="});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  RunOptions options;
  ASSERT_TRUE(Apply(*settings, &options).ok());
  EXPECT_EQ(options.order, order::Policy::kFifo);
  EXPECT_EQ(options.files, Files::kShared);
}

}  // namespace
}  // namespace harrow::config
