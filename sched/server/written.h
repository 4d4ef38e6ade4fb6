#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "journal/journal.h"

namespace harrow::server {

/// How much tasks of each kind have written to each of their streams: facts of the journal, from the run's end on.
class Written {
 public:
  void Add(const std::string& kind, int64_t bytes) {
    Sum& sum = sums_[kind];
    ++sum.tasks;
    sum.bytes += bytes;
  }
  /// Keys and values.
  std::vector<std::pair<std::string, std::string>> Facts() const;
  static Written From(const journal::History& history);
  std::optional<double> MeanOf(const std::string& kind) const;

 private:
  struct Sum {
    uint64_t tasks = 0;
    int64_t bytes = 0;
  };
  std::map<std::string, Sum> sums_;
};

}  // namespace harrow::server
