#pragma once

#include <stdint.h>
#include <stdio.h>

namespace harrow::plugin {

/// The name of a file of a job's, its id and what it is, as in "12.job"; of its directory the id alone.
struct JobFile {
  explicit JobFile(uint32_t id, const char* ending = "") { snprintf(text, sizeof text, "%u%s", id, ending); }
  char text[32];
};

}  // namespace harrow::plugin
