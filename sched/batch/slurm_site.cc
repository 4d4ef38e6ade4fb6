#include "batch/slurm_site.h"

#include <algorithm>
#include <charconv>
#include <glob.h>
#include <sstream>

#include "base/number.h"
#include "base/text.h"
#include "batch/slurm_query.h"

namespace harrow::batch {
namespace {

bool IsNameLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

std::vector<std::string> ListOf(std::string_view names) {
  std::vector<std::string> list;
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (comma > 0) list.emplace_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return list;
}

constexpr int kMostIncludes = 8;  // deep
constexpr Duration kSlurmWithin = std::chrono::seconds(10);

}  // namespace

SitePolicy ReadSitePolicy(const Environment& environment) {
  SitePolicy policy;
  auto variable = [&](std::string_view name) {
    auto it = environment.find(name);
    return it == environment.end() ? std::string_view() : std::string_view(it->second);
  };
  if (std::string_view local = variable("HARROW_LOCAL"); local.starts_with('/')) policy.local = local;
  ReadNumber(variable("HARROW_SITE_LOCAL_LIMIT"), &policy.local_limit);
  ReadNumber(variable("HARROW_SITE_TASKS_PER_NODE"), &policy.tasks_per_node);
  std::string_view ports = variable("HARROW_SITE_PORTS");
  if (size_t dash = ports.find('-'); dash != std::string_view::npos) {
    uint16_t first = 0, last = 0;
    if (ReadNumber(ports.substr(0, dash), &first) && ReadNumber(ports.substr(dash + 1), &last) && first > 0 &&
        first <= last) {
      policy.port_first = first;
      policy.port_last = last;
    }
  }
  std::string_view partitions = variable("HARROW_SITE_MOVE_PARTITIONS");
  policy.move_partitions = ListOf(partitions);
  return policy;
}

std::vector<std::string> MovePartitions(const std::string& plugstack, const std::function<Result<std::string>(const std::string&)>& read,
                                        const std::function<std::vector<std::string>(const std::string&)>& match) {
  std::vector<std::string> partitions;
  const std::function<void(const std::string&, int)> look = [&](const std::string& path, int depth) {
    const Result<std::string> text = read(path);
    if (!text.ok()) return;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      std::string kind, file, argument;
      words >> kind >> file;
      if (kind == "include" && depth < kMostIncludes) {
        const bool absolute = file.starts_with('/');
        for (const std::string& each : match(absolute ? file : path.substr(0, path.rfind('/') + 1) + file)) look(each, depth + 1);
      }
      if ((kind != "optional" && kind != "required") || file.substr(file.rfind('/') + 1) != "spank_harrow.so") continue;
      constexpr std::string_view kKey = "move_partitions=";
      while (words >> argument) {
        if (argument.starts_with(kKey)) partitions = ListOf(std::string_view(argument).substr(kKey.size()));
      }
    }
  };
  look(plugstack, 0);
  return partitions;
}

std::vector<std::string> MovePartitionsHere() {
  const Result<std::string> config = RunCommand({"scontrol", "show", "config"}, kSlurmWithin);
  if (!config.ok()) return {};
  std::istringstream lines(*config);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key, equals, path;
    words >> key >> equals >> path;
    if (key != "PlugStackConfig") continue;
    return MovePartitions(
        path, [](const std::string& file) { return os::RealFileSystem().Read(file); },
        [](const std::string& pattern) {
          std::vector<std::string> files;
          glob_t found = {};
          if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
          globfree(&found);
          return files;
        });
  }
  return {};
}

Status LeaveRunAccount(os::FileSystem& fs, const std::string& local, const RunUse& use) {
  if (local.empty()) return Status();
  if (use.run_id.empty() || use.run_id.size() > 100 ||
      !std::all_of(use.run_id.begin(), use.run_id.end(), IsNameLetter)) {
    return Status(Code::kInvalid, StrCat("'", Printable(use.run_id), "' is no run id"));
  }
  std::string name = use.name.substr(0, 64);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '\n' || c == '\0'; }, '_');
  // Not synced: it is read before this machine goes down, or never; and the server must not wait for a disk
  // that its tasks keep busy.
  const std::string temporary = StrCat(local, "/.harrow-new-", use.run_id);
  (void)fs.Remove(temporary);
  Result<std::unique_ptr<os::AppendFile>> file = fs.OpenAppend(temporary, 0600);
  if (!file.ok()) return file.status();
  HARROW_RETURN_IF_ERROR((*file)->Append(StrCat("harrow-run 1\nrun ", name.empty() ? "run" : name, "\ntasks ",
                                                use.tasks, "\ncore_seconds ", use.core_seconds, "\n")));
  return fs.Rename(temporary, StrCat(local, "/.harrow-run-", use.run_id));
}

}  // namespace harrow::batch
