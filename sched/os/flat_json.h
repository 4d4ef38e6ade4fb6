#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace harrow::os {

/// A JSON object of strings, whole numbers and lists of strings: the small files of a run directory that
/// people may want to read. Getters of an absent member, or of one of another type, say so in the object's
/// status.
class FlatJson {
 public:
  /// kDamaged when `text` is anything but one such object.
  static Result<FlatJson> Parse(std::string_view text);

  void Set(const std::string& key, std::string_view value) { strings_[key] = value; }
  void Set(const std::string& key, int64_t value) { numbers_[key] = value; }
  void Set(const std::string& key, std::vector<std::string> value) { lists_[key] = std::move(value); }
  /// One member a line, sorted by kind and name.
  std::string Text() const;

  std::string String(const std::string& key);
  int64_t Number(const std::string& key);
  std::vector<std::string> List(const std::string& key);
  /// kDamaged, naming the first member that a getter missed.
  const Status& status() const { return status_; }

 private:
  void Missing(const std::string& key, std::string_view what);

  std::map<std::string, std::string> strings_;
  std::map<std::string, int64_t> numbers_;
  std::map<std::string, std::vector<std::string>> lists_;
  Status status_;
};

}  // namespace harrow::os
