#include "server/file_search.h"

#include <utility>
#include <vector>

namespace harrow::server {
namespace {

constexpr Duration kAwayForLong = std::chrono::minutes(1);

}  // namespace

void FileSearch::Begin(TaskId task, std::vector<FileId> files, std::optional<uint32_t> first, bool again) {
  searches_[task] = {.files = std::move(files), .first = first, .again = again, .asked = {}, .tried = {}, .away_since = {}};
  Next(task);
}

std::optional<uint32_t> FileSearch::Choose(const Search& search) const {
  for (const std::set<uint32_t>* const parts : {&connected_, &parts_}) {
    if (search.first && parts->contains(*search.first) && !search.tried.contains(*search.first)) return search.first;
    for (const uint32_t part : *parts) {
      if (!search.tried.contains(part)) return part;
    }
  }
  return {};
}

void FileSearch::Look(Time now) {
  std::vector<TaskId> in_vain;
  for (auto& [task, search] : searches_) {
    if (connected_.contains(*search.asked)) {
      search.away_since.reset();
    } else if (!search.away_since) {
      search.away_since = now;
    } else if (now - *search.away_since > kAwayForLong && hooks_.can_make(task)) {
      in_vain.push_back(task);
    }
  }
  for (const TaskId task : in_vain) {
    searches_.erase(task);
    hooks_.not_found(task);
  }
}

void FileSearch::Next(TaskId task) {
  Search& search = searches_.at(task);
  search.asked = Choose(search);
  if (!search.asked && !search.make && !hooks_.can_make(task)) {
    search.make = true;
    search.tried.clear();
    search.asked = Choose(search);
  }
  if (!search.asked) {
    searches_.erase(task);
    return hooks_.not_found(task);
  }
  Ask(task, search);
}

void FileSearch::Ask(TaskId task, const Search& search) {
  if (connected_.contains(*search.asked)) hooks_.ask(*search.asked, task, search.files, search.make, search.again);
}

void FileSearch::Connected(uint32_t part) {
  parts_.insert(part);
  connected_.insert(part);
  for (const auto& [task, search] : searches_) {
    if (search.asked == part) Ask(task, search);
  }
}

void FileSearch::Disconnected(uint32_t part) {
  connected_.erase(part);
}

void FileSearch::Over(uint32_t part) {
  connected_.erase(part);
  parts_.erase(part);
  std::vector<TaskId> anew;
  for (const auto& [task, search] : searches_) {
    if (search.asked == part) anew.push_back(task);
  }
  for (const TaskId task : anew) Next(task);
}

void FileSearch::NotHad(uint32_t part, TaskId task) {
  const auto at = searches_.find(task);
  if (at == searches_.end() || at->second.asked != part) return;
  at->second.tried.insert(part);
  Next(task);
}

}  // namespace harrow::server
