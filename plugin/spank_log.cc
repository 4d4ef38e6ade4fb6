#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>

#include "log.h"

namespace harrow::plugin {
namespace {

constexpr int kLine = 1024;

}  // namespace

void LogError(const char* format, ...) {
  char line[kLine];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  slurm_error("harrow: %s", line);
}

void LogNotice(const char* format, ...) {
  char line[kLine];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  slurm_info("harrow: %s", line);
}

}  // namespace harrow::plugin
