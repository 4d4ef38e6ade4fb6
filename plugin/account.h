#pragma once

#include <stdint.h>
#include <string_view>

namespace harrow::plugin {

/// What a run left about itself in the job's directory (run_account_format.md).
struct RunAccount {
  char run[65] = "";
  uint64_t tasks;
  uint64_t core_seconds;
};

/// Reads the text of such a file. False when it is anything else: a user may write what he likes there.
bool ParseRunAccount(std::string_view text, RunAccount* account);

/// `name` with everything but letters, digits and ._@- replaced, fit for a log line.
void CleanName(const char* name, char* out, unsigned long size);

/// Logs a line for each run that left an account in the open directory `directory`, to syslog.
void LogRuns(int directory, uint32_t job, uint32_t uid, const char* user);

}  // namespace harrow::plugin
