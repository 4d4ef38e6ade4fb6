#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace harrow::os {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Where this process logs (spdlog): a file of the run directory, 0600. Before this call: standard error, warnings and worse.
Status OpenLog(const std::string& path, LogLevel level = LogLevel::kInfo);
void Log(LogLevel level, std::string_view message);
/// Compose messages with StrCat: LogInfo(StrCat("node ", name, " joined")).
inline void LogInfo(std::string_view m) { Log(LogLevel::kInfo, m); }
inline void LogWarning(std::string_view m) { Log(LogLevel::kWarning, m); }
inline void LogError(std::string_view m) { Log(LogLevel::kError, m); }

}  // namespace harrow::os
