#include "formats/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/text.h"
#include "formats/kind_cache.h"

namespace harrow::formats {
namespace {

/// The files of each task, in the order they were said: those of task t are [begin[t], begin[t + 1]).
struct Grouped {
  std::vector<uint32_t> begin;
  std::vector<FileId> files;

  Grouped(const std::vector<std::pair<uint32_t, FileId>>& pairs, size_t tasks)
      : begin(tasks + 2), files(pairs.size()) {
    for (const auto& [task, file] : pairs) ++begin[task + 2];
    for (size_t t = 2; t < begin.size(); ++t) begin[t] += begin[t - 1];
    for (const auto& [task, file] : pairs) files[begin[task + 1]++] = file;
  }
  std::span<const FileId> Of(size_t task) const {
    return {files.data() + begin[task], begin[task + 1] - begin[task]};
  }
};

}  // namespace

std::optional<uint32_t> Trace::AddTask(SourcePlace place, std::string_view name, std::string_view kind,
                                       double seconds, double cores) {
  if (tasks_.size() >= options_.max_tasks) {
    problems_->AddLast(
        place, StrCat("there are more than ", options_.max_tasks, " tasks; split them into several runs"));
    return std::nullopt;
  }
  const auto number = static_cast<uint32_t>(tasks_.size());
  const auto [at, added] = by_name_.try_emplace(name, number);
  if (!added) {
    problems_->Add(place, StrCat("there are two tasks \"", Printable(name), "\", the other one at line ",
                                 tasks_[at->second].place.line, "; every task has a name of its own"));
    return std::nullopt;
  }
  tasks_.push_back({place, name, kind, seconds,
                    options_.one_core ? 1 : static_cast<uint32_t>(std::max(1.0, std::ceil(cores)))});
  return number;
}

std::optional<uint32_t> Trace::Find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return std::nullopt;
  return at->second;
}

void Trace::SetSize(std::string_view file, int64_t bytes) {
  const FileId id = graph_->AddFile(file);
  if (bytes > graph_->file_size(id)) graph_->SetFileSize(id, bytes);
}

std::optional<double> Trace::Measure(std::string_view text, std::string_view what, double most, SourcePlace place) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number < 0) {
    negatives_.Note(place, what, number);
    return -1;
  }
  return TraceNumber(text, what, 0, most, place, problems_);
}

void Trace::Finish(std::vector<std::string>* notices) {
  if (!problems_->empty()) return;
  negatives_.Tell(*graph_, notices);
  if (options_.need_commands && !tasks_.empty()) {
    problems_->Add(tasks_[0].place,
                   StrCat("the tasks of a ", form_,
                          " have no command to run; use harrow replay, which stands in for them"));
    return;
  }
  std::unordered_map<std::string_view, uint32_t>().swap(by_name_);
  const Grouped in(inputs_, tasks_.size()), out(outputs_, tasks_.size());
  constexpr uint32_t kNobody = UINT32_MAX;
  std::vector<uint32_t> producer(graph_->file_count(), kNobody), seen(graph_->file_count(), kNobody);
  for (uint32_t t = 0; t < tasks_.size(); ++t) {
    for (FileId file : out.Of(t)) {
      if (producer[file.value] == kNobody) producer[file.value] = t;
    }
  }
  KindCache kinds(graph_);
  std::unordered_map<uint32_t, ProfileId> profiles;  // by cores
  std::vector<FileId> reads, writes;
  const auto first = static_cast<uint32_t>(graph_->task_count());
  graph_->Reserve(tasks_.size());
  for (uint32_t t = 0; t < tasks_.size(); ++t) {
    const Task& task = tasks_[t];
    reads.clear();
    writes.clear();
    for (FileId file : out.Of(t)) {
      if (producer[file.value] == t && std::exchange(seen[file.value], t) != t) writes.push_back(file);
    }
    for (FileId file : in.Of(t)) {
      if (producer[file.value] != t && std::exchange(seen[file.value], t) != t) reads.push_back(file);
    }
    auto [profile, added] = profiles.try_emplace(task.cores);
    if (added) {
      graph::Profile p;
      p.shape.cores = task.cores;
      profile->second = graph_->AddProfile(p);
    }
    graph::TaskSpec spec;
    spec.name = task.name;
    spec.form = graph::CommandForm::kNone;
    spec.profile = profile->second;
    spec.kind = kinds.Of(task.kind);
    spec.in = reads;
    spec.out = writes;
    spec.place = task.place;
    if (task.seconds >= 0) spec.recorded_run_time = FromSeconds(task.seconds);
    graph_->AddTask(spec);
  }
  for (const auto& [parent, child] : edges_)
    graph_->AddDependency(TaskId(first + parent), TaskId(first + child));
}

std::optional<double> TraceNumber(std::string_view text, std::string_view what, double least, double most,
                                  SourcePlace place, Problems* problems) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most)
    return number;
  problems->Add(
      place, StrCat(what, " cannot be \"", Printable(text), "\"; write a number from ", least, " to ", most));
  return std::nullopt;
}

}  // namespace harrow::formats
