#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/graph.h"

namespace harrow::formats {

/// Kinds by programs' names, for tasks that name none: at most 1000, then "other". Runs of equal names cost a
/// comparison.
class KindCache {
 public:
  explicit KindCache(graph::Graph* graph) : graph_(graph) {}

  KindId Of(std::string_view program) {
    if (last_kind_ && program == last_) return last_kind_;
    std::string name(program);
    auto found = kinds_.find(name);
    if (found == kinds_.end()) {
      if (kinds_.size() >= kMost) name = "other";
      found = kinds_.try_emplace(name).first;
      if (!found->second) found->second = graph_->AddKind(name);
    }
    last_ = program;
    return last_kind_ = found->second;
  }

 private:
  static constexpr size_t kMost = 1000;
  graph::Graph* graph_;
  std::unordered_map<std::string, KindId> kinds_;
  std::string last_;
  KindId last_kind_;
};

}  // namespace harrow::formats
