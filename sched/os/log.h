#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "os/posix_files.h"

namespace harrow::os {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Where this process logs: a file, 0600, that is appended to. Before this call: standard error, warnings and worse.
Status OpenLog(const std::string& path, LogLevel level = LogLevel::kInfo);
/// The same, to a descriptor, close-on-exec, open for appending.
Status OpenLog(Fd file, LogLevel level = LogLevel::kInfo);
void Log(LogLevel level, std::string_view message);
/// Compose messages with StrCat: LogInfo(StrCat("node ", name, " joined")).
inline void LogInfo(std::string_view m) { Log(LogLevel::kInfo, m); }
inline void LogWarning(std::string_view m) { Log(LogLevel::kWarning, m); }
inline void LogError(std::string_view m) { Log(LogLevel::kError, m); }

}  // namespace harrow::os
