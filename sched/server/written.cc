#include "server/written.h"

#include <sstream>

#include "base/text.h"

namespace harrow::server {
namespace {

constexpr std::string_view kWrittenBy = "written by ";  // a kind: so many tasks, so many bytes

}  // namespace

std::vector<std::pair<std::string, std::string>> Written::Facts() const {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [kind, sum] : sums_) facts.emplace_back(StrCat(kWrittenBy, kind), StrCat(sum.tasks, " ", sum.bytes));
  return facts;
}

Written Written::From(const journal::History& history) {
  Written written;
  for (const auto& [key, value] : history.facts) {
    if (!key.starts_with(kWrittenBy)) continue;
    Sum sum;
    std::istringstream text(value);
    if (text >> sum.tasks >> sum.bytes && sum.tasks > 0) written.sums_[key.substr(kWrittenBy.size())] = sum;
  }
  return written;
}

std::optional<double> Written::MeanOf(const std::string& kind) const {
  const auto sum = sums_.find(kind);
  if (sum == sums_.end() || sum->second.tasks == 0) return std::nullopt;
  return static_cast<double>(sum->second.bytes) / static_cast<double>(sum->second.tasks);
}

}  // namespace harrow::server
