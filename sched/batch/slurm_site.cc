#include "batch/slurm_site.h"

#include <algorithm>
#include <charconv>

#include "base/number.h"
#include "base/text.h"

namespace harrow::batch {
namespace {

bool IsNameLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

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
  while (!partitions.empty()) {
    size_t comma = std::min(partitions.find(','), partitions.size());
    if (comma > 0) policy.move_partitions.emplace_back(partitions.substr(0, comma));
    partitions.remove_prefix(std::min(comma + 1, partitions.size()));
  }
  return policy;
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
