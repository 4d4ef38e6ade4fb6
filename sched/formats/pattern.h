#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/pattern_index.h"
#include "graph/graph.h"
#include "os/file_system.h"

namespace harrow::formats {

/// Does the text hold *, ? or [ ?
bool IsPattern(std::string_view text);
/// glob(7): * and ? stay within one directory, [a-z] and [!a-z] are sets; a leading dot is matched only by a
/// dot.
bool MatchesPattern(std::string_view pattern, std::string_view name);

/// Which files a pattern means: among names declared as outputs, and among those that exist.
class FileMatcher {
 public:
  FileMatcher(os::FileSystem& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {}

  /// Names of declared outputs; they must outlive the matcher.
  void SetOutputs(std::vector<std::string_view> names);
  std::vector<std::string_view> MatchOutputs(std::string_view pattern) const;
  /// Existing files that match, sorted; directories are read once.
  std::vector<std::string> MatchExisting(std::string_view pattern);
  bool Exists(std::string_view name);

 private:
  struct Listing {
    std::vector<std::string> names;
    PatternIndex index;
  };
  const PatternIndex& List(const std::string& directory);
  os::FileSystem& fs_;
  std::string directory_;
  PatternIndex outputs_;
  std::unordered_map<std::string, Listing> listings_;
};

}  // namespace harrow::formats
