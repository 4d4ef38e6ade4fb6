#include "config/run_options.h"
#include "fuzz/check_message.h"
#include "support/memory_file_system.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace harrow;
  test::MemoryFileSystem fs;
  (void)fs.WriteWhole("/conf", std::string_view(reinterpret_cast<const char*>(data), size));
  const Result<std::vector<config::Setting>> settings = config::ReadSettings(fs, {"HARROW_CONF=/conf"});
  fuzz::CheckMessage(settings.status());
  if (!settings) return 0;
  config::RunOptions options;
  fuzz::Require(config::Apply(*settings, &options).ok(), "settings that were read do not apply");
  fuzz::Require(!config::DescribeSettings(options).empty(), "no settings");
  return 0;
}
