#include "agent/steps/step.h"

#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace harrow::agent {

std::string Below(const std::string& directory, const std::string& path) {
  return !path.empty() && path.front() == '/' ? path : StrCat(directory, "/", path);
}

void MakeDirectoriesOf(const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
}

}  // namespace harrow::agent
