#include "options.h"

#include <stdio.h>
#include <string.h>

#include "log.h"

namespace harrow::plugin {
namespace {

enum Option { kUse, kOrder, kFilesOption };
Request request;

// Where the user typed it a wrong value is refused; on a node it has no effect.
int OnOption(int option, const char* value, int remote) {
  if (option == kUse) {
    request.used = true;
    return 0;
  }
  std::string_view text = value != nullptr ? value : "";
  bool good = option == kOrder ? IsOrder(text) : IsFiles(text);
  if (!good) {
    if (remote) return 0;
    LogError("%s %s: %s", option == kOrder ? "--harrow-order" : "--harrow-files",
             value != nullptr ? value : "",
             option == kOrder ? "it is one of auto, fifo, lifo, hrf, lifo+hrf, rank+hrf, cost" : "it is shared or local");
    return -1;
  }
  char* to = option == kOrder ? request.order : request.files;
  memcpy(to, text.data(), text.size());
  to[text.size()] = '\0';
  request.used = true;
  return 0;
}

}  // namespace

const Request& CurrentRequest() {
  return request;
}

void RegisterOptions(spank_t spank) {
  // Slurm's declarations lack const; it does not write there.
  static spank_option options[] = {
      {const_cast<char*>("harrow"), nullptr,
       const_cast<char*>("run Harrow in this job: a private local directory on its nodes (HARROW_LOCAL), "
                         "cleared at its end"),
       0, kUse, OnOption},
      {const_cast<char*>("harrow-order"), const_cast<char*>("order"),
       const_cast<char*>("as --harrow; default order of its runs: auto, fifo, lifo, hrf, lifo+hrf, rank+hrf, cost"), 1,
       kOrder, OnOption},
      {const_cast<char*>("harrow-files"), const_cast<char*>("where"),
       const_cast<char*>("as --harrow; where files between tasks lie by default: shared, local"), 1,
       kFilesOption, OnOption},
  };
  for (spank_option& option : options) {
    if (spank_err_t error = spank_option_register(spank, &option); error != ESPANK_SUCCESS) {
      LogNotice("--%s is not available: %s", option.name, spank_strerror(error));
    }
  }
}

void ExportSettings(spank_t spank, const Policy& policy, const Request& user, SetVariable set) {
  char text[64];
  if (policy.local_limit > 0) {
    snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(policy.local_limit));
    set(spank, "HARROW_SITE_LOCAL_LIMIT", text);
  }
  if (policy.port_first > 0) {
    snprintf(text, sizeof text, "%u-%u", policy.port_first, policy.port_last);
    set(spank, "HARROW_SITE_PORTS", text);
  }
  if (policy.tasks_per_node > 0) {
    snprintf(text, sizeof text, "%u", policy.tasks_per_node);
    set(spank, "HARROW_SITE_TASKS_PER_NODE", text);
  }
  if (policy.move_partitions[0] != '\0') set(spank, "HARROW_SITE_MOVE_PARTITIONS", policy.move_partitions);
  if (policy.order[0] != '\0') set(spank, "HARROW_SITE_ORDER", policy.order);
  if (policy.files[0] != '\0') set(spank, "HARROW_SITE_FILES", policy.files);
  if (user.order[0] != '\0') set(spank, "HARROW_ORDER", user.order);
  if (user.files[0] != '\0') set(spank, "HARROW_FILES", user.files);
}

}  // namespace harrow::plugin
