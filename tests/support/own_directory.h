#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace harrow::test {

/// A directory that goes away with this.
class OwnDirectory {
 public:
  explicit OwnDirectory(const std::string& below = std::filesystem::temp_directory_path()) : path_(below + "/harrow-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) abort();
  }
  ~OwnDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace harrow::test
