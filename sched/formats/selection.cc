#include "formats/selection.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "formats/problems.h"

namespace harrow::formats {
namespace {

std::string Suggestion(const graph::Graph& graph, const std::string& target) {
  std::vector<std::string_view> names;
  for (uint32_t n = 0; n < graph.task_count() && names.size() < 20'000; ++n) {
    if (const std::string_view name = graph.given_name(TaskId(n)); !name.empty()) names.push_back(name);
  }
  for (uint32_t n = 0; n < graph.file_count() && names.size() < 40'000; ++n) {
    if (graph.producer(FileId(n))) names.push_back(graph.file_name(FileId(n)));
  }
  const auto near = Suggest(target, names);
  return near ? StrCat("; did you mean \"", Printable(*near), "\"?")
              : "; name a task (a line of a line file by its number: #12), or a file that some task makes";
}

/// Times of files, asked once each.
class FileTimes {
 public:
  FileTimes(const graph::Graph& graph, os::FileSystem& fs, const std::string& directory)
      : graph_(graph),
        fs_(fs),
        directory_(directory),
        known_(graph.file_count()),
        times_(graph.file_count()) {}
  std::optional<WallTime> Of(FileId file) {
    if (!known_[file.value]) {
      known_[file.value] = true;
      const std::string name(graph_.file_name(file));
      const bool relative = !name.starts_with("/") && !directory_.empty();
      if (Result<os::FileInfo> info = fs_.Stat(relative ? StrCat(directory_, "/", name) : name))
        times_[file.value] = info->modified;
    }
    return times_[file.value];
  }

 private:
  const graph::Graph& graph_;
  os::FileSystem& fs_;
  const std::string& directory_;
  std::vector<bool> known_;
  std::vector<std::optional<WallTime>> times_;
};

}  // namespace

Result<std::vector<bool>> SelectTargets(const graph::Graph& graph, const std::vector<std::string>& targets) {
  std::vector<TaskId> wanted;
  std::string problems;
  for (const std::string& target : targets) {
    std::optional<TaskId> task = graph.FindTask(target);
    const std::optional<FileId> file = graph.FindFile(target);
    if (!task && file && graph.producer(*file)) task = graph.producer(*file);
    if (task) {
      wanted.push_back(*task);
      continue;
    }
    problems += StrCat(
        problems.empty() ? "" : "\n", "--target: ",
        file ? StrCat("no task makes \"", Printable(target), "\": it is only read; name what is made from it")
             : StrCat("there is no task \"", Printable(target), "\"", Suggestion(graph, target)));
  }
  if (!problems.empty()) return Status(Code::kInvalid, problems);
  return graph::NeededFor(graph, wanted);
}

Result<std::vector<bool>> SelectStale(const graph::Graph& graph, os::FileSystem& fs,
                                      const std::string& directory) {
  std::vector<bool> stale(graph.task_count(), false);
  FileTimes times(graph, fs, directory);
  Problems problems(&graph, 20);
  for (TaskId task : graph::PrerequisitesFirst(graph)) {
    bool runs = graph.outputs(task).empty();
    for (TaskId before : graph.predecessors(task))
      runs = runs || (stale[before.value] && !graph.OnlyWaits(before, task));
    std::optional<WallTime> oldest;
    for (FileId file : graph.outputs(task)) {
      if (runs) break;
      const std::optional<WallTime> time = times.Of(file);
      runs = !time;
      if (time) oldest = std::min(oldest.value_or(*time), *time);
    }
    for (FileId file : graph.inputs(task)) {
      if (runs && graph.producer(file)) continue;
      const std::optional<WallTime> time = times.Of(file);
      if (!time && !graph.producer(file)) {
        problems.Add(graph.place(task), StrCat("task \"", Printable(graph.TaskName(task)), "\" needs \"",
                                               Printable(graph.file_name(file)),
                                               "\", which does not exist and no task makes; create it"));
        if (problems.full()) return problems.status();
        continue;
      }
      // What an up-to-date task made and somebody removed since has to be made again: that task found it
      // missing itself.
      runs = runs || !time || *time > *oldest;
    }
    stale[task.value] = runs;
  }
  if (!problems.empty()) return problems.status();
  return stale;
}

}  // namespace harrow::formats
