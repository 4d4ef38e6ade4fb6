#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/load.h"

namespace harrow::formats {

/// The settings of a file of them (harrow.conf), as they stand there: a TOML table of texts, numbers and
/// flags. `check` knows the settings. kInvalid: a line a problem, "NAME:LINE:COLUMN: what; what would be
/// right".
Result<std::vector<FlowSetting>> ReadSettingsFile(
    std::string_view name, std::string_view text,
    const std::function<Status(std::string_view key, std::string_view value)>& check);

}  // namespace harrow::formats
